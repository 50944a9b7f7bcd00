//! What can be changed in the database, change by change.
//!
//! A change runs inside the writer's transaction and says no by an error; the writer then takes back
//! whatever it had done.

use windlass_store::{
    ChangeSet, EndSession, Epoch, LedgerError, MediaId, NewSession, OffsetCommit, SessionId,
    Timestamp,
};

use super::tables::Tables;
use crate::reserve::Purpose;

/// A change that waits for its turn.
pub(super) enum Change {
    Start(NewSession),
    OffsetCommit {
        id: SessionId,
        epoch: Epoch,
        advance: OffsetCommit,
    },
    End {
        id: SessionId,
        epoch: Epoch,
        end: EndSession,
    },
    Apply(ChangeSet),
    Expire {
        now: Timestamp,
        limit: usize,
    },
    ForgetGarbage(Vec<MediaId>),
    /// Makes the database shorter by some of the pages that hold nothing.
    Shrink,
    /// Anything a test wants to happen inside the transaction.
    #[cfg(test)]
    Any(super::tests::AnyChange),
}

/// Why a change was not made.
#[derive(Debug)]
pub(super) enum ChangeError {
    /// The contract says no.
    Refused(Refusal),
    /// The database did not do it.
    Sqlite(rusqlite::Error),
}

/// An answer that is no fault: the ledger goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    Fenced,
    Conflict,
    NoSpace,
    Busy,
    Unreadable,
}

impl From<Refusal> for LedgerError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Fenced => Self::Fenced,
            Refusal::Conflict => Self::Conflict,
            Refusal::NoSpace => Self::NoSpace,
            Refusal::Busy => Self::Busy,
            Refusal::Unreadable => Self::Unreadable,
        }
    }
}

impl From<Refusal> for ChangeError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<rusqlite::Error> for ChangeError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Change {
    /// Makes the change. Returns the sessions that are forgotten with it, which only expiry does.
    pub(super) fn run(&self, to: &Tables<'_>) -> Result<Vec<SessionId>, ChangeError> {
        match self {
            Self::Start(session) => to.start(session)?,
            Self::OffsetCommit { id, epoch, advance } => to.commit_offset(*id, *epoch, advance)?,
            Self::End { id, epoch, end } => to.end(*id, *epoch, *end)?,
            Self::Apply(changes) => to.apply(changes)?,
            Self::Expire { now, limit } => return to.expire(*now, *limit),
            Self::ForgetGarbage(ids) => to.forget_garbage(ids)?,
            Self::Shrink => to.shrink()?,
            #[cfg(test)]
            Self::Any(change) => (change.work)(to.connection)?,
        }
        Ok(Vec::new())
    }

    /// What the reserve may be used for, if this change may use it: never to take more room.
    pub(super) fn purpose(&self) -> Option<Purpose> {
        match self {
            Self::End { .. } | Self::Expire { .. } | Self::ForgetGarbage(_) => {
                Some(Purpose::MakeRoom)
            }
            Self::Apply(changes) if changes.makes_room() => Some(Purpose::MakeRoom),
            Self::Apply(changes) if changes.finish.is_some() => Some(Purpose::Finish),
            Self::OffsetCommit { advance, .. } if advance.small_media.is_none() => {
                Some(Purpose::Finish)
            }
            // The disk has the room only after a checkpoint: until then a shorter database takes more.
            Self::Start(_) | Self::OffsetCommit { .. } | Self::Apply(_) | Self::Shrink => None,
            #[cfg(test)]
            Self::Any(change) => change.purpose,
        }
    }

    /// Whether the database has fewer pages afterwards.
    pub(super) fn shrinks(&self) -> bool {
        matches!(self, Self::Shrink)
    }

    /// The lease that the change is made under; its epoch is in the row afterwards.
    pub(super) fn lease(&self) -> Option<(SessionId, Epoch)> {
        match self {
            Self::OffsetCommit { id, epoch, .. } | Self::End { id, epoch, .. } => {
                Some((*id, *epoch))
            }
            Self::Apply(ChangeSet {
                finish: Some(finish),
                ..
            }) => Some((finish.id, finish.epoch)),
            _ => None,
        }
    }
}
