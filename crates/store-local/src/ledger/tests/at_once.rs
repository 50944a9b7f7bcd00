//! Changes that are committed on the thread that asks for them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use super::*;
use crate::patience::soon;

impl Bench {
    fn do_any_now(
        &self,
        work: impl Fn(&rusqlite::Connection) -> rusqlite::Result<()> + Send + 'static,
    ) -> Option<Result<(), LedgerError>> {
        let change = Change::Any(AnyChange(Box::new(work)));
        let done = self.ledger.writer.change_now(change)?;
        Some(done.map(drop))
    }

    /// As [`Bench::do_any_now`], as soon as the writer's thread has nothing to do: it answers before it has seen to
    /// everything.
    async fn do_any_soon(&self, work: fn(&rusqlite::Connection) -> rusqlite::Result<()>) {
        let done = soon(async || self.do_any_now(work)).await;
        done.unwrap();
    }

    async fn until_quiet(&self) {
        self.do_any_soon(|_| Ok(())).await;
    }

    /// For longer than the writer's thread has anything to do.
    async fn is_turned_away_for_long(&self) {
        for _ in 0..100 {
            assert!(self.do_any_now(|_| Ok(())).is_none());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn database_len(&self) -> u64 {
        let path = self.dir.path().join("ledger.sqlite");
        path.metadata().unwrap().len()
    }
}

const MIB: u64 = 1 << 20;

fn grow_by_a_mib(connection: &rusqlite::Connection) -> rusqlite::Result<()> {
    let row = "INSERT INTO small_media VALUES (randomblob(16), zeroblob(1 << 20))";
    connection.execute(row, []).map(drop)
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
    let advanced = bench.ledger.advance_now(id(1), epoch, step(0, 7));
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
    bench.is_turned_away_for_long().await;
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
    is_fault(bench.ledger.check().await);
    is_fault(bench.do_any_now(|_| Ok(())).unwrap());
    is_fault(bench.start(2).await);
    let bench = bench.reopen();
    assert!(bench.ledger.session(id(1)).await.unwrap().is_some());
}

#[tokio::test]
async fn after_a_panic_there_the_wal_is_kept_though_nobody_calls_again() {
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
    assert!(wal.metadata().unwrap().len() > 0);
}

#[tokio::test]
async fn the_thread_brings_into_the_database_what_was_committed_there() {
    let bench = Bench::new();
    for _ in 0..34 {
        bench.do_any_soon(grow_by_a_mib).await;
    }
    soon(async || (bench.database_len() > 30 * MIB).then_some(())).await;
}

#[tokio::test]
async fn what_has_to_wait_for_the_wal_is_not_committed_there() {
    let bench = Bench::new();
    bench.start(1).await.unwrap();
    // As long as somebody sees what was, it cannot be written over.
    let onlooker = rusqlite::Connection::open(bench.dir.path().join("ledger.sqlite")).unwrap();
    onlooker
        .execute_batch("BEGIN; SELECT * FROM sessions")
        .unwrap();
    for _ in 0..70 {
        bench.do_any(grow_by_a_mib).await.unwrap();
    }
    bench.is_turned_away_for_long().await;
    drop(onlooker);
    bench.do_any(grow_by_a_mib).await.unwrap();
    bench.until_quiet().await;
}
