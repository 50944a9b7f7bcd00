//! `windlass-perf`: how fast the server is, next to floors and other servers on the same machine.
//!
//! A floor does the minimum that any server has to do: it copies bytes from a socket into a file.
//! `run` starts each contestant in turn, warms it up, applies the load of a scenario and compares
//! the stored media. Only ratios within a round are meaningful. `count` counts system calls and
//! allocations per upload in two builds. `withstand` measures the effect of attacks and of overload
//! on other clients.
//!
//! The server is not a dependency: it is measured as a binary and a wire, like the servers of
//! others.

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
mod withstand;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures servers that take uploads, and counts the cost of an upload.
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
    Withstand(withstand::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Count(arguments) => count::run(&arguments),
        Command::Floor(arguments) => floor::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Withstand(arguments) => withstand::run(&arguments),
    };
    output::ending(result)
}
