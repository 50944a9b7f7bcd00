//! Who may write to a session in this process.
//!
//! The ledger's epoch fences writers of different processes. Inside one process this room does
//! better: a newer request asks the older one to stop, waits until it has committed what is
//! durable, and then goes on from there. So a request that comes back after its connection died
//! finds every byte that had arrived.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;
use windlass_store::SessionId;

/// The sessions that are being written to just now.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    seats: Mutex<HashMap<SessionId, Seat>>,
}

#[derive(Debug)]
struct Seat {
    /// Held by the writer, queued for by those who come after it.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Asks the newest comer to give up; replaced by each comer.
    newest: CancellationToken,
    /// How many hold or wait for the turn.
    comers: usize,
}

/// The right to write to a session in this process, until dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    superseded: CancellationToken,
    // Dropped before the comer, so that the seat outlives every guard of it.
    _guard: OwnedMutexGuard<()>,
    _comer: Comer,
}

/// Why a turn was not to be had.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoTurn {
    /// A still newer request came while this one waited.
    Superseded,
    /// The older writer did not stop in time, as on a stuck disk.
    Stuck,
}

impl Leases {
    /// Asks the present writer of the session to stop, waits for it at most `patience`, and takes
    /// its place.
    pub(crate) async fn take_over(
        self: &Arc<Self>,
        id: SessionId,
        patience: Duration,
    ) -> Result<Turn, NoTurn> {
        let (comer, turn, superseded) = self.arrive(id);
        let guard = tokio::time::timeout(patience, turn.lock_owned())
            .await
            .map_err(|_| NoTurn::Stuck)?;
        if superseded.is_cancelled() {
            return Err(NoTurn::Superseded);
        }
        Ok(Turn {
            superseded,
            _guard: guard,
            _comer: comer,
        })
    }

    /// Waits, at most `patience`, until nobody writes to the session or wants to: the last of them may
    /// have come while others were waited for. Disturbs nobody.
    pub(crate) async fn wait_for_writers(&self, id: SessionId, patience: Duration) {
        let until_left_alone = async {
            while let Some(turn) = self.turn_of(id) {
                drop(turn.lock_owned().await);
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(patience, until_left_alone).await.ok();
    }

    fn turn_of(&self, id: SessionId) -> Option<Arc<tokio::sync::Mutex<()>>> {
        self.seats().get(&id).map(|seat| Arc::clone(&seat.turn))
    }

    fn arrive(
        self: &Arc<Self>,
        id: SessionId,
    ) -> (Comer, Arc<tokio::sync::Mutex<()>>, CancellationToken) {
        let mut seats = self.seats();
        let seat = seats.entry(id).or_insert_with(|| Seat {
            turn: Arc::default(),
            newest: CancellationToken::new(),
            comers: 0,
        });
        let mine = CancellationToken::new();
        std::mem::replace(&mut seat.newest, mine.clone()).cancel();
        seat.comers += 1;
        let comer = Comer {
            leases: Arc::clone(self),
            id,
        };
        (comer, Arc::clone(&seat.turn), mine)
    }

    fn seats(&self) -> MutexGuard<'_, HashMap<SessionId, Seat>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// Resolves when a newer request wants the session.
    pub(crate) async fn superseded(&self) {
        self.superseded.cancelled().await;
    }
}

/// Counts its owner among the comers of a session.
#[derive(Debug)]
struct Comer {
    leases: Arc<Leases>,
    id: SessionId,
}

impl Drop for Comer {
    fn drop(&mut self) {
        let mut seats = self.leases.seats();
        if let Some(seat) = seats.get_mut(&self.id) {
            seat.comers -= 1;
            if seat.comers == 0 {
                seats.remove(&self.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);
    const ID: SessionId = SessionId::from_bytes([7; 32]);

    #[tokio::test]
    async fn a_newer_request_stops_the_older_one_and_waits_until_it_is_gone() {
        let leases = Arc::new(Leases::default());
        let older = leases.take_over(ID, PATIENCE).await.unwrap();
        let newer = tokio::spawn({
            let leases = Arc::clone(&leases);
            async move { leases.take_over(ID, PATIENCE).await }
        });
        older.superseded().await;
        assert!(!newer.is_finished());
        drop(older);
        newer.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn of_those_who_wait_only_the_newest_gets_the_turn() {
        let leases = Arc::new(Leases::default());
        let first = leases.take_over(ID, PATIENCE).await.unwrap();
        let mut second = Box::pin(leases.take_over(ID, PATIENCE));
        assert!(futures_util::poll!(second.as_mut()).is_pending());
        let mut third = Box::pin(leases.take_over(ID, PATIENCE));
        assert!(futures_util::poll!(third.as_mut()).is_pending());
        drop(first);
        assert_eq!(second.await.unwrap_err(), NoTurn::Superseded);
        third.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_writer_that_does_not_stop_is_waited_for_with_a_limit() {
        let leases = Arc::new(Leases::default());
        let _stuck = leases.take_over(ID, PATIENCE).await.unwrap();
        let newer = leases.take_over(ID, PATIENCE).await;
        assert_eq!(newer.unwrap_err(), NoTurn::Stuck);
    }

    #[tokio::test]
    async fn nothing_is_kept_of_a_session_that_nobody_writes_to() {
        let leases = Arc::new(Leases::default());
        drop(leases.take_over(ID, PATIENCE).await.unwrap());
        assert!(leases.seats().is_empty());
    }
}
