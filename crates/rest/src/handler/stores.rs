//! Read access for handlers: resources, and the bytes of media.

use std::io;
use std::io::{Read, Seek, SeekFrom};
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::runtime::Handle;
use windlass_engine::{Permit, Pool};
use windlass_store::{
    Ledger, Media, MediaLocation, MediaRef, READ_LEN, Resource, StoredName, Vault,
};

use super::{Rejection, SettledCollections};
use crate::namespace::Namespace;

/// The stores, and the bounds on reading them, that handlers share.
#[derive(Clone)]
pub struct StoreHandles {
    /// The ledger.
    pub ledger: Arc<dyn Ledger>,
    /// The vault.
    pub vault: Arc<dyn Vault>,
    /// Limit on the memory of media that is read as a whole.
    pub reading: Pool,
    /// Limit on the open files.
    pub media_reads: Pool,
    /// Limit on the calls that match long texts with patterns.
    pub pattern_checks: Pool,
    /// Maximum time for which a call waits for one of these limits.
    pub timeout: Duration,
    /// Collections with known index records.
    pub settled: SettledCollections,
}

impl std::fmt::Debug for StoreHandles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StoreHandles")
    }
}

/// Number of resources that a caller of [`StoreReader::fetch`] with many ids asks for at a time.
pub const FETCHED_AT_ONCE: usize = 20;

/// Read access to the stores.
///
/// For an API with [`Access::Owner`](windlass_discovery::Access), it reads only the resources of
/// the call's principal, unless the handler [separates owners
/// itself](super::ApiHandler::separates_owners).
#[derive(Clone, Copy)]
pub struct StoreReader<'a> {
    store_handles: &'a StoreHandles,
    namespace: &'a Namespace,
}

impl std::fmt::Debug for StoreReader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StoreReader")
    }
}

impl<'a> StoreReader<'a> {
    /// Returns access to the resources of this namespace.
    pub fn new(store_handles: &'a StoreHandles, namespace: &'a Namespace) -> Self {
        Self {
            store_handles,
            namespace,
        }
    }

    /// Returns the namespace that it reads.
    pub fn namespace(&self) -> &'a Namespace {
        self.namespace
    }

    /// Returns a resource, if it exists.
    pub async fn resource(
        &self,
        collection: &str,
        id: &str,
    ) -> Result<Option<Resource>, Rejection> {
        let collection = self.namespace.qualified(collection);
        let resource = self.store_handles.ledger.resource(&collection, id).await?;
        Ok(resource.map(|resource| self.namespace.to_handler(resource)))
    }

    /// Returns the resources with these ids, in the order of `ids`, and `None` for each that does not
    /// exist. All are of one state of the ledger. They are in memory together, so a caller with many
    /// ids asks for up to [`FETCHED_AT_ONCE`] at a time.
    pub async fn fetch(
        &self,
        collection: &str,
        ids: &[&str],
    ) -> Result<Vec<Option<Resource>>, Rejection> {
        let keys: Vec<_> = ids.iter().map(|id| (collection, *id)).collect();
        self.fetch_keys(&keys).await
    }

    /// As [`StoreReader::fetch`], of several collections.
    pub(crate) async fn fetch_keys(
        &self,
        keys: &[(&str, &str)],
    ) -> Result<Vec<Option<Resource>>, Rejection> {
        let keys: Vec<_> = keys
            .iter()
            .map(|(collection, id)| (self.namespace.qualified(collection), id))
            .collect();
        let keys: Vec<_> = keys
            .iter()
            .map(|(collection, id)| (&**collection, **id))
            .collect();
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.store_handles.ledger.fetch(&keys).await?.into_iter();
        let to_handler = |resource| self.namespace.to_handler(resource);
        Ok(found.map(|found| found.map(to_handler)).collect())
    }

    /// Returns resources of a collection in the order of their ids; see [`Ledger::resources`].
    pub async fn resources(
        &self,
        collection: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Resource>, Rejection> {
        let collection = self.namespace.qualified(collection);
        let ledger = &self.store_handles.ledger;
        let resources = ledger.resources(&collection, after, limit).await?;
        let resources = resources.into_iter();
        Ok(resources
            .map(|resource| self.namespace.to_handler(resource))
            .collect())
    }

    /// Whether nobody but this process writes resources of the API, and with one description.
    pub(crate) fn writes_alone(&self, api: &str) -> bool {
        let StoreHandles {
            ledger, settled, ..
        } = self.store_handles;
        ledger.opening().is_some() && !settled.is_ambiguous(api)
    }

    /// Whether this process knows that the record of a collection names no index that the API's
    /// description lacks.
    pub(crate) fn is_settled(&self, collection: &str) -> bool {
        let collection = self.namespace.qualified(collection);
        self.store_handles.settled.contains(&collection)
    }

    /// Remembers that the record of a collection names no other index.
    pub(crate) fn settle(&self, collection: &str) {
        let collection = self.namespace.qualified(collection);
        self.store_handles.settled.insert(&collection);
    }

    /// Waits for a permit to match long texts with patterns.
    ///
    /// # Errors
    /// [`Rejection::Full`] if no permit was free in time.
    pub(crate) async fn pattern_turn(&self) -> Result<Permit, Rejection> {
        let StoreHandles {
            pattern_checks,
            timeout,
            ..
        } = self.store_handles;
        Ok(pattern_checks.wait(1, *timeout).await?)
    }

    /// Returns access to the bytes of a resource's media.
    pub fn media(&self, media: &Media) -> MediaSource {
        MediaSource::new(self.store_handles.clone(), media, None)
    }
}

