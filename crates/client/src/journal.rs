//! The journal: a directory with records of unfinished uploads, so that a later process can
//! continue them.
//!
//! A journal is a directory that belongs to a single user. For example, the upload with the record
//! id `mzxw6ytb` has these files:
//!
//! ```text
//! mzxw6ytb.upload.json     The record: upload URL, session, metadata, identity of the file and
//!                          more. Written durably before the first byte of media is sent, and
//!                          replaced atomically and durably if a new session starts.
//! mzxw6ytb.upload.offset   The progress, for display. Replaced atomically but never synced, so a
//!                          power failure may damage it. No upload depends on it, because the
//!                          server has the authoritative offset.
//! mzxw6ytb.upload.lock     Locked (flock) by the holder of the record, which works on the upload.
//!                          The operating system unlocks it when the holder's process dies.
//! mzxw6ytb.upload.new      The next version of the record or the progress, before the rename.
//! ```
//!
//! ```text
//! qp7hd2an.upload.finished  The finished uploads of runs to one URL that have not ended whole; see
//!                           the module `finished`.
//! ```
//!
//! An upload exists as long as its record does. The record is created last and removed first, both
//! under the lock. Files without a record that a killed process leaves behind are removed by the
//! next [`Journal::open`].
//!
//! Other programs may have files in the directory. A file without a record is removed only if it
//! has one of these names and begins like a file of the journal.
//!
//! A session URI is a credential, and the upload URL may contain an API key. Files are therefore
//! readable by their owner only (0600), as are the directories that the journal creates (0700). An
//! existing directory is not changed, and is refused if it belongs to another user or if others may
//! write to it: a record that another user wrote could direct this user's files to another server.
//! For the same reason, a record that belongs to another user is not used.
//!
//! Records are JSON with a `version`. A record of another version is reported as damaged, and
//! neither used nor removed. Unknown fields are ignored, and are lost when the record is rewritten.
//! A field that must not be ignored requires a new version.
//!
//! All functions block the thread. Functions that write durably take a few syncs of small files.
//! Functions that read all records take about ten microseconds a record. All remaining functions
//! take less than a millisecond.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, io};

use tokio::time::Instant;

use crate::{InvalidSessionUri, SessionUri};
use files::{Files, Lock, Role};

mod files;
mod finished;
mod record;
#[cfg(test)]
mod tests;

pub use finished::{FinishedUpload, FinishedUploads, RunId};
pub use record::{Entry, InvalidRecordId, NewRecord, Record, RecordId, UploadKey};

/// A directory with records of unfinished uploads.
///
/// Any number of processes, and of clones in one process, may use it at the same time. A record can
/// be [locked](Self::lock) by one of them at a time, and only its holder works on the upload. Two
/// processes that start the same upload at the same time [create](Self::create) two records, and so
/// two uploads.
///
/// All methods block the thread while they read or write files.
#[derive(Debug, Clone)]
pub struct Journal {
    directory: PathBuf,
    /// Id of the user to whom the journal belongs.
    user: u32,
}

