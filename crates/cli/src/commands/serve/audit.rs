//! The audit log as a file: one JSON object per line.
//!
//! Unauthenticated callers can add only a bounded amount. Long paths are cut. Of many refusals in
//! ten seconds, only the first are written, followed by the number of the refusals left out.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use rustix::fs::OFlags;
use serde_json::{Map, Value, json};
use thiserror::Error;
use windlass_server::{AuditAction, AuditEntry, AuditLog, AuditOutcome, Clock as _, SystemClock};

/// Maximum length of a path in an entry, in bytes.
const MAX_PATH: usize = 512;

/// Maximum number of refusals of credentials that are written in a [`SPAN`].
const MAX_REFUSALS: u64 = 100;

/// The time in which refusals are counted. With the longest paths, the refusals of a day take about
/// 1 GB.
const SPAN: Duration = Duration::from_secs(10);

/// Appends entries to a file, which is opened again on SIGHUP, so that it can be rotated.
///
/// A line is written by one call. It is not synced: after a power cut the last lines may be
/// missing.
#[derive(Debug)]
pub(super) struct AuditFile {
    path: PathBuf,
    file: Mutex<File>,
    refusals: Mutex<Refusals>,
}

/// The refusals of credentials in the current [`SPAN`].
#[derive(Debug)]
struct Refusals {
    since: Instant,
    count: u64,
}

impl Refusals {
    /// Counts a refusal at `now`. Returns whether it is written. Also returns the number of
    /// unwritten refusals of the previous [`SPAN`], once that time is over.
    fn admit(&mut self, now: Instant) -> (bool, u64) {
        let mut omitted = 0;
        if now.duration_since(self.since) >= SPAN {
            omitted = self.count.saturating_sub(MAX_REFUSALS);
            *self = Self {
                since: now,
                count: 0,
            };
        }
        self.count += 1;
        (self.count <= MAX_REFUSALS, omitted)
    }
}

/// The file of the audit log cannot be opened.
#[derive(Debug, Error)]
#[error("the audit log {} cannot be opened", path.display())]
pub(crate) struct AuditFileError {
    path: PathBuf,
    source: io::Error,
}

impl AuditFile {
    /// Opens the file, and creates it for its owner only if it does not exist.
    pub(super) fn open(path: &Path) -> Result<Self, AuditFileError> {
        Ok(Self {
            path: path.to_owned(),
            file: Mutex::new(open(path)?),
            refusals: Mutex::new(Refusals {
                since: Instant::now(),
                count: 0,
            }),
        })
    }

    /// Opens the file again. After an error the old one stays in use.
    pub(super) fn reopen(&self) -> Result<(), AuditFileError> {
        *self.file() = open(&self.path)?;
        Ok(())
    }

    /// Writes that an operator has made the server read something again.
    pub(super) fn write_reload(&self, what: &str, is_usable: bool) {
        let outcome = if is_usable { "done" } else { "failed" };
        self.append(&json!({
            "time": text(SystemClock.now().as_millis()),
            "action": "reload",
            "outcome": outcome,
            "resource": what,
        }));
    }

    /// Whether a refusal of credentials is written. Writes how many were not.
    fn admits_refusal(&self) -> bool {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let (is_admitted, omitted) = refusals.admit(Instant::now());
        drop(refusals);
        if omitted > 0 {
            self.append(&json!({
                "time": text(SystemClock.now().as_millis()),
                "action": AuditAction::Authorize.name(),
                "outcome": "refused",
                "omitted": omitted,
            }));
        }
        is_admitted
    }

    fn append(&self, entry: &Value) {
        let mut line = escaped(&entry.to_string());
        line.push('\n');
        if let Err(error) = self.file().write_all(line.as_bytes()) {
            tracing::error!(%error, "an entry of the audit log is lost");
        }
    }

    fn file(&self) -> MutexGuard<'_, File> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open(path: &Path) -> Result<File, AuditFileError> {
    open_to_append(path).map_err(|source| AuditFileError {
        path: path.to_owned(),
        source,
    })
}

/// Opens a regular file, or creates it. A link is not followed. Otherwise anybody who can write to
/// the directory of the log could choose the file that grows.
fn open_to_append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    // Without `NONBLOCK`, opening a FIFO would block until a reader opens it.
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    options.custom_flags(flags.bits().cast_signed());
    let opened = options.open(path);
    let found = match &opened {
        Ok(file) => file.metadata()?,
        Err(_) => match path.symlink_metadata() {
            Ok(found) => found,
            Err(_) => return opened,
        },
    };
    if found.is_symlink() {
        return Err(io::Error::other(NotRegular::Link));
    }
    if !found.is_file() {
        return Err(io::Error::other(NotRegular::Special));
    }
    opened
}

/// Why a path is not opened.
#[derive(Debug, Error)]
enum NotRegular {
    #[error("it is a symbolic link; name its target")]
    Link,
    #[error("it is no regular file: the log is appended to a file")]
    Special,
}

