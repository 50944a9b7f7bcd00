//! Blocking work, in pools that cannot take each other's threads.
//!
//! All of it runs on tokio's blocking threads, of which there are 512. A disk that has become slow
//! would soon have them all waiting in fdatasync; so each kind of work has its own number of them,
//! and what is beyond waits as a future, without a thread.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use windlass_store::Cause;

/// The pools of the vault.
///
/// Syncs profit from going together, as the file system puts their journal commits into one: 32
/// at once were three times as fast as one after another, and more than that gave nothing.
/// Direct writes wait for the disk, which is busy with sixteen of them. Other writes and reads mostly end in the
/// page cache; they need a thread for each processor and some for those that wait.
#[derive(Debug)]
pub(super) struct IoPools {
    /// Syncs, and the last write before one.
    pub(super) sync: BlockingPool,
    /// Syncs that nobody waits for, and that shall not be waited for.
    pub(super) write_back: BlockingPool,
    /// Writes past the page cache.
    pub(super) direct: BlockingPool,
    /// Other writes, and what is as quick: reopening, deleting.
    pub(super) write: BlockingPool,
    pub(super) read: BlockingPool,
}

impl IoPools {
    pub(super) fn new() -> Self {
        Self {
            sync: BlockingPool::new(32),
            write_back: BlockingPool::new(8),
            direct: BlockingPool::new(16),
            write: BlockingPool::new(32),
            read: BlockingPool::new(32),
        }
    }
}

/// A bounded number of blocking threads.
#[derive(Debug, Clone)]
pub(super) struct BlockingPool(Arc<Semaphore>);

impl BlockingPool {
    fn new(width: usize) -> Self {
        Self(Arc::new(Semaphore::new(width)))
    }

    /// Runs `work`. Once begun it runs to its end, also when the future is dropped.
    ///
    /// # Errors
    /// When the work panicked, or the runtime is going down.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Cause> {
        let permit = Arc::clone(&self.0).acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        let task = spawn(permit, work);
        task.await.map_err(|error| Arc::new(error) as Cause)
    }

    /// Begins `work`, for whose end nobody waits, if a thread is free. Whether it has begun.
    pub(super) fn begin(&self, work: impl FnOnce() + Send + 'static) -> bool {
        let permit = Arc::clone(&self.0).try_acquire_owned();
        permit.map(|permit| spawn(permit, work)).is_ok()
    }
}

fn spawn<T: Send + 'static>(
    permit: OwnedSemaphorePermit,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    tokio::task::spawn_blocking(move || {
        let done = work();
        drop(permit);
        done
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn nothing_is_begun_while_no_thread_is_free() {
        let lane = BlockingPool::new(1);
        let (let_go, held) = mpsc::channel::<()>();
        assert!(lane.begin(move || held.recv().unwrap_or_default()));
        assert!(!lane.begin(|| ()));
        drop(let_go);
        assert_eq!(lane.run(|| 3).await.unwrap(), 3);
    }

    #[tokio::test]
    async fn a_panic_is_told_and_gives_the_place_back() {
        let lane = BlockingPool::new(1);
        lane.run(|| panic!("on purpose")).await.unwrap_err();
        assert_eq!(lane.run(|| 1).await.unwrap(), 1);
    }
}
