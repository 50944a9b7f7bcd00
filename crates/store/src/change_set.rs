//! Changes of the ledger that are made in one transaction.

use std::fmt;

use bytes::Bytes;

use crate::records::{
    Lease, MAX_KEY_LEN, MediaId, MediaLocation, MediaRef, Progress, Resource, SessionId,
    StoredName, Timestamp,
};

/// A session to be finished by a change set, together with the resource that it yields.
#[derive(Clone)]
pub struct FinishSession {
    /// Session to finish.
    pub id: SessionId,
    /// The lease under which it is finished.
    pub lease: Lease,
    /// Final progress.
    pub progress: Progress,
    /// Reply to be repeated from now on. Opaque to the ledger.
    pub reply: Vec<u8>,
    /// The handle of its media, as [`Vault::seal`](crate::Vault::seal) has returned it.
    pub handle: Bytes,
    /// Numbers of the extents that are no part of the sealed media. Their names become garbage. The
    /// other extents are forgotten.
    pub left: Vec<u32>,
}

/// Hides the reply, which may hold a secret, such as an upload token.
impl fmt::Debug for FinishSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FinishSession")
            .field("id", &self.id)
            .field("lease", &self.lease)
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}

/// Changes that are made in one transaction.
#[derive(Debug, Clone, Default)]
pub struct ChangeSet {
    /// Resources that the caller has only read, as it has read them. They are compared before the
    /// first change.
    pub expect: Vec<Expected>,
    /// Collections that must have no resource after the last change. For example, a caller that
    /// deletes a bucket names the collection of its objects here, so that no object survives that
    /// was created meanwhile. [`ChangeSet::expect`] cannot express this: it names single resources.
    ///
    /// Each change set that inserts into such a collection must expect or change a row that this one
    /// changes, such as the bucket's: a ledger of several processes finds only rows that are there.
    pub expect_empty: Vec<String>,
    /// Changes of resources, in order.
    pub resources: Vec<ResourceChange>,
    /// Id and bytes of media to be stored in the ledger. If a session stores media there under the
    /// same id, its bytes are replaced.
    pub small_media: Option<(MediaId, Bytes)>,
    /// Media in the vault that was uploaded with the call. No row needs to reference it yet.
    pub new_media: Option<StoredName>,
    /// Media that comes in addition to [`ChangeSet::small_media`] and [`ChangeSet::new_media`],
    /// such as a thumbnail of an uploaded picture. At most [`MAX_ADDED_MEDIA`].
    ///
    /// A list of its own, so that a change set with the upload's media alone allocates nothing for
    /// media.
    pub added_media: Vec<AddedMedia>,
    /// Session that the change set finishes.
    pub finish: Option<FinishSession>,
    /// The last time at which the change set may be made, by the ledger's clock; `None` at any time.
    /// Set it if the change set brings media that no session names, to the time that
    /// [`Ledger::deadline`](crate::Ledger::deadline) has told before the media was written.
    pub not_after: Option<Timestamp>,
}

/// Maximum number of [`ChangeSet::added_media`]. The ledger refuses a change set with more.
pub const MAX_ADDED_MEDIA: usize = 16;

/// Media that a change set brings in addition to the upload's media.
#[derive(Debug, Clone)]
pub enum AddedMedia {
    /// Media to be stored in the ledger. If the ledger has media with this id, its bytes are
    /// replaced.
    Small {
        /// Id of the media.
        id: MediaId,
        /// All bytes of the media.
        bytes: Bytes,
    },
    /// Media that was made durable in the vault. No row needs to reference it yet.
    Vault(StoredName),
}

impl AddedMedia {
    /// Returns the number of bytes that the ledger stores for all of these media.
    pub fn all_bytes_in_ledger(media: &[Self]) -> usize {
        media.iter().map(Self::bytes_in_ledger).sum()
    }

    /// Returns the number of bytes that the ledger stores for the media: none for media in the
    /// vault, whose writer has counted its bytes.
    pub fn bytes_in_ledger(&self) -> usize {
        match self {
            Self::Small { bytes, .. } => bytes.len(),
            Self::Vault(_) => 0,
        }
    }

    /// Returns the id of the media, and where its bytes are stored.
    pub fn media(&self) -> MediaRef {
        let (id, location) = match self {
            Self::Small { id, .. } => (*id, MediaLocation::Ledger),
            Self::Vault(name) => (name.media, MediaLocation::Vault),
        };
        MediaRef { id, location }
    }
}

/// Maximum number of bytes per deleted resource that a change set may write and still count as
/// making space: see [`ChangeSet::makes_space`]. Deleting a message, for example, also rewrites the
/// row of its thread.
const WRITTEN_PER_DELETE: usize = 64 << 10;

impl ChangeSet {
    /// Returns the media that comes with the change set, and that no row needs to reference before:
    /// [`ChangeSet::small_media`], [`ChangeSet::new_media`], [`ChangeSet::added_media`], and the
    /// media of the session that it finishes.
    pub fn incoming_media(&self) -> impl Iterator<Item = MediaRef> {
        let in_ledger = self.small_media.as_ref().map(|(id, _)| MediaRef {
            id: *id,
            location: MediaLocation::Ledger,
        });
        let in_vault = self.new_media.as_ref().map(|name| MediaRef {
            id: name.media,
            location: MediaLocation::Vault,
        });
        let of_session = self.finish.as_ref().and_then(|it| it.progress.media);
        let own = [in_ledger, in_vault, of_session].into_iter().flatten();
        own.chain(self.added_media.iter().map(AddedMedia::media))
    }

