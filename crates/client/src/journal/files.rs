//! The files of the journal: names, locks, durable writes and formats.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;
use windlass_proto::transfer::Protocol;

use super::{Damage, JournalError, Record, RecordId};
use crate::regular_file::open_file;
use crate::{SessionUri, SourceIdentity};

/// The role of a file, which its extension shows.
///
/// Each extension contains `upload`, because another program may have a file such as
/// `abcdefgh.lock`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Record,
    Progress,
    Lock,
    /// The next version of the record or the progress.
    New,
}

impl Role {
    pub(super) const ALL: [Self; 4] = [Self::Record, Self::Progress, Self::Lock, Self::New];

    pub(super) fn extension(self) -> &'static str {
        match self {
            Self::Record => "upload.json",
            Self::Progress => "upload.offset",
            Self::Lock => "upload.lock",
            Self::New => "upload.new",
        }
    }

    fn of(extension: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|role| role.extension() == extension)
    }
}

/// The files of one upload.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) id: RecordId,
    pub(super) record: PathBuf,
    directory: PathBuf,
    progress: PathBuf,
    lock: PathBuf,
    new: PathBuf,
    /// Id of the user to whom the files must belong.
    user: u32,
}

/// The lock of an upload. Only its holder changes the upload's files.
#[derive(Debug)]
pub(super) struct Lock {
    pub(super) file: File,
}

impl Drop for Lock {
    /// Unlocks explicitly. A forked child has a copy of the descriptor until it executes another
    /// program. If this process only closed its own descriptor, the child would still hold the
    /// lock.
    fn drop(&mut self) {
        self.file.unlock().ok();
    }
}

/// Returns the effective user id. The journal trusts only files of this user.
pub(super) fn this_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Creates the directory of a journal, and checks that it belongs to `user` and is not writable by
/// others.
pub(super) fn prepare_directory(directory: &Path, user: u32) -> Result<(), JournalError> {
    let cannot_use = |source| JournalError::Directory {
        directory: directory.to_owned(),
        source,
    };
    make_directories_durably(directory).map_err(cannot_use)?;
    let metadata = directory.metadata().map_err(cannot_use)?;
    if metadata.uid() != user {
        return Err(JournalError::OwnedByAnother {
            directory: directory.to_owned(),
            owner: metadata.uid(),
        });
    }
    let mode = metadata.mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(JournalError::WritableByOthers {
            directory: directory.to_owned(),
            mode,
        });
    }
    Ok(())
}

/// Creates a directory and its missing parents, and syncs the parents.
fn make_directories_durably(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    let parent = directory
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    make_directories_durably(parent)?;
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    sync_directory(parent)
}

pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Returns the ids in the names of the files with the wanted roles. Other files are ignored.
pub(super) fn ids(
    directory: &Path,
    wanted: impl Fn(Role) -> bool,
) -> Result<BTreeSet<RecordId>, JournalError> {
    let id = |entry: io::Result<fs::DirEntry>| {
        let name = entry?.file_name();
        let parts = name.to_str().and_then(|name| name.split_once('.'));
        Ok(parts
            .filter(|(_, extension)| Role::of(extension).is_some_and(&wanted))
            .and_then(|(id, _)| id.parse().ok()))
    };
    let entries = directory.read_dir();
    entries
        .and_then(|entries| entries.filter_map(|entry| id(entry).transpose()).collect())
        .map_err(|source| JournalError::Directory {
            directory: directory.to_owned(),
            source,
        })
}

impl Files {
    pub(super) fn new(directory: &Path, id: &RecordId, user: u32) -> Self {
        let path = |role: Role| directory.join(format!("{id}.{}", role.extension()));
        Self {
            id: id.clone(),
            record: path(Role::Record),
            progress: path(Role::Progress),
            lock: path(Role::Lock),
            new: path(Role::New),
            user,
            directory: directory.to_owned(),
        }
    }

    /// Returns the journal's directory, and the id of the user to whom it belongs.
    pub(super) fn of_journal(&self) -> (PathBuf, u32) {
        (self.directory.clone(), self.user)
    }

