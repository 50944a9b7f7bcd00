//! The command-line tool `windlass`.
//!
//! [`args`] says what can be typed, [`settings`] what it means together with the environment and
//! the configuration file, [`commands`] does it, [`display`] shows how far it is, [`output`] prints and
//! [`exit`] ends. Nothing here knows the protocol.

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

/// Whether all data was written. What was done before stays done; only nobody knows of it.
fn written() -> Code {
    let Some(error) = output::lost() else {
        return Code::Success;
    };
    output::failure(&format!("cannot write to standard output: {error}"), None);
    Code::Failure
}
