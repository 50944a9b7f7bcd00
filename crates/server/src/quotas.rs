//! What one principal may occupy: open sessions, and bytes that are declared or stored.
//!
//! The ledger counts ([`Ledger::usage`]), so that restarts and replicas agree, and refuses what exceeds a quota
//! in the transaction that would make it. Bytes that it does not count yet, because their upload is running, are
//! [reserved](Reservation) in memory: else each of many uploads at once could have all of what is left. And what
//! is examined before the body spares a client the sending of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use windlass_store::{Ledger, LedgerError, Quota, Usage};

use crate::config::Limits;
use crate::context::Principal;
use crate::error::Error;

/// The bytes by which a reservation grows, so that the ledger is not asked for each piece of a body.
const STEP: u64 = 1 << 20;

/// What the end of a session may add beyond a quota, besides its metadata: rows of indexes, and what is found in the
/// media, such as the headers and the words of a message.
const FINISH_TOLERANCE: u64 = 512 * 1024;

/// The limits of each principal.
#[derive(Debug, Clone)]
pub(crate) struct Quotas {
    all: Quota,
    /// Bytes that the running uploads of each principal have reserved.
    reserved: Arc<Mutex<HashMap<String, u128>>>,
}

impl Quotas {
    pub(crate) fn of(limits: &Limits) -> Self {
        let limit = |most: u64| (most > 0).then_some(most);
        Self {
            all: Quota {
                sessions: limit(limits.sessions_per_principal as u64),
                bytes: limit(limits.bytes_per_principal),
                tolerance: 0,
            },
            reserved: Arc::default(),
        }
    }

    /// Returns the quota for the start of a session.
    pub(crate) fn of_start(&self) -> Quota {
        self.all
    }

    /// Returns the quota for what starts no session: that of bytes.
    pub(crate) fn of_bytes(&self) -> Quota {
        Quota {
            sessions: None,
            ..self.all
        }
    }

    /// Returns the quota for the end of a session whose start request and reply take this many bytes. Its media was
    /// counted and acknowledged, so it becomes a resource also where nothing is left. What a handler writes for others,
    /// such as copies of a message for hundreds of recipients, was not.
    pub(crate) fn of_finish(&self, fields: usize) -> Quota {
        // The resource stores the same fields again, in a longer form, and may have been another owner's.
        let fields = 4 * fields as u64;
        Quota {
            tolerance: FINISH_TOLERANCE + fields,
            ..self.of_bytes()
        }
    }

    /// Refuses an upload whose media of a declared length its principal may not store, or a session that it may
    /// not start.
    ///
    /// # Errors
    /// [`LedgerError::OverQuota`] (429, with `Retry-After`), or the ledger's error.
    pub(crate) async fn admit(
        &self,
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
        let reserved = self.reserved(principal);
        let before = ledger.usage(principal.id()).await?;
        let more = declared.map_or(0, |declared| declared.saturating_add(reserved));
        let after = Usage {
            sessions: before.sessions + sessions,
            bytes: before.bytes.saturating_add(more),
        };
        if quota.admits(before, after) {
            Ok(())
        } else {
            Err(LedgerError::OverQuota.into())
        }
    }

    /// Returns a reservation of nothing yet.
    pub(crate) fn reservation(&self, principal: Option<&Principal>) -> Reservation {
        let limited = match (self.all.bytes, principal) {
            (Some(limit), Some(principal)) => Some((limit, principal.to_string())),
            _ => None,
        };
        Reservation {
            quotas: self.clone(),
            limited,
            bytes: 0,
        }
    }

    /// Returns the bytes that are reserved for a principal.
    fn reserved(&self, principal: &Principal) -> u64 {
        let reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = reserved.get(principal.id()).copied().unwrap_or(0);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Changes a reservation of a principal. Returns all that is then reserved for it.
    fn change(&self, principal: &str, from: u64, to: u64) -> u128 {
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        let before = reserved.get(principal).copied().unwrap_or(0);
        // Each may be as long as a client declares.
        let after = before - u128::from(from) + u128::from(to);
        if after == 0 {
            reserved.remove(principal);
        } else if after != before {
            reserved.insert(principal.to_owned(), after);
        }
        after
    }
}

/// Bytes of a running upload for which there is room within the quota of its principal, although the ledger does
/// not count them yet. They are free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    quotas: Quotas,
    /// The limit in bytes, and the id of the principal; `None` if there is no limit.
    limited: Option<(u64, String)>,
    bytes: u64,
}

impl Reservation {
    /// Makes the reservation large enough for this number of bytes, and a much larger one smaller.
    ///
    /// # Errors
    /// [`LedgerError::OverQuota`] if they exceed the quota, or the ledger's error. The reservation then is as it
    /// was.
    pub(crate) async fn cover(&mut self, ledger: &dyn Ledger, bytes: u64) -> Result<(), Error> {
        if self.covers(bytes) {
            return Ok(());
        }
        // Boxed to keep the future of the common case small.
        Box::pin(self.adjust(ledger, bytes)).await
    }

