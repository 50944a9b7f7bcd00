//! The ledger and the vault together, as an upload uses them.

use bytes::Bytes;
use windlass_digest::Crc32cHasher;
use windlass_store::{
    ExpectedSize, Extent, ExtentChanges, Lease, Ledger, Listing, MediaId, MediaLocation, MediaRef,
    NewSession, OffsetCommit, Progress, READ_LEN, SessionId, SessionState, StoredMedia, StoredName,
    Sweep, SweepOptions, SyncTarget, Timestamp, Vault, VaultError,
};
use windlass_store_local::LocalStore;

use crate::directory;

const SESSION: SessionId = SessionId::from_bytes([7; 32]);
const MEDIA: MediaId = MediaId::from_bytes([0xa7; 16]);

async fn start(store: &LocalStore) -> Lease {
    let new = NewSession {
        id: SESSION,
        context: Vec::new(),
        created: Timestamp::from_millis(0),
        expires: Timestamp::from_millis(1_000),
        total: None,
        owner: None,
        dialect: "google".to_owned(),
    };
    store.ledger.start(new).await.unwrap();
    store.ledger.lease(SESSION).await.unwrap().unwrap().lease
}

/// Commits that the bytes `from..to` of the media, which end in `last`, are durable.
async fn advance(store: &LocalStore, held: Lease, from: u64, to: u64, last: &[u8]) {
    let mut hasher = Crc32cHasher::default();
    hasher.update(last);
    let progress = Progress {
        offset: to,
        media: Some(MediaRef {
            id: MEDIA,
            location: MediaLocation::Vault,
        }),
        extent: Some(Extent {
            start: to - last.len() as u64,
            crc32c: hasher.value(),
        }),
        ..Progress::none(None)
    };
    let (state, expires) = (SessionState::Active, None);
    let advance = OffsetCommit {
        extents: ExtentChanges::default(),
        from,
        progress,
        small_media: None,
        state,
        expires,
        releases: true,
    };
    store
        .ledger
        .commit_offset(SESSION, held, advance)
        .await
        .unwrap();
}

#[tokio::test]
async fn an_upload_goes_on_after_a_restart_where_the_ledger_says() {
    let dir = directory::new();
    let store = directory::open(&dir);
    let held = start(&store).await;
    let writer = store
        .vault
        .create(MEDIA, ExpectedSize::default())
        .await
        .unwrap();
    writer
        .append(0, vec![Bytes::from_static(b"windlass")])
        .await
        .unwrap();
    writer.sync(SyncTarget::at(8)).await.unwrap();
    advance(&store, held, 0, 8, b"windlass").await;
    // These bytes reach the file but never the ledger.
    writer
        .append(8, vec![Bytes::from_static(b" and pawl")])
        .await
        .unwrap();
    writer.sync(SyncTarget::at(8)).await.unwrap();
    drop((writer, store));

    let store = directory::open(&dir);
    let leased = store.ledger.lease(SESSION).await.unwrap().unwrap();
    let Progress { offset, extent, .. } = leased.session.progress;
    assert_eq!(offset, 8);
    let writer = store
        .vault
        .resume(&StoredMedia {
            verify: extent,
            ..StoredMedia::new(MEDIA, offset)
        })
        .await
        .unwrap();
    assert!(
        store
            .vault
            .read(&StoredName::of(MEDIA), 0..9)
            .await
            .is_err(),
        "what was not committed is cut off"
    );
    writer
        .append(8, vec![Bytes::from_static(b"es")])
        .await
        .unwrap();
    writer.sync(SyncTarget::at(8)).await.unwrap();
    advance(&store, leased.lease, 8, 10, b"es").await;
    let mut reader = store
        .vault
        .read(&StoredName::of(MEDIA), 0..10)
        .await
        .unwrap();
    assert_eq!(reader.next(READ_LEN).await.unwrap(), "windlasses");
}

#[tokio::test]
async fn a_committed_byte_that_rots_is_found_at_the_reopening() {
    let dir = directory::new();
    let store = directory::open(&dir);
    let held = start(&store).await;
    let writer = store
        .vault
        .create(MEDIA, ExpectedSize::default())
        .await
        .unwrap();
    writer
        .append(0, vec![Bytes::from_static(b"windlass")])
        .await
        .unwrap();
    writer.sync(SyncTarget::at(8)).await.unwrap();
    advance(&store, held, 0, 8, b"windlass").await;
    let path = dir.path().join("vault/a7/a7").join(MEDIA.to_string());
    std::fs::write(path, b"windless").unwrap();
    let extent = store
        .ledger
        .session(SESSION)
        .await
        .unwrap()
        .unwrap()
        .progress
        .extent;
    let reopened = store
        .vault
        .resume(&StoredMedia {
            verify: extent,
            ..StoredMedia::new(MEDIA, 8)
        })
        .await
        .map(drop);
    assert!(
        matches!(reopened, Err(VaultError::Damaged { .. })),
        "{reopened:?}"
    );
}

#[tokio::test]
async fn a_sweep_leaves_no_media_without_a_row() {
    let dir = directory::new();
    let store = directory::open(&dir);
    let held = start(&store).await;
    store
        .vault
        .create(MEDIA, ExpectedSize::default())
        .await
        .unwrap();
    advance(&store, held, 0, 0, b"").await;
    store
        .vault
        .create(MediaId::from_bytes([1; 16]), ExpectedSize::default())
        .await
        .unwrap();

    let far = Timestamp::from_millis(4_000_000_000_000);
    let mut sweep = Sweep::new(SweepOptions::default());
    loop {
        let swept = sweep.step(&store.ledger, &store.vault, far).await.unwrap();
        if swept.is_done {
            break;
        }
    }
    let left = store.vault.list(None, 10).await.unwrap();
    assert_eq!(left, Listing::default());
    assert_eq!(store.ledger.session(SESSION).await.unwrap(), None);
    assert_eq!(store.ledger.garbage(None, 10).await.unwrap(), []);
}
