//! Copies a store while a server uses it.
//!
//! ```text
//! 1  media that the ledger references now is copied: most of the bytes
//! 2  the deletion lock is taken: from here on no media is deleted
//! 3  the ledger is copied, as of one moment
//! 4  media that the copy references and that is missing is copied; the lock is released
//! 5  all media is read back, compared with its row in the copy, and synced
//! 6  the copy of the ledger gets its name, durably
//! 7  media that it does not reference is deleted from the backup
//! ```
//!
//! So a backup is the store as of step 3, and everything acknowledged before the backup began is in
//! it. Media below a committed offset never changes, so it does not matter when its bytes are
//! copied. Bytes behind the offset mean nothing. The lock lasts as long as copying the ledger and
//! the media that was uploaded during step 1.
//!
//! A destination may hold an earlier backup of the same store. Media that it has is not copied
//! again, and the earlier backup stays complete until the new ledger replaces the old one in step
//! 6. While a backup runs, and after it was interrupted, there is a file `backup.incomplete`. A
//! destination with that file and without a ledger is not a store, and no server opens it.
//!
//! Absent: a limit on the rate, and the transfer of a backup to another machine.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_store::{Cause, MediaId, MediaLocation, MediaRef};

use crate::directory::{
    self, COMPLETE_BACKUP, INCOMPLETE_BACKUP, Identity, LEDGER, NEW_LEDGER, lock_vault,
};
use crate::file_lock::FileLock;
use crate::ledger::{self, LedgerReader, Miscount, ResourceRow, RowBatch, SessionRow, TableScan};
use crate::vault::layout;
use crate::verify::{Expected, Fault, Finding, Subject, check_file};
use crate::{OpenError, filesystem};

/// An event of a running backup.
#[derive(Debug)]
pub enum BackupEvent {
    /// Something in the store is damaged. The backup holds as much of it as there is.
    Finding(Finding),
    /// The backup has made progress.
    Progress(BackedUp),
}

/// The content of a backup, and the work it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BackedUp {
    /// Number of sessions.
    pub sessions: u64,
    /// Number of resources. Internal rows of the server, such as indexes, are not counted: the
    /// names of their collections begin with a dot.
    pub resources: u64,
    /// Number of rows of resources, including internal rows.
    pub rows: u64,
    /// Number of references to media in the vault. Media that two resources share counts twice.
    pub media: u64,
    /// Number of bytes of those media.
    pub bytes: u64,
    /// Number of bytes of media that were copied. All further bytes were already in the backup.
    pub copied: u64,
    /// Number of deleted media of an earlier backup.
    pub deleted: u64,
    /// Number of damage findings.
    pub damage: u64,
}

/// Why a backup was not made. An earlier one is still complete.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The data directory does not exist, or has no ledger.
    #[error("there is no store in {}", dir.display())]
    NoStore {
        /// Data directory.
        dir: PathBuf,
    },
    /// The destination is inside of the store.
    #[error("{} is inside of the store", target.display())]
    Inside {
        /// The destination.
        target: PathBuf,
    },
    /// The destination holds files that do not belong to a backup. They must not be overwritten.
    #[error("{} is neither empty nor a backup", target.display())]
    NotABackup {
        /// The destination.
        target: PathBuf,
    },
    /// The destination holds a backup of another store.
    #[error("{} is a backup of another store", target.display())]
    OfAnother {
        /// The destination.
        target: PathBuf,
    },
    /// The ledger, the vault or the destination could not be opened, or the destination is in use.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The ledger could not be read.
    #[error("the ledger could not be read")]
    Ledger(#[source] Cause),
    /// SQLite finds the copy of the ledger damaged, which means that the ledger is.
    #[error("the ledger is damaged: {reason}")]
    LedgerDamaged {
        /// Message of SQLite.
        reason: String,
    },
    /// Deletion could not be locked, or the backup could not be written or synced.
    #[error("{} cannot be read or written", path.display())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// Why it has failed.
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

/// Copies the store in `dir` to `target`, which is created if it does not exist. A server may use
/// the store meanwhile. The backup is durable when the function returns.
///
/// It blocks for as long as it takes to copy new media and to read all of it. `on_event` is called
/// on the same thread.
///
/// # Errors
/// See [`BackupError`]. An earlier backup in the destination is still complete then. Damaged media
/// is no error: it is reported and counted.
pub fn backup(
    dir: &Path,
    target: &Path,
    on_event: &mut dyn FnMut(BackupEvent),
) -> Result<BackedUp, BackupError> {
    if !filesystem::exists(&dir.join("ledger.sqlite")).map_err(BackupError::io(dir))? {
        directory::refuse_incomplete(dir)?;
        let dir = dir.to_owned();
        return Err(BackupError::NoStore { dir });
    }
    let live = LedgerReader::open(&dir.join("ledger.sqlite"))?;
    let identity = live.identity()?;
    directory::check_identity(&dir.join("vault"), identity)?;
    let backup = Backup {
        target: Target::open(dir, target, identity)?,
        dir,
        counts: BackedUp::default(),
        on_event,
    };
    backup.make(live)
}

/// A running backup.
struct Backup<'a> {
    dir: &'a Path,
    target: Target,
    counts: BackedUp,
    on_event: &'a mut dyn FnMut(BackupEvent),
}

