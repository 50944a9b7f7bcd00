//! The contract of the database.

use async_trait::async_trait;
use bytes::Bytes;

use crate::Cause;
use crate::records::{
    Epoch, MediaId, MediaLocation, MediaRef, NewSession, Progress, Resource, Session, SessionId,
    SessionState, Timestamp,
};
use crate::vault::Space;

/// The database: sessions, resources, small media, and the list of media to be deleted.
///
/// Every method that changes something returns only when the change is durable, with the one
/// exception of [`Ledger::lease`]. A change is applied whole or not at all.
///
/// # Cancel safety
///
/// Dropping the future of a change leaves it undecided, never half-applied: it happens whole or
/// not at all, and the next read tells.
#[async_trait]
pub trait Ledger: Send + Sync + 'static {
    /// Inserts a session: state active, offset 0, epoch 0.
    ///
    /// # Errors
    /// [`LedgerError::Conflict`] when the id is taken.
    async fn start(&self, session: NewSession) -> Result<(), LedgerError>;

    /// The session, in whatever state it is, if the ledger still has it.
    async fn session(&self, id: SessionId) -> Result<Option<Session>, LedgerError>;

    /// Takes the right to append to, finish or end a session: raises its epoch and returns the
    /// session as it then is. `None` when there is no such session.
    ///
    /// The new epoch is in force at once for every later call but need not survive a crash: a
    /// crash ends all leases anyway. A session that has ended is returned as it is, its epoch
    /// unchanged.
    async fn lease(&self, id: SessionId) -> Result<Option<Session>, LedgerError>;

    /// Commits progress under a lease.
    ///
    /// # Errors
    /// [`LedgerError::Fenced`] when the session's epoch is not `epoch`, its offset is not
    /// `advance.from`, the new offset lies before that, or it is neither active nor finishing.
    /// Nothing has changed then.
    async fn commit_offset(
        &self,
        id: SessionId,
        epoch: Epoch,
        advance: OffsetCommit,
    ) -> Result<(), LedgerError>;

    /// Ends a session without a resource, under a lease. Its media goes to the garbage list (or is
    /// deleted, when it is in the ledger) in the same transaction. Its context is forgotten: it may be
    /// large, and the row stays until the session expires.
    ///
    /// # Errors
    /// [`LedgerError::Fenced`] when the epoch is not `epoch` or the session has ended already.
    async fn end(&self, id: SessionId, epoch: Epoch, end: EndSession) -> Result<(), LedgerError>;

    /// Applies a change set in one transaction.
    ///
    /// A finished session names no media any more: from then on it is the resource's. Media that
    /// the session or the change set brought and no resource names is let go as well.
    ///
    /// The media of a resource that is replaced (when the new version has another) or deleted goes
    /// to the garbage list, or is deleted when it is in the ledger.
    ///
    /// # Errors
    /// [`LedgerError::Fenced`] when the session to be finished is not held under its epoch, or has
    /// ended; [`LedgerError::Conflict`] when a resource to be inserted exists, or one to be
    /// replaced or deleted is gone or has another version, or when a resource would name media that
    /// neither comes with the change set nor is named by a row: it may be deleted already. Nothing
    /// has changed then.
    async fn apply(&self, changes: ChangeSet) -> Result<(), LedgerError>;

    /// One resource.
    async fn resource(&self, collection: &str, id: &str) -> Result<Option<Resource>, LedgerError>;

    /// Up to `limit` resources of a collection in the order of their ids, from the first id that is
    /// greater than `after`.
    async fn resources(
        &self,
        collection: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Resource>, LedgerError>;

    /// The bytes of a media that is in the ledger.
    async fn small_media(&self, id: MediaId) -> Result<Option<Bytes>, LedgerError>;

    /// Up to `limit` sessions that are in state finishing, in the order of their ids, after `after`.
    async fn finishing(
        &self,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<Vec<SessionId>, LedgerError>;

    /// Forgets up to `limit` sessions whose `expires` lies before `now`, whatever their state but
    /// finishing, and puts the media of the unfinished ones on the garbage list. Returns how many.
    async fn expire(&self, now: Timestamp, limit: usize) -> Result<usize, LedgerError>;

    /// Up to `limit` media of the vault that nothing refers to any more, in the order of their ids, after
    /// `after`.
    async fn garbage(
        &self,
        after: Option<MediaId>,
        limit: usize,
    ) -> Result<Vec<MediaId>, LedgerError>;

    /// Takes media off the garbage list, after they have been deleted from the vault.
    async fn forget_garbage(&self, ids: &[MediaId]) -> Result<(), LedgerError>;

    /// Those of `ids` that no session, no resource and no garbage entry names.
    async fn unknown_media(&self, ids: &[MediaId]) -> Result<Vec<MediaId>, LedgerError>;

    /// How much room there is for further changes. Room that committed changes will still take, as when a log
    /// has them and the tables have not, is subtracted.
    async fn space(&self) -> Result<Space, LedgerError>;

    /// Fails when the ledger can no longer promise anything. Cheap; used by the readiness check.
    async fn check(&self) -> Result<(), LedgerError>;
}

/// A step forward of a session.
#[derive(Debug, Clone)]
pub struct OffsetCommit {
    /// The committed offset it starts from.
    pub from: u64,
    /// What is committed from now on. `progress.offset` is at least `from`.
    pub progress: Progress,
    /// The whole media up to `progress.offset`, when `progress.media` lies in the ledger; `None`
    /// when it lies in the vault, or in the ledger without having changed. Media that was in the
    /// ledger and is in the vault now is dropped from the ledger.
    pub small_media: Option<Bytes>,
    /// [`SessionState::Active`], or [`SessionState::Finishing`] when these were the last bytes.
    pub state: SessionState,
    /// A new moment of death, where an idle limit moves it.
    pub expires: Option<Timestamp>,
}

/// How a session ends without a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndSession {
    /// The client cancelled it.
    Cancelled,
    /// It cannot be mended.
    Failed,
}

