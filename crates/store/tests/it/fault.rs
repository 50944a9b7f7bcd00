//! The effect of each injected fault on a call.

use std::sync::Arc;
use std::time::Duration;

use windlass_store::fault::{Faults, FaultyLedger, FaultyVault, InjectedFault, Trigger};
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_store::{ExpectedSize, Ledger, LedgerError, READ_LEN, Vault, VaultError};

use crate::samples::{create, data, media_id, name, new_session, session_id, start, step, stored};

/// Returns whether session 1 was started, and the outcome of the affected call.
async fn start_in(trouble: InjectedFault) -> (bool, Result<(), LedgerError>) {
    let inner = Arc::new(MemoryLedger::new());
    let faults = Arc::new(Faults::new(Trigger::Once(1), trouble));
    let ledger = FaultyLedger::new(inner.clone(), faults);
    let result = ledger.start(new_session(1, 100)).await;
    (
        inner.session(session_id(1)).await.unwrap().is_some(),
        result.map(drop),
    )
}

#[tokio::test]
async fn affected_change_fails_before_or_after_it_is_made() {
    for trouble in [InjectedFault::Fault, InjectedFault::Torn] {
        assert!(matches!(
            start_in(trouble).await,
            (false, Err(LedgerError::Fault(_)))
        ));
    }
    assert!(matches!(
        start_in(InjectedFault::Lost).await,
        (true, Err(LedgerError::Unknown(_)))
    ));
    assert!(matches!(
        start_in(InjectedFault::LateFault).await,
        (true, Err(LedgerError::Fault(_)))
    ));
    assert!(matches!(
        start_in(InjectedFault::NoSpace).await,
        (false, Err(LedgerError::NoSpace))
    ));
    assert!(matches!(
        start_in(InjectedFault::Unavailable).await,
        (false, Err(LedgerError::Unavailable(_)))
    ));
    let slow = InjectedFault::Slow(Duration::from_millis(1));
    assert!(matches!(start_in(slow).await, (true, Ok(()))));
}

#[tokio::test]
async fn calls_of_one_method_are_affected_alone() {
    let faults = Faults::new(Trigger::CallsOf("lease"), InjectedFault::Unavailable);
    let ledger = FaultyLedger::new(Arc::new(MemoryLedger::new()), Arc::new(faults));
    ledger.start(new_session(1, 100)).await.unwrap();
    for _ in 0..2 {
        let leased = ledger.lease(session_id(1)).await;
        assert!(
            matches!(leased, Err(LedgerError::Unavailable(_))),
            "{leased:?}"
        );
        assert!(ledger.session(session_id(1)).await.unwrap().is_some());
    }
}

/// Returns the bytes of media 1 that were written, and the outcome of the affected write.
async fn write_in(trouble: InjectedFault) -> (usize, Result<(), VaultError>) {
    let inner = MemoryVault::new();
    let faults = Arc::new(Faults::new(Trigger::Once(2), trouble));
    let vault = FaultyVault::new(Arc::new(inner.clone()), faults);
    let writer = vault.create(media_id(1), ExpectedSize::default()).await;
    let result = writer.unwrap().append(0, data()).await;
    let mut written = 0;
    inner.crash_keeping(|write| {
        written += usize::try_from(write.len).unwrap();
        true
    });
    (written, result)
}

#[tokio::test]
async fn affected_write_may_be_torn() {
    assert!(matches!(
        write_in(InjectedFault::Fault).await,
        (0, Err(VaultError::Fault(_)))
    ));
    assert!(matches!(
        write_in(InjectedFault::Torn).await,
        (4, Err(VaultError::Fault(_)))
    ));
    assert!(matches!(
        write_in(InjectedFault::Lost).await,
        (8, Err(VaultError::Fault(_)))
    ));
    assert!(matches!(
        write_in(InjectedFault::Unavailable).await,
        (0, Err(VaultError::Unavailable { .. }))
    ));
    let full = write_in(InjectedFault::NoSpace).await;
    assert!(matches!(full, (4, Err(VaultError::NoSpace { written: 4 }))));
}

#[tokio::test]
async fn calls_of_readers_and_writers_are_scheduled_too() {
    let inner = MemoryVault::new();
    create(&inner, 1).await;
    let faults = Arc::new(Faults::new(Trigger::From(2), InjectedFault::Fault));
    let vault = FaultyVault::new(Arc::new(inner), Arc::clone(&faults));
    let mut reader = vault.read(&name(1), 0..8).await.unwrap();
    assert!(matches!(
        reader.next(READ_LEN).await,
        Err(VaultError::Unavailable { .. })
    ));
    assert!(matches!(
        vault.delete(&name(1)).await,
        Err(VaultError::Unavailable { .. })
    ));
    assert!(matches!(
        vault.create(media_id(2), ExpectedSize::default()).await,
        Err(VaultError::Fault(_))
    ));
    assert_eq!(faults.calls(), 4);
}

/// Returns which of the sessions 1, 2 and 3 were started, and the outcomes of the calls.
async fn start_in_outage(faults: Faults) -> ([bool; 3], [bool; 3]) {
    let inner = Arc::new(MemoryLedger::new());
    let ledger = FaultyLedger::new(inner.clone(), Arc::new(faults));
    let (mut started, mut heard) = ([false; 3], [false; 3]);
    for n in 0..3 {
        heard[usize::from(n)] = ledger.start(new_session(n, 100)).await.is_ok();
    }
    for n in 0..3 {
        started[usize::from(n)] = inner.session(session_id(n)).await.unwrap().is_some();
    }
    (started, heard)
}

#[tokio::test]
async fn an_outage_ends_all_calls_before_or_after_the_nth() {
    let before = start_in_outage(Faults::outage_before(2)).await;
    assert_eq!(before, ([true, false, false], [true, false, false]));
    let after = start_in_outage(Faults::outage_after(2)).await;
    assert_eq!(after, ([true, true, false], [true, false, false]));
}

#[tokio::test]
async fn lost_reply_carries_out_any_call() {
    let (ledger, vault) = (Arc::new(MemoryLedger::new()), MemoryVault::new());
    let held = start(&*ledger, 1, 100).await;
    create(&vault, 1).await;
    let faults = Arc::new(Faults::new(Trigger::From(1), InjectedFault::Lost));
    let faulty_ledger = FaultyLedger::new(ledger.clone(), Arc::clone(&faults));
    let faulty_vault = FaultyVault::new(Arc::new(vault.clone()), Arc::clone(&faults));
    assert!(faulty_vault.delete(&name(1)).await.is_err());
    assert!(stored(&vault).await.is_empty());
    assert!(faulty_ledger.lease(session_id(1)).await.is_err());
    let late = ledger
        .commit_offset(session_id(1), held, step(1, 0, 8))
        .await;
    assert!(matches!(late, Err(LedgerError::Fenced)));
    assert_eq!(faults.names(), ["delete", "lease"]);
}

#[tokio::test]
async fn a_ledger_and_a_vault_share_one_count() {
    let faults = Arc::new(Faults::new(Trigger::Once(4), InjectedFault::Fault));
    let ledger = FaultyLedger::new(Arc::new(MemoryLedger::new()), Arc::clone(&faults));
    let vault = FaultyVault::new(Arc::new(MemoryVault::new()), Arc::clone(&faults));
    start(&ledger, 1, 100).await;
    vault.space().await.unwrap();
    assert!(ledger.check().await.is_err());
    assert!(vault.space().await.is_ok());
}
