//! The vault in an object store.
//!
//! An object is written once, as a whole, under a name that is never used again:
//! `PREFIX/MEDIA/RANDOM`, each in hexadecimal digits. So a write that comes late, or twice, changes
//! nothing, and no writer disturbs another one.
//!
//! ```text
//! while bytes arrive    cell │ cell │ cell │ piece │ piece
//! the cell is full      cell │ cell │ cell │ cell              the pieces become garbage
//! sealed                one object                             the cells become garbage
//! ```
//!
//! A *cell* has a fixed length and is written while the next one arrives. A sync that does not end
//! at the boundary of a cell writes a *piece* with the bytes since the last one. Sealing puts
//! everything together in one object, unless there is one already: a store that cannot copy reads
//! and writes all bytes once more then.

mod compose;
mod objects;
mod reader;
mod sources;
mod writer;

use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use object_store::ObjectStore;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use windlass_store::{
    ExpectedSize, ExtentChanges, IoHints, ListPosition, Listing, MediaId, MediaReader, MediaWriter,
    Part, Sealed, Space, StoredExtent, StoredMedia, StoredName, Vault, VaultError,
};

use compose::compose;
use objects::Objects;
use reader::Reader;
use sources::{Source, sources};
use writer::{Tail, Writer};

/// An object store with uploads in parts.
pub trait PartStore: ObjectStore + MultipartStore {}

impl<T: ObjectStore + MultipartStore> PartStore for T {}

/// A [`Vault`] in an object store, which several processes may have open.
///
/// The store must not repeat a write by itself for longer than media without a reference is kept
/// ([`SweepOptions::grace`](windlass_store::SweepOptions::grace)), and should delete uploads in
/// parts that nobody has completed within a few days.
#[derive(Debug, Clone)]
pub struct CloudVault {
    objects: Arc<Objects>,
    cell: NonZeroU64,
}

/// Length of a cell unless another one is chosen: 8 MiB.
pub const DEFAULT_CELL: NonZeroU64 = NonZeroU64::new(8 << 20).expect("it is not zero");

impl CloudVault {
    /// Returns the vault with the objects below a prefix. Nothing else may be stored there.
    pub fn new(store: Arc<dyn PartStore>, prefix: Path) -> Self {
        Self {
            objects: Arc::new(Objects { store, prefix }),
            cell: DEFAULT_CELL,
        }
    }

    /// Sets the length of cells, which is also the least length of a part but the last one. S3
    /// demands at least 5 MiB. Media that is not sealed keeps the cells that it has.
    #[must_use]
    pub fn with_cell(self, cell: NonZeroU64) -> Self {
        Self { cell, ..self }
    }

    fn writer(&self, media: MediaId, tail: Tail) -> Box<dyn MediaWriter> {
        Box::new(Writer::new(
            Arc::clone(&self.objects),
            media,
            self.cell,
            tail,
        ))
    }
}

#[async_trait]
impl Vault for CloudVault {
    fn hints(&self) -> IoHints {
        IoHints {
            // A piece costs a request.
            commit_interval: Duration::from_secs(5),
            read_len: 1 << 20,
        }
    }

    async fn create(
        &self,
        id: MediaId,
        _: ExpectedSize,
    ) -> Result<Box<dyn MediaWriter>, VaultError> {
        Ok(self.writer(id, Tail::default()))
    }

    async fn resume(&self, stored: &StoredMedia) -> Result<Box<dyn MediaWriter>, VaultError> {
        let tail = Tail::read(&self.objects, stored, self.cell).await?;
        Ok(self.writer(stored.id, tail))
    }

    async fn seal(&self, stored: &StoredMedia) -> Result<Sealed, VaultError> {
        if stored.verify.is_some() {
            Tail::read(&self.objects, stored, self.cell).await?;
        }
        let whole = stored
            .extents
            .iter()
            .find(|extent| extent.start == 0 && extent.len == stored.length);
        if let Some(whole) = whole {
            let others = stored.extents.iter().map(|extent| extent.number);
            return Ok(Sealed::Media {
                handle: whole.name.clone(),
                left: others.filter(|number| *number != whole.number).collect(),
            });
        }
        let sources = sources(stored, 0..stored.length)?;
        let made = compose(&self.objects, stored.id, &sources, self.cell, &|_| {}).await;
        let name = made.map_err(|error| objects::gone(stored.id, error))?;
        let composed = StoredExtent {
            number: writer::next_number(stored),
            start: 0,
            len: stored.length,
            name,
        };
        Ok(Sealed::Composed(ExtentChanges {
            added: vec![composed],
            dropped: stored.extents.iter().map(|extent| extent.number).collect(),
        }))
    }

    async fn read(
        &self,
        media: &StoredName,
        range: Range<u64>,
    ) -> Result<Box<dyn MediaReader>, VaultError> {
        let reader = Reader::open(Arc::clone(&self.objects), media.clone(), range).await?;
        Ok(Box::new(reader))
    }

    async fn concat(
        &self,
        id: MediaId,
        parts: Vec<Part>,
        copied: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<Bytes, VaultError> {
        let sources = parts.into_iter().map(|part| match part {
            Part::Media { media, length } => Source::Object {
                name: media,
                range: 0..length,
            },
            Part::Bytes(bytes) => Source::Bytes(bytes),
        });
        let sources: Vec<_> = sources.collect();
        compose(&self.objects, id, &sources, self.cell, copied).await
    }

    async fn delete(&self, stored: &StoredName) -> Result<(), VaultError> {
        self.objects.delete(stored).await
    }

    async fn list(&self, from: Option<ListPosition>, limit: usize) -> Result<Listing, VaultError> {
        self.objects.list(from, limit).await
    }

    async fn space(&self) -> Result<Option<Space>, VaultError> {
        Ok(None)
    }
}
