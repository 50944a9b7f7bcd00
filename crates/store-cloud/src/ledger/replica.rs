//! This process among others: its signs of life, and the sessions that others ask it for.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;
use tokio_postgres::types::Type;
use windlass_store::{SessionId, Timestamp};

use crate::connection::Home;
use crate::failure::Failure;
use crate::rows::{self, Columns};
use crate::sql;
use crate::transaction::{Database, Statement};

/// Time between two signs of life. A replica without one for 6 s has ended.
const BEAT: Duration = Duration::from_secs(2);

/// Time between two looks for requests of other replicas.
const POLL: Duration = Duration::from_millis(250);

/// Number of signs of life between two cleanings.
const BEATS_PER_CLEANING: u32 = 30;

/// The clock of the database, as far as it can be told without asking: the time of the last sign of
/// life, and what has passed since its answer. It is never ahead of the database.
#[derive(Debug)]
pub(super) struct Clock(Mutex<(Timestamp, Instant)>);

impl Clock {
    pub(super) fn new(time: Timestamp) -> Self {
        Self(Mutex::new((time, Instant::now())))
    }

    fn set(&self, time: Timestamp) {
        *self.lock() = (time, Instant::now());
    }

    /// Returns the time after this duration.
    pub(super) fn after(&self, duration: Duration) -> Timestamp {
        let (time, answered) = *self.lock();
        time.saturating_add(answered.elapsed().saturating_add(duration))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (Timestamp, Instant)> {
        self.0.lock().expect("nobody panics while holding it")
    }
}

/// Sessions that other replicas ask for.
#[derive(Debug, Default)]
pub(super) struct Requests {
    sessions: Mutex<BTreeSet<SessionId>>,
    arrived: Notify,
}

impl Requests {
    /// Waits for requests and takes them.
    pub(super) async fn take(&self) -> Vec<SessionId> {
        loop {
            // Made before the look, so that no request is missed in between.
            let arrived = self.arrived.notified();
            let taken = std::mem::take(&mut *self.lock());
            if !taken.is_empty() {
                return taken.into_iter().collect();
            }
            arrived.await;
        }
    }

    fn add(&self, sessions: Vec<SessionId>) {
        if !sessions.is_empty() {
            self.lock().extend(sessions);
            self.arrived.notify_waiters();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<SessionId>> {
        self.sessions
            .lock()
            .expect("nobody panics while holding it")
    }
}

/// Gives signs of life and looks for requests, until it is stopped.
pub(super) async fn live(
    database: Arc<Database>,
    home: Home,
    requests: Arc<Requests>,
    clock: Arc<Clock>,
) {
    let [mut beats, mut polls] = [BEAT, POLL].map(|period| {
        let mut interval = tokio::time::interval(period);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        interval
    });
    let (mut beaten, mut is_well) = (0_u32, true);
    loop {
        let lived = tokio::select! {
            _ = beats.tick() => {
                beaten = beaten.wrapping_add(1);
                let cleans = beaten.is_multiple_of(BEATS_PER_CLEANING);
                beat(&database, home, &clock, cleans).await
            }
            _ = polls.tick() => poll(&database, home, &requests).await,
        };
        match lived {
            Ok(()) if !is_well => tracing::info!("the ledger's database answers again"),
            Err(failure) if is_well => {
                let error = windlass_store::LedgerError::from(failure);
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "the ledger's database does not answer");
                is_well = false;
                continue;
            }
            Err(_) => continue,
            Ok(()) => {}
        }
        is_well = true;
    }
}

async fn beat(database: &Database, home: Home, clock: &Clock, cleans: bool) -> Result<(), Failure> {
    let beat = Statement::new(sql::BEAT)
        .with(home.replica, Type::INT8)
        .with(home.slot, Type::INT2)
        .with(env!("CARGO_PKG_VERSION"), Type::TEXT);
    let beaten = database.change(beat).await?;
    if let Some(row) = beaten.first() {
        clock.set(Columns(row).time("clock")?);
    }
    if cleans {
        for sql in [sql::FORGET_REPLICAS, sql::FORGET_TAKEOVERS] {
            database.change(Statement::new(sql)).await?;
        }
    }
    Ok(())
}

async fn poll(database: &Database, home: Home, requests: &Requests) -> Result<(), Failure> {
    let take = Statement::new(sql::TAKE_REQUESTS).with(home.replica, Type::INT8);
    let taken = database.change(take).await?;
    let taken = rows::all(&taken, |row: Columns<'_>| {
        Ok((row.session_id("session")?, row.value("is_held")?))
    })?;
    let held = taken.into_iter().filter(|(_, is_held)| *is_held);
    requests.add(held.map(|(session, _)| session).collect());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn dropped_wait_loses_no_request() {
        let requests = Requests::default();
        let session = SessionId::from_bytes([1; 32]);
        {
            let mut wait = std::pin::pin!(requests.take());
            tokio::select! {
                biased; // The wait has begun when the request arrives.
                _ = &mut wait => panic!("nobody has asked"),
                () = std::future::ready(()) => {}
            }
            requests.add(vec![session]);
        }
        requests.add(vec![session]);
        assert_eq!(requests.take().await, [session], "once");
    }
}
