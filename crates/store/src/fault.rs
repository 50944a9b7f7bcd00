//! Decorators that make a store fail on schedule.
//!
//! One [`Faults`] counts the calls of a ledger and a vault together, so a test can run a workload
//! once to learn how many calls it makes, and then again and again with the next one failing:
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! use std::sync::Arc;
//! use windlass_store::fault::{FaultyLedger, Faults, InjectedFault, Trigger};
//! use windlass_store::memory::MemoryLedger;
//! use windlass_store::{Ledger, LedgerError, SessionId};
//!
//! let faults = Arc::new(Faults::new(Trigger::Once(2), InjectedFault::Fault));
//! let ledger = FaultyLedger::new(Arc::new(MemoryLedger::new()), Arc::clone(&faults));
//! let id = SessionId::from_bytes([7; 32]);
//! assert!(ledger.session(id).await.is_ok());
//! assert!(matches!(ledger.session(id).await, Err(LedgerError::Fault(_))));
//! assert!(ledger.session(id).await.is_ok());
//! assert_eq!(faults.calls(), 3);
//! # });
//! ```

mod ledger;
mod vault;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::Cause;

pub use ledger::FaultyLedger;
pub use vault::FaultyVault;

/// Which calls are in trouble. The first call is number 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// None of them; they are only counted.
    Never,
    /// The nth.
    Once(u64),
    /// The nth and all that follow.
    From(u64),
}

/// What happens to a call that is in trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InjectedFault {
    /// It does nothing and fails: changes, writes and reads alike.
    Fault,
    /// It is done, and then fails all the same: its caller cannot know.
    Lost,
    /// A write puts half of its bytes down and fails; any other call is as with [`InjectedFault::Fault`].
    Torn,
    /// There is no room: a write puts half of its bytes down and says so, a change does nothing.
    /// Calls that need no room succeed.
    NoSpace,
    /// It is done, after this long.
    Slow(Duration),
    /// It does nothing and panics.
    Panic,
}

impl Trigger {
    fn is_due(self, call: u64) -> bool {
        match self {
            Self::Never => false,
            Self::Once(nth) => call == nth,
            Self::From(nth) => call >= nth,
        }
    }
}

/// A schedule of trouble, and the calls it goes by.
#[derive(Debug)]
pub struct Faults {
    schedule: Vec<(Trigger, InjectedFault)>,
    calls: Mutex<Vec<&'static str>>,
}

impl Faults {
    /// A schedule. Share it between the decorators whose calls shall be counted together.
    pub fn new(when: Trigger, trouble: InjectedFault) -> Self {
        Self {
            schedule: vec![(when, trouble)],
            calls: Mutex::default(),
        }
    }

    /// The power goes out before the nth call: neither that nor any later one is done.
    pub fn outage_before(nth: u64) -> Self {
        Self::new(Trigger::From(nth), InjectedFault::Fault)
    }

    /// The power goes out after the nth call: it is done, its caller never learns of it, and no later
    /// one is done.
    pub fn outage_after(nth: u64) -> Self {
        let mut faults = Self::new(Trigger::Once(nth), InjectedFault::Lost);
        faults
            .schedule
            .push((Trigger::From(nth.saturating_add(1)), InjectedFault::Fault));
        faults
    }

    /// How many calls there were.
    pub fn calls(&self) -> u64 {
        self.log().len() as u64
    }

    /// The calls that there were: the names of the contracts' methods.
    pub fn names(&self) -> Vec<&'static str> {
        self.log().clone()
    }

    /// How many calls there were of the contracts' method of this name.
    pub fn calls_of(&self, name: &str) -> usize {
        self.log().iter().filter(|call| **call == name).count()
    }

    /// Counts a call. Waits when it is to be slow, panics when it is to panic; any other trouble is the caller's.
    async fn next(&self, name: &'static str) -> Option<InjectedFault> {
        let call = {
            let mut log = self.log();
            log.push(name);
            log.len() as u64
        };
        let mut due = self.schedule.iter().filter(|(when, _)| when.is_due(call));
        match due.next()?.1 {
            InjectedFault::Slow(delay) => {
                tokio::time::sleep(delay).await;
                None
            }
            InjectedFault::Panic => panic!("a panic on schedule"),
            trouble => Some(trouble),
        }
    }

    fn log(&self) -> MutexGuard<'_, Vec<&'static str>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The failure that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a fault on schedule")]
pub struct ScheduledFault;

fn scheduled() -> Cause {
    Arc::new(ScheduledFault)
}