impl Journal {
    /// Opens a journal, and creates its directory and missing parents.
    ///
    /// Removes the files of uploads that have no record. A process leaves such files if it is
    /// killed while it creates or removes the record. Other files are not changed.
    ///
    /// # Errors
    ///
    /// The directory cannot be created or listed, belongs to a user other than the effective one of
    /// this process, or is writable by others.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, JournalError> {
        Self::open_as(files::this_user(), directory.into())
    }

    fn open_as(user: u32, directory: PathBuf) -> Result<Self, JournalError> {
        files::prepare_directory(&directory, user)?;
        let journal = Self { directory, user };
        for id in files::ids(&journal.directory, |_| true)? {
            if let Err(error) = journal.sweep(&id) {
                tracing::debug!(%id, %error, "cannot remove the files of a dead process");
            }
        }
        Ok(journal)
    }

    /// Returns the default directory: `$XDG_STATE_HOME/windlass/uploads` if that variable is an
    /// absolute path, otherwise `~/.local/state/windlass/uploads`. Returns `None` if there is
    /// neither such a variable nor a home directory.
    pub fn default_directory() -> Option<PathBuf> {
        state_directory(env::var_os("XDG_STATE_HOME"), env::home_dir())
            .map(|state| state.join("windlass/uploads"))
    }

    /// Returns the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the unfinished uploads, oldest first, and after them the records that cannot be
    /// used.
    ///
    /// # Errors
    ///
    /// The directory cannot be listed.
    pub fn entries(&self) -> Result<Vec<Entry>, JournalError> {
        let (mut records, mut damaged) = (Vec::new(), Vec::new());
        for id in self.recorded_ids()? {
            let files = self.files(&id);
            match files.read() {
                Ok(record) => records.push(record),
                // The upload was finished after the directory was listed.
                Err(Damage::Unreadable(error)) if error.kind() == io::ErrorKind::NotFound => {}
                Err(damage) => damaged.push(Entry::Damaged {
                    id,
                    path: files.record,
                    damage,
                }),
            }
        }
        records.sort_by_key(Record::sort_key);
        let records = records.into_iter().map(Box::new).map(Entry::Unfinished);
        Ok(records.chain(damaged).collect())
    }

    /// Finds the unfinished uploads with this key, oldest first.
    /// [`Client::upload`](crate::Client::upload) continues the last of them, which is the newest.
    ///
    /// Reads all records, which takes about ten microseconds each. Ignores unusable records. Takes
    /// no locks and writes nothing.
    ///
    /// # Errors
    ///
    /// The directory cannot be listed.
    pub fn find(&self, key: &UploadKey) -> Result<Vec<Record>, JournalError> {
        let mut found = Vec::new();
        for id in self.recorded_ids()? {
            let files = self.files(&id);
            if let Ok(mut record) = files.read_record()
                && key.matches(&record)
            {
                files.read_progress(&mut record);
                found.push(record);
            }
        }
        found.sort_by_key(Record::sort_key);
        Ok(found)
    }

    /// Returns the ids of all records.
    fn recorded_ids(&self) -> Result<BTreeSet<RecordId>, JournalError> {
        files::ids(&self.directory, |role| role == Role::Record)
    }

    /// Creates and locks a record. It survives a power failure once this returns.
    ///
    /// # Errors
    ///
    /// A file cannot be written, synced or locked, or no random id can be drawn.
    pub fn create(&self, new: NewRecord) -> Result<LockedRecord, JournalError> {
        loop {
            let id = RecordId::random()?;
            let files = self.files(&id);
            let Some(lock) = files.take_lock()? else {
                continue;
            };
            if !files.has_record()? {
                return LockedRecord::create(Record::new(id, new, now()), files, lock);
            }
        }
    }

    /// Locks a record, so that its upload can be [continued](crate::Client::resume).
    ///
    /// # Errors
    ///
    /// - [`InUse`](JournalError::InUse) while another process, or another [`LockedRecord`] of this
    ///   process, has the lock.
    /// - [`NotFound`](JournalError::NotFound) if there is no such record.
    /// - [`Damaged`](JournalError::Damaged) if the record cannot be used.
    /// - Others if a file cannot be read or locked.
    pub fn lock(&self, id: &RecordId) -> Result<LockedRecord, JournalError> {
        let files = self.files(id);
        let lock = Self::acquire(&files)?;
        match files.read() {
            Ok(record) => {
                files.make_private()?;
                Ok(LockedRecord::new(record, files, lock))
            }
            Err(damage) => Err(JournalError::Damaged {
                path: files.record,
                damage,
            }),
        }
    }

    /// Removes a record. The session of its upload stays on the server until it expires;
    /// [`Client::cancel`](crate::Client::cancel) ends it.
    ///
    /// A record that cannot be used, for instance a malformed one or one of another user, is
    /// removed as well, but not a record of another version.
    ///
    /// # Errors
    ///
    /// - [`InUse`](JournalError::InUse) while another process, or a [`LockedRecord`] of this
    ///   process, has the lock.
    /// - [`NotFound`](JournalError::NotFound) if there is no such record.
    /// - [`Damaged`](JournalError::Damaged) if the record has another version.
    /// - Others if a file cannot be locked or removed.
    pub fn remove(&self, id: &RecordId) -> Result<(), JournalError> {
        let files = self.files(id);
        let lock = Self::acquire(&files)?;
        match files.read() {
            Err(damage @ Damage::Version { .. }) => Err(JournalError::Damaged {
                path: files.record,
                damage,
            }),
            _ => files.remove_all(lock),
        }
    }

    /// Locks the files of an upload that has a record.
    fn acquire(files: &Files) -> Result<Lock, JournalError> {
        let not_found = || JournalError::NotFound {
            id: files.id.clone(),
        };
        // Checked before locking, so that a wrong id does not create a lock file.
        if !files.has_record()? {
            return Err(not_found());
        }
        let Some(lock) = files.take_lock()? else {
            return Err(JournalError::InUse {
                id: files.id.clone(),
            });
        };
        // Checked again under the lock, because the upload may have been finished in between.
        if files.has_record()? {
            return Ok(lock);
        }
        files.remove_all(lock)?;
        Err(not_found())
    }

    /// Removes the files of an upload, if it has no record. Skips them if the lock is taken: its
    /// holder is about to create or to remove the record.
    fn sweep(&self, id: &RecordId) -> Result<(), JournalError> {
        let files = self.files(id);
        let leftovers = || {
            files
                .are_leftovers()
                .map_err(|source| JournalError::Directory {
                    directory: self.directory.clone(),
                    source,
                })
        };
        if files.has_record()? || !leftovers()? {
            return Ok(());
        }
        match files.take_lock()? {
            Some(lock) if !files.has_record()? => files.remove_all(lock),
            _ => Ok(()),
        }
    }

    fn files(&self, id: &RecordId) -> Files {
        Files::new(&self.directory, id, self.user)
    }
}

