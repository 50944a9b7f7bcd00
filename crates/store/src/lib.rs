//! What Windlass keeps, and the two contracts for keeping it.
//!
//! * The [`Ledger`] is the database: sessions, resources and small media. Its rows are the only truth.
//! * The [`Vault`] holds media bytes. A file in it means nothing until a ledger row names it.
//!
//! The crate knows no HTTP and no API. What the server must remember about a request travels
//! through it as opaque bytes ([`NewSession::context`], [`FinishSession::reply`]).
//!
//! Order is everything: media is made durable in the vault *before* the ledger says so, and is
//! unlinked only *after* the ledger has let go of it.

pub mod conformance;
pub mod failpoint;
pub mod fault;
pub mod ledger;
pub mod memory;
pub mod records;
pub mod sweep;
pub mod vault;

pub use failpoint::Failpoint;
pub use ledger::{
    ChangeSet, EndSession, FinishSession, Ledger, LedgerError, OffsetCommit, ResourceChange,
};
pub use records::{
    Epoch, Extent, Media, MediaId, MediaLocation, MediaRef, NewSession, Progress, Resource,
    Session, SessionId, SessionState, Timestamp,
};
pub use sweep::{Sweep, SweepError, SweepOptions, Swept};
pub use vault::{
    Listing, MediaReader, MediaWriter, READ_LEN, Space, StoredMedia, Superseded, Vault, VaultError,
    WRITE_UNIT,
};

/// The error underneath a fault, shared by everyone who waited for the same commit or sync.
pub type Cause = std::sync::Arc<dyn std::error::Error + Send + Sync>;
