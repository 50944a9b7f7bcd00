//! The connection that writes, and its transactions.
//!
//! ```text
//! BEGIN
//! check the file systems          a failure means that earlier syncs cannot be relied on
//!   change                        for each change
//! COMMIT                          one sync of the WAL
//! check the file systems again    a failure means that this sync cannot be relied on
//! ```
//!
//! The changes of a round ([`super::writer`]) are made in one transaction, or in a few if the disk
//! is nearly full.
//!
//! A refused change must leave no trace. Refusals are rare, so all changes first run without
//! savepoints. If one of them is refused, the whole transaction is rolled back and repeated, with a
//! savepoint for each change.
//!
//! Only the writer thread uses this connection.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use windlass_store::{
    Cause, Epoch, Failpoint, LedgerError, MediaLocation, Retention, Session, SessionId,
    SessionState, StoredExtent,
};

use super::changes::{Change, ChangeError, Made, Refusal, Tables, locked};
use super::extents;
use super::rows::{self, UnreadableRows, UnwrittenEpochs};
use super::wal::{CheckpointThread, Checkpointer, Wal, is_busy_error, is_full_error};
use crate::reserve::{Purpose, Reserve};
use crate::sync_health::{FailStop, SyncVerifier};

/// Number of unwritten epochs above which each transaction that makes a change writes some of them,
/// too. So leases that are never used for a change do not take up memory for long.
const MAX_UNWRITTEN_EPOCHS: usize = 1 << 16;

/// Maximum number of such epochs that one transaction writes. The callers of its changes wait for
/// them.
const MAX_WRITTEN_EPOCHS: usize = 512;

/// State that the committer shares with [`LocalLedger`](super::LocalLedger).
#[derive(Debug)]
pub(super) struct WriterShared {
    pub(super) unwritten_epochs: Arc<UnwrittenEpochs>,
    pub(super) reserve: Arc<Reserve>,
    pub(super) sync_verifier: Arc<SyncVerifier>,
    pub(super) retention: Retention,
}

/// The only connection that writes, with everything that belongs to its commits.
#[derive(Debug)]
pub(super) struct Committer {
    checkpointer: Checkpointer,
    connection: Connection,
    /// The database file, which the checkpoint thread syncs. It is closed after all connections.
    /// The one exception is the connection of a read that is still running when
    /// [`Committer::close`] stops waiting.
    database_file: Option<Arc<File>>,
    wal: Wal,
    shared: WriterShared,
    fail_stop: FailStop,
    unreadable_rows: UnreadableRows,
    commits: Arc<AtomicU64>,
    /// Whether a commit has removed pages from the database, and no complete checkpoint has been
    /// tried since.
    has_shrunk: bool,
}

/// A session with the extents of its media.
pub(super) type LeasedSession = (Session, Vec<StoredExtent>);

/// The outcome of one change: what it has made, or why it was refused.
pub(super) type Outcome = Result<Made, Refusal>;

fn lacks_space(outcome: &Outcome) -> bool {
    matches!(outcome, Err(Refusal::NoSpace))
}

/// Why a whole transaction has failed.
enum TransactionError {
    /// The disk is full. No change was made.
    NoSpace,
    /// Another connection holds the write lock. No change was made.
    Busy,
    /// Whether the changes were made is unknown: COMMIT, or the check of the file systems after it,
    /// may have failed.
    Fault(Cause),
}

