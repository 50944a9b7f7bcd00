//! The rules of a vault.

mod concat;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use windlass_digest::{Crc32c, Crc32cHasher};

use super::Names;
use crate::records::{Extent, MediaId, StoredMedia, StoredName};
use crate::vault::{
    ExpectedSize, Listed, MediaReader, MediaWriter, READ_LEN, Sealed, SyncTarget, Vault, VaultError,
};

/// Media that is not sealed, with its writer.
struct Written<'a> {
    vault: &'a dyn Vault,
    stored: StoredMedia,
    writer: Box<dyn MediaWriter>,
}

impl<'a> Written<'a> {
    async fn create(vault: &'a dyn Vault, id: MediaId) -> Self {
        let writer = vault.create(id, ExpectedSize::default()).await.unwrap();
        Self {
            vault,
            stored: StoredMedia::new(id, 0),
            writer,
        }
    }

    /// Creates media with bytes that are durable.
    async fn with(vault: &'a dyn Vault, id: MediaId, bytes: &[u8]) -> Self {
        let mut media = Self::create(vault, id).await;
        media.add(bytes).await;
        media
    }

    /// Appends bytes, and makes them durable.
    async fn add(&mut self, bytes: &[u8]) {
        append(&*self.writer, self.stored.length, &[bytes]).await;
        self.sync(bytes.len() as u64, SyncTarget::at).await;
    }

    /// Makes the next bytes durable.
    async fn sync(&mut self, bytes: u64, target: fn(u64) -> SyncTarget) {
        let end = self.stored.length + bytes;
        self.writer.sync(target(end)).await.unwrap();
        self.stored.length = end;
        self.stored.change(&self.writer.take_changes());
    }

    /// Continues the media with another writer.
    async fn resume(&mut self) {
        self.writer = self.vault.resume(&self.stored).await.unwrap();
    }

    /// Seals the media. Returns its name.
    async fn seal(&mut self) -> StoredName {
        loop {
            match self.vault.seal(&self.stored).await.unwrap() {
                Sealed::Media { handle, .. } => {
                    return StoredName {
                        media: self.stored.id,
                        handle,
                    };
                }
                Sealed::Composed(changes) => self.stored.change(&changes),
            }
        }
    }
}

/// Checks an empty vault against every rule of the contract.
///
/// # Panics
/// If it breaks a rule.
pub async fn vault(vault: &dyn Vault) {
    an_empty_vault_lists_nothing(vault).await;
    media_is_read_as_it_was_written(vault).await;
    an_append_may_have_very_many_pieces(vault).await;
    an_append_and_its_sync_may_be_one_call(vault).await;
    bytes_before_the_target_of_a_sync_are_durable(vault).await;
    changes_that_are_taken_name_all_durable_bytes(vault).await;
    a_range_is_read_exactly(vault).await;
    bytes_that_are_not_there_are_not_read(vault).await;
    a_reader_outlives_its_media_or_misses_it(vault).await;
    deleting_twice_is_a_success(vault).await;
    media_is_continued_at_any_offset(vault).await;
    bytes_that_are_not_committed_are_no_part_of_the_media(vault).await;
    resuming_checks_the_last_extent(vault).await;
    resuming_finds_missing_bytes(vault).await;
    an_earlier_writer_changes_nothing(vault).await;
    media_is_sealed_again_with_the_same_bytes(vault).await;
    extents_are_numbered_and_hold_all_bytes(vault).await;
    concat::all(vault).await;
    each_name_is_listed_once(vault).await;
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
    let media = Written::with(&*vault, names.media(0), b"windlass").await;
    append(&*media.writer, 8, &[b"not synced"]).await;
    let sealed = sealed(&*vault, names.media(1), b"windmill").await;
    let copy = concat::before_a_restart(&*vault, &sealed, names.media(2)).await;
    let mut stored = media.stored;
    drop(media.writer);
    drop(vault);

    let vault = open().await;
    assert_eq!(read(&*vault, &sealed, 0..8).await, b"windmill");
    assert_eq!(read(&*vault, &copy, 0..12).await, b"windmillwind");
    stored.verify = Some(Extent {
        start: 4,
        crc32c: crc32c(b"lass"),
    });
    let writer = vault.resume(&stored).await.unwrap();
    let mut media = Written {
        vault: &*vault,
        stored,
        writer,
    };
    media.add(b"es").await;
    let mut stored = media.stored;
    stored.verify = None;
    drop(media.writer);
    drop(vault);

    let vault = open().await;
    let writer = vault.resume(&stored).await.unwrap();
    let mut media = Written {
        vault: &*vault,
        stored,
        writer,
    };
    let name = media.seal().await;
    assert_eq!(read(&*vault, &name, 0..10).await, b"windlasses");
}

