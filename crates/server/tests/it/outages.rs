//! The power fails before and after every call to a store, including every sync and every commit.
//!
//! Fault model: from one call on, nothing takes effect any more. The previous call took effect,
//! whether or not its caller received the result. Of the unsynced writes none survives, or all, or
//! every other write: a disk writes in any order. Every acknowledged byte and every final reply
//! must survive, and no returned byte may differ from the byte that was sent.

use windlass_testkit::test_scale::is_long;

use crate::faults::{LONG_LIVES, SHORT_LIVES};
use crate::lives::{Life, Plan, Tally};
use crate::power::{LocalStores, MemoryStores, ObjectStores, Survivors};

/// How many ways unsynced writes survive in part.
fn ways() -> u64 {
    if is_long() { 64 } else { 1 }
}

fn survivors() -> Vec<Survivors> {
    let some = (0..ways()).map(|seed| Survivors::Some { seed });
    [Survivors::None, Survivors::All]
        .into_iter()
        .chain(some)
        .collect()
}

fn over_memory(lives: &[Life], plan: fn(u64) -> Plan) {
    let mut tally = Tally::default();
    for &life in lives {
        tally.strike::<MemoryStores>(life, |nth, _| {
            let survivors = survivors().into_iter();
            survivors.map(|survivors| (plan(nth), survivors)).collect()
        });
    }
    tally.check();
}

fn over_objects<const CELL: u64>(lives: &[Life], plan: fn(u64) -> Plan) {
    let mut tally = Tally::default();
    for &life in lives {
        tally.strike::<ObjectStores<CELL>>(life, |nth, _| vec![(plan(nth), Survivors::All)]);
    }
    tally.check();
}

fn over_the_local_store(lives: &[Life], plan: fn(u64) -> Plan) {
    let mut tally = Tally::default();
    for &life in lives {
        tally.strike::<LocalStores>(life, |nth, _| vec![(plan(nth), Survivors::All)]);
    }
    tally.check();
}

#[test]
fn no_acknowledged_byte_is_lost_when_the_power_goes_out_before_the_nth_call() {
    over_memory(&SHORT_LIVES, Plan::OutageBefore);
    over_memory(&LONG_LIVES, Plan::OutageBefore);
}

#[test]
fn no_acknowledged_byte_is_lost_when_the_power_goes_out_after_the_nth_call() {
    over_memory(&SHORT_LIVES, Plan::OutageAfter);
    over_memory(&LONG_LIVES, Plan::OutageAfter);
}

#[test]
fn over_objects_no_acknowledged_byte_is_lost_when_the_process_dies_around_the_nth_call() {
    for plan in [Plan::OutageBefore, Plan::OutageAfter] {
        over_objects::<16>(&SHORT_LIVES, plan);
        if is_long() {
            over_objects::<65_536>(&LONG_LIVES, plan);
        }
    }
}

#[test]
fn over_the_local_store_no_acknowledged_byte_is_lost_when_the_process_dies_around_the_nth_call() {
    for plan in [Plan::OutageBefore, Plan::OutageAfter] {
        over_the_local_store(&SHORT_LIVES, plan);
        if is_long() {
            over_the_local_store(&LONG_LIVES, plan);
        }
    }
}
