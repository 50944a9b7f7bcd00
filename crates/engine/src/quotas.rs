//! Quotas of one principal: open sessions, and bytes that are declared or stored.
//!
//! The ledger counts the usage ([`Ledger::usage`]), so that restarts and replicas agree. It refuses
//! to exceed a quota in the transaction that would do so. The ledger does not count the bytes of a
//! running upload yet, so these bytes are [reserved](Reservation) in memory. Otherwise many
//! concurrent uploads could each claim the whole rest of the quota. A check before the body saves
//! the client from sending a body that would be refused.
//!
//! All principals have the same limits, unless a [`QuotaSource`] knows the limits of each.

mod source;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_store::{ChangeSet, Ledger, LedgerError, OwnerQuotas, Quota, ResourceChange, Usage};

use crate::error::Error;
use source::RememberedSource;

pub use source::{PrincipalLimits, QuotaSource};

/// The ledger is asked again once a reservation has grown by this number of bytes, not for each
/// piece of a body.
const STEP: u64 = 1 << 20;

/// The number of bytes by which the end of a session may exceed a quota, besides the session's
/// metadata and the media that its completion adds. It covers rows of indexes and data found in the media, such as the headers and words
/// of a message.
const FINISH_TOLERANCE: u64 = 512 * 1024;

/// The limits of each principal, and the reservations of running uploads.
#[derive(Debug, Clone)]
pub struct Quotas {
    /// The limits of each principal for which `source` names no others.
    all: Quota,
    source: Option<Arc<RememberedSource>>,
    /// The reservations of running uploads, by the principal's id.
    reserved: Arc<Mutex<HashMap<String, Reserved>>>,
}

/// The reservations of one principal's running uploads.
#[derive(Debug, Default)]
struct Reserved {
    /// Never 0. A `u128`, because each upload may be as long as a client declares.
    bytes: u128,
    /// The bytes that the ledger has most recently counted.
    usage: u64,
}

impl Quotas {
    /// Applies the limits of `all` to each principal. The tolerance of `all` must be 0.
    pub fn new(all: Quota) -> Self {
        Self {
            all,
            source: None,
            reserved: Arc::default(),
        }
    }

    /// Asks `source` for the limits of each principal.
    #[must_use]
    pub fn with_source(self, source: Arc<dyn QuotaSource>) -> Self {
        Self {
            source: Some(Arc::new(RememberedSource::new(source))),
            ..self
        }
    }

    /// Returns the quota for the start of a session of this owner. Without an owner there is no
    /// limit.
    ///
    /// # Errors
    /// [`Error::QuotaUnknown`].
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    pub async fn of_start(&self, owner: Option<&str>) -> Result<Quota, Error> {
        match owner {
            Some(owner) => self.of(owner).await,
            None => Ok(Quota::default()),
        }
    }

    /// Returns the quota for a request of this owner that starts no session. It limits bytes only.
    /// Without an owner there is no limit.
    ///
    /// # Errors
    /// [`Error::QuotaUnknown`].
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    pub async fn of_bytes(&self, owner: Option<&str>) -> Result<Quota, Error> {
        Ok(bytes_only(self.of_start(owner).await?))
    }

    /// Returns the quotas for a change set that ends no session: of each owner of a resource that
    /// it inserts or replaces. They limit bytes only.
    ///
    /// # Errors
    /// [`Error::QuotaUnknown`].
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    pub async fn of_changes(&self, changes: &ChangeSet) -> Result<OwnerQuotas, Error> {
        self.of_owners(changes, 0).await
    }

    /// Returns the quotas for a change set that ends a session. `fields` is the size of the
    /// session's start request and reply in bytes. The media has already been counted and
    /// acknowledged, so it becomes a resource even if the quota is used up. Data that a handler
    /// writes for other principals was not counted before, such as copies of a message for hundreds
    /// of recipients.
    ///
    /// # Errors
    /// [`Error::QuotaUnknown`].
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    pub async fn of_finish(
        &self,
        changes: &ChangeSet,
        fields: usize,
    ) -> Result<OwnerQuotas, Error> {
        // The resource stores the same fields again in a longer form. It may have had another owner
        // before.
        let fields = 4 * fields as u64;
        self.of_owners(changes, FINISH_TOLERANCE + fields).await
    }

