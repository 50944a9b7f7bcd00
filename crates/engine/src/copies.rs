//! Limits on the bytes that the server copies for one caller: concatenated media, and rows that a
//! call creates from little input.
//!
//! A short request may make the server write many bytes: an object concatenated 32 times, and the
//! result 32 times again. A caller may have each uploaded byte copied twice (`LEVELS`), and
//! beyond that the number of bytes given to [`CopyLimits::new`] in an hour. The excess drains over
//! time like a leaky bucket.
//!
//! A caller is a principal, or otherwise an address. At most 10,000 callers ([`MAX_CALLERS`]) are
//! remembered. Callers that come when the table is full share one account.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use windlass_store::ResourceChange;

use crate::error::Error;
use crate::shares::{Caller, MAX_CALLERS};

/// The number of times that each uploaded byte may be copied. Clients that upload in parts compose
/// the parts. With more than 32 parts they then compose the composites.
const LEVELS: u64 = 2;

const HOUR: Duration = Duration::from_secs(3600);

/// After this time without an upload or a copy, the credit of a caller expires. When the table is
/// full, an hour is enough.
const MEMORY: Duration = Duration::from_secs(24 * 3600);

/// Minimum time between two removals of unneeded accounts.
const CLEANING: Duration = Duration::from_secs(1);

/// Accounts with less credit than this number of bytes are evicted when the table is full.
/// Such credit is small compared with an hour's copies, and cheap to earn from many addresses.
const SMALL_CREDIT: u64 = 1 << 20;

/// Bytes of rows that a call may create without input. Nearly all calls create less.
const SHORT_ROWS: u64 = 64 * 1024;

/// The accounts of all callers. Clones share them.
#[derive(Debug, Clone)]
pub struct CopyLimits(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    /// Bytes that the server copies for one caller in an hour, beyond the credit for uploads.
    per_hour: u64,
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    accounts: HashMap<Caller, Account>,
    /// The account of callers that are not in the table, and of callers without an address.
    others: Account,
    cleaned: Instant,
}

/// The uploads of one caller and the bytes copied for it.
#[derive(Debug)]
struct Account {
    /// Credit in bytes for uploads that is not used for copies yet.
    uploaded: u64,
    /// Bytes that were copied beyond the credit for uploads, minus the part that has drained since.
    excess: u64,
    at: Instant,
}

/// Bytes to copy. Dropping the charge before [`CopyCharge::keep`] cancels it.
#[derive(Debug, Default)]
#[must_use]
pub struct CopyCharge {
    /// The accounts, the caller, and the parts charged to its uploads and to its hour.
    charged: Option<(Arc<Shared>, Option<Caller>, Parts)>,
}

#[derive(Debug, Clone, Copy)]
struct Parts {
    uploaded: u64,
    excess: u64,
}

/// Returns by how many bytes the new rows of a call and the bytes of the media that it adds exceed
/// what the call may create: 64 KiB, and four times the bytes that it has brought.
pub fn bytes_beyond(brought: u64, changes: &[ResourceChange], added_media: u64) -> u64 {
    let rows = changes.iter().map(|change| match change {
        ResourceChange::Insert(resource) => resource.body.len() as u64,
        _ => 0,
    });
    let created = rows.fold(added_media, u64::saturating_add);
    // A row states the fields of its request in a longer form.
    created.saturating_sub(SHORT_ROWS.saturating_add(brought.saturating_mul(4)))
}

impl CopyLimits {
    /// Allows each caller to have this number of bytes copied in an hour, besides the credit for
    /// its uploads. 0 sets no limit.
    pub fn new(per_hour: u64) -> Self {
        let table = Table {
            accounts: HashMap::new(),
            others: Account::new(),
            cleaned: Instant::now(),
        };
        let shared = || {
            Arc::new(Shared {
                per_hour,
                table: Mutex::new(table),
            })
        };
        Self((per_hour > 0).then(shared))
    }

    /// Counts media that a caller has uploaded.
    pub fn uploaded(&self, caller: impl FnOnce() -> Option<Caller>, bytes: u64) {
        let Some(shared) = &self.0 else {
            return;
        };
        let (caller, per_hour) = (caller(), shared.per_hour);
        let mut table = shared.lock();
        // The account that late callers share must not grow by each of their uploads. Callers
        // without an address always use it.
        let has_account = caller
            .as_ref()
            .is_none_or(|caller| table.has_room(caller, per_hour));
        if has_account && bytes > 0 {
            let account = table.account(caller.as_ref(), per_hour);
            account.uploaded = account
                .uploaded
                .saturating_add(bytes.saturating_mul(LEVELS));
        }
    }

