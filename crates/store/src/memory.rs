//! Both contracts in memory, with simulated power cuts.
//!
//! The implementations are complete, and their durability is honest. [`MemoryVault::crash`] loses
//! what was written and not synced. [`MemoryLedger::crash`] loses the leases. Writers from before a
//! crash are refused. Such a crash is the worst that a disk may do;
//! [`MemoryVault::crash_keeping`] simulates everything in between.
//!
//! Absent: a limit on memory, and any disk.

mod ledger;
mod vault;

pub use ledger::MemoryLedger;
pub use vault::{MemoryVault, UnsyncedWrite};

use crate::vault::Space;

/// Space that both report as shared.
const SPACE: Space = Space {
    available: 1 << 40,
    total: 1 << 40,
    disk: 0,
};
