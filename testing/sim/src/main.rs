//! Server, client and local store in one simulated world. One seed gives one trace.
//!
//! `README.md` lists the simulated and the real parts.

mod disk;
mod faults;
mod invariants;
mod oracle;
mod os;
mod outcome;
mod runner;
mod scratch;
mod server;
mod uploads;
mod wire;
mod world;

use std::process::ExitCode;

use clap::Parser;

use os::files::LyingDisk;
use scratch::Scratch;
use world::Trial;

/// Runs the simulation: one seed, or many seeds, each in a separate process.
#[derive(Debug, Parser)]
struct Arguments {
    /// Run this seed alone.
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Print every event of the seed.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// How many seeds to run.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// How many run at once.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// The defect of the disk, which the simulation has to find.
    #[arg(long, value_enum, default_value_t)]
    disk: LyingDisk,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let all_well = match arguments.seed {
        Some(seed) => one(Trial {
            seed,
            lying_disk: arguments.disk,
            trace: arguments.trace,
        }),
        None => runner::run(&runner::Plan {
            seeds: arguments.from..arguments.from.saturating_add(arguments.seeds),
            jobs: arguments.jobs.max(1),
            lying_disk: arguments.disk,
        }),
    };
    if all_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[expect(clippy::print_stdout, reason = "it is the result")]
fn one(trial: Trial) -> bool {
    let scratch = Scratch::new();
    let outcome = world::live(trial, scratch.path());
    drop(scratch);
    print!("{outcome}");
    outcome.broken.is_empty()
}
