//! The connection that writes, and its transactions.
//!
//! ```text
//! BEGIN
//! is the file system alive?     else syncs before it are not relied on
//!   change                      | for each change
//! COMMIT                        = one sync of the WAL
//! is it alive still?            else this one is not
//! ```
//!
//! A change that is refused must leave no trace. Since hardly ever one is, they run unprotected at first;
//! if one is refused, all is taken back and done again, each change under a savepoint of its own.
//!
//! The writer's thread has it to itself ([`super::writer`]).

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use windlass_store::{Epoch, Failpoint, LedgerError, Session, SessionId, SessionState};

use super::changes::{Change, ChangeError, Leases, Refusal, Tables};
use super::rows::{self, Unreadable};
use super::wal::{CheckpointThread, Checkpointer, Wal, is_busy, is_full};
use crate::reserve::{Purpose, Reserve};
use crate::sync_health::{FailStop, SyncVerifier};

/// Most leases that wait in memory for their session's next change; more are written.
const LEASES_WAITING: usize = 1 << 16;

/// What is shared with others.
#[derive(Debug)]
pub(super) struct WriterShared {
    pub(super) leases: Arc<Leases>,
    pub(super) reserve: Arc<Reserve>,
    pub(super) sync_verifier: Arc<SyncVerifier>,
}

/// The only connection that writes, with what belongs to its commits.
#[derive(Debug)]
pub(super) struct Committer {
    checkpointer: Checkpointer,
    connection: Connection,
    /// The database that the checkpointer syncs, to be closed after all connections.
    database: Option<Arc<File>>,
    wal: Wal,
    helpers: WriterShared,
    fail_stop: FailStop,
    unreadable: Unreadable,
    commits: Arc<AtomicU64>,
    /// The database has fewer pages than its file.
    has_shrunk: bool,
}

/// What became of one change of a transaction: the sessions it made forgotten, or why it was not
/// made.
pub(super) type Outcome = Result<Vec<SessionId>, Refusal>;

/// Whether there was no room for a change.
fn is_refused(outcome: &Outcome) -> bool {
    matches!(outcome, Err(Refusal::NoSpace))
}