async fn an_empty_vault_lists_nothing(vault: &dyn Vault) {
    assert_eq!(listed(vault).await, []);
}

async fn media_is_read_as_it_was_written(vault: &dyn Vault) {
    let id = Names::of("media_is_read_as_it_was_written").media(0);
    let mut media = Written::create(vault, id).await;
    append(&*media.writer, 0, &[b"wind", b"", b"lass"]).await;
    media.sync(8, SyncTarget::at).await;
    append(&*media.writer, 8, &[]).await;
    append(&*media.writer, 8, &[b"es"]).await;
    media.sync(2, SyncTarget::at).await;
    media.sync(0, SyncTarget::at).await;
    append(&*media.writer, 10, &[b"!"]).await;
    media.sync(1, SyncTarget::end).await;
    let name = media.seal().await;
    assert_eq!(read(vault, &name, 0..11).await, b"windlasses!");
    assert_eq!(read(vault, &name, 0..0).await, b"");
}

async fn an_append_may_have_very_many_pieces(vault: &dyn Vault) {
    let id = Names::of("an_append_may_have_very_many_pieces").media(0);
    let mut media = Written::create(vault, id).await;
    let (pieces, bytes) = (vec![&b"abc"[..]; 3000], b"abc".repeat(3000));
    append(&*media.writer, 0, &pieces).await;
    media.sync(9000, SyncTarget::end).await;
    let name = media.seal().await;
    assert_eq!(read(vault, &name, 0..9000).await, bytes);
}

async fn an_append_and_its_sync_may_be_one_call(vault: &dyn Vault) {
    let id = Names::of("an_append_and_its_sync_may_be_one_call").media(0);
    let mut media = Written::with(vault, id, b"wind").await;
    let pieces = vec![Bytes::from_static(b"la"), Bytes::from_static(b"ss")];
    let synced = media.writer.append_and_sync(4, pieces, SyncTarget::at(8));
    synced.await.unwrap();
    media.stored.change(&media.writer.take_changes());
    media.stored.length = 8;
    let name = media.seal().await;
    assert_eq!(read(vault, &name, 0..8).await, b"windlass");
}

/// The bytes behind the target may be durable or not: they are appended meanwhile.
async fn bytes_before_the_target_of_a_sync_are_durable(vault: &dyn Vault) {
    let id = Names::of("bytes_before_the_target_of_a_sync_are_durable").media(0);
    let mut media = Written::create(vault, id).await;
    append(&*media.writer, 0, &[b"wind"]).await;
    append(&*media.writer, 4, &[b"mill"]).await;
    media.sync(4, SyncTarget::at).await;
    media.resume().await;
    media.add(b"lass").await;
    append(&*media.writer, 8, &[b"e"]).await;
    append(&*media.writer, 9, &[b"s"]).await;
    media.sync(1, SyncTarget::at).await;
    media.sync(1, SyncTarget::at).await;
    let name = media.seal().await;
    assert_eq!(read(vault, &name, 0..10).await, b"windlasses");
}

/// A checkpoint is committed while the next bytes are made durable.
async fn changes_that_are_taken_name_all_durable_bytes(vault: &dyn Vault) {
    let id = Names::of("changes_that_are_taken_name_all_durable_bytes").media(0);
    let mut media = Written::create(vault, id).await;
    append(&*media.writer, 0, &[b"wind"]).await;
    media.writer.sync(SyncTarget::at(4)).await.unwrap();
    append(&*media.writer, 4, &[b"mill"]).await;
    media.writer.sync(SyncTarget::at(8)).await.unwrap();
    media.stored.length = 4;
    media.stored.change(&media.writer.take_changes());
    media.resume().await;
    media.add(b"lass").await;
    let name = media.seal().await;
    assert_eq!(read(vault, &name, 0..8).await, b"windlass");
}

async fn a_range_is_read_exactly(vault: &dyn Vault) {
    let id = Names::of("a_range_is_read_exactly").media(0);
    let bytes = long_bytes();
    let name = sealed(vault, id, &bytes).await;
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
            read(vault, &name, range.start as u64..range.end as u64).await == expected,
            "{range:?}"
        );
    }
}

async fn bytes_that_are_not_there_are_not_read(vault: &dyn Vault) {
    let names = Names::of("bytes_that_are_not_there_are_not_read");
    let name = sealed(vault, names.media(0), b"windlass").await;
    for range in [0..9, 8..9, 100..101] {
        damaged(read_all(vault, &name, range).await);
    }
    let other = StoredName {
        media: names.media(1),
        ..name
    };
    vault.delete(&other).await.unwrap();
    missing(vault.read(&other, 0..1).await, &other);
}

