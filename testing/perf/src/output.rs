//! The output: figures on stdout, messages on stderr.

use std::fmt::Display;
use std::process::ExitCode;

/// Says a line that is a result.
#[expect(clippy::print_stdout, reason = "results are what stdout is for")]
pub(crate) fn result(line: impl Display) {
    println!("{line}");
}

/// Says how far the work is.
#[expect(clippy::print_stderr, reason = "long work shows progress")]
pub(crate) fn progress(line: impl Display) {
    eprintln!("{line}");
}

/// Says why the work failed, if it did.
pub(crate) fn ending(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            progress(format_args!("FAILED: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
