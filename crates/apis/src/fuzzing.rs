//! Private readers of foreign input, opened for fuzz targets by the feature `fuzzing`.
//!
//! No part of the API: it changes without notice, and no other crate turns the feature on.

pub use crate::drive::DriveQuery;
pub use crate::gmail::{GmailMessage, GmailQuery};
