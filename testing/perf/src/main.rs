//! `windlass-perf`: how fast the server is, next to floors and other servers on the same machine.
//!
//! A floor is the least that any server has to do: take bytes from a socket and put them into a file. `run` starts each contestant
//! in turn, warms it up, puts the load of a scenario on it and reads back what it stored; only ratios inside a round mean anything.
//!
//! What is absent: the server. It is seen as a binary and a wire, as those of others are.

mod contestant;
mod count;
mod data_dirs;
mod figure;
mod floor;
mod goal;
mod load;
mod machine;
mod measure;
mod output;
mod record;
mod report;
mod run;
mod scenario;
mod server;
mod units;
mod usage;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures servers that take uploads, and counts what an upload costs them.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Count(count::Arguments),
    Floor(floor::Arguments),
    Report(report::Arguments),
    Run(run::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Count(arguments) => count::run(&arguments),
        Command::Floor(arguments) => floor::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
    };
    output::ending(result)
}
