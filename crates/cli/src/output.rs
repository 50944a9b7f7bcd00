//! The one place that prints.
//!
//! Standard output is data, for programs; standard error is talk, for people: the log, and errors
//! as one line of what failed, with a hint on a line of its own. Names and texts of others cannot steer
//! a terminal from either, nor begin a line of talk.
//!
//! Talk that nobody hears is no error. Data that cannot be written is: the command goes on, and
//! [`lost`] tells at its end. A reader that has seen enough of a list may go; one that goes before it
//! has a result may not, for a result comes only once.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;

use crate::settings::LogFilter;
use crate::text::{escaped, escaped_json};

/// The first failure to write data.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// What was not written to standard output, if anything was not: why.
pub(crate) fn lost() -> Option<&'static io::Error> {
    LOST.get()
}

/// Prints data that can be asked for again, flushed at once.
pub(crate) fn data(data: impl Display) {
    remember(print(format!("{data}\n")).or_else(unless_gone));
}

/// Prints JSON that can be asked for again, flushed at once.
pub(crate) fn json(json: impl Display) {
    data(for_reader(&json.to_string()));
}

/// Prints JSON that comes only once, flushed at once.
pub(crate) fn result(json: impl Display) {
    remember(print(format!("{}\n", for_reader(&json.to_string()))));
}

/// Prints what a server has to say. It goes on whether anybody listens or not.
pub(crate) fn announce(what: impl Display) {
    print(format!("{what}\n")).ok();
}

/// Prints an error with its causes, and what can be done about it.
pub(crate) fn error(error: &dyn Error, hint: Option<&str>) {
    message("error", with_causes(error), hint);
}

/// Prints what failed, in words, and what can be done about it.
pub(crate) fn failure(what: &str, hint: Option<&str>) {
    message("error", what, hint);
}

/// Prints what is worth knowing, on one line.
pub(crate) fn note(what: impl Display) {
    let what = what.to_string();
    writeln!(std::io::stderr().lock(), "{}", escaped(&what)).ok();
}

/// Asks something, with the cursor left behind it.
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

/// Prints what is odd but no error.
pub(crate) fn warning(warning: impl Display, hint: Option<&str>) {
    message("warning", warning, hint);
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
        // Only the first one counts.
        LOST.set(error).ok();
    }
}

/// Who reads a list has seen enough when it goes: `windlass uploads | head`.
fn unless_gone(error: io::Error) -> io::Result<()> {
    match error.kind() {
        ErrorKind::BrokenPipe => Ok(()),
        _ => Err(error),
    }
}

/// JSON that does nothing to a terminal; programs get it as it is. It means the same.
fn for_reader(json: &str) -> String {
    if std::io::stdout().is_terminal() {
        escaped_json(json)
    } else {
        json.to_owned()
    }
}

/// An error and its causes on one line.
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
