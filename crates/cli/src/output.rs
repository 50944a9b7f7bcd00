//! Prints text, and formats numbers and outside text for it. No other module of the tool writes to
//! standard output or standard error.
//!
//! Standard output carries data for programs. Standard error carries messages for people: the log,
//! and each error on one line, followed by a hint on another line. Names and texts from outside are
//! escaped, so that they can neither control the terminal nor start a line.
//!
//! A message that cannot be written is ignored. Data that cannot be written is an error: the
//! command continues, and [`lost`] returns the first error at its end. A closed pipe is accepted
//! for data that can be requested again, such as a list, but not for a result, which is printed
//! only once.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::{Display, Write as _};
use std::io::{self, ErrorKind, IsTerminal, Write as _};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::time::Duration;

use clap::builder::styling::AnsiColor;

use crate::settings::LogFilter;
use log::LogWriter;

mod log;

/// The width of a terminal that does not state it.
const USUAL_COLUMNS: usize = 80;

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

/// Prints an error and a hint.
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

/// Begins a new line on a terminal, which has written `^C` at the end of the current line.
pub(crate) fn after_interrupt() {
    if std::io::stderr().is_terminal() {
        note("");
    }
}

/// Prints the text that a function returns. Its argument is whether the terminal has colours. The
/// function must escape texts from outside.
pub(crate) fn styled(make: impl FnOnce(bool) -> String) {
    let colours = has_colours(&io::stdout());
    remember(print(format!("{}\n", make(colours))).or_else(unless_gone));
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
    let colours = has_colours(&io::stderr());
    tracing_subscriber::fmt()
        .with_env_filter(filter.env_filter())
        .with_writer(LogWriter::new(std::io::stderr()))
        .with_ansi(colours)
        .init();
}

fn message(word: &str, what: impl Display, hint: Option<&str>) {
    let what = what.to_string();
    let mut stderr = std::io::stderr().lock();
    let coloured = has_colours(&stderr);
    writeln!(stderr, "{} {}", marked(word, coloured), escaped(&what)).ok();
    if let Some(hint) = hint {
        writeln!(stderr, "{} {}", marked("hint", coloured), escaped(hint)).ok();
    }
}

/// Returns the first word of a message with a colon, in its colour where there are colours.
fn marked(word: &str, coloured: bool) -> String {
    let colour = match word {
        "error" => AnsiColor::Red,
        "warning" => AnsiColor::Yellow,
        _ => AnsiColor::Cyan,
    };
    if coloured {
        let style = colour.on_default().bold();
        format!("{style}{word}:{style:#}")
    } else {
        format!("{word}:")
    }
}

/// Whether to write colours: to a terminal that has some, unless the user wants none
/// (<https://no-color.org>).
fn has_colours(to: &impl IsTerminal) -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    to.is_terminal() && !is_set("NO_COLOR") && !is_dumb
}

/// Returns the width of the terminal of standard output in columns, or `None` without a terminal.
pub(crate) fn stdout_columns() -> Option<usize> {
    let stdout = io::stdout();
    stdout.is_terminal().then(|| columns_of(stdout))
}

/// Returns the width of a terminal in columns.
pub(crate) fn columns_of(terminal: impl AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(terminal);
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { USUAL_COLUMNS } else { columns }
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

/// Layers of the HTTP client that say nothing which their cause or the error before does not say.
const LAYERS: [&str; 6] = [
    "error sending request",
    "client error (Connect)",
    "client error (SendRequest)",
    "tcp connect error",
    "dns error",
    "error resolving DNS",
];

/// Returns an error and its causes on one line.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |cause: &&dyn Error| (*cause).source());
    causes.fold(error.to_string(), |line, cause| {
        let text = cause.to_string();
        let is_layer = cause.source().is_some() && LAYERS.contains(&&*text);
        // Some errors repeat the text of their cause.
        if is_layer || line.ends_with(&text) {
            line
        } else {
            format!("{line}: {text}")
        }
    })
}

