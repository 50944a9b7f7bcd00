//! Tasks that run next to the requests: they measure free disk space, evict idle sessions, finish
//! uploads that a crash interrupted, sweep, and deliver events.
//!
//! Nothing awaits these tasks, so a task that a panic has ended would go unnoticed until the disk
//! is full. A panic therefore ends only one round of its task. The next round follows after the
//! usual pause.
//!
//! Between two rounds a task does not keep the server's stores open, except a ledger that several
//! processes can have open.

mod postponed;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use windlass_engine::FINISH_IDLE;
use windlass_store::sweep::{Sweep, SweepError, SweepOptions, Swept};
use windlass_store::{SessionId, Timestamp};

use crate::error::Error;
use crate::link_uses;
use crate::state::ServerState;

use postponed::Postponed;

/// How often the free space is measured.
const FREE_SPACE_INTERVAL: Duration = Duration::from_secs(1);

/// How often idle sessions are evicted from the cache.
const EVICT_INTERVAL: Duration = Duration::from_secs(1);

/// How often the server looks for interrupted finishes.
const FINISH_INTERVAL: Duration = Duration::from_secs(30);

/// Number of finishing sessions that are read at once.
const FINISH_BATCH: usize = 64;

/// The task of finishing sessions that a crash has interrupted. A session that another process works
/// on is left to that process in any case.
const RECOVERY: &str = "recovery";

/// The task of listing the vault to find media that nothing references.
const VAULT_LISTING: &str = "vault-listing";

// Longer than the pauses between two rounds of a task.
/// How long another process waits if the process that does a task does not go on with it.
const TASK_TERM: Duration = Duration::from_secs(5 * 60);

/// Pause before a worker that has panicked is started again.
const WORKER_PAUSE: Duration = Duration::from_secs(60);

/// The tasks that run next to the requests. They end when this is dropped.
#[derive(Default)]
pub(crate) struct Background {
    tasks: JoinSet<()>,
    /// Workers of the outbox, which end by themselves when the server drains.
    workers: JoinSet<()>,
    has_maintenance: bool,
}

impl Background {
    /// Starts the tasks of this process.
    pub(crate) fn start(&mut self, server: &Arc<ServerState>) {
        let tasks = &mut self.tasks;
        tasks.spawn(watch_free_space(Arc::downgrade(server)));
        tasks.spawn(evict_idle_sessions(Arc::downgrade(server)));
    }

    /// Starts the tasks that maintain the stores, and the workers of the outbox, unless they are
    /// started.
    pub(crate) fn start_maintenance(&mut self, server: &Arc<ServerState>) {
        if std::mem::replace(&mut self.has_maintenance, true) {
            return;
        }
        let tasks = &mut self.tasks;
        tasks.spawn(finish_interrupted(Arc::downgrade(server)));
        tasks.spawn(share_sessions(Arc::downgrade(server)));
        tasks.spawn(sweep(Arc::downgrade(server)));
        tasks.spawn(forget_link_uses(Arc::downgrade(server)));
        let state = Arc::downgrade(server);
        let stores = move || {
            let server = state.upgrade()?;
            Some(server.calls().store_handles.clone())
        };
        let workers = server
            .outbox
            .workers(stores, &server.clock, &server.lifecycle);
        for worker in workers {
            let worker = Arc::new(worker);
            self.workers.spawn(restart_after_panics(move || {
                let worker = Arc::clone(&worker);
                async move { worker.run().await }
            }));
        }
    }

    /// Ends all tasks. Waits for deliveries that have begun, because aborted deliveries would be
    /// repeated.
    pub(crate) async fn shutdown(mut self) {
        self.tasks.shutdown().await;
        while self.workers.join_next().await.is_some() {}
    }
}

/// Runs one round of a task. Logs a panic and returns `None`.
async fn catch_panic<T>(task: &str, round: impl Future<Output = T>) -> Option<T> {
    let survived = AssertUnwindSafe(round).catch_unwind().await;
    if survived.is_err() {
        tracing::error!(
            task,
            "a background task panicked, which is a bug; its next round comes after the usual pause"
        );
    }
    survived.ok()
}

async fn restart_after_panics<F: Future<Output = ()>>(work: impl Fn() -> F) {
    while catch_panic("worker of the outbox", work()).await.is_none() {
        tokio::time::sleep(WORKER_PAUSE).await;
    }
}