/// The end of a session that yields a resource.
#[derive(Debug, Clone)]
pub struct FinishSession {
    /// Which one.
    pub id: SessionId,
    /// The lease it is finished under.
    pub epoch: Epoch,
    /// What is committed at the end.
    pub progress: Progress,
    /// The reply to be repeated from now on.
    pub reply: Vec<u8>,
}

/// What shall change, in one transaction.
#[derive(Debug, Clone, Default)]
pub struct ChangeSet {
    /// Changes of resources, in order.
    pub resources: Vec<ResourceChange>,
    /// Small media to be kept in the ledger, by id. Media that a session already keeps there
    /// under the same id is replaced.
    pub small_media: Option<(MediaId, Bytes)>,
    /// Media in the vault that was uploaded with the call and that no row needs to name yet.
    pub new_media: Option<MediaId>,
    /// The session that ends with it.
    pub finish: Option<FinishSession>,
}

/// Most bytes that a change set may write for each resource that it deletes and still makes room: deleting a
/// message also rewrites the row of its thread.
const WRITTEN_PER_DELETE: usize = 64 << 10;

impl ChangeSet {
    /// The media that comes with it: no row needs to name it before.
    pub fn new_media(&self) -> impl Iterator<Item = MediaRef> {
        let in_ledger = self.small_media.as_ref().map(|(id, _)| MediaRef {
            id: *id,
            location: MediaLocation::Ledger,
        });
        let in_vault = self.new_media.map(|id| MediaRef {
            id,
            location: MediaLocation::Vault,
        });
        let of_session = self.finish.as_ref().and_then(|it| it.progress.media);
        [in_ledger, in_vault, of_session].into_iter().flatten()
    }

    /// Whether the ledger needs less room afterwards, apart from its log: it deletes more resources than it
    /// inserts, or as many without changing another. Such changes must go on when a disk is full, since they are the
    /// way out of it.
    pub fn makes_room(&self) -> bool {
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
            && self.small_media.is_none()
            && bytes <= deletes * WRITTEN_PER_DELETE
    }

    /// How many rows it writes.
    pub fn rows(&self) -> usize {
        self.resources.len()
            + usize::from(self.small_media.is_some())
            + usize::from(self.finish.is_some())
    }

    /// How many bytes of the caller's it writes.
    pub fn payload(&self) -> usize {
        let resources: usize = self.resources.iter().map(ResourceChange::payload).sum();
        let media = self
            .small_media
            .as_ref()
            .map_or(0, |(_, bytes)| bytes.len());
        let reply = self.finish.as_ref().map_or(0, |finish| finish.reply.len());
        resources + media + reply
    }
}

/// One change of a resource.
#[derive(Debug, Clone)]
pub enum ResourceChange {
    /// A new one.
    Insert(Resource),
    /// A new version of an existing one.
    Replace {
        /// The new version; its `version` is one more than `expected`.
        resource: Resource,
        /// The version that it replaces.
        expected: u64,
    },
    /// An end.
    Delete {
        /// The collection.
        collection: String,
        /// The id.
        id: String,
        /// The version that is deleted.
        expected: u64,
    },
}

impl ResourceChange {
    /// The media that the resource has after the change.
    pub fn media(&self) -> Option<MediaRef> {
        match self {
            Self::Insert(resource) | Self::Replace { resource, .. } => {
                resource.media.as_ref().map(|media| media.at)
            }
            Self::Delete { .. } => None,
        }
    }

    /// How many bytes of the caller's it writes.
    fn payload(&self) -> usize {
        match self {
            Self::Insert(resource) | Self::Replace { resource, .. } => {
                resource.collection.len() + resource.id.len() + resource.body.len()
            }
            Self::Delete { .. } => 0,
        }
    }

    /// Whether the resource has this media after the change.
    pub fn names(&self, media: MediaRef) -> bool {
        self.media() == Some(media)
    }
}

/// Why the ledger did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// A newer lease, a moved offset or an ended session stands in the way. The caller has lost its
    /// right to this session and reads again before anything else.
    #[error("the session is held by a newer lease or has moved on")]
    Fenced,
    /// A unique key is taken, a version is not the expected one, or media is gone.
    #[error("the resource was changed by somebody else")]
    Conflict,
    /// The disk is full. Nothing has changed; the ledger goes on.
    #[error("no space is left for the ledger")]
    NoSpace,
    /// Another program holds the database's write lock. Nothing has changed; the ledger goes on.
    #[error("another program is writing to the ledger")]
    Busy,
    /// A row holds what no version of the store has written. The ledger goes on with all others.
    #[error("a row of the ledger cannot be read")]
    Unreadable,
    /// The ledger could not keep its promise, and never will again in this process. The caller
    /// stops acknowledging anything.
    #[error("the ledger failed")]
    Fault(#[source] Cause),
}
