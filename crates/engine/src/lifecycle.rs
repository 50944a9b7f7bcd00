//! The lifecycle of a server: fail-stop, drain, and work that outlives its request.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use windlass_store::{LedgerError, Superseded, VaultError};

use crate::error::{Error, FromStore, StoreError};

/// The phases of a server's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    /// The front refuses all requests.
    Built,
    /// Requests are admitted.
    Started,
    /// No new work is begun.
    Draining,
}

/// The phase of a server, and the signals that end its work.
#[derive(Debug)]
pub struct Lifecycle {
    /// Cancelled at the first storage fault: nothing is acknowledged any more.
    failed: CancellationToken,
    /// The [`Phase`].
    phase: AtomicU8,
    /// Tells running uploads to commit their received bytes and to end. [`Lifecycle::drain`] does
    /// not cancel it: whoever stops the server cancels it later, while there is time to commit.
    pub drain_now: CancellationToken,
    /// Tells the sweep that media may have become garbage.
    pub sweep_now: Notify,
    /// Work on uploads that must not be torn when a connection dies.
    pub tasks: TaskTracker,
    /// Requests that have no reply yet.
    requests: TaskTracker,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            failed: CancellationToken::new(),
            phase: AtomicU8::new(Phase::Built as u8),
            drain_now: CancellationToken::new(),
            sweep_now: Notify::new(),
            tasks: TaskTracker::new(),
            requests: TaskTracker::new(),
        }
    }
}

impl Lifecycle {
    /// Runs storage work to its end even if the caller is dropped, and stops the server if the work
    /// meets a storage fault.
    ///
    /// # Errors
    /// The error of the work, or [`Error::Draining`] if the runtime shuts down.
    ///
    /// # Cancel safety
    /// If the future is dropped, a task completes the work.
    ///
    /// # Panics
    /// If the work panics, or outside of a runtime.
    pub async fn run_to_completion<T, E>(
        self: &Arc<Self>,
        work: BoxFuture<'static, Result<T, E>>,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: FromStore + From<Error> + Send + 'static,
    {
        let lifecycle = Arc::clone(self);
        let work = Box::pin(async move {
            let result = work.await;
            if let Err(error) = &result {
                lifecycle.examine(error);
            }
            result
        });
        match DetachOnDrop::new(&self.tasks, work).await {
            Ok(result) => result,
            Err(stopped) => match stopped.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(Error::Draining.into()),
            },
        }
    }

    /// Stops the server if `error` is a storage fault.
    pub fn examine(&self, error: &impl FromStore) {
        match error.store_error() {
            Some(StoreError::Ledger(error)) => self.examine_ledger(error),
            Some(StoreError::Vault(error)) => self.examine_vault(error),
            None => {}
        }
    }

    /// Stops the server if an error of the ledger is a fault.
    pub fn examine_ledger(&self, error: &LedgerError) {
        if let LedgerError::Fault(cause) = error {
            self.fail("ledger", cause);
        }
    }

    /// Stops the server if an error of the vault is a fault. Reports media to the operator that
    /// exists and cannot be used, such as media that everybody can change.
    pub fn examine_vault(&self, error: &VaultError) {
        match error {
            VaultError::Fault(cause) => self.fail("vault", cause),
            // A client that connects again supersedes its own earlier request.
            VaultError::Unavailable { cause, .. } if cause.is::<Superseded>() => {}
            VaultError::Unavailable {
                id: Some(id),
                cause,
            } => {
                tracing::warn!(media = %id, error = %cause, "media cannot be used");
            }
            VaultError::Unavailable { id: None, cause } => {
                tracing::warn!(error = %cause, "the vault cannot be used");
            }
            VaultError::Missing(_) | VaultError::Damaged { .. } | VaultError::NoSpace { .. } => {}
        }
    }

    fn fail(&self, what: &'static str, cause: &windlass_store::Cause) {
        // Logged once: each later request meets the same fault.
        if !self.failed.is_cancelled() {
            tracing::error!(
                store = what,
                error = %cause,
                "storage failed; nothing is acknowledged from now on, the server stops"
            );
        }
        self.failed.cancel();
    }

    /// Whether a storage fault happened.
    pub fn has_failed(&self) -> bool {
        self.failed.is_cancelled()
    }

