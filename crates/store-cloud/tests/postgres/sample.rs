//! Records for tests.

use bytes::Bytes;
use windlass_digest::{Crc32c, Digests};
use windlass_store::{
    ChangeSet, ExtentChanges, FinishSession, Lease, Ledger, Media, MediaId, MediaLocation,
    MediaRef, NewSession, OffsetCommit, Progress, Resource, ResourceChange, SessionId,
    SessionState, StoredName, Timestamp,
};

pub(crate) fn session(n: u8) -> NewSession {
    NewSession {
        id: SessionId::from_bytes([n; 32]),
        context: vec![0; 24],
        created: Timestamp::from_millis(1_000),
        expires: Timestamp::from_millis(4_000_000_000_000),
        total: None,
        owner: Some("owner".to_owned()),
        dialect: "google".to_owned(),
    }
}

/// Starts a session and returns its first lease.
pub(crate) async fn start(ledger: &dyn Ledger, n: u8) -> (SessionId, Lease) {
    let new = session(n);
    let id = new.id;
    (id, ledger.start(new).await.unwrap())
}

/// A commit of the bytes `from..to`, the last ones of a request.
pub(crate) fn commit(from: u64, to: u64) -> OffsetCommit {
    OffsetCommit {
        from,
        progress: Progress {
            offset: to,
            ..Progress::none(None)
        },
        small_media: None,
        extents: ExtentChanges::default(),
        state: SessionState::Active,
        expires: None,
        releases: true,
    }
}

pub(crate) fn finish(id: SessionId, lease: Lease) -> ChangeSet {
    ChangeSet {
        finish: Some(FinishSession {
            id,
            lease,
            progress: Progress {
                offset: 10,
                ..Progress::none(None)
            },
            reply: Vec::new(),
            handle: Bytes::new(),
            left: Vec::new(),
        }),
        ..ChangeSet::default()
    }
}

pub(crate) fn media(n: u8) -> MediaRef {
    MediaRef {
        id: MediaId::from_bytes([n; 16]),
        location: MediaLocation::Vault,
    }
}

/// Version 1 of a resource.
pub(crate) fn resource(collection: &str, id: &str, media: Option<MediaRef>) -> Resource {
    Resource {
        collection: collection.to_owned(),
        id: id.to_owned(),
        version: 1,
        body: Bytes::from_static(b"{}"),
        media: media.map(|at| Media {
            at,
            handle: Bytes::new(),
            length: 42,
            content_type: "image/jpeg".to_owned(),
            digests: Digests {
                crc32c: Crc32c(7),
                md5: None,
                sha256: None,
            },
        }),
        created: Timestamp::from_millis(2_000),
        updated: Timestamp::from_millis(3_000),
        due: None,
        claimed_by: None,
        owner: None,
    }
}

/// A change set that inserts resources, of which the first brings its media.
pub(crate) fn insert(resources: Vec<Resource>) -> ChangeSet {
    let media = resources.first().and_then(|it| it.media.as_ref());
    ChangeSet {
        new_media: media.map(|media| StoredName::of(media.at.id)),
        resources: resources.into_iter().map(ResourceChange::Insert).collect(),
        ..ChangeSet::default()
    }
}

pub(crate) fn delete(collection: &str, id: &str) -> ChangeSet {
    ChangeSet {
        resources: vec![ResourceChange::Delete {
            collection: collection.to_owned(),
            id: id.to_owned(),
            expected: 1,
        }],
        ..ChangeSet::default()
    }
}
