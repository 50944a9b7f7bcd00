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

fn main() -> ExitCode {
    let args = Args::parse();
    match commands::run(args.command) {
        Ok(code) => code.into(),
        Err(error) => {
            output::error(&error, error.hint().as_deref());
            error.exit_code().into()
        }
    }
}