/// The units of sizes with their bytes, largest first: powers of 1024.
const UNITS: [(&str, u64); 4] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
];

/// The units of times with their seconds, largest first.
const TIMES: [(&str, u64); 4] = [("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)];

/// Formats a size: `17 B`, `1.5 MiB`, `512 MiB`. It is rounded down, so that incomplete data
/// never looks complete.
pub(crate) fn size(bytes: u64) -> String {
    let Some((unit, scale)) = UNITS.iter().find(|(_, scale)| bytes >= *scale) else {
        return format!("{bytes} B");
    };
    let tenths = u128::from(bytes) * 10 / u128::from(*scale);
    if tenths >= 1000 || tenths.is_multiple_of(10) {
        format!("{} {unit}", tenths / 10)
    } else {
        format!("{}.{} {unit}", tenths / 10, tenths % 10)
    }
}

/// Returns the percentage of `total`, rounded down: it is 100 only if all bytes are there.
pub(crate) fn percent(bytes: u64, total: u64) -> u64 {
    if total == 0 {
        return 100;
    }
    let percent = u128::from(bytes) * 100 / u128::from(total);
    u64::try_from(percent.min(100)).unwrap_or(100)
}

/// Formats a duration in its two largest units: `41 s`, `3 min 20 s`, `2 h 5 min`, `9 d`.
pub(crate) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    let large = TIMES.iter().position(|(_, scale)| seconds >= *scale);
    let Some(large) = large else {
        return "0 s".to_owned();
    };
    let (unit, scale) = TIMES[large];
    let rest = TIMES
        .get(large + 1)
        .map(|(unit, small)| (unit, seconds % scale / small));
    match rest {
        Some((small, count)) if count > 0 && seconds < 7 * 86_400 => {
            format!("{} {unit} {count} {small}", seconds / scale)
        }
        _ => format!("{} {unit}", seconds / scale),
    }
}

/// Formats an age in its largest unit.
pub(crate) fn age(time: Duration) -> String {
    let seconds = time.as_secs();
    let largest = TIMES.iter().find(|(_, scale)| seconds >= *scale);
    match largest {
        Some((unit, scale)) => format!("{} {unit}", seconds / scale),
        None => "0 s".to_owned(),
    }
}

/// Formats a duration in seconds, rounded up, so that 0 means that it is over.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{} s", time.as_millis().div_ceil(1000))
}

/// Escapes outside text for a terminal or a log: control characters, line separators and characters
/// that change the direction of text become `\u{1b}`.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    escape_chars(text, steers, |c, out| write!(out, "{}", c.escape_unicode()))
}

/// Escapes the same characters in JSON, as `\u001b`. Line breaks stay: they occur only outside of
/// strings.
pub(crate) fn escaped_json(json: &str) -> String {
    let steers = |c| c != '\n' && steers(c);
    // All of them are in the Basic Multilingual Plane, so four digits are enough.
    escape_chars(json, steers, |c, out| {
        write!(out, "\\u{:04x}", u32::from(c))
    })
    .into_owned()
}

