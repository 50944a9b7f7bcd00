//! The transitions without the holder of a lease: operations that land late, deadlines that pass, a
//! failover, the sweep, and replicas that take the lease.

use crate::bytes::Bytes;
use crate::event::Event;
use crate::ledger::{Row, Status};
use crate::replica::{self, Holder};
use crate::rules::{Configuration, Mutation};
use crate::state::{LateOperation, State, Transition};
use crate::store::{Lease, Name, NameId, Place, Upload};

/// Returns all transitions of a state.
pub(crate) fn transitions(configuration: &Configuration, state: &State) -> Vec<Transition> {
    let mut all = Vec::new();
    late_operations(configuration, state, &mut all);
    time(configuration, state, &mut all);
    failover(state, &mut all);
    deletions_of_garbage(configuration, state, &mut all);
    sweep(configuration, state, &mut all);
    // Replicas without a lease are equal, so it is enough that one of them moves.
    let idle = state.replicas.iter().position(Option::is_none);
    for (index, replica) in state.replicas.iter().enumerate() {
        if let Some(holder) = replica {
            replica::transitions(configuration, state, index, holder, &mut all);
        } else if idle == Some(index) {
            takeover(configuration, state, index, &mut all);
        }
    }
    all
}

/// Late operations land. An operation that never lands needs no transition: the state is as if its
/// sender had died before sending it.
fn late_operations(configuration: &Configuration, state: &State, all: &mut Vec<Transition>) {
    for (index, operation) in state.late.iter().enumerate() {
        let mut next = state.clone();
        next.late.remove(index);
        match operation {
            LateOperation::Put(extent) => {
                next.store.put(*extent);
            }
            LateOperation::Complete(name, cells) => {
                if next.store.name(*name).upload == Upload::Open {
                    next.store.complete(*name, cells);
                }
            }
            LateOperation::Delete(name) => next.store.delete(*name),
            LateOperation::Change(change) => {
                next.change(configuration, change);
            }
        }
        all.push(Transition {
            event: Event::Lands(operation.clone()),
            state: next,
        });
    }
}

/// Deadlines pass, and the resource is deleted.
fn time(configuration: &Configuration, state: &State, all: &mut Vec<Transition>) {
    let mut write = |event, row| {
        let mut next = state.clone();
        next.write(configuration, row);
        all.push(Transition { event, state: next });
    };
    let row = &state.row;
    let has_deadline = !configuration.breaks(Mutation::SweepByAgeAlone);
    let is_held = row.is_open() && !row.is_lease_expired && row.lease != Lease::default();
    if has_deadline && is_held {
        let mut row = row.clone();
        row.is_lease_expired = true;
        write(Event::LeaseExpires, row);
    }
    if row.status == Status::Active && !row.extents.is_empty() {
        let mut row = row.clone();
        row.end(Status::Ended);
        write(Event::SessionExpires, row);
    }
    if let (Status::Finished, Some(resource)) = (row.status, row.resource) {
        let mut row = row.clone();
        row.resource = None;
        row.release([resource.media]);
        write(Event::ResourceDeleted, row);
    }
}

fn failover(state: &State, all: &mut Vec<Transition>) {
    if state.standby.is_none() {
        return;
    }
    let mut next = state.clone();
    next.standby = None;
    all.push(Transition {
        event: Event::StandbyCaughtUp,
        state: next,
    });
    let mut next = state.clone();
    next.fail_over();
    all.push(Transition {
        event: Event::FailedOver,
        state: next,
    });
}

