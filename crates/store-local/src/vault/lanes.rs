//! Blocking work, in lanes that cannot take each other's threads.
//!
//! Nearly all of it runs on tokio's blocking threads, of which there are 512. A disk that has become slow
//! would soon have them all waiting in fdatasync; so each kind of work has its own number of them,
//! and what is beyond waits as a future, without a thread. A large write that is alone holds a worker of
//! the runtime instead, whose place a blocking thread takes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use windlass_store::Cause;

/// The lanes of the vault.
///
/// Syncs profit from going together, as the file system puts their journal commits into one: 32
/// at once were three times as fast as one after another, and more than that gave nothing.
/// Direct writes wait for the disk, which is busy with sixteen of them. Other writes and reads mostly end in the
/// page cache; they need a thread for each processor and some for those that wait.
#[derive(Debug)]
pub(super) struct Lanes {
    /// Syncs, and the last write before one.
    pub(super) sync: Lane,
    /// Syncs that nobody waits for, and that shall not be waited for.
    pub(super) write_back: Lane,
    /// Writes past the page cache.
    pub(super) direct: Lane,
    /// Other writes, and what is as quick: reopening, deleting.
    pub(super) write: Lane,
    pub(super) read: Lane,
}

impl Lanes {
    pub(super) fn new() -> Self {
        Self {
            sync: Lane::new(32),
            write_back: Lane::new(8),
            direct: Lane::new(16),
            write: Lane::new(32),
            read: Lane::new(32),
        }
    }

    /// Runs a direct write: promptly, unless there are many syncs. Where there are, many upload, and a worker that is
    /// held up falls behind them all: what they send meanwhile waits in memory.
    ///
    /// # Errors
    /// As those of [`Lane::run`].
    pub(super) async fn run_direct<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Cause> {
        if self.sync.taken() > FEW_SYNCS {
            self.direct.run(work).await
        } else {
            self.direct.run_promptly(work).await
        }
    }
}

/// An upload that is alone has one on its way at the most, beside its writes.
const FEW_SYNCS: usize = 1;

/// Work has ended before its time. What it said is on standard error.
#[derive(Debug, thiserror::Error)]
#[error("work on a file panicked")]
struct Panicked;

/// A bounded number of blocking threads.
#[derive(Debug, Clone)]
pub(super) struct Lane {
    places: Arc<Semaphore>,
    width: usize,
}

impl Lane {
    fn new(width: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(width)),
            width,
        }
    }

    /// Runs `work`. Once begun it runs to its end, also when the future is dropped.
    ///
    /// # Errors
    /// When the work panicked, or the runtime is going down.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Cause> {
        run_with(self.permit().await, work).await
    }

    /// As [`Lane::run`]. When nothing else runs in the lane, no thread is woken for it: where all processors are busy,
    /// that one would wait for its turn, while the disk has nothing to do. The work is done where it is asked for then.
    /// Other tasks go on with another thread, for which there has to be room among the blocking ones; what belongs to
    /// the same task waits. A runtime that has but one thread uses a blocking one, as always.
    ///
    /// # Errors
    /// As those of [`Lane::run`].
    pub(super) async fn run_promptly<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Cause> {
        let is_idle = self.taken() == 0;
        let permit = self.permit().await;
        if !is_idle || Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
            return run_with(permit, work).await;
        }
        let work = AssertUnwindSafe(|| tokio::task::block_in_place(work));
        let done = catch_unwind(work).map_err(|_| Arc::new(Panicked) as Cause);
        drop(permit);
        done
    }

    /// How many run.
    fn taken(&self) -> usize {
        self.width - self.places.available_permits()
    }

    async fn permit(&self) -> OwnedSemaphorePermit {
        let permit = Arc::clone(&self.places).acquire_owned().await;
        permit.expect("the semaphore is never closed")
    }

    /// Begins `work`, for whose end nobody waits, if a thread is free. Whether it has begun.
    pub(super) fn begin(&self, work: impl FnOnce() + Send + 'static) -> bool {
        let permit = Arc::clone(&self.places).try_acquire_owned();
        permit.map(|permit| spawn(permit, work)).is_ok()
    }
}

