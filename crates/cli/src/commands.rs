//! The commands, a room each.

pub(crate) mod serve;
