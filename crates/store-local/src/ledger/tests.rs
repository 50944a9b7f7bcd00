//! Behaviour of the writer: what one commit carries, and the effects of failures.

mod full_disk;
mod rows;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use tempfile::TempDir;
use windlass_store::metrics::StoreMetrics;
use windlass_store::{Progress, ResourceChange, SessionState};
use windlass_testkit::wait::PATIENCE;

use super::*;
use crate::reserve::{Purpose, Reserve};
use crate::sync_health::JournalHealth;
use crate::test_util::{eventually, free_lock};

const IDENTITY: Identity = Identity::from_bytes([7; 16]);

/// Statements that a test runs inside a transaction.
pub(super) struct AnyChange {
    pub(super) work: Work,
    pub(super) purpose: Option<Purpose>,
}

type Work = Box<dyn Fn(&rusqlite::Connection) -> rusqlite::Result<()> + Send>;

/// Returns a change that runs `work`, and may use the reserve for `purpose`.
fn any(
    purpose: Option<Purpose>,
    work: impl Fn(&rusqlite::Connection) -> rusqlite::Result<()> + Send + 'static,
) -> Change {
    let work: Work = Box::new(work);
    Change::Any(AnyChange { work, purpose })
}

/// A ledger in a directory of its own.
struct Bench {
    ledger: Arc<LocalLedger>,
    dir: TempDir,
}

impl Bench {
    fn new() -> Self {
        Self::on(Arc::new([]))
    }

    /// Opens a ledger whose file systems are checked by `journals`.
    fn on(journals: Arc<[JournalHealth]>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self {
            ledger: Arc::new(open(&dir, journals)),
            dir,
        }
    }

    /// Opens the ledger again, as a new process does.
    fn reopen(self) -> Self {
        let Self { ledger, dir } = self;
        drop(Arc::into_inner(ledger).expect("no call is under way"));
        Self {
            ledger: Arc::new(open(&dir, Arc::new([]))),
            dir,
        }
    }

    async fn do_any(
        &self,
        work: impl Fn(&rusqlite::Connection) -> rusqlite::Result<()> + Send + 'static,
    ) -> Result<(), LedgerError> {
        self.ledger.change(any(None, work)).await
    }

    /// Blocks the writer inside a transaction until the returned sender is dropped.
    async fn hold_writer(&self) -> mpsc::Sender<()> {
        let (release, released) = mpsc::channel();
        let (entered, mut inside) = tokio::sync::mpsc::channel(1);
        let wait = move |_: &_| {
            entered.try_send(()).expect("it is the first");
            let _ = released.recv();
            Ok(())
        };
        let ledger = Arc::clone(&self.ledger);
        tokio::spawn(async move { ledger.change(any(None, wait)).await });
        inside.recv().await.expect("the writer runs the change");
        release
    }

    /// Queues calls together. Returns their results, once the writer is released.
    async fn queue<T: Send + 'static>(
        &self,
        calls: Vec<impl Future<Output = T> + Send + 'static>,
    ) -> Vec<T> {
        let release = self.hold_writer().await;
        let calls: Vec<_> = calls.into_iter().map(tokio::spawn).collect();
        self.until_queued(calls.len()).await;
        drop(release);
        let mut results = Vec::new();
        for call in calls {
            results.push(call.await.unwrap());
        }
        results
    }

    async fn until_queued(&self, calls: usize) {
        eventually(async || (self.ledger.writer.queued() >= calls).then_some(())).await;
    }

    fn start(&self, n: u8) -> impl Future<Output = Result<(), LedgerError>> + Send + 'static {
        let ledger = Arc::clone(&self.ledger);
        async move { ledger.start(new_session(n)).await }
    }
}

fn open(dir: &TempDir, journals: Arc<[JournalHealth]>) -> LocalLedger {
    try_open(dir, journals).unwrap()
}

fn try_open(dir: &TempDir, journals: Arc<[JournalHealth]>) -> Result<LocalLedger, OpenError> {
    let lock = free_lock(&dir.path().join("lock"));
    let lock = Arc::new(DirectoryLock::new(vec![lock]));
    let reserve = Reserve::open(&dir.path().join("reserve")).unwrap();
    let keep = StoreShared {
        durability: Durability::Disk,
        reserve: Arc::new(reserve),
        lock,
        journals,
        metrics: StoreMetrics::default(),
    };
    LocalLedger::open(&dir.path().join("ledger.sqlite"), IDENTITY, keep)
}