/// Returns the user's directory for state: `xdg`, which is `$XDG_STATE_HOME`, or one below `home`.
/// A relative `xdg` is ignored, as the XDG Base Directory Specification requires.
fn state_directory(xdg: Option<OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    let xdg = xdg.map(PathBuf::from).filter(|path| path.is_absolute());
    let home = home.filter(|path| path.is_absolute());
    xdg.or_else(|| home.map(|home| home.join(".local/state")))
}

/// Returns the time for records, in whole seconds. It is shown to users, and decides which record
/// is older.
fn now() -> SystemTime {
    let since = crate::now().duration_since(UNIX_EPOCH);
    UNIX_EPOCH + Duration::from_secs(since.unwrap_or_default().as_secs())
}

/// A record of an unfinished upload, locked until this is dropped or the process dies.
#[derive(Debug)]
pub struct LockedRecord {
    record: Record,
    files: Files,
    lock: Lock,
    /// When this process last wrote the progress.
    progress_written: Option<Instant>,
}

/// Minimum interval between writes of the progress, short enough for display.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

impl LockedRecord {
    fn new(record: Record, files: Files, lock: Lock) -> Self {
        Self {
            record,
            files,
            lock,
            progress_written: None,
        }
    }

    fn create(record: Record, files: Files, lock: Lock) -> Result<Self, JournalError> {
        let locked = Self::new(record, files, lock);
        locked.files.remove_progress()?;
        locked.files.write_durably(&locked.record)?;
        Ok(locked)
    }

    /// Returns the record.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Returns the journal to which the record belongs.
    pub(crate) fn journal(&self) -> Journal {
        let (directory, user) = self.files.of_journal();
        Journal { directory, user }
    }

    /// Records the number of committed bytes. It is written, without a sync, at most once per
    /// second, and once more when the upload fails. The number is for display only, because an
    /// upload that continues queries the server.
    ///
    /// # Errors
    ///
    /// The file of the progress cannot be written.
    pub fn set_committed(&mut self, offset: u64) -> Result<(), JournalError> {
        self.record.committed = offset;
        self.record.updated = now();
        let due = |progress_written: Instant| progress_written.elapsed() >= PROGRESS_INTERVAL;
        if self.progress_written.is_none_or(due) {
            self.write_progress()?;
        }
        Ok(())
    }

    /// Writes the progress now, without a sync.
    pub(crate) fn write_progress(&mut self) -> Result<(), JournalError> {
        self.files.write_progress(&self.record)?;
        self.progress_written = Some(Instant::now());
        Ok(())
    }

    /// Replaces the session durably, because the upload restarts in this one.
    pub(crate) fn new_session(&mut self, session: SessionUri) -> Result<(), JournalError> {
        self.record.session = session;
        self.record.committed = 0;
        self.record.updated = now();
        // Removed first: after a crash, the progress of the old session must not be read as the
        // progress of the new session.
        self.files.remove_progress()?;
        self.files.write_durably(&self.record)?;
        // The file of the record has no field for `updated`; the file of the progress has.
        self.write_progress()
    }

    /// Removes the record of an upload that is recorded as finished. A power failure may bring it
    /// back, but the finished upload counts more. [`Journal::forget_finished`] syncs the directory.
    pub(crate) fn finish_recorded(self) -> Result<(), JournalError> {
        self.files.remove_without_sync(self.lock)
    }

