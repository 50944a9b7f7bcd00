//! Records to test with.

use bytes::Bytes;
use windlass_store::{
    ExpectedSize, ExtentChanges, Lease, Ledger, MediaId, MediaLocation, MediaRef, MediaWriter,
    NewSession, OffsetCommit, Progress, SessionId, SessionState, StoredName, Timestamp, Vault,
};

pub(crate) fn session_id(n: u8) -> SessionId {
    SessionId::from_bytes([n; 32])
}

/// The name of media `n` in a vault that names media by their ids.
pub(crate) fn name(n: u8) -> StoredName {
    StoredName::of(media_id(n))
}

pub(crate) fn media_id(n: u8) -> MediaId {
    MediaId::from_bytes([n; 16])
}

/// Returns a session that expires after `expires` milliseconds.
pub(crate) fn new_session(n: u8, expires: u64) -> NewSession {
    NewSession {
        id: session_id(n),
        context: Vec::new(),
        created: Timestamp::from_millis(0),
        expires: Timestamp::from_millis(expires),
        total: None,
        owner: None,
        dialect: "google".to_owned(),
    }
}

/// Returns a commit of a session with media `n` in the vault.
pub(crate) fn step(n: u8, from: u64, to: u64) -> OffsetCommit {
    let media = Some(MediaRef {
        id: media_id(n),
        location: MediaLocation::Vault,
    });
    OffsetCommit {
        from,
        progress: Progress {
            offset: to,
            media,
            ..Progress::none(None)
        },
        small_media: None,
        extents: ExtentChanges::default(),
        state: SessionState::Active,
        expires: None,
        releases: true,
    }
}

/// Starts and leases session `n`.
pub(crate) async fn start(ledger: &dyn Ledger, n: u8, expires: u64) -> Lease {
    ledger.start(new_session(n, expires)).await.unwrap();
    ledger.lease(session_id(n)).await.unwrap().unwrap().lease
}

/// Creates media `n` with some bytes, which are not synced.
pub(crate) async fn create(vault: &dyn Vault, n: u8) -> Box<dyn MediaWriter> {
    let created = vault.create(media_id(n), ExpectedSize::default()).await;
    let writer = created.unwrap();
    writer.append(0, data()).await.unwrap();
    writer
}

/// Eight bytes in two pieces.
pub(crate) fn data() -> Vec<Bytes> {
    vec![Bytes::from_static(b"wind"), Bytes::from_static(b"lass")]
}

/// Returns the ids of all media in the vault.
pub(crate) async fn stored(vault: &dyn Vault) -> Vec<MediaId> {
    let listed = vault.list(None, 1_000).await.unwrap();
    let stored = listed.stored.iter();
    stored.map(|stored| stored.name.media).collect()
}
