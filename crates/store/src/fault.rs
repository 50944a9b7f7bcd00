//! Decorators that make a store fail on schedule.
//!
//! One [`Faults`] counts the calls of a ledger and a vault together, so a test can run a workload
//! once to learn how many calls it makes, and then again and again with the next one failing:
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! use std::sync::Arc;
//! use windlass_store::fault::{FaultyLedger, Faults, Trouble, When};
//! use windlass_store::memory::MemoryLedger;
//! use windlass_store::{Ledger, LedgerError, SessionId};
//!
//! let faults = Arc::new(Faults::new(When::Once(2), Trouble::Fault));
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

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::Cause;

pub use ledger::FaultyLedger;
pub use vault::FaultyVault;

/// Which calls are in trouble. The first call is number 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// None of them; they are only counted.
    Never,
    /// The nth.
    Once(u64),
    /// The nth and all that follow.
    From(u64),
}

/// What happens to a call that is in trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// It does nothing and fails: changes, writes and reads alike.
    Fault,
    /// It is done, and then fails all the same: its caller cannot know.
    Lost,
    /// A write puts half of its bytes down and fails; any other call is as with [`Trouble::Fault`].
    Torn,
    /// There is no room: a write puts half of its bytes down and says so, a change does nothing.
    /// Calls that need no room succeed.
    NoSpace,
    /// It is done, after this long.
    Slow(Duration),
}

/// A schedule of trouble, and the count of calls it goes by.
#[derive(Debug)]
pub struct Faults {
    when: When,
    trouble: Trouble,
    calls: AtomicU64,
}

impl Faults {
    /// A schedule. Share it between the decorators whose calls shall be counted together.
    pub fn new(when: When, trouble: Trouble) -> Self {
        Self {
            when,
            trouble,
            calls: AtomicU64::new(0),
        }
    }

    /// How many calls there were.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// Counts a call. Waits, when it is to be slow; any other trouble is the caller's.
    async fn next(&self) -> Option<Trouble> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let is_due = match self.when {
            When::Never => false,
            When::Once(nth) => call == nth,
            When::From(nth) => call >= nth,
        };
        match self.trouble {
            _ if !is_due => None,
            Trouble::Slow(delay) => {
                tokio::time::sleep(delay).await;
                None
            }
            trouble => Some(trouble),
        }
    }
}

/// The failure that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a fault on schedule")]
pub struct ScheduledFault;

fn scheduled() -> Cause {
    Arc::new(ScheduledFault)
}
