//! The ledger: the row of the session, its resource and its garbage.

use crate::bytes::Bytes;
use crate::rules::{Configuration, Mutation};
use crate::store::{Extent, Lease, NameId};

/// The state of the session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Status {
    Active,
    /// All bytes are there; the media is sealed, and the handler has not been called.
    Finishing,
    Finished,
    /// Cancelled, expired or refused by the handler.
    Ended,
    /// Ended because its media was not found: the client is answered 410.
    Lost,
}

/// The resource that a finished session has made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Resource {
    pub(crate) media: NameId,
    pub(crate) bytes: Bytes,
}

/// A name that nothing needs any more.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Garbage {
    pub(crate) name: NameId,
    pub(crate) was_deleted: bool,
}

/// The session in the ledger.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Row {
    pub(crate) status: Status,
    pub(crate) lease: Lease,
    /// Whether the deadline of the lease has passed.
    pub(crate) is_lease_expired: bool,
    pub(crate) extents: Vec<Extent>,
    pub(crate) resource: Option<Resource>,
    pub(crate) garbage: Vec<Garbage>,
}

/// A change under a lease, at an offset that the holder believes in.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Change {
    pub(crate) lease: Lease,
    pub(crate) offset: u8,
    pub(crate) kind: ChangeKind,
}

/// The effect of a change.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum ChangeKind {
    /// Names the bytes of a request. `is_last`: the session is finishing then.
    Commit {
        extents: Vec<Extent>,
        dropped: Vec<NameId>,
        is_last: bool,
    },
    /// Names the composed media in place of its sources.
    Sealed(Extent),
    /// Makes the resource and finishes the session.
    Apply(Resource),
    /// The client cancels.
    Cancel,
    /// The handler refuses the media.
    Reject,
    /// The media was not found.
    Lose,
}

impl Row {
    /// The row of a session that has just been started.
    pub(crate) fn new() -> Self {
        Self {
            status: Status::Active,
            lease: Lease::default(),
            is_lease_expired: false,
            extents: Vec::new(),
            resource: None,
            garbage: Vec::new(),
        }
    }

