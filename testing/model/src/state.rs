//! A state of the model: the ledger, the store, the replicas, and the operations between them.

use crate::bytes::Bytes;
use crate::event::Event;
use crate::ledger::{Change, ChangeKind, Row, Status};
use crate::replica::{Holder, Step};
use crate::rules::Configuration;
use crate::store::{Extent, NameId, Store};

/// An operation that lands later than its sender expects, or once more.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum LateOperation {
    Put(Extent),
    /// Completes an upload of the parts with these cells.
    Complete(NameId, Vec<u8>),
    Delete(NameId),
    Change(Change),
}

impl LateOperation {
    /// Whether the operation can store something under this name.
    fn writes(&self, id: NameId) -> bool {
        match self {
            Self::Put(extent) => extent.name == id,
            Self::Complete(name, _) => *name == id,
            Self::Delete(_) | Self::Change(_) => false,
        }
    }
}

/// A state, which alone decides the possible transitions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct State {
    pub(crate) row: Row,
    /// The row without its last write, until the standby has the write.
    pub(crate) standby: Option<Box<Row>>,
    pub(crate) has_failed_over: bool,
    pub(crate) store: Store,
    /// Replicas; `None` for a replica without a lease.
    pub(crate) replicas: Vec<Option<Holder>>,
    pub(crate) late: Vec<LateOperation>,
    /// The bytes that a client was told are durable.
    pub(crate) acknowledged: Bytes,
    pub(crate) leases_given: u8,
    pub(crate) resources_made: u8,
    pub(crate) late_operations_begun: u8,
}

impl State {
    /// A session that has just been started.
    pub(crate) fn new(configuration: &Configuration) -> Self {
        Self {
            row: Row::new(),
            standby: None,
            has_failed_over: false,
            store: Store::default(),
            replicas: vec![None; configuration.replicas],
            late: Vec::new(),
            acknowledged: Bytes::default(),
            leases_given: 0,
            resources_made: 0,
            late_operations_begun: 0,
        }
    }

    /// Whether one more operation may be late.
    pub(crate) fn may_be_late(&self, configuration: &Configuration) -> bool {
        self.late_operations_begun < configuration.late_operations
    }

    /// Lets an operation land later.
    pub(crate) fn begin_late(&mut self, operation: LateOperation) {
        self.late.push(operation);
        self.late_operations_begun += 1;
    }

    /// Whether a late operation can store something under this name.
    pub(crate) fn is_write_under_way(&self, id: NameId) -> bool {
        self.late.iter().any(|operation| operation.writes(id))
    }

    /// Makes a change of the ledger. Returns whether it was made.
    pub(crate) fn change(&mut self, configuration: &Configuration, change: &Change) -> bool {
        let Some(row) = self.row.changed(configuration, change) else {
            return false;
        };
        if matches!(change.kind, ChangeKind::Apply(_)) {
            self.resources_made += 1;
        }
        self.write(configuration, row);
        true
    }

    /// Writes the row. Any replica may then acknowledge the bytes that the row names.
    pub(crate) fn write(&mut self, configuration: &Configuration, row: Row) {
        let before = std::mem::replace(&mut self.row, row);
        if configuration.loses_last_write && !self.has_failed_over {
            self.standby = Some(Box::new(before));
        }
        for (index, name) in self.store.names.iter_mut().enumerate() {
            name.was_named |= self.row.names(NameId::of_index(index));
        }
        let body = self.row.body();
        if self.row.is_open() && body.starts_with(self.acknowledged) {
            self.acknowledged = body;
        }
    }

    /// Continues with the standby, which lacks the last write. Bytes that only the lost write names
    /// are no longer promised.
    pub(crate) fn fail_over(&mut self) {
        let Some(row) = self.standby.take() else {
            return;
        };
        self.row = *row;
        self.has_failed_over = true;
        self.resources_made = u8::from(self.row.status == Status::Finished);
        if self.row.is_open() {
            self.acknowledged = self.row.body();
        }
        for (index, name) in self.store.names.iter_mut().enumerate() {
            name.was_named = self.row.references(NameId::of_index(index));
        }
    }

