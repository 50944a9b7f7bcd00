//! Disks that are files: an image behind a loop device, with a file system on it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use clap::ValueEnum;

use crate::tool::{need, need_loop_devices, run};

/// A file system that is put to the proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileSystem {
    Ext4,
    Xfs,
    Btrfs,
}

impl FileSystem {
    /// Its name, as `mount` has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    fn mkfs(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Ext4 => ("mkfs.ext4", &["-q", "-F"]),
            Self::Xfs => ("mkfs.xfs", &["-q", "-f"]),
            Self::Btrfs => ("mkfs.btrfs", &["-q", "-f"]),
        }
    }

    /// Options without which an image cannot be mounted while another copy of it is.
    fn mount_options(self) -> &'static [&'static str] {
        match self {
            Self::Xfs => &["-o", "nouuid"],
            Self::Ext4 | Self::Btrfs => &[],
        }
    }

    /// Asks for what it takes to make and mount one.
    ///
    /// # Errors
    /// [`crate::outcome::Lacking`] when the machine does not have it.
    pub(crate) fn need(self) -> anyhow::Result<()> {
        need_loop_devices()?;
        need(&["losetup", "mount", "umount", self.mkfs().0])
    }

    /// Makes a file system on a device.
    ///
    /// # Errors
    /// When the device is too small, for one.
    pub(crate) fn make(self, device: &LoopDevice) -> anyhow::Result<()> {
        let (program, arguments) = self.mkfs();
        run(program, arguments.iter().copied().chain([device.path()])).map(drop)
    }
}

/// Makes a file of `size` bytes that takes no room yet.
///
/// # Errors
/// What the operating system says.
pub(crate) fn make_image(path: &Path, size: u64) -> std::io::Result<()> {
    File::create(path)?.set_len(size)
}

/// A loop device over a file. It is detached when it is dropped.
#[derive(Debug)]
pub(crate) struct LoopDevice(String);

impl LoopDevice {
    /// Attaches a file.
    ///
    /// # Errors
    /// When no device is free.
    pub(crate) fn attach(image: &Path) -> anyhow::Result<Self> {
        let image = image.to_string_lossy();
        run("losetup", ["--find", "--show", "--direct-io=off", &image]).map(Self)
    }

    /// Its device file.
    pub(crate) fn path(&self) -> &str {
        &self.0
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        run("losetup", ["--detach", &self.0]).ok();
    }
}

/// A mounted file system. It is unmounted when it is dropped; until then whoever uses it must have ended.
#[derive(Debug)]
pub(crate) struct Mount(PathBuf);

impl Mount {
    /// Mounts the file system of a device on a directory, which is made if need be.
    ///
    /// # Errors
    /// When the file system is not one, for instance after a cut that it does not survive.
    pub(crate) fn new(
        file_system: FileSystem,
        device: &LoopDevice,
        at: &Path,
    ) -> anyhow::Result<Self> {
        std::fs::create_dir_all(at)?;
        let place = at.to_string_lossy();
        let options = file_system.mount_options().iter().copied();
        run(
            "mount",
            options.chain(["-t", file_system.name(), device.path(), &place]),
        )?;
        Ok(Self(at.to_owned()))
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Unmounts it. Whoever was killed a moment ago may hold it a moment longer.
    ///
    /// # Errors
    /// When somebody still uses it.
    pub(crate) fn unmount(self) -> anyhow::Result<()> {
        const TRIES: u32 = 100;
        let place = self.0.to_string_lossy().into_owned();
        for _ in 0..TRIES {
            if run("umount", [&place]).is_ok() {
                std::mem::forget(self);
                return Ok(());
            }
            sleep(Duration::from_millis(20));
        }
        std::mem::forget(self);
        run("umount", [place]).map(drop)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let place = self.0.to_string_lossy().into_owned();
        if run("umount", [&place]).is_err() {
            run("umount", ["--lazy", &place]).ok();
        }
    }
}
