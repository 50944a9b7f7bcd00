//! A store with a session in every state, and ways to damage its files and rows.

use std::path::PathBuf;

use bytes::Bytes;
use rusqlite::Connection;
use tempfile::TempDir;
use windlass_digest::{Crc32c, Crc32cHasher, Digests, Md5Sha256Hasher, Wanted};
use windlass_store::{
    ChangeSet, EndSession, ExpectedSize, Extent, ExtentChanges, FinishSession, Lease, Ledger,
    Media, MediaId, MediaLocation, MediaRef, NewSession, OffsetCommit, Progress, Resource,
    ResourceChange, SessionId, SessionState, StoredName, SyncTarget, Timestamp, Vault,
};
use windlass_store_local::LocalStore;

use crate::directory;

pub(crate) const NOW: Timestamp = Timestamp::from_millis(4_000_000_000_000);

/// Number of the media in the vault, and of its session.
pub(crate) const BYTES: &[u8] = b"the pawl holds what the drum has wound";

pub(crate) const OPEN: u8 = 1;
pub(crate) const FINISHING: u8 = 2;
pub(crate) const FINISHED: u8 = 3;
pub(crate) const CANCELLED: u8 = 4;
pub(crate) const EMPTY: u8 = 5;
pub(crate) const SMALL: u8 = 6;
pub(crate) const SMALL_FINISHED: u8 = 7;

pub(crate) fn session(number: u8) -> SessionId {
    SessionId::from_bytes([number; 32])
}

pub(crate) fn media(number: u8) -> MediaId {
    MediaId::from_bytes([number; 16])
}

fn crc32c(bytes: &[u8]) -> Crc32c {
    let mut hasher = Crc32cHasher::default();
    hasher.update(bytes);
    hasher.value()
}

fn digests() -> Digests {
    let mut slow = Md5Sha256Hasher::new(Wanted {
        md5: true,
        sha256: true,
    });
    slow.update(BYTES);
    let (md5, sha256) = slow.finish();
    Digests {
        crc32c: crc32c(BYTES),
        md5,
        sha256,
    }
}

/// Creates a store with a session in every state, and media in the ledger and in the vault.
pub(crate) async fn store_with_everything() -> TempDir {
    let dir = directory::new();
    let store = directory::open(&dir);
    for number in [OPEN, FINISHING, FINISHED, CANCELLED] {
        upload(&store, number, MediaLocation::Vault).await;
    }
    for number in [SMALL, SMALL_FINISHED] {
        upload(&store, number, MediaLocation::Ledger).await;
    }
    start(&store, EMPTY).await;
    finish(&store, FINISHED, MediaLocation::Vault).await;
    finish(&store, SMALL_FINISHED, MediaLocation::Ledger).await;
    let held = lease(&store, CANCELLED).await;
    let end = EndSession::Cancelled;
    store
        .ledger
        .end(session(CANCELLED), held, end)
        .await
        .unwrap();
    store
        .vault
        .delete(&StoredName::of(media(CANCELLED)))
        .await
        .unwrap();
    let garbage = store.ledger.garbage(None, 10).await.unwrap();
    assert_eq!(garbage.len(), 1);
    let ids: Vec<_> = garbage.into_iter().map(|entry| entry.id).collect();
    store.ledger.deleted(&ids, None).await.unwrap();
    drop(store);
    // Bytes behind the committed offset mean nothing.
    let path = path(&dir, OPEN);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend(b"never committed");
    std::fs::write(path, bytes).unwrap();
    dir
}

async fn start(store: &LocalStore, number: u8) {
    let new = NewSession {
        id: session(number),
        context: Vec::new(),
        created: Timestamp::from_millis(0),
        expires: NOW,
        total: None,
        owner: None,
        dialect: "google".to_owned(),
    };
    store.ledger.start(new).await.unwrap();
}