    /// Returns the quota of each owner of a resource that `changes` inserts or replaces.
    async fn of_owners(&self, changes: &ChangeSet, tolerance: u64) -> Result<OwnerQuotas, Error> {
        let tolerant = |quota| Quota {
            tolerance,
            ..bytes_only(quota)
        };
        let mut quotas = OwnerQuotas::from(tolerant(self.all));
        if self.source.is_none() {
            return Ok(quotas);
        }
        let owners = changes.resources.iter().filter_map(ResourceChange::owner);
        for owner in owners.collect::<BTreeSet<_>>() {
            quotas = quotas.with(owner, tolerant(self.of(owner).await?));
        }
        Ok(quotas)
    }

    /// Returns the quota of a principal.
    async fn of(&self, principal: &str) -> Result<Quota, Error> {
        let Some(source) = &self.source else {
            return Ok(self.all);
        };
        // Boxed to keep the future of a server without a source small.
        let limits = Box::pin(source.limits(principal)).await?;
        Ok(Quota {
            sessions: limits.sessions.or(self.all.sessions),
            bytes: limits.bytes.or(self.all.bytes),
            ..self.all
        })
    }

    /// Refuses an upload of `declared` bytes, or that many new `sessions`, if they would exceed the
    /// principal's quota. Reserves nothing.
    ///
    /// # Errors
    /// [`LedgerError::OverQuota`], [`Error::QuotaUnknown`], or the ledger's error.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    pub async fn admit(
        &self,
        ledger: &dyn Ledger,
        principal: Option<&str>,
        sessions: u64,
        declared: Option<u64>,
    ) -> Result<(), Error> {
        let quota = if sessions > 0 {
            self.of_start(principal).await?
        } else {
            self.of_bytes(principal).await?
        };
        let Some(principal) = principal.filter(|_| !quota.is_unlimited()) else {
            return Ok(());
        };
        let reserved = self.reserved(principal);
        let before = ledger.usage(principal).await?;
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

    /// Returns an empty reservation.
    pub fn reservation(&self, principal: Option<&str>) -> Reservation {
        let may_be_limited = self.all.bytes.is_some() || self.source.is_some();
        Reservation {
            quotas: self.clone(),
            principal: principal.filter(|_| may_be_limited).map(str::to_owned),
            limit: None,
            bytes: 0,
            checked: 0,
        }
    }

    /// Returns the number of bytes that are reserved for a principal.
    fn reserved(&self, principal: &str) -> u64 {
        let reserved = self.lock();
        let bytes = reserved.get(principal).map_or(0, |all| all.bytes);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Changes the size of a principal's reservation and returns whether it could. Growth is
    /// refused if all reservations and the last usage counted by the ledger together exceed the
    /// limit.
    fn change(&self, principal: &str, from: u64, to: u64, limit: Option<u64>) -> bool {
        let mut reserved = self.lock();
        let (before, usage) = reserved
            .get(principal)
            .map_or((0, 0), |all| (all.bytes, all.usage));
        let bytes = before - u128::from(from) + u128::from(to);
        if to > from && !fits(bytes + u128::from(usage), limit) {
            return false;
        }
        if bytes == 0 {
            reserved.remove(principal);
        } else if let Some(all) = reserved.get_mut(principal) {
            all.bytes = bytes;
        } else {
            reserved.insert(principal.to_owned(), Reserved { bytes, usage });
        }
        true
    }

    /// Records the usage that the ledger counts for a principal. Returns whether all reservations
    /// fit into the limit together with this usage. If they do not, the reservation is reset:
    /// `back` holds its current and its former size.
    fn confirm(&self, principal: &str, usage: u64, limit: Option<u64>, back: (u64, u64)) -> bool {
        let mut reserved = self.lock();
        let Some(all) = reserved.get_mut(principal) else {
            return true;
        };
        all.usage = usage;
        if fits(all.bytes + u128::from(usage), limit) {
            return true;
        }
        // Under the same lock as the check: concurrent uploads that do not fit together each reset
        // their own reservation until the rest fits.
        let (now, before) = back;
        all.bytes = all.bytes - u128::from(now) + u128::from(before);
        if all.bytes == 0 {
            reserved.remove(principal);
        }
        false
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Reserved>> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the quota without its limit on sessions.
fn bytes_only(quota: Quota) -> Quota {
    Quota {
        sessions: None,
        ..quota
    }
}

/// Whether bytes are within a limit.
fn fits(bytes: u128, limit: Option<u64>) -> bool {
    limit.is_none_or(|limit| bytes <= u128::from(limit))
}

/// Bytes of a running upload that fit into its principal's quota and that the ledger does not count
/// yet. Dropping the reservation frees the bytes.
#[derive(Debug)]
pub struct Reservation {
    quotas: Quotas,
    /// Id of the principal. `None` if there cannot be a limit.
    principal: Option<String>,
    /// The principal's limit in bytes when the ledger was last asked.
    limit: Option<u64>,
    /// At most the bytes that have arrived or are declared, because other uploads cannot use them.
    bytes: u64,
    /// Up to this number of bytes the ledger need not be asked again.
    checked: u64,
}

impl Reservation {
    /// Sets the reservation to exactly this number of bytes.
    ///
    /// # Errors
    /// [`LedgerError::OverQuota`] if the bytes exceed the quota, [`Error::QuotaUnknown`], or the
    /// ledger's error. The reservation is then unchanged.
    ///
    /// # Cancel safety
    /// If the future is dropped, the reservation has its old or its new size.
    pub async fn cover(&mut self, ledger: &dyn Ledger, bytes: u64) -> Result<(), Error> {
        if self.try_cover(bytes) {
            return Ok(());
        }
        // Boxed to keep the future of the common case small.
        Box::pin(self.grow(ledger, bytes)).await
    }

    /// Changes the reservation if that needs no question to the ledger. Returns whether it did.
    fn try_cover(&mut self, bytes: u64) -> bool {
        let Some(principal) = &self.principal else {
            return true;
        };
        let (limit, before) = (self.limit, self.bytes);
        let needs_no_check = bytes <= before.max(self.checked);
        let is_changed = needs_no_check && self.quotas.change(principal, before, bytes, limit);
        if is_changed {
            self.bytes = bytes;
        }
        is_changed
    }

    /// Like [`Reservation::cover`], but always asks the ledger.
    async fn grow(&mut self, ledger: &dyn Ledger, bytes: u64) -> Result<(), Error> {
        let Some(principal) = self.principal.clone() else {
            return Ok(());
        };
        let limit = self.quotas.of(&principal).await?.bytes;
        self.limit = limit;
        let before = self.bytes;
        if limit.is_none() {
            // Reserved all the same: the source may set a limit while the upload runs.
            self.quotas.change(&principal, before, bytes, None);
            self.bytes = bytes;
            self.checked = bytes.saturating_add(STEP);
            return Ok(());
        }
        // The last count of the ledger may be too high by now. A refusal therefore needs a new
        // count.
        for _ in 0..2 {
            let is_reserved = self.quotas.change(&principal, before, bytes, limit);
            if is_reserved {
                self.bytes = bytes;
            }
            // The bytes are reserved before the ledger is asked. Bytes that another upload commits
            // in between are counted twice for a moment. In the opposite order they could be
            // missed.
            let usage = match ledger.usage(&principal).await {
                Ok(usage) => usage.bytes,
                Err(error) => {
                    self.quotas.change(&principal, self.bytes, before, limit);
                    self.bytes = before;
                    return Err(error.into());
                }
            };
            let back = (self.bytes, before);
            let fits = self.quotas.confirm(&principal, usage, limit, back);
            if is_reserved && fits {
                self.checked = bytes.saturating_add(STEP);
                return Ok(());
            }
            self.bytes = before;
        }
        Err(LedgerError::OverQuota.into())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(principal) = &self.principal {
            self.quotas.change(principal, self.bytes, 0, self.limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;
    use windlass_store::memory::MemoryLedger;
    use windlass_store::{EndSession, NewSession, SessionId, Timestamp};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn quotas(bytes: u64) -> Quotas {
        Quotas::new(Quota {
            sessions: None,
            bytes: Some(bytes),
            tolerance: 0,
        })
    }

    fn is_over_quota(result: Result<(), Error>) -> bool {
        result.is_err_and(|error| error.is_over_quota())
    }

    #[tokio::test]
    async fn running_uploads_of_a_principal_share_what_is_left() {
        let (ledger, quotas) = (MemoryLedger::new(), quotas(10 * MIB));
        let (alice, bob) = ("alice", "bob");
        let mut first = quotas.reservation(Some(alice));
        let mut second = quotas.reservation(Some(alice));
        first.cover(&ledger, 6 * MIB).await.unwrap();
        assert!(is_over_quota(second.cover(&ledger, 5 * MIB).await));
        let declared = quotas.admit(&ledger, Some(alice), 0, Some(5 * MIB));
        assert!(is_over_quota(declared.await));
        quotas
            .reservation(Some(bob))
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
        assert!(second.try_cover(4 * MIB), "a refusal leaves it as it was");
        drop(first);
        second.cover(&ledger, 10 * MIB).await.unwrap();
        drop(second);
        assert!(quotas.reserved.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn session_that_starts_counts_before_its_body() {
        let (ledger, alice) = (MemoryLedger::new(), "alice");
        let quotas = Quotas::new(Quota {
            sessions: Some(1),
            bytes: None,
            tolerance: 0,
        });
        let admit = |sessions| quotas.admit(&ledger, Some(alice), sessions, None);
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
    async fn reservation_is_of_what_has_arrived_and_no_more() {
        let (ledger, quotas) = (MemoryLedger::new(), quotas(2 * MIB + 100));
        let mut reservation = quotas.reservation(Some("alice"));
        for bytes in [1, MIB, MIB + 1, 2 * MIB + 100, MIB, 0] {
            reservation.cover(&ledger, bytes).await.unwrap();
            let reserved = quotas.reserved("alice");
            assert_eq!((reservation.bytes, reserved), (bytes, bytes));
        }
        assert!(is_over_quota(
            reservation.cover(&ledger, 2 * MIB + 101).await
        ));
        assert_eq!(reservation.bytes, 0);
    }

    #[tokio::test]
    async fn all_uploads_at_once_that_fit_get_their_reservation() {
        for stored in [0, MIB / 2] {
            let ledger = MemoryLedger::new();
            store(&ledger, stored).await;
            let quotas = quotas(MIB);
            let alice = "alice";
            let mut uploads: Vec<_> = (0..30).map(|_| quotas.reservation(Some(alice))).collect();
            let asked = uploads
                .iter_mut()
                .map(|upload| upload.cover(&ledger, 100_000));
            let refused = join_all(asked).await.into_iter().filter(Result::is_err);
            let fit = usize::try_from((MIB - stored) / 100_000).unwrap();
            assert_eq!(refused.count(), 30 - fit, "{stored} bytes are stored");
        }
    }

    /// Limits alice to a MiB.
    struct OfAlice;

    #[async_trait::async_trait]
    impl QuotaSource for OfAlice {
        async fn limits(
            &self,
            principal: &str,
        ) -> Result<PrincipalLimits, Box<dyn std::error::Error + Send + Sync>> {
            let limits = PrincipalLimits::default();
            Ok(match principal {
                "alice" => limits.with_bytes(MIB),
                _ => limits,
            })
        }
    }

    #[tokio::test]
    async fn reservation_has_the_limit_of_the_source() {
        let ledger = MemoryLedger::new();
        let quotas = Quotas::new(Quota::default()).with_source(Arc::new(OfAlice));
        let mut of_alice = quotas.reservation(Some("alice"));
        of_alice.cover(&ledger, MIB).await.unwrap();
        assert!(is_over_quota(of_alice.cover(&ledger, MIB + 1).await));
        let mut of_bob = quotas.reservation(Some("bob"));
        of_bob.cover(&ledger, u64::MAX).await.unwrap();
        assert_eq!(quotas.reserved("bob"), u64::MAX);
        drop((of_alice, of_bob));
        assert!(quotas.reserved.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn ledger_is_asked_again_before_a_refusal() {
        let ledger = MemoryLedger::new();
        let session = store(&ledger, MIB).await;
        let quotas = quotas(MIB + 100);
        let alice = "alice";
        let mut running = quotas.reservation(Some(alice));
        running.cover(&ledger, 100).await.unwrap();
        assert!(is_over_quota(running.cover(&ledger, 101).await));
        let held = ledger.lease(session).await.unwrap().unwrap().lease;
        ledger
            .end(session, held, EndSession::Cancelled)
            .await
            .unwrap();
        running.cover(&ledger, 101).await.unwrap();
    }

    /// Has alice declare an upload of this length.
    async fn store(ledger: &MemoryLedger, declared: u64) -> SessionId {
        let session = NewSession {
            id: SessionId::from_bytes([1; 32]),
            context: Vec::new(),
            created: Timestamp::from_millis(0),
            expires: Timestamp::from_millis(1000),
            total: Some(declared),
            owner: Some("alice".to_owned()),
            dialect: "google".to_owned(),
        };
        let id = session.id;
        ledger.start(session).await.unwrap();
        id
    }
}
