//! Both contracts in memory, with a power switch.
//!
//! They are complete: the server's tests run on them. And they are honest about durability:
//! [`MemoryVault::crash`] loses what was written and not synced, [`MemoryLedger::crash`] loses the
//! leases, and anyone who held a writer from before the crash finds it dead. What a crash loses here
//! is the worst that a disk may do; [`MemoryVault::crash_keeping`] does anything in between.
//!
//! Absent: every bound on memory, and any disk.

mod ledger;
mod vault;

pub use ledger::MemoryLedger;
pub use vault::{MemoryVault, UnsyncedWrite};

use crate::vault::Space;

/// The room that both claim to share.
const ROOM: Space = Space {
    available: 1 << 40,
    total: 1 << 40,
    disk: 0,
};
