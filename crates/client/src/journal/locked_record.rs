//! An upload that this process works on.

use std::time::Duration;

use tokio::time::Instant;

use super::files::{Files, Lock};
use super::{JournalError, Record, now};
use crate::SessionUri;

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
    pub(super) fn new(record: Record, files: Files, lock: Lock) -> Self {
        Self {
            record,
            files,
            lock,
            progress_written: None,
        }
    }

    pub(super) fn create(record: Record, files: Files, lock: Lock) -> Result<Self, JournalError> {
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
