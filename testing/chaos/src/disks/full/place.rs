//! The place of a server that is short of room: its disks and its user.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use windlass_testkit::checker::Violation;

use super::super::volume::Volume;
use crate::disk::FileSystem;
use crate::scratch::Scratch;
use crate::server_under_test::{Server, ServerUnderTest};
use crate::tool::dies_with_us;

/// The user `nobody` on most systems, and a group with the same number. Numbers need no entry in
/// /etc/passwd.
const NOBODY: u32 = 65534;

/// The content of the small file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// Ledger and vault.
    OneDisk,
    /// The ledger. The vault is a link to another one.
    SmallLedger,
    /// The vault, by a link.
    SmallVault,
}

/// The user of the server and of the other process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum User {
    /// Ext4 reserves blocks for this user.
    Root,
    /// This user cannot take the reserved blocks.
    Normal,
}

impl Layout {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::OneDisk => "one disk",
            Self::SmallLedger => "the ledger's disk",
            Self::SmallVault => "the vault's disk",
        }
    }
}

impl User {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Normal => "a normal user",
        }
    }

    /// The user id for processes, or `None` if they stay root.
    pub(super) fn id(self) -> Option<u32> {
        (self == Self::Normal).then_some(NOBODY)
    }

    /// Makes a directory that belongs to this user.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub(super) fn make_directory(self, path: &Path) -> std::io::Result<()> {
        fs::create_dir_all(path)?;
        chown(path, self.id(), self.id())
    }
}

/// A small file system, its content, and the server that works there.
#[derive(Debug)]
pub(super) struct Place {
    volume: Volume,
    data: PathBuf,
    user: User,
    /// With less free room than this, neither media nor a resource is taken.
    pub(super) hard: u64,
    server_under_test: ServerUnderTest,
    scratch: Scratch,
}

/// The smallest that is of use: XFS and Btrfs take no less.
fn size(file_system: FileSystem) -> u64 {
    match file_system {
        FileSystem::Ext4 => 32 << 20,
        FileSystem::Xfs => 300 << 20,
        FileSystem::Btrfs => 256 << 20,
    }
}

/// The `free_space.hard` for such a small disk. The soft limit is twice as much. Btrfs only
/// estimates its free room.
fn hard_limit(file_system: FileSystem) -> u64 {
    match file_system {
        FileSystem::Ext4 | FileSystem::Xfs => 2_000_000,
        FileSystem::Btrfs => 32_000_000,
    }
}

impl Place {
    /// Makes the place. The larger file system is the one with the scratch directory.
    ///
    /// # Errors
    /// The directories or the file system cannot be made.
    pub(super) fn new(
        file_system: FileSystem,
        layout: Layout,
        user: User,
        server_under_test: &ServerUnderTest,
    ) -> anyhow::Result<Self> {
        let scratch = Scratch::on_disk()?;
        // A normal user must be able to reach its directory.
        fs::set_permissions(scratch.path(), Permissions::from_mode(0o711))?;
        let hard = hard_limit(file_system);
        let server_under_test = prepare(server_under_test, user, hard, scratch.path())?;
        let volume = Volume::new(file_system, size(file_system), scratch.path())?;
        let large = scratch.path().join("large");
        fs::create_dir(&large)?;
        let (ledger, vault) = match layout {
            Layout::OneDisk => (volume.path(), None),
            Layout::SmallLedger => (volume.path(), Some(large.as_path())),
            Layout::SmallVault => (large.as_path(), Some(volume.path())),
        };
        let data = ledger.join("data");
        user.make_directory(&data)?;
        if let Some(vault) = vault {
            let vault = vault.join("vault");
            user.make_directory(&vault)?;
            symlink(vault, data.join("vault"))?;
        }
        Ok(Self {
            volume,
            data,
            user,
            hard,
            server_under_test,
            scratch,
        })
    }

    /// Starts the server.
    ///
    /// # Errors
    /// When it does not start.
    pub(super) fn start(&self) -> anyhow::Result<Server> {
        let log = self.scratch.path().join("log");
        self.server_under_test
            .start_under(&dies_with_us(), &self.data, &log)
    }

    /// Returns the findings of the server's verification. The server has ended, and leftovers of a
    /// crash are removed first.
    ///
    /// # Errors
    /// The verification cannot be carried out.
    pub(super) fn verify(&self) -> anyhow::Result<Vec<Violation>> {
        self.server_under_test.verify(&self.data)
    }

    /// Returns the findings that a crash does not explain. Changes nothing.
    ///
    /// # Errors
    /// The verification cannot be carried out.
    pub(super) fn damage(&self) -> anyhow::Result<Vec<Violation>> {
        self.server_under_test.damage(&self.data)
    }

    /// A directory on the small file system for another process that writes to it.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(super) fn others(&self) -> std::io::Result<PathBuf> {
        let path = self.volume.path().join("others");
        self.user.make_directory(&path)?;
        Ok(path)
    }

    /// Bytes on the small file system that a normal user may still take.
    ///
    /// # Errors
    /// The file system cannot be queried.
    pub(super) fn available(&self) -> std::io::Result<u64> {
        let stat = rustix::fs::statvfs(self.volume.path())?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// The server with limits for a small disk, and with a program that its user can reach.
fn prepare(
    server_under_test: &ServerUnderTest,
    user: User,
    hard: u64,
    scratch: &Path,
) -> anyhow::Result<ServerUnderTest> {
    let mut server_under_test = server_under_test.clone();
    let config = scratch.join("config.toml");
    let soft = 2 * hard;
    fs::write(
        &config,
        format!("[free_space]\nsoft = {soft}\nhard = {hard}\n"),
    )?;
    let config = format!("--config={}", config.display());
    server_under_test.arguments.push(config);
    server_under_test.user = user.id();
    if user == User::Normal {
        let program = scratch.join("windlass");
        fs::copy(&server_under_test.binary, &program)?;
        server_under_test.binary = program;
    }
    Ok(server_under_test)
}