async fn run_with<T: Send + 'static>(
    permit: OwnedSemaphorePermit,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Cause> {
    let task = spawn(permit, work);
    task.await.map_err(|error| Arc::new(error) as Cause)
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
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// Nobody waits so long but in a test that fails.
    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn nothing_is_begun_while_no_thread_is_free() {
        let lane = Lane::new(1);
        let (let_go, held) = mpsc::channel::<()>();
        assert!(lane.begin(move || held.recv().unwrap_or_default()));
        assert!(!lane.begin(|| ()));
        drop(let_go);
        assert_eq!(lane.run(|| 3).await.unwrap(), 3);
    }

    /// The only worker waits in a lane for a task that needs a worker.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_runs_promptly_holds_up_no_other_task() {
        let lane = Lane::new(1);
        let (say, heard) = mpsc::channel();
        let work = move || (heard.recv_timeout(LONG), thread::current().id());
        let waits = tokio::spawn(async move {
            let asked = thread::current().id();
            let (told, worked) = lane.run_promptly(work).await.unwrap();
            (told, worked == asked)
        });
        let says = tokio::spawn(async move { say.send("go on") });
        assert_eq!(waits.await.unwrap(), (Ok("go on"), true));
        says.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn the_only_thread_of_a_runtime_is_not_used() {
        let worked = Lane::new(1).run_promptly(|| thread::current().id()).await;
        assert_ne!(worked.unwrap(), thread::current().id());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_has_company_gets_a_thread() {
        let lane = Lane::new(2);
        let (let_go, held) = mpsc::channel::<()>();
        assert!(lane.begin(move || held.recv().unwrap_or_default()));
        let worked = lane.run_promptly(|| thread::current().id()).await;
        assert_ne!(worked.unwrap(), thread::current().id());
        drop(let_go);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_direct_write_is_prompt_where_there_are_few_syncs() {
        let runs_here = async |lanes: &Lanes| {
            let worked = lanes.run_direct(|| thread::current().id()).await;
            worked.unwrap() == thread::current().id()
        };
        let tries = tokio::spawn(async move {
            let lanes = Lanes::new();
            let mut seen = Vec::new();
            let mut held = Vec::new();
            for _ in 0..=FEW_SYNCS + 1 {
                seen.push(runs_here(&lanes).await);
                let (let_go, waits) = mpsc::channel::<()>();
                assert!(lanes.sync.begin(move || waits.recv().unwrap_or_default()));
                held.push(let_go);
            }
            seen
        });
        let mut expected = vec![true; FEW_SYNCS + 1];
        expected.push(false);
        assert_eq!(tries.await.unwrap(), expected);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_place_is_taken_while_work_runs_however_it_runs() {
        let lane = Lane::new(1);
        let (let_go, held) = mpsc::channel::<()>();
        let (enter, inside) = tokio::sync::oneshot::channel();
        let work = move || {
            enter.send(()).unwrap();
            held.recv_timeout(LONG)
        };
        let runs = tokio::spawn({
            let lane = lane.clone();
            async move { lane.run_promptly(work).await }
        });
        inside.await.unwrap();
        assert!(!lane.begin(|| ()));
        drop(let_go);
        runs.await.unwrap().unwrap().unwrap_err();
        assert!(lane.begin(|| ()));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_panic_is_told_and_gives_the_place_back() {
        let lane = Lane::new(1);
        lane.run_promptly(|| panic!("on purpose"))
            .await
            .unwrap_err();
        lane.run(|| panic!("on purpose")).await.unwrap_err();
        assert_eq!(lane.run_promptly(|| 1).await.unwrap(), 1);
    }
}
