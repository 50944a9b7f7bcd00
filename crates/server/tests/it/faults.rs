//! Every call to a store fails, once or from then on, in the middle of every kind of life.
//!
//! Fault model: a call fails without effect, for good or because a store is not available now; it
//! takes effect and seems to fail; a write is torn; the disk is full. With stores in memory, the power fails afterwards and unsynced data is lost.
//! With the local store, the process dies. Everything that was acknowledged must survive, whatever
//! call failed.

use windlass_store::fault::{InjectedFault, Trigger};
use windlass_testkit::test_scale::is_long;

use crate::lives::{Life, Manner, Plan, Tally};
use crate::power::{LocalStores, MemoryStores, ObjectStores, PoweredStores, Survivors};
use crate::protocols::Protocol;

/// A little of everything: small media that stays in the ledger, media that moves from there to the
/// vault, and media that is in the vault from its first byte.
pub(crate) const SHORT_LIVES: [Life; 17] = [
    Life::Simple { len: 10 },
    Life::Simple { len: 40 },
    Life::Multipart { len: 10 },
    Life::Multipart { len: 40 },
    chunks(10, 10, Manner::Plain),
    chunks(12, 5, Manner::OpenEnded),
    chunks(40, 40, Manner::Plain),
    chunks(40, 10, Manner::Plain),
    chunks(40, 15, Manner::Overlapping),
    chunks(40, 20, Manner::Broken),
    chunks(12, 5, Manner::In(Protocol::XGoogUpload)),
    chunks(40, 15, Manner::In(Protocol::Tus)),
    chunks(40, 15, Manner::In(Protocol::Ietf)),
    Life::Cancelled { len: 40, chunk: 20 },
    Life::Expired { len: 40, chunk: 20 },
    Life::Replaced { len: 40 },
    Life::Deleted { len: 40 },
];

/// Lives with media of several batches, or that take many requests.
pub(crate) const LONG_LIVES: [Life; 10] = [
    // More than one batch, with a checkpoint in between.
    chunks(2_300_000, 2_300_000, Manner::Plain),
    // Requests end with a batch that is just full.
    chunks(2 << 20, 1 << 20, Manner::Plain),
    Life::Simple { len: 200_000 },
    Life::Multipart { len: 200_000 },
    chunks(200_000, 80_000, Manner::Plain),
    chunks(200_000, 80_000, Manner::Broken),
    chunks(200_000, 80_000, Manner::In(Protocol::Ietf)),
    chunks(40, 10, Manner::OpenEnded),
    Life::Cancelled {
        len: 200_000,
        chunk: 80_000,
    },
    Life::Replaced { len: 15 },
];

const fn chunks(len: u64, chunk: u64, manner: Manner) -> Life {
    Life::Chunks { len, chunk, manner }
}

fn fail_each_call<S: PoweredStores>(lives: &[Life], trouble: InjectedFault) {
    let mut tally = Tally::default();
    for &life in lives {
        tally.strike::<S>(life, |nth, call| {
            if is_the_same_as_a_fault(trouble, call) {
                return Vec::new();
            }
            let whens = [Trigger::Once(nth), Trigger::From(nth)];
            whens
                .map(|when| (Plan::InjectedFault(trouble, when), Survivors::None))
                .to_vec()
        });
    }
    tally.check();
}

/// Whether a plain fault does the same to this call.
fn is_the_same_as_a_fault(trouble: InjectedFault, call: &str) -> bool {
    trouble == InjectedFault::Torn && call != "append"
}

fn over_memory(trouble: InjectedFault) {
    fail_each_call::<MemoryStores>(&SHORT_LIVES, trouble);
    fail_each_call::<ObjectStores<16>>(&SHORT_LIVES, trouble);
    fail_each_call::<MemoryStores>(&LONG_LIVES, trouble);
}

fn over_the_local_store(trouble: InjectedFault) {
    fail_each_call::<LocalStores>(&SHORT_LIVES, trouble);
    if is_long() {
        fail_each_call::<LocalStores>(&LONG_LIVES, trouble);
    }
}

#[test]
fn no_acknowledged_byte_is_lost_when_the_nth_call_fails() {
    over_memory(InjectedFault::Fault);
}

#[test]
fn no_acknowledged_byte_is_lost_when_the_nth_call_succeeds_but_reports_an_error() {
    over_memory(InjectedFault::Lost);
}

#[test]
fn no_acknowledged_byte_is_lost_when_the_nth_write_is_torn() {
    over_memory(InjectedFault::Torn);
}

#[test]
fn no_acknowledged_byte_is_lost_when_a_store_is_not_available() {
    over_memory(InjectedFault::Unavailable);
}

#[test]
fn no_acknowledged_byte_is_lost_when_the_disk_is_full() {
    over_memory(InjectedFault::NoSpace);
}

#[test]
fn over_the_local_store_no_acknowledged_byte_is_lost_when_the_nth_call_fails() {
    over_the_local_store(InjectedFault::Fault);
}

#[test]
fn over_the_local_store_none_is_lost_when_the_nth_call_succeeds_but_reports_an_error() {
    over_the_local_store(InjectedFault::Lost);
}

#[test]
fn over_the_local_store_none_is_lost_when_the_nth_write_is_torn() {
    over_the_local_store(InjectedFault::Torn);
}

#[test]
fn over_the_local_store_none_is_lost_when_it_is_not_available() {
    over_the_local_store(InjectedFault::Unavailable);
}

#[test]
fn over_the_local_store_none_is_lost_when_the_disk_is_full() {
    over_the_local_store(InjectedFault::NoSpace);
}
