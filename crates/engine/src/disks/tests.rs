use std::sync::Arc;

use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_store::{
    ChangeSet, EndSession, FinishSession, Lease, NewSession, Progress, Resource, ResourceChange,
    SessionId, Timestamp,
};

use super::*;

pub(super) const MB: u64 = 1 << 20;

const LIMITS: FreeSpace = FreeSpace {
    soft: 256 * MB,
    hard: 64 * MB,
};

/// Two disks with the given free space.
pub(super) fn disks(ledger: u64, vault: u64, is_shared: bool) -> Disks {
    let disks = Disks::new(LIMITS);
    disks.ledger.ceiling.store(ledger, Ordering::Relaxed);
    disks.vault.ceiling.store(vault, Ordering::Relaxed);
    disks.is_shared.store(is_shared, Ordering::Relaxed);
    disks
}

fn is_admitted(available: u64, purpose: Purpose) -> bool {
    disks(available, available, true)
        .reserve(purpose, 1)
        .is_some()
}

#[test]
fn the_fuller_of_two_disks_counts() {
    let cases = [
        (300 * MB, 300 * MB, DiskSpace::Plenty),
        (300 * MB, 100 * MB, DiskSpace::Low),
        (100 * MB, 300 * MB, DiskSpace::Low),
        (300 * MB, 10 * MB, DiskSpace::Full),
        (10 * MB, 300 * MB, DiskSpace::Full),
    ];
    for (ledger, vault, space) in cases {
        assert_eq!(
            disks(ledger, vault, false).space(),
            space,
            "{ledger} {vault}"
        );
    }
}

#[test]
fn who_asks_is_told_which_disk_is_short() {
    let told = |ledger, vault| disks(ledger, vault, false).shortage();
    assert_eq!(told(300 * MB, 300 * MB), None);
    let vault = told(300 * MB, 100 * MB).unwrap();
    assert!(
        vault.contains("vault's disk has 100 MB free") && vault.contains("soft"),
        "{vault}"
    );
    let both = disks(10 * MB, 10 * MB, true).shortage().unwrap();
    assert!(both.starts_with("the disk has 10 MB free"), "{both}");
    let ledger = told(10 * MB, 300 * MB).unwrap();
    assert!(
        ledger.contains("ledger's disk has 10 MB free") && ledger.contains("hard"),
        "{ledger}"
    );
}

#[test]
fn the_less_room_there_is_the_fewer_needs_are_met() {
    let needs = [
        Purpose::Start,
        Purpose::Change,
        Purpose::Finish,
        Purpose::Always,
    ];
    let cases = [
        (257 * MB, 4),
        (255 * MB, 3),
        (63 * MB, 2),
        (33 * MB, 2),
        (0, 2),
    ];
    for (available, met) in cases {
        let found = needs.map(|purpose| is_admitted(available, purpose));
        let expected = [met > 3, met > 2, met > 1, met > 0];
        assert_eq!(found, expected, "with {available} bytes");
    }
}

#[test]
fn of_the_last_room_finishes_get_a_part_until_there_is_more() {
    let disks = disks(20 * MB, 20 * MB, true);
    let finishes = || (0..1000).filter(|_| disks.reserve(Purpose::Finish, MB).is_some());
    assert_eq!(finishes().count(), 16, "a quarter of the hard limit");
    assert!(disks.reserve(Purpose::Always, MB).is_some());
    disks.late_finishes.store(0, Ordering::Relaxed);
    assert_eq!(finishes().count(), 16);
}

#[test]
fn what_is_written_counts_on_its_own_disk_only() {
    for is_shared in [false, true] {
        let disks = Arc::new(disks(300 * MB, 300 * MB, is_shared));
        let media = MediaSpace::new(Arc::clone(&disks), None);
        drop(media.count_write(10 * MB));
        let other = if is_shared { 290 } else { 300 };
        assert_eq!(disks.vault.available(), 290 * MB);
        assert_eq!(disks.ledger.available(), other * MB);
        drop(disks.reserve(Purpose::Change, 10 * MB));
        assert_eq!(disks.ledger.available(), (other - 10) * MB);
        assert_eq!(
            disks.vault.available(),
            if is_shared { 280 } else { 290 } * MB
        );
    }
}

#[test]
fn what_is_refused_takes_no_room() {
    let disks = disks(70 * MB, 70 * MB, true);
    for _ in 0..1000 {
        assert!(disks.reserve(Purpose::Change, 7 * MB).is_none());
    }
    assert_eq!(disks.ledger.available(), 70 * MB);
}

#[tokio::test]
async fn a_look_replaces_what_was_written_before_it_and_nothing_else() {
    let (ledger, vault) = (MemoryLedger::new(), MemoryVault::new());
    let disks = disks(300 * MB, 300 * MB, true);
    let under_way = disks.reserve(Purpose::Change, MB).unwrap();
    drop(disks.reserve(Purpose::Change, 2 * MB));
    assert_eq!(disks.ledger.available(), 297 * MB);
    let free = ledger.space().await.unwrap().unwrap().available;
    disks.refresh(&ledger, &vault).await;
    assert_eq!(
        disks.ledger.available(),
        free - MB,
        "it may not be written yet"
    );
    drop(under_way);
    assert_eq!(disks.ledger.available(), free - MB);
    disks.refresh(&ledger, &vault).await;
    assert_eq!(disks.ledger.available(), free);
}

