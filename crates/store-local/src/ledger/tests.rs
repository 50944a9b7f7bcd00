//! Behaviour of the writer: the changes of one commit, and the effects of a refused change.

mod faults;
mod full_disk;
mod rows;
mod session_list;
mod wal;

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use tempfile::TempDir;
use windlass_store::recorder::NoRecorder;
use windlass_store::{ExtentChanges, Progress, ResourceChange, SessionState};
use windlass_testkit::wait::PATIENCE;

use super::*;
use crate::file_lock::FileLock;
use crate::reserve::{Purpose, Reserve};
use crate::sync_health::StopProbe;
use crate::test_util::eventually;

const IDENTITY: Identity = Identity::from_bytes([7; 16]);

/// Statements that a test runs inside a transaction of the writer.
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

/// A ledger in a temporary directory, with identity [`IDENTITY`].
struct TestLedger {
    ledger: Arc<LocalLedger>,
    dir: TempDir,
}

impl TestLedger {
    fn new() -> Self {
        Self::on(Arc::new([]))
    }

    /// Opens a ledger with file systems that `stop_probes` simulate.
    fn on(stop_probes: Arc<[StopProbe]>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self {
            ledger: Arc::new(open(&dir, stop_probes)),
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
    async fn block_writer(&self) -> mpsc::Sender<()> {
        let (block, unblocked) = mpsc::channel();
        let (entered, mut inside) = tokio::sync::mpsc::channel(1);
        let wait = move |_: &_| {
            entered.try_send(()).expect("it is the first");
            let _ = unblocked.recv();
            Ok(())
        };
        let ledger = Arc::clone(&self.ledger);
        tokio::spawn(async move { ledger.change(any(None, wait)).await });
        inside.recv().await.expect("the writer runs the change");
        block
    }

    /// Queues all calls while the writer is blocked, so that they are in one round. Returns their
    /// results.
    async fn queue<T: Send + 'static>(
        &self,
        calls: Vec<impl Future<Output = T> + Send + 'static>,
    ) -> Vec<T> {
        let block = self.block_writer().await;
        let calls: Vec<_> = calls.into_iter().map(tokio::spawn).collect();
        self.until_queued(calls.len()).await;
        drop(block);
        let mut results = Vec::new();
        for call in calls {
            results.push(call.await.unwrap());
        }
        results
    }

    async fn until_queued(&self, calls: usize) {
        eventually(async || (self.ledger.writer.queued() >= calls).then_some(())).await;
    }

    fn start(&self, n: u8) -> impl Future<Output = Result<Lease, LedgerError>> + Send + 'static {
        let ledger = Arc::clone(&self.ledger);
        async move { ledger.start(new_session(n)).await }
    }
}

fn open(dir: &TempDir, stop_probes: Arc<[StopProbe]>) -> LocalLedger {
    try_open(dir, stop_probes).unwrap()
}

fn try_open(dir: &TempDir, stop_probes: Arc<[StopProbe]>) -> Result<LocalLedger, OpenError> {
    let lock = FileLock::try_exclusive(&dir.path().join("lock"))
        .unwrap()
        .unwrap();
    let lock = Arc::new(DirectoryLock::new(vec![lock]));
    let reserve = Reserve::open(&dir.path().join("reserve")).unwrap();
    let store = StoreShared {
        durability: Durability::Disk,
        reserve: Arc::new(reserve),
        lock,
        stop_probes,
        allow_shared_data: false,
        recorder: Arc::new(NoRecorder),
        retention: Retention::default(),
    };
    LocalLedger::open(&dir.path().join("ledger.sqlite"), IDENTITY, store)
}

/// Creates a database, and the connection that writes to it.
fn new_database(dir: &TempDir) -> (PathBuf, rusqlite::Connection) {
    let path = dir.path().join("ledger.sqlite");
    std::fs::File::create(&path).unwrap();
    let writer = schema::open_writer(&path, IDENTITY, Durability::Disk).unwrap();
    (path, writer)
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
        extents: ExtentChanges::default(),
        from,
        progress,
        small_media: None,
        state: SessionState::Active,
        expires: None,
        releases: true,
    }
}

#[track_caller]
fn assert_fault<T: std::fmt::Debug>(result: Result<T, LedgerError>) {
    match result {
        Err(LedgerError::Fault(_)) => {}
        other => panic!("this must be a fault: {other:?}"),
    }
}

