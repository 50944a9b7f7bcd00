//! The system's clock and random numbers. Waits use tokio's clock instead, which tests control.

use std::time::SystemTime;

/// Returns the time of day.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}

/// Returns 32 random bits.
pub(crate) fn random() -> u32 {
    getrandom::u32().expect("the system has random numbers")
}
