//! Whether the server may still promise anything: fail-stop, drain, free space.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use tokio_util::sync::CancellationToken;
use windlass_store::{LedgerError, Space, VaultError};

use crate::config::FreeSpace;

/// The state of the whole server that every request looks at.
#[derive(Debug, Default)]
pub(crate) struct Vitals {
    /// A storage fault happened: nothing is acknowledged any more.
    failed: CancellationToken,
    /// The server is stopping: nothing new is begun.
    draining: AtomicBool,
    room: AtomicU8,
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
    /// Compares what is free with the limits.
    pub(crate) fn of(space: Space, limits: &FreeSpace) -> Self {
        if space.available < limits.hard {
            Self::Full
        } else if space.available < limits.soft {
            Self::Low
        } else {
            Self::Plenty
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

    /// What the last look at the disk said.
    pub(crate) fn room(&self) -> Room {
        match self.room.load(Ordering::Relaxed) {
            0 => Room::Plenty,
            1 => Room::Low,
            _ => Room::Full,
        }
    }

    /// Notes what a look at the disk said.
    pub(crate) fn set_room(&self, room: Room) {
        let before = self.room.swap(room as u8, Ordering::Relaxed);
        if before != room as u8 {
            tracing::warn!(?room, "room on the disk has changed");
        }
    }
}