/// How a change is made in a transaction. `None` when it cannot go on.
type Step = fn(&Committer, &Change, &Tables<'_>) -> rusqlite::Result<Option<Outcome>>;

impl Committer {
    /// Takes the connection, and starts the thread that brings the WAL into the database.
    pub(super) fn new(
        connection: Connection,
        copier: CheckpointThread,
        helpers: WriterShared,
    ) -> std::io::Result<Self> {
        Ok(Self {
            wal: copier.wal.clone(),
            database: copier.database.clone(),
            fail_stop: copier.fail_stop.clone(),
            checkpointer: Checkpointer::start(copier)?,
            connection,
            helpers,
            unreadable: Unreadable::default(),
            commits: Arc::default(),
            has_shrunk: false,
        })
    }

    /// How many transactions were committed since the start, counted on.
    pub(super) fn commits(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.commits)
    }

    /// Raises a session's epoch. It sees nothing that is not committed, and costs no commit ([`Leases`]).
    pub(super) fn lease(&self, id: SessionId) -> Result<Option<Session>, LedgerError> {
        self.fail_stop.check().map_err(LedgerError::Fault)?;
        let found = match rows::session(&self.connection, id) {
            Err(error) if self.unreadable.note(&error) => return Err(LedgerError::Unreadable),
            found => found.map_err(|error| self.fault(error))?,
        };
        Ok(found.map(|mut session| {
            session.epoch = match session.state {
                SessionState::Active | SessionState::Finishing => {
                    self.helpers.leases.raise(id, session.epoch)
                }
                _ => session.epoch,
            };
            session
        }))
    }

    /// Makes the changes in one transaction. An error means that none was made.
    pub(super) fn commit(&mut self, changes: &[Change]) -> Result<Vec<Outcome>, LedgerError> {
        self.fail_stop.check().map_err(LedgerError::Fault)?;
        let outcomes = self.transaction_with_reserve(changes)?;
        let mut made = changes.iter().zip(&outcomes);
        self.has_shrunk |= made.any(|(change, made)| change.shrinks() && made.is_ok());
        Ok(outcomes)
    }

    /// What is due after a commit, and nobody has to wait for.
    pub(super) fn upkeep(&mut self) {
        if self.fail_stop.check().is_err() {
            return;
        }
        if std::mem::take(&mut self.has_shrunk) {
            // Only a checkpoint of all makes the file shorter.
            self.empty_wal();
        } else {
            self.checkpoint();
        }
    }

    /// As [`Committer::transaction`]. Changes for which a full disk has no room are tried again: with a WAL that begins
    /// at its start, and then, if they make room or end something, with the room that is kept for them. Nothing of them
    /// was synced before: they were taken back when a write found no room.
    fn transaction_with_reserve(
        &mut self,
        changes: &[Change],
    ) -> Result<Vec<Outcome>, LedgerError> {
        let mut outcomes = vec![Err(Refusal::NoSpace); changes.len()];
        if self.try_those_without_room(changes, &mut outcomes, None)? && self.empty_wal() {
            self.try_those_without_room(changes, &mut outcomes, None)?;
        }
        for purpose in [Purpose::Finish, Purpose::MakeRoom] {
            while self.try_those_without_room(changes, &mut outcomes, Some(purpose))?
                && self.helpers.reserve.give_back(purpose)
            {}
        }
        Ok(outcomes)
    }

    /// Makes, in one transaction, those changes that have found no room and may use the reserve for `purpose`. Whether
    /// there is none for some of them this time either.
    fn try_those_without_room(
        &self,
        changes: &[Change],
        outcomes: &mut [Outcome],
        purpose: Option<Purpose>,
    ) -> Result<bool, LedgerError> {
        let (chosen, mut found): (Vec<_>, Vec<_>) = changes
            .iter()
            .zip(outcomes)
            .filter(|(change, outcome)| is_refused(outcome) && change.purpose() >= purpose)
            .unzip();
        if chosen.is_empty() {
            return Ok(false);
        }
        match self.transaction(&chosen) {
            Err(LedgerError::NoSpace) => Ok(true),
            Err(LedgerError::Busy) => {
                for outcome in found {
                    *outcome = Err(Refusal::Busy);
                }
                Ok(false)
            }
            Err(error) => Err(error),
            Ok(made) => {
                for (outcome, made) in found.iter_mut().zip(made) {
                    **outcome = made;
                }
                Ok(found.iter().any(|outcome| is_refused(outcome)))
            }
        }
    }

    /// Brings all of the WAL into the database, so that the room it has can be used again. Whether that
    /// made a difference.
    fn empty_wal(&mut self) -> bool {
        let was_busy = self.checkpointer.is_busy();
        self.checkpointer.wait();
        let was_waiting = self.wal.waiting() > 0;
        if was_waiting {
            self.finish_checkpoint();
        }
        (was_busy || was_waiting) && self.wal.waiting() == 0
    }

    /// One transaction around all changes. An error means that none was made.
    fn transaction(&self, changes: &[&Change]) -> Result<Vec<Outcome>, LedgerError> {
        let mut result = self.attempt(changes, Self::unprotected);
        if let Ok(None) = result {
            result = self.attempt(changes, Self::under_savepoint);
        }
        result.map(|outcomes| outcomes.expect("a savepoint takes a refused change back"))
    }

    /// One attempt at it, after which no transaction is open. The file systems are asked twice: before the changes,
    /// since they tell of media that was synced, and the first of them may begin the WAL again, with commits in it that
    /// the database was synced for; and after them, since the commit is a sync itself.
    fn attempt(
        &self,
        changes: &[&Change],
        step: Step,
    ) -> Result<Option<Vec<Outcome>>, LedgerError> {
        let sync_verifier = &self.helpers.sync_verifier;
        let result = self.told(self.sql("BEGIN IMMEDIATE")).and_then(|()| {
            sync_verifier.check().map_err(LedgerError::Fault)?;
            self.told(self.try_transaction(changes, step))
        });
        self.roll_back();
        let outcomes = result?;
        sync_verifier.confirm().map_err(LedgerError::Fault)?;
        Ok(outcomes)
    }

    /// What callers are told of a failure.
    fn told<T>(&self, result: rusqlite::Result<T>) -> Result<T, LedgerError> {
        result.map_err(|error| match error {
            error if is_full(&error) => LedgerError::NoSpace,
            error if is_busy(&error) => LedgerError::Busy,
            error => self.fault(error),
        })
    }

    /// Takes back what was not committed.
    fn roll_back(&self) {
        if !self.connection.is_autocommit() {
            // A transaction that stays open all the same is never committed: the next BEGIN fails.
            let _ = self.sql("ROLLBACK");
        }
    }

    /// Makes the changes, each by `step`, and commits. `None` when a step cannot go on.
    fn try_transaction(
        &self,
        changes: &[&Change],
        step: Step,
    ) -> rusqlite::Result<Option<Vec<Outcome>>> {
        let tables = Tables {
            connection: &self.connection,
            leases: &self.helpers.leases,
        };
        Failpoint::TransactionBegun.reach();
        let mut outcomes = Vec::with_capacity(changes.len());
        for change in changes {
            match step(self, change, &tables)? {
                Some(outcome) => outcomes.push(outcome),
                None => return Ok(None),
            }
        }
        if outcomes.iter().any(Result::is_ok) {
            let overflow = self.helpers.leases.overflow(LEASES_WAITING);
            tables.write_epochs(&overflow)?;
            Failpoint::TransactionFilled.reach();
            self.helpers.sync_verifier.mark_pending();
            self.sql("COMMIT")?;
            Failpoint::TransactionCommitted.reach();
            self.commits.fetch_add(1, Ordering::Relaxed);
            self.settle_leases(changes, &outcomes, overflow);
        }
        Ok(Some(outcomes))
    }

    /// The epochs that a commit has put into rows need not wait any more, nor do those whose rows
    /// it has deleted.
    fn settle_leases(
        &self,
        changes: &[&Change],
        outcomes: &[Outcome],
        written: Vec<(SessionId, Epoch)>,
    ) {
        for (change, outcome) in changes.iter().zip(outcomes) {
            if let Ok(forgotten) = outcome {
                for id in forgotten {
                    self.helpers.leases.forget(*id);
                }
                if let Some((id, epoch)) = change.lease() {
                    self.helpers.leases.settle(id, epoch);
                }
            }
        }
        for (id, epoch) in written {
            self.helpers.leases.settle(id, epoch);
        }
    }

    /// One change. `None` when it was refused, perhaps in the middle. An error is the end of the
    /// whole transaction.
    fn unprotected(
        &self,
        change: &Change,
        tables: &Tables<'_>,
    ) -> rusqlite::Result<Option<Outcome>> {
        self.make(change, tables)
            .map(|outcome| outcome.ok().map(Ok))
    }

    /// One change under its savepoint. An error is the end of the whole transaction.
    fn under_savepoint(
        &self,
        change: &Change,
        tables: &Tables<'_>,
    ) -> rusqlite::Result<Option<Outcome>> {
        self.sql("SAVEPOINT change")?;
        let outcome = self.make(change, tables)?;
        if outcome.is_err() {
            self.sql("ROLLBACK TO change")?;
        }
        self.sql("RELEASE change")?;
        Ok(Some(outcome))
    }

    fn make(&self, change: &Change, tables: &Tables<'_>) -> rusqlite::Result<Outcome> {
        match change.run(tables) {
            Ok(forgotten) => Ok(Ok(forgotten)),
            Err(ChangeError::Refused(refusal)) => Ok(Err(refusal)),
            // SQLite may have rolled back everything by itself then.
            Err(ChangeError::Sqlite(error))
                if is_full(&error) && !self.connection.is_autocommit() =>
            {
                Ok(Err(Refusal::NoSpace))
            }
            Err(ChangeError::Sqlite(error)) if self.unreadable.note(&error) => {
                Ok(Err(Refusal::Unreadable))
            }
            Err(ChangeError::Sqlite(error)) => Err(error),
        }
    }

    /// Has the WAL brought into the database when it has grown long, and does what is left of that.
    fn checkpoint(&mut self) {
        if self.checkpointer.is_busy() {
            if self.wal.is_too_long() {
                self.checkpointer.wait();
            } else {
                self.checkpointer.look();
            }
            if !self.checkpointer.is_busy() {
                self.finish_checkpoint();
            }
        } else if self.wal.is_long() {
            Failpoint::CheckpointDue.reach();
            self.checkpointer.begin();
        }
    }

    /// Brings what is left into the database, and syncs that, so that the next commit begins the WAL again.
    fn finish_checkpoint(&self) {
        if self.fail_stop.check().is_err() {
            return;
        }
        match self.wal.checkpoint(&self.connection) {
            Ok(true) => Failpoint::CheckpointDone.reach(),
            Ok(false) => {}
            Err(error) => drop(self.fault(error)),
        }
    }

    /// Closes the connection, the last one: SQLite brings all of the WAL into the database then, and removes
    /// it. Not after a fault: a sync that failed may seem to succeed the second time, and the WAL has what
    /// the database then lacks. Nor when a panic has come before.
    pub(super) fn close(self) {
        // What it is at may fail.
        drop(self.checkpointer);
        if self.fail_stop.check().is_ok() {
            let keeps = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
            // If that fails, the WAL is there at the next start.
            let _ = self.connection.set_db_config(keeps, false);
        }
        drop(self.connection);
        drop(self.database);
    }

    fn sql(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }

    fn fault(&self, error: rusqlite::Error) -> LedgerError {
        LedgerError::Fault(self.fail_stop.trip(error))
    }
}
