//! Waiting for another thread or process.
//!
//! A test never assumes that an event has happened by some moment. It polls until the event has
//! happened, with one time limit that is longer than any machine needs.

use std::thread;
use std::time::{Duration, Instant};

/// How long a test waits before it fails. Tests that pass do not wait this long.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// How often a wait looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Waits until this holds.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::sleep(LOOK_AGAIN);
    }
}

/// Does something that may block, in a separate thread. Returns `None` if it does not end in time.
pub fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(limit).ok()
}
