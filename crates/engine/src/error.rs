//! Why the engine refuses or cannot complete work on an upload.

use std::any::Any;
use std::time::Duration;

use windlass_digest::{DigestMismatch, ExpectedDigestsError};
use windlass_session::SessionError;
use windlass_store::{LedgerError, MediaId, Superseded, VaultError};

use crate::pool::Full;

/// Why work on an upload is refused or has failed. The message is meant for the client.
///
/// - An error with a time of [`Error::retry_after`]: the caller repeats the request after that time.
/// - [`Error::Superseded`]: the caller queries the committed offset and continues there.
/// - [`Error::MediaLost`]: the caller uploads the media again.
/// - [`LedgerError::Conflict`]: the caller reads the current state and decides anew.
/// - [`LedgerError::KeyTooLong`]: the caller chooses a shorter name.
/// - Any other error of the stores: the operator has to act.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A newer request has taken the session over.
    #[error("a newer request to the same upload session has taken over")]
    Superseded,
    /// An older request to the session has not ended in time.
    #[error("an older request to the same upload session is still being stored; try again")]
    Busy,
    /// The server has copied too many bytes for the caller.
    #[error(
        "the server would copy {bytes} bytes for this request, and copies {left} more for this \
         caller now; try again later, or upload the media instead (limits.copies_per_hour)"
    )]
    TooManyCopies {
        /// Number of bytes that the request would copy.
        bytes: u64,
        /// Number of bytes that may be copied now.
        left: u64,
        /// Seconds after which to ask again, at most an hour. More bytes than an hour allows are
        /// never copied.
        retry_after: u32,
    },
    /// The source of quotas has failed, or has not answered in time
    /// ([`QuotaSource`](crate::quotas::QuotaSource)).
    #[error("the server cannot learn the limits of the principal now; try again")]
    QuotaUnknown,
    /// The server is stopping.
    #[error("the server is stopping; try again")]
    Draining,
    /// A limit on the resources that clients can make the server hold is reached.
    #[error(transparent)]
    Full(#[from] Full),
    /// The disk is nearly full.
    #[error("the server's disk has no space for this request; try again later")]
    NoSpace,
    /// The media of a session or a resource does not exist any more.
    #[error("media {0} is lost; upload it again")]
    MediaLost(MediaId),
    /// The session is unknown or has expired.
    #[error("the upload session does not exist or has expired; start a new upload")]
    NotFound,
    /// The session was started in another dialect.
    #[error("the upload session was started by another upload protocol; continue it by that one")]
    OtherDialect,
    /// All bytes are committed, and the resource is not made yet.
    #[error("the upload is complete and its resource is being created; query it again")]
    FinishPending,
    /// A finished upload cannot be cancelled.
    #[error("the upload is finished and cannot be cancelled; delete its resource instead")]
    AlreadyFinished,
    /// The session has been cancelled before.
    #[error("the upload has been cancelled before")]
    AlreadyCancelled,
    /// The rules of the session refuse the request.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The media has other digests than the client states.
    #[error(transparent)]
    DigestMismatch(#[from] DigestMismatch),
    /// The client states digests that contradict each other.
    #[error(transparent)]
    ExpectedDigests(#[from] ExpectedDigestsError),
    /// The stream of a request to a session broke. The received bytes are kept.
    #[error("the request was interrupted: {0}; query the committed range and continue from there")]
    Interrupted(Box<Self>),
    /// A stream of media cannot be read.
    #[error("the media cannot be read: {0}")]
    Stream(#[from] std::io::Error),
    /// Too many requests change the same resource.
    #[error("too many calls change the same resource at once; try again")]
    Crowded,
    /// What the engine is used by refuses the request: a [`Completion`](crate::Completion), or a
    /// [`MediaStream`](crate::MediaStream).
    #[error("{0}")]
    Refused(Box<dyn Refusal>),
    /// The ledger failed, or refused a change.
    #[error("{}", ledger_problem(.0))]
    Ledger(#[from] LedgerError),
    /// The vault failed.
    #[error("the server cannot read or store media now; try again")]
    Vault(#[from] VaultError),
}

impl Error {
    /// Returns the time after which the same request may succeed. `None` if a repetition does not
    /// help, or if the client first has to ask for the state of its session.
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = match self {
            Self::Busy | Self::Full(_) | Self::Crowded => 1,
            Self::Draining => 2,
            Self::QuotaUnknown => 5,
            Self::NoSpace => 30,
            Self::TooManyCopies { retry_after, .. } => *retry_after,
            Self::Superseded
            | Self::MediaLost(_)
            | Self::NotFound
            | Self::OtherDialect
            | Self::FinishPending
            | Self::AlreadyFinished
            | Self::AlreadyCancelled
            | Self::Session(_)
            | Self::DigestMismatch(_)
            | Self::ExpectedDigests(_)
            | Self::Interrupted(_)
            | Self::Stream(_) => return None,
            Self::Refused(refusal) => return refusal.retry_after(),
            Self::Ledger(error) => return StoreError::Ledger(error).retry_after(),
            Self::Vault(error) => return StoreError::Vault(error).retry_after(),
        };
        Some(Duration::from_secs(seconds.into()))
    }

    /// Whether the upload itself causes the error, so that a second attempt would fail as well.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Session(_)
            | Self::DigestMismatch(_)
            | Self::ExpectedDigests(_)
            | Self::Ledger(LedgerError::KeyTooLong) => true,
            Self::Refused(refusal) => refusal.is_permanent(),
            _ => false,
        }
    }

    /// Whether the disk was full and nothing else went wrong.
    fn is_full_disk(&self) -> bool {
        matches!(
            self,
            Self::NoSpace
                | Self::Vault(VaultError::NoSpace { .. })
                | Self::Ledger(LedgerError::NoSpace)
        )
    }

    /// Whether the bytes that were written without an error can still be synced and committed.
    pub(crate) fn keeps_what_is_durable(&self) -> bool {
        self.is_full_disk() || self.is_over_quota() || self.is_passing()
    }

    /// Whether a store could not be used for a moment, and nothing else went wrong. What is durable
    /// can still be committed.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Ledger(LedgerError::Unavailable(_)) => true,
            // A superseded writer stays superseded.
            Self::Vault(VaultError::Unavailable { cause, .. }) => !cause.is::<Superseded>(),
            _ => false,
        }
    }

    /// Whether committed bytes of the media that the error names cannot be found.
    pub(crate) fn is_media_lost(&self) -> bool {
        matches!(
            self,
            Self::MediaLost(_) | Self::Vault(VaultError::Missing(_) | VaultError::Damaged { .. })
        )
    }

    /// Whether another writer has taken the session or its media.
    pub(crate) fn is_fenced(&self) -> bool {
        match self {
            Self::Ledger(error) => matches!(error, LedgerError::Fenced),
            Self::Vault(VaultError::Unavailable { cause, .. }) => cause.is::<Superseded>(),
            _ => false,
        }
    }

    /// Whether the owner has reached its quota, or the caller its limit on copies.
    pub fn is_over_quota(&self) -> bool {
        matches!(
            self,
            Self::Ledger(LedgerError::OverQuota) | Self::TooManyCopies { .. }
        )
    }
}