impl Backup<'_> {
    fn make(mut self, live: LedgerReader) -> Result<BackedUp, BackupError> {
        self.copy_all(&live)?;
        drop(live);
        // Before the ledger is copied, so that no media which the copy references is deleted.
        let deletion_lock =
            directory::lock_deletion(self.dir).map_err(BackupError::io(self.dir))?;
        let copy = self.copy_ledger()?;
        self.copy_all(&copy)?;
        drop(deletion_lock);
        self.check_all(&copy)?;
        let is_counted = self.check_counts(&copy)?;
        drop(copy);
        self.target.complete()?;
        if is_counted {
            self.delete_unnamed()?;
        }
        self.target.close()?;
        Ok(self.counts)
    }

    /// Copies the ledger and checks the copy, because a damaged page is copied as it is.
    fn copy_ledger(&mut self) -> Result<LedgerReader, BackupError> {
        let path = self.target.new_ledger();
        let source = self.dir.join("ledger.sqlite");
        ledger::copy(&source, &path, &mut || self.progress())?;
        let copy = LedgerReader::open(&path)?;
        match copy.integrity(false)?.into_iter().next() {
            None => Ok(copy),
            Some(reason) => Err(BackupError::LedgerDamaged { reason }),
        }
    }

    fn report(&mut self, finding: Finding) {
        self.counts.damage += 1;
        (self.on_event)(BackupEvent::Finding(finding));
    }

    fn progress(&mut self) {
        (self.on_event)(BackupEvent::Progress(self.counts));
    }
}

/// Number of bytes that are copied at once.
const PIECE_LEN: u64 = 1 << 20;

/// A row that references media in the vault.
struct MediaRow {
    subject: Subject,
    media: MediaId,
    expected: Expected,
}

