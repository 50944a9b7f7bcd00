//! A copy of a store, made while a server uses it.
//!
//! ```text
//! 1  media that the ledger names now is copied: most of the bytes, at leisure
//! 2  a hold is taken: from here on no media is deleted
//! 3  the ledger is copied, as it is at one moment
//! 4  what the copy names and step 1 has not brought is copied; the hold is let go of
//! 5  every media is read back and compared with its row in the copy, and synced
//! 6  the copy of the ledger gets its name, and is durable
//! 7  media that it does not name is deleted from the backup
//! ```
//!
//! So a backup is the store of one moment, that of step 3: what was acknowledged before the backup
//! began is in it. Media below a committed offset never changes, so it does not matter when its bytes
//! are copied, and bytes behind the offset mean nothing. The hold lasts as long as
//! the ledger takes to be copied, and what was uploaded during step 1.
//!
//! A destination may hold a former backup of the same store. What it has of a media is not copied again, and it stays
//! whole until the new ledger takes the place of the old one (step 6). Until the end, also of a backup
//! that was interrupted, there is a file `backup.incomplete`; a destination without a ledger beside it
//! is no store, and no server takes it for one.
//!
//! Absent: a limit on the pace, and whatever brings a backup to another machine.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_store::{Cause, MediaId, MediaLocation, MediaRef};

use crate::directory::{
    self, COMPLETE_BACKUP, INCOMPLETE_BACKUP, Identity, LEDGER, NEW_LEDGER, lock_vault,
};
use crate::ledger::{self, LedgerSnapshot, Page, ResourceRow, SessionRow, TableScan};
use crate::vault::layout;
use crate::verify::{Expected, Fault, Finding, Subject, check_file};
use crate::{OpenError, filesystem};

/// What a backup tells while it is made.
#[derive(Debug)]
pub enum BackupEvent {
    /// Something in the store is damaged. It is in the backup as far as it is there.
    Finding(Finding),
    /// It goes on.
    Progress(BackedUp),
}

/// What a backup holds, and what it took to make it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BackedUp {
    /// Sessions in it.
    pub sessions: u64,
    /// Resources in it.
    pub resources: u64,
    /// Names of media in its vault. Media that two resources share counts twice.
    pub media: u64,
    /// Bytes of those media.
    pub bytes: u64,
    /// Bytes of media that were copied; the others were there already.
    pub copied: u64,
    /// Media of a former backup that was deleted.
    pub deleted: u64,
    /// What was found damaged.
    pub damage: u64,
}

/// Why there is no backup, or the former one still.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The directory does not exist, or there is no ledger in it.
    #[error("there is no store in {}", dir.display())]
    NoStore {
        /// The directory.
        dir: PathBuf,
    },
    /// The destination is in the store.
    #[error("{} is inside of the store", target.display())]
    Inside {
        /// The destination.
        target: PathBuf,
    },
    /// The destination holds something that is not to be written over.
    #[error("{} is neither empty nor a backup", target.display())]
    NotABackup {
        /// The destination.
        target: PathBuf,
    },
    /// The destination has a backup of another store.
    #[error("{} is a backup of another store", target.display())]
    OfAnother {
        /// The destination.
        target: PathBuf,
    },
    /// A ledger, the vault or the destination cannot be opened, or the destination is in use.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The ledger could not be read.
    #[error("the ledger fails")]
    Ledger(#[source] Cause),
    /// SQLite finds the copy of the ledger damaged, and so the ledger is.
    #[error("the ledger is damaged: {reason}")]
    LedgerDamaged {
        /// In SQLite's words.
        reason: String,
    },
    /// The store could not be held, or the backup not be written or synced.
    #[error("{} fails", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl BackupError {
    fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

impl From<rusqlite::Error> for BackupError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Ledger(Arc::new(error))
    }
}

