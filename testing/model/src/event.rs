//! The events between two states, and their text for a reader.

use crate::bytes::{Bytes, Version};
use crate::ledger::{Change, ChangeKind};
use crate::state::{LateOperation, State};
use crate::store::{Extent, Lease, NameId, Place, Upload};

/// An event between two states.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Lands(LateOperation),
    LeaseExpires,
    SessionExpires,
    ResourceDeleted,
    StandbyCaughtUp,
    FailedOver,
    /// Garbage is deleted. `again`: the deletion lands once more, later.
    GarbageDeleted {
        name: NameId,
        again: bool,
    },
    /// The sweep deletes a name that no row knows.
    OrphanSwept {
        name: NameId,
        again: bool,
    },
    LeaseTaken {
        lease: Lease,
        offset: u8,
    },
    /// The holder of a lease acts. `received`: it acts on this request, which has just arrived.
    Acts {
        lease: Lease,
        received: Option<Request>,
        action: Action,
    },
}

/// A request with bytes of the media.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) from: u8,
    pub(crate) to: u8,
    pub(crate) version: Version,
}

/// An action of the holder of a lease, or its end.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Dies,
    IsCancelled,
    FindsNoTail,
    /// `again`: the PUT lands once more, later.
    Puts {
        extent: Extent,
        again: bool,
    },
    FindsUploadGone(Extent),
    DiesDuringPut(Extent),
    CompletesBeforeCommit(NameId),
    Changes(ChangeKind),
    IsFenced(ChangeKind),
    LosesOutcome(ChangeKind),
    DeletesDropped(Vec<NameId>),
    Completes(NameId),
    DiesDuringComplete(NameId),
    CannotComplete(NameId),
    HasRunAsMedia,
    FindsSourceGone,
    BeginsToCompose,
    Composes {
        object: Extent,
        again: bool,
    },
    IsRefusedByHandler,
}

/// The labels of a state's names in a counterexample. A name keeps its label, although each step
/// numbers the names again.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    labels: Vec<String>,
    made: usize,
}

impl Labels {
    /// Gives labels to the names that a step has made.
    pub(crate) fn add_new(&mut self, state: &State) {
        for name in state.store.names.iter().skip(self.labels.len()) {
            self.made += 1;
            let kind = match name.upload {
                Upload::None => "object",
                Upload::Open | Upload::Completed | Upload::Aborted => "upload",
            };
            self.labels.push(format!("{kind} {}", self.made));
        }
    }

    /// Follows a new numbering. `old_ids` has the old id of each name.
    pub(crate) fn renumber(&mut self, old_ids: &[NameId]) {
        let labels = old_ids.iter().map(|id| self.of(*id).to_owned());
        self.labels = labels.collect();
    }

    pub(crate) fn of(&self, id: NameId) -> &str {
        &self.labels[id.index()]
    }

    /// Describes an event.
    pub(crate) fn event(&self, event: &Event) -> String {
        match event {
            Event::Lands(operation) => format!("late, {}", self.late(operation)),
            Event::LeaseExpires => "the deadline of the lease passes".to_owned(),
            Event::SessionExpires => "the session expires".to_owned(),
            Event::ResourceDeleted => "the resource is deleted".to_owned(),
            Event::StandbyCaughtUp => "the standby has the last write".to_owned(),
            Event::FailedOver => "the ledger fails over to a standby without the last write".into(),
            Event::GarbageDeleted { name, again } => {
                let name = self.of(*name);
                format!("{name} is deleted as garbage{}", lands_again(*again))
            }
            Event::OrphanSwept { name, again } => {
                let name = self.of(*name);
                format!("the sweep deletes {name}{}", lands_again(*again))
            }
            Event::LeaseTaken { lease, offset } => {
                format!("a replica takes lease {} at offset {offset}", lease.0)
            }
            Event::Acts {
                lease,
                received,
                action,
            } => {
                let request = received.map(request).unwrap_or_default();
                format!("lease {}: {request}{}", lease.0, self.action(action))
            }
        }
    }

