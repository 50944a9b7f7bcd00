//! Tasks that run next to the requests: they measure free disk space, evict idle sessions, finish
//! uploads that a crash interrupted, sweep, and run the handlers' workers.
//!
//! No task is awaited, so a panic that ended one would go unnoticed until the disk is full. A panic
//! therefore ends one round of its task only; the next round comes after the usual pause.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use windlass_store::sweep::{Sweep, SweepError, SweepOptions, Swept};

use crate::error::Error;
use crate::handler::WorkerContext;
use crate::uploads::ServerState;

/// How often the disks are looked at.
const FREE_SPACE_INTERVAL: Duration = Duration::from_secs(1);

/// How often sessions are looked for whose clients have not come back.
const EVICT_INTERVAL: Duration = Duration::from_secs(1);

/// How often sessions that are finishing, but that nobody finishes, are looked for.
const FINISH_INTERVAL: Duration = Duration::from_secs(30);

/// How many finishing sessions are taken at once.
const FINISH_BATCH: usize = 64;

/// Pause before a worker that has panicked begins again.
const WORKER_PAUSE: Duration = Duration::from_secs(60);

/// Starts it all. It ends with the set.
pub(crate) fn spawn(server: &Arc<ServerState>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(watch_free_space(Arc::clone(server)));
    tasks.spawn(evict_idle_sessions(Arc::clone(server)));
    tasks.spawn(finish_interrupted(Arc::clone(server)));
    tasks.spawn(sweep(Arc::clone(server)));
    for worker in server.registry.workers() {
        let context = WorkerContext::new(server.store_handles.clone(), Arc::clone(&server.clock));
        tasks.spawn(restart_after_panics(move || {
            let (worker, context) = (Arc::clone(&worker), context.clone());
            async move { worker.run(context).await }
        }));
    }
    tasks
}

/// What `round` returns; `None` when it panics, which the log tells.
async fn catch_panic<T>(task: &str, round: impl Future<Output = T>) -> Option<T> {
    let survived = AssertUnwindSafe(round).catch_unwind().await;
    if survived.is_err() {
        tracing::error!(
            task,
            "a panic: this is a bug; the server goes on without this round"
        );
    }
    survived.ok()
}

async fn restart_after_panics<F: Future<Output = ()>>(work: impl Fn() -> F) {
    while catch_panic("worker", work()).await.is_none() {
        tokio::time::sleep(WORKER_PAUSE).await;
    }
}

/// Notes how much room there is.
pub(crate) async fn check_free_space(server: &ServerState) {
    server.disks.refresh(&*server.ledger, &*server.vault).await;
}

async fn watch_free_space(server: Arc<ServerState>) {
    loop {
        tokio::time::sleep(FREE_SPACE_INTERVAL).await;
        catch_panic("watch over the disks", check_free_space(&server)).await;
    }
}

/// Closes what is kept open for clients that do not come back, and frees buffers that no upload has used for a while.
async fn evict_idle_sessions(server: Arc<ServerState>) {
    loop {
        tokio::time::sleep(EVICT_INTERVAL).await;
        let cool = async {
            server.session_cache.forget_old(server.clock.now());
            server.buffer_pool.free_if_unused();
        };
        catch_panic("idle sessions", cool).await;
    }
}

/// Finishing is a state that is completed whatever happens: at the start what a crash left, later
/// what a passing fault left.
async fn finish_interrupted(server: Arc<ServerState>) {
    loop {
        if let Some(Err(error)) = catch_panic("unfinished uploads", finish_all(&server)).await {
            server.lifecycle.examine(&error);
            tracing::warn!(%error, "unfinished uploads could not be finished");
        }
        tokio::time::sleep(FINISH_INTERVAL).await;
    }
}

async fn finish_all(server: &Arc<ServerState>) -> Result<(), Error> {
    let mut after = None;
    loop {
        let batch = server.ledger.finishing(after, FINISH_BATCH).await?;
        let Some(last) = batch.last().copied() else {
            return Ok(());
        };
        for id in batch {
            let finished =
                catch_panic("an unfinished upload", server.finish_interrupted_upload(id));
            if let Some(Err(error)) = finished.await {
                server.lifecycle.examine(&error);
                tracing::warn!(session = ?id, %error, "an upload could not be finished");
            }
        }
        after = Some(last);
    }
}

/// Forgets sessions that have died and deletes media that nothing refers to, a little at a time.
async fn sweep(server: Arc<ServerState>) {
    let mut sweep = Sweep::new(SweepOptions::default());
    let mut throttle = SweepThrottle::default();
    loop {
        let (now, begun) = (server.clock.now(), Instant::now());
        sweep.set_ledger_batch(throttle.batch_size());
        let step = sweep.step(&*server.ledger, &*server.vault, now);
        let pause = match catch_panic("sweep", step).await {
            Some(Ok(swept)) => {
                report(&swept);
                throttle.after(&swept, begun.elapsed())
            }
            None => INTERVAL,
            Some(Err(error)) => {
                match &error {
                    SweepError::Ledger(error) => server.lifecycle.examine_ledger(error),
                    SweepError::Vault(error) => server.lifecycle.examine_vault(error),
                }
                tracing::warn!(%error, "the sweep was interrupted");
                INTERVAL
            }
        };
        rest(pause, &server.lifecycle.sweep_now).await;
    }
}