async fn a_reader_outlives_its_media_or_misses_it(vault: &dyn Vault) {
    let id = Names::of("a_reader_outlives_its_media_or_misses_it").media(0);
    let bytes = vec![7; 1_000_000];
    let name = sealed(vault, id, &bytes).await;
    let mut reader = vault.read(&name, 0..1_000_000).await.unwrap();
    let first = reader.next(READ_LEN).await.unwrap();
    assert!((1..=READ_LEN).contains(&first.len()), "{}", first.len());
    vault.delete(&name).await.unwrap();
    match drain(&mut *reader).await {
        Ok(rest) => assert_eq!(first.len() + rest.len(), bytes.len()),
        Err(error) => missing(Err::<(), _>(error), &name),
    }
    missing(vault.read(&name, 0..1).await, &name);
}

async fn deleting_twice_is_a_success(vault: &dyn Vault) {
    let names = Names::of("deleting_twice_is_a_success");
    let name = sealed(vault, names.media(0), b"windlass").await;
    vault.delete(&name).await.unwrap();
    vault.delete(&name).await.unwrap();
    let never = StoredName {
        media: names.media(1),
        ..name.clone()
    };
    vault.delete(&never).await.unwrap();
    assert!(!listed(vault).await.iter().any(|stored| stored.name == name));
}

async fn media_is_continued_at_any_offset(vault: &dyn Vault) {
    let id = Names::of("media_is_continued_at_any_offset").media(0);
    let bytes = &long_bytes()[..100];
    let mut media = Written::create(vault, id).await;
    let mut from = 0;
    for len in (1..14).chain([9]) {
        media.add(&bytes[from..from + len]).await;
        media.resume().await;
        from += len;
    }
    assert_eq!(from, 100);
    let name = media.seal().await;
    assert_eq!(read(vault, &name, 0..100).await, bytes);
}

async fn bytes_that_are_not_committed_are_no_part_of_the_media(vault: &dyn Vault) {
    let id = Names::of("bytes_that_are_not_committed_are_no_part_of_the_media").media(0);
    let mut media = Written::with(vault, id, b"wind").await;
    let committed = media.stored.clone();
    media.add(b"mill").await;
    media.stored = committed;
    media.resume().await;
    media.add(b"las").await;
    let name = media.seal().await;
    assert_eq!(read(vault, &name, 0..7).await, b"windlas");
    damaged(read_all(vault, &name, 0..8).await);
}

async fn resuming_checks_the_last_extent(vault: &dyn Vault) {
    let id = Names::of("resuming_checks_the_last_extent").media(0);
    let bytes = long_bytes();
    let mut media = Written::with(vault, id, &bytes).await;
    let committed = bytes.len() as u64;
    for start in [0, 1_500_001, committed - 1, committed] {
        let crc32c = crc32c(&bytes[usize::try_from(start).unwrap()..]);
        media.stored.verify = Some(Extent { start, crc32c });
        media.resume().await;
    }
    media.stored.verify = Some(Extent {
        start: 0,
        crc32c: crc32c(b"something else"),
    });
    damaged(vault.resume(&media.stored).await);
    damaged(vault.seal(&media.stored).await);
}

async fn resuming_finds_missing_bytes(vault: &dyn Vault) {
    let names = Names::of("resuming_finds_missing_bytes");
    let mut media = Written::with(vault, names.media(0), b"windlass").await;
    media.resume().await;
    media.stored.length = 9;
    damaged(vault.resume(&media.stored).await);
    media.stored.length = 8;
    for name in media.stored.names() {
        vault.delete(&name).await.unwrap();
    }
    damaged(vault.resume(&media.stored).await);
}

async fn an_earlier_writer_changes_nothing(vault: &dyn Vault) {
    let id = Names::of("an_earlier_writer_changes_nothing").media(0);
    let mut media = Written::with(vault, id, b"windlass").await;
    let first = vault.resume(&media.stored).await.unwrap();
    let second = vault.resume(&media.stored).await.unwrap();
    media.resume().await;
    for old in [&first, &second] {
        let late = vec![Bytes::from_static(b"mill")];
        let late = old.append_and_sync(8, late, SyncTarget::at(12)).await;
        assert!(
            matches!(late, Ok(()) | Err(VaultError::Unavailable { .. })),
            "{late:?}"
        );
    }
    media.add(b"es").await;
    let late = vec![Bytes::from_static(b"!!!!")];
    first.append(8, late).await.ok();
    drop(first);
    drop(second);
    let name = media.seal().await;
    assert_eq!(read(vault, &name, 0..10).await, b"windlasses");
}

async fn media_is_sealed_again_with_the_same_bytes(vault: &dyn Vault) {
    let id = Names::of("media_is_sealed_again_with_the_same_bytes").media(0);
    let bytes = long_bytes();
    let mut media = Written::with(vault, id, &bytes[..1_000_003]).await;
    media.resume().await;
    media.add(&bytes[1_000_003..]).await;
    // Another process seals it at the same time, from the same state.
    let mut other = Written {
        vault,
        stored: media.stored.clone(),
        writer: vault.resume(&media.stored).await.unwrap(),
    };
    let first = media.seal().await;
    let second = media.seal().await;
    assert_eq!(first, second);
    let third = other.seal().await;
    for name in [&first, &third] {
        let read = read(vault, name, 0..bytes.len() as u64).await;
        assert!(read == bytes, "{name:?}");
    }
}

