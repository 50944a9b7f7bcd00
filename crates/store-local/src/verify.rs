//! Checks every media of a store against its row, and every row against its media.
//!
//! [`verify`] reads the whole store in pages and pieces, so its memory does not grow with the
//! store. It works with and without a running server. Bytes below a committed offset never change,
//! and media is referenced from its first commit until it is released. So a finding about media is
//! valid if a row still references the media after the finding was made.
//!
//! There are two kinds of findings ([`Severity`]). *Damage* is never left by a crash or a power
//! cut: a disk has rotted, somebody has changed files, or Windlass has a bug. *Remains* are left by
//! crashes, and the server's sweep deletes them.
//!
//! A repair does only what is safe ([`Finding::is_repaired`]). It never deletes a resource, and it
//! does nothing at all if the vault does not belong to the ledger.
//!
//! Absent: a clock (callers pass the time), and the recovery of damaged bytes.

mod finding;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use windlass_store::{
    Cause, MediaId, MediaLocation, MediaRef, SessionState, SweepOptions, Timestamp,
};

use crate::directory::{self, Identity};
use crate::file_lock::FileLock;
use crate::ledger::{
    LedgerReader, Miscount, Repair, ResourceRow, RowBatch, SessionRow, TableScan,
    is_conversion_error,
};
use crate::reserve::{self, Reserve};
use crate::vault::layout::{self, Shard};
use crate::{IdentityMismatch, OpenError, filesystem};
use finding::Check;
pub(crate) use finding::{Expected, check_file};
pub use finding::{Fault, Finding, Severity, Subject};

/// Options of [`verify`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyOptions {
    /// Whether to repair everything that can be repaired safely. The store must not be in use then.
    pub repair: bool,
    /// Current time, from which the age of unreferenced media is computed.
    pub now: Timestamp,
    /// Time after its last write during which unreferenced media is not reported while a server
    /// runs: it may belong to an upload that has not committed yet. Without a server there is no
    /// such upload.
    pub grace: Duration,
}

impl VerifyOptions {
    /// Returns options without repair, and with the grace of the server's sweep, which is a day.
    pub fn new(now: Timestamp) -> Self {
        Self {
            repair: false,
            now,
            grace: SweepOptions::default().grace,
        }
    }

    /// Sets [`VerifyOptions::repair`].
    #[must_use]
    pub const fn repair(mut self, repair: bool) -> Self {
        self.repair = repair;
        self
    }

    /// Sets [`VerifyOptions::grace`].
    #[must_use]
    pub const fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }
}

/// An event of a running verification.
#[derive(Debug)]
pub enum VerifyEvent {
    /// Something is wrong.
    Finding(Finding),
    /// The verification has made progress. Holds the counts so far.
    Progress(Verified),
}

/// The counts and findings of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verified {
    /// Whether a server had the store open meanwhile.
    pub with_server: bool,
    /// Number of read rows of sessions.
    pub sessions: u64,
    /// Number of read rows of resources. Internal rows of the server, such as indexes, are not
    /// counted: the names of their collections begin with a dot.
    pub resources: u64,
    /// Number of read rows of resources, including internal rows.
    pub rows: u64,
    /// Number of read media.
    pub media: u64,
    /// Number of those bytes.
    pub bytes: u64,
    /// Number of files in the vault.
    pub files: u64,
    /// Number of damage findings, including repaired ones.
    pub damage: u64,
    /// Number of repaired damage findings.
    pub damage_repaired: u64,
    /// Number of remains, including deleted ones.
    pub remains: u64,
    /// Number of deleted remains.
    pub remains_cleared: u64,
    /// Whether the database itself is damaged. Rows may have been missed then, and nothing was
    /// repaired.
    pub ledger_is_damaged: bool,
}

impl Verified {
    /// Returns whether no damage is left.
    pub fn is_sound(&self) -> bool {
        self.damage == self.damage_repaired
    }
}