fn escape_chars(
    text: &str,
    is_odd: impl Fn(char) -> bool,
    escape: impl Fn(char, &mut String) -> std::fmt::Result,
) -> Cow<'_, str> {
    if !text.contains(&is_odd) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_odd(c) {
            escape(c, &mut out).expect("memory takes everything");
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Whether a character affects the text around it: control characters (C0, DEL, C1), line
/// separators, and the marks, embeddings, overrides and isolates of the Unicode Bidirectional
/// Algorithm.
pub(crate) fn steers(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the door does not open")]
    struct Stuck(#[source] io::Error);

    #[test]
    fn each_kind_of_message_has_its_colour() {
        for (word, colour) in [("error", 31), ("warning", 33), ("hint", 36)] {
            let expected = format!("\u{1b}[1m\u{1b}[{colour}m{word}:\u{1b}[0m");
            assert_eq!(marked(word, true), expected);
            assert_eq!(marked(word, false), format!("{word}:"));
        }
    }

    #[test]
    fn an_error_is_one_line_with_its_causes() {
        let error = Stuck(io::Error::other("the key broke"));
        assert_eq!(with_causes(&error), "the door does not open: the key broke");
    }

    #[test]
    fn layers_that_say_nothing_are_left_out() {
        #[derive(Debug, thiserror::Error)]
        #[error("{0}")]
        struct Layer(&'static str, #[source] Option<Box<Self>>);
        let layer = |text, cause: Option<Layer>| Layer(text, cause.map(Box::new));
        let root = layer("dns error", None);
        let error = layer("no", Some(layer("tcp connect error", Some(root))));
        // The last one says all that is known.
        assert_eq!(with_causes(&error), "no: dns error");
    }

    #[test]
    fn sizes_have_three_digits_and_are_never_rounded_up() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            ((1 << 20) - 1, "1023 KiB"),
            (1 << 20, "1 MiB"),
            (99 * (1 << 20) + (1 << 19), "99.5 MiB"),
            (100 * (1 << 20) + (1 << 19), "100 MiB"),
            (1 << 30, "1 GiB"),
            (5_497_558_138_880, "5 TiB"),
            (u64::MAX, "16777215 TiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(size(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn a_hundred_percent_is_all() {
        let cases = [
            (0, 0, 100),
            (0, 10, 0),
            (5, 10, 50),
            (999, 1000, 99),
            (1000, 1000, 100),
            (u64::MAX, u64::MAX, 100),
            (7, 3, 100),
        ];
        for (bytes, total, expected) in cases {
            assert_eq!(percent(bytes, total), expected, "{bytes} of {total}");
        }
    }

    #[test]
    fn times_have_the_units_that_matter() {
        let cases = [
            (0, "0 s", "0 s"),
            (41, "41 s", "41 s"),
            (60, "1 min", "1 min"),
            (200, "3 min 20 s", "3 min"),
            (7500, "2 h 5 min", "2 h"),
            (7201, "2 h", "2 h"),
            (90_000, "1 d 1 h", "1 d"),
            (9 * 86_400 + 7200, "9 d", "9 d"),
        ];
        for (seconds, expected, rough) in cases {
            let time = Duration::from_secs(seconds);
            assert_eq!(span(time), expected, "{seconds}");
            assert_eq!(age(time), rough, "{seconds}");
        }
    }

    #[test]
    fn waits_are_rounded_up() {
        assert_eq!(seconds(Duration::from_millis(3001)), "4 s");
        assert_eq!(seconds(Duration::from_secs(3)), "3 s");
        assert_eq!(seconds(Duration::ZERO), "0 s");
    }

    #[test]
    fn text_for_a_terminal_is_escaped() {
        let cases = [
            ("my cow.jpg", "my cow.jpg"),
            ("牛 🐄 é", "牛 🐄 é"),
            ("\u{1b}[2Jcow", "\\u{1b}[2Jcow"),
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}"),
            ("cow\nerror: no\r\t", "cow\\u{a}error: no\\u{d}\\u{9}"),
            ("\u{9b}2J\u{7f}", "\\u{9b}2J\\u{7f}"),
            ("cow\u{202e}gpj.exe", "cow\\u{202e}gpj.exe"),
            (
                "\u{2066}\u{200f}\u{61c}\u{2028}",
                "\\u{2066}\\u{200f}\\u{61c}\\u{2028}",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(escaped(text), expected);
            assert_eq!(escaped(expected), expected, "it can be shown twice");
        }
    }

    #[test]
    fn json_for_a_terminal_means_the_same() {
        let name = "\u{1b}[2J\u{9b}1m\u{7f}\u{202e}牛\n";
        let value = serde_json::json!({"name": name, "\u{85}": [1]});
        let text = escaped_json(&format!("{value:#}"));
        let odd = text.chars().find(|c| *c != '\n' && steers(*c));
        assert_eq!(odd, None, "{text}");
        assert!(text.contains(r"\u009b1m\u007f\u202e牛\n"), "{text}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).ok(),
            Some(value)
        );
    }
}
