//! The in-memory implementations: against their contracts, and in simulated crashes.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use windlass_store::conformance;
use windlass_store::memory::{MemoryLedger, MemoryVault, ObjectVault, UnsyncedWrite};
use windlass_store::session_list::MAX_SESSIONS_READ_PER_PAGE;
use windlass_store::{
    ChangeSet, EndSession, ExpectedSize, ExtentChanges, LEASE_LIFETIME, Ledger, LedgerError,
    NewSession, READ_LEN, Resource, ResourceChange, Sealed, SessionId, SessionQuery, StoredMedia,
    StoredName, SyncTarget, Takeover, Timestamp, Vault, VaultError,
};

use crate::samples::{create, data, media_id, name, new_session, session_id, start, step};

#[tokio::test]
async fn the_memory_ledger_keeps_the_contract() {
    conformance::ledger(&MemoryLedger::new()).await;
}

#[tokio::test]
async fn the_memory_ledger_keeps_released_media() {
    let ledger = MemoryLedger::new().with_retention(conformance::RETENTION);
    let advance = async |time| ledger.advance_clock(time);
    conformance::ledger_with_retention(&ledger, advance).await;
}

#[tokio::test]
async fn the_memory_vault_keeps_the_contract() {
    conformance::vault(&MemoryVault::new()).await;
}

/// Returns a vault with cells of this length.
fn objects(cell: u64) -> ObjectVault {
    ObjectVault::new(NonZeroU64::new(cell).unwrap())
}

#[tokio::test]
async fn the_object_vault_keeps_the_contract() {
    conformance::vault(&objects(1_000)).await;
    conformance::vault(&objects(100_000)).await;
}

#[tokio::test]
async fn the_object_vault_keeps_what_it_synced_over_a_restart() {
    let vault = objects(8);
    conformance::vault_restart(async || Arc::new(vault.clone()) as Arc<dyn Vault>).await;
}

/// A write that was reported as failed lands after its media was deleted: the listing finds it.
#[tokio::test]
async fn object_that_lands_late_is_listed_and_changes_nothing() {
    let vault = objects(8);
    vault.delay_writes(1);
    let created = vault.create(media_id(1), ExpectedSize::default()).await;
    let writer = created.unwrap();
    let late = writer.append(0, data()).await;
    assert!(
        matches!(late, Err(VaultError::Unavailable { .. })),
        "{late:?}"
    );
    writer.append(0, data()).await.unwrap();
    writer.sync(SyncTarget::end(8)).await.unwrap();
    let changes = writer.take_changes();
    assert_eq!((changes.added.len(), vault.objects()), (1, 1));
    for landed in [2, 2] {
        vault.land();
        assert_eq!(vault.objects(), landed);
    }
    let sealed = vault.seal(&stored_media(1, 8, &changes)).await.unwrap();
    let Sealed::Media { handle, .. } = sealed else {
        panic!("there is one object: {sealed:?}");
    };
    let name = StoredName { handle, ..name(1) };
    let mut reader = vault.read(&name, 0..8).await.unwrap();
    assert_eq!(reader.next(READ_LEN).await.unwrap(), "windlass");
    assert_eq!(vault.list(None, 10).await.unwrap().stored.len(), 2);
}

#[tokio::test]
async fn full_object_vault_keeps_what_it_has() {
    let vault = objects(8);
    let writer = create(&vault, 1).await;
    writer.sync(SyncTarget::at(8)).await.unwrap();
    let changes = writer.take_changes();
    vault.set_capacity(15);
    let full = writer.append_and_sync(8, data(), SyncTarget::at(16)).await;
    assert!(matches!(full, Err(VaultError::NoSpace { written: 0 })));
    writer.sync(SyncTarget::at(8)).await.unwrap();
    assert!(writer.take_changes().is_empty());
    vault.resume(&stored_media(1, 8, &changes)).await.unwrap();
}

/// Media `n` of this length, with the extents that a sync has returned.
fn stored_media(n: u8, length: u64, changes: &ExtentChanges) -> StoredMedia {
    let mut stored = StoredMedia::new(media_id(n), length);
    stored.change(changes);
    stored
}

#[tokio::test]
async fn the_memory_ledger_keeps_what_it_committed_over_a_crash() {
    let ledger = Arc::new(MemoryLedger::new());
    conformance::ledger_restart(async || {
        ledger.crash();
        Arc::clone(&ledger) as Arc<dyn Ledger>
    })
    .await;
}

#[tokio::test]
async fn the_memory_vault_keeps_what_it_synced_over_a_crash() {
    let vault = MemoryVault::new();
    conformance::vault_restart(async || {
        vault.crash();
        Arc::new(vault.clone()) as Arc<dyn Vault>
    })
    .await;
}

#[tokio::test]
async fn claims_and_tasks_of_a_process_that_has_ended_are_free_at_once() {
    let first = MemoryLedger::new();
    let second = first.of_another_process();
    let resource = Resource {
        collection: "events".to_owned(),
        id: "1".to_owned(),
        version: 1,
        body: "{}".into(),
        media: None,
        created: Timestamp::from_millis(0),
        updated: Timestamp::from_millis(0),
        owner: None,
        due: Some(Timestamp::from_millis(10)),
        claimed_by: None,
    };
    let changes = ChangeSet {
        resources: vec![ResourceChange::Insert(resource)],
        ..ChangeSet::default()
    };
    first.apply(changes).await.unwrap();
    let [now, until] = [10, 1_000_000].map(Timestamp::from_millis);
    let claims = async |ledger: &MemoryLedger| {
        let claimed = ledger.claim("events", now, until, 9).await;
        claimed.unwrap().len()
    };
    let term = Duration::from_secs(60);
    let acquires = async |ledger: &MemoryLedger| ledger.acquire_task("task", term).await.unwrap();
    assert_eq!((claims(&first).await, claims(&second).await), (1, 0));
    assert!(acquires(&first).await && !acquires(&second).await);
    first.end_process();
    assert_eq!((claims(&second).await, claims(&second).await), (1, 0));
    assert!(acquires(&second).await);

    let third = second.of_another_process();
    second.advance_clock(term);
    assert!(acquires(&third).await, "the term has passed");
}