/// Why a verification has stopped early.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The data directory does not exist, or has no ledger.
    #[error("there is no store in {}", dir.display())]
    NoStore {
        /// The directory.
        dir: PathBuf,
    },
    /// The store could not be opened, or is in use and was to be repaired.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store was to be repaired while a backup copies it.
    #[error("{} is being backed up", dir.display())]
    DeletionLocked {
        /// The directory.
        dir: PathBuf,
    },
    /// The ledger could not be read or, in a repair, written.
    #[error("the ledger could not be read or written")]
    Ledger(#[source] Cause),
    /// The vault could not be listed, or media could not be deleted.
    #[error("the vault could not be read or changed")]
    Vault(#[from] std::io::Error),
}

impl From<rusqlite::Error> for VerifyError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Ledger(Arc::new(error))
    }
}

/// Verifies the store in `dir`, and reports findings as it goes.
///
/// It blocks for as long as it takes to read everything. `on_event` is called on the same thread.
/// If no server runs, none can start until the verification has ended.
///
/// Without [`VerifyOptions::repair`] nothing in the store is changed. On a full disk, however, a
/// part of the reserve may be released to open the ledger.
///
/// # Errors
/// See [`VerifyError`]. Damage is no error.
pub fn verify(
    dir: &Path,
    options: VerifyOptions,
    on_event: &mut dyn FnMut(VerifyEvent),
) -> Result<Verified, VerifyError> {
    let ledger = existing_ledger(dir)?;
    let lock = FileLock::try_exclusive(&dir.join("lock"));
    let lock = lock.map_err(|source| OpenError::io(dir, source))?;
    if options.repair && lock.is_none() {
        let dir = dir.to_owned();
        return Err(OpenError::InUse { dir }.into());
    }
    let reserve = match &lock {
        // Without a server this process creates the index of the WAL, which needs space.
        Some(_) => Reserve::open_existing(&reserve::path(dir))?,
        None => None,
    };
    let loan = reserve.as_ref().map(Reserve::lend).transpose()?;
    let vault = dir.join("vault");
    let (identity, mismatch) = identify(&ledger, &vault)?;
    let deletion_lock = hold_for_repair(dir, options)?;
    let repairable = identity.filter(|_| options.repair && mismatch.is_none());
    let vault_lock = repairable
        .map(|_| directory::lock_vault(&vault))
        .transpose()?;
    let repair = repairable.map(|identity| Repair::open(&ledger, identity));
    let verifier = Verifier {
        repair: repair.transpose()?,
        ledger: LedgerReader::open(&ledger)?,
        vault,
        mismatch,
        options,
        counts: Verified {
            with_server: lock.is_none(),
            ..Verified::default()
        },
        on_event,
        _locks: [lock, deletion_lock, vault_lock],
    };
    drop(loan);
    verifier.run()
}

/// Returns the path of the ledger in a data directory.
pub(crate) fn existing_ledger(dir: &Path) -> Result<PathBuf, VerifyError> {
    let ledger = dir.join("ledger.sqlite");
    if filesystem::exists(&ledger)? {
        return Ok(ledger);
    }
    directory::refuse_incomplete(dir)?;
    let dir = dir.to_owned();
    Err(VerifyError::NoStore { dir })
}

/// Returns the identity of the ledger, and the reason why the vault does not match it.
///
/// A database without tables is refused: a repair would create them, and all media would be
/// unreferenced. A ledger with an unreadable identity is verified and not repaired.
fn identify(
    ledger: &Path,
    vault: &Path,
) -> Result<(Option<Identity>, Option<IdentityMismatch>), VerifyError> {
    let identity = LedgerReader::open(ledger)?.identity().ok();
    let mismatch = identity.map(|identity| identity.mismatch(vault));
    Ok((identity, mismatch.transpose()?.flatten()))
}

/// Locks out backups during a repair, because a repair deletes media.
fn hold_for_repair(dir: &Path, options: VerifyOptions) -> Result<Option<FileLock>, VerifyError> {
    if !options.repair {
        return Ok(None);
    }
    match directory::exclude_backups(dir)? {
        Some(deletion_lock) => Ok(Some(deletion_lock)),
        None => Err(VerifyError::DeletionLocked {
            dir: dir.to_owned(),
        }),
    }
}

