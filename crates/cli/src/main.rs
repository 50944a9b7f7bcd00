//! The command-line tool `windlass`.
//!
//! [`args`] says what can be typed, [`settings`] what it means together with the environment and
//! the configuration file, [`commands`] does it, [`output`] prints and [`exit`] ends. Nothing here
//! knows the protocol.

mod args;
mod commands;
mod exit;
mod output;
mod settings;

use std::process::ExitCode;

use clap::Parser as _;

use args::{Args, Command};

fn main() -> ExitCode {
    let args = Args::parse();
    let result = match &args.command {
        Command::Serve(args) => commands::serve::run(args),
    };
    match result {
        Ok(()) => exit::Code::Success.into(),
        Err(error) => {
            output::error(&error, error.hint().as_deref());
            error.exit_code().into()
        }
    }
}
