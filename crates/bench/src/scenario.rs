//! What is measured: the loads, and the figure that each is read by.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::amount::{GIB, KIB, MIB, float, mib};
use crate::load::{Load, Tally};

/// A load that every contestant is put under.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    /// Its short name, e.g. `S1`.
    pub(crate) name: &'static str,
    /// What it is.
    pub(crate) title: &'static str,
    /// What is uploaded.
    pub(crate) load: Load,
    /// What it is read by.
    pub(crate) unit: Unit,
}

/// The figure of a scenario; more is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Unit {
    /// MiB of media per second.
    Mib,
    /// Uploads per second.
    Uploads,
    /// Requests per second.
    Requests,
}

/// By what sizes and counts are divided when a look is enough.
pub(crate) const QUICK_PART: u64 = 8;

/// All scenarios, at their full size or at one that takes seconds.
pub(crate) fn all(is_quick: bool) -> Vec<Scenario> {
    let (part, limit) = if is_quick { (QUICK_PART, 3) } else { (1, 10) };
    let load = Load {
        size: 0,
        count: 1,
        connections: 1,
        chunk: 8 * MIB,
        limit: Duration::from_secs(limit),
    };
    let small = Load {
        size: 4 * KIB,
        connections: 32,
        count: 60_000 / part,
        ..load.clone()
    };
    vec![
        Scenario {
            name: "S1",
            title: "one upload of 1 GiB",
            load: Load {
                size: GIB / part,
                ..load.clone()
            },
            unit: Unit::Mib,
        },
        Scenario {
            name: "S1x4",
            title: "one upload of 4 GiB",
            load: Load {
                size: 4 * GIB / part,
                ..load.clone()
            },
            unit: Unit::Mib,
        },
        Scenario {
            name: "S2",
            title: "one upload of 1 GiB in chunks of 8 MiB",
            load: Load {
                size: GIB / part,
                ..load.clone()
            },
            unit: Unit::Mib,
        },
        Scenario {
            name: "S2b",
            title: "one upload of 256 MiB in chunks of 256 KiB",
            load: Load {
                size: 256 * MIB / part,
                chunk: 256 * KIB,
                ..load.clone()
            },
            unit: Unit::Requests,
        },
        Scenario {
            name: "S3",
            title: "uploads of 4 KiB in one request each, 32 connections",
            load: small.clone(),
            unit: Unit::Uploads,
        },
        Scenario {
            name: "S4",
            title: "uploads of 4 KiB in two requests each, 32 connections",
            load: small,
            unit: Unit::Uploads,
        },
        Scenario {
            name: "S5",
            title: "64 uploads of 64 MiB, all at the same time",
            load: Load {
                size: 64 * MIB / part,
                count: 64,
                connections: 64,
                ..load.clone()
            },
            unit: Unit::Mib,
        },
        Scenario {
            name: "S6",
            title: "8 uploads of 64 MiB, one after the other, with metadata in the same body",
            load: Load {
                size: 64 * MIB / part,
                count: 8,
                ..load
            },
            unit: Unit::Mib,
        },
    ]
}

impl Scenario {
    /// Bytes that a whole run leaves on the disk. A file takes a block at least, and its record something more.
    pub(crate) fn footprint(&self) -> u64 {
        self.load.count * (self.load.size + 4 * KIB)
    }
}

impl Unit {
    /// What a load came to.
    pub(crate) fn of(self, tally: &Tally) -> f64 {
        let seconds = tally.elapsed.as_secs_f64();
        match self {
            Self::Mib => mib(tally.bytes) / seconds,
            Self::Uploads => float(tally.uploads) / seconds,
            Self::Requests => float(tally.laps.len() as u64) / seconds,
        }
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mib => "MiB/s",
            Self::Uploads => "uploads/s",
            Self::Requests => "requests/s",
        }
    }

    /// What processor time is counted by: the name.
    pub(crate) fn work_name(self) -> &'static str {
        match self {
            Self::Mib => "CPU s/GiB",
            Self::Uploads | Self::Requests => "CPU s/10,000",
        }
    }

    /// How much of that there was.
    pub(crate) fn work(self, tally: &Tally) -> f64 {
        match self {
            Self::Mib => mib(tally.bytes) / mib(GIB),
            Self::Uploads => float(tally.uploads) / 10_000.0,
            Self::Requests => float(tally.laps.len() as u64) / 10_000.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = all(false).iter().map(|scenario| scenario.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