/// A running verification.
struct Verifier<'a> {
    // Fields are dropped in this order: the writing connection must be the last one to close.
    ledger: LedgerReader,
    /// `None` if nothing may be repaired (any more).
    repair: Option<Repair>,
    vault: PathBuf,
    /// Why the vault does not belong to the ledger. Its content means nothing then.
    mismatch: Option<IdentityMismatch>,
    options: VerifyOptions,
    counts: Verified,
    on_event: &'a mut dyn FnMut(VerifyEvent),
    _locks: [Option<FileLock>; 3],
}

impl Verifier<'_> {
    fn run(mut self) -> Result<Verified, VerifyError> {
        match self.check_all() {
            Err(VerifyError::Ledger(cause)) if is_corrupt(&cause) => {
                self.ledger_damaged(cause.to_string());
            }
            result => result?,
        }
        Ok(self.counts)
    }

    fn check_all(&mut self) -> Result<(), VerifyError> {
        if let Some(why) = self.mismatch {
            self.report(Subject::Vault, Fault::IdentityMismatch(why), false);
        }
        // One long read, during which the WAL of a running server cannot restart. So it is kept
        // short.
        for line in self.ledger.integrity(!self.counts.with_server)? {
            self.ledger_damaged(line);
        }
        self.ledger.identity()?;
        self.each("sessions", LedgerReader::sessions, Self::check_session)?;
        self.each("resources", LedgerReader::resources, Self::check_resource)?;
        // Before the checks that rely on the counts.
        self.check_counts()?;
        self.each(
            "small_media",
            LedgerReader::small_media_ids,
            Self::check_small,
        )?;
        self.check_garbage()?;
        match self.mismatch {
            Some(_) => Ok(()),
            None => self.check_vault(),
        }
    }

    /// Reports a damaged database and ends all repairs, because its references may be wrong.
    fn ledger_damaged(&mut self, line: String) {
        self.counts.ledger_is_damaged = true;
        self.repair = None;
        self.report(Subject::Ledger, Fault::Database(line), false);
    }

    /// Returns the problem with a media, if it has one.
    fn fault_of(
        &mut self,
        media: MediaRef,
        expected: &Expected,
    ) -> Result<Option<Fault>, VerifyError> {
        self.counts.media += 1;
        let fault = match media.location {
            MediaLocation::Vault => self.fault_in_vault(media.id, expected),
            MediaLocation::Ledger => self.fault_in_ledger(media.id, expected)?,
        };
        // A server may have released the media during the check.
        let is_gone =
            fault.is_some() && self.counts.with_server && !self.ledger.is_referenced(media)?;
        Ok(fault.filter(|_| !is_gone))
    }

    fn report(&mut self, subject: Subject, fault: Fault, is_repaired: bool) {
        let finding = Finding {
            subject,
            fault,
            is_repaired,
        };
        let (found, repaired) = match finding.severity() {
            Severity::Damage => (&mut self.counts.damage, &mut self.counts.damage_repaired),
            Severity::Remains => (&mut self.counts.remains, &mut self.counts.remains_cleared),
        };
        *found += 1;
        *repaired += u64::from(is_repaired);
        (self.on_event)(VerifyEvent::Finding(finding));
    }

    fn progress(&mut self) {
        (self.on_event)(VerifyEvent::Progress(self.counts));
    }

    fn path(&self, id: MediaId) -> PathBuf {
        layout::media_path(&self.vault, id)
    }
}

