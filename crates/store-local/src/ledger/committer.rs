//! The connection that writes, and its transactions.
//!
//! ```text
//! BEGIN
//! ask the file systems          a failure means that earlier syncs cannot be relied on
//!   change                      for each change
//! COMMIT                        one sync of the WAL
//! ask the file systems again    a failure means that this sync cannot be relied on
//! ```
//!
//! A refused change must leave no trace. Refusals are rare, so changes first run without
//! protection. If one is refused, the whole transaction is rolled back and repeated with each
//! change under a savepoint of its own.
//!
//! Only the writer thread ([`super::writer`]) uses this connection.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use windlass_store::{Epoch, Failpoint, LedgerError, Session, SessionId, SessionState};

use super::changes::{Change, ChangeError, Leases, Refusal, Tables};
use super::rows::{self, UnreadableRows};
use super::wal::{CheckpointThread, Checkpointer, Wal, is_busy_error, is_full_error};
use crate::reserve::{Purpose, Reserve};
use crate::sync_health::{FailStop, SyncVerifier};

/// Maximum number of leases that wait in memory for the next change of their session. Beyond it
/// all of them are written, which bounds the memory of sessions that are leased and never changed.
const MAX_UNWRITTEN_LEASES: usize = 1 << 16;

/// State that the committer shares with the readers and the opening code.
#[derive(Debug)]
pub(super) struct WriterShared {
    pub(super) leases: Arc<Leases>,
    pub(super) reserve: Arc<Reserve>,
    pub(super) sync_verifier: Arc<SyncVerifier>,
}

/// The only connection that writes, with everything that belongs to its commits.
#[derive(Debug)]
pub(super) struct Committer {
    checkpointer: Checkpointer,
    connection: Connection,
    /// The database file that the checkpoint thread syncs. It is closed after all connections: see
    /// [`Committer::close`].
    database: Option<Arc<File>>,
    wal: Wal,
    shared: WriterShared,
    fail_stop: FailStop,
    unreadable_rows: UnreadableRows,
    commits: Arc<AtomicU64>,
    /// A commit has removed pages from the database, and its file has not been shortened yet.
    has_shrunk: bool,
}

/// The outcome of one change: the sessions it has expired, or why it was refused.
pub(super) type Outcome = Result<Vec<SessionId>, Refusal>;

fn lacks_space(outcome: &Outcome) -> bool {
    matches!(outcome, Err(Refusal::NoSpace))
}