    /// Counts bytes that are to be copied for a caller.
    ///
    /// # Errors
    /// [`Error::TooManyCopies`] if they exceed the limit.
    pub fn charge(
        &self,
        caller: impl FnOnce() -> Option<Caller>,
        bytes: u64,
    ) -> Result<CopyCharge, Error> {
        let Some(shared) = self.0.as_ref().filter(|_| bytes > 0) else {
            return Ok(CopyCharge::default());
        };
        let caller = caller();
        let parts = shared
            .lock()
            .account(caller.as_ref(), shared.per_hour)
            .charge(bytes, shared.per_hour)?;
        let charged = Some((Arc::clone(shared), caller, parts));
        Ok(CopyCharge { charged })
    }
}

impl CopyCharge {
    /// Confirms that the bytes were copied.
    pub fn keep(mut self) {
        self.charged = None;
    }
}

impl Drop for CopyCharge {
    fn drop(&mut self) {
        if let Some((shared, caller, parts)) = self.charged.take() {
            let mut table = shared.lock();
            let account = table.account(caller.as_ref(), shared.per_hour);
            account.uploaded = account.uploaded.saturating_add(parts.uploaded);
            account.excess = account.excess.saturating_sub(parts.excess);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Returns the account of a caller as of now. A caller without its own account gets the shared
    /// account.
    fn account(&mut self, caller: Option<&Caller>, per_hour: u64) -> &mut Account {
        let is_own = caller.is_some_and(|caller| self.has_room(caller, per_hour));
        let account = match caller.filter(|_| is_own) {
            Some(caller) => self
                .accounts
                .entry(caller.clone())
                .or_insert_with(Account::new),
            None => &mut self.others,
        };
        account.advance(per_hour);
        account
    }

    /// Whether the caller is in the table, or may be added to it.
    fn has_room(&mut self, caller: &Caller, per_hour: u64) -> bool {
        if self.accounts.contains_key(caller) || self.accounts.len() < MAX_CALLERS {
            return true;
        }
        if self.cleaned.elapsed() >= CLEANING {
            self.cleaned = Instant::now();
            self.accounts.retain(|_, account| {
                let silent = account.at.elapsed();
                let faded = faded(silent, per_hour);
                account.excess > faded || (account.uploaded >= SMALL_CREDIT && silent < HOUR)
            });
        }
        self.accounts.len() < MAX_CALLERS
    }
}

impl Account {
    fn new() -> Self {
        Self {
            uploaded: 0,
            excess: 0,
            at: Instant::now(),
        }
    }

    fn advance(&mut self, per_hour: u64) {
        let silent = self.at.elapsed();
        let faded = faded(silent, per_hour);
        if silent >= MEMORY {
            self.uploaded = 0;
        }
        // An interval in which nothing drains must not count as elapsed time.
        if faded > 0 || self.excess == 0 {
            self.excess = self.excess.saturating_sub(faded);
            self.at = Instant::now();
        }
    }

    fn charge(&mut self, bytes: u64, per_hour: u64) -> Result<Parts, Error> {
        let uploaded = bytes.min(self.uploaded);
        let excess = bytes - uploaded;
        let after = self.excess.saturating_add(excess);
        if after > per_hour {
            let wait = u128::from(after - per_hour) * u128::from(HOUR.as_secs());
            let wait = wait.div_ceil(u128::from(per_hour));
            return Err(Error::TooManyCopies {
                bytes,
                // Waiting alone never admits a copy above the limit of an hour. The caller may have
                // uploaded more by then.
                left: (per_hour - self.excess.min(per_hour)).saturating_add(self.uploaded),
                retry_after: u32::try_from(wait).map_or(3600, |wait| wait.clamp(1, 3600)),
            });
        }
        self.uploaded -= uploaded;
        self.excess = after;
        Ok(Parts { uploaded, excess })
    }
}

/// Returns the bytes that drain in this time.
fn faded(time: Duration, per_hour: u64) -> u64 {
    let faded = u128::from(per_hour) * time.as_millis() / HOUR.as_millis();
    u64::try_from(faded).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::time::advance;
    use windlass_store::{Resource, Timestamp};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn limits(copies_per_hour: u64) -> CopyLimits {
        CopyLimits::new(copies_per_hour)
    }

    fn named(name: &str) -> impl FnOnce() -> Option<Caller> {
        let caller = Caller::Principal(name.to_owned());
        move || Some(caller)
    }

    /// Copies, or returns after how many seconds the caller may try again.
    fn copied(limits: &CopyLimits, name: &str, bytes: u64) -> Result<(), u32> {
        match limits.charge(named(name), bytes) {
            Ok(copy) => {
                copy.keep();
                Ok(())
            }
            Err(Error::TooManyCopies { retry_after, .. }) => Err(retry_after),
            Err(error) => panic!("{error}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn copies_beyond_the_hour_are_refused() {
        let limits = limits(10 * MIB);
        assert_eq!(copied(&limits, "alice", 8 * MIB), Ok(()));
        assert_eq!(copied(&limits, "alice", 4 * MIB), Err(720));
        assert_eq!(copied(&limits, "bob", 10 * MIB), Ok(()), "each has its own");
        advance(Duration::from_secs(720)).await;
        assert_eq!(copied(&limits, "alice", 4 * MIB), Ok(()));
        assert_eq!(copied(&limits, "alice", 100 * MIB), Err(3600));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_uploaded_may_be_copied_twice() {
        let limits = limits(10 * MIB);
        limits.uploaded(named("alice"), 500 * MIB);
        assert_eq!(copied(&limits, "alice", 500 * MIB), Ok(()));
        assert_eq!(copied(&limits, "alice", 500 * MIB), Ok(()));
        assert_eq!(copied(&limits, "alice", 10 * MIB), Ok(()));
        assert_eq!(copied(&limits, "alice", 1), Err(1));
        limits.uploaded(named("alice"), MIB);
        assert_eq!(copied(&limits, "alice", 2 * MIB), Ok(()));
        assert!(copied(&limits, "bob", 11 * MIB).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn uploads_are_forgotten_after_a_day_of_silence() {
        let limits = limits(10 * MIB);
        for (silent, expected) in [(MEMORY / 2, Ok(())), (MEMORY, Err(3600))] {
            limits.uploaded(named("alice"), 500 * MIB);
            advance(silent).await;
            assert_eq!(copied(&limits, "alice", 500 * MIB), expected, "{silent:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn copy_that_failed_does_not_count() {
        let limits = limits(10 * MIB);
        limits.uploaded(named("alice"), 5 * MIB);
        for _ in 0..3 {
            drop(limits.charge(named("alice"), 12 * MIB).unwrap());
        }
        assert_eq!(copied(&limits, "alice", 20 * MIB), Ok(()));
        assert!(copied(&limits, "alice", MIB).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn frequent_calls_do_not_stop_the_fading() {
        let limits = limits(3600);
        assert_eq!(copied(&limits, "alice", 3600), Ok(()));
        for _ in 0..40 {
            advance(Duration::from_millis(100)).await;
            assert!(copied(&limits, "alice", 3600).is_err());
        }
        assert_eq!(copied(&limits, "alice", 4), Ok(()), "of four seconds");
        assert_eq!(copied(&limits, "alice", 1), Err(1));
    }

    #[tokio::test(start_paused = true)]
    async fn callers_that_are_remembered_are_bounded() {
        let limits = limits(10 * MIB);
        for number in 0..MAX_CALLERS + 2 {
            let name = number.to_string();
            assert_eq!(copied(&limits, &name, 4 * MIB), Ok(()));
        }
        let accounts = || limits.0.as_ref().unwrap().lock().accounts.len();
        assert_eq!(accounts(), MAX_CALLERS);
        let late = copied(&limits, "late", 4 * MIB);
        assert!(late.is_err(), "the last three share an account");
        advance(HOUR).await;
        assert_eq!(copied(&limits, "late", 10 * MIB), Ok(()));
        assert_eq!(accounts(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn small_uploads_keep_nobody_out_of_the_table() {
        let limits = limits(10 * MIB);
        limits.uploaded(named("large"), 50 * MIB);
        for number in 0..MAX_CALLERS {
            limits.uploaded(named(&number.to_string()), 100);
        }
        advance(CLEANING).await;
        limits.uploaded(named("late"), 50 * MIB);
        for name in ["large", "late"] {
            assert_eq!(copied(&limits, name, 60 * MIB), Ok(()), "{name}");
        }
    }

    #[test]
    fn zero_is_no_limit() {
        assert_eq!(copied(&limits(0), "alice", u64::MAX), Ok(()));
    }

    #[test]
    fn rows_beyond_what_the_call_has_brought_are_copies() {
        let row = |bytes: usize| {
            ResourceChange::Insert(Resource {
                collection: "mails".to_owned(),
                id: "1".to_owned(),
                version: 1,
                body: Bytes::from(vec![b' '; bytes]),
                media: None,
                created: Timestamp::from_millis(0),
                updated: Timestamp::from_millis(0),
                due: None,
                claimed_by: None,
                owner: None,
            })
        };
        let rows = vec![row(12_000); 500];
        assert_eq!(
            bytes_beyond(12_000, &rows, 0),
            6_000_000 - SHORT_ROWS - 48_000
        );
        assert_eq!(bytes_beyond(900_000, &[row(950_000)], 0), 0);
        assert_eq!(bytes_beyond(0, &[row(60_000)], 0), 0);
        let beyond = bytes_beyond(0, &[row(60_000)], 60_000);
        assert_eq!(beyond, 120_000 - SHORT_ROWS);
    }
}
