//! Media that is complete: from its extents to something that can be read.

use std::sync::Arc;

use bytes::Bytes;
use windlass_digest::{Digests, Md5Sha256Hasher, Wanted};
use windlass_store::{Extent, Progress, Sealed, StoredMedia, StoredName, Vault, VaultError};

use crate::checksums::hash;
use crate::completion::Completion;
use crate::engine::Engine;
use crate::error::Error;
use crate::offset_committer::OffsetCommitter;

/// What sealing media has yielded. Small media has neither.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seal {
    /// What names the media in the vault beside its id.
    pub(crate) handle: Bytes,
    /// Numbers of the extents that are no part of it.
    pub(crate) left: Vec<u32>,
}

impl OffsetCommitter {
    /// Seals the media of a session in the state *finishing*, and commits each name that the vault
    /// chooses on the way. `verify` is the last extent, if another request has written it.
    ///
    /// # Errors
    /// Those of the stores.
    pub(crate) async fn seal(
        &mut self,
        vault: &dyn Vault,
        verify: Option<Extent>,
    ) -> Result<Seal, Error> {
        let mut stored = self.stored_media(verify);
        loop {
            match vault.seal(&stored).await? {
                Sealed::Media { handle, left } => return Ok(Seal { handle, left }),
                Sealed::Composed(changes) => {
                    self.commit_extents(changes).await?;
                    stored = self.stored_media(None);
                }
            }
        }
    }
}

impl<C: Completion> Engine<C> {
    /// Seals media that no row names, and deletes the extents that are no part of it. Returns its
    /// handle.
    ///
    /// # Errors
    /// The vault's.
    pub(crate) async fn seal_unnamed(&self, stored: &mut StoredMedia) -> Result<Bytes, Error> {
        let vault = &*self.parts().stores.vault;
        let before = stored.names();
        loop {
            match vault.seal(stored).await? {
                Sealed::Media { handle, left } => {
                    let named = before.into_iter().chain(stored.names());
                    let parts = stored.extents.iter();
                    let kept: Vec<_> = parts
                        .filter(|extent| !left.contains(&extent.number))
                        .map(|extent| &extent.name)
                        .collect();
                    for name in named.filter(|name| !kept.contains(&&name.handle)) {
                        if name.handle != handle {
                            self.delete_unnamed(&name).await;
                        }
                    }
                    return Ok(handle);
                }
                Sealed::Composed(changes) => stored.change(&changes),
            }
        }
    }

    /// Deletes what no row names.
    pub(crate) async fn delete_unnamed(&self, name: &StoredName) {
        if let Err(error) = self.parts().stores.vault.delete(name).await {
            tracing::warn!(media = %name.media, %error, "left for the sweep to delete");
        }
    }

    /// Returns the digests of sealed media with this progress. Reads the media.
    ///
    /// # Errors
    /// The vault's.
    pub(crate) async fn digests_of_sealed(
        &self,
        name: &StoredName,
        progress: &Progress,
        wanted: Wanted,
    ) -> Result<Digests, Error> {
        let parts = self.parts();
        // Without a timeout: the whole media is there, and a refusal would waste it.
        let _permit = parts.media_reads.acquire(1).await;
        let vault = &parts.stores.vault;
        let read_len = vault.hints().read_len;
        let mut reader = vault.read(name, 0..progress.offset).await?;
        let mut hasher = Box::new(Md5Sha256Hasher::new(wanted));
        loop {
            let bytes = reader.next(read_len).await?;
            if bytes.is_empty() {
                let (md5, sha256) = hasher.finish();
                return Ok(Digests {
                    crc32c: progress.crc32c,
                    md5,
                    sha256,
                });
            }
            // Hashing is bound by the processor and would block a worker thread of the runtime.
            let task = tokio::task::spawn_blocking(move || hash(hasher, &[bytes]));
            hasher = task
                .await
                .map_err(|panic| VaultError::Fault(Arc::new(panic)))?;
        }
    }
}