    /// Removes the record durably, because the upload is finished or cannot be continued.
    ///
    /// # Errors
    ///
    /// A file cannot be removed, or the directory not synced. The record may then still be there.
    pub fn finish(self) -> Result<(), JournalError> {
        self.files.remove_all(self.lock)
    }
}

/// Why an operation of the journal failed.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The directory, or one of its parents, cannot be created or synced, or the directory cannot
    /// be listed.
    #[error("cannot use the journal {}", directory.display())]
    Directory {
        /// The journal's directory.
        directory: PathBuf,
        /// Cause of the error.
        source: io::Error,
    },
    /// Other users may write to the directory, and so could redirect uploads.
    #[error("others may write to the journal {} (mode {mode:04o})", directory.display())]
    WritableByOthers {
        /// The journal's directory.
        directory: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The directory belongs to another user. That user could redirect uploads.
    #[error("the journal {} belongs to another user (uid {owner})", directory.display())]
    OwnedByAnother {
        /// The journal's directory.
        directory: PathBuf,
        /// User id of the owner.
        owner: u32,
    },
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause of the error.
        source: io::Error,
    },
    /// A file cannot be written, synced or renamed.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Cause of the error.
        source: io::Error,
    },
    /// A file cannot be removed.
    #[error("cannot remove {}", path.display())]
    Remove {
        /// The file.
        path: PathBuf,
        /// Cause of the error.
        source: io::Error,
    },
    /// A file cannot be locked, for a reason other than that the lock is taken.
    #[error("cannot lock {}", path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// Cause of the error.
        source: io::Error,
    },
    /// The operating system provides no random numbers.
    #[error("cannot create a random id for the upload")]
    Random(#[source] getrandom::Error),
    /// The journal has no record with this id. Its upload may have been finished.
    #[error("the journal has no unfinished upload {id}")]
    NotFound {
        /// The id.
        id: RecordId,
    },
    /// Another process, or another [`LockedRecord`] of this process, has locked the record.
    #[error("another process is working on the upload {id}")]
    InUse {
        /// The id.
        id: RecordId,
    },
    /// The record of an upload would be too long, because of its metadata.
    #[error("the record of the upload would exceed {max} bytes: its metadata is too long")]
    RecordTooLong {
        /// Maximum length in bytes.
        max: u64,
    },
    /// The file of the finished uploads to one URL cannot be used.
    #[error("{} cannot be used: {damage}", path.display())]
    DamagedFinished {
        /// Path of the file.
        path: PathBuf,
        /// Why it cannot be used.
        damage: Damage,
    },
    /// The record cannot be used.
    #[error("{} cannot be used: {damage}", path.display())]
    Damaged {
        /// Path of the record.
        path: PathBuf,
        /// Why it cannot be used.
        damage: Damage,
    },
}

/// Why a record cannot be used.
///
/// [`Format`](Self::Format) has only the position of the error, because the content may be secret.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// The file of the record cannot be read.
    #[error("it cannot be read ({0})")]
    Unreadable(io::Error),
    /// The file belongs to another user. That user could have redirected the upload.
    #[error("it belongs to another user (uid {owner})")]
    OwnedByAnother {
        /// User id of the owner.
        owner: u32,
    },
    /// The file is not the JSON of a record.
    #[error("it is not the record of an upload (line {line}, column {column})")]
    Format {
        /// The line, from 1.
        line: usize,
        /// The column in bytes.
        column: usize,
    },
    /// The record has another version. Presumably a newer windlass wrote it.
    #[error(
        "it has version {found}, but this windlass supports versions up to {known}; use the windlass that wrote it"
    )]
    Version {
        /// Version of the record.
        found: u64,
        /// The newest supported version.
        known: u64,
    },
    /// The file is longer than any that is written, or one of its lines is.
    #[error("it is too long: it or a line of it exceeds {max} bytes")]
    TooLong {
        /// Maximum length in bytes.
        max: u64,
    },
    /// The file of finished uploads has the name of another URL's.
    #[error("it belongs to another upload URL")]
    OtherTarget,
    /// The session URI is not valid.
    #[error("{0}")]
    Session(InvalidSessionUri),
    /// The upload URL is not valid.
    #[error("its upload URL is not an absolute URL")]
    UploadUrl,
}
