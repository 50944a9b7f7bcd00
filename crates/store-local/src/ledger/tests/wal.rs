//! The write-ahead log: its length, its end after a crash, and the readers that open it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[tokio::test]
async fn long_wal_is_checkpointed_and_restarted() {
    let test = TestLedger::new();
    let wal = filesystem::with_suffix(&test.dir.path().join("ledger.sqlite"), "-wal");
    for n in 0..100 {
        let new = NewSession {
            context: vec![n; 1 << 20],
            ..new_session(n)
        };
        test.ledger.start(new).await.unwrap();
    }
    let len = wal.metadata().unwrap().len();
    assert!(
        len < 80 << 20,
        "the WAL is used again from its beginning, not {len} bytes long"
    );
}

/// A row with a long context would be written again with each commit.
#[tokio::test]
async fn commits_of_a_session_with_a_long_context_write_few_pages() {
    const COMMITS: u64 = 100;
    let test = TestLedger::new();
    let new = NewSession {
        context: vec![1; 1 << 20],
        ..new_session(1)
    };
    test.ledger.start(new).await.unwrap();
    let wal = filesystem::with_suffix(&test.dir.path().join("ledger.sqlite"), "-wal");
    let len = || wal.metadata().unwrap().len();
    let before = len();
    let lease = test.ledger.lease(id(1)).await.unwrap().unwrap().lease;
    for offset in 0..COMMITS {
        let commit = append(offset, offset + 1);
        test.ledger
            .commit_offset(id(1), lease, commit)
            .await
            .unwrap();
    }
    let pages = (len() - before) / PAGE_LEN;
    assert!(pages <= COMMITS + 5, "{pages} pages in {COMMITS} commits");
}

#[test]
fn wal_of_a_long_repair_is_checkpointed_and_restarted() {
    let dir = tempfile::tempdir().unwrap();
    let (path, mut writer) = new_database(&dir);
    let garbage: Vec<_> = (0..250).map(|n| MediaId::from_bytes([n; 16])).collect();
    let transaction = writer.transaction().unwrap();
    for id in &garbage {
        let insert = "INSERT INTO garbage VALUES (?1, x'', 0, 0)";
        transaction.execute(insert, [id.as_bytes()]).unwrap();
    }
    transaction.commit().unwrap();
    drop(writer);
    // A checkpoint is due when the pending pages take a quarter of the disk.
    let disk_len = 4 * 32 * PAGE_LEN;
    let repair = Repair::open_on(&path, IDENTITY, disk_len).unwrap();
    for id in garbage {
        assert!(repair.forget_garbage(id).unwrap());
    }
    let wal = filesystem::with_suffix(&path, "-wal");
    let len = wal.metadata().unwrap().len();
    assert!(
        len < 64 * PAGE_LEN,
        "each of 250 commits adds a page: {len} bytes"
    );
    drop(repair);
    let reader = LedgerReader::open(&path).unwrap();
    assert!(reader.garbage(None).unwrap().is_empty());
}

#[tokio::test]
async fn change_without_space_is_repeated_after_a_complete_checkpoint() {
    let test = TestLedger::new();
    test.start(1).await.unwrap();
    let path = test.dir.path().join("ledger.sqlite");
    let len = move || path.metadata().unwrap().len();
    let before = len();
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&attempts);
    // It finds space once a checkpoint has written to the database.
    let work = move |connection: &rusqlite::Connection| {
        counted.fetch_add(1, Ordering::Relaxed);
        if len() > before {
            return Ok(());
        }
        connection.execute_batch("ROLLBACK")?;
        let full = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
        Err(rusqlite::Error::SqliteFailure(full, None))
    };
    test.do_any(work).await.unwrap();
    assert_eq!(attempts.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn after_a_fault_the_wal_is_kept() {
    let close = |test: TestLedger| {
        let TestLedger { ledger, dir } = test;
        drop(Arc::into_inner(ledger).expect("no call is under way"));
        let wal = filesystem::with_suffix(&dir.path().join("ledger.sqlite"), "-wal");
        wal.metadata().map_or(0, |metadata| metadata.len())
    };
    let begin = async || {
        let test = TestLedger::new();
        test.start(1).await.unwrap();
        test
    };
    assert_eq!(close(begin().await), 0);

    let failed = begin().await;
    failed
        .ledger
        .fail_stop
        .trip(std::io::Error::other("a sync failed"));
    assert!(close(failed) > 0);

    let panicked = begin().await;
    assert_fault(panicked.do_any(|_| panic!("asked for by a test")).await);
    assert!(close(panicked) > 0);
}

#[tokio::test]
async fn torn_transaction_at_the_end_of_the_wal_is_not_committed() {
    let test = TestLedger::new();
    test.start(1).await.unwrap();
    // A copy that is made while the database is open has the same state as after a crash.
    let crashed = tempfile::tempdir().unwrap();
    for name in ["ledger.sqlite", "ledger.sqlite-wal"] {
        std::fs::copy(test.dir.path().join(name), crashed.path().join(name)).unwrap();
    }
    let wal = crashed.path().join("ledger.sqlite-wal");
    let whole = std::fs::read(&wal).unwrap();
    test.start(2).await.unwrap();
    let longer = std::fs::read(test.dir.path().join("ledger.sqlite-wal")).unwrap();
    assert!(longer.len() > whole.len());
    std::fs::write(&wal, &longer[..longer.len() - 100]).unwrap();

    let ledger = open(&crashed, Arc::new([]));
    assert!(ledger.session(id(1)).await.unwrap().is_some());
    assert!(ledger.session(id(2)).await.unwrap().is_none());
}

#[test]
fn connections_keep_temporary_tables_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let (path, writer) = new_database(&dir);
    let reader = schema::open_reader(&path).unwrap();
    for connection in [writer, reader] {
        let in_memory = 2;
        let temp_store: i32 = connection
            .pragma_query_value(None, "temp_store", |row| row.get(0))
            .unwrap();
        assert_eq!(temp_store, in_memory);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_reader_has_the_wal_open_before_its_first_read() {
    let dir = tempfile::tempdir().unwrap();
    let (path, writer) = new_database(&dir);
    let wals = || {
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
        let target = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().path().read_link();
        let wal = filesystem::with_suffix(&path, "-wal");
        descriptors
            .filter_map(|entry| target(entry).ok())
            .filter(|target| *target == wal)
            .count()
    };
    let before = wals();
    let reader = schema::open_reader(&path).unwrap();
    assert_eq!(wals(), before + 1);
    drop((reader, writer));
}

#[test]
fn a_reader_that_closes_last_leaves_the_wal_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (path, writer) = new_database(&dir);
    let reader = schema::open_reader(&path).unwrap();
    drop(writer);
    drop(reader);
    assert!(filesystem::with_suffix(&path, "-wal").exists());
}

/// A sync of the file alone would not be enough: see `prepare_files`.
#[test]
fn a_wal_that_a_process_left_is_written_again_unless_nothing_is_synced() {
    let long_ago = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.sqlite");
    let wal = filesystem::with_suffix(&path, "-wal");
    for (durability, is_written) in [(Durability::Os, false), (Durability::Disk, true)] {
        std::fs::write(&wal, "left").unwrap();
        let file = File::options().write(true).open(&wal).unwrap();
        file.set_modified(long_ago).unwrap();
        prepare_files(&path, durability).unwrap();
        let modified = wal.metadata().unwrap().modified().unwrap();
        assert_eq!(modified > long_ago, is_written, "{durability:?}");
        assert_eq!(std::fs::read(&wal).unwrap(), b"left");
    }
}