    fn action(&self, action: &Action) -> String {
        match action {
            Action::Dies => "dies".to_owned(),
            Action::IsCancelled => "the client cancels".to_owned(),
            Action::FindsNoTail => "finds no tail in the store".to_owned(),
            Action::Puts { extent, again } => {
                format!("puts {}{}", self.extent(*extent), lands_again(*again))
            }
            Action::FindsUploadGone(extent) => {
                format!("finds that {} is gone", self.of(extent.name))
            }
            Action::DiesDuringPut(extent) => {
                format!("dies; its PUT of {} is under way", self.extent(*extent))
            }
            Action::CompletesBeforeCommit(name) => {
                format!("completes {} before the commit", self.of(*name))
            }
            Action::Changes(kind) => self.change(kind),
            Action::IsFenced(kind) => format!("is fenced: {}", self.change(kind)),
            Action::LosesOutcome(kind) => {
                format!("sends and gets no answer: {}", self.change(kind))
            }
            Action::DeletesDropped(names) => {
                let names: Vec<&str> = names.iter().map(|name| self.of(*name)).collect();
                format!("deletes what its commit dropped: {}", names.join(", "))
            }
            Action::Completes(name) => format!("completes {}", self.of(*name)),
            Action::DiesDuringComplete(name) => {
                format!("dies; its Complete of {} is under way", self.of(*name))
            }
            Action::CannotComplete(name) => format!("cannot complete {}", self.of(*name)),
            Action::HasRunAsMedia => "the object of one run is the media".to_owned(),
            Action::FindsSourceGone => "finds that a source is gone".to_owned(),
            Action::BeginsToCompose => "chooses a name for the composed media".to_owned(),
            Action::Composes { object, again } => {
                format!("composes {}{}", self.extent(*object), lands_again(*again))
            }
            Action::IsRefusedByHandler => "the handler refuses the media".to_owned(),
        }
    }

    fn late(&self, operation: &LateOperation) -> String {
        match operation {
            LateOperation::Put(extent) => format!("a PUT lands: {}", self.extent(*extent)),
            LateOperation::Complete(name, _) => format!("a Complete of {} lands", self.of(*name)),
            LateOperation::Delete(name) => format!("a deletion of {} lands", self.of(*name)),
            LateOperation::Change(Change { lease, kind, .. }) => {
                format!(
                    "a statement of lease {} lands: {}",
                    lease.0,
                    self.change(kind)
                )
            }
        }
    }

    fn change(&self, kind: &ChangeKind) -> String {
        match kind {
            ChangeKind::Commit {
                extents,
                dropped,
                is_last,
            } => {
                let extents: Vec<String> = extents.iter().map(|it| self.extent(*it)).collect();
                let mut text = format!("commit of {}", extents.join(" + "));
                for name in dropped {
                    text += ", which drops ";
                    text += self.of(*name);
                }
                text + if *is_last {
                    "; the session is finishing"
                } else {
                    ""
                }
            }
            ChangeKind::Sealed(object) => format!("commit of the media: {}", self.extent(*object)),
            ChangeKind::Apply(resource) => {
                format!("the resource is made with {}", self.of(resource.media))
            }
            ChangeKind::Cancel => "the session is cancelled".to_owned(),
            ChangeKind::Reject => "the session is ended as refused".to_owned(),
            ChangeKind::Lose => "the session is ended as lost (410)".to_owned(),
        }
    }

    /// Describes the place of an extent and its bytes.
    pub(crate) fn extent(&self, extent: Extent) -> String {
        let Extent { name, place, bytes } = extent;
        let name = self.of(name);
        match place {
            Place::Part(cell) => format!("part {} of {name} with {bytes}", cell + 1),
            Place::Object => format!("{name} with {bytes}"),
        }
    }
}

fn request(request: Request) -> String {
    let Request { from, to, version } = request;
    let version = Bytes::of(to - from, version);
    format!("receives {version} for {from}..{to}, ")
}

fn lands_again(again: bool) -> &'static str {
    if again {
        "; it will land once more"
    } else {
        ""
    }
}
