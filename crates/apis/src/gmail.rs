//! The Gmail API.

pub mod mime;
