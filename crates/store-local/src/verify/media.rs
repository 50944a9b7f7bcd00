//! Media where it lies, piece by piece.

use std::io;
use std::path::Path;
use std::sync::Arc;

use windlass_store::MediaId;

use super::check::{Check, Expected};
use super::finding::Fault;
use super::{Verifier, VerifyError};
use crate::filesystem;

/// As much as is read at once.
const PIECE_LEN: u64 = 1 << 20;

impl Verifier<'_> {
    pub(super) fn fault_in_vault(&mut self, media: MediaId, expected: &Expected) -> Option<Fault> {
        check_file(&self.path(media), media, expected, &mut |len| {
            self.counts.bytes += len;
            self.progress();
        })
    }

    pub(super) fn fault_in_ledger(
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

/// What is wrong with a media in the file of this path, if anything is. Tells how many bytes it has
/// read, piece by piece.
pub(crate) fn check_file(
    path: &Path,
    media: MediaId,
    expected: &Expected,
    read: &mut dyn FnMut(u64),
) -> Option<Fault> {
    match try_check_file(path, media, expected, read) {
        Ok(fault) => fault,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(Fault::Missing { media }),
        Err(error) => Some(Fault::Unreadable {
            media,
            source: Arc::new(error),
        }),
    }
}

/// The length first: to tell that a file is short it need not be read.
fn try_check_file(
    path: &Path,
    media: MediaId,
    expected: &Expected,
    read: &mut dyn FnMut(u64),
) -> io::Result<Option<Fault>> {
    let file = filesystem::open_for_reading(path)?;
    let len = file.metadata()?.len();
    if len < expected.len {
        return Ok(Some(Fault::Short {
            media,
            len,
            expected: expected.len,
        }));
    }
    let mut check = Check::new(expected);
    let mut at = 0;
    while at < expected.len {
        let len = usize::try_from((expected.len - at).min(PIECE_LEN)).expect("at most a piece");
        let piece = filesystem::read_at(&file, at, len)?;
        if piece.is_empty() {
            break;
        }
        check.take(&piece);
        at += piece.len() as u64;
        read(piece.len() as u64);
    }
    Ok(check.finish(media))
}
