//! The rules of the two contracts, as checks that every implementation runs.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! use windlass_store::conformance;
//! use windlass_store::memory::{MemoryLedger, MemoryVault};
//!
//! conformance::ledger(&MemoryLedger::new()).await;
//! conformance::vault(&MemoryVault::new()).await;
//! # });
//! ```
//!
//! A check panics when the implementation breaks its rule; the name of the check, which is in the
//! backtrace and in the ids it uses, is the rule. The checks share one store, which is empty at the
//! beginning, and use names of their own in it.

#![expect(clippy::unwrap_used, reason = "a check panics when its rule is broken")]

mod ledger;
mod restart;
mod samples;
mod vault;

pub use ledger::ledger;
pub use restart::{ledger_restart, vault_restart};
pub use vault::vault;
