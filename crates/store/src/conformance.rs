//! The rules of the two contracts, as checks for every implementation.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! use windlass_store::conformance;
//! use windlass_store::memory::{MemoryLedger, MemoryVault};
//!
//! conformance::ledger(&MemoryLedger::new()).await;
//! conformance::vault(&MemoryVault::new()).await;
//! # });
//! ```
//!
//! A check panics if the implementation breaks its rule. The name of the check states the rule; it
//! is in the backtrace. The checks share one store, which must be empty at the beginning. Each
//! check uses separate ids. [`ledger_restart`] and [`vault_restart`] check durability across a
//! restart.

#![expect(clippy::unwrap_used, reason = "a check panics if its rule is broken")]

mod ledger;
mod processes;
mod vault;

use bytes::Bytes;
use windlass_digest::{Crc32c, Digests, Md5, Sha256};

use crate::change_set::{ChangeSet, FinishSession, ResourceChange};
use crate::ledger::OffsetCommit;
use crate::records::{
    Extent, ExtentChanges, Lease, Media, MediaId, MediaLocation, MediaRef, NewSession, Progress,
    Resource, SessionId, SessionState, Timestamp,
};

pub use ledger::{RETENTION, ledger, ledger_restart, ledger_with_retention};
pub use processes::ledger_of_processes;
pub use vault::{vault, vault_restart};

/// A time after all times that the checks use.
const FAR: Timestamp = Timestamp::from_millis(4_000_000_000_000);

/// The ids that one check uses. They have a common prefix and differ from the ids of all further
/// checks.
#[derive(Debug, Clone, Copy)]
struct Names(&'static str);

impl Names {
    const fn of(check: &'static str) -> Self {
        Self(check)
    }

    /// Returns the id of the `n`th session. Ids are in the order of `n`.
    fn session(self, n: u8) -> SessionId {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&self.hash());
        id[31] = n;
        SessionId::from_bytes(id)
    }

    /// Returns the id of the `n`th media. Ids are in the order of `n`.
    fn media(self, n: u8) -> MediaId {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.hash());
        id[15] = n;
        MediaId::from_bytes(id)
    }

    /// Returns the `n`th media, in the ledger.
    fn small(self, n: u8) -> MediaRef {
        MediaRef {
            id: self.media(n),
            location: MediaLocation::Ledger,
        }
    }

    /// Returns the `n`th media, in the vault.
    fn large(self, n: u8) -> MediaRef {
        MediaRef {
            id: self.media(n),
            location: MediaLocation::Vault,
        }
    }

    /// Returns the collection of the check.
    fn collection(self) -> String {
        self.0.to_owned()
    }

    /// Returns a session to be started that does not expire.
    fn new_session(self, n: u8) -> NewSession {
        NewSession {
            id: self.session(n),
            context: self.0.as_bytes().to_vec(),
            created: Timestamp::from_millis(1_000),
            expires: FAR,
            total: Some(1_000_000),
            owner: Some(format!("owner {n}")),
            dialect: format!("dialect {n}"),
        }
    }

    /// Returns version 1 of a resource, with or without media.
    fn resource(self, id: &str, media: Option<MediaRef>) -> Resource {
        Resource {
            collection: self.collection(),
            id: id.to_owned(),
            version: 1,
            body: Bytes::from(format!(r#"{{"id":"{id}"}}"#)),
            media: media.map(|at| Media {
                at,
                handle: Bytes::new(),
                length: 42,
                content_type: "image/jpeg".to_owned(),
                digests: Digests {
                    crc32c: Crc32c(u32::MAX),
                    md5: Some(Md5([7; 16])),
                    sha256: Some(Sha256([9; 32])),
                },
            }),
            created: Timestamp::from_millis(2_000),
            updated: Timestamp::from_millis(3_000),
            due: None,
            claimed_by: None,
            owner: Some(format!("owner of {id}")),
        }
    }

    /// Hashes the name of the check to eight bytes (FNV-1a).
    fn hash(self) -> [u8; 8] {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        self.0
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, step)
            .to_be_bytes()
    }
}

/// Returns the next version of a resource.
fn next_version(resource: &Resource) -> Resource {
    Resource {
        version: resource.version + 1,
        ..resource.clone()
    }
}

/// Returns the progress of a session at `offset`.
fn progress(offset: u64, media: Option<MediaRef>) -> Progress {
    let in_vault = media.is_some_and(|media| media.location == MediaLocation::Vault);
    Progress {
        offset,
        total: Some(1_000_000),
        crc32c: Crc32c(0xdead_beef),
        slow_digests: vec![1, 2, 3],
        media,
        extent: in_vault.then_some(Extent {
            start: 0,
            crc32c: Crc32c(0xffff_0000),
        }),
        expected_digests: Vec::new(),
    }
}

/// Returns a commit of an active session. Its media is in the vault, or does not exist yet.
fn step(from: u64, to: u64, media: Option<MediaRef>) -> OffsetCommit {
    OffsetCommit {
        from,
        progress: progress(to, media),
        small_media: None,
        extents: ExtentChanges::default(),
        state: SessionState::Active,
        expires: None,
        releases: true,
    }
}

/// Returns a commit of an active session. Its media is in the ledger.
fn small_step(from: u64, media: MediaRef, bytes: &'static [u8]) -> OffsetCommit {
    let small_media = Some(Bytes::from_static(bytes));
    OffsetCommit {
        small_media,
        ..step(from, bytes.len() as u64, Some(media))
    }
}

/// Returns the end of a session with this media.
fn finish(id: SessionId, lease: Lease, media: Option<MediaRef>) -> FinishSession {
    FinishSession {
        id,
        lease,
        progress: progress(100, media),
        reply: b"200".to_vec(),
        handle: Bytes::new(),
        left: Vec::new(),
    }
}

/// Returns a change set with one change of a resource.
fn one(change: ResourceChange) -> ChangeSet {
    ChangeSet {
        resources: vec![change],
        ..ChangeSet::default()
    }
}

/// Returns a change set that inserts one resource with new media in the vault.
fn insert_with_new(resource: Resource) -> ChangeSet {
    let media = resource.media.as_ref().map(Media::name);
    ChangeSet {
        new_media: media,
        ..one(ResourceChange::Insert(resource))
    }
}
