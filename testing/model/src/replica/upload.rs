//! The holder of an active session: it receives bytes and stores them.

use super::{Holder, Moves, Step, cells_in};
use crate::bytes::{Bytes, Version};
use crate::event::{Action, Request};
use crate::ledger::{Change, ChangeKind};
use crate::rules::{Configuration, Mutation};
use crate::state::LateOperation;
use crate::store::{Extent, Lease, NameId, Place, Purpose, Store};

impl Moves<'_> {
    /// A request arrives: the client cancels, or sends one unit up to a whole cell.
    pub(super) fn receive(&mut self) {
        self.act(Action::IsCancelled, |_, holder| {
            holder.step = Step::Change(holder.change(ChangeKind::Cancel));
        });
        let holder = self.holder;
        let from = holder.body().len();
        let longest = self.configuration.cell.min(self.configuration.total - from);
        if longest > 0 && !self.has_tail() {
            self.act(Action::FindsNoTail, |_, holder| {
                holder.step = Step::Change(holder.change(ChangeKind::Lose));
            });
            return;
        }
        for to in (from + 1)..=(from + longest) {
            self.receive_bytes(from, to, Version::Original);
            // The first lease writes each unit once, so one version is enough.
            if holder.lease > Lease(1) {
                self.receive_bytes(from, to, Version::Changed);
            }
        }
    }

    /// Whether the store has the tail, which a new holder has to read.
    fn has_tail(&self) -> bool {
        let mut pieces = pieces(self.holder);
        pieces.all(|piece| self.state.store.name(piece.name).object == piece.bytes)
    }

    /// Receives bytes and makes the first PUT. Both are one step, because nobody else sees anything
    /// of the request before the PUT.
    fn receive_bytes(&mut self, from: u8, to: u8, version: Version) {
        let mut state = self.state.clone();
        let mut holder = self.holder.clone();
        let new = Bytes::of(to - from, version);
        let (extents, commit) = plan(self.configuration, &mut state.store, &mut holder, new);
        holder.step = Step::Put(extents.clone(), commit.clone());
        state.replicas[self.index] = Some(holder.clone());
        let mut moves = Moves {
            configuration: self.configuration,
            state: &state,
            index: self.index,
            holder: &holder,
            received: Some(Request { from, to, version }),
            all: self.all,
        };
        moves.put(&extents, &commit);
    }

    /// Puts the first of the extents.
    pub(super) fn put(&mut self, extents: &[Extent], commit: &Change) {
        let [extent, rest @ ..] = extents else {
            return;
        };
        let extent = *extent;
        let step = self.after_put(rest, commit);
        let mut state = self.state.clone();
        if state.store.put(extent) {
            let mut holder = self.holder.clone();
            holder.step = step;
            state.replicas[self.index] = Some(holder);
            if self.configuration.breaks(Mutation::AcknowledgedEarly)
                && let ChangeKind::Commit { extents, .. } = &commit.kind
            {
                state.acknowledged = Bytes::concat(extents.iter().map(|it| it.bytes));
            }
            let again = false;
            self.add(Action::Puts { extent, again }, state.clone());
            if self.may_be_late() {
                // Rule R7: the same buffer, under the same name.
                state.begin_late(LateOperation::Put(extent));
                let again = true;
                self.add(Action::Puts { extent, again }, state);
            }
        } else {
            self.stop(Action::FindsUploadGone(extent), |_| {});
        }
        if self.may_be_late() {
            self.stop(Action::DiesDuringPut(extent), |next| {
                next.begin_late(LateOperation::Put(extent));
            });
        }
    }

    fn after_put(&self, rest: &[Extent], commit: &Change) -> Step {
        let is_last = matches!(commit.kind, ChangeKind::Commit { is_last: true, .. });
        if !rest.is_empty() {
            Step::Put(rest.to_vec(), commit.clone())
        } else if is_last && self.configuration.breaks(Mutation::CompleteBeforeFinishing) {
            Step::CompleteFirst(commit.clone())
        } else {
            Step::Change(commit.clone())
        }
    }

    /// Completes the run before the commit of the last bytes: a mutation.
    pub(super) fn complete_first(&mut self, commit: &Change) {
        let (Some(run), ChangeKind::Commit { extents, .. }) = (self.holder.run, &commit.kind)
        else {
            return;
        };
        self.act(Action::CompletesBeforeCommit(run), |next, holder| {
            next.store.complete(run, &cells_in(extents, run));
            holder.step = Step::Change(commit.clone());
        });
    }
}

/// The pieces of the tail, which has the bytes behind the last full cell.
fn pieces(holder: &Holder) -> impl Iterator<Item = &Extent> {
    let extents = holder.extents.iter();
    extents.filter(|extent| extent.place == Place::Object)
}

/// Returns the extents to put for new bytes, and the commit that names them. A full cell or the
/// last cell becomes a part of this lease's run. The bytes behind a full cell become a piece.
fn plan(
    configuration: &Configuration,
    store: &mut Store,
    holder: &mut Holder,
    new: Bytes,
) -> (Vec<Extent>, Change) {
    let lease = holder.lease;
    let cell = configuration.cell;
    let tail = Bytes::concat(pieces(holder).map(|piece| piece.bytes)).followed_by(new);
    let end = holder.body().len() + new.len();
    let is_last = end == configuration.total;
    let new_piece = |store: &mut Store, bytes| Extent {
        name: store.create(configuration, lease, Purpose::Piece { end }),
        place: Place::Object,
        bytes,
    };
    let mut extents = holder.extents.clone();
    let mut dropped: Vec<NameId> = Vec::new();
    let mut puts = Vec::new();
    if tail.len() < cell && !is_last {
        if configuration.breaks(Mutation::TailRewritten) {
            extents.retain(|extent| extent.place != Place::Object);
            puts.push(new_piece(store, tail));
        } else {
            puts.push(new_piece(store, new));
        }
    } else {
        dropped.extend(pieces(holder).map(|piece| piece.name));
        extents.retain(|extent| extent.place != Place::Object);
        let in_part = tail.len().min(cell);
        let piece = tail.slice(in_part..tail.len());
        let run = holder.run;
        let run = run.unwrap_or_else(|| store.create(configuration, lease, Purpose::Run));
        holder.run = Some(run);
        puts.push(Extent {
            name: run,
            place: Place::Part((end - tail.len()) / cell),
            bytes: tail.slice(0..in_part),
        });
        if !piece.is_empty() {
            puts.push(new_piece(store, piece));
        }
    }
    extents.extend(&puts);
    let commit = holder.change(ChangeKind::Commit {
        extents,
        dropped,
        is_last,
    });
    (puts, commit)
}