/// Deletes garbage twice (rule R9).
fn deletions_of_garbage(configuration: &Configuration, state: &State, all: &mut Vec<Transition>) {
    let is_deleted_once = configuration.breaks(Mutation::DeletedOnce);
    let is_early = is_deleted_once || configuration.breaks(Mutation::SecondDeletionTooEarly);
    for (index, garbage) in state.row.garbage.iter().enumerate() {
        let name = garbage.name;
        let standby = state.standby.as_deref();
        let is_needed_by_standby = standby.is_some_and(|row| row.names(name));
        if is_needed_by_standby && !configuration.breaks(Mutation::NoDelay) {
            continue;
        }
        let mut next = state.clone();
        if !garbage.was_deleted && !is_deleted_once {
            next.row.garbage[index].was_deleted = true;
        } else if state.is_write_under_way(name) && !is_early {
            continue;
        } else {
            next.row.garbage.remove(index);
        }
        let event = |again| Event::GarbageDeleted { name, again };
        delete(configuration, next, name, event, all);
    }
}

/// Deletes each name that no row knows and no holder can commit any more (rule R15).
fn sweep(configuration: &Configuration, state: &State, all: &mut Vec<Transition>) {
    // Without a fence any holder can commit its names at any time.
    if let Some(Mutation::NoFence | Mutation::OffsetAlone) = configuration.mutation {
        return;
    }
    let is_orphan = |row: &Row, id: NameId, name: &Name| {
        let can_commit = name.lease == row.lease && !row.is_lease_expired && row.is_open();
        let is_spared = can_commit && !configuration.breaks(Mutation::SweepByAgeAlone);
        !row.references(id) && !is_spared
    };
    for (name, stored) in state.store.ids().filter(|(_, name)| name.exists()) {
        let mut rows = std::iter::once(&state.row).chain(state.standby.as_deref());
        if rows.all(|row| is_orphan(row, name, stored)) {
            let event = |again| Event::OrphanSwept { name, again };
            delete(configuration, state.clone(), name, event, all);
        }
    }
}

/// Deletes a name. The deletion may land once more, later.
fn delete(
    configuration: &Configuration,
    mut state: State,
    name: NameId,
    event: impl Fn(bool) -> Event,
    all: &mut Vec<Transition>,
) {
    state.store.delete(name);
    all.push(Transition {
        event: event(false),
        state: state.clone(),
    });
    if state.may_be_late(configuration) {
        state.begin_late(LateOperation::Delete(name));
        all.push(Transition {
            event: event(true),
            state,
        });
    }
}

/// An idle replica takes the lease of the session.
fn takeover(configuration: &Configuration, state: &State, index: usize, all: &mut Vec<Transition>) {
    if !state.row.is_open() || state.leases_given == configuration.leases {
        return;
    }
    let mut next = state.clone();
    next.leases_given += 1;
    let mut row = next.row.clone();
    row.lease = if configuration.breaks(Mutation::EpochReused) {
        Lease(row.lease.0 + 1)
    } else {
        Lease(next.leases_given)
    };
    row.is_lease_expired = false;
    let mut holder = Holder::of_row(&row);
    if configuration.breaks(Mutation::SharedUpload) {
        let mut parts = row.extents.iter();
        holder.run = parts.find(|it| it.place != Place::Object).map(|it| it.name);
    }
    if configuration.breaks(Mutation::ListingTrusted)
        && let Some(listed) = listed_after(configuration, state)
    {
        next.acknowledged = row.body().followed_by(listed);
    }
    let event = Event::LeaseTaken {
        lease: row.lease,
        offset: row.body().len(),
    };
    next.replicas[index] = Some(holder);
    next.write(configuration, row);
    all.push(Transition { event, state: next });
}

/// Returns the bytes of the next cell after the committed bytes, if the store lists a part with
/// that cell.
fn listed_after(configuration: &Configuration, state: &State) -> Option<Bytes> {
    let row = &state.row;
    let is_at_boundary = row.body().len().is_multiple_of(configuration.cell);
    let last = row.extents.iter().rev().find_map(|it| match it.place {
        Place::Part(cell) => Some((it.name, cell)),
        Place::Object => None,
    });
    let (name, cell) = last?;
    let listed = state.store.name(name).part(cell + 1);
    let is_listed = !listed.is_empty() && row.status == Status::Active && is_at_boundary;
    is_listed.then_some(listed)
}
