//! Objects, their names, and what the errors of the store mean.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{Error, ObjectStoreExt, PutPayload};
use windlass_store::{ListPosition, Listed, Listing, MediaId, StoredName, Timestamp, VaultError};

use super::PartStore;

/// The objects below a prefix.
#[derive(Debug)]
pub(super) struct Objects {
    pub(super) store: Arc<dyn PartStore>,
    pub(super) prefix: Path,
}

/// A handle has this many random bytes.
const HANDLE_LEN: usize = 16;

/// Returns a name that no object has.
///
/// # Panics
/// If the system has no randomness: an object must never be written twice.
pub(super) fn new_handle() -> Bytes {
    let mut handle = [0; HANDLE_LEN];
    getrandom::fill(&mut handle).expect("the system has randomness");
    Bytes::copy_from_slice(&handle)
}

impl Objects {
    pub(super) fn path(&self, media: MediaId, handle: &[u8]) -> Path {
        let mut digits = String::with_capacity(2 * handle.len());
        for byte in handle {
            write!(digits, "{byte:02x}").expect("a string takes all");
        }
        self.prefix.clone().join(media.to_string()).join(digits)
    }

    pub(super) async fn put(
        &self,
        media: MediaId,
        handle: &[u8],
        bytes: PutPayload,
    ) -> Result<(), VaultError> {
        let put = self.store.put(&self.path(media, handle), bytes).await;
        put.map(drop).map_err(|error| unavailable(media, error))
    }

    /// Returns bytes of an object, all of the range.
    pub(super) async fn get(
        &self,
        name: &StoredName,
        range: Range<u64>,
    ) -> Result<Bytes, VaultError> {
        if range.is_empty() {
            self.size(name).await?;
            return Ok(Bytes::new());
        }
        let path = self.path(name.media, &name.handle);
        let len = range.end - range.start;
        match self.store.get_range(&path, range.clone()).await {
            Ok(bytes) if bytes.len() as u64 == len => Ok(bytes),
            Ok(_) => Err(too_short(name.media)),
            Err(error) => Err(self.explain(name, range.end, error).await),
        }
    }

    /// Returns the length of an object.
    pub(super) async fn size(&self, name: &StoredName) -> Result<u64, VaultError> {
        let head = self.store.head(&self.path(name.media, &name.handle)).await;
        head.map(|meta| meta.size)
            .map_err(|error| missing_or_unavailable(name.media, error))
    }

    /// Returns why bytes up to `end` could not be read. A store refuses a range that begins behind
    /// the object, without saying so in a way that can be told from other refusals.
    pub(super) async fn explain(&self, name: &StoredName, end: u64, error: Error) -> VaultError {
        if matches!(error, Error::NotFound { .. }) {
            return VaultError::Missing(name.media);
        }
        match self.size(name).await {
            Ok(size) if size < end => too_short(name.media),
            Ok(_) => unavailable(name.media, error),
            Err(error) => error,
        }
    }

    pub(super) async fn delete(&self, name: &StoredName) -> Result<(), VaultError> {
        match self
            .store
            .delete(&self.path(name.media, &name.handle))
            .await
        {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(unavailable(name.media, error)),
        }
    }

    pub(super) async fn list(
        &self,
        from: Option<ListPosition>,
        limit: usize,
    ) -> Result<Listing, VaultError> {
        let unavailable = |cause: Error| VaultError::Unavailable {
            id: None,
            cause: Arc::new(cause),
        };
        let listed = match from {
            Some(from) => {
                let after = String::from_utf8_lossy(from.as_bytes()).into_owned();
                let after = Path::parse(after).map_err(|error| unavailable(error.into()))?;
                self.store.list_with_offset(Some(&self.prefix), &after)
            }
            None => self.store.list(Some(&self.prefix)),
        };
        let found: Vec<_> = listed
            .take(limit)
            .try_collect()
            .await
            .map_err(unavailable)?;
        let next = found.last().filter(|_| found.len() == limit);
        let next = next.map(|last| ListPosition::new(last.location.as_ref().as_bytes().to_vec()));
        // What has another name is not the vault's, and is left alone.
        let stored = found.iter().filter_map(|meta| {
            let modified = u64::try_from(meta.last_modified.timestamp_millis());
            Some(Listed {
                name: self.name(&meta.location)?,
                modified: Timestamp::from_millis(modified.unwrap_or(0)),
            })
        });
        Ok(Listing {
            stored: stored.collect(),
            next,
        })
    }

    /// Returns the name of an object, if it is one of the vault.
    fn name(&self, path: &Path) -> Option<StoredName> {
        let mut parts = path.prefix_match(&self.prefix)?;
        let media = MediaId::parse(parts.next()?.as_ref())?;
        // A handle has the form of an id.
        let handle = MediaId::parse(parts.next()?.as_ref())?;
        let handle = Bytes::copy_from_slice(handle.as_bytes());
        parts
            .next()
            .is_none()
            .then_some(StoredName { media, handle })
    }
}

pub(super) fn damaged(id: MediaId, reason: &'static str) -> VaultError {
    VaultError::Damaged { id, reason }
}

fn too_short(id: MediaId) -> VaultError {
    damaged(id, "it is shorter than the range to be read")
}

/// Returns the error of media of which an extent is gone.
pub(super) fn gone(id: MediaId, error: VaultError) -> VaultError {
    match error {
        VaultError::Missing(_) => damaged(id, "an extent is gone"),
        error => error,
    }
}

pub(super) fn unavailable(id: MediaId, cause: Error) -> VaultError {
    VaultError::Unavailable {
        id: Some(id),
        cause: Arc::new(cause),
    }
}

pub(super) fn missing_or_unavailable(id: MediaId, error: Error) -> VaultError {
    match error {
        Error::NotFound { .. } => VaultError::Missing(id),
        error => unavailable(id, error),
    }
}