    /// Resolves at the first storage fault.
    pub async fn failed(&self) {
        self.failed.cancelled().await;
    }

    // Relaxed, here and below: the phase guards no other data, and a request that misses the start
    // of a drain is drained like those before it.

    /// Admits requests from now on. Returns whether the server was not started before.
    pub fn start(&self) -> bool {
        let (from, to) = (Phase::Built as u8, Phase::Started as u8);
        self.phase
            .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Whether the server has been started.
    pub fn is_started(&self) -> bool {
        self.phase.load(Ordering::Relaxed) != Phase::Built as u8
    }

    /// Refuses new work from now on, if the server has been started. Otherwise does nothing: the
    /// server refuses all work, and can still be started.
    pub fn drain(&self) {
        let (from, to) = (Phase::Started as u8, Phase::Draining as u8);
        self.phase
            .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
            .ok();
    }

    /// Whether the server is stopping.
    pub fn is_draining(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == Phase::Draining as u8
    }

    /// Counts a request as running until the token is dropped.
    pub fn begin_request(&self) -> TaskTrackerToken {
        self.requests.token()
    }

    /// Resolves when no request is running.
    pub async fn wait_for_requests(&self) {
        self.requests.close();
        self.requests.wait().await;
    }
}

// An upload of a few KiB needs fewer.
/// Number of polls within [`POLL_WINDOW`] up to which work stays with its request.
const MAX_INLINE_POLLS: u32 = 8;

/// Work that is polled at most [`MAX_INLINE_POLLS`] times in this time belongs to a slow client.
const POLL_WINDOW: Duration = Duration::from_millis(100);

/// Work that completes even if the future that waits for it is dropped.
///
/// The waiting request polls short work itself. A task takes over when the work turns out to be
/// long, or when the request is dropped. A request that is kept and not polled stops its work, and
/// with it blocks its session.
///
/// With a task from the beginning, each step of a short upload would switch from the connection's
/// task to that task and back. For a long upload the switch is worthwhile: one thread reads while
/// another thread computes checksums. For a slow upload it is not worthwhile, and there may be
/// thousands of slow uploads.
struct DetachOnDrop<T: Send + 'static> {
    stage: Stage<T>,
    /// Number of polls since `since`.
    polls: u32,
    since: Instant,
    /// Counts the work as a task from its start, so that a drain waits for inline work as well.
    token: TaskTrackerToken,
    /// Runtime of the task. The request may be dropped outside of one.
    runtime: Handle,
}

enum Stage<T> {
    Inline(BoxFuture<'static, T>),
    Spawned(JoinHandle<T>),
    /// The work is done, or has panicked.
    Done,
}

impl<T: Send + 'static> DetachOnDrop<T> {
    /// Wraps `work`, which `tasks` counts as a task until it is done.
    ///
    /// # Panics
    /// Outside of a runtime.
    fn new(tasks: &TaskTracker, work: BoxFuture<'static, T>) -> Self {
        Self {
            stage: Stage::Inline(work),
            polls: 0,
            since: Instant::now(),
            token: tasks.token(),
            runtime: Handle::current(),
        }
    }

    fn is_inline(&self) -> bool {
        matches!(self.stage, Stage::Inline(_))
    }

    /// Counts a poll. Returns whether there were many in the current window.
    fn is_busy(&mut self) -> bool {
        if self.since.elapsed() >= POLL_WINDOW {
            self.since = Instant::now();
            self.polls = 0;
        }
        self.polls += 1;
        self.polls > MAX_INLINE_POLLS
    }

    /// Spawns a task for the rest of the work, unless it has a task.
    fn detach(&mut self) {
        self.stage = match self.stage.take() {
            Stage::Inline(work) => {
                let tasks = self.token.task_tracker();
                Stage::Spawned(tasks.spawn_on(work, &self.runtime))
            }
            stage => stage,
        };
    }
}

impl<T> Stage<T> {
    fn take(&mut self) -> Self {
        std::mem::replace(self, Self::Done)
    }
}

