//! Commits that fail: the errors of their callers, and the rows after the next opening.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[tokio::test]
async fn after_a_failed_commit_every_call_fails() {
    let test = TestLedger::new();
    test.start(1).await.unwrap();
    // A deferred constraint, which fails the COMMIT.
    let dangling = "CREATE TABLE parent (id INTEGER PRIMARY KEY);
        CREATE TABLE child (parent REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED);
        INSERT INTO child VALUES (1);";
    assert_fault(
        test.do_any(|connection| connection.execute_batch(dangling))
            .await,
    );
    assert_fault(test.start(2).await);
    assert_fault(test.ledger.lease(id(1)).await);
    assert_fault(test.ledger.session(id(1)).await);
    assert_fault(test.ledger.expire(Timestamp::from_millis(1), 1).await);
    assert_fault(test.ledger.check().await);
    let test = test.reopen();
    assert!(
        test.ledger.session(id(1)).await.unwrap().is_some(),
        "what was committed stays"
    );
    assert!(test.ledger.session(id(2)).await.unwrap().is_none());
    assert!(test.ledger.check().await.is_ok());
}

#[tokio::test]
async fn all_callers_of_a_commit_that_fails_get_the_fault() {
    let test = TestLedger::new();
    let block = test.block_writer().await;
    let ledger = Arc::clone(&test.ledger);
    let broken = tokio::spawn(async move {
        let work =
            |connection: &rusqlite::Connection| connection.execute_batch("no such statement");
        ledger.change(any(None, work)).await
    });
    let waiting: Vec<_> = (1..5).map(|n| tokio::spawn(test.start(n))).collect();
    test.until_queued(5).await;
    drop(block);
    assert_fault(broken.await.unwrap());
    for call in waiting {
        assert_fault(call.await.unwrap());
    }
    let test = test.reopen();
    for n in 1..5 {
        assert_eq!(
            test.ledger.session(id(n)).await.unwrap(),
            None,
            "all or nothing"
        );
    }
}

/// Returns two file systems. The second has stopped by its nth check, counted from the opening.
fn stops_at(nth: usize) -> Arc<[StopProbe]> {
    let asked = AtomicUsize::new(0);
    let stopped = move || {
        if asked.fetch_add(1, Ordering::SeqCst) + 1 < nth {
            return Ok(());
        }
        Err(std::io::Error::other("it has stopped"))
    };
    Arc::new([StopProbe::by(|| Ok(())), StopProbe::by(stopped)])
}

#[tokio::test]
async fn commit_on_a_stopped_file_system_fails() {
    // The opening checks once, and each commit twice: before its changes and after its sync.
    for (nth, is_committed) in [(2, false), (3, true)] {
        let test = TestLedger::on(stops_at(nth));
        assert_fault(test.start(1).await);
        assert_fault(test.start(2).await);
        assert_fault(test.ledger.check().await);
        let test = test.reopen();
        let found = test.ledger.session(id(1)).await.unwrap();
        assert_eq!(
            found.is_some(),
            is_committed,
            "session 1 when check {nth} fails"
        );
        assert_eq!(test.ledger.session(id(2)).await.unwrap(), None);
    }
}

#[test]
fn opening_on_a_stopped_file_system_fails() {
    let dir = tempfile::tempdir().unwrap();
    assert!(try_open(&dir, stops_at(1)).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn read_of_an_unconfirmed_commit_checks_the_file_systems() {
    let (block, unblocked) = mpsc::channel::<()>();
    let (entered, inside) = mpsc::channel();
    let (unblocked, asked) = (Mutex::new(unblocked), AtomicUsize::new(0));
    let stop_probe = StopProbe::by(move || match asked.fetch_add(1, Ordering::SeqCst) + 1 {
        1 | 2 => Ok(()),
        // The check after the commit.
        3 => {
            entered.send(()).unwrap();
            let _ = unblocked.lock().unwrap().recv();
            Ok(())
        }
        _ => Err(std::io::Error::other("it has stopped")),
    });
    let test = TestLedger::on(Arc::new([stop_probe]));
    let start = tokio::spawn(test.start(1));
    inside.recv_timeout(PATIENCE).unwrap();
    assert_fault(test.ledger.session(id(1)).await);
    drop(block);
    start.await.unwrap().unwrap();
    assert_fault(test.start(2).await);
}

#[tokio::test]
async fn panic_of_the_writer_is_a_fault() {
    let test = TestLedger::new();
    test.start(1).await.unwrap();
    let half_way = |connection: &rusqlite::Connection| {
        connection.execute("DELETE FROM sessions", [])?;
        panic!("asked for by a test")
    };
    assert_fault(test.do_any(half_way).await);
    assert_fault(test.start(2).await);
    assert_fault(test.ledger.check().await);
    let test = test.reopen();
    assert!(test.ledger.session(id(1)).await.unwrap().is_some());
}