async fn extents_are_numbered_and_hold_all_bytes(vault: &dyn Vault) {
    let id = Names::of("extents_are_numbered_and_hold_all_bytes").media(0);
    let bytes = &long_bytes()[..300];
    let mut media = Written::create(vault, id).await;
    let mut numbers = Vec::new();
    for piece in bytes.chunks(7) {
        let (at, data) = (media.stored.length, vec![Bytes::copy_from_slice(piece)]);
        let end = at + piece.len() as u64;
        let target = SyncTarget::at(end);
        media
            .writer
            .append_and_sync(at, data, target)
            .await
            .unwrap();
        let changes = media.writer.take_changes();
        numbers.extend(changes.added.iter().map(|extent| extent.number));
        media.stored.change(&changes);
        media.stored.length = end;
        if media.stored.extents.is_empty() {
            continue;
        }
        let mut held = 0;
        for extent in &media.stored.extents {
            assert_eq!(extent.start, held, "{:?}", media.stored);
            held = extent.end();
        }
        assert_eq!(held, end);
        if end.is_multiple_of(2) {
            media.resume().await;
        }
    }
    let given = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), given, "no number is given twice");
}

async fn each_name_is_listed_once(vault: &dyn Vault) {
    let names = Names::of("each_name_is_listed_once");
    let mut own = Vec::new();
    for n in [3, 1, 2] {
        own.push(sealed(vault, names.media(n), b"windlass").await);
    }
    let all = listed(vault).await;
    for name in &own {
        let found = all.iter().filter(|stored| stored.name == *name);
        assert_eq!(found.count(), 1, "{name:?}");
    }

    for limit in [1, 2, 1_000] {
        assert_eq!(listed_by(vault, limit).await, all, "{limit} at a time");
    }
    // The sweep deletes media while it lists: a position bears that its media is gone.
    let mut from = None;
    let mut left = Vec::new();
    loop {
        let listing = vault.list(from, 1).await.unwrap();
        for stored in listing.stored {
            if own.contains(&stored.name) {
                vault.delete(&stored.name).await.unwrap();
            } else {
                left.push(stored);
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

fn crc32c(data: &[u8]) -> Crc32c {
    let mut hasher = Crc32cHasher::default();
    hasher.update(data);
    hasher.value()
}

fn long_bytes() -> Vec<u8> {
    (0..700_000_u32).flat_map(u32::to_le_bytes).collect()
}

/// Makes sealed media of these bytes.
async fn sealed(vault: &dyn Vault, id: MediaId, bytes: &[u8]) -> StoredName {
    let mut media = Written::create(vault, id).await;
    append(&*media.writer, 0, &[bytes]).await;
    media.sync(bytes.len() as u64, SyncTarget::end).await;
    media.seal().await
}

async fn append(writer: &dyn MediaWriter, at: u64, pieces: &[&[u8]]) {
    let pieces = pieces.iter().map(|piece| Bytes::copy_from_slice(piece));
    writer.append(at, pieces.collect()).await.unwrap();
}

async fn read(vault: &dyn Vault, media: &StoredName, range: Range<u64>) -> Vec<u8> {
    read_all(vault, media, range).await.unwrap()
}

async fn read_all(
    vault: &dyn Vault,
    media: &StoredName,
    range: Range<u64>,
) -> Result<Vec<u8>, VaultError> {
    drain(&mut *vault.read(media, range).await?).await
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

async fn listed(vault: &dyn Vault) -> Vec<Listed> {
    listed_by(vault, 1_000).await
}

/// Returns all that is stored, listed `limit` at a time.
async fn listed_by(vault: &dyn Vault, limit: usize) -> Vec<Listed> {
    let mut stored = Vec::new();
    let mut from = None;
    loop {
        let listing = vault.list(from, limit).await.unwrap();
        stored.extend(listing.stored);
        from = listing.next;
        if from.is_none() {
            return stored;
        }
    }
}

#[track_caller]
fn damaged<T>(result: Result<T, VaultError>) {
    match result.map(drop) {
        Err(VaultError::Damaged { .. }) => {}
        other => panic!("this must be damaged: {other:?}"),
    }
}

#[track_caller]
fn missing<T>(result: Result<T, VaultError>, name: &StoredName) {
    match result.map(drop) {
        Err(VaultError::Missing(id)) if id == name.media => {}
        other => panic!("this must be missing: {other:?}"),
    }
}
