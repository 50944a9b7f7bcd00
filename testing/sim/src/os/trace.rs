//! The events of a run in order: one hash of all, and their lines when they are wanted.

use std::fmt;
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{clock, real};

static TRACE: Mutex<Option<Trace>> = Mutex::new(None);

struct Trace {
    hash: DefaultHasher,
    events: u64,
    shows: bool,
}

/// Begins to listen. `shows` has every event printed.
pub(crate) fn begin(shows: bool) {
    *lock() = Some(Trace {
        hash: DefaultHasher::new(),
        events: 0,
        shows,
    });
}

/// Hash and number of all events so far.
pub(crate) fn sum() -> (u64, u64) {
    let trace = lock();
    trace
        .as_ref()
        .map_or((0, 0), |trace| (trace.hash.finish(), trace.events))
}

/// Notes an event at the simulated time.
pub(crate) fn event(event: fmt::Arguments<'_>) {
    let mut trace = lock();
    let Some(trace) = trace.as_mut() else {
        return;
    };
    let line = format!("{:>12.6} {event}", clock::elapsed().as_secs_f64());
    trace.hash.write(line.as_bytes());
    trace.events += 1;
    if trace.shows {
        real::complain(&(line + "\n"));
    }
}

/// A short sum of bytes, for events that carry many.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    let mut hash = DefaultHasher::new();
    hash.write(bytes);
    hash.finish()
}

fn lock() -> MutexGuard<'static, Option<Trace>> {
    TRACE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes an event, written as for `format!`.
macro_rules! note {
    ($($event:tt)*) => { $crate::os::trace::event(format_args!($($event)*)) };
}
pub(crate) use note;
