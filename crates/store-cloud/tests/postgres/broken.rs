//! Connections that break at a chosen statement.

use windlass_store::{EndSession, Lease, Ledger, LedgerError, SessionId};
use windlass_store_cloud::CloudLedger;

use crate::database::{self, Database};
use crate::proxy::{Cut, Proxy};
use crate::sample;

/// Opens a ledger through a proxy, and starts a session.
async fn through_proxy() -> (Database, Proxy, CloudLedger, SessionId, Lease) {
    let database = Database::new().await;
    let (_, rest) = database.url.split_once('@').unwrap();
    let (server, name) = rest.split_once('/').unwrap();
    let proxy = Proxy::start(server.to_owned()).await;
    let url = format!("postgres://windlass@{}/{name}", proxy.address);
    let ledger = CloudLedger::open(&url, database::options()).await.unwrap();
    let (id, lease) = sample::start(&ledger, 1).await;
    (database, proxy, ledger, id, lease)
}

#[track_caller]
fn unknown(result: Result<(), LedgerError>) {
    match result {
        Err(LedgerError::Unknown(_)) => {}
        other => panic!("the outcome must be unknown: {other:?}"),
    }
}

async fn offset(ledger: &CloudLedger, id: SessionId) -> u64 {
    let session = ledger.session(id).await.unwrap().unwrap();
    session.progress.offset
}

#[tokio::test]
async fn lost_answer_to_a_commit_is_unknown() {
    let (_database, proxy, ledger, id, lease) = through_proxy().await;
    for (cut, is_made) in [(Cut::Answer, true), (Cut::Before, false)] {
        let before = offset(&ledger, id).await;
        proxy.cut("COMMIT\0", cut);
        let commit = sample::commit(before, before + 10);
        unknown(ledger.commit_offset(id, lease, commit).await);
        assert!(proxy.has_cut());
        let after = offset(&ledger, id).await;
        assert_eq!(after - before, if is_made { 10 } else { 0 }, "{cut:?}");
    }
    for (n, cut, is_made) in [(1, Cut::Answer, true), (2, Cut::Before, false)] {
        proxy.cut("INSERT INTO resources", cut);
        let name = format!("resource {n}");
        let row = sample::resource("r", &name, None);
        unknown(ledger.apply(sample::insert(vec![row])).await);
        let made = ledger.resource("r", &name).await.unwrap();
        assert_eq!(made.is_some(), is_made, "{cut:?}");
    }
    // Without the answer nobody knows the lease.
    proxy.cut("UPDATE tips t SET epoch", Cut::Answer);
    unknown(ledger.lease(id).await.map(drop));
    let stale = ledger.end(id, lease, EndSession::Cancelled).await;
    assert!(matches!(stale, Err(LedgerError::Fenced)), "{stale:?}");
}

#[tokio::test]
async fn connection_that_breaks_before_the_commit_is_sent_is_replaced() {
    let (_database, proxy, ledger, id, lease) = through_proxy().await;
    for (from, cut) in [(0, Cut::Before), (10, Cut::Answer)] {
        proxy.cut("FOR NO KEY UPDATE OF t", cut);
        let commit = sample::commit(from, from + 10);
        ledger.commit_offset(id, lease, commit).await.unwrap();
        assert!(proxy.has_cut());
    }
    assert_eq!(offset(&ledger, id).await, 20);
    proxy.cut("SELECT t.id, s.context", Cut::Answer);
    assert_eq!(offset(&ledger, id).await, 20, "a read is repeated");
    assert!(proxy.has_cut());
}