/// Anyone who deletes or cancels wants the room, soon: that makes a pause shorter, never longer.
async fn rest(pause: Duration, garbage: &Notify) {
    let wanted = async {
        garbage.notified().await;
        tokio::time::sleep(SWEEP_PAUSE).await;
    };
    tokio::time::timeout(pause, wanted).await.ok();
}

fn report(swept: &Swept) {
    if let Some(error) = &swept.failure {
        // With its causes, one of which is that a backup holds the media.
        let (failed, error) = (swept.failed, error as &dyn std::error::Error);
        tracing::warn!(
            failed,
            error,
            "media could not be deleted; the next sweep tries again"
        );
    }
    if swept.expired + swept.garbage + swept.orphans > 0 {
        let &Swept {
            expired,
            garbage,
            orphans,
            ..
        } = swept;
        tracing::debug!(expired, garbage, orphans, "swept");
    }
}

/// Pause after a sweep has come to its end.
const INTERVAL: Duration = Duration::from_secs(60);

/// Pause between steps when there is little to do.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

/// Pause while a lot has to be deleted.
const MIN_PAUSE: Duration = Duration::from_millis(20);

/// A step may take so long: half of what a request may.
const STEP: Duration = Duration::from_millis(25);

/// How many sessions and entries a step may handle. Fewer than the least would save no time: the commit takes it.
const BITES: std::ops::RangeInclusive<usize> = 64..=256;

/// How much the next step handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SweepThrottle {
    batch_size: usize,
}

impl Default for SweepThrottle {
    fn default() -> Self {
        Self {
            batch_size: *BITES.start(),
        }
    }
}

impl SweepThrottle {
    /// Most sessions, and most entries of the garbage list, for the next step.
    fn batch_size(self) -> usize {
        self.batch_size
    }

    /// The pause after a step that took so long.
    fn after(&mut self, swept: &Swept, took: Duration) -> Duration {
        let was_full = swept.garbage + swept.expired >= self.batch_size;
        let next = match took {
            _ if took > 2 * STEP => self.batch_size / 2,
            _ if took < STEP => self.batch_size * 2,
            _ => self.batch_size,
        };
        self.batch_size = next.clamp(*BITES.start(), *BITES.end());
        if swept.is_done {
            INTERVAL
        } else if was_full {
            took.clamp(MIN_PAUSE, SWEEP_PAUSE)
        } else {
            SWEEP_PAUSE
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_panics_begins_again_after_a_pause() {
        let (begun, runs) = (Instant::now(), Cell::new(0));
        restart_after_panics(async || {
            runs.set(runs.get() + 1);
            assert!(runs.get() == 3, "on purpose");
        })
        .await;
        assert_eq!((runs.get(), begun.elapsed()), (3, 2 * WORKER_PAUSE));
    }

    #[tokio::test(start_paused = true)]
    async fn who_wants_room_makes_a_pause_shorter_and_never_longer() {
        let haste = Duration::from_millis(20);
        let cases = [
            (haste, false, haste),
            (haste, true, haste),
            (INTERVAL, false, INTERVAL),
            (INTERVAL, true, SWEEP_PAUSE),
        ];
        for (pause, is_wanted, expected) in cases {
            let garbage = Notify::new();
            if is_wanted {
                garbage.notify_one();
            }
            let begun = Instant::now();
            rest(pause, &garbage).await;
            assert_eq!(begun.elapsed(), expected, "{pause:?}, wanted: {is_wanted}");
        }
    }

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn full(throttle: SweepThrottle) -> Swept {
        Swept {
            expired: throttle.batch_size(),
            ..Swept::default()
        }
    }

    #[test]
    fn steps_grow_while_they_are_quick_and_shrink_when_they_are_slow() {
        let mut throttle = SweepThrottle::default();
        for (took, batch_size) in [
            (1, 128),
            (1, 256),
            (1, 256),
            (30, 256),
            (51, 128),
            (90, 64),
            (90, 64),
            (30, 64),
            (24, 128),
        ] {
            throttle.after(&full(throttle), millis(took));
            assert_eq!(throttle.batch_size(), batch_size, "after {took} ms");
        }
    }

    #[test]
    fn between_steps_there_is_as_much_time_as_they_take() {
        for (took, pause) in [(1, 20), (20, 20), (35, 35), (999, 999), (30_000, 1000)] {
            let mut throttle = SweepThrottle::default();
            assert_eq!(throttle.after(&full(throttle), millis(took)), millis(pause));
        }
    }

    #[test]
    fn a_sweep_that_has_little_to_do_is_in_no_hurry() {
        let mut throttle = SweepThrottle::default();
        let walks = Swept {
            expired: throttle.batch_size() - 1,
            ..Swept::default()
        };
        assert_eq!(throttle.after(&walks, millis(1)), SWEEP_PAUSE);
        let done = Swept {
            is_done: true,
            ..Swept::default()
        };
        assert_eq!(throttle.after(&done, millis(1)), INTERVAL);
    }
}