/// Measures the free space of the disks, if it is limited.
pub(crate) async fn check_free_space(server: &ServerState) {
    let limits = &server.settings.free_space;
    if limits.soft == 0 && limits.hard == 0 {
        return;
    }
    server
        .stores
        .disks
        .refresh(&*server.stores.ledger, &*server.stores.vault)
        .await;
}

async fn watch_free_space(server: Weak<ServerState>) {
    loop {
        tokio::time::sleep(FREE_SPACE_INTERVAL).await;
        let Some(server) = server.upgrade() else {
            return;
        };
        catch_panic("watch over the disks", check_free_space(&server)).await;
    }
}

/// Evicts idle sessions from the cache, and frees buffers that no upload has used for a while.
async fn evict_idle_sessions(server: Weak<ServerState>) {
    loop {
        tokio::time::sleep(EVICT_INTERVAL).await;
        let Some(server) = server.upgrade() else {
            return;
        };
        let cool = async {
            server.engine.close_idle_sessions(server.clock.now());
            server.engine.parts().buffer_pool.free_if_unused();
        };
        catch_panic("idle sessions", cool).await;
    }
}

/// Finishes sessions in the state *finishing*. At the start these are sessions that a crash left,
/// and later sessions that a transient fault left.
async fn finish_interrupted(server: Weak<ServerState>) {
    let mut postponed = Postponed::default();
    while let Some(server) = server.upgrade() {
        let finish = finish_all(&server, &mut postponed);
        if let Some(Err(error)) = catch_panic("unfinished uploads", finish).await {
            server.lifecycle.examine(&error);
            tracing::warn!(%error, "unfinished uploads could not be finished");
        }
        drop(server);
        tokio::time::sleep(FINISH_INTERVAL).await;
    }
}

/// Shares the sessions with other processes that have the ledger open, if the ledger can have
/// several. It keeps such a ledger open.
async fn share_sessions(server: Weak<ServerState>) {
    loop {
        let Some(server) = server.upgrade() else {
            return;
        };
        let sharing = server.engine.share_sessions();
        drop(server);
        if catch_panic("shared sessions", sharing).await.is_some() {
            return;
        }
        tokio::time::sleep(WORKER_PAUSE).await;
    }
}

async fn finish_all(server: &Arc<ServerState>, postponed: &mut Postponed) -> Result<(), Error> {
    let mut after = None;
    let ledger = &server.stores.ledger;
    if !ledger.acquire_task(RECOVERY, TASK_TERM).await? {
        return Ok(());
    }
    postponed.begin_round(Instant::now());
    loop {
        let batch = ledger.finishing(after, FINISH_BATCH, FINISH_IDLE).await?;
        let Some(last) = batch.last().copied() else {
            return Ok(());
        };
        for id in batch {
            let finish = finish_unless_postponed(server, id, postponed);
            if let Some(Err(error)) = catch_panic("an unfinished upload", finish).await {
                server.lifecycle.examine(&error);
                tracing::warn!(session = ?id, %error, "an upload could not be finished");
            }
        }
        after = Some(last);
    }
}

async fn finish_unless_postponed(
    server: &Arc<ServerState>,
    id: SessionId,
    postponed: &mut Postponed,
) -> Result<(), Error> {
    let Some(session) = server.stores.ledger.session(id).await? else {
        return Ok(());
    };
    let owner = session.owner.clone();
    if postponed.is_waiting(id, owner.as_deref(), Instant::now()) {
        return Ok(());
    }
    let finished = server.engine.finish_interrupted(session).await;
    let finished = finished.map_err(Error::from);
    if finished.as_ref().is_err_and(Error::waits_for_quota) {
        postponed.put_off(id, owner, Instant::now());
    }
    finished
}

/// Deletes the rows of single-use links that are not needed any more.
async fn forget_link_uses(server: Weak<ServerState>) {
    while let Some(server) = server.upgrade() {
        let (now, lifetime) = (server.clock.now(), server.settings.session_lifetime);
        let forget = link_uses::forget(&*server.stores.ledger, now, lifetime);
        let pause = match catch_panic("uses of links", forget).await {
            Some(Ok(link_uses::BATCH)) => SWEEP_PAUSE,
            Some(Ok(_)) | None => INTERVAL,
            Some(Err(error)) => {
                server.lifecycle.examine_ledger(&error);
                tracing::warn!(%error, "uses of links could not be deleted");
                INTERVAL
            }
        };
        drop(server);
        tokio::time::sleep(pause).await;
    }
}