/// Copies the store in `dir` to `target`, which is made if it does not exist. A server may use the
/// store meanwhile. When it returns, the backup is durable.
///
/// It blocks, for as long as it takes to copy what is new and to read all.
///
/// # Errors
/// When there is no store, its vault is not there, the destination is not for its backups, or anything fails. A former backup in
/// the destination is still whole then. Damaged media is no error: it is told, and counted.
pub fn backup(
    dir: &Path,
    target: &Path,
    tell: &mut dyn FnMut(BackupEvent),
) -> Result<BackedUp, BackupError> {
    if !filesystem::exists(&dir.join("ledger.sqlite")).map_err(BackupError::io(dir))? {
        directory::refuse_incomplete(dir)?;
        let dir = dir.to_owned();
        return Err(BackupError::NoStore { dir });
    }
    let live = LedgerSnapshot::open(&dir.join("ledger.sqlite"))?;
    let identity = live.identity()?;
    directory::check_identity(&dir.join("vault"), identity)?;
    let backup = Backup {
        target: Target::open(dir, target, identity)?,
        dir,
        counts: BackedUp::default(),
        tell,
    };
    backup.make(live)
}

/// A backup under way.
struct Backup<'a> {
    dir: &'a Path,
    target: Target,
    counts: BackedUp,
    tell: &'a mut dyn FnMut(BackupEvent),
}

impl Backup<'_> {
    fn make(mut self, live: LedgerSnapshot) -> Result<BackedUp, BackupError> {
        self.fetch_all(&live)?;
        drop(live);
        let deletion_lock =
            directory::lock_deletion(self.dir).map_err(BackupError::io(self.dir))?;
        let copy = self.copy_ledger()?;
        self.fetch_all(&copy)?;
        drop(deletion_lock);
        self.check_all(&copy)?;
        drop(copy);
        self.target.complete()?;
        self.delete_unnamed()?;
        self.target.close()?;
        Ok(self.counts)
    }

    /// A page that has rotted would be copied as it is.
    fn copy_ledger(&mut self) -> Result<LedgerSnapshot, BackupError> {
        let path = self.target.new_ledger();
        let source = self.dir.join("ledger.sqlite");
        ledger::copy(&source, &path, &mut || self.progress())?;
        let copy = LedgerSnapshot::open(&path)?;
        match copy.integrity(false)?.into_iter().next() {
            None => Ok(copy),
            Some(reason) => Err(BackupError::LedgerDamaged { reason }),
        }
    }

    fn report(&mut self, finding: Finding) {
        self.counts.damage += 1;
        (self.tell)(BackupEvent::Finding(finding));
    }

    fn progress(&mut self) {
        (self.tell)(BackupEvent::Progress(self.counts));
    }
}

/// As much as is copied at once.
const PIECE_LEN: u64 = 1 << 20;

/// What a row says of media in the vault.
struct Named {
    subject: Subject,
    media: MediaId,
    expected: Expected,
}

