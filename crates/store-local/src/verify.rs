//! Checks every media of a store against its row, and every row against its media.
//!
//! [`verify`] reads the whole store in pages and pieces: its memory does not grow with the store. It
//! works beside a server as well as without one. What is below a committed offset never changes, and
//! a media is named from its first commit until it is let go of; so a finding stands if, after it
//! was made, a row still names the media.
//!
//! Two kinds of things are found ([`Severity`]). *Damage* is what neither a crash nor a power cut
//! leaves: a disk has rotted, somebody has had a hand in the directory, or Windlass has a fault.
//! *Remains* are what a crash does leave, and what the server's sweep clears away by itself.
//!
//! A repair does what is safe, and nothing else ([`Finding::is_mended`]). It never deletes a resource,
//! and it does nothing at all when the vault is not the one of the ledger.
//!
//! Absent: a clock (time comes in), and anything that makes damaged bytes whole again.

mod finding;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use windlass_store::{
    Cause, MediaId, MediaLocation, MediaRef, SessionState, SweepOptions, Timestamp,
};

use crate::directory::{self, Identity};
use crate::ledger::{
    LedgerSnapshot, Page, Repair, ResourceRow, SessionRow, TableScan, is_unreadable,
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
    /// Whether to repair what can be repaired safely. The store must not be in use then.
    pub repair: bool,
    /// Current time, from which the age of unreferenced media is computed.
    pub now: Timestamp,
    /// Time after its last write during which unreferenced media is not reported while a server runs:
    /// it may belong to an upload that has not committed yet. Without a server there is no such
    /// upload.
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

/// What a verification tells while it runs.
#[derive(Debug)]
pub enum VerifyEvent {
    /// Something is wrong.
    Finding(Finding),
    /// It goes on: what has been looked at so far.
    Progress(Verified),
}

/// What was looked at, and what was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verified {
    /// A server had the store open meanwhile.
    pub beside_server: bool,
    /// Sessions whose rows were read.
    pub sessions: u64,
    /// Resources whose rows were read.
    pub resources: u64,
    /// Media whose bytes were read.
    pub media: u64,
    /// Those bytes.
    pub bytes: u64,
    /// Files in the vault.
    pub files: u64,
    /// Damage, mended or not.
    pub damage: u64,
    /// Damage that was mended.
    pub damage_mended: u64,
    /// Remains, cleared away or not.
    pub remains: u64,
    /// Remains that were cleared away.
    pub remains_cleared: u64,
    /// The ledger itself is damaged: rows may have been skipped, and nothing was mended.
    pub ledger_is_damaged: bool,
}

impl Verified {
    /// Whether no damage is left.
    pub fn is_sound(&self) -> bool {
        self.damage == self.damage_mended
    }
}

/// Why a store was not verified to the end.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The directory does not exist, or there is no ledger in it.
    #[error("there is no store in {}", dir.display())]
    NoStore {
        /// The directory.
        dir: PathBuf,
    },
    /// It cannot be opened, or is in use and was to be repaired.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It was to be repaired while a backup copies it.
    #[error("{} is being backed up", dir.display())]
    DeletionLocked {
        /// The directory.
        dir: PathBuf,
    },
    /// The ledger could not be read or, in a repair, written.
    #[error("the ledger fails")]
    Ledger(#[source] Cause),
    /// The vault could not be listed, or media could not be deleted.
    #[error("the vault fails")]
    Vault(#[from] std::io::Error),
}

impl From<rusqlite::Error> for VerifyError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Ledger(Arc::new(error))
    }
}

/// Verifies the store in `dir`, and tells what it finds as it goes.
///
/// It blocks, for as long as it takes to read everything. Without [`VerifyOptions::repair`] nothing
/// is changed, whatever is found, but that a full disk's reserve may be used for the opening; when no server runs, none can start until it is done.
///
/// # Errors
/// When there is no store, when it is in use and was to be repaired, and when the ledger or the
/// vault fails in a way that says nothing of what is stored. Damage is no error.
pub fn verify(
    dir: &Path,
    options: VerifyOptions,
    tell: &mut dyn FnMut(VerifyEvent),
) -> Result<Verified, VerifyError> {
    let ledger = dir.join("ledger.sqlite");
    if !filesystem::exists(&ledger)? {
        directory::refuse_incomplete(dir)?;
        let dir = dir.to_owned();
        return Err(VerifyError::NoStore { dir });
    }
    let lock = filesystem::lock(&dir.join("lock"));
    let lock = lock.map_err(|source| OpenError::io(dir, source))?;
    if options.repair && lock.is_none() {
        let dir = dir.to_owned();
        return Err(OpenError::InUse { dir }.into());
    }
    let reserve = match &lock {
        // Without a server the index of the log is made by this process, on a full disk too.
        Some(_) => Reserve::open_existing(&reserve::path(dir))?,
        None => None,
    };
    let loan = reserve.as_ref().map(Reserve::lend).transpose()?;
    let vault = dir.join("vault");
    let (identity, stranger) = identify(&ledger, &vault)?;
    let deletion_lock = hold_for_repair(dir, options)?;
    let mendable = identity.filter(|_| options.repair && stranger.is_none());
    let vault_lock = mendable
        .map(|_| directory::lock_vault(&vault))
        .transpose()?;
    let repair = mendable.map(|identity| Repair::open(&ledger, identity));
    let verifier = Verifier {
        repair: repair.transpose()?,
        snapshot: LedgerSnapshot::open(&ledger)?,
        vault,
        stranger,
        options,
        counts: Verified {
            beside_server: lock.is_none(),
            ..Verified::default()
        },
        tell,
        _locks: [lock, deletion_lock, vault_lock],
    };
    drop(loan);
    verifier.run()
}

