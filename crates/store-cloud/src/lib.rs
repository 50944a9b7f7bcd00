//! The shared store of Windlass: a [`Ledger`](windlass_store::Ledger) on PostgreSQL and a
//! [`Vault`](windlass_store::Vault) in an object store, which several servers have open at the same
//! time.
//!
//! ```no_run
//! use windlass_store::Ledger;
//! use windlass_store_cloud::{CloudLedger, Durability, Options};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! // A standby that has all changes is not needed for a try.
//! let options = Options::default().durability(Durability::Primary);
//! let ledger = CloudLedger::open("postgres://windlass@localhost/uploads", options).await?;
//! ledger.check().await?;
//! // Other servers need not wait for this one.
//! ledger.close().await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `options` | options of the ledger; reads the URL of the database |
//! | `open` | reasons why a ledger is not opened |
//! | `schema` | the tables, and their version |
//! | `connection` | connections, and the settings that each must show |
//! | `sql` | every statement |
//! | `transaction` | runs statements in transactions of two or three round trips |
//! | `failure` | what the errors of PostgreSQL mean for a call |
//! | `rows` | columns, and the values that they stand for |
//! | `ledger` | the contract: sessions, commits, change sets, resources, maintenance, replicas |
//! | `vault` | the contract over objects: cells and pieces while bytes arrive, one object at the end |
//!
//! # How a change is made
//!
//! ```text
//! BEGIN, lock and read ──► decide ──► lock counts of media, usage near a quota ──► decide
//!                                          │
//!                                          ▼
//!                                    writes, COMMIT
//! ```
//!
//! Each arrow is a round trip; the second one is left out where nothing depends on it. Rows are
//! locked in one order: session, resources, quotas, media, usage. Isolation is `READ COMMITTED`, so
//! a statement behind a lock sees what it has waited for. A transaction that loses to another one
//! is made again.
//!
//! Commits of offsets that wait at the same time are made in one transaction.
//!
//! # What an error means
//!
//! | what has happened | error |
//! |---|---|
//! | no connection, or it was lost before `COMMIT` was sent, or the transaction kept losing | [`Unavailable`](windlass_store::LedgerError::Unavailable) |
//! | the connection was lost, or no answer came, after `COMMIT` was sent; or the primary has not waited for its standby | [`Unknown`](windlass_store::LedgerError::Unknown) |
//! | the lease is not the newest one, or has run out by the clock of the database | [`Fenced`](windlass_store::LedgerError::Fenced) |
//! | the disk of the database is full | [`NoSpace`](windlass_store::LedgerError::NoSpace) |
//! | the database is damaged, or lacks a table | [`Fault`](windlass_store::LedgerError::Fault) |
//!
//! # Poolers
//!
//! No statement is prepared under a name and nothing is set for a session, so that `pgbouncer` may
//! stand between in the mode `transaction`.
//!
//! # Absent
//!
//! Stored procedures, triggers, notifications, advisory locks, and cancel requests: a cancelled wait
//! for the standby would acknowledge what only the primary has. No connection is held while the
//! body of a request is read.

mod connection;
mod failure;
mod ledger;
mod open;
mod options;
mod rows;
mod schema;
mod sql;
mod transaction;
mod vault;

pub use ledger::CloudLedger;
pub use open::OpenError;
pub use options::{Durability, Options, Tls};
pub use vault::{CloudVault, DEFAULT_CELL, PartStore};
pub use windlass_store::recorder::{NoRecorder, StoreRecorder};

/// Every statement of the ledger, with its name.
#[cfg(feature = "postgres-tests")]
#[doc(hidden)]
pub const STATEMENTS: &[(&str, &str)] = sql::ALL;