/// Escapes the characters in a text of JSON on which a terminal would act or that change the order
/// of the text. Clients choose names and paths. The characters below U+0020 are escaped already.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if is_unsafe(character) {
            // All of them are in the basic plane, which takes one unit of UTF-16.
            write!(text, "\\u{:04x}", u32::from(character)).expect("a string takes all of it");
        } else {
            text.push(character);
        }
    }
    text
}

/// Whether a character is a control, ends a line, or changes the direction of the text or is
/// invisible and may hide it.
fn is_unsafe(character: char) -> bool {
    matches!(
        character,
        // DEL and C1, of which U+009B begins commands of terminals.
        '\u{7f}'..='\u{9f}'
            // Soft hyphen, and the Arabic mark of direction.
            | '\u{ad}'
            | '\u{61c}'
            // Invisible characters, marks of direction, separators of lines and paragraphs, and
            // embeddings.
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
    )
}

impl AuditLog for AuditFile {
    fn write(&self, entry: &AuditEntry<'_>) {
        if entry.action == AuditAction::Authorize && !self.admits_refusal() {
            return;
        }
        let mut line = Map::new();
        line.insert("time".into(), text(entry.time.as_millis()).into());
        line.insert("action".into(), entry.action.name().into());
        let (outcome, status) = match entry.outcome {
            AuditOutcome::Done => ("done", None),
            AuditOutcome::Refused(status) => ("refused", Some(status)),
            _ => ("other", None),
        };
        line.insert("outcome".into(), outcome.into());
        if let Some(status) = status {
            line.insert("status".into(), status.into());
        }
        let address = entry.address.map(|address| address.to_string());
        let session = entry.session.map(|id| id.abbreviated());
        for (name, value) in [
            ("principal", entry.principal),
            ("address", address.as_deref()),
            ("request", entry.request.as_deref()),
            ("method", entry.method),
            ("path", entry.path.map(shortened)),
            ("session", session.as_deref()),
            ("resource", entry.resource),
        ] {
            if let Some(value) = value {
                line.insert(name.into(), value.into());
            }
        }
        self.append(&Value::Object(line));
    }
}

/// The beginning of a path.
fn shortened(path: &str) -> &str {
    let mut end = path.len().min(MAX_PATH);
    while !path.is_char_boundary(end) {
        end -= 1;
    }
    &path[..end]
}

/// A time in milliseconds since the epoch as RFC 3339 writes it, in UTC.
fn text(millis: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_millis(millis);
    humantime::format_rfc3339_millis(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_beyond_the_limit_are_counted_and_not_written() {
        let start = Instant::now();
        let mut refusals = Refusals {
            since: start,
            count: 0,
        };
        for _ in 0..MAX_REFUSALS {
            assert_eq!(refusals.admit(start), (true, 0));
        }
        for _ in 0..7 {
            assert_eq!(refusals.admit(start), (false, 0));
        }
        let later = start + SPAN;
        assert_eq!(refusals.admit(later), (true, 7));
        assert_eq!(refusals.admit(later), (true, 0));
    }

    #[test]
    fn long_paths_are_cut() {
        assert_eq!(shortened("/farm/v1/animals"), "/farm/v1/animals");
        let long = "/ä".repeat(MAX_PATH);
        assert_eq!(shortened(&long), &long[..511]);
    }

    #[test]
    fn what_terminals_act_on_is_escaped() {
        let names = "a\u{1b}[31m\u{9b}31m\u{7f}\u{85}\u{202e}\u{2028}\u{2029}\u{2066}\u{200e}\
                     \u{61c}\u{feff}ä😀";
        let line = escaped(&json!({ "resource": names }).to_string());
        let expected = "{\"resource\":\"a\\u001b[31m\\u009b31m\\u007f\\u0085\\u202e\\u2028\
                        \\u2029\\u2066\\u200e\\u061c\\ufeffä😀\"}";
        assert_eq!(line, expected);
        let read: Value = serde_json::from_str(&line).expect("it is JSON");
        assert_eq!(read["resource"], names);
    }

    #[test]
    fn link_in_the_place_of_the_log_is_not_followed() {
        let dir = tempfile::tempdir().expect("a directory");
        let (target, link) = (dir.path().join("target"), dir.path().join("audit.log"));
        std::fs::write(&target, "old\n").expect("a file");
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        let error = AuditFile::open(&link).expect_err("it is a link");
        let source = std::error::Error::source(&error).expect("a cause");
        assert!(source.to_string().contains("symbolic link"), "{source}");
        let log = AuditFile::open(&target).expect("it is a file");
        std::fs::remove_file(&target).expect("it is ours");
        std::os::unix::fs::symlink(&link, &target).expect("a link");
        log.reopen().expect_err("it is a link");
        AuditFile::open(Path::new("/dev/null")).expect_err("it is a device");
    }
}
