//! Behaviour on a full disk: the use of the reserve, and the available space.

use rusqlite::ffi::{Error, SQLITE_FULL};
use windlass_store::{FinishSession, OwnerQuotas};

use super::*;

/// A ledger with a reserve, on a disk that is full. The full disk is simulated: a change that needs
/// space fails until the reserve is short enough.
struct FullDisk {
    test: TestLedger,
    /// Path of the reserve.
    reserve: PathBuf,
    /// Length of the reserve at first.
    whole: u64,
}

impl FullDisk {
    fn new() -> Self {
        let test = TestLedger::new();
        let reserve = test.dir.path().join("reserve");
        let whole = reserve.metadata().unwrap().len();
        assert!(whole > 0, "this disk has room");
        Self {
            test,
            reserve,
            whole,
        }
    }

    fn reserve_len(&self) -> u64 {
        self.reserve.metadata().unwrap().len()
    }

    /// Makes a change that finds space only when the reserve has at most `len` bytes left. Returns
    /// whether the change has succeeded.
    async fn finds_space(&self, purpose: Option<Purpose>, len: u64) -> bool {
        let done = self.test.ledger.change(self.change(purpose, len)).await;
        assert!(
            matches!(done, Ok(()) | Err(LedgerError::NoSpace)),
            "{done:?}"
        );
        done.is_ok()
    }

    /// Returns a change that finds space only when the reserve has at most `len` bytes left.
    fn change(&self, purpose: Option<Purpose>, len: u64) -> Change {
        let reserve = self.reserve.clone();
        any(purpose, move |connection| {
            if reserve.metadata().unwrap().len() <= len {
                return Ok(());
            }
            connection.execute_batch("ROLLBACK")?;
            Err(rusqlite::Error::SqliteFailure(
                Error::new(SQLITE_FULL),
                None,
            ))
        })
    }
}

#[tokio::test]
async fn changes_that_only_take_space_may_not_use_the_reserve() {
    let disk = FullDisk::new();
    assert!(!disk.finds_space(None, disk.whole - 1).await);
    assert_eq!(disk.reserve_len(), disk.whole);
}

#[tokio::test]
async fn reserve_is_shortened_only_as_far_as_needed() {
    let disk = FullDisk::new();
    assert!(
        disk.finds_space(Some(Purpose::MakeSpace), disk.whole - 1)
            .await
    );
    assert_eq!(disk.reserve_len(), disk.whole / 8 * 7);
}

#[tokio::test]
async fn each_purpose_leaves_its_part_of_the_reserve() {
    let disk = FullDisk::new();
    let (half, quarter) = (disk.whole / 2, disk.whole / 4);
    assert!(!disk.finds_space(Some(Purpose::Uploads), half - 1).await);
    assert_eq!(disk.reserve_len(), half);
    assert!(
        !disk
            .finds_space(Some(Purpose::MakeSpace), quarter - 1)
            .await
    );
    assert_eq!(disk.reserve_len(), quarter);
    assert!(disk.finds_space(Some(Purpose::MakeSpace), quarter).await);
}

#[tokio::test]
async fn change_without_space_does_not_affect_others_of_its_commit() {
    let disk = FullDisk::new();
    let call = |purpose, len| {
        let (ledger, change) = (Arc::clone(&disk.test.ledger), disk.change(purpose, len));
        async move { ledger.change(change).await }
    };
    let calls = vec![
        call(None, 0),
        call(Some(Purpose::MakeSpace), disk.whole),
        call(Some(Purpose::Uploads), 0),
    ];
    let done = disk.test.queue(calls).await;
    assert!(matches!(done[0], Err(LedgerError::NoSpace)), "{done:?}");
    assert!(done[1].is_ok(), "{done:?}");
    assert!(matches!(done[2], Err(LedgerError::NoSpace)), "{done:?}");
    assert_eq!(
        disk.reserve_len(),
        disk.whole / 2,
        "the finish has used what there is for it"
    );
}

