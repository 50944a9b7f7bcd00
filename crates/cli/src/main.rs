//! The command-line tool `windlass`.
//!
//! [`args`] defines the command line. [`settings`] merges flags, environment variables and the
//! configuration file. [`commands`] runs the commands, [`display`] shows their progress, [`output`]
//! prints, and formats and escapes text, and [`exit`] holds the exit codes. The protocol itself is
//! implemented in the server and client crates.

mod args;
mod commands;
mod display;
mod exit;
mod output;
mod settings;

use std::process::ExitCode;

use clap::Parser as _;

use args::Args;
use exit::Code;

fn main() -> ExitCode {
    let args = Args::parse();
    let code = match commands::run(args.command) {
        Ok(code) => code,
        Err(error) => {
            output::error(&error, error.hint().as_deref());
            error.exit_code()
        }
    };
    code.max(written()).into()
}

/// Returns [`Code::Failure`] if data could not be written to standard output. The work of the
/// command itself is not undone.
fn written() -> Code {
    let Some(error) = output::lost() else {
        return Code::Success;
    };
    output::failure(&format!("cannot write to standard output: {error}"), None);
    Code::Failure
}