impl Backup<'_> {
    /// Copies all media that a ledger references, as far as it exists. [`Backup::check_all`] finds
    /// missing media.
    fn copy_all(&mut self, ledger: &LedgerReader) -> Result<(), BackupError> {
        self.for_each_row(ledger, |backup, row| match row {
            Ok(Some(media_row)) => backup.copy_media(media_row.media, media_row.expected.len),
            _ => Ok(()),
        })
    }

    /// Compares all media with the copy of the ledger, syncs it, and counts it.
    fn check_all(&mut self, ledger: &LedgerReader) -> Result<(), BackupError> {
        self.for_each_row(ledger, |backup, row| {
            match row {
                Ok(Some(media_row)) => backup.check(media_row)?,
                Ok(None) => {}
                Err(finding) => backup.report(finding),
            }
            Ok(())
        })?;
        self.counts.sessions = ledger.count_rows("sessions")?;
        self.counts.resources = ledger.count_resources()?;
        self.counts.rows = ledger.count_rows("resources")?;
        Ok(())
    }

    /// Compares the stored numbers of references with the references. Returns whether all are
    /// right. If not, it is uncertain which media the ledger does not reference.
    fn check_counts(&mut self, ledger: &LedgerReader) -> Result<bool, BackupError> {
        let miscounted = ledger.miscounted_media()?;
        for miscount in &miscounted {
            let Miscount {
                media,
                counted,
                stored,
            } = *miscount;
            self.report(Finding {
                subject: Subject::Media(media.id),
                fault: Fault::Miscounted { counted, stored },
                is_repaired: false,
            });
        }
        Ok(miscounted.is_empty())
    }

    /// Deletes media that the new ledger of the backup does not reference.
    fn delete_unnamed(&mut self) -> Result<(), BackupError> {
        let ledger = LedgerReader::open(&self.target.ledger())?;
        let vault = self.target.vault();
        let mut names = Ok(());
        let walked = layout::walk(&vault, |shard| -> io::Result<()> {
            match ledger.unknown_media(shard.media) {
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

    /// Visits all rows of a ledger, in pages.
    fn for_each_row(
        &mut self,
        ledger: &LedgerReader,
        mut visit: impl FnMut(&mut Self, Result<Option<MediaRow>, Finding>) -> Result<(), BackupError>,
    ) -> Result<(), BackupError> {
        self.for_each_row_of(
            ledger,
            "sessions",
            LedgerReader::sessions,
            of_session,
            &mut visit,
        )?;
        self.for_each_row_of(
            ledger,
            "resources",
            LedgerReader::resources,
            of_resource,
            &mut visit,
        )
    }

    fn for_each_row_of<T>(
        &mut self,
        ledger: &LedgerReader,
        table: &'static str,
        read_batch: fn(&LedgerReader, i64) -> rusqlite::Result<RowBatch<T>>,
        media_row: fn(i64, &T) -> Option<MediaRow>,
        visit: &mut impl FnMut(&mut Self, Result<Option<MediaRow>, Finding>) -> Result<(), BackupError>,
    ) -> Result<(), BackupError> {
        let mut walk = TableScan::begin(ledger, table, read_batch)?;
        while let Some(rows) = walk.next(ledger)? {
            for (row, read) in rows {
                let read = read.map(|found| media_row(row, &found));
                visit(self, read.map_err(|error| unreadable(table, row, error)))?;
            }
            self.progress();
        }
        Ok(())
    }

    /// Copies the missing part of the first `len` bytes of a media. Does nothing if the source does
    /// not exist or cannot be read.
    fn copy_media(&mut self, id: MediaId, len: u64) -> Result<(), BackupError> {
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

    /// Compares a media of the backup with its row, and syncs it. If it differs and the media in
    /// the store does not, it has rotted since an earlier backup and is copied again.
    fn check(&mut self, media_row: MediaRow) -> Result<(), BackupError> {
        let MediaRow {
            subject,
            media,
            expected,
        } = media_row;
        self.counts.media += 1;
        self.counts.bytes += expected.len;
        let mut fault = self.fault_of(media, &expected);
        let source = self.source(media);
        if fault.is_some() && check_file(&source, media, &expected, &mut |_| ()).is_none() {
            let (path, file) = self.target.media(media)?;
            filesystem::cut(&file, 0).map_err(BackupError::io(&path))?;
            self.copy_media(media, expected.len)?;
            fault = self.fault_of(media, &expected);
        }
        if let Some(fault) = fault {
            let is_repaired = false;
            self.report(Finding {
                subject,
                fault,
                is_repaired,
            });
        }
        self.sync(media)
    }

    fn fault_of(&mut self, media: MediaId, expected: &Expected) -> Option<Fault> {
        let path = layout::media_path(&self.target.vault(), media);
        check_file(&path, media, expected, &mut |_| self.progress())
    }

    /// Syncs a media. If that fails, removes it: a later sync would succeed without its bytes being
    /// on the disk, and the next backup would not copy it again.
    fn sync(&self, id: MediaId) -> Result<(), BackupError> {
        let path = layout::media_path(&self.target.vault(), id);
        sync_or_remove(&path, filesystem::sync_data).map_err(BackupError::io(&path))
    }

    fn source(&self, id: MediaId) -> PathBuf {
        layout::media_path(&self.dir.join("vault"), id)
    }
}

/// Syncs a file by `sync`, and removes it if that fails. Does nothing if the file does not exist.
fn sync_or_remove(path: &Path, sync: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    match filesystem::open(path).and_then(|file| sync(&file)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => {
            filesystem::remove(path).ok();
            Err(error)
        }
        Ok(()) => Ok(()),
    }
}

fn of_session(row: i64, session: &SessionRow) -> Option<MediaRow> {
    Some(MediaRow {
        media: session.media.and_then(in_vault)?,
        expected: Expected::of_session(session),
        subject: Subject::Session {
            id: session.id,
            row,
        },
    })
}

fn of_resource(_row: i64, resource: &ResourceRow) -> Option<MediaRow> {
    let (media, len, digests) = resource.media?;
    Some(MediaRow {
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
        is_repaired: false,
    }
}

/// The destination, which is locked by this backup.
///
/// It is a data directory with a mark. The file `backup` means that a backup was completed once,
/// and `backup.incomplete` that one is running or was interrupted. A server that opens the
/// directory removes both files: from then on it is a store, and no backup is made into it.
#[derive(Debug)]
struct Target {
    dir: PathBuf,
    /// Locks of the directory and of its vault.
    locks: Vec<FileLock>,
}

impl Target {
    /// Makes `dir` the destination of a backup of the store in `store`, or refuses it.
    ///
    /// Its vault gets the identity of the store. An earlier complete backup needs its own identity
    /// until it is replaced, so it must be one of the same store.
    fn open(store: &Path, dir: &Path, identity: Identity) -> Result<Self, BackupError> {
        let io = |error| BackupError::io(dir)(error);
        if is_inside(store, dir).map_err(io)? {
            let target = dir.to_owned();
            return Err(BackupError::Inside { target });
        }
        filesystem::make_directories_durably(dir).map_err(io)?;
        refuse_others(dir)?;
        let lock = FileLock::try_exclusive(&dir.join("lock")).map_err(io)?;
        let lock = lock.ok_or_else(|| OpenError::InUse {
            dir: dir.to_owned(),
        })?;
        let mut target = Self {
            locks: vec![lock],
            dir: dir.to_owned(),
        };
        // Again under the lock: a server may have opened it in between and turned it into a store.
        refuse_others(dir)?;
        target.refuse_others_backup(identity)?;
        target.mark(INCOMPLETE_BACKUP)?;
        target.take_vault(identity)?;
        Ok(target)
    }

    /// Refuses a backup of another store. A ledger that cannot be read has rotted, and is replaced.
    fn refuse_others_backup(&self, identity: Identity) -> Result<(), BackupError> {
        match ledger::identity_in(&self.ledger()) {
            Ok(Some(other)) if other != identity => {
                let target = self.dir.clone();
                Err(BackupError::OfAnother { target })
            }
            _ => Ok(()),
        }
    }

    /// Locks the vault and gives it the identity. The vault may be a link to a vault that a server
    /// uses.
    fn take_vault(&mut self, identity: Identity) -> Result<(), BackupError> {
        let vault = self.vault();
        let io = |error| BackupError::io(&vault)(error);
        filesystem::make_directories_durably(&vault).map_err(io)?;
        self.locks.push(lock_vault(&vault)?);
        if identity.mismatch(&vault).map_err(io)?.is_some() {
            identity.write_durably(&vault).map_err(io)?;
        }
        Ok(())
    }

    /// Returns the path of the ledger of the backup.
    fn ledger(&self) -> PathBuf {
        self.dir.join(LEDGER)
    }

    /// Returns the path of the ledger that will replace it.
    fn new_ledger(&self) -> PathBuf {
        self.dir.join(NEW_LEDGER)
    }

    fn vault(&self) -> PathBuf {
        self.dir.join("vault")
    }

    /// Opens the file of a media, or creates it.
    fn media(&self, id: MediaId) -> Result<(PathBuf, File), BackupError> {
        let path = layout::media_path(&self.vault(), id);
        let inner = path.parent().expect("a media is two directories deep");
        let outer = inner.parent().expect("a media is two directories deep");
        let file = filesystem::make_directory(outer)
            .and_then(|()| filesystem::make_directory(inner))
            .and_then(|()| filesystem::open_or_create(&path));
        Ok((path.clone(), file.map_err(BackupError::io(&path))?))
    }

    /// Replaces the old ledger by the new one.
    fn complete(&self) -> Result<(), BackupError> {
        let io = |error| BackupError::io(&self.dir)(error);
        // Before the rename: a ledger must not be there without the media that it references.
        layout::sync_names(&self.vault()).map_err(io)?;
        // SQLite would apply an old WAL to the new ledger, which has no WAL.
        for suffix in ["-wal", "-shm", "-journal"] {
            filesystem::remove(&filesystem::with_suffix(&self.ledger(), suffix)).map_err(io)?;
        }
        filesystem::rename(&self.new_ledger(), &self.ledger()).map_err(io)?;
        filesystem::sync_directory(&self.dir).map_err(io)
    }

    /// Marks the backup as complete.
    fn close(&self) -> Result<(), BackupError> {
        // In this order, so that a crash in between leaves a directory that is known to be a
        // backup.
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

/// Returns whether a directory, which need not exist, is or would be inside of the store or its
/// vault.
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

/// Refuses a directory that is neither empty nor a backup.
fn refuse_others(dir: &Path) -> Result<(), BackupError> {
    if is_for_backups(dir).map_err(BackupError::io(dir))? {
        return Ok(());
    }
    let target = dir.to_owned();
    Err(BackupError::NotABackup { target })
}

/// Returns whether a directory is empty or a backup. A backup that was interrupted before it had
/// its mark leaves a lock file alone.
fn is_for_backups(dir: &Path) -> io::Result<bool> {
    let names = filesystem::names(dir)?;
    let is_marked = names
        .iter()
        .any(|name| name == COMPLETE_BACKUP || name == INCOMPLETE_BACKUP);
    Ok(is_marked || names.iter().all(|name| name == "lock"))
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn media_whose_sync_fails_does_not_stay_in_the_backup() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("media");
        std::fs::write(&path, "cow").unwrap();
        sync_or_remove(&path, |_| Ok(())).unwrap();
        assert!(path.exists());
        let failed = sync_or_remove(&path, |_| Err(Errno::IO.into())).unwrap_err();
        assert_eq!(failed.raw_os_error(), Some(Errno::IO.raw_os_error()));
        assert!(!path.exists(), "the next backup would believe it");
        sync_or_remove(&path, |_| panic!("there is no file")).unwrap();
    }
}