fn id(n: u8) -> SessionId {
    SessionId::from_bytes([n; 32])
}

fn new_session(n: u8) -> NewSession {
    let (created, expires) = (Timestamp::from_millis(0), Timestamp::from_millis(u64::MAX));
    NewSession {
        id: id(n),
        context: vec![n],
        created,
        expires,
        total: None,
        owner: None,
        dialect: "google".to_owned(),
    }
}

fn append(from: u64, to: u64) -> OffsetCommit {
    let progress = Progress {
        offset: to,
        ..Progress::none(None)
    };
    OffsetCommit {
        from,
        progress,
        small_media: None,
        state: SessionState::Active,
        expires: None,
    }
}

#[track_caller]
fn is_fault<T: std::fmt::Debug>(result: Result<T, LedgerError>) {
    match result {
        Err(LedgerError::Fault(_)) => {}
        other => panic!("this must be a fault: {other:?}"),
    }
}

#[tokio::test]
async fn changes_that_queue_up_share_one_commit() {
    let bench = Bench::new();
    let results = bench
        .queue((0..100).map(|n| bench.start(n)).collect())
        .await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(
        bench.ledger.commits(),
        2,
        "one for what held the writer, one for the rest"
    );
    let bench = bench.reopen();
    for n in 0..100 {
        assert!(bench.ledger.session(id(n)).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn refused_change_does_not_affect_others_of_its_commit() {
    let bench = Bench::new();
    let results = bench
        .queue([1, 2, 1, 3].map(|n| bench.start(n)).into())
        .await;
    let refused: Vec<bool> = results.iter().map(Result::is_err).collect();
    assert_eq!(refused, [false, false, true, false]);
    assert!(matches!(results[2], Err(LedgerError::Conflict)));
    for n in 1..=3 {
        assert!(bench.ledger.session(id(n)).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn change_refused_halfway_leaves_no_trace() {
    let bench = Bench::new();
    let resource = |id: &str| Resource {
        collection: "farm/v1/animals".to_owned(),
        id: id.to_owned(),
        version: 1,
        body: "{}".into(),
        media: None,
        created: Timestamp::from_millis(0),
        updated: Timestamp::from_millis(0),
        owner: None,
    };
    let insert = |ids: &[&str]| {
        let inserts = ids.iter().map(|id| ResourceChange::Insert(resource(id)));
        let changes = ChangeSet {
            resources: inserts.collect(),
            ..ChangeSet::default()
        };
        let ledger = Arc::clone(&bench.ledger);
        async move { ledger.apply(changes).await }
    };
    let results = bench
        .queue(vec![insert(&["llama"]), insert(&["alpaca", "llama"])])
        .await;
    assert!(
        matches!(results[..], [Ok(()), Err(LedgerError::Conflict)]),
        "{results:?}"
    );
    let kept = bench
        .ledger
        .resources("farm/v1/animals", None, 10)
        .await
        .unwrap();
    assert_eq!(kept, [resource("llama")]);
}

#[tokio::test]
async fn refused_changes_alone_cost_no_commit() {
    let bench = Bench::new();
    bench.start(1).await.unwrap();
    let commits = bench.ledger.commits();
    assert!(matches!(bench.start(1).await, Err(LedgerError::Conflict)));
    assert_eq!(bench.ledger.commits(), commits);
}

#[tokio::test]
async fn a_lease_costs_no_commit_and_waits_for_none() {
    let bench = Bench::new();
    bench.start(1).await.unwrap();
    let commits = bench.ledger.commits();
    for expected in 1..=100 {
        let leased = bench.ledger.lease(id(1)).await.unwrap().unwrap();
        assert_eq!(leased.epoch, Epoch(expected));
    }
    assert_eq!(bench.ledger.commits(), commits);
    bench
        .ledger
        .commit_offset(id(1), Epoch(100), append(0, 1))
        .await
        .unwrap();
    assert_eq!(bench.ledger.commits(), commits + 1);

    let bench = bench.reopen();
    let leased = bench.ledger.lease(id(1)).await.unwrap().unwrap();
    assert_eq!(
        leased.epoch,
        Epoch(101),
        "the change carried the epoch with it"
    );
}

#[tokio::test]
async fn unused_leases_beyond_the_limit_are_written() {
    let bench = Bench::new();
    bench.start(1).await.unwrap();
    bench.ledger.lease(id(1)).await.unwrap();
    assert_eq!(bench.ledger.leases.overflow(1), []);
    let overflow = bench.ledger.leases.overflow(0);
    assert_eq!(overflow, [(id(1), Epoch(1))]);
    bench
        .do_any(move |connection| {
            let leases = Leases::default();
            changes::Tables {
                connection,
                leases: &leases,
            }
            .write_epochs(&overflow)
        })
        .await
        .unwrap();
    let bench = bench.reopen();
    assert_eq!(
        bench.ledger.session(id(1)).await.unwrap().unwrap().epoch,
        Epoch(1)
    );
}

#[tokio::test]
async fn a_lease_sees_only_what_is_committed() {
    let bench = Bench::new();
    bench.start(1).await.unwrap();
    let epoch = bench.ledger.lease(id(1)).await.unwrap().unwrap().epoch;
    let commit = {
        let ledger = Arc::clone(&bench.ledger);
        async move {
            ledger
                .commit_offset(id(1), epoch, append(0, 1))
                .await
                .map(|()| None)
        }
    };
    let lease = {
        let ledger = Arc::clone(&bench.ledger);
        async move { ledger.lease(id(1)).await }
    };
    let calls: Vec<std::pin::Pin<Box<dyn Future<Output = _> + Send>>> =
        vec![Box::pin(commit), Box::pin(lease)];
    let results = bench.queue(calls).await;
    assert!(
        matches!(results[0], Err(LedgerError::Fenced)),
        "the lease went first"
    );
    let leased = results[1].as_ref().unwrap().as_ref().unwrap();
    assert_eq!((leased.epoch, leased.progress.offset), (Epoch(2), 0));
}

#[tokio::test]
async fn dropped_change_is_applied_completely() {
    let bench = Bench::new();
    let release = bench.hold_writer().await;
    let call = tokio::spawn(bench.start(1));
    bench.until_queued(1).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    drop(release);
    // The writer makes this change after the dropped one.
    bench.start(2).await.unwrap();
    assert!(bench.ledger.session(id(1)).await.unwrap().is_some());
}

#[tokio::test]
async fn after_a_failed_commit_every_call_fails() {
    let bench = Bench::new();
    bench.start(1).await.unwrap();
    // A deferred constraint, which fails the COMMIT.
    let dangling = "CREATE TABLE parent (id INTEGER PRIMARY KEY);
        CREATE TABLE child (parent REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED);
        INSERT INTO child VALUES (1);";
    is_fault(
        bench
            .do_any(|connection| connection.execute_batch(dangling))
            .await,
    );
    is_fault(bench.start(2).await);
    is_fault(bench.ledger.lease(id(1)).await);
    is_fault(bench.ledger.session(id(1)).await);
    is_fault(bench.ledger.expire(Timestamp::from_millis(1), 1).await);
    is_fault(bench.ledger.check().await);
    let bench = bench.reopen();
    assert!(
        bench.ledger.session(id(1)).await.unwrap().is_some(),
        "what was committed stays"
    );
    assert!(bench.ledger.session(id(2)).await.unwrap().is_none());
    assert!(bench.ledger.check().await.is_ok());
}

#[tokio::test]
async fn all_callers_of_a_commit_that_fails_get_the_fault() {
    let bench = Bench::new();
    let release = bench.hold_writer().await;
    let ledger = Arc::clone(&bench.ledger);
    let broken = tokio::spawn(async move {
        let work =
            |connection: &rusqlite::Connection| connection.execute_batch("no such statement");
        ledger.change(any(None, work)).await
    });
    let waiting: Vec<_> = (1..5).map(|n| tokio::spawn(bench.start(n))).collect();
    bench.until_queued(5).await;
    drop(release);
    is_fault(broken.await.unwrap());
    for call in waiting {
        is_fault(call.await.unwrap());
    }
    let bench = bench.reopen();
    for n in 1..5 {
        assert_eq!(
            bench.ledger.session(id(n)).await.unwrap(),
            None,
            "all or nothing"
        );
    }
}

/// Returns file systems that have stopped when they are checked for the nth time, counted from the
/// opening.
fn stops_at(nth: usize) -> Arc<[JournalHealth]> {
    let asked = AtomicUsize::new(0);
    let stopped = move || {
        if asked.fetch_add(1, Ordering::SeqCst) + 1 < nth {
            return Ok(());
        }
        Err(std::io::Error::other("it has stopped"))
    };
    Arc::new([JournalHealth::by(|| Ok(())), JournalHealth::by(stopped)])
}

#[tokio::test]
async fn commit_on_a_stopped_file_system_fails() {
    // The opening checks once, and each commit twice.
    for (nth, is_committed) in [(2, false), (3, true)] {
        let bench = Bench::on(stops_at(nth));
        is_fault(bench.start(1).await);
        is_fault(bench.start(2).await);
        is_fault(bench.ledger.check().await);
        let bench = bench.reopen();
        let found = bench.ledger.session(id(1)).await.unwrap();
        assert_eq!(
            found.is_some(),
            is_committed,
            "session 1 when check {nth} fails"
        );
        assert_eq!(bench.ledger.session(id(2)).await.unwrap(), None);
    }
}

#[test]
fn opening_on_a_stopped_file_system_fails() {
    let dir = tempfile::tempdir().unwrap();
    assert!(try_open(&dir, stops_at(1)).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn read_of_an_unconfirmed_commit_checks_the_file_systems() {
    let (release, released) = mpsc::channel::<()>();
    let (entered, inside) = mpsc::channel();
    let (released, asked) = (Mutex::new(released), AtomicUsize::new(0));
    let journal_health =
        JournalHealth::by(move || match asked.fetch_add(1, Ordering::SeqCst) + 1 {
            1 | 2 => Ok(()),
            // The check after the commit.
            3 => {
                entered.send(()).unwrap();
                let _ = released.lock().unwrap().recv();
                Ok(())
            }
            _ => Err(std::io::Error::other("it has stopped")),
        });
    let bench = Bench::on(Arc::new([journal_health]));
    let start = tokio::spawn(bench.start(1));
    inside.recv_timeout(PATIENCE).unwrap();
    is_fault(bench.ledger.session(id(1)).await);
    drop(release);
    start.await.unwrap().unwrap();
    is_fault(bench.start(2).await);
}

#[tokio::test]
async fn panic_of_the_writer_is_a_fault() {
    let bench = Bench::new();
    bench.start(1).await.unwrap();
    let half_way = |connection: &rusqlite::Connection| {
        connection.execute("DELETE FROM sessions", [])?;
        panic!("asked for by a test")
    };
    is_fault(bench.do_any(half_way).await);
    is_fault(bench.start(2).await);
    is_fault(bench.ledger.check().await);
    let bench = bench.reopen();
    assert!(bench.ledger.session(id(1)).await.unwrap().is_some());
}

#[tokio::test]
async fn change_on_a_full_disk_is_refused_without_a_fault() {
    let bench = Bench::new();
    bench.start(1).await.unwrap();
    let pages = |count: i64| {
        move |connection: &rusqlite::Connection| {
            connection.pragma_update_and_check(None, "max_page_count", count, |_| Ok(()))
        }
    };
    bench.do_any(pages(1)).await.unwrap();
    let leased = bench.ledger.lease(id(1)).await.unwrap().unwrap();
    let large = NewSession {
        context: vec![0; 1 << 20],
        ..new_session(2)
    };
    let refused = bench.ledger.start(large.clone()).await;
    assert!(matches!(refused, Err(LedgerError::NoSpace)), "{refused:?}");
    assert!(bench.ledger.check().await.is_ok());
    assert!(bench.ledger.session(id(2)).await.unwrap().is_none());

    bench.do_any(pages(1 << 30)).await.unwrap();
    bench.ledger.start(large).await.unwrap();
    let next = bench.ledger.lease(id(1)).await.unwrap().unwrap();
    assert!(
        next.epoch > leased.epoch,
        "an epoch is never given out twice"
    );
}

#[tokio::test]
async fn long_wal_is_checkpointed_and_restarted() {
    let bench = Bench::new();
    let wal = filesystem::with_suffix(&bench.dir.path().join("ledger.sqlite"), "-wal");
    for n in 0..100 {
        let new = NewSession {
            context: vec![n; 1 << 20],
            ..new_session(n)
        };
        bench.ledger.start(new).await.unwrap();
    }
    let len = wal.metadata().unwrap().len();
    assert!(
        len < 80 << 20,
        "the WAL is used again from its beginning, not {len} bytes long"
    );
}

#[tokio::test]
async fn change_without_space_is_repeated_after_a_complete_checkpoint() {
    let bench = Bench::new();
    bench.start(1).await.unwrap();
    let path = bench.dir.path().join("ledger.sqlite");
    let len = move || path.metadata().unwrap().len();
    let before = len();
    // It finds space once a checkpoint has written to the database.
    let work = move |connection: &rusqlite::Connection| {
        if len() > before {
            return Ok(());
        }
        connection.execute_batch("ROLLBACK")?;
        let full = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
        Err(rusqlite::Error::SqliteFailure(full, None))
    };
    bench.do_any(work).await.unwrap();
}

#[tokio::test]
async fn after_a_fault_the_wal_is_kept() {
    let close = |bench: Bench| {
        let Bench { ledger, dir } = bench;
        drop(Arc::into_inner(ledger).expect("no call is under way"));
        let wal = filesystem::with_suffix(&dir.path().join("ledger.sqlite"), "-wal");
        wal.metadata().map_or(0, |facts| facts.len())
    };
    let begin = async || {
        let bench = Bench::new();
        bench.start(1).await.unwrap();
        bench
    };
    assert_eq!(close(begin().await), 0);

    let failed = begin().await;
    failed
        .ledger
        .fail_stop
        .trip(std::io::Error::other("a sync failed"));
    assert!(close(failed) > 0);

    let panicked = begin().await;
    is_fault(panicked.do_any(|_| panic!("asked for by a test")).await);
    assert!(close(panicked) > 0);
}

#[tokio::test]
async fn torn_transaction_at_the_end_of_the_wal_is_not_committed() {
    let bench = Bench::new();
    bench.start(1).await.unwrap();
    // A copy that is made while the database is open is like the one that a crash leaves.
    let crashed = tempfile::tempdir().unwrap();
    for name in ["ledger.sqlite", "ledger.sqlite-wal"] {
        std::fs::copy(bench.dir.path().join(name), crashed.path().join(name)).unwrap();
    }
    let wal = crashed.path().join("ledger.sqlite-wal");
    let whole = std::fs::read(&wal).unwrap();
    bench.start(2).await.unwrap();
    let longer = std::fs::read(bench.dir.path().join("ledger.sqlite-wal")).unwrap();
    assert!(longer.len() > whole.len());
    std::fs::write(&wal, &longer[..longer.len() - 100]).unwrap();

    let ledger = open(&crashed, Arc::new([]));
    assert!(ledger.session(id(1)).await.unwrap().is_some());
    assert!(ledger.session(id(2)).await.unwrap().is_none());
}

#[tokio::test]
async fn database_of_a_newer_version_or_another_application_is_refused() {
    for (pragma, message) in [
        ("user_version", "version 77"),
        ("application_id", "another"),
    ] {
        let bench = Bench::new();
        bench
            .do_any(move |connection| connection.pragma_update(None, pragma, 77))
            .await
            .unwrap();
        let Bench { ledger, dir } = bench;
        drop(ledger);
        let path = dir.path().join("ledger.sqlite");
        let error = schema::open_writer(&path, IDENTITY, Durability::Disk).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}

/// Creates a database, and the connection that writes to it.
fn new_database(dir: &TempDir) -> (PathBuf, rusqlite::Connection) {
    let path = dir.path().join("ledger.sqlite");
    std::fs::File::create(&path).unwrap();
    let writer = schema::open_writer(&path, IDENTITY, Durability::Disk).unwrap();
    (path, writer)
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

#[tokio::test]
async fn closing_ledger_waits_for_abandoned_reads() {
    let Bench { ledger, dir } = Bench::new();
    let (tell, mut begun) = tokio::sync::mpsc::channel(1);
    let reading = Arc::clone(&ledger);
    let read = tokio::spawn(async move {
        let slow = move |_: &_| {
            tell.try_send(()).expect("it is the first");
            std::thread::sleep(Duration::from_millis(100));
            Ok(())
        };
        reading.readers.read(slow).await
    });
    begun.recv().await.expect("the read begins");
    read.abort();
    assert!(read.await.unwrap_err().is_cancelled());
    let mut ledger = Arc::into_inner(ledger).expect("no call is under way");
    ledger.readers.close_timeout = PATIENCE;
    drop(ledger);
    assert!(!dir.path().join("ledger.sqlite-wal").exists());
}

/// The reason is that a sync alone need not write bytes that are only in the page cache.
#[test]
fn a_wal_that_a_process_left_is_written_again_before_it_is_read() {
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