    /// Takes the lock; `None` if another process, or another [`Lock`] of this process, has it.
    ///
    /// Between open and lock, its holder may have removed the lock file. A lock on a removed file
    /// is worthless, because the next process creates and locks another file. So the lock counts
    /// only if the file still has its name.
    pub(super) fn take_lock(&self) -> Result<Option<Lock>, JournalError> {
        let cannot_lock = |source| JournalError::Lock {
            path: self.lock.clone(),
            source,
        };
        loop {
            let file = open(private_options().create(true), &self.lock).map_err(cannot_lock)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(cannot_lock(error)),
            }
            if has_name(&file, &self.lock).map_err(cannot_lock)? {
                return Ok(Some(Lock { file }));
            }
        }
    }

    pub(super) fn has_record(&self) -> Result<bool, JournalError> {
        self.record
            .try_exists()
            .map_err(|source| JournalError::Read {
                path: self.record.clone(),
                source,
            })
    }

    /// Returns whether the files of an upload that has no record may be removed. Each of them must
    /// look like a file of the journal, because other programs may have files with the same names.
    pub(super) fn are_leftovers(&self) -> io::Result<bool> {
        for path in [&self.progress, &self.lock, &self.new] {
            match is_leftover(path, self.user) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Ok(true) => {}
                other => return other,
            }
        }
        Ok(true)
    }

    /// Reads the record and the progress.
    pub(super) fn read(&self) -> Result<Record, Damage> {
        let mut record = self.read_record()?;
        self.read_progress(&mut record);
        Ok(record)
    }

    /// Reads the record without the progress: its number of committed bytes is zero.
    pub(super) fn read_record(&self) -> Result<Record, Damage> {
        let file = open_to_read(&self.record).map_err(Damage::Unreadable)?;
        let owner = file.metadata().map_err(Damage::Unreadable)?.uid();
        if owner != self.user {
            return Err(Damage::OwnedByAnother { owner });
        }
        let mut text = Vec::new();
        let mut bounded = file.take(MAX_RECORD + 1);
        bounded.read_to_end(&mut text).map_err(Damage::Unreadable)?;
        if text.len() as u64 > MAX_RECORD {
            return Err(Damage::TooLong { max: MAX_RECORD });
        }
        decode_record(self.id.clone(), &text)
    }

    /// Reads the progress into the record. Ignores a missing or damaged file.
    pub(super) fn read_progress(&self, record: &mut Record) {
        let mut text = Vec::new();
        let read = open_to_read(&self.progress)
            .and_then(|file| file.take(MAX_PROGRESS).read_to_end(&mut text));
        if read.is_ok() {
            decode_progress(record, &text);
        }
    }

    /// Makes the record readable by its owner only, in case it was copied here with other
    /// permissions.
    pub(super) fn make_private(&self) -> Result<(), JournalError> {
        let cannot_write = |source| JournalError::Write {
            path: self.record.clone(),
            source,
        };
        let mode = self.record.metadata().map_err(cannot_write)?.mode();
        let others_mode = mode & 0o077;
        if others_mode == 0 {
            return Ok(());
        }
        fs::set_permissions(&self.record, Permissions::from_mode(0o600)).map_err(cannot_write)
    }

    /// Replaces the record atomically and durably.
    pub(super) fn write_durably(&self, record: &Record) -> Result<(), JournalError> {
        let text = encode_record(record);
        if text.len() as u64 > MAX_RECORD {
            return Err(JournalError::RecordTooLong { max: MAX_RECORD });
        }
        self.write_new(&text)
            .and_then(|file| file.sync_all())
            .and_then(|()| fs::rename(&self.new, &self.record))
            .and_then(|()| sync_directory(&self.directory))
            .map_err(|source| JournalError::Write {
                path: self.record.clone(),
                source,
            })
    }

    /// Replaces the progress atomically, without a sync.
    pub(super) fn write_progress(&self, record: &Record) -> Result<(), JournalError> {
        self.write_new(&encode_progress(record))
            .and_then(|_| fs::rename(&self.new, &self.progress))
            .map_err(|source| JournalError::Write {
                path: self.progress.clone(),
                source,
            })
    }

    pub(super) fn remove_progress(&self) -> Result<(), JournalError> {
        remove(&self.progress)
    }

    /// Removes all files, the record first and the lock last. A power failure may bring them back.
    pub(super) fn remove_without_sync(&self, lock: Lock) -> Result<(), JournalError> {
        remove(&self.record)?;
        self.remove_others(lock)
    }

    /// Removes all files, the record first and the lock last. The removal of the record is durable.
    pub(super) fn remove_all(&self, lock: Lock) -> Result<(), JournalError> {
        remove(&self.record)?;
        // Synced, because a record could otherwise reappear after a power failure. A later upload
        // with the same key would then continue the finished one, and, if the server no longer
        // knows its session, upload the media a second time.
        sync_directory(&self.directory).map_err(|source| JournalError::Directory {
            directory: self.directory.clone(),
            source,
        })?;
        self.remove_others(lock)
    }

    fn remove_others(&self, lock: Lock) -> Result<(), JournalError> {
        remove(&self.progress)?;
        remove(&self.new)?;
        remove(&self.lock)?;
        drop(lock);
        Ok(())
    }

    /// Writes the file `upload.new`, which the caller renames. Overwrites the file that a killed
    /// process may have left.
    fn write_new(&self, text: &[u8]) -> io::Result<File> {
        let mut file = open(private_options().create(true), &self.new)?;
        file.set_len(0)?;
        file.write_all(text)?;
        Ok(file)
    }
}

