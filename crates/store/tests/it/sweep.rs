//! The sweep deletes expired and unreferenced data and nothing else, and may be interrupted
//! anywhere.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use windlass_store::fault::{Faults, FaultyLedger, FaultyVault, InjectedFault, Trigger};
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_store::{
    EndSession, ExpectedSize, Ledger, ListPosition, Listing, MediaId, MediaReader, MediaWriter,
    Retention, Sealed, Space, StoredMedia, StoredName, Sweep, SweepOptions, SyncTarget, Timestamp,
    Vault, VaultError,
};

use crate::samples::{create, media_id, session_id, start, step, stored};

const GRACE: Duration = Duration::from_secs(10);
const LATER: Timestamp = Timestamp::from_millis(20_000);

fn sweep() -> Sweep {
    Sweep::new(SweepOptions::default().batch(3).grace(GRACE))
}

/// Sweeps until nothing is left to do. Returns the numbers of expired sessions, garbage and
/// orphans.
async fn sweep_all(ledger: &dyn Ledger, vault: &dyn Vault, now: Timestamp) -> [usize; 3] {
    let (mut sweep, mut sum) = (sweep(), [0; 3]);
    for _ in 0..100 {
        let swept = sweep.step(ledger, vault, now).await.unwrap();
        sum = [
            sum[0] + swept.expired,
            sum[1] + swept.garbage,
            sum[2] + swept.orphans,
        ];
        if swept.is_done {
            return sum;
        }
    }
    panic!("the sweep does not end");
}

/// The media on the garbage list that is due.
async fn garbage_of(ledger: &dyn Ledger) -> Vec<MediaId> {
    let listed = ledger.garbage(None, 100).await.unwrap().into_iter();
    listed.map(|entry| entry.name.media).collect()
}

/// Creates a session with committed media.
async fn upload(ledger: &dyn Ledger, vault: &dyn Vault, n: u8, expires: u64) {
    let held = start(ledger, n, expires).await;
    let writer = create(vault, n).await;
    writer.sync(SyncTarget::at(8)).await.unwrap();
    ledger
        .commit_offset(session_id(n), held, step(n, 0, 8))
        .await
        .unwrap();
}

#[tokio::test]
async fn expired_sessions_garbage_and_orphans_are_deleted_and_others_stay() {
    let (ledger, vault) = (MemoryLedger::new(), MemoryVault::new());
    for n in 0..8 {
        upload(&ledger, &vault, n, if n < 5 { 1_000 } else { 1_000_000 }).await;
    }
    let held = ledger.lease(session_id(7)).await.unwrap().unwrap().lease;
    ledger
        .end(session_id(7), held, EndSession::Cancelled)
        .await
        .unwrap();
    for n in 20..27 {
        create(&vault, n).await;
    }
    assert_eq!(sweep_all(&ledger, &vault, LATER).await, [5, 6, 7]);
    assert_eq!(stored(&vault).await, [media_id(5), media_id(6)]);
    assert!(garbage_of(&ledger).await.is_empty());
    assert_eq!(sweep_all(&ledger, &vault, LATER).await, [0, 0, 0]);
}

#[tokio::test]
async fn a_step_is_bounded() {
    let (ledger, vault) = (MemoryLedger::new(), MemoryVault::new());
    for n in 0..10 {
        upload(&ledger, &vault, n, 1_000).await;
        create(&vault, 100 + n).await;
    }
    let mut sweep = sweep();
    let first = sweep.step(&ledger, &vault, LATER).await.unwrap();
    assert_eq!((first.expired, first.garbage, first.is_done), (3, 3, false));
    assert!(first.orphans <= 3);
}

#[tokio::test]
async fn sweep_that_does_not_list_the_vault_leaves_orphans() {
    let (ledger, vault) = (MemoryLedger::new(), MemoryVault::new());
    upload(&ledger, &vault, 1, 1_000).await;
    for n in 2..9 {
        create(&vault, n).await;
    }
    let mut sweep = sweep();
    sweep.set_lists_vault(false);
    let swept = sweep.step(&ledger, &vault, LATER).await.unwrap();
    assert_eq!((swept.expired, swept.garbage, swept.orphans), (1, 1, 0));
    assert!(swept.is_done);
    sweep.set_lists_vault(true);
    let swept = sweep.step(&ledger, &vault, LATER).await.unwrap();
    assert_eq!((swept.orphans, swept.is_done), (3, false));
}

#[tokio::test]
async fn young_media_is_left_alone() {
    let (ledger, vault) = (MemoryLedger::new(), MemoryVault::new());
    vault.set_time(Timestamp::from_millis(10_000));
    create(&vault, 1).await;
    vault.set_time(Timestamp::from_millis(9_999));
    create(&vault, 2).await;
    assert_eq!(sweep_all(&ledger, &vault, LATER).await, [0, 0, 1]);
    assert_eq!(stored(&vault).await, [media_id(1)]);
}

