//! A separate file system for one server, which can lose unsynced data.

use std::path::{Path, PathBuf};

use crate::disk::{FileSystem, LoopDevice, Mount, make_image};
use crate::tool::{need, run};
use windlass_testkit::cleanup::CleanupShell;

/// Cleans up a volume when this program is killed. A process that holds files in it dies with us, a
/// little later.
const PUT_IN_ORDER: &str = "fsfreeze --unfreeze \"$1\"; umount --lazy \"$1\"; losetup --detach \"$2\"; \
     rm -r --one-file-system \"$3\"";

/// A mounted file system on a loop device. Anyone who uses it must have ended before it is dropped.
#[derive(Debug)]
pub(super) struct Volume {
    // Dropped in this order.
    mount: Mount,
    device: LoopDevice,
    guard: CleanupShell,
    file_system: FileSystem,
}

impl Volume {
    /// Checks the requirements.
    ///
    /// # Errors
    /// [`crate::outcome::Lacking`] if the machine lacks one of them.
    pub(super) fn need(file_system: FileSystem) -> anyhow::Result<()> {
        file_system.need()?;
        need(&["setpriv", "fsfreeze"])
    }

    /// A new file system of `size` bytes in a file in `scratch`.
    ///
    /// # Errors
    /// When it is too small for a file system of this kind, for one.
    pub(super) fn new(file_system: FileSystem, size: u64, scratch: &Path) -> anyhow::Result<Self> {
        let image = scratch.join("disk");
        make_image(&image, size)?;
        Self::on(file_system, &image, scratch)
    }

    /// A new file system on whatever `image` is.
    ///
    /// # Errors
    /// The same as of [`Volume::new`].
    pub(super) fn on(
        file_system: FileSystem,
        image: &Path,
        scratch: &Path,
    ) -> anyhow::Result<Self> {
        let device = LoopDevice::attach(image)?;
        let place = scratch.join("mount");
        let guard = CleanupShell::unless_dropped(
            PUT_IN_ORDER,
            [
                &place.to_string_lossy(),
                device.path(),
                &scratch.to_string_lossy(),
            ],
        )?;
        file_system.make(&device)?;
        Ok(Self {
            mount: Mount::new(file_system, &device, &place)?,
            device,
            guard,
            file_system,
        })
    }

    /// Where it is mounted.
    pub(super) fn path(&self) -> &Path {
        self.mount.path()
    }

    /// The device of the file system.
    pub(super) fn device(&self) -> &LoopDevice {
        &self.device
    }

    /// The data directory of the server on it.
    pub(super) fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    /// Makes the file system refuse all further writes, like a power failure. Unwritten data is
    /// lost with the mount. Btrfs has no such operation and keeps its data.
    ///
    /// # Errors
    /// The file system cannot be shut down.
    pub(super) fn switch_off(&self) -> anyhow::Result<()> {
        if self.file_system != FileSystem::Btrfs {
            let place = self.path().to_string_lossy();
            run("xfs_io", ["-x", "-c", "shutdown", &place])?;
        }
        Ok(())
    }

    /// Loses all unsynced data.
    ///
    /// # Errors
    /// A process still uses the file system, or it does not mount again.
    pub(super) fn switch_off_and_on(self) -> anyhow::Result<Self> {
        self.switch_off()?;
        self.mount_again(|_| Ok(()))
    }

    /// Unmounts it, lets `between` happen to the device, and mounts it.
    ///
    /// # Errors
    /// When somebody still uses it, or it does not come back.
    pub(super) fn mount_again(
        self,
        between: impl FnOnce(&LoopDevice) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let Self {
            mount,
            device,
            guard,
            file_system,
        } = self;
        let place = mount.path().to_owned();
        mount.unmount()?;
        between(&device)?;
        Ok(Self {
            mount: Mount::new(file_system, &device, &place)?,
            device,
            guard,
            file_system,
        })
    }
}
