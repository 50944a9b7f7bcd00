//! Tier T5: disks that fail, fill up, freeze and crawl.
//!
//! Injected, case by case: EIO from writes and syncs, once and for ever, by system call and by
//! device; no room, on the disk and in a file; a file system that stands still; syncs that take
//! seconds.
//! To be survived: everything that was acknowledged. To be seen as well: after a failure nothing
//! more is acknowledged and the process ends by itself. Lack of room or time stops no process, and
//! requests that need no disk are answered.

mod device;
mod error;
mod frozen;
mod full;
mod latency_probe;
mod limit;
mod slow;
mod verdict;
mod volume;

use crate::outcome::Outcome;

/// Injects failures, a full disk, a freeze or slow syncs below the server.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    case: Case,
}

#[derive(Debug, clap::Subcommand)]
enum Case {
    Device(device::Arguments),
    Error(error::Arguments),
    Frozen(frozen::Arguments),
    Full(full::Arguments),
    Limit(limit::Arguments),
    Slow(slow::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    match &arguments.case {
        Case::Device(arguments) => device::run(arguments),
        Case::Error(arguments) => error::run(arguments),
        Case::Frozen(arguments) => frozen::run(arguments),
        Case::Full(arguments) => full::run(arguments),
        Case::Limit(arguments) => limit::run(arguments),
        Case::Slow(arguments) => slow::run(arguments),
    }
}
