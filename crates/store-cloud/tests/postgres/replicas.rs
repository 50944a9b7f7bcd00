//! Several ledgers over one database.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use windlass_store::recorder::StoreRecorder;
use windlass_store::{
    ChangeSet, Expected, Ledger, LedgerError, OffsetCommit, Progress, Quota, Resource,
    ResourceChange, SessionId, Takeover, Timestamp, Usage,
};
use windlass_store_cloud::CloudLedger;

use crate::database::{self, Database};
use crate::sample;

const HELD: OffsetCommit = OffsetCommit {
    from: 0,
    progress: Progress {
        offset: 10,
        total: None,
        crc32c: windlass_digest::Crc32c(0),
        slow_digests: Vec::new(),
        media: None,
        extent: None,
        expected_digests: Vec::new(),
    },
    small_media: None,
    extents: windlass_store::ExtentChanges {
        added: Vec::new(),
        dropped: Vec::new(),
    },
    state: windlass_store::SessionState::Active,
    expires: None,
    releases: false,
};

async fn two(database: &Database) -> [CloudLedger; 2] {
    [database.open().await, database.open().await]
}

/// Whether a ledger gets a lease without taking it by force.
async fn gets(ledger: &CloudLedger, id: SessionId) -> bool {
    match ledger.lease_by(id, Takeover::Ask).await {
        Ok(leased) => leased.is_some(),
        Err(LedgerError::Held) => false,
        Err(error) => panic!("{error:?}"),
    }
}

/// Claims the row that `with_work` inserts.
async fn claims(ledger: &CloudLedger) -> usize {
    let [now, until] = [10, 1_000_000].map(Timestamp::from_millis);
    ledger.claim("events", now, until, 9).await.unwrap().len()
}

/// Lets a ledger work on a session, claim a row and do a task.
async fn with_work(ledger: &CloudLedger) -> SessionId {
    let (id, lease) = sample::start(ledger, 1).await;
    ledger.commit_offset(id, lease, HELD).await.unwrap();
    let mut event = sample::resource("events", "one", None);
    event.due = Some(Timestamp::from_millis(5));
    ledger.apply(sample::insert(vec![event])).await.unwrap();
    assert_eq!(claims(ledger).await, 1);
    let term = Duration::from_secs(3600);
    assert!(ledger.acquire_task("sweep", term).await.unwrap());
    id
}

async fn takes_nothing(ledger: &CloudLedger, id: SessionId) {
    assert!(!gets(ledger, id).await);
    assert_eq!(claims(ledger).await, 0);
    let term = Duration::from_secs(3600);
    assert!(!ledger.acquire_task("sweep", term).await.unwrap());
}

async fn takes_all(ledger: &CloudLedger, id: SessionId) {
    assert!(gets(ledger, id).await);
    assert_eq!(claims(ledger).await, 1);
    let term = Duration::from_secs(3600);
    assert!(ledger.acquire_task("sweep", term).await.unwrap());
}

#[tokio::test]
async fn work_of_a_closed_ledger_is_free_at_once() {
    let database = Database::new().await;
    let [first, second] = two(&database).await;
    let id = with_work(&first).await;
    takes_nothing(&second, id).await;
    first.close().await.unwrap();
    takes_all(&second, id).await;
}

#[tokio::test]
async fn work_of_a_silent_ledger_is_free_after_a_while() {
    let database = Database::new().await;
    let [first, second] = two(&database).await;
    let id = with_work(&first).await;
    drop(first);
    takes_nothing(&second, id).await;
    let silence = "UPDATE replicas SET beat = beat - interval '7 seconds'
        WHERE id = (SELECT min(id) FROM replicas)";
    database.client.batch_execute(silence).await.unwrap();
    takes_all(&second, id).await;
}

#[tokio::test]
async fn media_is_released_when_its_last_two_references_go_at_once() {
    let database = Database::new().await;
    let [first, second] = two(&database).await;
    for n in 0..30 {
        let rows = ["one", "other"].map(|id| sample::resource("r", id, Some(sample::media(n))));
        first.apply(sample::insert(rows.into())).await.unwrap();
        let (one, other) = tokio::join!(
            first.apply(sample::delete("r", "one")),
            second.apply(sample::delete("r", "other"))
        );
        one.unwrap();
        other.unwrap();
        let garbage = database.number("SELECT count(*) FROM garbage").await;
        assert_eq!(garbage, i64::from(n) + 1);
    }
    assert_eq!(database.number("SELECT count(*) FROM media").await, 0);
}

