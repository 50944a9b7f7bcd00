//! The holder of a finishing session: it seals the media.

use super::{Holder, Moves, Step};
use crate::event::Action;
use crate::ledger::ChangeKind;
use crate::state::LateOperation;
use crate::store::{Extent, NameId, Place, Purpose};

impl Moves<'_> {
    /// Completes one of the session's runs. When all are complete, their objects are sealed.
    pub(super) fn complete(&mut self, index: usize) {
        let runs = runs(self.holder);
        let Some(run) = runs.get(index).copied() else {
            self.seal(&runs);
            return;
        };
        let cells = self.holder.cells_in(run);
        let mut state = self.state.clone();
        if !state.store.complete(run, &cells) {
            self.stop(Action::CannotComplete(run), |_| {});
            return;
        }
        let mut holder = self.holder.clone();
        holder.step = Step::Complete { run: index + 1 };
        state.replicas[self.index] = Some(holder);
        self.add(Action::Completes(run), state);
        if self.may_be_late() {
            self.stop(Action::DiesDuringComplete(run), |next| {
                next.begin_late(LateOperation::Complete(run, cells));
            });
        }
    }

    /// The object of the only run is the media, if it has exactly the committed bytes. Otherwise
    /// the objects of all runs and the pieces of the tail are composed under a new name.
    fn seal(&mut self, runs: &[NameId]) {
        let holder = self.holder;
        let whole = holder.body();
        let store = &self.state.store;
        if let [run] = *runs
            && store.name(run).object == whole
        {
            self.act(Action::HasRunAsMedia, |_, holder| {
                holder.step = holder.apply(run);
            });
            return;
        }
        let mut sources = holder.extents.iter();
        if sources.any(|extent| store.name(extent.name).object.is_empty()) {
            self.stop(Action::FindsSourceGone, |_| {});
            return;
        }
        let configuration = self.configuration;
        self.act(Action::BeginsToCompose, |next, holder| {
            let purpose = Purpose::Composed;
            holder.step = Step::Compose(Extent {
                name: next.store.create(configuration, holder.lease, purpose),
                place: Place::Object,
                bytes: whole,
            });
        });
    }

    /// Stores the composed media. The next step is the commit that names it, so that the media of
    /// one composer is used.
    pub(super) fn compose(&mut self, object: Extent) {
        let mut state = self.state.clone();
        state.store.put(object);
        let mut holder = self.holder.clone();
        holder.step = Step::Change(holder.change(ChangeKind::Sealed(object)));
        state.replicas[self.index] = Some(holder);
        let again = false;
        self.add(Action::Composes { object, again }, state.clone());
        if self.may_be_late() {
            state.begin_late(LateOperation::Put(object));
            let again = true;
            self.add(Action::Composes { object, again }, state);
        }
    }
}

/// The runs that have parts of the session, in the order of the media.
fn runs(holder: &Holder) -> Vec<NameId> {
    let mut runs = Vec::new();
    for extent in &holder.extents {
        if extent.place != Place::Object && !runs.contains(&extent.name) {
            runs.push(extent.name);
        }
    }
    runs
}
