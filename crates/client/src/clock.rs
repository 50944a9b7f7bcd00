//! The time of day. What waits uses tokio's clock, which tests drive.

use std::time::SystemTime;

/// The time of day.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}
