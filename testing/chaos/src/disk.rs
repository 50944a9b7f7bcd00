//! Disks that are files: an image behind a loop device, with a file system on it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use clap::ValueEnum;
use rustix::io::Errno;

use crate::tool::{need, need_loop_devices, run};

/// Unmounts the devices before the `--`, and runs the command after it.
const WITHOUT: &str = r#"
while test "$1" != --; do
    umount --lazy "$1"
    shift
done
shift
exec "$@"
"#;

/// A file system to test.
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

    /// Checks the requirements for making and mounting this file system.
    ///
    /// # Errors
    /// [`crate::outcome::Lacking`] if the machine lacks one of them.
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
        let arguments = arguments.iter().copied().chain([device.path()]);
        // Btrfs queries each mounted device, and fails if one of them does not answer.
        let dead = match self {
            Self::Btrfs => dead_mounts()?,
            Self::Ext4 | Self::Xfs => Vec::new(),
        };
        if dead.is_empty() {
            return run(program, arguments).map(drop);
        }
        need(&["unshare"])?;
        let elsewhere = ["--mount", "sh", "-c", WITHOUT, "sh"].into_iter();
        let dead = dead.iter().map(String::as_str);
        let command = dead.chain(["--", program]).chain(arguments);
        run("unshare", elsewhere.chain(command)).map(drop)
    }
}

/// The mounted loop devices with an unreachable file: the program that showed the file (FUSE) has
/// ended. They need not be ours.
fn dead_mounts() -> std::io::Result<Vec<String>> {
    let mounts = std::fs::read_to_string("/proc/mounts")?;
    let devices = mounts.lines().filter_map(|line| line.split(' ').next());
    Ok(devices.filter(is_dead).map(str::to_owned).collect())
}

fn is_dead(device: &&str) -> bool {
    device.strip_prefix("/dev/").is_some_and(|name| {
        std::fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"))
            .and_then(|file| std::fs::metadata(file.trim_end()))
            .is_err_and(|error| Errno::from_io_error(&error) == Some(Errno::NOTCONN))
    })
}

/// Makes a file of `size` bytes that takes no room yet.
///
/// # Errors
/// The file cannot be made.
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

/// A mounted file system. It is unmounted when it is dropped; until then anyone who uses it must
/// have ended.
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

    /// Mounts a small file system in memory on a directory, which is made if need be.
    ///
    /// # Errors
    /// The same as of [`Mount::new`].
    pub(crate) fn in_memory(at: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(at)?;
        let place = at.to_string_lossy();
        run("mount", ["-t", "tmpfs", "-o", "size=16m", "tmpfs", &place])?;
        Ok(Self(at.to_owned()))
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Unmounts it. Anyone who was killed a moment ago may hold it a moment longer.
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
