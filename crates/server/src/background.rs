//! What the server does besides answering: it watches the disk, finishes what a crash left
//! unfinished, sweeps, and lets the kinds' workers work.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use windlass_store::sweep::{Sweep, SweepError, SweepOptions, Swept};

use crate::error::Error;
use crate::kind::Desk;
use crate::uploads::House;

/// How often the disk is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How long the disk may take to say how full it is.
const LOOK_TIMEOUT: Duration = Duration::from_secs(5);

/// How often sessions that are finishing, but that nobody finishes, are looked for.
const FINISH_INTERVAL: Duration = Duration::from_secs(30);

/// How many finishing sessions are taken at once.
const FINISH_BATCH: usize = 64;

/// Pause after a sweep has come to its end.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Pause between the steps of a sweep, so that it never competes with requests.
const SWEEP_PACE: Duration = Duration::from_secs(1);

/// Pause while a lot has to be deleted.
const SWEEP_HASTE: Duration = Duration::from_millis(20);

/// Starts it all. It ends with the set.
pub(crate) fn spawn(house: &Arc<House>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(watch_the_disk(Arc::clone(house)));
    tasks.spawn(finish_left_overs(Arc::clone(house)));
    tasks.spawn(sweep(Arc::clone(house)));
    for worker in house.registry.workers() {
        let desk = Desk::new(house.shelf.clone(), Arc::clone(&house.clock));
        tasks.spawn(async move { worker.run(desk).await });
    }
    tasks
}

/// Notes how much room there is.
pub(crate) async fn look_at_the_disk(house: &House) {
    match tokio::time::timeout(LOOK_TIMEOUT, house.vault.space()).await {
        Ok(Ok(space)) => house.vitals.note_space(space, &house.settings.free_space),
        Ok(Err(error)) => tracing::warn!(%error, "the disk does not say how full it is"),
        Err(_) => tracing::warn!("the disk does not answer"),
    }
}

async fn watch_the_disk(house: Arc<House>) {
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        look_at_the_disk(&house).await;
    }
}

/// Finishing is a state that is completed whatever happens: at the start what a crash left, later
/// what a passing fault left.
async fn finish_left_overs(house: Arc<House>) {
    loop {
        if let Err(error) = finish_all(&house).await {
            house.examine(&error);
            tracing::warn!(%error, "unfinished uploads could not be finished");
        }
        tokio::time::sleep(FINISH_INTERVAL).await;
    }
}

async fn finish_all(house: &Arc<House>) -> Result<(), Error> {
    let mut after = None;
    loop {
        let batch = house.ledger.finishing(after, FINISH_BATCH).await?;
        let Some(last) = batch.last().copied() else {
            return Ok(());
        };
        for id in batch {
            if let Err(error) = house.finish_left_over(id).await {
                house.examine(&error);
                tracing::warn!(session = ?id, %error, "an upload could not be finished");
            }
        }
        after = Some(last);
    }
}

/// Forgets sessions that have died and deletes media that nothing refers to, a little at a time.
async fn sweep(house: Arc<House>) {
    let options = SweepOptions::default();
    let mut sweep = Sweep::new(options);
    loop {
        let now = house.clock.now();
        let pause = match sweep.step(&*house.ledger, &*house.vault, now).await {
            Ok(swept) => {
                report(&swept);
                pause_after(&swept, options)
            }
            Err(error) => {
                match &error {
                    SweepError::Ledger(error) => house.vitals.examine_ledger(error),
                    SweepError::Vault(error) => house.vitals.examine_vault(error),
                }
                tracing::warn!(%error, "the sweep was interrupted");
                SWEEP_INTERVAL
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            // Whoever deletes or cancels wants the room.
            () = house.garbage.notified() => tokio::time::sleep(SWEEP_PACE).await,
        }
    }
}

fn pause_after(swept: &Swept, options: SweepOptions) -> Duration {
    if swept.is_done {
        SWEEP_INTERVAL
    } else if swept.garbage + swept.expired >= options.batch {
        SWEEP_HASTE
    } else {
        SWEEP_PACE
    }
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