    /// The committed bytes.
    pub(crate) fn body(&self) -> Bytes {
        Bytes::concat(self.extents.iter().map(|extent| extent.bytes))
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.status, Status::Active | Status::Finishing)
    }

    /// Whether the session or its resource needs a name.
    pub(crate) fn names(&self, id: NameId) -> bool {
        let is_media = self.resource.is_some_and(|resource| resource.media == id);
        is_media || self.extents.iter().any(|extent| extent.name == id)
    }

    /// Whether the ledger knows a name, if only as garbage.
    pub(crate) fn references(&self, id: NameId) -> bool {
        self.names(id) || self.garbage.iter().any(|garbage| garbage.name == id)
    }

    /// Makes garbage of the names that are not needed any more (rule R5).
    pub(crate) fn release(&mut self, names: impl IntoIterator<Item = NameId>) {
        for name in names {
            if !self.references(name) {
                let was_deleted = false;
                self.garbage.push(Garbage { name, was_deleted });
            }
        }
    }

    /// Ends the session with a status; its media is garbage.
    pub(crate) fn end(&mut self, status: Status) {
        let extents = std::mem::take(&mut self.extents);
        self.status = status;
        self.release(extents.into_iter().map(|extent| extent.name));
    }

    /// Returns the row after a change, or `None` if the ledger refuses the change.
    pub(crate) fn changed(&self, configuration: &Configuration, change: &Change) -> Option<Self> {
        if !self.is_held_by(configuration, change) || !self.permits(configuration, change) {
            return None;
        }
        let mut row = self.clone();
        match &change.kind {
            ChangeKind::Commit {
                extents,
                dropped,
                is_last,
            } => {
                row.extents.clone_from(extents);
                if *is_last {
                    row.status = Status::Finishing;
                }
                if !configuration.breaks(Mutation::GarbageOutsideCommit) {
                    row.release(dropped.iter().copied());
                }
            }
            ChangeKind::Sealed(object) => {
                let sources = std::mem::replace(&mut row.extents, vec![*object]);
                row.release(sources.into_iter().map(|extent| extent.name));
            }
            ChangeKind::Apply(resource) => {
                row.resource = Some(*resource);
                row.end(Status::Finished);
            }
            ChangeKind::Cancel | ChangeKind::Reject => row.end(Status::Ended),
            ChangeKind::Lose => row.end(Status::Lost),
        }
        Some(row)
    }

    /// Rules R2 and R15: the change has the row's lease, and its deadline has not passed.
    fn is_held_by(&self, configuration: &Configuration, change: &Change) -> bool {
        let is_fenced = match configuration.mutation {
            Some(Mutation::NoFence | Mutation::OffsetAlone) => false,
            Some(Mutation::GoneWithoutFence) => change.kind != ChangeKind::Lose,
            _ => true,
        };
        !is_fenced || change.lease == self.lease && !self.is_lease_expired
    }

    /// Whether the session is at a point where the change is possible.
    fn permits(&self, configuration: &Configuration, change: &Change) -> bool {
        match change.kind {
            ChangeKind::Commit { .. } => {
                let is_at_offset = self.body().len() == change.offset;
                let is_compared = !configuration.breaks(Mutation::NoFence);
                self.status == Status::Active && (is_at_offset || !is_compared)
            }
            ChangeKind::Sealed(_) | ChangeKind::Apply(_) | ChangeKind::Reject => {
                self.status == Status::Finishing
            }
            ChangeKind::Cancel => self.status == Status::Active,
            ChangeKind::Lose => self.is_open(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Version;
    use crate::configurations::designs;
    use crate::store::Place;

    fn piece(index: usize) -> Extent {
        Extent {
            name: NameId::of_index(index),
            place: Place::Object,
            bytes: Bytes::of(1, Version::Original),
        }
    }

    /// A commit under lease 1 at the start, which names one piece and drops another.
    fn commit() -> Change {
        Change {
            lease: Lease(1),
            offset: 0,
            kind: ChangeKind::Commit {
                extents: vec![piece(0)],
                dropped: vec![NameId::of_index(1)],
                is_last: false,
            },
        }
    }

    fn row_with_lease(lease: u8) -> Row {
        Row {
            lease: Lease(lease),
            ..Row::new()
        }
    }

    #[test]
    fn commit_needs_lease_deadline_and_offset() {
        let design = &designs()[0];
        assert!(row_with_lease(1).changed(design, &commit()).is_some());
        assert!(row_with_lease(2).changed(design, &commit()).is_none());
        let mut expired = row_with_lease(1);
        expired.is_lease_expired = true;
        assert!(expired.changed(design, &commit()).is_none());
        let mut longer = row_with_lease(1);
        longer.extents.push(piece(2));
        assert!(longer.changed(design, &commit()).is_none());
    }

    #[test]
    fn dropped_names_are_garbage_in_the_same_change() {
        let row = row_with_lease(1).changed(&designs()[0], &commit());
        let row = row.expect("the lease is held");
        let garbage = Garbage {
            name: NameId::of_index(1),
            was_deleted: false,
        };
        assert_eq!(row.garbage, [garbage]);
    }

    #[test]
    fn media_of_a_resource_is_not_garbage() {
        let mut row = row_with_lease(1);
        row.status = Status::Finishing;
        row.extents = vec![piece(0), piece(1)];
        let resource = Resource {
            media: NameId::of_index(0),
            bytes: row.body(),
        };
        let change = Change {
            lease: Lease(1),
            offset: 2,
            kind: ChangeKind::Apply(resource),
        };
        let row = row.changed(&designs()[0], &change);
        let row = row.expect("the lease is held");
        assert_eq!(row.status, Status::Finished);
        let garbage: Vec<NameId> = row.garbage.iter().map(|it| it.name).collect();
        assert_eq!(garbage, [NameId::of_index(1)]);
    }
}