#[tokio::test]
async fn media_that_cannot_be_deleted_is_tried_again() {
    let (ledger, memory) = (MemoryLedger::new(), MemoryVault::new());
    upload(&ledger, &memory, 1, 1_000).await;
    let faults = Arc::new(Faults::new(Trigger::Once(1), InjectedFault::Fault));
    let vault = FaultyVault::new(Arc::new(memory.clone()), faults);
    let mut sweep = sweep();
    let swept = sweep.step(&ledger, &vault, LATER).await.unwrap();
    assert_eq!((swept.garbage, swept.failed), (0, 1));
    assert!(swept.failure.is_some());
    assert_eq!(garbage_of(&ledger).await, [media_id(1)]);
    let swept = sweep.step(&ledger, &vault, LATER).await.unwrap();
    assert_eq!((swept.garbage, swept.failed), (1, 0));
}

#[tokio::test]
async fn media_is_kept_and_deleted_twice_if_the_ledger_says_so() {
    let again_after = Some(Duration::from_secs(60));
    let keep = Duration::from_secs(600);
    let ledger = MemoryLedger::new().with_retention(Retention { keep, again_after });
    let (vault, young) = (MemoryVault::new(), Timestamp::from_millis(5_000));
    upload(&ledger, &vault, 1, 1_000).await;
    assert_eq!(sweep_all(&ledger, &vault, young).await, [1, 0, 0]);
    assert_eq!(stored(&vault).await, [media_id(1)]);
    // It is known as long as it is on the list, so it is no orphan.
    assert_eq!(sweep_all(&ledger, &vault, LATER).await, [0, 0, 0]);
    ledger.advance_clock(keep);
    assert_eq!(sweep_all(&ledger, &vault, LATER).await, [0, 1, 0]);
    assert_eq!(stored(&vault).await, []);
    // A write of a process that was stopped takes effect.
    let writer = create(&vault, 1).await;
    writer.sync(SyncTarget::at(8)).await.unwrap();
    assert_eq!(sweep_all(&ledger, &vault, young).await, [0, 0, 0]);
    ledger.advance_clock(Duration::from_secs(60));
    assert_eq!(sweep_all(&ledger, &vault, young).await, [0, 1, 0]);
    assert_eq!(stored(&vault).await, []);
    ledger.advance_clock(keep);
    assert_eq!(sweep_all(&ledger, &vault, young).await, [0, 0, 0]);
}

#[tokio::test]
async fn undeletable_garbage_does_not_delay_other_garbage() {
    let (ledger, vault) = (MemoryLedger::new(), Immutable(MemoryVault::new()));
    for n in 0..20 {
        upload(&ledger, &vault, n, 1_000).await;
    }
    let [expired, garbage, _] = sweep_all(&ledger, &vault, LATER).await;
    assert_eq!((expired, garbage), (20, 20 - usize::from(IMMUTABLE)));
    let stuck: Vec<_> = (0..IMMUTABLE).map(media_id).collect();
    assert_eq!(garbage_of(&ledger).await, stuck);
    // The sweep starts again with the media that could not be deleted.
    let mut sweep = sweep();
    for _ in 0..2 {
        let mut failed = Vec::new();
        let mut is_done = false;
        while !is_done {
            let swept = sweep.step(&ledger, &vault, LATER).await.unwrap();
            failed.push(swept.failed);
            is_done = swept.is_done;
        }
        // Until the sweep has scanned the vault once.
        assert_eq!(failed.len(), 4);
        assert!(failed.iter().sum::<usize>() >= usize::from(IMMUTABLE));
    }
    let healed = sweep_all(&ledger, &vault.0, LATER).await;
    assert_eq!(healed, [0, usize::from(IMMUTABLE), 0]);
}

/// More than two steps handle.
const IMMUTABLE: u8 = 7;

/// A vault in which the first files cannot be deleted.
#[derive(Debug)]
struct Immutable(MemoryVault);

#[async_trait]
impl Vault for Immutable {
    async fn create(
        &self,
        id: MediaId,
        expected: ExpectedSize,
    ) -> Result<Box<dyn MediaWriter>, VaultError> {
        self.0.create(id, expected).await
    }

    async fn resume(&self, stored: &StoredMedia) -> Result<Box<dyn MediaWriter>, VaultError> {
        self.0.resume(stored).await
    }

    async fn seal(&self, stored: &StoredMedia) -> Result<Sealed, VaultError> {
        self.0.seal(stored).await
    }

