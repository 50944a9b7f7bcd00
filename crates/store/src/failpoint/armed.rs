//! Which moment is armed, and what happens then.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Signal, getpid, kill_process};

use super::Failpoint;

/// At most one is armed in the life of a process.
static ARMED: OnceLock<Armed> = OnceLock::new();

#[derive(Debug)]
struct Armed {
    point: Failpoint,
    /// How often it is passed before it strikes, and that time.
    left: AtomicU64,
}

/// There is no such failpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a failpoint: wanted NAME or NAME@NTH")]
pub struct UnknownFailpoint(String);

/// Arms a failpoint, `NAME` or `NAME@NTH`: the process dies when it is there for the nth time, counted from 1, which is the
/// default. What was armed before stays armed instead.
///
/// # Errors
/// When there is none of that name, or the count is not one.
pub fn arm(wanted: &str) -> Result<(), UnknownFailpoint> {
    let armed = Armed::parse(wanted).ok_or_else(|| UnknownFailpoint(wanted.to_owned()))?;
    ARMED.get_or_init(|| armed);
    Ok(())
}

impl Armed {
    fn parse(wanted: &str) -> Option<Self> {
        let (name, nth) = wanted.split_once('@').unwrap_or((wanted, "1"));
        let point = Failpoint::ALL.iter().find(|point| point.name() == name)?;
        let nth: u64 = nth.parse().ok().filter(|nth| *nth > 0)?;
        Some(Self {
            point: *point,
            left: AtomicU64::new(nth),
        })
    }
}

/// As often as was asked for: ends the process as `kill -9` does.
pub(super) fn reach(point: Failpoint) {
    let Some(armed) = ARMED.get().filter(|armed| armed.point == point) else {
        return;
    };
    if armed.left.fetch_sub(1, Ordering::SeqCst) == 1 {
        kill_process(getpid(), Signal::KILL).ok();
        // The signal ends the process before the call returns.
        std::process::abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failpoint_is_named_with_or_without_a_count() {
        let parsed = |wanted| {
            let armed: Armed = Armed::parse(wanted)?;
            Some((armed.point, armed.left.into_inner()))
        };
        assert_eq!(parsed("finishing"), Some((Failpoint::Finishing, 1)));
        assert_eq!(parsed("data-synced@7"), Some((Failpoint::DataSynced, 7)));
        for wrong in ["", "cow", "finishing@", "finishing@0", "finishing@-1"] {
            assert_eq!(parsed(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = Failpoint::ALL.iter().map(|point| point.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Failpoint::ALL.len());
    }
}