/// Whose ledger it is, and what keeps the vault from being of the same store.
///
/// A file without tables is refused: a writer would make them, and nothing would be named then. A
/// ledger that cannot tell whose it is has more to it, which is to be told; it is not mended.
fn identify(
    ledger: &Path,
    vault: &Path,
) -> Result<(Option<Identity>, Option<IdentityMismatch>), VerifyError> {
    let identity = LedgerSnapshot::open(ledger)?.identity().ok();
    let stranger = identity.map(|identity| identity.misses(vault));
    Ok((identity, stranger.transpose()?.flatten()))
}

/// A repair deletes media, which no backup may be copying meanwhile.
fn hold_for_repair(dir: &Path, options: VerifyOptions) -> Result<Option<File>, VerifyError> {
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

/// A verification under way.
struct Verifier<'a> {
    // Dropped in this order: the last connection that closes is the one that writes.
    snapshot: LedgerSnapshot,
    /// There in a repair.
    repair: Option<Repair>,
    vault: PathBuf,
    /// Why the vault is not this store's: what is or is not in it says nothing then.
    stranger: Option<IdentityMismatch>,
    options: VerifyOptions,
    counts: Verified,
    tell: &'a mut dyn FnMut(VerifyEvent),
    _locks: [Option<File>; 3],
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
        if let Some(why) = self.stranger {
            self.report(Subject::Vault, Fault::IdentityMismatch(why), false);
        }
        // Beside a server the long read is kept as short as it can be.
        for line in self.snapshot.integrity(!self.counts.beside_server)? {
            self.ledger_damaged(line);
        }
        self.snapshot.identity()?;
        self.each("sessions", LedgerSnapshot::sessions, Self::check_session)?;
        self.each("resources", LedgerSnapshot::resources, Self::check_resource)?;
        self.each(
            "small_media",
            LedgerSnapshot::small_media_names,
            Self::check_small,
        )?;
        self.check_garbage()?;
        match self.stranger {
            Some(_) => Ok(()),
            None => self.check_vault(),
        }
    }

    /// Nothing is deleted by a ledger that may be wrong about what it names.
    fn ledger_damaged(&mut self, line: String) {
        self.counts.ledger_is_damaged = true;
        self.repair = None;
        self.report(Subject::Ledger, Fault::Database(line), false);
    }

    /// What is wrong with a media, if anything is. A finding about media that nothing names any more
    /// is none: it was let go of meanwhile.
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
        let stands = fault.is_some() && self.snapshot.is_named(media)?;
        Ok(fault.filter(|_| stands))
    }

    fn report(&mut self, subject: Subject, fault: Fault, is_mended: bool) {
        let finding = Finding {
            subject,
            fault,
            is_mended,
        };
        let (found, mended) = match finding.severity() {
            Severity::Damage => (&mut self.counts.damage, &mut self.counts.damage_mended),
            Severity::Remains => (&mut self.counts.remains, &mut self.counts.remains_cleared),
        };
        *found += 1;
        *mended += u64::from(is_mended);
        (self.tell)(VerifyEvent::Finding(finding));
    }

    fn progress(&mut self) {
        (self.tell)(VerifyEvent::Progress(self.counts));
    }

    fn path(&self, id: MediaId) -> PathBuf {
        layout::media_path(&self.vault, id)
    }
}

