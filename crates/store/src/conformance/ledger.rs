//! The rules of [`Ledger`].

mod clearing;
mod endings;
mod resources;
mod sessions;

use bytes::Bytes;

use super::samples::Names;
use crate::ledger::{ChangeSet, FinishSession, Ledger, LedgerError, ResourceChange};
use crate::records::{MediaId, NewSession, Resource, Session, SessionId};

/// Checks an empty ledger against every rule of the contract.
///
/// # Panics
/// When it breaks one.
pub async fn ledger(ledger: &dyn Ledger) {
    sessions::checks(ledger).await;
    endings::checks(ledger).await;
    resources::checks(ledger).await;
    clearing::checks(ledger).await;
    assert!(ledger.check().await.is_ok(), "a sound ledger says so");
    let space = ledger.space().await.unwrap();
    assert!(
        space.available <= space.total && space.total > 0,
        "{space:?}"
    );
}

async fn start(ledger: &dyn Ledger, new: NewSession) -> Session {
    let id = new.id;
    ledger.start(new).await.unwrap();
    session(ledger, id).await
}

async fn session(ledger: &dyn Ledger, id: SessionId) -> Session {
    ledger
        .session(id)
        .await
        .unwrap()
        .expect("the session is there")
}

async fn lease(ledger: &dyn Ledger, id: SessionId) -> Session {
    ledger
        .lease(id)
        .await
        .unwrap()
        .expect("the session is there")
}

async fn found(ledger: &dyn Ledger, names: &Names, id: &str) -> Option<Resource> {
    ledger.resource(&names.collection(), id).await.unwrap()
}

async fn small(ledger: &dyn Ledger, id: MediaId) -> Option<Bytes> {
    ledger.small_media(id).await.unwrap()
}

async fn is_garbage(ledger: &dyn Ledger, id: MediaId) -> bool {
    ledger.garbage(None, 1_000).await.unwrap().contains(&id)
}

fn finishing(finish: FinishSession, resources: Vec<ResourceChange>) -> ChangeSet {
    ChangeSet {
        resources,
        finish: Some(finish),
        ..ChangeSet::default()
    }
}

#[track_caller]
fn fenced(result: Result<(), LedgerError>) {
    match result {
        Err(LedgerError::Fenced) => {}
        other => panic!("this must be fenced: {other:?}"),
    }
}

#[track_caller]
fn conflicts(result: Result<(), LedgerError>) {
    match result {
        Err(LedgerError::Conflict) => {}
        other => panic!("this must conflict: {other:?}"),
    }
}