#[tokio::test]
async fn changes_that_queue_up_share_one_commit() {
    let test = TestLedger::new();
    let results = test.queue((0..100).map(|n| test.start(n)).collect()).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(
        test.ledger.commits(),
        2,
        "one for what blocked the writer, one for the rest"
    );
    let test = test.reopen();
    for n in 0..100 {
        assert!(test.ledger.session(id(n)).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn refused_change_does_not_affect_others_of_its_commit() {
    let test = TestLedger::new();
    let results = test.queue([1, 2, 1, 3].map(|n| test.start(n)).into()).await;
    let refused: Vec<bool> = results.iter().map(Result::is_err).collect();
    assert_eq!(refused, [false, false, true, false]);
    assert!(matches!(results[2], Err(LedgerError::Conflict)));
    for n in 1..=3 {
        assert!(test.ledger.session(id(n)).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn change_refused_halfway_leaves_no_trace() {
    let test = TestLedger::new();
    let resource = |id: &str| Resource {
        collection: "farm/v1/animals".to_owned(),
        id: id.to_owned(),
        version: 1,
        body: "{}".into(),
        media: None,
        created: Timestamp::from_millis(0),
        updated: Timestamp::from_millis(0),
        due: None,
        claimed_by: None,
        owner: None,
    };
    let insert = |ids: &[&str]| {
        let inserts = ids.iter().map(|id| ResourceChange::Insert(resource(id)));
        let changes = ChangeSet {
            resources: inserts.collect(),
            ..ChangeSet::default()
        };
        let ledger = Arc::clone(&test.ledger);
        async move { ledger.apply(changes).await }
    };
    let results = test
        .queue(vec![insert(&["llama"]), insert(&["alpaca", "llama"])])
        .await;
    assert!(
        matches!(results[..], [Ok(()), Err(LedgerError::Conflict)]),
        "{results:?}"
    );
    let kept = test
        .ledger
        .resources("farm/v1/animals", None, 10)
        .await
        .unwrap();
    assert_eq!(kept, [resource("llama")]);
}

#[tokio::test]
async fn refused_changes_alone_cost_no_commit() {
    let test = TestLedger::new();
    test.start(1).await.unwrap();
    let commits = test.ledger.commits();
    assert!(matches!(test.start(1).await, Err(LedgerError::Conflict)));
    assert_eq!(test.ledger.commits(), commits);
}

#[tokio::test]
async fn a_lease_costs_no_commit_and_the_next_change_writes_its_epoch() {
    let test = TestLedger::new();
    test.start(1).await.unwrap();
    let commits = test.ledger.commits();
    let mut held = None;
    for expected in 1..=100 {
        let leased = test.ledger.lease(id(1)).await.unwrap().unwrap();
        assert_eq!(leased.lease.epoch, Epoch(expected));
        held = Some(leased.lease);
    }
    assert_eq!(test.ledger.commits(), commits);
    test.ledger
        .commit_offset(id(1), held.unwrap(), append(0, 1))
        .await
        .unwrap();
    assert_eq!(test.ledger.commits(), commits + 1);

    let test = test.reopen();
    let leased = test.ledger.lease(id(1)).await.unwrap().unwrap();
    assert_eq!(
        leased.lease.epoch,
        Epoch(101),
        "the commit of the offset has written epoch 100"
    );
}

#[tokio::test]
async fn unused_leases_beyond_the_limit_are_written() {
    let test = TestLedger::new();
    test.start(1).await.unwrap();
    test.ledger.lease(id(1)).await.unwrap();
    assert_eq!(test.ledger.unwritten_epochs.overflow(1, 10), []);
    assert_eq!(test.ledger.unwritten_epochs.overflow(0, 0), []);
    let overflow = test.ledger.unwritten_epochs.overflow(0, 10);
    assert_eq!(overflow, [(id(1), Epoch(1))]);
    test.do_any(move |connection| {
        let unwritten_epochs = UnwrittenEpochs::default();
        changes::Tables {
            connection,
            unwritten_epochs: &unwritten_epochs,
            retention: Retention::default(),
        }
        .write_epochs(&overflow)
    })
    .await
    .unwrap();
    let test = test.reopen();
    assert_eq!(
        test.ledger.session(id(1)).await.unwrap().unwrap().epoch,
        Epoch(1)
    );
}

#[tokio::test]
async fn a_lease_sees_only_what_is_committed() {
    let test = TestLedger::new();
    test.start(1).await.unwrap();
    let held = test.ledger.lease(id(1)).await.unwrap().unwrap().lease;
    let commit = {
        let ledger = Arc::clone(&test.ledger);
        async move {
            ledger
                .commit_offset(id(1), held, append(0, 1))
                .await
                .map(|()| None)
        }
    };
    let lease = {
        let ledger = Arc::clone(&test.ledger);
        async move { ledger.lease(id(1)).await }
    };
    let calls: Vec<std::pin::Pin<Box<dyn Future<Output = _> + Send>>> =
        vec![Box::pin(commit), Box::pin(lease)];
    let results = test.queue(calls).await;
    assert!(
        matches!(results[0], Err(LedgerError::Fenced)),
        "leases go first"
    );
    let leased = results[1].as_ref().unwrap().as_ref().unwrap();
    let offset = leased.session.progress.offset;
    assert_eq!((leased.lease.epoch, offset), (Epoch(2), 0));
}

#[tokio::test]
async fn dropped_change_is_applied_completely() {
    let test = TestLedger::new();
    let block = test.block_writer().await;
    let call = tokio::spawn(test.start(1));
    test.until_queued(1).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    drop(block);
    // The writer makes this change after the dropped one.
    test.start(2).await.unwrap();
    assert!(test.ledger.session(id(1)).await.unwrap().is_some());
}

#[tokio::test]
async fn change_on_a_full_disk_is_refused_without_a_fault() {
    let test = TestLedger::new();
    test.start(1).await.unwrap();
    let pages = |count: i64| {
        move |connection: &rusqlite::Connection| {
            connection.pragma_update_and_check(None, "max_page_count", count, |_| Ok(()))
        }
    };
    test.do_any(pages(1)).await.unwrap();
    let leased = test.ledger.lease(id(1)).await.unwrap().unwrap();
    let large = NewSession {
        context: vec![0; 1 << 20],
        ..new_session(2)
    };
    let refused = test.ledger.start(large.clone()).await;
    assert!(matches!(refused, Err(LedgerError::NoSpace)), "{refused:?}");
    assert!(test.ledger.check().await.is_ok());
    assert!(test.ledger.session(id(2)).await.unwrap().is_none());

    test.do_any(pages(1 << 30)).await.unwrap();
    test.ledger.start(large).await.unwrap();
    let next = test.ledger.lease(id(1)).await.unwrap().unwrap();
    assert!(
        next.lease.epoch > leased.lease.epoch,
        "the refused change has lost no lease"
    );
}

#[tokio::test]
async fn database_of_an_unsupported_version_or_another_application_is_refused() {
    for (pragma, value, message) in [
        ("user_version", 77, "version 77"),
        ("user_version", 0, "supports versions 1 to 5"),
        ("application_id", 77, "another"),
    ] {
        let test = TestLedger::new();
        test.do_any(move |connection| connection.pragma_update(None, pragma, value))
            .await
            .unwrap();
        let TestLedger { ledger, dir } = test;
        drop(ledger);
        let path = dir.path().join("ledger.sqlite");
        let error = schema::open_writer(&path, IDENTITY, Durability::Disk).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn database_without_an_id_but_with_tables_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.sqlite");
    let other = Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE notes (text)").unwrap();
    drop(other);
    let opened = [
        schema::open_writer(&path, IDENTITY, Durability::Disk),
        schema::open_external_reader(&path),
    ];
    for error in opened.map(|opened| opened.unwrap_err().to_string()) {
        assert!(error.contains("another"), "{error}");
    }
}

#[tokio::test]
async fn closing_ledger_waits_for_abandoned_reads() {
    let TestLedger { ledger, dir } = TestLedger::new();
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

/// Otherwise rows pile up where many callers are resumed late.
#[tokio::test]
async fn no_more_rows_are_read_than_callers_have_taken() {
    let test = TestLedger::new();
    let readers = &test.ledger.readers;
    let connections = readers.idle.lock().unwrap().len();
    // No read ends before the gate opens.
    let (gate, closed) = mpsc::channel::<()>();
    let closed = Arc::new(Mutex::new(closed));
    let read = |_| {
        let closed = Arc::clone(&closed);
        let wait = move |_: &_| {
            closed.lock().unwrap().recv().unwrap_err();
            Ok(())
        };
        Box::pin(readers.read(wait))
    };
    let mut reads: Vec<_> = (0..connections).map(read).collect();
    for read in &mut reads {
        tokio::select! {
            biased;
            _ = read.as_mut() => panic!("the gate is closed"),
            () = std::future::ready(()) => {}
        }
    }
    drop(gate);
    // Reads that have ended release their part of the pool.
    eventually(async || (Arc::strong_count(&readers.idle) == 1).then_some(())).await;
    assert_eq!(readers.permits.available_permits(), 0);
    for read in reads {
        read.await.unwrap();
    }
    assert_eq!(readers.permits.available_permits(), connections);
}
