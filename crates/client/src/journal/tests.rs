use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::{SessionUri, SourceIdentity};

mod find;
mod finished;
mod killed;
mod lock;
mod privacy;
mod records;

const URL: &str = "https://farm.example.com/upload/farm/v1/animals?key=a-key";
const SESSION: &str = "https://farm.example.com/upload/farm/v1/animals?upload_id=a-secret";

fn source(path: &str) -> SourceIdentity {
    serde_json::from_value(json!({
        "path": path,
        "file": {
            "device": 1,
            "inode": 2,
            "size": 1000,
            "modified": {"seconds": 1_700_000_000, "nanoseconds": 5},
        },
        "ends_crc32c": "AAAAAA==",
    }))
    .unwrap()
}

fn new_record() -> NewRecord {
    NewRecord {
        url: URL.to_owned(),
        session: SESSION.parse().unwrap(),
        http_method: "POST".to_owned(),
        content_type: Some("image/jpeg".to_owned()),
        metadata: Some(json!({"name": "Llama", "legs": 4})),
        source: source("/home/jane/llama.jpg"),
        total: 1000,
        chunk_size: None,
        of_run: false,
    }
}

fn journal() -> (TempDir, Journal) {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::open(directory.path().join("state/uploads")).unwrap();
    (directory, journal)
}

/// Returns the path of an upload's file with this extension after `upload`.
fn file(journal: &Journal, id: &RecordId, extension: &str) -> PathBuf {
    journal.directory().join(format!("{id}.upload.{extension}"))
}

/// Returns the extensions of an upload's files, in order.
fn files_of(journal: &Journal, id: &RecordId) -> Vec<&'static str> {
    ["json", "lock", "new", "offset"]
        .into_iter()
        .filter(|extension| file(journal, id, extension).exists())
        .collect()
}

/// Returns all records, which must be readable.
fn records(journal: &Journal) -> Vec<Record> {
    let record = |entry| match entry {
        Entry::Unfinished(record) => *record,
        Entry::Damaged { .. } => panic!("{entry:?}"),
    };
    journal.entries().unwrap().into_iter().map(record).collect()
}

/// Returns the only record.
fn only_record(journal: &Journal) -> Record {
    let [record] = records(journal).try_into().unwrap();
    record
}

/// Edits the JSON of a record.
fn edit(journal: &Journal, id: &RecordId, change: impl FnOnce(&mut Value)) {
    let path = file(journal, id, "json");
    let mut value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut value);
    fs::write(path, value.to_string()).unwrap();
}
