//! The audit log as a file: one JSON object per line.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use thiserror::Error;
use windlass_server::{AuditEntry, AuditLog, AuditOutcome, Clock as _, SystemClock};

/// Appends entries to a file, which is opened again on SIGHUP, so that it can be rotated.
///
/// A line is written by one call. It is not synced: after a power cut the last lines may be missing.
#[derive(Debug)]
pub(super) struct AuditFile {
    path: PathBuf,
    file: Mutex<File>,
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

    fn append(&self, entry: &Value) {
        let mut line = entry.to_string();
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
    let mut options = OpenOptions::new();
    let opened = options.append(true).create(true).mode(0o600).open(path);
    opened.map_err(|source| AuditFileError {
        path: path.to_owned(),
        source,
    })
}

impl AuditLog for AuditFile {
    fn write(&self, entry: &AuditEntry<'_>) {
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
        for (name, value) in [
            ("principal", entry.principal),
            ("address", address.as_deref()),
            ("request", entry.request.as_deref()),
            ("method", entry.method),
            ("path", entry.path),
            ("resource", entry.resource),
        ] {
            if let Some(value) = value {
                line.insert(name.into(), value.into());
            }
        }
        self.append(&Value::Object(line));
    }
}

/// A time in milliseconds since the epoch as RFC 3339 writes it, in UTC.
fn text(millis: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_millis(millis);
    humantime::format_rfc3339_millis(time).to_string()
}
