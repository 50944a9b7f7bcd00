//! Media on its way into the backup, and the check that it has arrived.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use windlass_store::{MediaId, MediaLocation, MediaRef};

use super::{Backup, BackupError};
use crate::filesystem;
use crate::ledger::{LedgerSnapshot, Page, ResourceRow, SessionRow, TableScan};
use crate::vault::scan;
use crate::verify::check::Expected;
use crate::verify::media::check_file;
use crate::verify::{Fault, Finding, Subject};

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
    pub(super) fn fetch_all(&mut self, ledger: &LedgerSnapshot) -> Result<(), BackupError> {
        self.each(ledger, |backup, row| match row {
            Ok(Some(named)) => backup.fetch(named.media, named.expected.len),
            _ => Ok(()),
        })
    }

    /// Compares all media with the copy of the ledger, makes it durable, and counts.
    pub(super) fn check_all(&mut self, ledger: &LedgerSnapshot) -> Result<(), BackupError> {
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
    pub(super) fn delete_unnamed(&mut self) -> Result<(), BackupError> {
        let ledger = LedgerSnapshot::open(&self.target.ledger())?;
        let vault = self.target.vault();
        let mut names = Ok(());
        let walked = scan::walk(&vault, |lot| -> io::Result<()> {
            match ledger.unknown_media(lot.media) {
                Ok(unnamed) => unnamed.into_iter().try_for_each(|id| {
                    self.counts.deleted += 1;
                    filesystem::remove(&scan::path(&vault, id))
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
        let path = scan::path(&self.target.vault(), media);
        check_file(&path, media, expected, &mut |_| self.progress())
    }

    /// A file whose sync has failed is worth nothing: a later sync would say that all is well.
    fn sync(&self, id: MediaId) -> Result<(), BackupError> {
        let path = scan::path(&self.target.vault(), id);
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
        scan::path(&self.dir.join("vault"), id)
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
