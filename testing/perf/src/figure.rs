//! The figures of a measurement, and how they are shown.

use serde::{Deserialize, Serialize};

use crate::load::Tally;
use crate::units::{GIB, float, mib};

/// One number of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Figure {
    /// MiB of media per second.
    Mib,
    /// Uploads per second.
    Uploads,
    /// Requests per second.
    Requests,
    /// Queries per second.
    Queries,
    /// Uploads per second during queries, divided by the same server's uploads per second without
    /// queries.
    Left,
    /// Seconds of the server's processor time by GiB.
    CpuByGib,
    /// Seconds of the server's processor time by 10,000 uploads.
    CpuByUploads,
    /// Seconds of the server's processor time by 10,000 requests.
    CpuByRequests,
    /// The most memory, in MiB.
    Peak,
    /// Memory of a connection that is in the middle of an upload, in KiB.
    Connection,
    /// Memory with all connections, in MiB.
    Held,
    /// Memory of a server that has answered one request, in MiB.
    Idle,
    /// Milliseconds from the start of the process to its first answer.
    Start,
    /// Milliseconds within which half of the requests were answered.
    P50,
    /// Milliseconds within which 99 of 100 requests were answered.
    P99,
    /// Milliseconds that the slowest request took.
    Max,
}

impl Figure {
    /// Its name and unit.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mib => "MiB/s",
            Self::Uploads => "uploads/s",
            Self::Requests => "requests/s",
            Self::Queries => "queries/s",
            Self::Left => "uploads left",
            Self::CpuByGib => "CPU s/GiB",
            Self::CpuByUploads | Self::CpuByRequests => "CPU s/10,000",
            Self::Peak => "MiB at most",
            Self::Connection => "KiB a connection",
            Self::Held => "MiB with all",
            Self::Idle => "MiB idle",
            Self::Start => "ms to the first answer",
            Self::P50 => "p50 ms",
            Self::P99 => "p99 ms",
            Self::Max => "max ms",
        }
    }

    /// Whether the lower one is the better one.
    pub(crate) fn is_cost(self) -> bool {
        !matches!(
            self,
            Self::Mib | Self::Uploads | Self::Requests | Self::Queries | Self::Left
        )
    }

    /// Whether it has a separate chart.
    pub(crate) fn is_charted(self) -> bool {
        !self.is_cost() || matches!(self, Self::Connection | Self::Start | Self::Idle)
    }

    /// The better one of two.
    pub(crate) fn better(self, one: f64, other: f64) -> f64 {
        if self.is_cost() {
            one.min(other)
        } else {
            one.max(other)
        }
    }

    /// Returns the value of this figure for a load, if a load has it; the server took `cpu` seconds
    /// of processor time and `peak` bytes.
    pub(crate) fn of(self, tally: &Tally, cpu: f64, peak: u64) -> Option<f64> {
        let seconds = tally.elapsed.as_secs_f64();
        let requests = float(tally.laps.len() as u64);
        let milliseconds = |percent| tally.quantile(percent).as_secs_f64() * 1000.0;
        Some(match self {
            Self::Mib => mib(tally.bytes) / seconds,
            Self::Uploads => float(tally.done) / seconds,
            Self::Requests | Self::Queries => requests / seconds,
            Self::CpuByGib => cpu / (mib(tally.bytes) / mib(GIB)),
            Self::CpuByUploads => cpu / float(tally.done) * 10_000.0,
            Self::CpuByRequests => cpu / requests * 10_000.0,
            Self::Peak => mib(peak),
            Self::P50 => milliseconds(50),
            Self::P99 => milliseconds(99),
            Self::Max => milliseconds(100),
            Self::Left | Self::Connection | Self::Held | Self::Idle | Self::Start => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_better_of_a_rate_and_less_of_a_cost() {
        assert!((Figure::Uploads.better(1.0, 2.0) - 2.0).abs() < f64::EPSILON);
        assert!((Figure::Start.better(1.0, 2.0) - 1.0).abs() < f64::EPSILON);
    }
}