/// How a change runs in a transaction. `None` means that the transaction cannot go on.
type RunChange = fn(&Committer, &Change, &Tables<'_>) -> rusqlite::Result<Option<Outcome>>;

impl Committer {
    /// Takes over the connection and starts the checkpoint thread.
    pub(super) fn new(
        connection: Connection,
        checkpoint_thread: CheckpointThread,
        shared: WriterShared,
    ) -> std::io::Result<Self> {
        Ok(Self {
            wal: checkpoint_thread.wal.clone(),
            database: checkpoint_thread.database.clone(),
            fail_stop: checkpoint_thread.fail_stop.clone(),
            checkpointer: Checkpointer::start(checkpoint_thread)?,
            connection,
            shared,
            unreadable_rows: UnreadableRows::default(),
            commits: Arc::default(),
            has_shrunk: false,
        })
    }

    /// Returns the counter of committed transactions.
    pub(super) fn commits(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.commits)
    }

    /// Raises a session's epoch. It reads committed rows only, and costs no commit ([`Leases`]).
    pub(super) fn lease(&self, id: SessionId) -> Result<Option<Session>, LedgerError> {
        self.fail_stop.check().map_err(LedgerError::Fault)?;
        let found = match rows::session(&self.connection, id) {
            Err(error) if self.unreadable_rows.log(&error) => return Err(LedgerError::Unreadable),
            found => found.map_err(|error| self.fault(error))?,
        };
        Ok(found.map(|mut session| {
            session.epoch = match session.state {
                SessionState::Active | SessionState::Finishing => {
                    self.shared.leases.raise(id, session.epoch)
                }
                // No change of an ended session is ever accepted, so its epoch stays as it is.
                _ => session.epoch,
            };
            session
        }))
    }

    /// Makes the changes in one transaction. On an error none was made.
    pub(super) fn commit(&mut self, changes: &[Change]) -> Result<Vec<Outcome>, LedgerError> {
        self.fail_stop.check().map_err(LedgerError::Fault)?;
        let outcomes = self.commit_making_space(changes)?;
        let mut made = changes.iter().zip(&outcomes);
        self.has_shrunk |= made.any(|(change, made)| change.shrinks() && made.is_ok());
        Ok(outcomes)
    }

    /// Does what is due after a commit and what no caller waits for.
    pub(super) fn checkpoint_if_due(&mut self) {
        // After a failed sync the success of another one means nothing, so the WAL must stay as it
        // is for the next process.
        if self.fail_stop.check().is_err() {
            return;
        }
        if std::mem::take(&mut self.has_shrunk) {
            // SQLite shortens the file only when a checkpoint has copied the whole WAL.
            self.checkpoint_whole_wal();
        } else {
            self.advance_checkpoint();
        }
    }

    /// Runs [`Committer::transaction`], and repeats the changes for which a full disk has no space:
    /// first with an emptied WAL and then, if they make space or end a session, with the reserve.
    ///
    /// Repeating is safe here, unlike after a failed sync: the transaction was rolled back when a
    /// write found no space, and nothing of it had been synced.
    fn commit_making_space(&mut self, changes: &[Change]) -> Result<Vec<Outcome>, LedgerError> {
        let mut outcomes = vec![Err(Refusal::NoSpace); changes.len()];
        // An emptied WAL is written again from its start, in space that it already has. So this
        // comes before the reserve, which it may save.
        if self.commit_lacking_space(changes, &mut outcomes, None)? && self.checkpoint_whole_wal() {
            self.commit_lacking_space(changes, &mut outcomes, None)?;
        }
        for purpose in [Purpose::Finish, Purpose::MakeSpace] {
            // One step of the reserve at a time: what is released to the file system may be taken
            // by other programs at once.
            while self.commit_lacking_space(changes, &mut outcomes, Some(purpose))?
                && self.shared.reserve.release(purpose)
            {}
        }
        Ok(outcomes)
    }

    /// Makes, in one transaction, the changes that have found no space so far and may use the
    /// reserve for `purpose`. Returns whether some of them have found no space again.
    fn commit_lacking_space(
        &self,
        changes: &[Change],
        outcomes: &mut [Outcome],
        purpose: Option<Purpose>,
    ) -> Result<bool, LedgerError> {
        // `None` is less than every purpose, so without one all changes are chosen.
        let (chosen, mut pending): (Vec<_>, Vec<_>) = changes
            .iter()
            .zip(outcomes)
            .filter(|(change, outcome)| lacks_space(outcome) && change.purpose() >= purpose)
            .unzip();
        if chosen.is_empty() {
            return Ok(false);
        }
        match self.transaction(&chosen) {
            Err(LedgerError::NoSpace) => Ok(true),
            // The busy timeout has passed already: repeating would keep all callers waiting.
            Err(LedgerError::Busy) => {
                for outcome in pending {
                    *outcome = Err(Refusal::Busy);
                }
                Ok(false)
            }
            Err(error) => Err(error),
            Ok(made) => {
                for (outcome, made) in pending.iter_mut().zip(made) {
                    **outcome = made;
                }
                Ok(pending.iter().any(|outcome| lacks_space(outcome)))
            }
        }
    }

    /// Copies the whole WAL into the database, so that its space can be used again. Returns whether
    /// that has made a difference.
    fn checkpoint_whole_wal(&mut self) -> bool {
        let was_busy = self.checkpointer.is_running();
        // SQLite runs one checkpoint at a time; a second one would be refused as busy.
        self.checkpointer.wait();
        let had_pending = self.wal.pending_pages() > 0;
        if had_pending {
            self.finish_checkpoint();
        }
        (was_busy || had_pending) && self.wal.pending_pages() == 0
    }

    /// Runs one transaction around all changes. On an error none was made.
    fn transaction(&self, changes: &[&Change]) -> Result<Vec<Outcome>, LedgerError> {
        let mut result = self.attempt(changes, Self::run_unprotected);
        if let Ok(None) = result {
            result = self.attempt(changes, Self::run_under_savepoint);
        }
        result.map(|outcomes| outcomes.expect("a savepoint rolls a refused change back"))
    }

    /// Runs one attempt of a transaction. No transaction is open afterwards.
    fn attempt(
        &self,
        changes: &[&Change],
        run_change: RunChange,
    ) -> Result<Option<Vec<Outcome>>, LedgerError> {
        let sync_verifier = &self.shared.sync_verifier;
        // IMMEDIATE takes the write lock now. So a lock of another program is met here, where
        // nothing has been changed, and never in the middle of a transaction.
        let begun = self.ledger_error(self.sql("BEGIN IMMEDIATE"));
        let result = begun.and_then(|()| {
            // Before the changes, for two reasons. They name media that was synced before. And the
            // first of them may restart the WAL, which overwrites commits that the database was
            // synced for.
            sync_verifier.check().map_err(LedgerError::Fault)?;
            self.ledger_error(self.run_and_commit(changes, run_change))
        });
        self.roll_back();
        let outcomes = result?;
        // After the commit, because the commit is a sync itself. No caller is answered before.
        sync_verifier.confirm().map_err(LedgerError::Fault)?;
        Ok(outcomes)
    }

    /// Converts SQLite's error to the one that callers get.
    fn ledger_error<T>(&self, result: rusqlite::Result<T>) -> Result<T, LedgerError> {
        result.map_err(|error| match error {
            // Neither is a fault: SQLite has written nothing that counts.
            error if is_full_error(&error) => LedgerError::NoSpace,
            error if is_busy_error(&error) => LedgerError::Busy,
            // No retry: after a failed sync Linux reports success for the next one, although the
            // bytes are not on the disk.
            error => self.fault(error),
        })
    }

    /// Rolls back what was not committed.
    fn roll_back(&self) {
        if !self.connection.is_autocommit() {
            // If it fails, the transaction stays open and is never committed: the next BEGIN
            // fails inside of it, which ends the ledger.
            let _ = self.sql("ROLLBACK");
        }
    }

    /// Runs each change by `run_change`, then commits. Returns `None` when a step cannot go on.
    fn run_and_commit(
        &self,
        changes: &[&Change],
        run_change: RunChange,
    ) -> rusqlite::Result<Option<Vec<Outcome>>> {
        let tables = Tables {
            connection: &self.connection,
            leases: &self.shared.leases,
        };
        Failpoint::TransactionBegun.reach();
        let mut outcomes = Vec::with_capacity(changes.len());
        for change in changes {
            match run_change(self, change, &tables)? {
                Some(outcome) => outcomes.push(outcome),
                None => return Ok(None),
            }
        }
        // A transaction without changes is rolled back, which costs no sync.
        if outcomes.iter().any(Result::is_ok) {
            let overflow = self.shared.leases.overflow(MAX_UNWRITTEN_LEASES);
            tables.write_epochs(&overflow)?;
            Failpoint::TransactionFilled.reach();
            // Before COMMIT: readers see the rows as soon as it has synced, and until the file
            // systems have been asked they must ask for themselves.
            self.shared.sync_verifier.mark_pending();
            self.sql("COMMIT")?;
            Failpoint::TransactionCommitted.reach();
            // A statistic. Nothing is ordered by it.
            self.commits.fetch_add(1, Ordering::Relaxed);
            // After COMMIT: a rolled-back transaction must not remove an epoch from memory, or the
            // next lease would get the same one.
            self.remove_written_leases(changes, &outcomes, overflow);
        }
        Ok(Some(outcomes))
    }

    /// Removes from memory the epochs that the commit has written, and those of sessions that it
    /// has deleted.
    fn remove_written_leases(
        &self,
        changes: &[&Change],
        outcomes: &[Outcome],
        written: Vec<(SessionId, Epoch)>,
    ) {
        for (change, outcome) in changes.iter().zip(outcomes) {
            if let Ok(expired) = outcome {
                for id in expired {
                    self.shared.leases.remove(*id);
                }
                if let Some((id, epoch)) = change.lease() {
                    self.shared.leases.remove_written(id, epoch);
                }
            }
        }
        for (id, epoch) in written {
            self.shared.leases.remove_written(id, epoch);
        }
    }

    /// Runs one change. Returns `None` when it was refused, perhaps halfway. An error ends the
    /// transaction.
    fn run_unprotected(
        &self,
        change: &Change,
        tables: &Tables<'_>,
    ) -> rusqlite::Result<Option<Outcome>> {
        self.run(change, tables).map(|outcome| outcome.ok().map(Ok))
    }

    /// Runs one change under a savepoint. An error ends the transaction.
    fn run_under_savepoint(
        &self,
        change: &Change,
        tables: &Tables<'_>,
    ) -> rusqlite::Result<Option<Outcome>> {
        self.sql("SAVEPOINT change")?;
        let outcome = self.run(change, tables)?;
        if outcome.is_err() {
            self.sql("ROLLBACK TO change")?;
        }
        // ROLLBACK TO leaves the savepoint open, so it is released in both cases.
        self.sql("RELEASE change")?;
        Ok(Some(outcome))
    }

    fn run(&self, change: &Change, tables: &Tables<'_>) -> rusqlite::Result<Outcome> {
        match change.run(tables) {
            Ok(expired) => Ok(Ok(expired)),
            Err(ChangeError::Refused(refusal)) => Ok(Err(refusal)),
            // On SQLITE_FULL SQLite may roll back the whole transaction by itself
            // (sqlite.org/lang_transaction.html, 3). Then no single change can be refused, and the
            // error ends the transaction.
            Err(ChangeError::Sqlite(error))
                if is_full_error(&error) && !self.connection.is_autocommit() =>
            {
                Ok(Err(Refusal::NoSpace))
            }
            // A value that cannot be converted is a fault of one row, not of the database.
            Err(ChangeError::Sqlite(error)) if self.unreadable_rows.log(&error) => {
                Ok(Err(Refusal::Unreadable))
            }
            Err(ChangeError::Sqlite(error)) => Err(error),
        }
    }

    /// Starts a checkpoint when the WAL is long, and completes one that the thread has ended.
    fn advance_checkpoint(&mut self) {
        if self.checkpointer.is_running() {
            // If commits are faster than the thread, the WAL would grow without a bound.
            if self.wal.exceeds_limit() {
                self.checkpointer.wait();
            } else {
                self.checkpointer.poll();
            }
            if !self.checkpointer.is_running() {
                self.finish_checkpoint();
            }
        } else if self.wal.is_checkpoint_due() {
            Failpoint::CheckpointDue.reach();
            self.checkpointer.begin();
        }
    }

    /// Copies the remaining pages into the database and syncs it, so that the next commit restarts
    /// the WAL. It runs between two commits: while pages are added the WAL cannot be emptied.
    fn finish_checkpoint(&self) {
        // The checkpoint thread may have met a failed sync. Checkpointing again would be a retry.
        if self.fail_stop.check().is_err() {
            return;
        }
        match self.wal.checkpoint(&self.connection) {
            Ok(true) => Failpoint::CheckpointDone.reach(),
            Ok(false) => {}
            Err(error) => drop(self.fault(error)),
        }
    }

    /// Closes the connection, which is the last one: SQLite then copies the WAL into the database
    /// and removes it.
    ///
    /// It does not after a fault: a sync that has failed once may seem to succeed the second time,
    /// and the WAL holds what the database then lacks. Nor does it after a panic of the writer,
    /// since this method is not called then.
    pub(super) fn close(self) {
        // First, because its last checkpoint may fail, and the next line asks for that.
        drop(self.checkpointer);
        if self.fail_stop.check().is_ok() {
            let keeps_wal = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
            // If that fails, the WAL is there at the next start.
            let _ = self.connection.set_db_config(keeps_wal, false);
        }
        drop(self.connection);
        // Last: closing any descriptor of a file drops the POSIX locks that the process has on it,
        // those of SQLite's connections included (sqlite.org/howtocorrupt.html, 2.2).
        drop(self.database);
    }

    fn sql(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }

    fn fault(&self, error: rusqlite::Error) -> LedgerError {
        LedgerError::Fault(self.fail_stop.trip(error))
    }
}
