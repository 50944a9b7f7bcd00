//! Whether the server may still promise anything: fail-stop, drain.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;
use windlass_store::{LedgerError, VaultError};

/// The state of the whole server that every request looks at.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// A storage fault happened: nothing is acknowledged any more.
    failed: CancellationToken,
    /// The server is stopping: nothing new is begun.
    draining: AtomicBool,
}

impl Health {
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
}
