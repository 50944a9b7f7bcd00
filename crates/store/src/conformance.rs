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

// Further checks of a vault are below.
mod concat;
mod ledger;
mod processes;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use windlass_digest::{Crc32c, Crc32cHasher, Digests, Md5, Sha256};

use crate::change_set::{ChangeSet, FinishSession, ResourceChange};
use crate::ledger::OffsetCommit;
use crate::records::{
    Extent, Lease, Media, MediaId, MediaLocation, MediaRef, NewSession, Progress, Resource,
    SessionId, SessionState, Timestamp,
};
use crate::vault::{MediaReader, MediaWriter, READ_LEN, StoredMedia, Vault, VaultError};

pub use ledger::{RETENTION, ledger, ledger_restart, ledger_with_retention};
pub use processes::ledger_of_processes;

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
    }
}

/// Returns a commit of an active session. Its media is in the vault, or does not exist yet.
fn step(from: u64, to: u64, media: Option<MediaRef>) -> OffsetCommit {
    OffsetCommit {
        from,
        progress: progress(to, media),
        small_media: None,
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
    let media = resource.media.as_ref().map(|media| media.at.id);
    ChangeSet {
        new_media: media,
        ..one(ResourceChange::Insert(resource))
    }
}

fn crc32c(data: &[u8]) -> Crc32c {
    let mut hasher = Crc32cHasher::default();
    hasher.update(data);
    hasher.value()
}

/// Checks an empty vault against every rule of the contract.
///
/// # Panics
/// If it breaks a rule.
pub async fn vault(vault: &dyn Vault) {
    an_empty_vault_lists_nothing(vault).await;
    media_is_read_as_it_was_written(vault).await;
    a_write_may_have_very_many_pieces(vault).await;
    a_write_and_its_sync_may_be_one_call(vault).await;
    taken_id_is_refused(vault).await;
    a_range_is_read_exactly(vault).await;
    bytes_that_are_not_there_are_not_read(vault).await;
    a_reader_outlives_its_media(vault).await;
    deleting_twice_is_a_success(vault).await;
    reopening_cuts_off_what_is_not_committed(vault).await;
    reopening_checks_the_last_extent(vault).await;
    reopening_finds_missing_bytes(vault).await;
    reopening_ends_the_writers_before(vault).await;
    concat::all(vault).await;
    each_media_is_listed_once(vault).await;
    available_space_is_at_most_the_total(vault).await;
}

/// Checks that a vault keeps synced bytes across a restart.
///
/// `open` must open the same vault each time. The earlier one has been dropped then. It may
/// simulate a crash in between.
///
/// # Panics
/// If the vault has lost bytes.
pub async fn vault_restart(open: impl AsyncFn() -> Arc<dyn Vault>) {
    let names = Names::of("vault_restart");
    let vault = open().await;
    let writer = create(&*vault, names.media(0), b"windlass").await;
    write(&*writer, 8, &[b"not synced"]).await;
    vault.create(names.media(1)).await.unwrap();
    concat::before_a_restart(&*vault, names.media(0), names.media(2)).await;
    drop(writer);
    drop(vault);

    let vault = open().await;
    assert_eq!(read(&*vault, names.media(2), 0..12).await, b"windlasswind");
    let extent = Extent {
        start: 4,
        crc32c: crc32c(b"lass"),
    };
    let writer = vault.reopen(names.media(0), 8, Some(extent)).await.unwrap();
    assert_eq!(read(&*vault, names.media(0), 0..8).await, b"windlass");
    write(&*writer, 8, &[b"es"]).await;
    writer.sync().await.unwrap();
    drop(writer);
    drop(vault);

    let vault = open().await;
    vault.reopen(names.media(0), 10, None).await.unwrap();
    assert_eq!(read(&*vault, names.media(0), 0..10).await, b"windlasses");
    vault.reopen(names.media(1), 0, None).await.unwrap();
}

async fn an_empty_vault_lists_nothing(vault: &dyn Vault) {
    assert_eq!(listed(vault).await, []);
}

async fn media_is_read_as_it_was_written(vault: &dyn Vault) {
    let id = Names::of("media_is_read_as_it_was_written").media(0);
    let writer = vault.create(id).await.unwrap();
    assert_eq!(read(vault, id, 0..0).await, b"");
    write(&*writer, 0, &[b"wind", b"", b"lass"]).await;
    assert_eq!(
        read(vault, id, 0..8).await,
        b"windlass",
        "also before it is durable"
    );
    writer.sync().await.unwrap();
    write(&*writer, 8, &[]).await;
    write(&*writer, 8, &[b"es"]).await;
    write(&*writer, 4, &[b"mill"]).await;
    writer.sync().await.unwrap();
    writer.sync().await.unwrap();
    assert_eq!(read(vault, id, 0..10).await, b"windmilles");
}

async fn a_write_may_have_very_many_pieces(vault: &dyn Vault) {
    let id = Names::of("a_write_may_have_very_many_pieces").media(0);
    let writer = vault.create(id).await.unwrap();
    let (pieces, bytes) = (vec![&b"abc"[..]; 3000], b"abc".repeat(3000));
    write(&*writer, 0, &pieces).await;
    writer.sync().await.unwrap();
    assert_eq!(read(vault, id, 0..9000).await, bytes);
}

async fn a_write_and_its_sync_may_be_one_call(vault: &dyn Vault) {
    let id = Names::of("a_write_and_its_sync_may_be_one_call").media(0);
    let writer = create(vault, id, b"wind").await;
    let pieces = || vec![Bytes::from_static(b"la"), Bytes::from_static(b"ss")];
    writer.write_and_sync(4, pieces()).await.unwrap();
    assert_eq!(read(vault, id, 0..8).await, b"windlass");
    vault.reopen(id, 4, None).await.unwrap();
    superseded(&writer.write_and_sync(4, pieces()).await);
    damaged(read_all(vault, id, 0..5).await);
}

async fn taken_id_is_refused(vault: &dyn Vault) {
    let id = Names::of("taken_id_is_refused").media(0);
    let writer = create(vault, id, b"wind").await;
    damaged(vault.create(id).await);
    write(&*writer, 4, &[b"lass"]).await;
    assert_eq!(read(vault, id, 0..8).await, b"windlass");
}

async fn a_range_is_read_exactly(vault: &dyn Vault) {
    let id = Names::of("a_range_is_read_exactly").media(0);
    let bytes: Vec<u8> = (0..700_000_u32).flat_map(u32::to_le_bytes).collect();
    create(vault, id, &bytes).await;
    let end = bytes.len();
    let ranges = [
        0..0,
        0..1,
        5..300_000,
        0..end,
        1_000_000..end,
        end - 1..end,
        end..end,
    ];
    for range in ranges {
        let expected = &bytes[range.clone()];
        assert!(
            read(vault, id, range.start as u64..range.end as u64).await == expected,
            "{range:?}"
        );
    }
}

async fn bytes_that_are_not_there_are_not_read(vault: &dyn Vault) {
    let names = Names::of("bytes_that_are_not_there_are_not_read");
    create(vault, names.media(0), b"windlass").await;
    for range in [0..9, 8..9, 100..101] {
        damaged(read_all(vault, names.media(0), range).await);
    }
    let missing = vault.read(names.media(1), 0..1).await;
    assert!(matches!(missing, Err(VaultError::Missing(id)) if id == names.media(1)));
}

async fn a_reader_outlives_its_media(vault: &dyn Vault) {
    let id = Names::of("a_reader_outlives_its_media").media(0);
    let bytes = vec![7; 1_000_000];
    create(vault, id, &bytes).await;
    let mut reader = vault.read(id, 0..1_000_000).await.unwrap();
    let first = reader.next(READ_LEN).await.unwrap();
    assert!((1..=READ_LEN).contains(&first.len()), "{}", first.len());
    vault.delete(id).await.unwrap();
    let rest = drain(&mut *reader).await.unwrap();
    assert_eq!(first.len() + rest.len(), bytes.len());
    assert!(matches!(
        vault.read(id, 0..1).await,
        Err(VaultError::Missing(_))
    ));
}

async fn deleting_twice_is_a_success(vault: &dyn Vault) {
    let names = Names::of("deleting_twice_is_a_success");
    let writer = create(vault, names.media(0), b"windlass").await;
    vault.delete(names.media(0)).await.unwrap();
    vault.delete(names.media(0)).await.unwrap();
    vault.delete(names.media(1)).await.unwrap();
    write(&*writer, 8, &[b"es"]).await;
    assert!(
        !listed(vault)
            .await
            .iter()
            .any(|stored| stored.id == names.media(0))
    );
}

async fn reopening_cuts_off_what_is_not_committed(vault: &dyn Vault) {
    let id = Names::of("reopening_cuts_off_what_is_not_committed").media(0);
    create(vault, id, b"windmill").await;
    let writer = vault.reopen(id, 4, None).await.unwrap();
    damaged(read_all(vault, id, 0..5).await);
    write(&*writer, 4, &[b"las"]).await;
    writer.sync().await.unwrap();
    assert_eq!(read(vault, id, 0..7).await, b"windlas");
    damaged(read_all(vault, id, 0..8).await);
    vault.reopen(id, 7, None).await.unwrap();
    vault.reopen(id, 0, None).await.unwrap();
    damaged(read_all(vault, id, 0..1).await);
}

async fn reopening_checks_the_last_extent(vault: &dyn Vault) {
    let id = Names::of("reopening_checks_the_last_extent").media(0);
    let bytes: Vec<u8> = (0..700_000_u32).flat_map(u32::to_le_bytes).collect();
    create(vault, id, &bytes).await;
    let committed = bytes.len() as u64 - 3;
    let kept = &bytes[..bytes.len() - 3];
    for start in [0, 1_500_001, committed - 1, committed] {
        let crc32c = crc32c(&kept[usize::try_from(start).unwrap()..]);
        let extent = Extent { start, crc32c };
        vault.reopen(id, committed, Some(extent)).await.unwrap();
    }
    let wrong = Extent {
        start: 0,
        crc32c: crc32c(b"something else"),
    };
    damaged(vault.reopen(id, committed, Some(wrong)).await);
}

async fn reopening_finds_missing_bytes(vault: &dyn Vault) {
    let names = Names::of("reopening_finds_missing_bytes");
    create(vault, names.media(0), b"windlass").await;
    damaged(vault.reopen(names.media(0), 9, None).await);
    damaged(vault.reopen(names.media(1), 0, None).await);
    vault.reopen(names.media(0), 8, None).await.unwrap();
}

async fn reopening_ends_the_writers_before(vault: &dyn Vault) {
    let id = Names::of("reopening_ends_the_writers_before").media(0);
    let first = create(vault, id, b"windlass").await;
    let second = vault.reopen(id, 8, None).await.unwrap();
    let third = vault.reopen(id, 8, None).await.unwrap();
    for old in [&first, &second] {
        superseded(&old.write(0, vec![Bytes::from_static(b"mill")]).await);
    }
    drop(first);
    drop(second);
    write(&*third, 8, &[b"es"]).await;
    assert_eq!(read(vault, id, 0..10).await, b"windlasses");
}

async fn each_media_is_listed_once(vault: &dyn Vault) {
    let names = Names::of("each_media_is_listed_once");
    for n in [3, 1, 2] {
        create(vault, names.media(n), b"windlass").await;
    }
    let all = listed(vault).await;
    for n in [1, 2, 3] {
        let found = all.iter().filter(|stored| stored.id == names.media(n));
        assert_eq!(found.count(), 1, "{n}");
    }

    for limit in [1, 2, 1_000] {
        assert_eq!(listed_by(vault, limit).await, all, "{limit} at a time");
    }
    // The sweep deletes media while it lists: a position bears that its media is gone.
    let mut from = None;
    let mut left = Vec::new();
    loop {
        let listing = vault.list(from, 1).await.unwrap();
        for stored in &listing.media {
            if (1..=3).any(|n| stored.id == names.media(n)) {
                vault.delete(stored.id).await.unwrap();
            } else {
                left.push(*stored);
            }
        }
        from = listing.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(left, listed(vault).await);
    assert_eq!(left.len() + 3, all.len());
}

async fn available_space_is_at_most_the_total(vault: &dyn Vault) {
    if let Some(space) = vault.space().await.unwrap() {
        assert!(
            space.available <= space.total && space.total > 0,
            "{space:?}"
        );
    }
}

async fn create(vault: &dyn Vault, id: MediaId, bytes: &[u8]) -> Box<dyn MediaWriter> {
    let writer = vault.create(id).await.unwrap();
    write(&*writer, 0, &[bytes]).await;
    writer.sync().await.unwrap();
    writer
}

async fn write(writer: &dyn MediaWriter, offset: u64, pieces: &[&[u8]]) {
    let pieces = pieces.iter().map(|piece| Bytes::copy_from_slice(piece));
    writer.write(offset, pieces.collect()).await.unwrap();
}

async fn read(vault: &dyn Vault, id: MediaId, range: Range<u64>) -> Vec<u8> {
    read_all(vault, id, range).await.unwrap()
}

async fn read_all(
    vault: &dyn Vault,
    id: MediaId,
    range: Range<u64>,
) -> Result<Vec<u8>, VaultError> {
    drain(&mut *vault.read(id, range).await?).await
}

async fn drain(reader: &mut dyn MediaReader) -> Result<Vec<u8>, VaultError> {
    let mut bytes = Vec::new();
    loop {
        let next = reader.next(READ_LEN).await?;
        if next.is_empty() {
            return Ok(bytes);
        }
        bytes.extend_from_slice(&next);
    }
}

async fn listed(vault: &dyn Vault) -> Vec<StoredMedia> {
    listed_by(vault, 1_000).await
}

/// Returns all media, listed `limit` at a time.
async fn listed_by(vault: &dyn Vault, limit: usize) -> Vec<StoredMedia> {
    let mut media = Vec::new();
    let mut from = None;
    loop {
        let listing = vault.list(from, limit).await.unwrap();
        media.extend(listing.media);
        from = listing.next;
        if from.is_none() {
            return media;
        }
    }
}

#[track_caller]
fn superseded(refused: &Result<(), VaultError>) {
    assert!(
        matches!(refused, Err(VaultError::Unavailable { .. })),
        "not {refused:?}"
    );
}

#[track_caller]
fn damaged<T>(result: Result<T, VaultError>) {
    match result.map(drop) {
        Err(VaultError::Damaged { .. }) => {}
        other => panic!("this must be damaged: {other:?}"),
    }
}