#[tokio::test]
async fn media_counts_until_a_look_after_its_write() {
    let (ledger, vault) = (MemoryLedger::new(), MemoryVault::new());
    let disks = Arc::new(disks(300 * MB, 300 * MB, true));
    let media = MediaSpace::new(Arc::clone(&disks), None);
    let under_way = media.admit_write(1 << 20).unwrap();
    let free = vault.space().await.unwrap().unwrap().available;
    disks.refresh(&ledger, &vault).await;
    assert_eq!(
        disks.vault.available(),
        free - MB,
        "it may not be written yet"
    );
    drop(under_way);
    assert_eq!(disks.vault.available(), free - MB);
    disks.refresh(&ledger, &vault).await;
    assert_eq!(disks.vault.available(), free);
}

/// A vault without a disk, such as an object store.
#[tokio::test]
async fn store_that_does_not_know_its_space_admits_everything_and_shares_no_disk() {
    let (ledger, vault) = (MemoryLedger::new(), MemoryVault::new());
    vault.hide_space();
    let disks = Arc::new(disks(300 * MB, 10 * MB, true));
    let free = ledger.space().await.unwrap().unwrap().available;
    disks.refresh(&ledger, &vault).await;
    let media = MediaSpace::new(Arc::clone(&disks), None);
    drop(media.admit_write(1 << 40).unwrap());
    assert_eq!(
        disks.ledger.available(),
        free,
        "media is not on the ledger's disk"
    );
    assert_eq!(disks.space(), DiskSpace::Plenty);
    let measured: Vec<_> = disks.free().map(|(store, _)| store).collect();
    assert_eq!(measured, ["ledger"]);
}

struct Checked {
    ledger: CheckedLedger,
    disks: Arc<Disks>,
}

impl Checked {
    fn new() -> Self {
        let disks = Arc::new(disks(300 * MB, 300 * MB, true));
        let ledger = CheckedLedger::new(Arc::new(MemoryLedger::new()), Arc::clone(&disks));
        Self { ledger, disks }
    }

    fn has_free(&self, bytes: u64) {
        self.disks.ledger.admitted.store(0, Ordering::Relaxed);
        self.disks.ledger.ceiling.store(bytes, Ordering::Relaxed);
    }

    async fn start(&self, n: u8) -> Result<Lease, LedgerError> {
        let id = SessionId::from_bytes([n; 32]);
        let session = NewSession {
            id,
            context: Vec::new(),
            created: Timestamp::from_millis(0),
            expires: Timestamp::from_millis(1000),
            total: None,
            owner: None,
            dialect: "google".to_owned(),
        };
        self.ledger.start(session).await
    }

    async fn apply(&self, resources: Vec<ResourceChange>) -> Result<(), LedgerError> {
        let changes = ChangeSet {
            resources,
            ..ChangeSet::default()
        };
        self.ledger.apply(changes).await
    }
}

fn resource(id: &str, version: u64, len: usize) -> Resource {
    Resource {
        collection: "c".to_owned(),
        id: id.to_owned(),
        version,
        body: vec![0; len].into(),
        media: None,
        created: Timestamp::from_millis(0),
        updated: Timestamp::from_millis(0),
        due: None,
        claimed_by: None,
        owner: None,
    }
}

fn insert(id: &str, len: usize) -> ResourceChange {
    ResourceChange::Insert(resource(id, 1, len))
}

fn delete(id: &str) -> ResourceChange {
    ResourceChange::Delete {
        collection: "c".to_owned(),
        id: id.to_owned(),
        expected: 1,
    }
}

#[track_caller]
fn has_no_room<T: std::fmt::Debug>(done: &Result<T, LedgerError>) {
    assert!(matches!(done, Err(LedgerError::NoSpace)), "{done:?}");
}

#[tokio::test]
async fn on_a_full_disk_the_ledger_takes_ends_and_deletes_only() {
    let checked = Checked::new();
    checked
        .apply(vec![insert("a", 10), insert("b", 10)])
        .await
        .unwrap();
    let held = checked.start(1).await.unwrap();

    checked.has_free(100 * MB);
    has_no_room(&checked.start(2).await);
    checked.apply(vec![insert("c", 10)]).await.unwrap();

    checked.has_free(0);
    has_no_room(&checked.apply(vec![insert("d", 10)]).await);
    let replace = ResourceChange::Replace {
        resource: resource("a", 2, 10),
        expected: 1,
    };
    has_no_room(&checked.apply(vec![replace]).await);
    checked.apply(vec![delete("a")]).await.unwrap();
    checked
        .apply(vec![delete("b"), insert("e", 10)])
        .await
        .unwrap();
    let id = SessionId::from_bytes([1; 32]);
    let finish = FinishSession {
        handle: Bytes::new(),
        left: Vec::new(),
        id,
        lease: held,
        progress: Progress::none(None),
        reply: Vec::new(),
    };
    let finish = ChangeSet {
        finish: Some(finish),
        resources: vec![insert("f", 10)],
        ..ChangeSet::default()
    };
    checked.ledger.apply(finish).await.unwrap();

    checked.has_free(300 * MB);
    let held = checked.start(3).await.unwrap();
    checked.has_free(0);
    let id = SessionId::from_bytes([3; 32]);
    checked
        .ledger
        .end(id, held, EndSession::Cancelled)
        .await
        .unwrap();
    let all = Timestamp::from_millis(2000);
    assert_eq!(checked.ledger.expire(all, 10).await.unwrap(), 2);
}

#[tokio::test]
async fn changes_between_two_looks_are_counted() {
    let checked = Checked::new();
    checked.has_free(65 * MB);
    let mut made = 0;
    for id in 0..20 {
        let done = checked.apply(vec![insert(&id.to_string(), 100 << 10)]);
        made += usize::from(done.await.is_ok());
    }
    assert!(
        (1..6).contains(&made),
        "{made} of 200 KB each fit into 1 MB"
    );
}
