//! Helpers of the unit tests.

use std::fs::File;
use std::path::Path;

use windlass_testkit::wait::{self, PATIENCE};

use crate::filesystem;

/// Asks again and again until `ask` returns a value.
///
/// # Panics
/// When it has returned none within [`PATIENCE`].
pub(crate) async fn eventually<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let poll = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, poll)
        .await
        .expect("the condition holds in time")
}

/// Takes a lock that this test has released.
///
/// A process that another test has forked shares the lock until it executes its program, so the
/// lock may be free only a moment later.
pub(crate) fn free_lock(path: &Path) -> File {
    let mut lock = None;
    wait::until("the lock is free", || {
        lock = filesystem::lock(path).expect("the lock file can be opened");
        lock.is_some()
    });
    lock.expect("the wait ends when it is free")
}