#[tokio::test]
async fn media_that_goes_is_not_named_at_the_same_time() {
    let database = Database::new().await;
    let [first, second] = two(&database).await;
    let mut named = 0;
    for n in 0..30 {
        let media = Some(sample::media(n));
        let original = sample::resource("r", &format!("original {n}"), media);
        let copy = sample::resource("r", &format!("copy {n}"), media);
        let id = original.id.clone();
        first.apply(sample::insert(vec![original])).await.unwrap();
        let copies = ChangeSet {
            resources: vec![ResourceChange::Insert(copy)],
            ..ChangeSet::default()
        };
        let (deletion, naming) =
            tokio::join!(first.apply(sample::delete("r", &id)), second.apply(copies));
        deletion.unwrap();
        match naming {
            Ok(()) => named += 1,
            Err(LedgerError::Conflict) => {}
            Err(error) => panic!("{error:?}"),
        }
        let counted = database.number("SELECT count(*) FROM media").await;
        let garbage = database.number("SELECT count(*) FROM garbage").await;
        assert_eq!((counted, garbage), (named, i64::from(n) + 1 - named));
    }
}

#[tokio::test]
async fn one_of_two_changes_that_expect_the_other_to_be_absent_succeeds() {
    let database = Database::new().await;
    let [first, second] = two(&database).await;
    for n in 0..30 {
        let ids = [format!("a {n}"), format!("b {n}")];
        let change = |inserted: &str, absent: &str| ChangeSet {
            expect: vec![Expected::absent("r", absent)],
            ..sample::insert(vec![sample::resource("r", inserted, None)])
        };
        let (one, other) = tokio::join!(
            first.apply(change(&ids[0], &ids[1])),
            second.apply(change(&ids[1], &ids[0]))
        );
        assert!(one.is_ok() != other.is_ok(), "{n}: {one:?}, {other:?}");
        let refused = if one.is_ok() { other } else { one };
        assert!(
            matches!(refused, Err(LedgerError::Conflict)),
            "{n}: {refused:?}"
        );
    }
    let rows = first.resources("r", None, 100).await.unwrap();
    assert_eq!(rows.len(), 30);
}

#[tokio::test]
async fn one_of_two_changes_that_expect_each_others_rows_succeeds() {
    let database = Database::new().await;
    let [first, second] = two(&database).await;
    for n in 0..30 {
        let rows = ["a", "b"].map(|id| sample::resource("r", &format!("{id} {n}"), None));
        first.apply(sample::insert(rows.to_vec())).await.unwrap();
        let change = |changed: &Resource, read: &Resource| ChangeSet {
            expect: vec![Expected::unchanged(read)],
            resources: vec![ResourceChange::Replace {
                resource: Resource {
                    version: 2,
                    ..changed.clone()
                },
                expected: 1,
            }],
            ..ChangeSet::default()
        };
        let (one, other) = tokio::join!(
            first.apply(change(&rows[0], &rows[1])),
            second.apply(change(&rows[1], &rows[0]))
        );
        assert!(one.is_ok() != other.is_ok(), "{n}: {one:?}, {other:?}");
    }
}

#[tokio::test]
async fn row_is_claimed_once_however_many_claim_at_once() {
    let database = Database::new().await;
    let [first, second] = two(&database).await;
    for n in 0..20 {
        let collection = format!("events {n}");
        let events = (0..20).map(|id| Resource {
            due: Some(Timestamp::from_millis(5)),
            ..sample::resource(&collection, &format!("{id:02}"), None)
        });
        first.apply(sample::insert(events.collect())).await.unwrap();
        let [now, until] = [10, 1_000_000].map(Timestamp::from_millis);
        let claim = |ledger| Ledger::claim(ledger, &collection, now, until, 7);
        let (a, b, c, d) =
            tokio::join!(claim(&first), claim(&second), claim(&first), claim(&second));
        let claimed = [a, b, c, d].map(|claimed| claimed.unwrap()).concat();
        let mut ids: Vec<_> = claimed.iter().map(|row| &row.id).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "{n}: none is claimed twice");
        let rest = claim(&first).await.unwrap();
        assert_eq!(count + rest.len(), 20, "{n}: all are claimed");
    }
}

#[tokio::test]
async fn collection_is_not_filled_while_its_parent_is_deleted() {
    let database = Database::new().await;
    let [first, second] = two(&database).await;
    for n in 0..30 {
        let (bucket, objects) = (format!("bucket {n}"), format!("objects {n}"));
        let row = sample::resource("buckets", &bucket, None);
        let expect = vec![Expected::unchanged(&row)];
        first.apply(sample::insert(vec![row])).await.unwrap();
        let deletion = ChangeSet {
            expect_empty: vec![objects.clone()],
            ..sample::delete("buckets", &bucket)
        };
        let insertion = ChangeSet {
            expect,
            ..sample::insert(vec![sample::resource(&objects, "object", None)])
        };
        let (deleted, inserted) = tokio::join!(first.apply(deletion), second.apply(insertion));
        assert!(
            deleted.is_ok() != inserted.is_ok(),
            "{n}: {deleted:?}, {inserted:?}"
        );
    }
}

