//! Printing. Nothing else in the tool writes to standard output or standard error.
//!
//! Standard output carries data for programs. Standard error carries messages for people: the log, and
//! each error on one line, followed by a hint on another line. Names and texts from outside are
//! escaped, so that they can neither control the terminal nor start a line of their own.
//!
//! A message that cannot be written is ignored. Data that cannot be written is an error: the command
//! continues, and [`lost`] returns the first error at its end. A closed pipe is accepted for data that
//! can be requested again, such as a list, but not for a result, which is printed only once.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;

use crate::settings::LogFilter;
use crate::text::{escaped, escaped_json};

/// The first error of writing data.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// Returns the first error of writing data to standard output, if there was one.
pub(crate) fn lost() -> Option<&'static io::Error> {
    LOST.get()
}

/// Prints data that can be requested again, and flushes it.
pub(crate) fn data(data: impl Display) {
    remember(print(format!("{data}\n")).or_else(unless_gone));
}

/// Prints JSON that can be requested again, and flushes it.
pub(crate) fn json(json: impl Display) {
    data(for_reader(&json.to_string()));
}

/// Prints JSON that is available only once, and flushes it.
pub(crate) fn result(json: impl Display) {
    remember(print(format!("{}\n", for_reader(&json.to_string()))));
}

/// Prints a status line of the server. A failure to write is ignored.
pub(crate) fn announce(what: impl Display) {
    print(format!("{what}\n")).ok();
}

/// Prints an error with its causes, and a hint.
pub(crate) fn error(error: &dyn Error, hint: Option<&str>) {
    message("error", with_causes(error), hint);
}

/// Prints what failed, and a hint.
pub(crate) fn failure(what: &str, hint: Option<&str>) {
    message("error", what, hint);
}

/// Prints a note on one line.
pub(crate) fn note(what: impl Display) {
    let what = what.to_string();
    writeln!(std::io::stderr().lock(), "{}", escaped(&what)).ok();
}

/// Prints a question and leaves the cursor after it.
pub(crate) fn ask(what: impl Display) {
    let what = what.to_string();
    let mut stderr = std::io::stderr().lock();
    write!(stderr, "{} ", escaped(&what))
        .and_then(|()| stderr.flush())
        .ok();
}

/// Prints bytes as they are.
pub(crate) fn raw(data: &[u8]) {
    remember(print(data).or_else(unless_gone));
}

/// Prints a warning, and a hint.
pub(crate) fn warning(warning: impl Display, hint: Option<&str>) {
    message("warning", warning, hint);
}

/// Starts to write the log to standard error.
pub(crate) fn log_to_stderr(filter: &LogFilter) {
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(filter.env_filter())
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .init();
}

fn message(word: &str, what: impl Display, hint: Option<&str>) {
    let what = what.to_string();
    let mut stderr = std::io::stderr().lock();
    writeln!(stderr, "{word}: {}", escaped(&what)).ok();
    if let Some(hint) = hint {
        writeln!(stderr, "hint: {}", escaped(hint)).ok();
    }
}

fn print(data: impl AsRef<[u8]>) -> io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(data.as_ref())?;
    stdout.flush()
}

fn remember(printed: io::Result<()>) {
    if let Err(error) = printed {
        // Only the first error is kept.
        LOST.set(error).ok();
    }
}

/// Accepts a closed pipe: the reader of a list may stop early, as in `windlass uploads | head`.
fn unless_gone(error: io::Error) -> io::Result<()> {
    match error.kind() {
        ErrorKind::BrokenPipe => Ok(()),
        _ => Err(error),
    }
}

/// Escapes JSON for a terminal. The escaped JSON has the same value. Programs get it unchanged.
fn for_reader(json: &str) -> String {
    if std::io::stdout().is_terminal() {
        escaped_json(json)
    } else {
        json.to_owned()
    }
}

/// Returns an error and its causes on one line.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    std::iter::successors(error.source(), |cause: &&dyn Error| (*cause).source())
        .fold(error.to_string(), |line, cause| format!("{line}: {cause}"))
}

#[cfg(test)]
mod tests {
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
