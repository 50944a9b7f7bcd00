//! Changes that are committed on the thread that asks for them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use super::*;

impl Bench {
    fn do_any_now(
        &self,
        work: impl Fn(&rusqlite::Connection) -> rusqlite::Result<()> + Send + 'static,
    ) -> Option<Result<(), LedgerError>> {
        let change = Change::Any(AnyChange(Box::new(work)));
        let done = self.ledger.writer.change_now(change)?;
        Some(done.map(drop))
    }

    /// Waits until the writer's thread has nothing to do: it answers before it has seen to everything.
    async fn until_quiet(&self) {
        while self.do_any_now(|_| Ok(())).is_none() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn who_is_alone_commits_where_he_is() {
    let bench = Bench::new();
    bench.start(1).await.unwrap();
    let epoch = bench.ledger.lease(id(1)).await.unwrap().unwrap().epoch;
    bench.until_quiet().await;
    let commits = bench.ledger.commits();
    let asks = thread::current().id();
    let is_here = move |_: &_| {
        assert_eq!(thread::current().id(), asks);
        Ok(())
    };
    bench.do_any_now(is_here).unwrap().unwrap();
    let advanced = bench.ledger.advance_now(id(1), epoch, &step(0, 7));
    advanced.unwrap().unwrap();
    assert_eq!(bench.ledger.commits(), commits + 2);
    let bench = bench.reopen();
    let session = bench.ledger.session(id(1)).await.unwrap().unwrap();
    assert_eq!((session.progress.offset, session.epoch), (7, epoch));
}

#[tokio::test]
async fn who_finds_the_writer_busy_does_not_wait() {
    let bench = Bench::new();
    let release = bench.hold_writer().await;
    assert!(bench.do_any_now(|_| Ok(())).is_none());
    drop(release);
    bench.until_quiet().await;
}

#[tokio::test]
async fn who_had_company_of_late_queues_up_with_it() {
    let bench = Bench::new();
    bench.queue((0..8).map(|n| bench.start(n)).collect()).await;
    assert!(bench.do_any_now(|_| Ok(())).is_none());
    for n in 8..24 {
        bench.start(n).await.unwrap();
    }
    bench.until_quiet().await;
}

#[tokio::test]
async fn a_commit_that_fails_there_ends_everything() {
    let bench = Bench::new();
    let failed = bench.do_any_now(|connection| connection.execute_batch("no SQL"));
    is_fault(failed.unwrap());
    is_fault(bench.do_any_now(|_| Ok(())).unwrap());
    is_fault(bench.start(1).await);
    is_fault(bench.ledger.check().await);
}

#[tokio::test]
async fn a_commit_that_panics_there_ends_everything_and_leaves_nothing() {
    let bench = Bench::new();
    bench.start(1).await.unwrap();
    bench.until_quiet().await;
    let half_way = |connection: &rusqlite::Connection| {
        connection.execute("DELETE FROM sessions", [])?;
        panic!("asked for by a test")
    };
    let panicked = catch_unwind(AssertUnwindSafe(|| bench.do_any_now(half_way)));
    panicked.unwrap_err();
    is_fault(bench.do_any_now(|_| Ok(())).unwrap());
    is_fault(bench.start(2).await);
    is_fault(bench.ledger.check().await);
    let bench = bench.reopen();
    assert!(bench.ledger.session(id(1)).await.unwrap().is_some());
}

#[tokio::test]
async fn a_panic_that_nobody_follows_leaves_nothing() {
    let bench = Bench::new();
    bench.start(1).await.unwrap();
    bench.until_quiet().await;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        bench.do_any_now(|_| panic!("asked for by a test"))
    }));
    panicked.unwrap_err();
    let Bench { ledger, dir } = bench;
    drop(ledger);
    let wal = dir.path().join("ledger.sqlite-wal");
    assert!(
        wal.metadata().unwrap().len() > 0,
        "it is kept as after any fault"
    );
}

#[tokio::test]
async fn what_is_due_after_such_commits_is_done() {
    let bench = Bench::new();
    let wal = bench.dir.path().join("ledger.sqlite-wal");
    let grow = |connection: &rusqlite::Connection| {
        let row = "INSERT INTO small_media VALUES (randomblob(16), zeroblob(1 << 20))";
        connection.execute(row, []).map(drop)
    };
    for _ in 0..100 {
        // Who finds the thread at it commits there.
        match bench.do_any_now(grow) {
            Some(done) => done.unwrap(),
            None => bench.do_any(grow).await.unwrap(),
        }
    }
    let len = wal.metadata().unwrap().len();
    assert!(len < 80 << 20, "the WAL is {len} bytes long");
}