/// The rows: sessions, resources, small media and garbage.
impl Verifier<'_> {
    /// Checks all rows that a table has now.
    fn each<T>(
        &mut self,
        table: &'static str,
        read_batch: fn(&LedgerReader, i64) -> rusqlite::Result<RowBatch<T>>,
        check: fn(&mut Self, i64, &T) -> Result<(), VerifyError>,
    ) -> Result<(), VerifyError> {
        let mut walk = TableScan::begin(&self.ledger, table, read_batch)?;
        while let Some(rows) = walk.next(&self.ledger)? {
            for (row, read) in rows {
                match read {
                    Ok(found) => check(self, row, &found)?,
                    Err(error) => self.unreadable_row(table, row, error)?,
                }
            }
            self.progress();
        }
        Ok(())
    }

    /// Reports an unreadable row, and ends all repairs: it may reference anything, so nothing
    /// counts as unreferenced from here on.
    fn unreadable_row(
        &mut self,
        table: &'static str,
        row: i64,
        error: rusqlite::Error,
    ) -> Result<(), VerifyError> {
        if !is_conversion_error(&error) {
            return Err(error.into());
        }
        self.repair = None;
        let fault = Fault::Row(Arc::new(error));
        self.report(Subject::Row { table, row }, fault, false);
        Ok(())
    }

    fn check_session(&mut self, row: i64, session: &SessionRow) -> Result<(), VerifyError> {
        self.counts.sessions += 1;
        let id = session.id;
        let subject = Subject::Session { id, row };
        if let Some(reason) = contradiction(session) {
            // Such a row may have referenced anything before it was damaged.
            self.repair = None;
            self.report(subject, Fault::Contradiction(reason), false);
            return Ok(());
        }
        let Some(media) = session.media else {
            return Ok(());
        };
        let expected = Expected::of_session(session);
        let Some(fault) = self.fault_of(media, &expected)? else {
            return Ok(());
        };
        // A session never continues on other bytes than those acknowledged. A server would fail it,
        // too. But bytes that cannot be read now may be readable later.
        let is_loss = !matches!(fault, Fault::Unreadable { .. });
        let repaired = match &self.repair {
            Some(repair) if is_loss => repair.fail_session(id, session.epoch)?,
            _ => false,
        };
        self.report(subject, fault, repaired);
        Ok(())
    }

    fn check_resource(&mut self, _row: i64, resource: &ResourceRow) -> Result<(), VerifyError> {
        self.counts.rows += 1;
        if !resource.collection.starts_with('.') {
            self.counts.resources += 1;
        }
        let Some((media, length, digests)) = resource.media else {
            return Ok(());
        };
        let expected = Expected::of_resource(length, digests);
        if let Some(fault) = self.fault_of(media, &expected)? {
            let ResourceRow { collection, id, .. } = resource.clone();
            self.report(Subject::Resource { collection, id }, fault, false);
        }
        Ok(())
    }

    /// Compares the stored numbers of references with the references.
    fn check_counts(&mut self) -> Result<(), VerifyError> {
        for miscount in self.ledger.miscounted_media()? {
            let Miscount {
                media,
                counted,
                stored,
            } = miscount;
            let repaired = match &self.repair {
                Some(repair) => repair.set_references(media, counted)?,
                None => false,
            };
            let fault = Fault::Miscounted { counted, stored };
            self.report(Subject::Media(media.id), fault, repaired);
        }
        Ok(())
    }

    fn check_small(
        &mut self,
        _row: i64,
        &(id, is_named): &(MediaId, bool),
    ) -> Result<(), VerifyError> {
        if !is_named {
            let repaired = match &self.repair {
                Some(repair) => repair.drop_small_media(id)?,
                None => false,
            };
            self.report(Subject::Media(id), Fault::UnnamedInLedger, repaired);
        }
        Ok(())
    }

    /// Checks the garbage list. Ordinary garbage is not reported while a server runs, which deletes
    /// it.
    fn check_garbage(&mut self) -> Result<(), VerifyError> {
        let mut after = None;
        loop {
            let page = self.ledger.garbage(after)?;
            let Some((last, _)) = page.last() else {
                return Ok(());
            };
            after = Some(*last);
            for (id, is_named) in page {
                let fault = match is_named {
                    true => Fault::NamedGarbage,
                    false if self.counts.with_server => continue,
                    false => Fault::Garbage,
                };
                let repaired = self.clear_garbage(id, is_named)?;
                self.report(Subject::Media(id), fault, repaired);
            }
            self.progress();
        }
    }

    fn clear_garbage(&self, id: MediaId, is_named: bool) -> Result<bool, VerifyError> {
        let Some(repair) = &self.repair else {
            return Ok(false);
        };
        if !is_named {
            filesystem::remove(&self.path(id))?;
        }
        Ok(repair.forget_garbage(id)?)
    }
}

