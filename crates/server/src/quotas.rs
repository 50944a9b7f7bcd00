//! What one principal may occupy: open sessions, and bytes that are declared or stored.
//!
//! The ledger counts ([`Ledger::usage`]), so that restarts and replicas agree, and refuses what exceeds a quota
//! in the transaction that would make it. What is examined here before spares a client the sending of a body.

use windlass_store::{Ledger, LedgerError, Quota, Usage};

use crate::config::Limits;
use crate::context::Principal;
use crate::error::Error;

/// The limits of each principal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quotas {
    all: Quota,
}

impl Quotas {
    pub(crate) fn of(limits: &Limits) -> Self {
        let limit = |most: u64| (most > 0).then_some(most);
        Self {
            all: Quota {
                sessions: limit(limits.sessions_per_principal as u64),
                bytes: limit(limits.bytes_per_principal),
            },
        }
    }

    /// Returns the quota of what makes a session.
    pub(crate) fn of_start(self) -> Quota {
        self.all
    }

    /// Returns the quota of what makes none.
    pub(crate) fn of_bytes(self) -> Quota {
        Quota {
            sessions: None,
            ..self.all
        }
    }

    /// Refuses an upload whose media of a declared length its principal may not store, or a session that it may
    /// not start.
    ///
    /// # Errors
    /// [`LedgerError::OverQuota`].
    pub(crate) async fn admit(
        self,
        ledger: &dyn Ledger,
        principal: Option<&Principal>,
        sessions: u64,
        declared: Option<u64>,
    ) -> Result<(), Error> {
        let quota = if sessions > 0 {
            self.all
        } else {
            self.of_bytes()
        };
        let Some(principal) = principal.filter(|_| !quota.is_unlimited()) else {
            return Ok(());
        };
        let before = ledger.usage(principal.id()).await?;
        let after = Usage {
            sessions: before.sessions + sessions,
            bytes: before.bytes.saturating_add(declared.unwrap_or(0)),
        };
        if quota.admits(before, after) {
            Ok(())
        } else {
            Err(LedgerError::OverQuota.into())
        }
    }
}
