//! What survives the process: which uploads are unfinished, and how they go on.
//!
//! A journal is a directory of its owner's alone. An upload with the id `mzxw6ytb` has
//!
//! ```text
//! mzxw6ytb.upload.json     the record: where it goes, the session, the metadata, by what the file is
//!                          recognised. Durable before the first byte of media is sent; replaced as a
//!                          whole, durably.
//! mzxw6ytb.upload.offset   how far it is, for who asks. Replaced as a whole, never synced: the server
//!                          knows better, and a power cut that tears it tears nothing else.
//! mzxw6ytb.upload.lock     locked (flock) by the process that works on it; the system unlocks it when
//!                          that dies.
//! mzxw6ytb.upload.new      what is going to replace one of the former.
//! ```
//!
//! The record is what makes the upload exist. It is the last to come and the first to go, both under
//! the lock. Whatever else a killed process leaves is swept by the next [`Journal::open`].
//!
//! The directory may hold the files of other programs. Nothing is removed that is named otherwise, or
//! that begins with what is not written here.
//!
//! A session URI is a credential, and so may be the URL with its key: files are readable by their
//! owner only (0600), as are the directories that are made (0700). An existing directory is left as
//! it is, and refused when it is another user's or others may write to it: who can plant a record
//! there can choose where this user's files are sent. So a record is not used that is another's.
//!
//! Records are JSON with a `version`. A record of another version is shown as damaged, and neither
//! used nor removed. Fields that are not known are ignored, and are lost when the record is
//! rewritten; a field that must not be ignored comes with a new version.
//!
//! Everything here blocks, mostly for less than a millisecond, and for a few syncs of small files where
//! something is made durable. What is absent: any knowledge of the network.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, io};

use tokio::time::Instant;

use crate::{SessionUri, system};
use files::{Files, Lock, Role};

mod error;
mod files;
mod record;
#[cfg(test)]
mod tests;

pub use error::{Damage, JournalError};
pub use record::{Entry, InvalidRecordId, NewRecord, Record, RecordId, UploadKey};

/// A directory in which unfinished uploads are remembered.
///
/// Any number of processes may use it at once. One of them at a time [holds](Self::lock) an upload.
/// Two that [create](Self::create) records of the same upload at the same moment get two uploads.
#[derive(Debug, Clone)]
pub struct Journal {
    directory: PathBuf,
    /// Whose it is.
    user: u32,
}