impl Verifier<'_> {
    fn fault_in_vault(&mut self, media: MediaId, expected: &Expected) -> Option<Fault> {
        check_file(&self.path(media), media, expected, &mut |len| {
            self.counts.bytes += len;
            self.progress();
        })
    }

    fn fault_in_ledger(
        &mut self,
        media: MediaId,
        expected: &Expected,
    ) -> Result<Option<Fault>, VerifyError> {
        let Some(bytes) = self.ledger.small_media(media)? else {
            return Ok(Some(Fault::Missing { media }));
        };
        let wanted = usize::try_from(expected.len).map_or(bytes.len(), |len| len.min(bytes.len()));
        let mut check = Check::new(expected);
        check.take(&bytes[..wanted]);
        self.counts.bytes += wanted as u64;
        Ok(check.finish(media))
    }
}

/// The files of the vault.
impl Verifier<'_> {
    fn check_vault(&mut self) -> Result<(), VerifyError> {
        let root = self.vault.clone();
        layout::walk(&root, |shard| self.check_names(shard))
    }

    fn check_names(&mut self, shard: Shard) -> Result<(), VerifyError> {
        self.counts.files += shard.media.len() as u64;
        for path in shard.foreign {
            self.report(Subject::Path(path), Fault::Foreign, false);
        }
        for id in self.ledger.unknown_media(shard.media)? {
            self.check_unnamed(id)?;
        }
        self.progress();
        Ok(())
    }

    /// Reports media that the ledger does not know. While a server runs, its upload may not have
    /// committed yet, or the sweep may have deleted it since the listing.
    fn check_unnamed(&mut self, id: MediaId) -> Result<(), VerifyError> {
        let path = self.path(id);
        let Some(modified) = filesystem::modified(&path)? else {
            return Ok(());
        };
        let old = self.options.now.saturating_sub(self.options.grace);
        if self.counts.with_server && modified >= old {
            return Ok(());
        }
        if self.repair.is_some() {
            filesystem::remove(&path)?;
        }
        self.report(Subject::Media(id), Fault::Unnamed, self.repair.is_some());
        Ok(())
    }
}

/// Returns the contradiction in the row of a session, whatever its bytes are.
fn contradiction(session: &SessionRow) -> Option<&'static str> {
    use SessionState::{Active, Finished, Finishing};
    let is_open = matches!(session.state, Active | Finishing);
    match session {
        SessionRow {
            media: None,
            offset: 1..,
            ..
        } if is_open => Some("bytes are committed and no media is referenced"),
        SessionRow { media: Some(_), .. } if !is_open => {
            Some("it is not open and still references media")
        }
        SessionRow {
            total: Some(total),
            offset,
            ..
        } if offset > total => Some("more bytes are committed than the media has"),
        SessionRow {
            state: Finished,
            has_reply: false,
            ..
        } => Some("it is finished and has no final reply"),
        SessionRow {
            extent: Some(extent),
            offset,
            ..
        } if extent.start > *offset => Some("its last extent begins behind the committed offset"),
        SessionRow {
            lacks_context: true,
            ..
        } => Some("the request that started it is not there"),
        _ => None,
    }
}

/// Returns whether SQLite reports that the file is damaged, and not that it cannot be accessed.
fn is_corrupt(cause: &Cause) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    let code = cause
        .downcast_ref::<rusqlite::Error>()
        .and_then(rusqlite::Error::sqlite_error_code);
    matches!(code, Some(DatabaseCorrupt | NotADatabase))
}
