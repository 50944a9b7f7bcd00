//! Opening a store, and everything that speaks against it.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use crate::directory::{
    self, DirectoryLock, Identity, LEDGER, StoreShared, check_identity, identity_path, lock_vault,
};
use crate::filesystem::{self, Safety};
use crate::ledger::{self, LocalLedger};
use crate::reserve::{self, Reserve};
use crate::sync_health::JournalHealth;
use crate::vault::{LocalVault, WritePolicy, layout};
use crate::{Durability, OpenError, Options};

/// A ledger and a vault that share a data directory.
#[derive(Debug)]
pub struct LocalStore {
    /// The ledger, in `ledger.sqlite`.
    pub ledger: LocalLedger,
    /// The vault, in `vault/`.
    pub vault: LocalVault,
}

impl LocalStore {
    /// Opens the store in `dir`, made now if it does not exist.
    ///
    /// It blocks, for some milliseconds; it walks neither sessions nor media, however many there
    /// are. What a crash left behind is met where it matters: the ledger replays its WAL, and a
    /// media is cut to its committed offset when it is reopened.
    pub fn open(dir: &Path, options: Options) -> Result<Self, OpenError> {
        Self::open_judged(dir, options, filesystem::judge)
    }

    fn open_judged(dir: &Path, options: Options, judge: Judge) -> Result<Self, OpenError> {
        let io = |source| OpenError::io(dir, source);
        filesystem::make_directories_durably(dir).map_err(io)?;
        let lock = filesystem::lock(&dir.join("lock")).map_err(io)?;
        let file = lock.ok_or_else(|| OpenError::InUse {
            dir: dir.to_owned(),
        })?;
        let (ledger_path, vault_dir) = (dir.join(LEDGER), dir.join("vault"));
        check_filesystems(dir, &vault_dir, options, judge)?;
        directory::refuse_incomplete(dir)?;

        let reserve_path = reserve::path(dir);
        let reserve =
            Reserve::open(&reserve_path).map_err(|source| OpenError::io(&reserve_path, source))?;
        let reserve = Arc::new(reserve);
        let _loan = reserve.lend().map_err(io)?;
        let (identity, vault_lock) = identify(&ledger_path, &vault_dir)?;
        let lock = Arc::new(DirectoryLock::new(vec![file, vault_lock]));
        directory::take_over(dir)?;
        let shared_state = StoreShared {
            durability: options.durability,
            reserve: Arc::clone(&reserve),
            lock,
            journals: journals(dir, &vault_dir, options.durability).map_err(io)?,
        };
        let write_policy = write_policy(&vault_dir, options);
        let vault = LocalVault::new(vault_dir, write_policy, shared_state.clone());
        let ledger = LocalLedger::open(&ledger_path, identity, shared_state)?;
        Ok(Self { ledger, vault })
    }
}

/// How media is written: past the page cache if it will be synced, and if the vault's file system is good at it.
fn write_policy(vault: &Path, options: Options) -> WritePolicy {
    let wants_direct = options.durability == Durability::Disk && !options.page_cache;
    if wants_direct && filesystem::takes_direct_writes(&identity_path(vault)) {
        WritePolicy::Direct
    } else {
        WritePolicy::Cached
    }
}

/// By files that never change: that of the data directory, and that of the vault, which may be on a disk of its own.
fn journals(
    dir: &Path,
    vault: &Path,
    durability: Durability,
) -> std::io::Result<Arc<[JournalHealth]>> {
    if durability == Durability::Os {
        return Ok(Arc::new([]));
    }
    let (lock, mark) = (dir.join("lock"), identity_path(vault));
    let one_disk = filesystem::are_together(&lock, &mark)?;
    let apart = (!one_disk).then_some(&mark);
    [&lock]
        .into_iter()
        .chain(apart)
        .map(|path| JournalHealth::of(path))
        .collect()
}

/// The identity of the store, which its vault has too, and the lock of the vault. A new store gets one.
fn identify(ledger: &Path, vault: &Path) -> Result<(Identity, File), OpenError> {
    let Some(identity) = ledger::identity_in(ledger)? else {
        return mark_new(vault);
    };
    check_identity(vault, identity)?;
    let lock = lock_vault(vault)?;
    // Until then another store could mark it.
    check_identity(vault, identity)?;
    Ok((identity, lock))
}

/// Makes the vault of a new store, and marks it as such. A mark that it has is that of a store whose
/// ledger was never made.
fn mark_new(vault: &Path) -> Result<(Identity, File), OpenError> {
    let io = |source| OpenError::io(vault, source);
    filesystem::make_directories_durably(vault).map_err(io)?;
    if !layout::is_empty(vault).map_err(io)? {
        let vault = vault.to_owned();
        return Err(OpenError::NoLedger { vault });
    }
    let lock = lock_vault(vault)?;
    let identity = Identity::random();
    identity.mark_durably(vault).map_err(io)?;
    Ok((identity, lock))
}

/// How a file system is judged by a directory on it.
type Judge = fn(&Path) -> std::io::Result<Safety>;

/// Judges the file system of the data directory, and that of the vault, which may be mounted there or be elsewhere
/// behind a link. What was said of the one is not said again of the other.
fn check_filesystems(
    dir: &Path,
    vault: &Path,
    options: Options,
    judge: Judge,
) -> Result<(), OpenError> {
    if options.durability == Durability::Os {
        return Ok(());
    }
    let judge = |dir| judge(dir).map_err(|source| OpenError::io(dir, source));
    let of_dir = judge(dir)?;
    check_filesystem(dir, &of_dir, options)?;
    if filesystem::exists(vault).map_err(|source| OpenError::io(vault, source))? {
        let of_vault = judge(vault)?;
        if of_vault != of_dir {
            check_filesystem(vault, &of_vault, options)?;
        }
    }
    Ok(())
}

fn check_filesystem(dir: &Path, safety: &Safety, options: Options) -> Result<(), OpenError> {
    match *safety {
        Safety::Safe => {}
        Safety::Unsafe(reason) if !options.allow_unsafe_filesystem => {
            return Err(OpenError::UnsafeFilesystem {
                dir: dir.to_owned(),
                reason,
            });
        }
        Safety::Unsafe(reason) | Safety::Doubtful(reason) => {
            tracing::warn!(dir = %dir.display(), reason, "acknowledged bytes may be lost");
        }
    }
    Ok(())
}