    /// Returns the names of media in the vault that comes with the change set.
    pub fn names(&self) -> impl Iterator<Item = StoredName> {
        let of_session = self.finish.as_ref().and_then(|finish| {
            let media = finish.progress.media?;
            let in_vault = media.location == MediaLocation::Vault;
            in_vault.then(|| StoredName {
                media: media.id,
                handle: finish.handle.clone(),
            })
        });
        let added = self.added_media.iter().filter_map(|media| match media {
            AddedMedia::Vault(name) => Some(name.clone()),
            AddedMedia::Small { .. } => None,
        });
        self.new_media
            .iter()
            .cloned()
            .chain(of_session)
            .chain(added)
    }

    /// Returns the ids and the bytes of all media to be stored in the ledger.
    pub fn incoming_small_media(&self) -> impl Iterator<Item = (MediaId, &Bytes)> {
        let own = self.small_media.iter().map(|(id, bytes)| (*id, bytes));
        let added = self.added_media.iter().filter_map(|media| match media {
            AddedMedia::Small { id, bytes } => Some((*id, bytes)),
            AddedMedia::Vault(_) => None,
        });
        own.chain(added)
    }

    /// Returns whether it has more than [`MAX_ADDED_MEDIA`].
    pub fn has_too_much_media(&self) -> bool {
        self.added_media.len() > MAX_ADDED_MEDIA
    }

    /// Returns whether it inserts a resource with a key of more than [`MAX_KEY_LEN`] bytes.
    pub fn has_too_long_key(&self) -> bool {
        let mut inserted = self.resources.iter().filter_map(|change| match change {
            ResourceChange::Insert(resource) => Some(resource),
            ResourceChange::Replace { .. } | ResourceChange::Delete { .. } => None,
        });
        inserted.any(|resource| resource.key_len() > MAX_KEY_LEN)
    }

    /// Returns whether the change set counts as making space. Such change sets must be possible on
    /// a full disk.
    ///
    /// It must delete more resources than it inserts, or as many if it replaces none. It must bring
    /// no small media, and write at most 64 KiB for each deleted resource. This is a rule of thumb:
    /// the sizes of the deleted rows are not known here.
    pub fn makes_space(&self) -> bool {
        let (mut inserts, mut replaces, mut deletes, mut bytes) = (0, 0, 0, 0);
        for change in &self.resources {
            match change {
                ResourceChange::Insert(_) => inserts += 1,
                ResourceChange::Replace { .. } => replaces += 1,
                ResourceChange::Delete { .. } => deletes += 1,
            }
            bytes += change.payload();
        }
        let has_more_deletes = deletes > inserts || (deletes == inserts && replaces == 0);
        deletes > 0
            && has_more_deletes
            && self.incoming_small_media().next().is_none()
            && bytes <= deletes * WRITTEN_PER_DELETE
    }

    /// Returns the number of rows that it writes.
    pub fn rows(&self) -> usize {
        self.resources.len()
            + self.incoming_small_media().count()
            + usize::from(self.finish.is_some())
    }

    /// Returns the number of bytes that it writes, apart from the overhead of rows.
    pub fn payload(&self) -> usize {
        let resources: usize = self.resources.iter().map(ResourceChange::payload).sum();
        let media = self.incoming_small_media();
        let media: usize = media.map(|(_, bytes)| bytes.len()).sum();
        let reply = self.finish.as_ref().map_or(0, |finish| finish.reply.len());
        resources + media + reply
    }
}

/// A resource as the caller of [`Ledger::apply`](crate::Ledger::apply) has read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// Collection of the resource.
    pub collection: String,
    /// Id in the collection.
    pub id: String,
    /// Number of its version; `None` if it does not exist.
    pub version: Option<u64>,
}

impl Expected {
    /// Expects that a resource which was read has not changed.
    pub fn unchanged(resource: &Resource) -> Self {
        Self {
            collection: resource.collection.clone(),
            id: resource.id.clone(),
            version: Some(resource.version),
        }
    }

    /// Expects that there is no resource with this id.
    pub fn absent(collection: impl Into<String>, id: impl Into<String>) -> Self {
        Self {
            collection: collection.into(),
            id: id.into(),
            version: None,
        }
    }
}

/// A change of one resource.
#[derive(Debug, Clone)]
pub enum ResourceChange {
    /// Inserts a new resource.
    Insert(Resource),
    /// Replaces a resource by its next version.
    Replace {
        /// The next version. Its `version` is `expected + 1`.
        resource: Resource,
        /// Number of the version that is replaced.
        expected: u64,
    },
    /// Deletes a resource.
    Delete {
        /// Collection of the resource.
        collection: String,
        /// Id in the collection.
        id: String,
        /// Number of the version that is deleted.
        expected: u64,
    },
}

impl ResourceChange {
    /// Returns the owner of the resource after the change.
    pub fn owner(&self) -> Option<&str> {
        match self {
            Self::Insert(resource) | Self::Replace { resource, .. } => resource.owner.as_deref(),
            Self::Delete { .. } => None,
        }
    }

    /// Returns the media that the resource references after the change.
    pub fn media(&self) -> Option<MediaRef> {
        match self {
            Self::Insert(resource) | Self::Replace { resource, .. } => {
                resource.media.as_ref().map(|media| media.at)
            }
            Self::Delete { .. } => None,
        }
    }

    /// Returns the number of bytes that it writes, apart from the overhead of the row.
    fn payload(&self) -> usize {
        match self {
            Self::Insert(resource) | Self::Replace { resource, .. } => {
                resource.collection.len() + resource.id.len() + resource.body.len()
            }
            Self::Delete { .. } => 0,
        }
    }

    /// Returns whether the resource references `media` after the change.
    pub fn references(&self, media: MediaRef) -> bool {
        self.media() == Some(media)
    }
}