impl Journal {
    /// Opens a journal. Its directory, and those above it, are made where they are missing. What
    /// processes left that died while they began or finished an upload is swept; files that are not the
    /// journal's are left alone.
    ///
    /// # Errors
    ///
    /// Also when the directory belongs to another than the effective user, or others may write to it.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, JournalError> {
        Self::open_as(files::this_user(), directory.into())
    }

    fn open_as(user: u32, directory: PathBuf) -> Result<Self, JournalError> {
        files::prepare_directory(&directory, user)?;
        let journal = Self { directory, user };
        for id in files::ids(&journal.directory, |_| true)? {
            if let Err(error) = journal.sweep(&id) {
                tracing::debug!(%id, %error, "what a dead process left stays");
            }
        }
        Ok(journal)
    }

    /// Where journals are by default: `$XDG_STATE_HOME/windlass/uploads`, or
    /// `~/.local/state/windlass/uploads`. `None` for a user without a home.
    pub fn default_directory() -> Option<PathBuf> {
        state_directory(env::var_os("XDG_STATE_HOME"), env::home_dir())
            .map(|state| state.join("windlass/uploads"))
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The unfinished uploads, oldest first. Behind them come the records that cannot be read. Files
    /// that are named otherwise are ignored.
    pub fn entries(&self) -> Result<Vec<Entry>, JournalError> {
        let (mut records, mut damaged) = (Vec::new(), Vec::new());
        for id in self.recorded_ids()? {
            let files = self.files(&id);
            match files.read() {
                Ok(record) => records.push(record),
                // Finished just now.
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

    /// The unfinished uploads of the same file to the same place, oldest first: those that a command
    /// that is run again can go on with.
    ///
    /// It reads all records, locks nothing and writes nothing: some ten microseconds for each record.
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

    /// The ids of which there are records.
    fn recorded_ids(&self) -> Result<BTreeSet<RecordId>, JournalError> {
        files::ids(&self.directory, |role| role == Role::Record)
    }

    /// Remembers an upload and holds it. It survives a power cut once this returns.
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

    /// Takes hold of an upload, to go on with it.
    ///
    /// # Errors
    ///
    /// [`InUse`](JournalError::InUse) while another process works on it, or another [`LockedRecord`] of this
    /// one.
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

    /// Forgets an upload. Its session stays until the server lets it expire.
    ///
    /// A damaged record is removed too, but not one of another version.
    ///
    /// # Errors
    ///
    /// [`InUse`](JournalError::InUse) while another process works on it.
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

    /// The lock of an upload that exists.
    fn acquire(files: &Files) -> Result<Lock, JournalError> {
        let not_found = || JournalError::NotFound {
            id: files.id.clone(),
        };
        // Looked at before, so that no lock file comes about for an id that was mistyped.
        if !files.has_record()? {
            return Err(not_found());
        }
        let Some(lock) = files.take_lock()? else {
            return Err(JournalError::InUse {
                id: files.id.clone(),
            });
        };
        // And after, for it may have been finished in between.
        if files.has_record()? {
            return Ok(lock);
        }
        files.remove_all(lock)?;
        Err(not_found())
    }

    /// Removes the files of an upload that has no record. Where somebody holds the lock, the record
    /// is about to come, or its removal is under way.
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

/// A relative `$XDG_STATE_HOME` is to be ignored (XDG Base Directory Specification).
fn state_directory(xdg: Option<OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    let xdg = xdg.map(PathBuf::from).filter(|path| path.is_absolute());
    let home = home.filter(|path| path.is_absolute());
    xdg.or_else(|| home.map(|home| home.join(".local/state")))
}

/// The time that is written down, in whole seconds. People read it; nothing is decided by it.
fn now() -> SystemTime {
    let since = system::now().duration_since(UNIX_EPOCH);
    UNIX_EPOCH + Duration::from_secs(since.unwrap_or_default().as_secs())
}

/// An unfinished upload, locked until this is dropped.
///
/// A process that dies drops it too: the system takes its locks away.
#[derive(Debug)]
pub struct LockedRecord {
    record: Record,
    files: Files,
    lock: Lock,
    /// When it was last written how far the upload is.
    progress_written: Option<Instant>,
}

/// Nobody watches more closely than this.
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

    /// What is remembered.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Notes how much the server has. It is written at most once a second, and not made durable:
    /// the server is asked in any case before an upload goes on.
    pub(crate) fn committed(&mut self, offset: u64) -> Result<(), JournalError> {
        self.record.committed = offset;
        self.record.touched = now();
        let due = |progress_written: Instant| progress_written.elapsed() >= PROGRESS_INTERVAL;
        if self.progress_written.is_none_or(due) {
            self.write_progress()?;
        }
        Ok(())
    }

    /// Writes what was noted, due or not: before the process ends without having finished.
    pub(crate) fn write_progress(&mut self) -> Result<(), JournalError> {
        self.files.write_progress(&self.record)?;
        self.progress_written = Some(Instant::now());
        Ok(())
    }

    /// The upload starts again, with another session. Durable.
    pub(crate) fn new_session(&mut self, session: SessionUri) -> Result<(), JournalError> {
        self.record.session = session;
        self.record.committed = 0;
        self.record.touched = now();
        self.progress_written = None;
        // What was committed to the old session must not be taken for the new one's.
        self.files.remove_progress()?;
        self.files.write_durably(&self.record)?;
        // When that was is not part of the record itself.
        self.files.write_progress(&self.record)
    }

    /// The upload is over, one way or the other: it is forgotten, durably.
    pub fn finish(self) -> Result<(), JournalError> {
        self.files.remove_all(self.lock)
    }
}
