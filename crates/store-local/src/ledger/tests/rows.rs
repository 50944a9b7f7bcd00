//! Rows that cannot be read, locks of other programs, and the snapshot of a read.

use super::*;

/// Runs statements in the database behind the ledger's back, on a separate connection.
fn meddle(test: &TestLedger, sql: &str) {
    let path = test.dir.path().join("ledger.sqlite");
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.execute_batch(sql).unwrap();
}

fn expired(n: u8) -> NewSession {
    NewSession {
        expires: Timestamp::from_millis(1),
        ..new_session(n)
    }
}

#[track_caller]
fn assert_unreadable<T: std::fmt::Debug>(done: &Result<T, LedgerError>) {
    assert!(matches!(done, Err(LedgerError::Unreadable)), "{done:?}");
}

#[tokio::test]
async fn unreadable_row_fails_only_requests_that_need_it() {
    let test = TestLedger::new();
    let held = test.start(1).await.unwrap();
    test.start(2).await.unwrap();
    meddle(&test, "UPDATE sessions SET state = 9 WHERE context = x'01'");
    assert_unreadable(&test.ledger.session(id(1)).await);
    assert_unreadable(&test.ledger.lease(id(1)).await);
    let end = test.ledger.end(id(1), held, EndSession::Cancelled);
    assert_unreadable(&end.await);

    assert!(test.ledger.check().await.is_ok());
    let held = test.ledger.lease(id(2)).await.unwrap().unwrap().lease;
    let end = test.ledger.end(id(2), held, EndSession::Cancelled);
    end.await.unwrap();
}

#[tokio::test]
async fn unreadable_expired_row_does_not_stop_expiry() {
    let test = TestLedger::new();
    for n in 1..=3 {
        test.ledger.start(expired(n)).await.unwrap();
    }
    let strange = "UPDATE sessions SET media = zeroblob(16), place = 7 WHERE context = x'01'";
    meddle(&test, strange);
    let now = Timestamp::from_millis(2);
    for expected in [1, 1, 0] {
        assert_eq!(test.ledger.expire(now, 1).await.unwrap(), expected);
    }
    assert!(test.ledger.check().await.is_ok());
}

#[tokio::test]
async fn foreign_write_lock_refuses_changes_without_a_fault() {
    let test = TestLedger::new();
    test.start(1).await.unwrap();
    let impatient = |connection: &rusqlite::Connection| connection.busy_timeout(Duration::ZERO);
    test.do_any(impatient).await.unwrap();
    let path = test.dir.path().join("ledger.sqlite");
    let other = rusqlite::Connection::open(path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = test.start(2).await;
    assert!(
        matches!(refused, Err(LedgerError::Unavailable(_))),
        "{refused:?}"
    );
    assert!(test.ledger.session(id(1)).await.unwrap().is_some());
    other.execute_batch("ROLLBACK").unwrap();
    test.start(2).await.unwrap();
    assert!(test.ledger.check().await.is_ok());
}

#[tokio::test]
async fn foreign_lock_refuses_a_lease_without_a_fault() {
    let test = TestLedger::new();
    test.start(1).await.unwrap();
    // In a database with a WAL nearly nothing locks readers out. So the sessions are read from a
    // copy in a database without a WAL, where an exclusive transaction locks readers out.
    let path = test.dir.path().join("copy.sqlite");
    std::fs::File::create(&path).unwrap();
    let sql = format!(
        "ATTACH '{}' AS copy;
         CREATE TABLE copy.sessions AS SELECT * FROM main.sessions;
         CREATE TEMP VIEW sessions AS SELECT * FROM copy.sessions;",
        path.display()
    );
    let read_copy = move |connection: &rusqlite::Connection| {
        connection.busy_timeout(Duration::ZERO)?;
        connection.execute_batch(&sql)
    };
    test.do_any(read_copy).await.unwrap();
    let other = rusqlite::Connection::open(path).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let refused = test.ledger.lease(id(1)).await;
    assert!(
        matches!(refused, Err(LedgerError::Unavailable(_))),
        "{refused:?}"
    );
    other.execute_batch("ROLLBACK").unwrap();
    let leased = test.ledger.lease(id(1)).await.unwrap().unwrap();
    assert_eq!(leased.lease.epoch, Epoch(1));
    assert!(test.ledger.check().await.is_ok());
}

#[tokio::test]
async fn long_context_is_deleted_with_its_session() {
    let test = TestLedger::new();
    let contexts = async || {
        let count = |connection: &Connection| {
            let sql = "SELECT count(*) FROM contexts";
            connection.query_row(sql, [], |row| row.get::<_, i64>(0))
        };
        test.ledger.readers.read(count).await.unwrap()
    };
    for n in 1..=2 {
        let new = NewSession {
            context: vec![n; 5_000],
            expires: Timestamp::from_millis(10),
            ..new_session(n)
        };
        test.ledger.start(new).await.unwrap();
    }
    assert_eq!(contexts().await, 2);
    let lease = test.ledger.lease(id(1)).await.unwrap().unwrap().lease;
    let end = test.ledger.end(id(1), lease, EndSession::Cancelled);
    end.await.unwrap();
    assert_eq!(contexts().await, 1);
    let now = Timestamp::from_millis(11);
    assert_eq!(test.ledger.expire(now, 9).await.unwrap(), 2);
    assert_eq!(contexts().await, 0);
}

#[test]
fn unknown_media_is_looked_up_in_one_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let (path, writer) = new_database(&dir);
    let reader = schema::open_reader(&path).unwrap();
    let ids = [1, 2].map(|n| MediaId::from_bytes([n; 16]));
    // Each media becomes garbage just before it is looked up.
    let names = ids.map(StoredName::of);
    let looked_up = names.clone().into_iter().inspect(|name| {
        let sql = "INSERT INTO garbage VALUES (?1, x'', 0, 0)";
        writer.execute(sql, [name.media.as_bytes()]).unwrap();
    });
    let unknown = references::unknown_names(&reader, looked_up).unwrap();
    assert_eq!(unknown, names[1..]);
}
