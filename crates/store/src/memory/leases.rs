//! Who works on each session: the leases of the ledger in memory.

use std::collections::{BTreeSet, HashMap};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::ledger::{LEASE_LIFETIME, LedgerError, Takeover};
use crate::records::{Epoch, Lease, LeaseId, SessionId, Timestamp};

/// The time at which the ledger's clock begins.
const BEGINNING: Duration = Duration::from_secs(1);

/// The leases of all sessions.
#[derive(Debug, Clone, Default)]
pub(super) struct Leases {
    by_session: HashMap<SessionId, State>,
    /// Number of leases that were given out.
    made: u128,
    /// Number of processes that were started.
    started: u64,
    /// The processes that have not ended.
    alive: BTreeSet<u64>,
    /// Sessions that another process than their holder wants.
    asked_for: BTreeSet<SessionId>,
    /// Of calls that wait for such sessions.
    wakers: Vec<Waker>,
    /// The ledger's clock.
    now: Duration,
}

/// The lease of one session.
#[derive(Debug, Clone)]
struct State {
    /// The lease that is in force.
    newest: Lease,
    /// The lease that is in the row.
    durable: Lease,
    /// The process that works on the session.
    holder: Option<u64>,
    /// When the session was last leased, committed or renewed.
    touched: Duration,
}

impl Leases {
    /// Returns the number of a new process.
    pub(super) fn add_process(&mut self) -> u64 {
        self.started += 1;
        self.alive.insert(self.started);
        self.started
    }

    /// The process has ended. Nobody works any more on the sessions that it has held.
    pub(super) fn remove_process(&mut self, process: u64) {
        self.alive.remove(&process);
    }

    /// Whether a process has not ended.
    pub(super) fn is_alive(&self, process: u64) -> bool {
        self.alive.contains(&process)
    }

    /// Returns the time by the ledger's clock.
    pub(super) fn now(&self) -> Duration {
        self.now
    }

    /// Returns the time after this duration.
    pub(super) fn time_after(&self, after: Duration) -> Timestamp {
        let millis = u64::try_from((BEGINNING + self.now + after).as_millis());
        Timestamp::from_millis(millis.unwrap_or(u64::MAX))
    }

    pub(super) fn advance(&mut self, by: Duration) {
        self.now += by;
    }

    /// Gives out the first lease of a session. Nobody works on it yet.
    pub(super) fn start(&mut self, id: SessionId) -> Lease {
        let lease = self.make(Epoch(0));
        let state = State {
            newest: lease,
            durable: lease,
            holder: None,
            touched: self.now,
        };
        self.by_session.insert(id, state);
        lease
    }

    /// Gives out a new lease of an open session.
    pub(super) fn take(
        &mut self,
        id: SessionId,
        process: u64,
        takeover: Takeover,
    ) -> Result<Lease, LedgerError> {
        if let Some(idle) = self.idle_by_others(id, process) {
            match takeover {
                Takeover::IfIdle(enough) if idle >= enough => {}
                Takeover::IfIdle(_) => return Err(LedgerError::Held),
                Takeover::Ask => {
                    self.asked_for.insert(id);
                    self.wakers.drain(..).for_each(Waker::wake);
                    return Err(LedgerError::Held);
                }
            }
        }
        let lease = self.make(Epoch(self.epoch(id).0 + 1));
        let now = self.now;
        if let Some(state) = self.by_session.get_mut(&id) {
            state.newest = lease;
            state.holder = Some(process);
            state.touched = now;
        }
        self.asked_for.remove(&id);
        Ok(lease)
    }

    /// Returns how long another process that works on the session has been idle. `None` if no other
    /// process works on it.
    fn idle_by_others(&self, id: SessionId, process: u64) -> Option<Duration> {
        let state = self.by_session.get(&id)?;
        let holder = state.holder?;
        let idle = self.now.saturating_sub(state.touched);
        let holds = holder != process && self.alive.contains(&holder) && idle < LEASE_LIFETIME;
        holds.then_some(idle)
    }

    /// Whether nobody has worked on the session for this long.
    pub(super) fn is_idle(&self, id: SessionId, process: u64, enough: Duration) -> bool {
        self.idle_by_others(id, process)
            .is_none_or(|idle| idle >= enough)
    }

    pub(super) fn epoch(&self, id: SessionId) -> Epoch {
        self.by_session
            .get(&id)
            .map_or(Epoch(0), |state| state.newest.epoch)
    }

    /// Refuses a lease that is not the newest one, or that has been left alone for too long.
    pub(super) fn check(&self, id: SessionId, lease: Lease) -> Result<(), LedgerError> {
        match self.by_session.get(&id) {
            Some(state)
                if state.newest == lease
                    && self.now.saturating_sub(state.touched) < LEASE_LIFETIME =>
            {
                Ok(())
            }
            _ => Err(LedgerError::Fenced),
        }
    }

    /// A change of the session was made: its lease is durable, too. The `holder` works on it.
    pub(super) fn touch(&mut self, id: SessionId, holder: Option<u64>) {
        let now = self.now;
        if let Some(state) = self.by_session.get_mut(&id) {
            state.durable = state.newest;
            state.touched = now;
            state.holder = holder;
        }
        if holder.is_none() {
            self.asked_for.remove(&id);
        }
    }

    /// The process works on the session of this lease, if the lease is in force.
    pub(super) fn renew(&mut self, id: SessionId, lease: Lease, process: u64) {
        if self.check(id, lease).is_ok() {
            let now = self.now;
            let state = self.by_session.get_mut(&id).expect("it was checked");
            state.touched = now;
            state.holder = Some(process);
        }
    }

    /// The process works no longer on the session of this lease.
    pub(super) fn release(&mut self, id: SessionId, lease: Lease, process: u64) {
        if let Some(state) = self.by_session.get_mut(&id)
            && state.newest == lease
            && state.holder == Some(process)
        {
            state.holder = None;
            self.asked_for.remove(&id);
        }
    }

    pub(super) fn remove(&mut self, id: SessionId) {
        self.by_session.remove(&id);
        self.asked_for.remove(&id);
    }

    /// Loses the leases that no change has made durable.
    pub(super) fn crash(&mut self) {
        for state in self.by_session.values_mut() {
            state.newest = state.durable;
        }
    }

    /// Takes the sessions of a process that another process wants.
    pub(super) fn poll_asked_for(
        &mut self,
        process: u64,
        context: &mut Context<'_>,
    ) -> Poll<Vec<SessionId>> {
        let is_held = |id: &SessionId| {
            let state = self.by_session.get(id);
            state.is_some_and(|state| state.holder == Some(process))
        };
        let mine: Vec<_> = self.asked_for.iter().copied().filter(is_held).collect();
        if mine.is_empty() {
            self.wakers.push(context.waker().clone());
            return Poll::Pending;
        }
        self.asked_for.retain(|id| !mine.contains(id));
        Poll::Ready(mine)
    }

    /// Returns a lease that is refused.
    pub(super) fn none(&mut self, epoch: Epoch) -> Lease {
        self.make(epoch)
    }

    /// Returns a lease with an id of its own.
    fn make(&mut self, epoch: Epoch) -> Lease {
        self.made += 1;
        Lease {
            id: LeaseId::from_bytes(self.made.to_be_bytes()),
            epoch,
        }
    }
}
