//! What lies in the vault, against the names that the ledger knows.

use windlass_store::MediaId;

use super::finding::{Fault, Subject};
use super::{Verifier, VerifyError};
use crate::filesystem;
use crate::vault::scan::{self, Shard};

impl Verifier<'_> {
    pub(super) fn check_vault(&mut self) -> Result<(), VerifyError> {
        let root = self.vault.clone();
        scan::walk(&root, |lot| self.check_names(lot))
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
