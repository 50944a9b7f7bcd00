//! The steps of a replica that holds a lease. Between any two steps it may pause for any time, or
//! die.

mod finish;
mod upload;

use crate::bytes::Bytes;
use crate::event::{Action, Event, Request};
use crate::ledger::{Change, ChangeKind, Resource, Row, Status};
use crate::rules::{Configuration, Mutation};
use crate::state::{LateOperation, State, Transition};
use crate::store::{Extent, Lease, NameId, Place};

/// The next step of the holder of a lease.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Step {
    /// It waits for a request.
    Ready,
    /// It puts these extents, then commits.
    Put(Vec<Extent>, Change),
    /// It completes its run before it commits: a mutation.
    CompleteFirst(Change),
    /// It sends a change to the ledger.
    Change(Change),
    /// It deletes the names that its commit has dropped: a mutation.
    DeleteDropped(Vec<NameId>),
    /// It completes the run with this index among the session's runs.
    Complete { run: usize },
    /// It composes the media.
    Compose(Extent),
}

/// The memory of a replica that holds a lease.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Holder {
    lease: Lease,
    status: Status,
    /// The ranges of the media, as the holder knows them from the ledger.
    pub(crate) extents: Vec<Extent>,
    /// The multipart upload of this lease.
    pub(crate) run: Option<NameId>,
    pub(crate) step: Step,
}

impl Holder {
    /// The holder of a row's lease.
    pub(crate) fn of_row(row: &Row) -> Self {
        let mut holder = Self {
            lease: row.lease,
            status: row.status,
            extents: row.extents.clone(),
            run: None,
            step: Step::Ready,
        };
        holder.choose_step();
        holder
    }

    /// Waits for a request, or finishes a session that has all bytes.
    fn choose_step(&mut self) {
        self.step = match (self.status, self.extents.as_slice()) {
            (Status::Active, _) => Step::Ready,
            (_, [whole]) if whole.place == Place::Object => self.apply(whole.name),
            _ => Step::Complete { run: 0 },
        };
    }

    fn body(&self) -> Bytes {
        Bytes::concat(self.extents.iter().map(|extent| extent.bytes))
    }

    /// A change under this lease, at the offset that the holder knows.
    fn change(&self, kind: ChangeKind) -> Change {
        Change {
            lease: self.lease,
            offset: self.body().len(),
            kind,
        }
    }

    /// The step that makes the resource with its media.
    fn apply(&self, media: NameId) -> Step {
        let bytes = self.body();
        Step::Change(self.change(ChangeKind::Apply(Resource { media, bytes })))
    }

    /// The cells of the parts that the session has in an upload.
    fn cells_in(&self, upload: NameId) -> Vec<u8> {
        cells_in(&self.extents, upload)
    }
}

fn cells_in(extents: &[Extent], upload: NameId) -> Vec<u8> {
    let extents = extents.iter().filter(|extent| extent.name == upload);
    let cells = extents.filter_map(|extent| match extent.place {
        Place::Part(cell) => Some(cell),
        Place::Object => None,
    });
    cells.collect()
}

/// Adds all transitions of the holder of a lease.
pub(crate) fn transitions(
    configuration: &Configuration,
    state: &State,
    index: usize,
    holder: &Holder,
    all: &mut Vec<Transition>,
) {
    let mut moves = Moves {
        configuration,
        state,
        index,
        holder,
        received: None,
        all,
    };
    moves.stop(Action::Dies, |_| {});
    match &holder.step {
        Step::Ready => moves.receive(),
        Step::Put(extents, commit) => moves.put(extents, commit),
        Step::CompleteFirst(commit) => moves.complete_first(commit),
        Step::Change(change) => moves.change(change),
        Step::DeleteDropped(names) => moves.delete_dropped(names),
        Step::Complete { run } => moves.complete(*run),
        Step::Compose(object) => moves.compose(*object),
    }
}