impl Backup<'_> {
    /// Brings all media that a ledger names, as far as it is there. Whether it was is for
    /// [`Backup::check_all`] to say.
    fn fetch_all(&mut self, ledger: &LedgerSnapshot) -> Result<(), BackupError> {
        self.each(ledger, |backup, row| match row {
            Ok(Some(named)) => backup.fetch(named.media, named.expected.len),
            _ => Ok(()),
        })
    }

    /// Compares all media with the copy of the ledger, makes it durable, and counts.
    fn check_all(&mut self, ledger: &LedgerSnapshot) -> Result<(), BackupError> {
        self.each(ledger, |backup, row| {
            match row {
                Ok(Some(named)) => backup.check(named)?,
                Ok(None) => {}
                Err(finding) => backup.report(finding),
            }
            Ok(())
        })?;
        self.counts.sessions = ledger.count("sessions")?;
        self.counts.resources = ledger.count("resources")?;
        Ok(())
    }

    /// Deletes what the ledger that is now in the backup does not name.
    fn delete_unnamed(&mut self) -> Result<(), BackupError> {
        let ledger = LedgerSnapshot::open(&self.target.ledger())?;
        let vault = self.target.vault();
        let mut names = Ok(());
        let walked = layout::walk(&vault, |lot| -> io::Result<()> {
            match ledger.unknown_media(lot.media) {
                Ok(unnamed) => unnamed.into_iter().try_for_each(|id| {
                    self.counts.deleted += 1;
                    filesystem::remove(&layout::media_path(&vault, id))
                }),
                Err(error) => {
                    names = Err(error);
                    Ok(())
                }
            }
        });
        walked.map_err(BackupError::io(&vault))?;
        Ok(names?)
    }

    /// Shows all rows that a ledger has now, in pages.
    fn each(
        &mut self,
        ledger: &LedgerSnapshot,
        mut show: impl FnMut(&mut Self, Result<Option<Named>, Finding>) -> Result<(), BackupError>,
    ) -> Result<(), BackupError> {
        self.each_row(
            ledger,
            "sessions",
            LedgerSnapshot::sessions,
            of_session,
            &mut show,
        )?;
        self.each_row(
            ledger,
            "resources",
            LedgerSnapshot::resources,
            of_resource,
            &mut show,
        )
    }

    fn each_row<T>(
        &mut self,
        ledger: &LedgerSnapshot,
        table: &'static str,
        page: fn(&LedgerSnapshot, i64) -> rusqlite::Result<Page<T>>,
        named: fn(i64, &T) -> Option<Named>,
        show: &mut impl FnMut(&mut Self, Result<Option<Named>, Finding>) -> Result<(), BackupError>,
    ) -> Result<(), BackupError> {
        let mut walk = TableScan::begin(ledger, table, page)?;
        while let Some(rows) = walk.next(ledger)? {
            for (row, read) in rows {
                let read = read.map(|found| named(row, &found));
                show(self, read.map_err(|error| unreadable(table, row, error)))?;
            }
            self.progress();
        }
        Ok(())
    }

    /// Brings what is missing of the first `len` bytes of a media. A source that is gone or cannot be
    /// read is ignored.
    fn fetch(&mut self, id: MediaId, len: u64) -> Result<(), BackupError> {
        let Ok(source) = filesystem::open_for_reading(&self.source(id)) else {
            return Ok(());
        };
        let (path, file) = self.target.media(id)?;
        let mut at = file.metadata().map_err(BackupError::io(&path))?.len();
        while at < len {
            let step = usize::try_from((len - at).min(PIECE_LEN)).expect("at most a piece");
            let Ok(piece) = filesystem::read_at(&source, at, step) else {
                return Ok(());
            };
            if piece.is_empty() {
                return Ok(());
            }
            let read = piece.len() as u64;
            let written = filesystem::write_all_at(&file, &[piece], at);
            written.map_err(|stopped| BackupError::io(&path)(stopped.error))?;
            at += read;
            self.counts.copied += read;
            self.progress();
        }
        Ok(())
    }

    /// What differs here and is sound in the store is copied once more: it has rotted here since a
    /// former backup.
    fn check(&mut self, named: Named) -> Result<(), BackupError> {
        let Named {
            subject,
            media,
            expected,
        } = named;
        self.counts.media += 1;
        self.counts.bytes += expected.len;
        let mut fault = self.fault_of(media, &expected);
        let source = self.source(media);
        if fault.is_some() && check_file(&source, media, &expected, &mut |_| ()).is_none() {
            let (path, file) = self.target.media(media)?;
            filesystem::cut(&file, 0).map_err(BackupError::io(&path))?;
            self.fetch(media, expected.len)?;
            fault = self.fault_of(media, &expected);
        }
        if let Some(fault) = fault {
            let is_mended = false;
            self.report(Finding {
                subject,
                fault,
                is_mended,
            });
        }
        self.sync(media)
    }

    fn fault_of(&mut self, media: MediaId, expected: &Expected) -> Option<Fault> {
        let path = layout::media_path(&self.target.vault(), media);
        check_file(&path, media, expected, &mut |_| self.progress())
    }

    /// A file whose sync has failed is worth nothing: a later sync would say that all is well.
    fn sync(&self, id: MediaId) -> Result<(), BackupError> {
        let path = layout::media_path(&self.target.vault(), id);
        let synced = filesystem::open(&path).and_then(|file: File| filesystem::sync_data(&file));
        match synced {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => {
                filesystem::remove(&path).ok();
                Err(BackupError::io(&path)(error))
            }
            Ok(()) => Ok(()),
        }
    }

    fn source(&self, id: MediaId) -> PathBuf {
        layout::media_path(&self.dir.join("vault"), id)
    }
}

