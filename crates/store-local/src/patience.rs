//! For tests: what comes to pass beside them, sooner or later.

use std::fs::File;
use std::path::Path;

use windlass_testkit::wait::{self, PATIENCE};

use crate::filesystem;

/// Waits until there is an answer.
pub(crate) async fn soon<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let until_there_is = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, until_there_is)
        .await
        .expect("there is one in the end")
}

/// Takes a lock that this test has given back. A process that another test starts has it, too, until it runs its
/// program.
pub(crate) fn free_lock(path: &Path) -> File {
    let mut lock = None;
    wait::until("the lock is free", || {
        lock = filesystem::lock(path).expect("it can be asked for");
        lock.is_some()
    });
    lock.expect("it is free")
}