pub(crate) async fn lease(store: &LocalStore, number: u8) -> Lease {
    store
        .ledger
        .lease(session(number))
        .await
        .unwrap()
        .unwrap()
        .lease
}

fn progress(number: u8, location: MediaLocation) -> Progress {
    let extent = Extent {
        start: 8,
        crc32c: crc32c(&BYTES[8..]),
    };
    Progress {
        offset: BYTES.len() as u64,
        crc32c: crc32c(BYTES),
        media: Some(MediaRef {
            id: media(number),
            location,
        }),
        extent: (location == MediaLocation::Vault).then_some(extent),
        ..Progress::none(Some(BYTES.len() as u64))
    }
}

pub(crate) async fn upload(store: &LocalStore, number: u8, location: MediaLocation) {
    start(store, number).await;
    let held = lease(store, number).await;
    let bytes = Bytes::from_static(BYTES);
    if location == MediaLocation::Vault {
        let writer = store
            .vault
            .create(media(number), ExpectedSize::default())
            .await
            .unwrap();
        writer.append(0, vec![bytes.clone()]).await.unwrap();
        writer.sync(SyncTarget::at(8)).await.unwrap();
    }
    let advance = OffsetCommit {
        extents: ExtentChanges::default(),
        from: 0,
        progress: progress(number, location),
        small_media: (location == MediaLocation::Ledger).then_some(bytes),
        state: match number {
            FINISHING => SessionState::Finishing,
            _ => SessionState::Active,
        },
        expires: None,
        releases: true,
    };
    store
        .ledger
        .commit_offset(session(number), held, advance)
        .await
        .unwrap();
}

/// Returns a resource without media.
pub(crate) fn resource(id: &str) -> Resource {
    Resource {
        collection: "farm/v1/animals".to_owned(),
        id: id.to_owned(),
        version: 1,
        body: Bytes::from_static(b"{}"),
        media: None,
        created: NOW,
        updated: NOW,
        owner: None,
        due: None,
        claimed_by: None,
    }
}

async fn finish(store: &LocalStore, number: u8, location: MediaLocation) {
    let resource = Resource {
        media: Some(Media {
            handle: Bytes::new(),
            at: MediaRef {
                id: media(number),
                location,
            },
            length: BYTES.len() as u64,
            content_type: "image/jpeg".to_owned(),
            digests: digests(),
        }),
        ..resource(&number.to_string())
    };
    let changes = ChangeSet {
        resources: vec![ResourceChange::Insert(resource)],
        small_media: None,
        new_media: None,
        finish: Some(FinishSession {
            handle: Bytes::new(),
            left: Vec::new(),
            id: session(number),
            lease: lease(store, number).await,
            progress: progress(number, location),
            reply: b"201".to_vec(),
        }),
        ..ChangeSet::default()
    };
    store.ledger.apply(changes).await.unwrap();
}

pub(crate) fn path(dir: &TempDir, number: u8) -> PathBuf {
    let name = media(number).to_string();
    dir.path()
        .join("vault")
        .join(&name[..2])
        .join(&name[2..4])
        .join(name)
}

pub(crate) fn sql(dir: &TempDir, sql: &str) {
    let connection = Connection::open(dir.path().join("ledger.sqlite")).unwrap();
    connection.execute_batch(sql).unwrap();
}

pub(crate) fn flip(dir: &TempDir, number: u8, at: usize) {
    let mut bytes = std::fs::read(path(dir, number)).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path(dir, number), bytes).unwrap();
}

/// Cancels a session as the server does, and deletes its media as the sweep does.
pub(crate) fn cancel(dir: &TempDir, number: u8) {
    sql(
        dir,
        &format!(
            "BEGIN IMMEDIATE;
             DELETE FROM media WHERE id = (SELECT media FROM sessions WHERE rowid = {number});
             UPDATE sessions SET state = 3, media = NULL, place = NULL WHERE rowid = {number};
             COMMIT;"
        ),
    );
    std::fs::remove_file(path(dir, number)).ok();
}