fn of_session(row: i64, session: &SessionRow) -> Option<Named> {
    Some(Named {
        media: session.media.and_then(in_vault)?,
        expected: Expected::of_session(session),
        subject: Subject::Session {
            id: session.id,
            row,
        },
    })
}

fn of_resource(_row: i64, resource: &ResourceRow) -> Option<Named> {
    let (media, len, digests) = resource.media?;
    Some(Named {
        media: in_vault(media)?,
        expected: Expected::of_resource(len, digests),
        subject: Subject::Resource {
            collection: resource.collection.clone(),
            id: resource.id.clone(),
        },
    })
}

fn in_vault(media: MediaRef) -> Option<MediaId> {
    (media.location == MediaLocation::Vault).then_some(media.id)
}

fn unreadable(table: &'static str, row: i64, error: rusqlite::Error) -> Finding {
    Finding {
        subject: Subject::Row { table, row },
        fault: Fault::Row(Arc::new(error)),
        is_mended: false,
    }
}

/// The directory of a backup: a data directory with a mark.
///
/// `backup` says that it was completed once, `backup.incomplete` that a backup into it is running or
/// was interrupted. A server that opens it takes the marks away: from then on it is a store, and no
/// backup is made into it.
///
/// The destination, in use by this backup alone.
#[derive(Debug)]
struct Target {
    dir: PathBuf,
    /// Of the directory, and of its vault.
    locks: Vec<File>,
}

impl Target {
    /// Makes `dir` the destination of a backup of the store in `store`, or finds that it is none.
    ///
    /// Its vault is marked as the store's. A former backup that is whole needs its mark as long as it is, so
    /// it can only be one of the same store.
    fn open(store: &Path, dir: &Path, identity: Identity) -> Result<Self, BackupError> {
        let io = |error| BackupError::io(dir)(error);
        if is_inside(store, dir).map_err(io)? {
            let target = dir.to_owned();
            return Err(BackupError::Inside { target });
        }
        filesystem::make_directories_durably(dir).map_err(io)?;
        refuse_others(dir)?;
        let lock = filesystem::lock(&dir.join("lock")).map_err(io)?;
        let lock = lock.ok_or_else(|| OpenError::InUse {
            dir: dir.to_owned(),
        })?;
        let mut target = Self {
            locks: vec![lock],
            dir: dir.to_owned(),
        };
        // A server may have had it meanwhile, and made a store of it.
        refuse_others(dir)?;
        target.refuse_others_backup(identity)?;
        target.mark(INCOMPLETE_BACKUP)?;
        target.take_vault(identity)?;
        Ok(target)
    }

    /// A ledger here that cannot be read has rotted, and is replaced.
    fn refuse_others_backup(&self, identity: Identity) -> Result<(), BackupError> {
        match ledger::identity_in(&self.ledger()) {
            Ok(Some(other)) if other != identity => {
                let target = self.dir.clone();
                Err(BackupError::OfAnother { target })
            }
            _ => Ok(()),
        }
    }

    /// Marks the vault, which may be a link to one that a server uses.
    fn take_vault(&mut self, identity: Identity) -> Result<(), BackupError> {
        let vault = self.vault();
        let io = |error| BackupError::io(&vault)(error);
        filesystem::make_directories_durably(&vault).map_err(io)?;
        self.locks.push(lock_vault(&vault)?);
        if identity.misses(&vault).map_err(io)?.is_some() {
            identity.mark_durably(&vault).map_err(io)?;
        }
        Ok(())
    }