/// Collects the transitions of one holder in a state.
struct Moves<'a> {
    configuration: &'a Configuration,
    state: &'a State,
    /// The index of the holder among the replicas.
    index: usize,
    holder: &'a Holder,
    /// The request that has just arrived.
    received: Option<Request>,
    all: &'a mut Vec<Transition>,
}

impl Moves<'_> {
    /// The holder acts and keeps its lease.
    fn act(&mut self, action: Action, act: impl FnOnce(&mut State, &mut Holder)) {
        let mut state = self.state.clone();
        let mut holder = self.holder.clone();
        act(&mut state, &mut holder);
        state.replicas[self.index] = Some(holder);
        self.add(action, state);
    }

    /// The holder forgets the session.
    fn stop(&mut self, action: Action, act: impl FnOnce(&mut State)) {
        let mut state = self.state.clone();
        state.replicas[self.index] = None;
        act(&mut state);
        self.add(action, state);
    }

    fn add(&mut self, action: Action, state: State) {
        let event = Event::Acts {
            lease: self.holder.lease,
            received: self.received,
            action,
        };
        self.all.push(Transition { event, state });
    }

    fn may_be_late(&self) -> bool {
        self.state.may_be_late(self.configuration)
    }

    /// A change reaches the ledger, or its outcome is unknown.
    fn change(&mut self, change: &Change) {
        let mut state = self.state.clone();
        let kind = &change.kind;
        if state.change(self.configuration, change) {
            state.replicas[self.index] = self.after_change(kind);
            self.add(Action::Changes(kind.clone()), state);
        } else {
            // Rule R2: it stops, and acknowledges nothing.
            self.stop(Action::IsFenced(kind.clone()), |_| {});
        }
        if self.may_be_late() {
            let drops = self.configuration.breaks(Mutation::DropAfterUnknownCommit);
            let written = if drops {
                self.written(kind)
            } else {
                Vec::new()
            };
            // Rule R6: it stops, acknowledges nothing and deletes nothing.
            self.stop(Action::LosesOutcome(kind.clone()), |next| {
                next.begin_late(LateOperation::Change(change.clone()));
                for name in written {
                    next.store.delete(name);
                }
            });
        }
        let is_finishing = self.holder.status == Status::Finishing;
        if is_finishing && matches!(kind, ChangeKind::Apply(_)) {
            self.act(Action::IsRefusedByHandler, |_, holder| {
                holder.step = Step::Change(holder.change(ChangeKind::Reject));
            });
        }
    }

    /// The holder after its change was made; `None` after the last change of the session.
    fn after_change(&self, kind: &ChangeKind) -> Option<Holder> {
        let mut holder = self.holder.clone();
        match kind {
            ChangeKind::Commit {
                extents,
                dropped,
                is_last,
            } => {
                holder.extents.clone_from(extents);
                if *is_last {
                    holder.status = Status::Finishing;
                }
                holder.choose_step();
                let deletes = self.configuration.breaks(Mutation::GarbageOutsideCommit);
                if deletes && !dropped.is_empty() {
                    holder.step = Step::DeleteDropped(dropped.clone());
                }
            }
            ChangeKind::Sealed(object) => {
                holder.extents = vec![*object];
                holder.choose_step();
            }
            ChangeKind::Apply(_) | ChangeKind::Cancel | ChangeKind::Reject | ChangeKind::Lose => {
                return None;
            }
        }
        Some(holder)
    }

    /// The names that a commit is the first to name.
    fn written(&self, kind: &ChangeKind) -> Vec<NameId> {
        let ChangeKind::Commit { extents, .. } = kind else {
            return Vec::new();
        };
        let extents = extents.iter();
        let new = extents.filter(|extent| !self.holder.extents.contains(extent));
        new.map(|extent| extent.name).collect()
    }

    fn delete_dropped(&mut self, names: &[NameId]) {
        self.act(Action::DeletesDropped(names.to_vec()), |next, holder| {
            for name in names {
                next.store.delete(*name);
            }
            holder.choose_step();
        });
    }
}