fn ledger_problem(error: &LedgerError) -> &'static str {
    match error {
        LedgerError::KeyTooLong => {
            "a name in the call is too long: with the name of its collection it has more than 2,048 bytes"
        }
        LedgerError::OverQuota => {
            "the principal has reached its limit of open uploads or of stored bytes; finish or cancel uploads, \
             or delete resources"
        }
        _ => "the server cannot read or store data now; try again",
    }
}

/// The error of a store that another error consists of.
#[derive(Debug, Clone, Copy)]
pub enum StoreError<'a> {
    /// The ledger's.
    Ledger(&'a LedgerError),
    /// The vault's.
    Vault(&'a VaultError),
}

impl StoreError<'_> {
    /// Returns the time after which the same request may succeed. `None` if a repetition does not
    /// help.
    pub fn retry_after(self) -> Option<Duration> {
        let seconds = match self {
            Self::Ledger(LedgerError::Fenced | LedgerError::Held) => 1,
            Self::Ledger(
                LedgerError::Unavailable(_) | LedgerError::Unknown(_) | LedgerError::Fault(_),
            )
            | Self::Vault(VaultError::Fault(_) | VaultError::Unavailable { .. }) => 5,
            Self::Ledger(LedgerError::NoSpace) | Self::Vault(VaultError::NoSpace { .. }) => 30,
            Self::Ledger(LedgerError::OverQuota) => 60,
            Self::Ledger(
                LedgerError::Conflict
                | LedgerError::TooMuchMedia
                | LedgerError::KeyTooLong
                | LedgerError::Unreadable,
            )
            | Self::Vault(VaultError::Missing(_) | VaultError::Damaged { .. }) => return None,
        };
        Some(Duration::from_secs(seconds))
    }
}

/// An error of work on the stores. A storage fault in it stops the server
/// ([`Lifecycle::examine`](crate::lifecycle::Lifecycle::examine)).
pub trait FromStore {
    /// Returns the store's error, if this error consists of one.
    fn store_error(&self) -> Option<StoreError<'_>>;

    /// Whether a change of the ledger may have happened all the same
    /// ([`LedgerError::leaves_outcome_unknown`]). Media that the change names must be kept.
    fn leaves_outcome_unknown(&self) -> bool {
        matches!(self.store_error(), Some(StoreError::Ledger(error)) if error.leaves_outcome_unknown())
    }

    /// Whether this error is a storage fault.
    fn is_fault(&self) -> bool {
        matches!(
            self.store_error(),
            Some(
                StoreError::Ledger(LedgerError::Fault(_)) | StoreError::Vault(VaultError::Fault(_))
            )
        )
    }
}

impl FromStore for Error {
    fn store_error(&self) -> Option<StoreError<'_>> {
        match self {
            Self::Ledger(error) => Some(StoreError::Ledger(error)),
            Self::Vault(error) => Some(StoreError::Vault(error)),
            Self::Refused(refusal) => refusal.store_error(),
            _ => None,
        }
    }
}

/// Why a [`Completion`](crate::Completion) or a [`MediaStream`](crate::MediaStream) refuses a
/// request, in its own words.
pub trait Refusal: std::error::Error + FromStore + Any + Send + Sync {
    /// Whether a second attempt to finish the upload would be refused as well.
    fn is_permanent(&self) -> bool;

    /// Returns the time after which the same request may succeed. `None` if a repetition does not
    /// help, or if that is not known.
    fn retry_after(&self) -> Option<Duration> {
        None
    }
}

impl Error {
    /// Returns the refusal of type `R`, or the error unchanged.
    ///
    /// # Errors
    /// The error, if it is no refusal of this type.
    pub fn into_refusal<R: Refusal>(self) -> Result<R, Self> {
        match self {
            Self::Refused(refusal) if (&*refusal as &dyn Any).is::<R>() => {
                let refusal: Box<dyn Any> = refusal;
                let refusal = refusal.downcast().expect("its type has just been compared");
                Ok(*refusal)
            }
            other => Err(other),
        }
    }
}