    /// The ledger of the backup.
    fn ledger(&self) -> PathBuf {
        self.dir.join(LEDGER)
    }

    /// The ledger that takes its place.
    fn new_ledger(&self) -> PathBuf {
        self.dir.join(NEW_LEDGER)
    }

    fn vault(&self) -> PathBuf {
        self.dir.join("vault")
    }

    /// The file of a media, made now if it does not exist.
    fn media(&self, id: MediaId) -> Result<(PathBuf, File), BackupError> {
        let path = layout::media_path(&self.vault(), id);
        let inner = path.parent().expect("a media is two directories deep");
        let outer = inner.parent().expect("a media is two directories deep");
        let file = filesystem::make_directory(outer)
            .and_then(|()| filesystem::make_directory(inner))
            .and_then(|()| filesystem::open_or_create(&path));
        Ok((path.clone(), file.map_err(BackupError::io(&path))?))
    }

    /// Puts the new ledger in the place of the old one. All names of media are durable before it, the
    /// ledger's is after it. The new ledger has no sidecars, and what is left of the old one's are not
    /// its.
    fn complete(&self) -> Result<(), BackupError> {
        let io = |error| BackupError::io(&self.dir)(error);
        layout::sync_names(&self.vault()).map_err(io)?;
        for suffix in ["-wal", "-shm", "-journal"] {
            filesystem::remove(&filesystem::beside(&self.ledger(), suffix)).map_err(io)?;
        }
        filesystem::rename(&self.new_ledger(), &self.ledger()).map_err(io)?;
        filesystem::sync_directory(&self.dir).map_err(io)
    }

    /// Says that the backup is complete.
    fn close(&self) -> Result<(), BackupError> {
        self.mark(COMPLETE_BACKUP)?;
        let removed = filesystem::remove(&self.dir.join(INCOMPLETE_BACKUP));
        let durably = removed.and_then(|()| filesystem::sync_directory(&self.dir));
        durably.map_err(BackupError::io(&self.dir))
    }

    fn mark(&self, name: &str) -> Result<(), BackupError> {
        let path = self.dir.join(name);
        let marked = filesystem::open_or_create(&path)
            .and_then(|file| file.sync_all())
            .and_then(|()| filesystem::sync_directory(&self.dir));
        marked.map_err(BackupError::io(&path))
    }
}

/// Whether a directory, which need not exist, is the store's or will be in it, or in its vault.
fn is_inside(store: &Path, dir: &Path) -> io::Result<bool> {
    let dir = std::path::absolute(dir)?;
    let mut above = dir.ancestors();
    let nearest = above.find(|above| above.exists()).unwrap_or(&dir);
    let nearest = filesystem::canonical(nearest)?;
    let is_below = |place: &Path| filesystem::canonical(place).map(|it| nearest.starts_with(it));
    // The vault may be a link to another disk.
    let vault = store.join("vault");
    Ok(is_below(store)? || filesystem::exists(&vault)? && is_below(&vault)?)
}

/// Refuses a directory that is not for backups.
fn refuse_others(dir: &Path) -> Result<(), BackupError> {
    if is_for_backups(dir).map_err(BackupError::io(dir))? {
        return Ok(());
    }
    let target = dir.to_owned();
    Err(BackupError::NotABackup { target })
}

/// Whether a directory is empty or a backup. A lock file alone is what is left of a backup that was
/// interrupted before its mark.
fn is_for_backups(dir: &Path) -> io::Result<bool> {
    let names = filesystem::names(dir)?;
    let is_marked = names
        .iter()
        .any(|name| name == COMPLETE_BACKUP || name == INCOMPLETE_BACKUP);
    Ok(is_marked || names.iter().all(|name| name == "lock"))
}
