//! Opens a store.

#[cfg(test)]
mod tests;

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use crate::directory::{
    self, DirectoryLock, Identity, LEDGER, StoreShared, check_identity, identity_path, lock_vault,
};
use crate::file_lock::FileLock;
use crate::filesystem::{self, Safety};
use crate::ledger::{self, LocalLedger};
use crate::reserve::{self, Reserve};
use crate::sync_health::StopProbe;
use crate::vault::{LocalVault, WritePolicy, layout};
use crate::{Durability, OpenError, Options};

/// Files of the data directory. A user who can write to one changes rows, or keeps the server out.
const FILES: [&str; 4] = ["lock", LEDGER, "ledger.sqlite-wal", "ledger.sqlite-shm"];

/// A ledger and a vault in one data directory.
///
/// The directory is locked until both have been dropped, with all writers of media.
#[derive(Debug)]
pub struct LocalStore {
    /// Ledger, in `ledger.sqlite`.
    pub ledger: LocalLedger,
    /// Vault, in `vault/`.
    pub vault: LocalVault,
}

impl LocalStore {
    /// Opens the store in `dir`, or creates it.
    ///
    /// It blocks for some milliseconds. The time does not depend on the number of sessions and
    /// media, because opening reads none of them. The effects of a crash are repaired on demand:
    /// the ledger replays its WAL, and a media is cut to its committed offset when it is reopened.
    ///
    /// # Errors
    /// See [`OpenError`]. If a store is refused, the directory and the files `lock` and `reserve`
    /// in it may have been created. Nothing else has changed.
    pub fn open(dir: &Path, options: Options) -> Result<Self, OpenError> {
        Self::open_assessed(dir, options, filesystem::assess)
    }

    /// Creates the data directory for its owner only, and all missing ones above it, if it does not
    /// exist. [`LocalStore::open`] does so itself; a process that gives up the right to create it
    /// calls this before.
    ///
    /// # Errors
    /// [`OpenError::Io`] and [`OpenError::NoSpace`].
    pub fn create_directory(dir: &Path) -> Result<(), OpenError> {
        filesystem::make_directories_durably(dir).map_err(|source| OpenError::io(dir, source))
    }

    fn open_assessed(dir: &Path, options: Options, assess: Assess) -> Result<Self, OpenError> {
        let io = |source| OpenError::io(dir, source);
        Self::create_directory(dir)?;
        check_owner(dir, &options)?;
        for name in FILES {
            let path = dir.join(name);
            filesystem::refuse_special(&path).map_err(|source| OpenError::io(&path, source))?;
            check_owner(&path, &options)?;
        }
        let lock = FileLock::try_exclusive(&dir.join("lock")).map_err(io)?;
        let file = lock.ok_or_else(|| OpenError::InUse {
            dir: dir.to_owned(),
        })?;
        let (ledger_path, vault_dir) = (dir.join(LEDGER), dir.join("vault"));
        // Problems that a change of permissions cannot solve are reported first.
        check_filesystems(dir, &vault_dir, &options, assess)?;
        check_owner(&vault_dir, &options)?;
        check_owner(&identity_path(&vault_dir), &options)?;
        // At most 256. The directories in them are checked when they are used first, and media when
        // it is opened.
        for path in layout::outer_directories(&vault_dir).map_err(io)? {
            check_owner(&path, &options)?;
        }
        directory::refuse_incomplete(dir)?;

        let reserve_path = reserve::path(dir);
        let reserve =
            Reserve::open(&reserve_path).map_err(|source| OpenError::io(&reserve_path, source))?;
        let reserve = Arc::new(reserve);
        let _loan = reserve.lend().map_err(io)?;
        let (identity, vault_lock) = identify(&ledger_path, &vault_dir)?;
        let lock = Arc::new(DirectoryLock::new(vec![file, vault_lock]));
        directory::become_store(dir)?;
        let write_policy = write_policy(&vault_dir, &options);
        let shared_state = StoreShared {
            durability: options.durability,
            reserve: Arc::clone(&reserve),
            lock,
            stop_probes: stop_probes(dir, &vault_dir, options.durability).map_err(io)?,
            allow_shared_data: options.allow_shared_data,
            recorder: options.recorder,
            retention: options.retention,
        };
        let vault = LocalVault::new(vault_dir, write_policy, shared_state.clone());
        let ledger = LocalLedger::open(&ledger_path, identity, shared_state)?;
        Ok(Self { ledger, vault })
    }
}