// Row by row: sessions, resources, small media and garbage.
impl Verifier<'_> {
    /// Looks at all rows that a table has now.
    fn each<T>(
        &mut self,
        table: &'static str,
        page: fn(&LedgerSnapshot, i64) -> rusqlite::Result<Page<T>>,
        check: fn(&mut Self, i64, &T) -> Result<(), VerifyError>,
    ) -> Result<(), VerifyError> {
        let mut walk = TableScan::begin(&self.snapshot, table, page)?;
        while let Some(rows) = walk.next(&self.snapshot)? {
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

    /// What such a row names is not known, so that nothing can be called unnamed from here on.
    fn unreadable_row(
        &mut self,
        table: &'static str,
        row: i64,
        error: rusqlite::Error,
    ) -> Result<(), VerifyError> {
        if !is_unreadable(&error) {
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
            // It may have named anything before it came to this.
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
        // Never continued on other bytes than were acknowledged, as when a server meets it. What cannot
        // be read may be readable another time.
        let is_loss = !matches!(fault, Fault::Unreadable { .. });
        let mended = match &self.repair {
            Some(repair) if is_loss => repair.fail_session(id, session.epoch)?,
            _ => false,
        };
        self.report(subject, fault, mended);
        Ok(())
    }

    fn check_resource(&mut self, _row: i64, resource: &ResourceRow) -> Result<(), VerifyError> {
        self.counts.resources += 1;
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

    fn check_small(
        &mut self,
        _row: i64,
        &(id, is_named): &(MediaId, bool),
    ) -> Result<(), VerifyError> {
        if !is_named {
            let mended = match &self.repair {
                Some(repair) => repair.drop_small_media(id)?,
                None => false,
            };
            self.report(Subject::Media(id), Fault::UnnamedInLedger, mended);
        }
        Ok(())
    }

    /// Beside a server garbage is on its way out, and nothing to be told.
    fn check_garbage(&mut self) -> Result<(), VerifyError> {
        let mut after = None;
        loop {
            let page = self.snapshot.garbage(after)?;
            let Some((last, _)) = page.last() else {
                return Ok(());
            };
            after = Some(*last);
            for (id, is_named) in page {
                let fault = match is_named {
                    true => Fault::NamedGarbage,
                    false if self.counts.beside_server => continue,
                    false => Fault::Garbage,
                };
                let mended = self.clear_garbage(id, is_named)?;
                self.report(Subject::Media(id), fault, mended);
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
        let Some(bytes) = self.snapshot.small_media(media)? else {
            return Ok(Some(Fault::Missing { media }));
        };
        let wanted = usize::try_from(expected.len).map_or(bytes.len(), |len| len.min(bytes.len()));
        let mut check = Check::new(expected);
        check.take(&bytes[..wanted]);
        self.counts.bytes += wanted as u64;
        Ok(check.finish(media))
    }
}

// What lies in the vault, against the names that the ledger knows.
impl Verifier<'_> {
    fn check_vault(&mut self) -> Result<(), VerifyError> {
        let root = self.vault.clone();
        layout::walk(&root, |lot| self.check_names(lot))
    }

    fn check_names(&mut self, lot: Shard) -> Result<(), VerifyError> {
        self.counts.files += lot.media.len() as u64;
        for path in lot.foreign {
            self.report(Subject::Path(path), Fault::Foreign, false);
        }
        for id in self.snapshot.unknown_media(lot.media)? {
            self.check_unnamed(id)?;
        }
        self.progress();
        Ok(())
    }

    /// The ledger does not know it. Beside a server its upload may not have committed yet, or the
    /// sweep may have deleted it between the listing and the look into the ledger.
    fn check_unnamed(&mut self, id: MediaId) -> Result<(), VerifyError> {
        let path = self.path(id);
        let Some(modified) = filesystem::modified(&path)? else {
            return Ok(());
        };
        let old = self.options.now.saturating_sub(self.options.grace);
        if self.counts.beside_server && modified >= old {
            return Ok(());
        }
        if self.repair.is_some() {
            filesystem::remove(&path)?;
        }
        self.report(Subject::Media(id), Fault::Unnamed, self.repair.is_some());
        Ok(())
    }
}

/// What cannot be true of a session, whatever its bytes are.
fn contradiction(session: &SessionRow) -> Option<&'static str> {
    use SessionState::{Active, Finished, Finishing};
    let is_open = matches!(session.state, Active | Finishing);
    match session {
        SessionRow {
            media: None,
            offset: 1..,
            ..
        } if is_open => Some("bytes are committed and no media is named"),
        SessionRow { media: Some(_), .. } if !is_open => Some("it has ended and still names media"),
        SessionRow {
            total: Some(total),
            offset,
            ..
        } if offset > total => Some("more is committed than the media is long"),
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
        _ => None,
    }
}

/// Whether SQLite says that the file is damaged, rather than that it cannot get at it.
fn is_corrupt(cause: &Cause) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    let code = cause
        .downcast_ref::<rusqlite::Error>()
        .and_then(rusqlite::Error::sqlite_error_code);
    matches!(code, Some(DatabaseCorrupt | NotADatabase))
}