/// Deletes expired sessions and unreferenced media, in small steps.
async fn sweep(server: Weak<ServerState>) {
    let mut sweep = Sweep::new(SweepOptions::default());
    let mut throttle = SweepThrottle::default();
    while let Some(server) = server.upgrade() {
        let (now, begun) = (server.clock.now(), Instant::now());
        sweep.set_ledger_batch(throttle.batch_size());
        let step = sweep_once(&server, &mut sweep, now);
        let pause = match catch_panic("sweep", step).await {
            Some(Ok(swept)) => {
                let expired = swept.expired as u64;
                server.metrics.sessions.expired.inc_by(expired);
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
        let lifecycle = Arc::clone(&server.lifecycle);
        drop(server);
        pause_for(pause, &lifecycle.sweep_now).await;
    }
}

/// Runs the next step of a sweep. One process at a time lists the vault.
async fn sweep_once(
    server: &ServerState,
    sweep: &mut Sweep,
    now: Timestamp,
) -> Result<Swept, SweepError> {
    let (ledger, vault) = (&*server.stores.ledger, &*server.stores.vault);
    sweep.set_lists_vault(ledger.acquire_task(VAULT_LISTING, TASK_TERM).await?);
    sweep.step(ledger, vault, now).await
}

/// Pauses. The pause is shorter if a request has left garbage, because its client may need the
/// space soon.
async fn pause_for(pause: Duration, sweep_now: &Notify) {
    let wanted = async {
        sweep_now.notified().await;
        tokio::time::sleep(SWEEP_PAUSE).await;
    };
    tokio::time::timeout(pause, wanted).await.ok();
}

fn report(swept: &Swept) {
    if let Some(error) = &swept.failure {
        // Logged with its causes. One cause is a backup, during which no media is deleted.
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

/// Pause between two sweeps.
const INTERVAL: Duration = Duration::from_secs(60);

/// Pause between steps when there is little to do.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

/// Minimum pause between steps.
const MIN_PAUSE: Duration = Duration::from_millis(20);

// Half of the acceptable delay of a request.
/// Intended duration of a step.
const STEP_DURATION: Duration = Duration::from_millis(25);

// A smaller step takes hardly less time, because the commit dominates.
/// Number of sessions, and of garbage entries, that a step may handle.
const BATCH_SIZES: std::ops::RangeInclusive<usize> = 64..=256;

/// The pace of the sweep.
///
/// A step shares the ledger's writer and its commit with requests, which may have to wait for the
/// step. On a slow or busy disk the steps become smaller. The pause after a step is at least as
/// long as the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SweepThrottle {
    batch_size: usize,
}

impl Default for SweepThrottle {
    fn default() -> Self {
        Self {
            batch_size: *BATCH_SIZES.start(),
        }
    }
}

impl SweepThrottle {
    /// Maximum number of sessions, and of garbage entries, for the next step.
    fn batch_size(self) -> usize {
        self.batch_size
    }

    /// Adapts to a step that took `took`. Returns the pause after it.
    fn after(&mut self, swept: &Swept, took: Duration) -> Duration {
        let was_full = swept.garbage + swept.expired >= self.batch_size;
        let next = match took {
            _ if took > 2 * STEP_DURATION => self.batch_size / 2,
            _ if took < STEP_DURATION => self.batch_size * 2,
            _ => self.batch_size,
        };
        self.batch_size = next.clamp(*BATCH_SIZES.start(), *BATCH_SIZES.end());
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
    async fn panicked_worker_is_restarted_after_a_pause() {
        let (begun, runs) = (Instant::now(), Cell::new(0));
        restart_after_panics(async || {
            runs.set(runs.get() + 1);
            assert!(runs.get() == 3, "on purpose");
        })
        .await;
        assert_eq!((runs.get(), begun.elapsed()), (3, 2 * WORKER_PAUSE));
    }

    #[tokio::test(start_paused = true)]
    async fn garbage_makes_a_pause_shorter_and_never_longer() {
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
            pause_for(pause, &garbage).await;
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
    fn quick_steps_grow_and_slow_steps_shrink() {
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
    fn pause_is_as_long_as_the_step() {
        for (took, pause) in [(1, 20), (20, 20), (35, 35), (999, 999), (30_000, 1000)] {
            let mut throttle = SweepThrottle::default();
            assert_eq!(throttle.after(&full(throttle), millis(took)), millis(pause));
        }
    }

    #[test]
    fn step_with_little_work_is_followed_by_a_long_pause() {
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
