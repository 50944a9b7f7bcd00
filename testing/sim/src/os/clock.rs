//! Simulated time. It stands still until the world moves it.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use libc::{clockid_t, timespec};

use super::real;

/// When the simulation begins, in seconds since 1970: some day.
const EPOCH: u64 = 1_800_000_000;

static BEGUN: AtomicBool = AtomicBool::new(false);
/// Nanoseconds since the beginning.
static ELAPSED: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds by which calendars are ahead of that.
static LEAPT: AtomicU64 = AtomicU64::new(0);

pub(super) fn begin() {
    BEGUN.store(true, Ordering::Relaxed);
}

/// How much time has passed.
pub(crate) fn elapsed() -> Duration {
    Duration::from_nanos(ELAPSED.load(Ordering::Relaxed))
}

/// Says how much time has passed.
pub(crate) fn set_elapsed(elapsed: Duration) {
    ELAPSED.store(nanoseconds(elapsed), Ordering::Relaxed);
}

/// Advances the calendar without advancing any timer, as when days pass on which nothing happens.
pub(crate) fn leap(by: Duration) {
    LEAPT.fetch_add(nanoseconds(by), Ordering::Relaxed);
}

/// The time of day, since 1970.
pub(super) fn calendar() -> Duration {
    let leapt = Duration::from_nanos(LEAPT.load(Ordering::Relaxed));
    Duration::from_secs(EPOCH) + elapsed() + leapt
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("less than centuries")
}

/// Stands in for the function of the C library.
///
/// # Safety
/// `time` is valid for a write.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    if !BEGUN.load(Ordering::Relaxed) {
        // SAFETY: the caller's arguments.
        return unsafe { real::clock_gettime(clock, time) };
    }
    let now = match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => calendar(),
        _ => Duration::from_secs(1) + elapsed(),
    };
    // SAFETY: the caller's promise.
    unsafe { *time = moment(now) };
    0
}

/// A time as the C library writes it.
pub(super) fn moment(since: Duration) -> timespec {
    timespec {
        tv_sec: since.as_secs().cast_signed(),
        tv_nsec: since.subsec_nanos().into(),
    }
}
