//! `windlass completions`.

use clap::CommandFactory as _;

use crate::args::{Args, CompletionsArgs};
use crate::output;

/// Prints the script of a shell.
pub(super) fn run(args: &CompletionsArgs) {
    let mut script = Vec::new();
    let mut command = Args::command();
    clap_complete::generate(args.shell, &mut command, "windlass", &mut script);
    output::raw(&script);
}