/// Number of bytes that a [`BlockingMedia`] reads at once.
const WINDOW: u64 = READ_LEN as u64;

/// Media that was uploaded with a call. It is durable, or small and committed with the answer.
#[derive(Debug, Clone)]
pub struct Uploaded {
    /// Record of the media, for a resource.
    pub media: Media,
    /// Access to its bytes.
    pub source: MediaSource,
}

impl Uploaded {
    /// Returns the media of a record. `held` are its bytes if no store has them yet.
    pub fn new(store_handles: StoreHandles, media: Media, held: Option<Bytes>) -> Self {
        let source = MediaSource::new(store_handles, &media, held);
        Self { media, source }
    }
}

/// Access to the bytes of a media.
#[derive(Clone)]
pub struct MediaSource {
    store_handles: StoreHandles,
    at: MediaRef,
    /// The handle of the media.
    handle: Bytes,
    length: u64,
    /// All bytes, if they are not yet in a store.
    held: Option<Bytes>,
}

impl std::fmt::Debug for MediaSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MediaSource")
            .field("at", &self.at)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

/// Bytes of a media, with their part of the server's memory.
#[derive(Debug)]
pub struct MediaBytes {
    bytes: Bytes,
    _permit: Permit,
}

impl Deref for MediaBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl MediaSource {
    pub(super) fn new(store_handles: StoreHandles, media: &Media, held: Option<Bytes>) -> Self {
        Self {
            store_handles,
            at: media.at,
            handle: media.handle.clone(),
            length: media.length,
            held,
        }
    }

    /// Length of the media in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Reads a range into memory, up to the end of the media.
    ///
    /// Waits for a part of the memory that all calls share
    /// ([`StoreHandles::reading`]). Drop the bytes before
    /// the next read: if two calls hold bytes and wait for more, both are refused.
    ///
    /// # Errors
    /// [`Rejection::Full`] if the memory was not free in time; [`Rejection::Vault`],
    /// [`Rejection::Ledger`] or [`Rejection::MediaLost`] if the media could not be read.
    pub async fn read(&self, range: Range<u64>) -> Result<MediaBytes, Rejection> {
        self.read_for_copies(range, 0).await
    }

    /// Like [`MediaSource::read`], with additional memory for this number of copies of the bytes,
    /// such as changed copies. The caller may use this memory until the bytes are dropped.
    ///
    /// # Errors
    /// As for [`MediaSource::read`].
    pub async fn read_for_copies(
        &self,
        range: Range<u64>,
        copies: u64,
    ) -> Result<MediaBytes, Rejection> {
        let range = self.clip(range);
        let StoreHandles {
            reading, timeout, ..
        } = &self.store_handles;
        let amount = (range.end - range.start).saturating_mul(1 + copies);
        // Before the bytes are read, so that no media is in memory without its permit.
        let permit = reading.wait(amount, *timeout).await;
        Ok(MediaBytes {
            _permit: permit?,
            bytes: self.fetch(range).await?,
        })
    }

    /// Returns the media as a file, for libraries that read and seek. Its reads block, so use it in
    /// [`tokio::task::spawn_blocking`].
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn blocking(&self) -> BlockingMedia {
        BlockingMedia {
            source: self.clone(),
            runtime: Handle::current(),
            position: 0,
            window: Bytes::new(),
            window_start: 0,
        }
    }

    fn clip(&self, range: Range<u64>) -> Range<u64> {
        let end = range.end.min(self.length);
        range.start.min(end)..end
    }