impl<T: Send + 'static> Future for DetachOnDrop<T> {
    /// Fails if the task has panicked or the runtime shuts down.
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.is_inline() && self.is_busy() {
            self.detach();
        }
        // Taken out first: after a panic nothing may poll the work again.
        let mut stage = self.stage.take();
        let polled = match &mut stage {
            Stage::Inline(work) => work.as_mut().poll(context).map(Ok),
            Stage::Spawned(task) => Pin::new(task).poll(context),
            Stage::Done => panic!("polled after completion"),
        };
        if polled.is_pending() {
            self.stage = stage;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for DetachOnDrop<T> {
    fn drop(&mut self) {
        self.detach();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;

    use futures_util::FutureExt;
    use tokio::sync::mpsc;

    use super::*;

    /// Returns work that receives `words` numbers and returns the last one, and their sender.
    fn echo(tasks: &TaskTracker, words: u32) -> (DetachOnDrop<u32>, mpsc::Sender<u32>) {
        let (say, mut heard) = mpsc::channel(1);
        let work = async move {
            let mut last = 0;
            for _ in 0..words {
                last = heard.recv().await.unwrap_or_default();
            }
            last
        };
        (DetachOnDrop::new(tasks, Box::pin(work)), say)
    }

    #[tokio::test]
    async fn short_work_stays_with_its_request() {
        let tasks = TaskTracker::new();
        let (mut work, say) = echo(&tasks, 1);
        assert!((&mut work).now_or_never().is_none());
        say.try_send(7).unwrap();
        assert_eq!((&mut work).now_or_never().unwrap().unwrap(), 7);
        drop(work);
        assert!(tasks.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn slow_work_stays_with_its_request() {
        let tasks = TaskTracker::new();
        let words = 3 * MAX_INLINE_POLLS;
        let (mut work, say) = echo(&tasks, words);
        for word in 1..=words {
            assert!((&mut work).now_or_never().is_none());
            assert!(work.is_inline());
            say.try_send(word).unwrap();
            if word % (MAX_INLINE_POLLS / 2) == 0 {
                tokio::time::advance(POLL_WINDOW).await;
            }
        }
        assert_eq!((&mut work).now_or_never().unwrap().unwrap(), words);
    }

    #[tokio::test(start_paused = true)]
    async fn long_work_is_moved_to_a_task() {
        let tasks = TaskTracker::new();
        let (mut work, say) = echo(&tasks, 2 * MAX_INLINE_POLLS);
        for word in 0..MAX_INLINE_POLLS {
            assert!((&mut work).now_or_never().is_none());
            assert!(work.is_inline());
            say.try_send(word).unwrap();
        }
        assert!((&mut work).now_or_never().is_none());
        assert!(matches!(work.stage, Stage::Spawned(_)));
        for word in MAX_INLINE_POLLS..2 * MAX_INLINE_POLLS {
            say.send(word).await.unwrap();
        }
        assert_eq!(work.await.unwrap(), 2 * MAX_INLINE_POLLS - 1);
        assert!(tasks.is_empty());
    }

    #[tokio::test]
    async fn work_of_a_dropped_request_completes() {
        let tasks = TaskTracker::new();
        let (mut work, say) = echo(&tasks, 1);
        assert!((&mut work).now_or_never().is_none());
        drop(work);
        assert_eq!(tasks.len(), 1);
        say.send(7).await.unwrap();
        tasks.close();
        tasks.wait().await;
    }

    #[test]
    fn work_dropped_outside_of_a_runtime_completes_in_its_own() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let tasks = TaskTracker::new();
        let (work, say) = runtime.block_on(async { echo(&tasks, 1) });
        drop(work);
        say.try_send(7).unwrap();
        tasks.close();
        runtime.block_on(tasks.wait());
        assert!(say.is_closed());
    }

    #[tokio::test]
    async fn task_tracker_waits_for_inline_work() {
        let tasks = TaskTracker::new();
        let (work, say) = echo(&tasks, 1);
        tasks.close();
        assert!(tasks.wait().now_or_never().is_none());
        say.send(7).await.unwrap();
        work.await.unwrap();
        tasks.wait().await;
    }

    #[tokio::test]
    async fn panic_ends_the_work() {
        let tasks = TaskTracker::new();
        let work = DetachOnDrop::<()>::new(&tasks, Box::pin(async { panic!("on purpose") }));
        let panicked = AssertUnwindSafe(work).catch_unwind().await;
        assert!(panicked.is_err() && tasks.is_empty());
    }
}
