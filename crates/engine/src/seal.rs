//! Media that is complete: from its extents to something that can be read.

use std::sync::Arc;

use bytes::Bytes;
use windlass_digest::{Digests, ExpectedDigests, Md5Sha256Hasher, Wanted};
use windlass_store::{
    Extent, Progress, Sealed, SessionState, StoredMedia, StoredName, Vault, VaultError,
};

use crate::checksums::hash;
use crate::completion::Completion;
use crate::engine::Engine;
use crate::error::Error;
use crate::offset_committer::OffsetCommitter;
use crate::sink::delete_unnamed;

/// The result of sealing media. Both are empty for small media.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seal {
    /// The handle of the media.
    pub(crate) handle: Bytes,
    /// Numbers of the extents that the media does not consist of.
    pub(crate) left: Vec<u32>,
}

impl OffsetCommitter {
    /// Seals the media of a session that is complete, and commits each name that the vault chooses on
    /// the way. `verify` is the last extent, if another request has written it. `state` is the
    /// session's.
    ///
    /// # Errors
    /// Those of the stores.
    pub(crate) async fn seal(
        &mut self,
        vault: &dyn Vault,
        verify: Option<Extent>,
        state: SessionState,
    ) -> Result<Seal, Error> {
        let mut stored = self.stored_media(verify);
        loop {
            match vault.seal(&stored).await? {
                Sealed::Media { handle, left } => return Ok(Seal { handle, left }),
                Sealed::Composed(changes) => {
                    self.commit_extents(changes, state).await?;
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
        let mut names = stored.names();
        let (handle, left) = loop {
            match vault.seal(stored).await? {
                Sealed::Media { handle, left } => break (handle, left),
                Sealed::Composed(changes) => {
                    stored.change(&changes);
                    names.extend(stored.names());
                }
            }
        };
        let mut parts = stored.extents.clone();
        parts.retain(|extent| !left.contains(&extent.number));
        for name in names {
            let is_part = parts.iter().any(|extent| extent.name == name.handle);
            if !is_part && name.handle != handle {
                delete_unnamed(vault, &name).await;
            }
        }
        Ok(handle)
    }

    /// Reads sealed media, computes its digests and checks them. `progress` is its last commit.
    ///
    /// # Errors
    /// The vault's, or that of a digest that is not the expected one.
    pub(crate) async fn digests_of_sealed(
        &self,
        progress: &Progress,
        handle: Bytes,
        wanted: Wanted,
        expected: &ExpectedDigests,
    ) -> Result<Digests, Error> {
        let media = progress.media.expect("a flushed sink names its media").id;
        let name = StoredName { media, handle };
        let parts = self.parts();
        // Without a timeout: the whole media is there, and a refusal would waste it.
        let _permit = parts.media_reads.acquire(1).await;
        let vault = &parts.stores.vault;
        let read_len = vault.hints().read_len;
        let mut reader = vault.read(&name, 0..progress.offset).await?;
        let mut hasher = Box::new(Md5Sha256Hasher::new(wanted));
        loop {
            let bytes = reader.next(read_len).await?;
            if bytes.is_empty() {
                let (md5, sha256) = hasher.finish();
                let digests = Digests {
                    crc32c: progress.crc32c,
                    md5,
                    sha256,
                };
                expected.check(&digests)?;
                return Ok(digests);
            }
            // Hashing is bound by the processor and would block a worker thread of the runtime.
            let task = tokio::task::spawn_blocking(move || hash(hasher, &[bytes]));
            hasher = task
                .await
                .map_err(|panic| VaultError::Fault(Arc::new(panic)))?;
        }
    }
}