/// Runs one change in a transaction. `None` means that the change was refused and cannot be undone
/// separately, so that the whole transaction must be rolled back.
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
            database_file: checkpoint_thread.database_file.clone(),
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

    /// Returns the length in bytes of the WAL as of the last commit.
    pub(super) fn wal_len(&self) -> u64 {
        self.wal.len().cast_unsigned()
    }

    /// Gives out a new lease of a session: raises its epoch and returns the session with the new
    /// epoch.
    ///
    /// Returns `None` if there is no such session. A session that is not open is returned
    /// unchanged. This reads committed rows only and costs no commit ([`UnwrittenEpochs`]).
    pub(super) fn lease(&self, id: SessionId) -> Result<Option<LeasedSession>, LedgerError> {
        self.fail_stop
            .fail_if_tripped()
            .map_err(LedgerError::Fault)?;
        let found = match self.read_leased(id) {
            Err(error) if is_busy_error(&error) => return Err(locked()),
            Err(error) if self.unreadable_rows.log(&error) => return Err(LedgerError::Unreadable),
            found => found.map_err(|error| LedgerError::Fault(self.fail_stop.trip(error)))?,
        };
        Ok(found.map(|(mut session, extents)| {
            session.epoch = match session.state {
                SessionState::Active | SessionState::Finishing => {
                    self.shared.unwritten_epochs.raise(id, session.epoch)
                }
                // No change of a session that is not open is accepted, so its epoch stays as it is.
                _ => session.epoch,
            };
            (session, extents)
        }))
    }

    /// Reads a session and the extents of its media.
    fn read_leased(&self, id: SessionId) -> rusqlite::Result<Option<LeasedSession>> {
        let Some(session) = rows::session(&self.connection, id)? else {
            return Ok(None);
        };
        let extents = match session.progress.media {
            Some(media) if media.location == MediaLocation::Vault => {
                extents::of_media(&self.connection, media.id)?
            }
            _ => Vec::new(),
        };
        Ok(Some((session, extents)))
    }

    /// Makes the changes and returns the outcome of each.
    ///
    /// One transaction carries all of them, unless some find no space. Further transactions repeat
    /// those.
    ///
    /// # Errors
    /// The cause of a fault. Any of the changes may be in the database then: an earlier transaction
    /// may have been committed, or the file systems may have failed the check after COMMIT.
    pub(super) fn make(&mut self, changes: &[Change]) -> Result<Vec<Outcome>, Cause> {
        self.fail_stop.fail_if_tripped()?;
        let outcomes = self.make_until_space_is_found(changes)?;
        let mut results = changes.iter().zip(&outcomes);
        self.has_shrunk |= results.any(|(change, outcome)| change.shrinks() && outcome.is_ok());
        Ok(outcomes)
    }

    /// Begins, advances or completes a checkpoint if that is due. Called after each round that has
    /// made changes, when the callers of the round have been answered.
    pub(super) fn checkpoint_if_due(&mut self) {
        // After a failed sync the success of another one means nothing. So the WAL must stay as it
        // is, for the next process to replay.
        if self.fail_stop.fail_if_tripped().is_err() {
            return;
        }
        if std::mem::take(&mut self.has_shrunk) {
            // SQLite shortens the database file only in a complete checkpoint.
            self.checkpoint_completely();
        } else {
            self.advance_checkpoint();
        }
    }

    /// Makes the changes, and repeats those for which the disk has no space: first after a complete
    /// checkpoint and then, if their [`Change::purpose`] allows it, with space of the reserve.
    ///
    /// Repeating is safe here, unlike after a failed sync: the transaction was rolled back when a
    /// write found no space, and nothing of it had been synced.
    fn make_until_space_is_found(&mut self, changes: &[Change]) -> Result<Vec<Outcome>, Cause> {
        // At first every change counts as lacking space, so that the first call of
        // `try_lacking_space` tries all of them.
        let mut outcomes = vec![Err(Refusal::NoSpace); changes.len()];
        // After a complete checkpoint the WAL is written again from its beginning, in space that it
        // already has. So this comes first: it may make the reserve unnecessary.
        if self.try_lacking_space(changes, &mut outcomes, None)? && self.checkpoint_completely() {
            self.try_lacking_space(changes, &mut outcomes, None)?;
        }
        for purpose in [Purpose::Uploads, Purpose::MakeSpace] {
            // First these changes are tried alone, with the reserve untouched: without all further
            // changes there may be enough space. Then the reserve is shortened by one small step at
            // a time, because other programs may take the surplus of a larger step.
            while self.try_lacking_space(changes, &mut outcomes, Some(purpose))?
                && self.shared.reserve.shorten(purpose)
            {}
        }
        Ok(outcomes)
    }

    /// Tries the changes that lacked space so far ([`Refusal::NoSpace`]), in one transaction, and
    /// replaces their outcomes. With a `purpose`, tries only the changes that may use the reserve
    /// for this purpose. Returns whether one of the tried changes still lacks space.
    fn try_lacking_space(
        &self,
        changes: &[Change],
        outcomes: &mut [Outcome],
        purpose: Option<Purpose>,
    ) -> Result<bool, Cause> {
        let may_try =
            |change: &Change| purpose.is_none_or(|purpose| change.may_use_reserve(purpose));
        let (chosen, mut to_replace): (Vec<_>, Vec<_>) = changes
            .iter()
            .zip(outcomes)
            .filter(|(change, outcome)| lacks_space(outcome) && may_try(change))
            .unzip();
        if chosen.is_empty() {
            return Ok(false);
        }
        match self.transaction(&chosen) {
            Ok(new) => {
                for (outcome, new) in to_replace.iter_mut().zip(new) {
                    **outcome = new;
                }
                Ok(to_replace.iter().any(|outcome| lacks_space(outcome)))
            }
            Err(TransactionError::NoSpace) => Ok(true),
            // SQLite has already waited for the busy timeout. Repeating would keep all callers
            // waiting.
            Err(TransactionError::Busy) => {
                for outcome in to_replace {
                    *outcome = Err(Refusal::Busy);
                }
                Ok(false)
            }
            Err(TransactionError::Fault(cause)) => Err(cause),
        }
    }

    /// Tries to make a complete checkpoint, so that the next commit reuses the space of the WAL.
    ///
    /// Returns `true` if the call has made a difference: no page is pending now, but at its
    /// beginning pages were pending or the checkpoint thread was running. After `false` it is of no
    /// use to repeat a change that has found no space.
    fn checkpoint_completely(&mut self) -> bool {
        let was_running = self.checkpointer.is_running();
        // SQLite runs one checkpoint at a time. A second one would copy nothing.
        self.checkpointer.wait();
        let had_pending = self.wal.count_pending_pages() > 0;
        if had_pending {
            self.copy_remaining_pages();
        }
        (was_running || had_pending) && self.wal.count_pending_pages() == 0
    }

    /// Makes the changes in one transaction. If a change is refused, the transaction is rolled back
    /// and repeated with savepoints.
    fn transaction(&self, changes: &[&Change]) -> Result<Vec<Outcome>, TransactionError> {
        let mut result = self.attempt(changes, Self::run_unprotected);
        if let Ok(None) = result {
            result = self.attempt(changes, Self::run_under_savepoint);
        }
        result.map(|outcomes| outcomes.expect("a savepoint rolls a refused change back"))
    }

    /// Runs the transaction once, with each change run by `run_change`. Returns `None` if a refused
    /// change could not be undone separately. Afterwards no transaction is open, unless the
    /// rollback has failed.
    fn attempt(
        &self,
        changes: &[&Change],
        run_change: RunChange,
    ) -> Result<Option<Vec<Outcome>>, TransactionError> {
        let sync_verifier = &self.shared.sync_verifier;
        // IMMEDIATE acquires the write lock now. If another connection holds it, this fails before
        // anything has been changed, and not in the middle of the transaction.
        let begun = self.classify(self.sql("BEGIN IMMEDIATE"));
        let result = begun.and_then(|()| {
            // Before the changes, because they rely on two earlier syncs. First, the vault has
            // synced the media that they reference. Second, the last complete checkpoint has synced
            // the database file: the transaction may restart the WAL and overwrite the pages that
            // the checkpoint has copied, which are then in the database file only.
            sync_verifier
                .check_file_systems()
                .map_err(TransactionError::Fault)?;
            self.classify(self.run_and_commit(changes, run_change))
        });
        self.roll_back();
        let outcomes = result?;
        // The sync of the COMMIT can be relied on only if the file systems pass the check once
        // more. Callers are answered after it. If nothing was committed, the check is superfluous
        // and costs some microseconds.
        sync_verifier
            .confirm_commit()
            .map_err(TransactionError::Fault)?;
        Ok(outcomes)
    }

    /// Classifies an error of SQLite by its meaning for the transaction.
    fn classify<T>(&self, result: rusqlite::Result<T>) -> Result<T, TransactionError> {
        result.map_err(|error| match error {
            // Neither is a fault: nothing was committed.
            error if is_full_error(&error) => TransactionError::NoSpace,
            error if is_busy_error(&error) => TransactionError::Busy,
            // Never retried: after a failed sync Linux reports success for the next one, although
            // the bytes are not on the disk.
            error => TransactionError::Fault(self.fail_stop.trip(error)),
        })
    }

    /// Rolls back the open transaction, if there is one.
    fn roll_back(&self) {
        if !self.connection.is_autocommit() {
            // If the rollback fails, the transaction stays open and is never committed: the next
            // BEGIN fails inside of it, which is a fault.
            let _ = self.sql("ROLLBACK");
        }
    }

    /// Runs each change by `run_change`, then runs COMMIT. Returns `None`, without a COMMIT, as
    /// soon as `run_change` has returned it.
    fn run_and_commit(
        &self,
        changes: &[&Change],
        run_change: RunChange,
    ) -> rusqlite::Result<Option<Vec<Outcome>>> {
        let tables = Tables {
            connection: &self.connection,
            unwritten_epochs: &self.shared.unwritten_epochs,
            retention: self.shared.retention,
        };
        Failpoint::TransactionBegun.reach();
        let mut outcomes = Vec::with_capacity(changes.len());
        for change in changes {
            match run_change(self, change, &tables)? {
                Some(outcome) => outcomes.push(outcome),
                None => return Ok(None),
            }
        }
        // If all changes were refused, nothing is committed, and the rollback costs no sync.
        if outcomes.iter().any(Result::is_ok) {
            let overflow = self
                .shared
                .unwritten_epochs
                .overflow(MAX_UNWRITTEN_EPOCHS, MAX_WRITTEN_EPOCHS);
            tables.write_epochs(&overflow)?;
            Failpoint::ChangesMade.reach();
            // Before COMMIT: readers see the rows as soon as it has synced. From then on, until the
            // commit is confirmed, each reader must check the file systems itself.
            self.shared.sync_verifier.mark_unconfirmed();
            self.sql("COMMIT")?;
            Failpoint::TransactionCommitted.reach();
            // A statistic. Nothing is ordered by it.
            self.commits.fetch_add(1, Ordering::Relaxed);
            // After COMMIT: a rolled-back transaction must not remove an epoch from memory, or the
            // next lease would get the same one.
            self.remove_written_epochs(changes, &outcomes, &overflow);
        }
        Ok(Some(outcomes))
    }

    /// Removes from memory the epochs that the commit has written, and the epochs of sessions that
    /// it has deleted. The committer wrote the epochs in `overflow`; the changes wrote all further
    /// epochs.
    fn remove_written_epochs(
        &self,
        changes: &[&Change],
        outcomes: &[Outcome],
        overflow: &[(SessionId, Epoch)],
    ) {
        let unwritten_epochs = &self.shared.unwritten_epochs;
        for (change, outcome) in changes.iter().zip(outcomes) {
            let Ok(made) = outcome else { continue };
            if let Made::Expired(expired) = made {
                for id in expired {
                    unwritten_epochs.remove(*id);
                }
            }
            if let Some(id) = change.leased_session() {
                unwritten_epochs.remove(id);
            }
        }
        for (id, _) in overflow {
            unwritten_epochs.remove(*id);
        }
    }

    /// Runs one change without a savepoint. Returns `None` if it was refused, since some of its
    /// rows may be written. An error ends the transaction.
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
        // ROLLBACK TO leaves the savepoint open, so RELEASE follows in both cases.
        self.sql("RELEASE change")?;
        Ok(Some(outcome))
    }

    fn run(&self, change: &Change, tables: &Tables<'_>) -> rusqlite::Result<Outcome> {
        match change.run(tables) {
            Ok(made) => Ok(Ok(made)),
            Err(ChangeError::Refused(refusal)) => Ok(Err(refusal)),
            // On a full disk SQLite may roll back the whole transaction by itself
            // (sqlite.org/lang_transaction.html, 3). Then the last arm returns the error, which
            // ends the transaction. If it has not, only this change is refused.
            Err(ChangeError::Sqlite(error))
                if is_full_error(&error) && !self.connection.is_autocommit() =>
            {
                Ok(Err(Refusal::NoSpace))
            }
            // A value that cannot be converted concerns one row, not the whole database.
            Err(ChangeError::Sqlite(error)) if self.unreadable_rows.log(&error) => {
                Ok(Err(Refusal::Unreadable))
            }
            Err(ChangeError::Sqlite(error)) => Err(error),
        }
    }

    /// Tells the checkpoint thread to begin if a checkpoint is due. If the thread is done, copies
    /// the pages that it has left.
    fn advance_checkpoint(&mut self) {
        if self.checkpointer.is_running() {
            // If commits added pages faster than the thread copies them, the WAL would grow without
            // a bound.
            if self.wal.exceeds_limit() {
                self.checkpointer.wait();
            } else {
                self.checkpointer.poll();
            }
            if !self.checkpointer.is_running() {
                self.copy_remaining_pages();
            }
        } else if self.wal.is_checkpoint_due() {
            Failpoint::CheckpointDue.reach();
            self.checkpointer.begin();
        }
    }

    /// Copies the pages that are still pending, for a complete checkpoint. SQLite then syncs the
    /// database file, and the next commit restarts the WAL.
    ///
    /// The writer does this itself, between two commits. If it ran during a commit, the pages of
    /// that commit would be pending afterwards, and the checkpoint would not be complete.
    fn copy_remaining_pages(&self) {
        // The checkpoint thread may have failed to sync the database file. Another checkpoint would
        // sync it again, and a failed sync must not be retried.
        if self.fail_stop.fail_if_tripped().is_err() {
            return;
        }
        match self.wal.checkpoint(&self.connection) {
            Ok(true) => Failpoint::CheckpointDone.reach(),
            Ok(false) => {}
            Err(error) => drop(self.fail_stop.trip(error)),
        }
    }

    /// Closes the connection. It is usually the last one, so SQLite makes a last checkpoint and
    /// removes the WAL.
    ///
    /// After a fault the WAL is kept. After a failed sync of the database file, the sync of that
    /// last checkpoint may seem to succeed, and SQLite would remove the only copy of the pages.
    /// After a panic of the writer thread the WAL is kept as well, because this method is not
    /// called.
    pub(super) fn close(self) {
        // First, because the drop waits for a running checkpoint. If that fails, it is a fault.
        drop(self.checkpointer);
        if self.fail_stop.fail_if_tripped().is_ok() {
            // `open_writer` has turned this on. If turning it off fails, the WAL is kept, and the
            // next start replays it.
            let no_checkpoint_on_close = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
            let _ = self.connection.set_db_config(no_checkpoint_on_close, false);
        }
        drop(self.connection);
        // Closed last: closing any descriptor of a file drops the POSIX locks that the process has
        // on it, including the locks of SQLite's connections (sqlite.org/howtocorrupt.html, 2.2).
        drop(self.database_file);
    }

    fn sql(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }
}