/// Returns whether large writes bypass the page cache: if media is synced, and if the file system
/// of the vault supports it.
fn write_policy(vault: &Path, options: &Options) -> WritePolicy {
    let wants_direct = options.durability == Durability::Disk && !options.page_cache;
    if wants_direct && filesystem::takes_direct_writes(&identity_path(vault)) {
        WritePolicy::Direct
    } else {
        WritePolicy::Cached
    }
}

/// Returns probes of the file system of the data directory and, if the vault is on another one, of
/// that. They ask through files that never change.
fn stop_probes(
    dir: &Path,
    vault: &Path,
    durability: Durability,
) -> std::io::Result<Arc<[StopProbe]>> {
    if durability == Durability::Os {
        return Ok(Arc::new([]));
    }
    let (lock, mark) = (dir.join("lock"), identity_path(vault));
    let one_disk = filesystem::on_same_filesystem(&lock, &mark)?;
    let apart = (!one_disk).then_some(&mark);
    [&lock]
        .into_iter()
        .chain(apart)
        .map(|path| StopProbe::of(path))
        .collect()
}

/// Returns the identity of the store, which its vault must have, too, and the lock of the vault. A
/// new store gets an identity.
fn identify(ledger: &Path, vault: &Path) -> Result<(Identity, FileLock), OpenError> {
    let Some(identity) = ledger::identity_in(ledger)? else {
        return identify_new(vault);
    };
    check_identity(vault, identity)?;
    let lock = lock_vault(vault)?;
    // Again under the lock: another store could have written its identity in between.
    check_identity(vault, identity)?;
    Ok((identity, lock))
}

/// Creates the vault of a new store with a new identity. A vault that already has an identity
/// belongs to a store whose ledger was never created.
fn identify_new(vault: &Path) -> Result<(Identity, FileLock), OpenError> {
    let io = |source| OpenError::io(vault, source);
    filesystem::make_directories_durably(vault).map_err(io)?;
    if !layout::is_empty(vault).map_err(io)? {
        let vault = vault.to_owned();
        return Err(OpenError::NoLedger { vault });
    }
    let lock = lock_vault(vault)?;
    let identity = Identity::random();
    identity.write_durably(vault).map_err(io)?;
    Ok((identity, lock))
}

/// Refuses a directory or a file that every user can change, unless the operator accepts it. Warns
/// of one that only some other users can change, because volumes of containers belong to root or to
/// a group. A missing directory or file passes: this user will create it and own it alone.
fn check_owner(path: &Path, options: &Options) -> Result<(), OpenError> {
    let why = match filesystem::shared_with_others(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        shared => shared.map_err(|source| OpenError::io(path, source))?,
    };
    match why {
        None => {}
        Some(why) if why.is_open_to_all() && !options.allow_shared_data => {
            let path = path.to_owned();
            return Err(OpenError::Shared { path, why });
        }
        Some(why) => {
            tracing::warn!(path = %path.display(), "other users can change what is stored: {why}");
        }
    }
    Ok(())
}

/// Assesses the file system of a directory.
type Assess = fn(&Path) -> std::io::Result<Safety>;

/// Assesses the file systems of the data directory and of the vault, which may be a mount or a link
/// to elsewhere. A warning about the first is not repeated for the second.
fn check_filesystems(
    dir: &Path,
    vault: &Path,
    options: &Options,
    assess: Assess,
) -> Result<(), OpenError> {
    if options.durability == Durability::Os {
        return Ok(());
    }
    let assess = |dir| assess(dir).map_err(|source| OpenError::io(dir, source));
    let of_dir = assess(dir)?;
    check_filesystem(dir, &of_dir, options)?;
    if filesystem::exists(vault).map_err(|source| OpenError::io(vault, source))? {
        let of_vault = assess(vault)?;
        if of_vault != of_dir {
            check_filesystem(vault, &of_vault, options)?;
        }
    }
    Ok(())
}

fn check_filesystem(dir: &Path, safety: &Safety, options: &Options) -> Result<(), OpenError> {
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