#[tokio::test]
async fn a_crash_loses_leases_that_nothing_followed() {
    let ledger = MemoryLedger::new();
    let held = start(&ledger, 1, 100).await;
    ledger.crash();
    let late = ledger
        .commit_offset(session_id(1), held, step(1, 0, 8))
        .await;
    assert!(matches!(late, Err(LedgerError::Fenced)));
}

#[tokio::test]
async fn a_crash_loses_writes_that_were_not_synced() {
    let vault = MemoryVault::new();
    let writer = create(&vault, 1).await;
    writer.sync(SyncTarget::at(8)).await.unwrap();
    writer.append(8, data()).await.unwrap();
    assert!(
        vault.read(&name(1), 0..16).await.is_ok(),
        "it is there until the crash"
    );
    vault.crash();
    let resume = async |length| vault.resume(&StoredMedia::new(media_id(1), length)).await;
    assert!(matches!(resume(9).await, Err(VaultError::Damaged { .. })));
    resume(8).await.unwrap();
}

#[tokio::test]
async fn a_crash_may_keep_any_of_the_writes() {
    let vault = MemoryVault::new();
    let writer = create(&vault, 1).await;
    writer.append(8, data()).await.unwrap();
    let mut asked = Vec::new();
    vault.crash_keeping(|write| {
        asked.push((write.offset, write.len));
        write
            == UnsyncedWrite {
                id: media_id(1),
                offset: 12,
                len: 4,
            }
    });
    assert_eq!(asked, [(0, 4), (4, 4), (8, 4), (12, 4)]);
    let mut reader = vault.read(&name(1), 0..16).await.unwrap();
    assert_eq!(
        reader.next(READ_LEN).await.unwrap(),
        &b"\0\0\0\0\0\0\0\0\0\0\0\0lass"[..]
    );
}

#[tokio::test]
async fn memory_ledger_keeps_its_promises_to_two_processes() {
    let first = MemoryLedger::new();
    let second = first.of_another_process();
    conformance::ledger_of_processes(&first, &second).await;
}

#[tokio::test]
async fn process_that_has_ended_works_on_nothing() {
    let first = MemoryLedger::new();
    let second = first.of_another_process();
    let id = session_id(1);
    start(&first, 1, 100).await;
    let asked = second.lease_by(id, Takeover::Ask).await;
    assert!(matches!(asked, Err(LedgerError::Held)), "{asked:?}");
    drop(first);
    assert!(second.lease_by(id, Takeover::Ask).await.unwrap().is_some());
}

/// A process that was stopped for long resumes: media that it has written may be deleted.
#[tokio::test]
async fn lease_that_was_left_alone_for_too_long_is_refused() {
    let ledger = MemoryLedger::new();
    let id = session_id(1);
    let held = start(&ledger, 1, 100).await;
    let short = LEASE_LIFETIME.saturating_sub(Duration::from_secs(1));
    for from in [0, 8] {
        ledger.advance_clock(short);
        let commit = step(1, from, from + 8);
        ledger.commit_offset(id, held, commit).await.unwrap();
    }
    ledger.advance_clock(short);
    ledger.renew(&[(id, held)]).await.unwrap();
    ledger.advance_clock(LEASE_LIFETIME);
    ledger.renew(&[(id, held)]).await.unwrap();
    let late = [
        ledger.commit_offset(id, held, step(1, 16, 24)).await,
        ledger.end(id, held, EndSession::Failed).await,
    ];
    for refused in late {
        assert!(matches!(refused, Err(LedgerError::Fenced)), "{refused:?}");
    }
    let second = ledger.of_another_process();
    let leased = second.lease_by(id, Takeover::Ask).await.unwrap();
    assert_eq!(leased.unwrap().session.progress.offset, 16);
}

#[tokio::test]
async fn writer_from_before_a_crash_is_refused() {
    let vault = MemoryVault::new();
    let writer = create(&vault, 1).await;
    vault.crash();
    assert!(writer.append(0, data()).await.is_err());
    assert!(writer.sync(SyncTarget::at(8)).await.is_err());
}

#[tokio::test]
async fn a_page_of_sessions_reads_a_bounded_number_of_rows() {
    let ledger = MemoryLedger::new();
    for n in 0..MAX_SESSIONS_READ_PER_PAGE {
        let mut id = [0; 32];
        id[24..].copy_from_slice(&(n as u64).to_be_bytes());
        let session = NewSession {
            id: SessionId::from_bytes(id),
            ..new_session(0, 100)
        };
        ledger.start(session).await.unwrap();
    }
    let last = NewSession {
        owner: Some("few".to_owned()),
        ..new_session(u8::MAX, 100)
    };
    ledger.start(last).await.unwrap();
    let mut query = SessionQuery {
        owner: Some("few".to_owned()),
        ..SessionQuery::default()
    };
    let empty = ledger.sessions(&query).await.unwrap();
    assert_eq!(empty.sessions, []);
    assert!(empty.next.is_some());
    query.after = empty.next;
    let rest = ledger.sessions(&query).await.unwrap();
    assert_eq!((rest.sessions.len(), rest.next), (1, None));
}