    /// Whether the reservation is for this number of bytes, and not for many more.
    fn covers(&self, bytes: u64) -> bool {
        let spare = self.bytes.checked_sub(bytes);
        self.limited.is_none() || spare.is_some_and(|spare| spare < STEP)
    }

    /// As [`Reservation::cover`], where it has to change.
    async fn adjust(&mut self, ledger: &dyn Ledger, bytes: u64) -> Result<(), Error> {
        let wanted = bytes.checked_next_multiple_of(STEP).unwrap_or(bytes);
        let Some((limit, principal)) = self.limited.clone() else {
            return Ok(());
        };
        if bytes <= self.bytes {
            self.resize(&principal, wanted);
            return Ok(());
        }
        let before = self.bytes;
        // Reserved first, and the ledger asked second: what another upload commits in between counts twice for a
        // moment, and never not at all.
        let reserved = self.resize(&principal, wanted);
        let others = reserved - u128::from(wanted);
        let usage = ledger.usage(&principal).await;
        let room =
            usage.map(|usage| u128::from(limit).saturating_sub(others + u128::from(usage.bytes)));
        let granted = match room {
            Ok(room) if u128::from(wanted) <= room => Ok(wanted),
            Ok(room) if u128::from(bytes) <= room => Ok(bytes),
            Ok(_) => Err(LedgerError::OverQuota),
            Err(error) => Err(error),
        };
        self.resize(&principal, *granted.as_ref().unwrap_or(&before));
        granted.map(drop).map_err(Error::from)
    }

    fn resize(&mut self, principal: &str, bytes: u64) -> u128 {
        let all = self.quotas.change(principal, self.bytes, bytes);
        self.bytes = bytes;
        all
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some((_, principal)) = &self.limited {
            self.quotas.change(principal, self.bytes, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_store::memory::MemoryLedger;
    use windlass_store::{NewSession, SessionId, Timestamp};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn quotas(bytes: u64) -> Quotas {
        Quotas::of(&Limits {
            bytes_per_principal: bytes,
            ..Limits::default()
        })
    }

    fn is_over_quota(result: Result<(), Error>) -> bool {
        result.is_err_and(|error| error.is_over_quota())
    }

    #[tokio::test]
    async fn running_uploads_of_a_principal_share_what_is_left() {
        let (ledger, quotas) = (MemoryLedger::new(), quotas(10 * MIB));
        let (alice, bob) = (Principal::new("alice"), Principal::new("bob"));
        let mut first = quotas.reservation(Some(&alice));
        let mut second = quotas.reservation(Some(&alice));
        first.cover(&ledger, 6 * MIB).await.unwrap();
        assert!(is_over_quota(second.cover(&ledger, 5 * MIB).await));
        let declared = quotas.admit(&ledger, Some(&alice), 0, Some(5 * MIB));
        assert!(is_over_quota(declared.await));
        quotas
            .reservation(Some(&bob))
            .cover(&ledger, 10 * MIB)
            .await
            .unwrap();
        quotas
            .reservation(None)
            .cover(&ledger, u64::MAX)
            .await
            .unwrap();
        second.cover(&ledger, 4 * MIB).await.unwrap();
        assert!(is_over_quota(second.cover(&ledger, u64::MAX).await));
        assert!(second.covers(4 * MIB), "a refusal leaves it as it was");
        drop(first);
        second.cover(&ledger, 10 * MIB).await.unwrap();
        drop(second);
        assert!(quotas.reserved.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn session_that_starts_counts_before_its_body() {
        let (ledger, alice) = (MemoryLedger::new(), Principal::new("alice"));
        let quotas = Quotas::of(&Limits {
            sessions_per_principal: 1,
            ..Limits::default()
        });
        let admit = |sessions| quotas.admit(&ledger, Some(&alice), sessions, None);
        admit(1).await.unwrap();
        let session = NewSession {
            id: SessionId::from_bytes([7; 32]),
            context: Vec::new(),
            created: Timestamp::from_millis(0),
            expires: Timestamp::from_millis(1000),
            total: None,
            owner: Some("alice".to_owned()),
            dialect: "google".to_owned(),
        };
        ledger.start(session).await.unwrap();
        assert!(is_over_quota(admit(1).await));
        admit(0).await.unwrap();
    }

    #[tokio::test]
    async fn reservation_grows_by_steps_and_by_less_at_the_limit() {
        let (ledger, quotas) = (MemoryLedger::new(), quotas(2 * MIB + 100));
        let mut reservation = quotas.reservation(Some(&Principal::new("alice")));
        for (wanted, reserved) in [
            (1, MIB),
            (MIB, MIB),
            (MIB + 1, 2 * MIB),
            (2 * MIB + 1, 2 * MIB + 1),
            (2 * MIB + 100, 2 * MIB + 100),
            (MIB, MIB),
            (0, 0),
        ] {
            reservation.cover(&ledger, wanted).await.unwrap();
            assert_eq!(reservation.bytes, reserved, "{wanted}");
            assert!(reservation.covers(wanted));
        }
        assert!(is_over_quota(
            reservation.cover(&ledger, 2 * MIB + 101).await
        ));
        assert_eq!(reservation.bytes, 0);
    }
}
