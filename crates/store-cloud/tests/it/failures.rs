//! A store that refuses writes for a while.

use std::num::NonZeroU64;
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use windlass_store::{
    ExpectedSize, MediaId, MediaWriter, READ_LEN, Sealed, StoredMedia, StoredName, SyncTarget,
    Vault, VaultError,
};
use windlass_store_cloud::CloudVault;

use crate::flaky::Flaky;

const CELL: u64 = 10;

fn flaky() -> (Arc<Flaky>, CloudVault) {
    let store = Arc::new(Flaky::default());
    let vault = CloudVault::new(Arc::clone(&store) as _, Path::from("media"));
    (store, vault.with_cell(NonZeroU64::new(CELL).unwrap()))
}

fn bytes(len: u8) -> Vec<u8> {
    (0..len).collect()
}

async fn append(writer: &dyn MediaWriter, at: u64, bytes: &[u8]) -> Result<(), VaultError> {
    writer.append(at, vec![Bytes::copy_from_slice(bytes)]).await
}

#[track_caller]
fn unavailable<T>(result: Result<T, VaultError>) {
    match result.map(drop) {
        Err(VaultError::Unavailable { .. }) => {}
        other => panic!("the store has refused it: {other:?}"),
    }
}

/// Seals media and returns its bytes.
async fn sealed(vault: &CloudVault, mut stored: StoredMedia) -> Vec<u8> {
    let handle = loop {
        match vault.seal(&stored).await.unwrap() {
            Sealed::Media { handle, .. } => break handle,
            Sealed::Composed(changes) => stored.change(&changes),
        }
    };
    let media = stored.id;
    let name = StoredName { media, handle };
    let mut reader = vault.read(&name, 0..stored.length).await.unwrap();
    let mut read = Vec::new();
    loop {
        let next = reader.next(READ_LEN).await.unwrap();
        if next.is_empty() {
            return read;
        }
        read.extend_from_slice(&next);
    }
}

#[tokio::test]
async fn refused_cells_and_pieces_are_written_again() {
    let all = bytes(95);
    // A cell is written twice by itself, so more than that are refused.
    for refusals in [1, 2, 3, 5, 8, 30] {
        let (store, vault) = flaky();
        let id = MediaId::from_bytes([1; 16]);
        let writer = vault.create(id, ExpectedSize::default()).await.unwrap();
        store.refuse(refusals);
        let mut at = 0;
        for piece in all.chunks(7) {
            while append(&*writer, at, piece).await.is_err() {}
            at += piece.len() as u64;
        }
        let mut stored = StoredMedia::new(id, at);
        while writer.sync(SyncTarget::end(at)).await.is_err() {}
        stored.change(&writer.take_changes());
        assert_eq!(
            stored.extents.len(),
            10,
            "{refusals}: nine cells and a piece"
        );
        assert_eq!(store.written().0, 10, "{refusals}");
        assert!(sealed(&vault, stored).await == all, "{refusals}");
    }
}

#[tokio::test]
async fn refused_sync_leaves_what_was_durable() {
    let (store, vault) = flaky();
    let id = MediaId::from_bytes([1; 16]);
    let writer = vault.create(id, ExpectedSize::default()).await.unwrap();
    append(&*writer, 0, b"wind").await.unwrap();
    writer.sync(SyncTarget::at(4)).await.unwrap();
    let mut stored = StoredMedia::new(id, 4);
    stored.change(&writer.take_changes());
    append(&*writer, 4, b"lass").await.unwrap();
    store.refuse(1);
    unavailable(writer.sync(SyncTarget::at(8)).await);
    assert!(writer.take_changes().is_empty());
    assert_eq!(sealed(&vault, stored.clone()).await, b"wind");
    writer.sync(SyncTarget::at(8)).await.unwrap();
    stored.length = 8;
    stored.change(&writer.take_changes());
    assert_eq!(sealed(&vault, stored).await, b"windlass");
}

#[tokio::test]
async fn refused_part_leaves_no_object_and_sealing_begins_again() {
    let (store, vault) = flaky();
    let (id, all) = (MediaId::from_bytes([1; 16]), bytes(95));
    let writer = vault.create(id, ExpectedSize::default()).await.unwrap();
    append(&*writer, 0, &all).await.unwrap();
    writer.sync(SyncTarget::end(95)).await.unwrap();
    let mut stored = StoredMedia::new(id, 95);
    stored.change(&writer.take_changes());
    store.refuse(1);
    unavailable(vault.seal(&stored).await);
    let listed = vault.list(None, 1_000).await.unwrap().stored;
    assert_eq!(listed.len(), stored.extents.len());
    assert!(sealed(&vault, stored).await == all);
}

#[tokio::test]
async fn objects_of_others_are_neither_listed_nor_counted() {
    use object_store::ObjectStoreExt;
    let (store, vault) = flaky();
    for path in ["media/notes.txt", "media/00/11", "elsewhere/x"] {
        let path = Path::from(path);
        store.put(&path, "foreign".into()).await.unwrap();
    }
    let writer = vault
        .create(MediaId::from_bytes([1; 16]), ExpectedSize::default())
        .await
        .unwrap();
    append(&*writer, 0, b"wind").await.unwrap();
    writer.sync(SyncTarget::at(4)).await.unwrap();
    let mut listed = Vec::new();
    let mut from = None;
    loop {
        let listing = vault.list(from, 1).await.unwrap();
        listed.extend(listing.stored);
        from = listing.next;
        if from.is_none() {
            break;
        }
    }
    let media: Vec<_> = listed.iter().map(|listed| listed.name.media).collect();
    assert_eq!(media, [MediaId::from_bytes([1; 16])]);
}