/// Opens a file of the journal. No file of the journal is a link.
pub(super) fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    open_file(options, path)?
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
}

fn open_to_read(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().read(true), path)
}

fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

/// Returns whether a file looks like a leftover of a killed process of `user`.
fn is_leftover(path: &Path, user: u32) -> io::Result<bool> {
    let metadata = path.symlink_metadata()?;
    if !metadata.is_file() || metadata.uid() != user {
        return Ok(false);
    }
    let mut beginning = Vec::new();
    let opened = open_to_read(path)?;
    opened.take(64).read_to_end(&mut beginning)?;
    Ok(may_be_journal_text(&beginning))
}

/// Returns whether an open file still is the file of this path.
pub(super) fn has_name(file: &File, path: &Path) -> io::Result<bool> {
    let named = match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        metadata => metadata?,
    };
    let opened = file.metadata()?;
    Ok((named.dev(), named.ino()) == (opened.dev(), opened.ino()))
}

pub(super) fn remove(path: &Path) -> Result<(), JournalError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(JournalError::Remove {
            path: path.to_owned(),
            source: error,
        }),
        _ => Ok(()),
    }
}

/// Maximum length of a record in bytes. Metadata, the only long part of it, has at most a megabyte
/// at a server, which indentation makes longer.
const MAX_RECORD: u64 = 4 << 20;

/// Maximum length of the progress in bytes: it is two numbers.
const MAX_PROGRESS: u64 = 1 << 10;

/// The version of records of Google's protocol, also for a windlass that knows no other.
const GOOGLE_VERSION: u64 = 1;

/// The version of records that state their protocol.
const VERSION: u64 = 2;

/// The JSON of a record.
#[derive(Serialize, Deserialize)]
struct StoredRecord {
    version: u64,
    url: String,
    session: String,
    /// Missing in records of Google's protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    protocol: Option<Protocol>,
    // `verb` is the name in existing journals.
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
    /// A windlass that does not know this field forgets the upload when it is finished.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    of_run: bool,
    /// Seconds since 1970.
    started: u64,
}

/// The JSON of an upload's progress.
#[derive(Serialize, Deserialize)]
struct StoredProgress {
    committed: u64,
    /// Seconds since 1970.
    // `touched` is the name in existing journals.
    #[serde(rename = "touched")]
    updated: u64,
}

