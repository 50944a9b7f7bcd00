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
pub struct Held {
    record: Record,
    files: Files,
    lock: Lock,
    /// When it was last written how far the upload is.
    written: Option<Instant>,
}

/// Nobody watches more closely than this.
const BETWEEN_WRITES: Duration = Duration::from_secs(1);

impl Held {
    pub(super) fn new(record: Record, files: Files, lock: Lock) -> Self {
        Self {
            record,
            files,
            lock,
            written: None,
        }
    }

    pub(super) fn create(record: Record, files: Files, lock: Lock) -> Result<Self, JournalError> {
        let held = Self::new(record, files, lock);
        held.files.remove_progress()?;
        held.files.write_durably(&held.record)?;
        Ok(held)
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
        let due = |written: Instant| written.elapsed() >= BETWEEN_WRITES;
        if self.written.is_none_or(due) {
            self.write_committed()?;
        }
        Ok(())
    }

    /// Writes what was noted, due or not: before the process ends without having finished.
    pub(crate) fn write_committed(&mut self) -> Result<(), JournalError> {
        self.files.write_progress(&self.record)?;
        self.written = Some(Instant::now());
        Ok(())
    }

    /// The upload starts again, with another session. Durable.
    pub(crate) fn new_session(&mut self, session: SessionUri) -> Result<(), JournalError> {
        self.record.session = session;
        self.record.committed = 0;
        self.record.touched = now();
        self.written = None;
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
