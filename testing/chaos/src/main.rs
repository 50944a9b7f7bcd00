//! `windlass-chaos`: injects faults and checks that every acknowledged byte survives.
//!
//! Each tier is a command. It injects the faults that the module doc of its file names into a real
//! server. The checker (`windlass_testkit::checker`) compares every later reply of the server with
//! its acknowledgements. A tier that needs something that the machine lacks prints SKIPPED and the
//! reason.
//!
//! Exit codes: 0, no rule was broken; 1, a rule was broken or the tier failed; 77, skipped.

mod batches;
mod blocks;
mod check;
mod compare;
mod disk;
mod disks;
mod drain;
mod kill;
mod late_syncs;
mod network;
mod outcome;
mod power;
mod restart;
mod scale;
mod scratch;
mod server_under_test;
mod tool;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use outcome::Outcome;

/// Injects faults into the machine of a server and checks that no acknowledged byte is lost.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
struct Arguments {
    /// Fail when this machine cannot carry out the tier.
    #[arg(long, global = true)]
    no_skip: bool,
    #[command(subcommand)]
    tier: Tier,
}

#[derive(Debug, Subcommand)]
enum Tier {
    Blocks(blocks::Arguments),
    Check(check::Arguments),
    Disk(disks::Arguments),
    Compare(compare::Arguments),
    Drain(drain::Arguments),
    Kill(kill::Arguments),
    Network(network::Arguments),
    Power(power::Arguments),
    Restart(restart::Arguments),
    Scale(scale::Arguments),
}

fn main() -> ExitCode {
    let Arguments { no_skip, tier } = Arguments::parse();
    let result = match &tier {
        Tier::Blocks(arguments) => blocks::run(arguments),
        Tier::Check(arguments) => Ok(check::run(arguments)),
        Tier::Disk(arguments) => disks::run(arguments),
        Tier::Compare(arguments) => compare::run(arguments),
        Tier::Drain(arguments) => drain::run(arguments),
        Tier::Kill(arguments) => kill::run(arguments),
        Tier::Network(arguments) => network::run(arguments, no_skip),
        Tier::Power(arguments) => power::run(arguments),
        Tier::Restart(arguments) => restart::run(arguments),
        Tier::Scale(arguments) => scale::run(arguments),
    };
    outcome::report(result.unwrap_or_else(Outcome::of_error), no_skip)
}