    async fn fetch(&self, range: Range<u64>) -> Result<Bytes, Rejection> {
        // Small media of a call that runs is in no store before the call's commit.
        if let Some(held) = &self.held {
            return Ok(slice(held, range));
        }
        match self.at.location {
            MediaLocation::Ledger => {
                let bytes = self.store_handles.ledger.small_media(self.at.id).await?;
                let bytes = bytes.ok_or(Rejection::MediaLost(self.at.id))?;
                Ok(slice(&bytes, range))
            }
            MediaLocation::Vault => {
                let StoreHandles {
                    media_reads,
                    timeout,
                    ..
                } = &self.store_handles;
                // The reader holds an open file, of which the process may have only so many.
                let _open = media_reads.wait(1, *timeout).await?;
                let mut bytes = BytesMut::with_capacity(to_usize(range.end - range.start));
                let vault = &self.store_handles.vault;
                let name = StoredName {
                    media: self.at.id,
                    handle: self.handle.clone(),
                };
                let mut reader = vault.read(&name, range).await?;
                loop {
                    let piece = reader.next(vault.hints().read_len).await?;
                    if piece.is_empty() {
                        return Ok(bytes.freeze());
                    }
                    bytes.extend_from_slice(&piece);
                }
            }
        }
    }
}

/// A media as a file; see [`MediaSource::blocking`]. Holds at most 256 KiB of it in memory.
#[derive(Debug)]
pub struct BlockingMedia {
    source: MediaSource,
    runtime: Handle,
    position: u64,
    window: Bytes,
    window_start: u64,
}

impl BlockingMedia {
    /// Returns the bytes of the window from the current position. Reads a new window if the current
    /// window does not contain the position.
    fn fill(&mut self) -> io::Result<&[u8]> {
        let inside = |media: &Self| {
            let offset = media.position.checked_sub(media.window_start)?;
            usize::try_from(offset)
                .ok()
                .filter(|offset| *offset < media.window.len())
        };
        if inside(self).is_none() {
            let range = self.position..self.position.saturating_add(WINDOW);
            let range = self.source.clip(range);
            let fetched = self.runtime.block_on(self.source.fetch(range));
            self.window = fetched.map_err(io::Error::other)?;
            self.window_start = self.position;
        }
        Ok(inside(self).map_or(&[], |offset| &self.window[offset..]))
    }
}

impl Read for BlockingMedia {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let available = self.fill()?;
        let taken = available.len().min(buf.len());
        buf[..taken].copy_from_slice(&available[..taken]);
        self.position += taken as u64;
        Ok(taken)
    }
}

impl Seek for BlockingMedia {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(by) => self.source.length.checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        // A position beyond the end is allowed, as in a file: a read there returns nothing.
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

/// Returns the range of `bytes`, up to their end.
pub fn slice(bytes: &Bytes, range: Range<u64>) -> Bytes {
    let at = |offset: u64| to_usize(offset).min(bytes.len());
    bytes.slice(at(range.start)..at(range.end))
}

fn to_usize(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_digest::{Crc32cHasher, Digests};
    use windlass_engine::LimitedResource;
    use windlass_store::MediaId;
    use windlass_store::memory::{MemoryLedger, MemoryVault};

    impl StoreHandles {
        /// Returns empty stores in memory, and pools that are large enough for a few calls.
        pub(crate) fn in_memory() -> Self {
            let (bytes, count) = (1 << 20, 2);
            Self {
                ledger: Arc::new(MemoryLedger::new()),
                vault: Arc::new(MemoryVault::new()),
                reading: Pool::for_large(LimitedResource::Reading, bytes),
                media_reads: Pool::of_count(LimitedResource::MediaReads, count),
                pattern_checks: Pool::of_count(LimitedResource::PatternChecks, count),
                timeout: Duration::from_secs(10),
                settled: SettledCollections::new([]),
            }
        }
    }

    #[tokio::test]
    async fn copies_of_media_that_is_read_count_until_its_bytes_are_dropped() {
        let store_handles = StoreHandles::in_memory();
        let reading = store_handles.reading.clone();
        let media = Media {
            handle: Bytes::new(),
            at: MediaRef {
                id: MediaId::from_bytes([1; 16]),
                location: MediaLocation::Ledger,
            },
            length: 100 * 1024,
            content_type: String::new(),
            digests: Digests {
                crc32c: Crc32cHasher::default().value(),
                md5: None,
                sha256: None,
            },
        };
        let held = Bytes::from(vec![b'x'; 100 * 1024]);
        let source = MediaSource::new(store_handles, &media, Some(held));
        let used = || reading.usage().used;
        let once = source.read(0..u64::MAX).await.unwrap();
        assert_eq!(used(), 100 * 1024);
        let twice = source.read_for_copies(0..u64::MAX, 1).await.unwrap();
        assert_eq!(used(), 300 * 1024);
        drop((once, twice));
        assert_eq!(used(), 0);
    }
}
