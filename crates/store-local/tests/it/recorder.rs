//! What a store records of its work.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinSet;
use windlass_store::{
    ExpectedSize, Ledger as _, MediaId, NewSession, SessionId, SyncTarget, Timestamp, Vault as _,
};
use windlass_store_local::{Durability, LocalStore, Options, StoreRecorder};

use crate::directory;

/// Sums of what was recorded.
#[derive(Debug, Default, Clone, Copy)]
struct Sums {
    commits: u64,
    committing: Duration,
    changes: usize,
    queued: i64,
    wal: u64,
    media_syncs: u64,
}

#[derive(Debug, Default)]
struct Recorded(Mutex<Sums>);

impl Recorded {
    fn sums(&self) -> Sums {
        *self.0.lock().expect("no recording panics")
    }

    fn add(&self, add: impl FnOnce(&mut Sums)) {
        add(&mut self.0.lock().expect("no recording panics"));
    }
}

impl StoreRecorder for Recorded {
    fn committed(&self, took: Duration, changes: usize) {
        self.add(|sums| {
            sums.commits += 1;
            sums.committing += took;
            sums.changes += changes;
        });
    }

    fn call_queued(&self) {
        self.add(|sums| sums.queued += 1);
    }

    fn call_dequeued(&self) {
        self.add(|sums| sums.queued -= 1);
    }

    fn wal_measured(&self, bytes: u64) {
        self.add(|sums| sums.wal = bytes);
    }

    fn media_synced(&self, _took: Duration) {
        self.add(|sums| sums.media_syncs += 1);
    }
}

/// Opens a store with a recorder of its own.
fn open(dir: &tempfile::TempDir, durability: Durability) -> (LocalStore, Arc<Recorded>) {
    let recorded = Arc::<Recorded>::default();
    let options = Options::default()
        .allow_unsafe_filesystem(true)
        .durability(durability)
        .recorder(Arc::clone(&recorded) as Arc<_>);
    let store = LocalStore::open(dir.path(), options).expect("the store opens");
    (store, recorded)
}

fn session(n: u8) -> NewSession {
    NewSession {
        id: SessionId::from_bytes([n; 32]),
        context: Vec::new(),
        created: Timestamp::from_millis(0),
        expires: Timestamp::from_millis(1000),
        total: None,
        owner: None,
        dialect: "google".to_owned(),
    }
}

#[tokio::test]
async fn commits_and_their_accepted_changes_are_recorded() {
    let dir = directory::new();
    let (store, recorded) = open(&dir, Durability::Disk);
    assert_eq!(recorded.sums().commits, 0);
    for n in 0..3 {
        store.ledger.start(session(n)).await.unwrap();
    }
    store.ledger.lease(session(1).id).await.unwrap();
    let taken = store.ledger.start(session(1)).await;
    taken.expect_err("there is such a session");

    let sums = recorded.sums();
    assert_eq!((sums.commits, sums.changes), (3, 3));
    assert_eq!(sums.commits, store.ledger.commits());
    assert!(sums.committing > Duration::ZERO);
    assert_eq!(sums.queued, 0);
    let wal = dir.path().join("ledger.sqlite-wal").metadata().unwrap();
    assert!(sums.wal > 0 && sums.wal <= wal.len(), "{sums:?}");
}

#[tokio::test]
async fn parallel_changes_of_one_commit_are_recorded_together() {
    let dir = directory::new();
    let (store, recorded) = open(&dir, Durability::Disk);
    let ledger = Arc::new(store.ledger);
    let mut starts = JoinSet::new();
    for n in 0..100 {
        let ledger = Arc::clone(&ledger);
        starts.spawn(async move { ledger.start(session(n)).await });
    }
    for started in starts.join_all().await {
        started.unwrap();
    }
    let sums = recorded.sums();
    assert_eq!((sums.changes, sums.commits), (100, ledger.commits()));
    assert!(sums.commits < 100);
}

#[tokio::test]
async fn syncs_of_media_are_recorded_unless_nothing_is_synced() {
    for (durability, syncs) in [(Durability::Disk, 2), (Durability::Os, 0)] {
        let dir = directory::new();
        let (store, recorded) = open(&dir, durability);
        let id = MediaId::from_bytes([1; 16]);
        let writer = store
            .vault
            .create(id, ExpectedSize::default())
            .await
            .unwrap();
        let data = vec![Bytes::from_static(b"windlass")];
        writer
            .append_and_sync(0, data, SyncTarget::at(8))
            .await
            .unwrap();
        assert_eq!(store.vault.syncs(), syncs);
        assert_eq!(recorded.sums().media_syncs, syncs);
    }
}
