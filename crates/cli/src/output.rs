//! The one place that prints.
//!
//! Standard output is data, for programs; standard error is talk, for people: the log, and errors
//! as one line of what failed, with a hint on a line of its own. Nobody may be listening to either,
//! and a server goes on all the same, so a failed print is no error.

use std::error::Error;
use std::fmt::Display;
use std::io::{IsTerminal, Write};

use crate::settings::LogFilter;

/// Prints data, flushed at once.
pub(crate) fn data(data: impl Display) {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{data}")
        .and_then(|()| stdout.flush())
        .ok();
}

/// Prints an error with its causes, and what can be done about it.
pub(crate) fn error(error: &dyn Error, hint: Option<&str>) {
    talk("error", with_causes(error), hint);
}

/// Prints what failed, in words, and what can be done about it.
pub(crate) fn failure(what: &str, hint: Option<&str>) {
    talk("error", what, hint);
}

/// Prints what is worth knowing.
pub(crate) fn note(what: impl Display) {
    writeln!(std::io::stderr().lock(), "{what}").ok();
}

/// Asks something, with the cursor left behind it.
pub(crate) fn ask(what: impl Display) {
    let mut stderr = std::io::stderr().lock();
    write!(stderr, "{what} ").and_then(|()| stderr.flush()).ok();
}

/// Prints bytes as they are.
pub(crate) fn raw(data: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(data).and_then(|()| stdout.flush()).ok();
}

/// Prints what is odd but no error.
pub(crate) fn warning(warning: impl Display, hint: Option<&str>) {
    talk("warning", warning, hint);
}

/// Lets the log go to standard error from now on.
pub(crate) fn log_to_stderr(filter: &LogFilter) {
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(filter.env_filter())
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .init();
}

fn talk(word: &str, what: impl Display, hint: Option<&str>) {
    let mut stderr = std::io::stderr().lock();
    writeln!(stderr, "{word}: {what}").ok();
    if let Some(hint) = hint {
        writeln!(stderr, "hint: {hint}").ok();
    }
}

/// An error and its causes on one line.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    std::iter::successors(error.source(), |cause: &&dyn Error| (*cause).source())
        .fold(error.to_string(), |line, cause| format!("{line}: {cause}"))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the door does not open")]
    struct Stuck(#[source] io::Error);

    #[test]
    fn an_error_is_one_line_with_its_causes() {
        let error = Stuck(io::Error::other("the key broke"));
        assert_eq!(with_causes(&error), "the door does not open: the key broke");
    }
}