    /// Returns an equivalent state, so that equivalent states are explored once. Replicas, late
    /// operations and garbage are sorted. Names without content and without a mention are removed,
    /// and the remaining names are numbered in the order of their mentions. The second value has
    /// the old id of each name.
    pub(crate) fn canonical(mut self) -> (Self, Vec<NameId>) {
        self.replicas.sort();
        self.sort();
        let mut order: Vec<NameId> = Vec::new();
        self.visit_names(&mut |id| {
            if !order.contains(id) {
                order.push(*id);
            }
        });
        let unused = self.store.ids();
        let unused = unused.filter(|(id, name)| !order.contains(id) && name.exists());
        let mut unused: Vec<NameId> = unused.map(|(id, _)| id).collect();
        unused.sort_by(|one, other| self.store.name(*one).cmp(self.store.name(*other)));
        order.extend(unused);
        let mut new_ids = vec![NameId::of_index(0); self.store.names.len()];
        for (index, old) in order.iter().enumerate() {
            new_ids[old.index()] = NameId::of_index(index);
        }
        let names = order.iter().map(|id| self.store.name(*id).clone());
        self.store.names = names.collect();
        self.visit_names(&mut |id| *id = new_ids[id.index()]);
        self.sort();
        (self, order)
    }

    fn sort(&mut self) {
        self.late.sort();
        self.row.garbage.sort();
    }

    fn visit_names(&mut self, visit: &mut dyn FnMut(&mut NameId)) {
        visit_row(&mut self.row, visit);
        if let Some(row) = &mut self.standby {
            visit_row(row, visit);
        }
        for holder in self.replicas.iter_mut().flatten() {
            visit_extents(&mut holder.extents, visit);
            holder.run.iter_mut().for_each(&mut *visit);
            visit_step(&mut holder.step, visit);
        }
        for operation in &mut self.late {
            match operation {
                LateOperation::Put(extent) => visit(&mut extent.name),
                LateOperation::Complete(id, _) | LateOperation::Delete(id) => visit(id),
                LateOperation::Change(change) => visit_change(change, visit),
            }
        }
    }
}

fn visit_row(row: &mut Row, visit: &mut dyn FnMut(&mut NameId)) {
    visit_extents(&mut row.extents, visit);
    if let Some(resource) = &mut row.resource {
        visit(&mut resource.media);
    }
    for garbage in &mut row.garbage {
        visit(&mut garbage.name);
    }
}

fn visit_extents(extents: &mut [Extent], visit: &mut dyn FnMut(&mut NameId)) {
    for extent in extents {
        visit(&mut extent.name);
    }
}

fn visit_step(step: &mut Step, visit: &mut dyn FnMut(&mut NameId)) {
    match step {
        Step::Put(extents, commit) => {
            visit_extents(extents, visit);
            visit_change(commit, visit);
        }
        Step::CompleteFirst(change) | Step::Change(change) => visit_change(change, visit),
        Step::DeleteDropped(names) => names.iter_mut().for_each(visit),
        Step::Compose(extent) => visit(&mut extent.name),
        Step::Ready | Step::Complete { .. } => {}
    }
}

fn visit_change(change: &mut Change, visit: &mut dyn FnMut(&mut NameId)) {
    match &mut change.kind {
        ChangeKind::Commit {
            extents, dropped, ..
        } => {
            visit_extents(extents, visit);
            dropped.iter_mut().for_each(visit);
        }
        ChangeKind::Sealed(object) => visit(&mut object.name),
        ChangeKind::Apply(resource) => visit(&mut resource.media),
        ChangeKind::Cancel | ChangeKind::Reject | ChangeKind::Lose => {}
    }
}

/// An event, and the state after it.
#[derive(Debug)]
pub(crate) struct Transition {
    pub(crate) event: Event,
    pub(crate) state: State,
}
