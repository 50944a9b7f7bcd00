//! The uses of single-use links: rows of the ledger, one for each used link.
//!
//! An upload commits its row together with its resource, so only one of several uploads by the same
//! link finishes. A download commits its row before the first byte is sent.
//!
//! A row is kept after the expiry of its link for the lifetime of a session: a session that was
//! started just before the expiry may finish until then.

use std::time::Duration;

use bytes::Bytes;
use windlass_engine::identifiers::first_version;
use windlass_rest::link_terms::{LinkTerms, SingleUse};
use windlass_store::{ChangeSet, Ledger, LedgerError, Resource, ResourceChange, Timestamp};

use crate::error::Error;

/// The collection of the rows. No API has a name that begins with a dot, so no request reaches it.
const COLLECTION: &str = ".links";

/// Number of rows that are deleted in one change set.
pub(crate) const BATCH: usize = 64;

/// Refuses a single-use link that has been used.
///
/// # Errors
/// [`Error::LinkUsed`].
pub(crate) async fn check_unused(
    ledger: &dyn Ledger,
    link: Option<&LinkTerms>,
) -> Result<(), Error> {
    let Some(single_use) = link.and_then(LinkTerms::single_use) else {
        return Ok(());
    };
    match ledger.resource(COLLECTION, &row_id(single_use)).await? {
        Some(_) => Err(Error::LinkUsed),
        None => Ok(()),
    }
}

/// Returns the change that records a use; `None` if the link may be used many times. The ledger
/// refuses the change set with [`LedgerError::Conflict`] if the link has been used meanwhile.
pub(crate) fn record(link: Option<&LinkTerms>, now: Timestamp) -> Option<ResourceChange> {
    let single_use = link.and_then(LinkTerms::single_use)?;
    Some(ResourceChange::Insert(Resource {
        collection: COLLECTION.to_owned(),
        id: row_id(single_use),
        version: first_version(),
        body: Bytes::from_static(b"{}"),
        media: None,
        created: now,
        updated: now,
        due: None,
        claimed_by: None,
        owner: None,
    }))
}

/// Records the use of a link by a download.
///
/// # Errors
/// [`Error::LinkUsed`] if it is a single-use link that has been used.
pub(crate) async fn commit(
    ledger: &dyn Ledger,
    link: Option<&LinkTerms>,
    now: Timestamp,
) -> Result<(), Error> {
    let Some(change) = record(link, now) else {
        return Ok(());
    };
    let changes = ChangeSet {
        resources: vec![change],
        ..ChangeSet::default()
    };
    ledger.apply(changes).await.map_err(|error| match error {
        LedgerError::Conflict => Error::LinkUsed,
        error => error.into(),
    })
}

/// Deletes up to [`BATCH`] rows that are not needed any more. Returns their number.
pub(crate) async fn forget(
    ledger: &dyn Ledger,
    now: Timestamp,
    session_lifetime: Duration,
) -> Result<usize, LedgerError> {
    // Ids sort by expiry, so the first rows are the oldest.
    let rows = ledger.resources(COLLECTION, None, BATCH).await?;
    let is_due = |row: &Resource| {
        expiry(&row.id).is_some_and(|expiry| expiry.saturating_add(session_lifetime) <= now)
    };
    let due = rows.into_iter().filter(is_due);
    let resources: Vec<_> = due
        .map(|row| ResourceChange::Delete {
            collection: row.collection,
            id: row.id,
            expected: row.version,
        })
        .collect();
    let count = resources.len();
    if count == 0 {
        return Ok(0);
    }
    let changes = ChangeSet {
        resources,
        ..ChangeSet::default()
    };
    match ledger.apply(changes).await {
        Ok(()) => Ok(count),
        // Another process has deleted some of them.
        Err(LedgerError::Conflict) => Ok(0),
        Err(error) => Err(error),
    }
}

/// The expiry of the link, so that rows sort by it, and the link's id.
fn row_id(single_use: &SingleUse) -> String {
    format!("{:016x}.{}", single_use.expires, single_use.id)
}

fn expiry(row_id: &str) -> Option<Timestamp> {
    let (seconds, _) = row_id.split_once('.')?;
    let seconds = u64::from_str_radix(seconds, 16).ok()?;
    Some(Timestamp::from_millis(seconds.saturating_mul(1000)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt as _;
    use windlass_store::fault::PacedLedger;
    use windlass_store::memory::MemoryLedger;

    use super::*;
    use windlass_rest::link_terms::LinkPurpose;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn now<T>(future: impl Future<Output = T>) -> T {
        future.now_or_never().expect("it waits for nothing")
    }

    fn once(id: &str, expires: u64) -> LinkTerms {
        LinkTerms::new(LinkPurpose::Download).once(id, expires)
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    #[test]
    fn link_that_counts_once_is_refused_after_its_use() {
        let ledger = MemoryLedger::new();
        let (one, other) = (once("a", 9), once("b", 9));
        for link in [None, Some(&one), Some(&other)] {
            now(check_unused(&ledger, link)).expect("it is not used");
        }
        now(commit(&ledger, Some(&one), at(1))).expect("it is not used");
        let refused = now(check_unused(&ledger, Some(&one)));
        assert!(matches!(refused, Err(Error::LinkUsed)), "{refused:?}");
        let refused = now(commit(&ledger, Some(&one), at(1)));
        assert!(matches!(refused, Err(Error::LinkUsed)), "{refused:?}");
        now(check_unused(&ledger, Some(&other))).expect("it is another link");
    }

    #[test]
    fn use_is_forgotten_the_lifetime_of_a_session_after_the_expiry() {
        let ledger = MemoryLedger::new();
        let last = DAY.as_secs();
        let links = u64::try_from(BATCH).unwrap() + 3;
        for number in 0..links {
            let link = once(&number.to_string(), number % 2 * 5);
            now(commit(&ledger, Some(&link), at(1))).expect("it is not used");
        }
        let forget = |seconds| now(forget(&ledger, at(seconds), DAY)).expect("a sound ledger");
        assert_eq!(forget(last - 1), 0);
        // The even ones.
        assert_eq!(forget(last), BATCH / 2 + 2);
        assert_eq!(forget(last + 4), 0);
        assert_eq!(forget(last + 5), BATCH / 2 + 1);
        assert_eq!(forget(last + 5), 0);
    }

    #[tokio::test]
    async fn rows_that_another_process_forgets_meanwhile_are_no_error() {
        let memory = Arc::new(MemoryLedger::new());
        commit(&*memory, Some(&once("a", 0)), at(1))
            .await
            .expect("it is not used");
        let paced = PacedLedger::new(Arc::clone(&memory) as Arc<dyn Ledger>);
        let stopped = paced.stop_at(COLLECTION);
        let late = at(DAY.as_secs());
        let (slow, fast) = stopped
            .during(forget(&paced, late, DAY), forget(&*memory, late, DAY))
            .await;
        assert_eq!((slow.unwrap(), fast.unwrap()), (0, 1));
    }

    #[test]
    fn batch_of_rows_is_bounded() {
        let ledger = MemoryLedger::new();
        for number in 0..=BATCH {
            let link = once(&number.to_string(), 0);
            now(commit(&ledger, Some(&link), at(1))).expect("it is not used");
        }
        let forget = || now(forget(&ledger, at(DAY.as_secs()), DAY)).expect("a sound ledger");
        assert_eq!((forget(), forget(), forget()), (BATCH, 1, 0));
    }
}
