//! Whether the server may still promise anything: fail-stop, drain, free space.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use tokio_util::sync::CancellationToken;
use windlass_store::{LedgerError, Space, VaultError};

use crate::config::FreeSpace;

/// The state of the whole server that every request looks at.
#[derive(Debug)]
pub(crate) struct Vitals {
    /// A storage fault happened: nothing is acknowledged any more.
    failed: CancellationToken,
    /// The server is stopping: nothing new is begun.
    draining: AtomicBool,
    /// Bytes that could be written at the last look at the disk, less what was written since.
    available: AtomicU64,
    /// The room at the last look, for the log.
    noted: AtomicU8,
}

/// How much room the disk has, against the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Room {
    /// Enough.
    Plenty,
    /// Uploads that run may go on; no new ones.
    Low,
    /// No media is taken.
    Full,
}

impl Room {
    fn of(available: u64, limits: &FreeSpace) -> Self {
        if available < limits.hard {
            Self::Full
        } else if available < limits.soft {
            Self::Low
        } else {
            Self::Plenty
        }
    }
}

impl Default for Vitals {
    fn default() -> Self {
        Self {
            failed: CancellationToken::new(),
            draining: AtomicBool::new(false),
            available: AtomicU64::new(u64::MAX),
            noted: AtomicU8::new(Room::Plenty as u8),
        }
    }
}

impl Vitals {
    /// Looks at an error of the ledger and stops the server if it is a fault.
    pub(crate) fn examine_ledger(&self, error: &LedgerError) {
        if let LedgerError::Fault(cause) = error {
            self.fail("ledger", cause);
        }
    }

    /// Looks at an error of the vault and stops the server if it is a fault.
    pub(crate) fn examine_vault(&self, error: &VaultError) {
        if let VaultError::Fault(cause) = error {
            self.fail("vault", cause);
        }
    }

    fn fail(&self, what: &'static str, cause: &windlass_store::Cause) {
        if !self.failed.is_cancelled() {
            tracing::error!(
                store = what,
                error = %cause,
                "storage failed; nothing is acknowledged from now on, the server stops"
            );
        }
        self.failed.cancel();
    }

    /// Whether a storage fault happened.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.is_cancelled()
    }

    /// Resolves at the first storage fault.
    pub(crate) async fn failed(&self) {
        self.failed.cancelled().await;
    }

    /// Lets nothing new begin.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether the server is stopping.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// How much room there is, as far as is known: at the last look, less what was written since.
    pub(crate) fn room(&self, limits: &FreeSpace) -> Room {
        Room::of(self.available.load(Ordering::Relaxed), limits)
    }

    /// Notes that so many bytes are about to be written.
    pub(crate) fn note_written(&self, bytes: u64) {
        let less = |available: u64| Some(available.saturating_sub(bytes));
        let order = Ordering::Relaxed;
        self.available.fetch_update(order, order, less).ok();
    }

    /// Notes what a look at the disk said.
    pub(crate) fn note_space(&self, space: Space, limits: &FreeSpace) {
        self.available.store(space.available, Ordering::Relaxed);
        let room = Room::of(space.available, limits);
        if self.noted.swap(room as u8, Ordering::Relaxed) != room as u8 {
            tracing::warn!(
                ?room,
                available = space.available,
                "room on the disk has changed"
            );
        }
    }
}
