//! Leases run out by the clock of the database, and also while a change waits for a lock.

use std::time::Duration;

use tokio_postgres::Client;
use windlass_store::{ChangeSet, EndSession, Ledger, LedgerError, SessionId, Takeover, Timestamp};

use crate::database::{self, Database};
use crate::sample;

#[track_caller]
fn fenced(result: Result<(), LedgerError>) {
    match result {
        Err(LedgerError::Fenced) => {}
        other => panic!("this must be fenced: {other:?}"),
    }
}

/// Lets the lease of a session run out in the given time.
async fn run_out(client: &Client, id: SessionId, within: &str) {
    let sql = format!(
        "UPDATE tips SET lease_until = clock_timestamp() + interval '{within}' WHERE id = $1"
    );
    client.execute(&sql, &[&&id.as_bytes()[..]]).await.unwrap();
}

#[tokio::test]
async fn lease_that_has_run_out_changes_nothing() {
    let database = Database::new().await;
    let ledger = database.open().await;
    let (id, lease) = sample::start(&ledger, 1).await;
    let before = ledger.session(id).await.unwrap();
    run_out(&database.client, id, "0 seconds").await;
    fenced(ledger.commit_offset(id, lease, sample::commit(0, 10)).await);
    fenced(ledger.end(id, lease, EndSession::Failed).await);
    fenced(ledger.apply(sample::finish(id, lease)).await);
    ledger.renew(&[(id, lease)]).await.unwrap();
    fenced(ledger.commit_offset(id, lease, sample::commit(0, 10)).await);
    assert_eq!(ledger.session(id).await.unwrap(), before);

    let other = database.open().await;
    let taken = other.lease_by(id, Takeover::Ask).await.unwrap().unwrap();
    let commit = sample::commit(0, 10);
    other.commit_offset(id, taken.lease, commit).await.unwrap();
}

/// Waits until a statement of the ledger waits for a lock.
async fn until_blocked(client: &Client) {
    let sql = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    loop {
        let row = client.query_one(sql, &[]).await.unwrap();
        if row.get::<_, i64>(0) > 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// Locks the row of a session on a second connection.
async fn lock(database: &Database, id: SessionId) -> Client {
    let client = database::connect(&database.url).await;
    client.batch_execute("BEGIN").await.unwrap();
    let sql = "SELECT 1 FROM tips WHERE id = $1 FOR UPDATE";
    client.query(sql, &[&&id.as_bytes()[..]]).await.unwrap();
    client
}

#[tokio::test]
async fn lease_that_runs_out_behind_a_lock_changes_nothing() {
    let database = Database::new().await;
    let ledger = database.open().await;
    let (id, lease) = sample::start(&ledger, 1).await;
    for change in 0..3 {
        run_out(&database.client, id, "400 milliseconds").await;
        let holder = lock(&database, id).await;
        let blocked = async {
            match change {
                0 => fenced(ledger.commit_offset(id, lease, sample::commit(0, 10)).await),
                1 => fenced(ledger.end(id, lease, EndSession::Failed).await),
                _ => fenced(ledger.apply(sample::finish(id, lease)).await),
            }
        };
        let release = async {
            until_blocked(&database.client).await;
            let sql = "SELECT lease_until < clock_timestamp() FROM tips WHERE id = $1";
            loop {
                let row = holder.query_one(sql, &[&&id.as_bytes()[..]]).await.unwrap();
                if row.get(0) {
                    break;
                }
            }
            holder.batch_execute("COMMIT").await.unwrap();
        };
        tokio::join!(blocked, release);
    }
    let session = ledger.session(id).await.unwrap().unwrap();
    assert_eq!(session.progress.offset, 0);
}

#[tokio::test]
async fn change_set_that_becomes_late_behind_a_lock_changes_nothing() {
    let database = Database::new().await;
    let ledger = database.open().await;
    let row = sample::resource("r", "one", None);
    ledger.apply(sample::insert(vec![row])).await.unwrap();
    let holder = database::connect(&database.url).await;
    let lock = "BEGIN; SELECT 1 FROM resources FOR UPDATE";
    holder.batch_execute(lock).await.unwrap();
    let last = ledger.deadline(Duration::from_millis(400)).unwrap();
    let late = ChangeSet {
        not_after: Some(last),
        ..sample::delete("r", "one")
    };
    let blocked = async { fenced(ledger.apply(late).await) };
    let release = async {
        until_blocked(&database.client).await;
        while ledger.deadline(Duration::ZERO).unwrap() <= last {
            tokio::task::yield_now().await;
        }
        holder.batch_execute("COMMIT").await.unwrap();
    };
    tokio::join!(blocked, release);
    assert!(ledger.resource("r", "one").await.unwrap().is_some());
    let never = Timestamp::from_millis(u64::MAX);
    let in_time = ChangeSet {
        not_after: Some(never),
        ..sample::delete("r", "one")
    };
    ledger.apply(in_time).await.unwrap();
}

#[tokio::test]
async fn lease_taken_while_a_commit_waits_fences_it() {
    let database = Database::new().await;
    let ledger = database.open().await;
    let (id, lease) = sample::start(&ledger, 1).await;
    let holder = lock(&database, id).await;
    let blocked = async {
        fenced(ledger.commit_offset(id, lease, sample::commit(0, 10)).await);
    };
    let take = async {
        until_blocked(&database.client).await;
        let sql = "UPDATE tips SET lease = '\\x00' WHERE id = $1";
        holder.execute(sql, &[&&id.as_bytes()[..]]).await.unwrap();
        holder.batch_execute("COMMIT").await.unwrap();
    };
    tokio::join!(blocked, take);
}