/// The field that is read before the rest of a record.
#[derive(Deserialize)]
pub(super) struct Versioned {
    pub(super) version: u64,
}

/// The first bytes of the JSON of a record, and of the progress.
const PREFIXES: [&[u8]; 2] = [b"{\n  \"version\": ", b"{\"committed\":"];

/// Returns whether a file that begins with these bytes may be one of the journal. After a kill or a
/// power failure such a file may be empty, be truncated, or have zeros from some byte on.
fn may_be_journal_text(beginning: &[u8]) -> bool {
    let zeros = beginning.iter().position(|byte| *byte == 0);
    let text = &beginning[..zeros.unwrap_or(beginning.len())];
    PREFIXES
        .iter()
        .any(|opening| text.starts_with(opening) || opening.starts_with(text))
}

/// Encodes a record.
fn encode_record(record: &Record) -> Vec<u8> {
    let protocol = Some(record.session.protocol()).filter(|it| *it != Protocol::Google);
    let stored = StoredRecord {
        version: if protocol.is_none() {
            GOOGLE_VERSION
        } else {
            VERSION
        },
        url: record.url.clone(),
        session: record.session.reveal().to_owned(),
        protocol,
        http_method: record.http_method.clone(),
        content_type: record.content_type.clone(),
        metadata: record.metadata.clone(),
        source: record.source.clone(),
        total: record.total,
        chunk_size: record.chunk_size,
        of_run: record.of_run,
        started: seconds(record.started),
    };
    let mut text = serde_json::to_vec_pretty(&stored).expect("all its keys are text");
    text.push(b'\n');
    text
}

/// Decodes a record. Its number of committed bytes is zero.
fn decode_record(id: RecordId, text: &[u8]) -> Result<Record, Damage> {
    let Versioned { version } = serde_json::from_slice(text).map_err(not_a_record)?;
    if !(GOOGLE_VERSION..=VERSION).contains(&version) {
        return Err(Damage::Version {
            found: version,
            known: VERSION,
        });
    }
    let stored: StoredRecord = serde_json::from_slice(text).map_err(not_a_record)?;
    let started = time(stored.started);
    Ok(Record {
        id,
        session: session(&stored.session, &stored.url)?
            .with_protocol(stored.protocol.unwrap_or_default()),
        url: stored.url,
        http_method: stored.http_method,
        content_type: stored.content_type,
        metadata: stored.metadata,
        source: stored.source,
        total: stored.total,
        committed: 0,
        chunk_size: stored.chunk_size,
        of_run: stored.of_run,
        started,
        updated: started,
    })
}

/// Encodes the progress.
fn encode_progress(record: &Record) -> Vec<u8> {
    let progress = StoredProgress {
        committed: record.committed,
        updated: seconds(record.updated),
    };
    serde_json::to_vec(&progress).expect("it is two numbers")
}

/// Decodes the progress into the record. A damaged text is ignored.
fn decode_progress(record: &mut Record, text: &[u8]) {
    if let Ok(progress) = serde_json::from_slice::<StoredProgress>(text) {
        record.committed = progress.committed.min(record.total);
        record.updated = time(progress.updated);
    }
}

/// Converts an error of serde without its message, which may quote secret content.
#[expect(clippy::needless_pass_by_value, reason = "it is passed to map_err")]
pub(super) fn not_a_record(error: serde_json::Error) -> Damage {
    Damage::Format {
        line: error.line(),
        column: error.column(),
    }
}

/// Parses the session URI. `url` is the upload URL; a token may be sent to its origin only.
fn session(text: &str, url: &str) -> Result<SessionUri, Damage> {
    let url = Url::parse(url).map_err(|_| Damage::UploadUrl)?;
    let session: SessionUri = text.parse().map_err(Damage::Session)?;
    Ok(session.issued_for(&url))
}

pub(super) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

pub(super) fn time(seconds: u64) -> SystemTime {
    UNIX_EPOCH
        .checked_add(Duration::from_secs(seconds))
        .unwrap_or(UNIX_EPOCH)
}
