//! How a record is written down.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use super::{Damage, Record, RecordId};
use crate::{InvalidSessionUri, SessionUri, SourceIdentity};

/// The version that is written, and the only one that is read.
const VERSION: u64 = 1;

#[derive(Serialize, Deserialize)]
struct StoredRecord {
    version: u64,
    url: String,
    session: String,
    #[serde(rename = "verb")]
    http_method: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Value>,
    source: SourceIdentity,
    total: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chunk_size: Option<u64>,
    /// Seconds since 1970.
    started: u64,
}

/// How far an upload is. It has a file of its own, that may be lost.
#[derive(Serialize, Deserialize)]
pub(super) struct Progress {
    committed: u64,
    /// Seconds since 1970.
    touched: u64,
}

/// All that is looked at before the version is known.
#[derive(Deserialize)]
struct Versioned {
    version: u64,
}

/// How the texts of records and of how far an upload is begin.
const PREFIXES: [&[u8]; 2] = [b"{\n  \"version\": ", b"{\"committed\":"];

/// Whether the beginning of a file is that of a text that was written here, or is what a killed process
/// or a power cut makes of one: cut short, nothing, or zeros from somewhere on.
pub(super) fn may_be_journal_text(beginning: &[u8]) -> bool {
    let zeros = beginning.iter().position(|byte| *byte == 0);
    let text = &beginning[..zeros.unwrap_or(beginning.len())];
    PREFIXES
        .iter()
        .any(|opening| text.starts_with(opening) || opening.starts_with(text))
}

/// The text of a record.
pub(super) fn write(record: &Record) -> Vec<u8> {
    let stored = StoredRecord {
        version: VERSION,
        url: record.url.clone(),
        session: record.session.reveal().to_owned(),
        http_method: record.http_method.clone(),
        content_type: record.content_type.clone(),
        metadata: record.metadata.clone(),
        source: record.source.clone(),
        total: record.total,
        chunk_size: record.chunk_size,
        started: seconds(record.started),
    };
    let mut text = serde_json::to_vec_pretty(&stored).expect("all its keys are text");
    text.push(b'\n');
    text
}

/// Reads the text of a record. Nothing of it is committed, as far as that says.
pub(super) fn read(id: RecordId, text: &[u8]) -> Result<Record, Damage> {
    let Versioned { version } = serde_json::from_slice(text).map_err(not_a_record)?;
    if version != VERSION {
        return Err(Damage::Version {
            found: version,
            known: VERSION,
        });
    }
    let stored: StoredRecord = serde_json::from_slice(text).map_err(not_a_record)?;
    let started = time(stored.started);
    Ok(Record {
        id,
        session: session(&stored.session, &stored.url)?,
        url: stored.url,
        http_method: stored.http_method,
        content_type: stored.content_type,
        metadata: stored.metadata,
        source: stored.source,
        total: stored.total,
        committed: 0,
        chunk_size: stored.chunk_size,
        started,
        touched: started,
    })
}

/// The text of how far an upload is.
pub(super) fn write_progress(record: &Record) -> Vec<u8> {
    let progress = Progress {
        committed: record.committed,
        touched: seconds(record.touched),
    };
    serde_json::to_vec(&progress).expect("it is two numbers")
}

/// Reads how far an upload is. A text that was torn says nothing.
pub(super) fn read_progress(record: &mut Record, text: &[u8]) {
    if let Ok(progress) = serde_json::from_slice::<Progress>(text) {
        record.committed = progress.committed.min(record.total);
        record.touched = time(progress.touched);
    }
}

/// What serde says may quote what it found.
#[expect(clippy::needless_pass_by_value, reason = "it is passed to map_err")]
fn not_a_record(error: serde_json::Error) -> Damage {
    Damage::Format {
        line: error.line(),
        column: error.column(),
    }
}

/// Tokens are for the origin of the URL, wherever the session is.
fn session(text: &str, url: &str) -> Result<SessionUri, Damage> {
    let url = Url::parse(url).map_err(|_| Damage::Session(InvalidSessionUri::NotAUrl))?;
    let session: SessionUri = text.parse().map_err(Damage::Session)?;
    Ok(session.issued_for(&url))
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

fn time(seconds: u64) -> SystemTime {
    UNIX_EPOCH
        .checked_add(Duration::from_secs(seconds))
        .unwrap_or(UNIX_EPOCH)
}
