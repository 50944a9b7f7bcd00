//! Which vault belongs to which ledger.
//!
//! A store has an identity, which is made with it. The ledger holds it, and so does the file
//! `identity` in the vault. A disk that is not mounted leaves an empty directory in the place of the
//! vault, and a wrong one brings another store's: by such a vault all media would be lost, and be
//! deleted when the disk comes back. So nothing is done with a vault that lacks the identity of its
//! ledger.
//!
//! The vault is marked first, durably, and the ledger is made after it. Whatever crash comes between the
//! two leaves no ledger, and the next start marks the vault again; a ledger without its vault is
//! nothing that a crash leaves.

use std::io;
use std::path::{Path, PathBuf};

use crate::filesystem;

/// What tells a store from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity([u8; 16]);

/// Why a directory is not the vault of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdentityMismatch {
    /// It does not exist, or no store has marked it, as when its disk is not mounted.
    #[error("it has no mark of a store")]
    Unmarked,
    /// It has the mark of another store.
    #[error("it has the mark of another store")]
    Marked,
}

impl Identity {
    /// That of a new store.
    pub(crate) fn random() -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the system has random numbers");
        Self(bytes)
    }

    pub(crate) const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// What keeps `vault` from being this store's, if anything does.
    pub(crate) fn misses(self, vault: &Path) -> io::Result<Option<IdentityMismatch>> {
        let marked = match filesystem::open_for_reading(&path(vault)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            file => filesystem::read_at(&file?, 0, MARK_LEN)?,
        };
        Ok(match marked.trim_ascii() {
            b"" => Some(IdentityMismatch::Unmarked),
            mark if mark.eq_ignore_ascii_case(self.mark().trim_ascii()) => None,
            _ => Some(IdentityMismatch::Marked),
        })
    }

    /// Marks a vault, which exists, as this store's. Durable, and so is the name of the mark.
    pub(crate) fn mark_durably(self, vault: &Path) -> io::Result<()> {
        let file = filesystem::open_or_create(&path(vault))?;
        filesystem::cut(&file, 0)?;
        let written = filesystem::write_all_at(&file, &[self.mark()], 0);
        written.map_err(|stopped| stopped.error)?;
        file.sync_all()?;
        filesystem::sync_directory(vault)
    }

    /// 32 hexadecimal digits and the end of the line.
    fn mark(self) -> Vec<u8> {
        format!("{:032x}\n", u128::from_be_bytes(self.0)).into_bytes()
    }
}

/// More than a mark is long, so that a longer one is none.
const MARK_LEN: usize = 64;

/// Where a vault has its mark.
pub(crate) fn path(vault: &Path) -> PathBuf {
    vault.join("identity")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marked_vault_is_its_stores_and_nobody_elses() {
        let vault = tempfile::tempdir().unwrap();
        let identity = Identity::from_bytes([0xab; 16]);
        let absent = vault.path().join("absent");
        let unmarked = Some(IdentityMismatch::Unmarked);
        assert_eq!(identity.misses(&absent).unwrap(), unmarked);
        assert_eq!(identity.misses(vault.path()).unwrap(), unmarked);
        // A crash may leave a part of a mark; it is made again.
        std::fs::write(path(vault.path()), "abab").unwrap();
        let strange = Some(IdentityMismatch::Marked);
        assert_eq!(identity.misses(vault.path()).unwrap(), strange);
        std::fs::write(path(vault.path()), "ab".repeat(40)).unwrap();
        assert_eq!(identity.misses(vault.path()).unwrap(), strange);
        identity.mark_durably(vault.path()).unwrap();
        assert_eq!(identity.misses(vault.path()).unwrap(), None);
        assert_eq!(Identity::random().misses(vault.path()).unwrap(), strange);
    }
}