#[test]
fn purpose_of_each_change() {
    let deletion = |version| ResourceChange::Delete {
        collection: "c".to_owned(),
        id: "i".to_owned(),
        expected: version,
    };
    let apply = |changes| Change::Apply {
        changes: Box::new(changes),
        quotas: OwnerQuotas::default(),
    };
    let change = |resources| {
        apply(ChangeSet {
            resources,
            ..ChangeSet::default()
        })
    };
    let (id, epoch) = (id(1), Epoch(1));
    let commit = |small_media| Change::OffsetCommit {
        id,
        epoch,
        commit: OffsetCommit {
            small_media,
            ..append(0, 1)
        },
        quota: Quota::default(),
    };
    let end = EndSession::Cancelled;
    let (now, limit) = (Timestamp::from_millis(0), 1);
    let finish = FinishSession {
        handle: Bytes::new(),
        left: Vec::new(),
        id,
        lease: Lease {
            id: LeaseId::from_bytes([0; 16]),
            epoch,
        },
        progress: Progress::none(None),
        reply: Vec::new(),
    };
    let finish = ChangeSet {
        finish: Some(finish),
        ..ChangeSet::default()
    };
    let cases = [
        (Change::Start(new_session(1), Quota::default()), None),
        (commit(Some(Bytes::from_static(b"a"))), None),
        (commit(None), Some(Purpose::Uploads)),
        (apply(finish), Some(Purpose::Uploads)),
        (apply(ChangeSet::default()), None),
        (change(vec![deletion(1)]), Some(Purpose::MakeSpace)),
        (Change::End { id, epoch, end }, Some(Purpose::MakeSpace)),
        (Change::Expire { now, limit }, Some(Purpose::MakeSpace)),
        (
            Change::Deleted {
                entries: Vec::new(),
                again_after: None,
            },
            Some(Purpose::MakeSpace),
        ),
    ];
    for (number, (change, purpose)) in cases.into_iter().enumerate() {
        assert_eq!(change.purpose(), purpose, "case {number}");
    }
}

#[tokio::test]
async fn free_pages_are_returned_to_a_disk_that_is_short_of_space() {
    let test = TestLedger::new();
    let path = test.dir.path().join("ledger.sqlite");
    let ledger = &test.ledger;
    for n in 0..8 {
        let large = NewSession {
            context: vec![0; 1 << 20],
            expires: Timestamp::from_millis(1),
            ..new_session(n)
        };
        ledger.start(large).await.unwrap();
    }
    ledger.start(new_session(8)).await.unwrap();
    let all = Timestamp::from_millis(2);
    assert_eq!(ledger.expire(all, 100).await.unwrap(), 8);
    let size = async || ledger.readers.read(DatabaseSize::of).await.unwrap();
    let before = size().await;
    let reclaimable = before.free_bytes;
    assert!(reclaimable > 8 << 20, "{before:?}");
    let report = |available| {
        let (total, disk) = (u64::MAX, 0);
        let space = Space {
            available,
            total,
            disk,
        };
        SpaceReport { space, reclaimable }
    };

    ledger.shrink(report(1 << 40)).await.unwrap();
    assert_eq!(size().await, before, "a disk with space needs none");
    ledger.shrink(report(4 << 20)).await.unwrap();
    // The file is shortened after the reply and before the next change.
    ledger.change(Change::Shrink).await.unwrap();
    let after = size().await;
    assert_eq!(after.free_bytes, 0);
    assert!(
        after.all_bytes <= before.all_bytes - reclaimable,
        "{after:?}, {before:?}"
    );
    let len = path.metadata().unwrap().len();
    assert!(len < 1 << 20, "the file has {len} bytes");
    assert!(ledger.session(id(8)).await.unwrap().is_some());
}

#[tokio::test]
async fn space_for_pages_that_only_the_wal_has_is_not_available() {
    let test = TestLedger::new();
    let path = test.dir.path().join("ledger.sqlite");
    let large = NewSession {
        context: vec![0; 8 << 20],
        ..new_session(1)
    };
    test.ledger.start(large).await.unwrap();
    let database = path.metadata().unwrap().len();
    assert!(database < 1 << 20, "it is in the WAL only: {database}");
    let mut size = test.ledger.readers.read(DatabaseSize::of).await.unwrap();
    assert!(size.all_bytes > 8 << 20, "{size:?}");
    let probe = SpaceProbe::of(
        &path,
        Arc::new(Reserve::open(&test.dir.path().join("other")).unwrap()),
    );
    let more_than_any_disk = u64::MAX / 2;
    size.all_bytes = database + more_than_any_disk;
    assert_eq!(probe.probe(size).unwrap().space.available, 0);
}