#[tokio::test]
async fn quota_holds_for_sessions_that_start_at_once() {
    let database = Database::new().await;
    let ledgers = two(&database).await.map(Arc::new);
    let quota = Quota {
        sessions: Some(5),
        ..Quota::default()
    };
    let mut starting = JoinSet::new();
    for n in 0..40 {
        let ledger = Arc::clone(&ledgers[usize::from(n % 2)]);
        let session = sample::session(n);
        starting.spawn(async move { ledger.start_within(session, quota).await });
    }
    let started = starting.join_all().await;
    let refused = |it: &Result<_, LedgerError>| matches!(it, Err(LedgerError::OverQuota));
    assert_eq!(started.iter().filter(|it| it.is_ok()).count(), 5);
    assert_eq!(started.iter().filter(|it| refused(it)).count(), 35);
}

#[tokio::test]
async fn usage_of_two_ledgers_is_exact() {
    let database = Database::new().await;
    let ledgers = two(&database).await.map(Arc::new);
    let quota = Quota {
        bytes: Some(1 << 40),
        ..Quota::default()
    };
    let mut running = JoinSet::new();
    for n in 0..20_u8 {
        let ledger = Arc::clone(&ledgers[usize::from(n % 2)]);
        running.spawn(async move {
            let (id, lease) = sample::start(&*ledger, n).await;
            for step in 0..10 {
                let commit = sample::commit(step * 1000, (step + 1) * 1000);
                let commit = ledger.commit_offset_within(id, lease, commit, quota);
                commit.await.unwrap();
            }
        });
    }
    running.join_all().await;
    let kib: u64 = (10_000 + 24_u64).div_ceil(1024);
    let expected = Usage {
        sessions: 20,
        bytes: 20 * kib * 1024,
    };
    for ledger in &ledgers {
        assert_eq!(ledger.usage("owner").await.unwrap(), expected);
    }
    let slots = "SELECT count(DISTINCT slot) FROM usage WHERE slot > 0";
    assert_eq!(database.number(slots).await, 2, "each has its own rows");
}

#[derive(Debug, Default)]
struct Transactions {
    count: AtomicUsize,
    changes: AtomicUsize,
}

impl StoreRecorder for Transactions {
    fn committed(&self, _: Duration, changes: usize) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.changes.fetch_add(changes, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn commits_that_wait_together_are_made_together() {
    let database = Database::new().await;
    let recorder = Arc::new(Transactions::default());
    let options = database::options().recorder(Arc::clone(&recorder) as Arc<dyn StoreRecorder>);
    let ledger = Arc::new(database.open_with(options).await);
    let mut leases = Vec::new();
    for n in 0..60 {
        leases.push(sample::start(&*ledger, n).await);
    }
    let (transactions, changes) = (&recorder.count, &recorder.changes);
    let before = [transactions, changes].map(|it| it.load(Ordering::Relaxed));
    let mut running = JoinSet::new();
    for (id, lease) in leases {
        let ledger = Arc::clone(&ledger);
        running.spawn(async move {
            let commit = ledger.commit_offset(id, lease, sample::commit(0, 10));
            commit.await.unwrap();
        });
    }
    running.join_all().await;
    let after = [transactions, changes].map(|it| it.load(Ordering::Relaxed));
    assert_eq!(after[1] - before[1], 60);
    assert!(after[0] - before[0] < 30, "{before:?}, {after:?}");
}

#[tokio::test]
async fn commits_write_no_index() {
    let database = Database::new().await;
    let ledger = database.open().await;
    let (id, lease) = sample::start(&ledger, 1).await;
    let steps = 200;
    for step in 0..steps {
        let commit = sample::commit(step, step + 1);
        ledger.commit_offset(id, lease, commit).await.unwrap();
    }
    // The statistics of a connection are written when it ends, at the latest.
    ledger.close().await.unwrap();
    let updates = "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'tips'";
    while database.number(updates).await < i64::try_from(steps).unwrap() {
        tokio::task::yield_now().await;
    }
    let other = "SELECT n_tup_upd - n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'tips'";
    let other = database.number(other).await;
    assert!(other <= 10, "{other} of {steps} updates are not HOT");
}