    async fn read(
        &self,
        media: &StoredName,
        range: Range<u64>,
    ) -> Result<Box<dyn MediaReader>, VaultError> {
        self.0.read(media, range).await
    }

    async fn delete(&self, stored: &StoredName) -> Result<(), VaultError> {
        if stored.media < media_id(IMMUTABLE) {
            let cause = Arc::new(io::Error::from(io::ErrorKind::PermissionDenied));
            let id = Some(stored.media);
            return Err(VaultError::Unavailable { id, cause });
        }
        self.0.delete(stored).await
    }

    async fn list(&self, from: Option<ListPosition>, limit: usize) -> Result<Listing, VaultError> {
        self.0.list(from, limit).await
    }

    async fn space(&self) -> Result<Option<Space>, VaultError> {
        self.0.space().await
    }
}

/// Runs a sweep over stores with faults, then one over the same stores without. Asserts that
/// everything expired is deleted and everything else is there. Returns the number of calls of the
/// first one.
async fn sweep_after(faults: Faults) -> u64 {
    let case = format!("{faults:?}");
    let (ledger, vault) = (Arc::new(MemoryLedger::new()), MemoryVault::new());
    for n in 0..4 {
        upload(&*ledger, &vault, n, if n < 3 { 1_000 } else { 1_000_000 }).await;
        create(&vault, 100 + n).await;
    }
    let faults = Arc::new(faults);
    let faulty_ledger = FaultyLedger::new(ledger.clone(), Arc::clone(&faults));
    let faulty_vault = FaultyVault::new(Arc::new(vault.clone()), Arc::clone(&faults));
    let mut sweep = sweep();
    for _ in 0..5 {
        // The sweep is expected to fail. The state that it leaves is checked below.
        let _ = sweep.step(&faulty_ledger, &faulty_vault, LATER).await;
    }
    ledger.crash();
    vault.crash();
    sweep_all(&*ledger, &vault, LATER).await;
    assert_eq!(stored(&vault).await, [media_id(3)], "{case}");
    assert!(garbage_of(&*ledger).await.is_empty(), "{case}");
    assert!(ledger.session(session_id(3)).await.unwrap().is_some());
    faults.calls()
}

#[tokio::test]
async fn sweep_after_a_failure_anywhere_completes_the_work() {
    let calls = sweep_after(Faults::new(Trigger::Never, InjectedFault::Fault)).await;
    assert!(calls > 20, "{calls}");
    for nth in 1..=calls {
        for when in [Trigger::Once(nth), Trigger::From(nth)] {
            for trouble in [
                InjectedFault::Fault,
                InjectedFault::Lost,
                InjectedFault::Unavailable,
            ] {
                sweep_after(Faults::new(when, trouble)).await;
            }
        }
    }
}

#[tokio::test]
async fn sweep_after_a_power_cut_anywhere_completes_the_work() {
    let calls = sweep_after(Faults::new(Trigger::Never, InjectedFault::Fault)).await;
    for nth in 1..=calls {
        sweep_after(Faults::outage_before(nth)).await;
        sweep_after(Faults::outage_after(nth)).await;
    }
}

#[tokio::test]
async fn step_handles_no_more_than_its_ledger_batch() {
    let (ledger, vault) = (MemoryLedger::new(), MemoryVault::new());
    for n in 0..8 {
        upload(&ledger, &vault, n, 1_000).await;
    }
    let mut sweep = sweep();
    let mut expired = Vec::new();
    for ledger_batch in [2, 5, 2] {
        sweep.set_ledger_batch(ledger_batch);
        let swept = sweep.step(&ledger, &vault, LATER).await.unwrap();
        assert!(swept.garbage <= ledger_batch);
        expired.push(swept.expired);
    }
    assert_eq!(expired, [2, 5, 1]);
}

#[tokio::test]
async fn full_disk_deletes_garbage_before_expired_sessions() {
    let (ledger, vault) = (Arc::new(MemoryLedger::new()), MemoryVault::new());
    upload(&*ledger, &vault, 1, 1_000).await;
    upload(&*ledger, &vault, 2, 1_000_000).await;
    let held = ledger.lease(session_id(2)).await.unwrap().unwrap().lease;
    ledger
        .end(session_id(2), held, EndSession::Cancelled)
        .await
        .unwrap();
    let faults = Arc::new(Faults::new(Trigger::Once(1), InjectedFault::NoSpace));
    let full = FaultyLedger::new(ledger.clone(), Arc::clone(&faults));
    let swept = sweep().step(&full, &vault, LATER).await.unwrap();
    assert_eq!((swept.expired, swept.garbage), (1, 2));
    assert!(stored(&vault).await.is_empty());
    let calls = ["expire", "garbage", "deleted", "expire"];
    assert_eq!(faults.names()[..4], calls);
}
