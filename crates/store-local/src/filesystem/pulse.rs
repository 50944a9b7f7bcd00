//! Asking a file system whether it still stands by its syncs.
//!
//! A file system that cannot write its journal stops, and says so to the sync that waits for the journal. Another
//! sync, which comes to the same entry of the journal a moment later, may find it over and succeed: Linux does not
//! tell an entry that failed from one that is on the disk (`jbd2_complete_transaction` of ext4). XFS likewise takes
//! a file that has no changes left in its log for synced, and stopping leaves it none. So what was synced is durable
//! only if the file system has not stopped by then, and somebody has to ask.

use std::fs::File;
use std::io;
use std::path::Path;

#[cfg(target_os = "linux")]
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

#[cfg(target_os = "linux")]
use super::magic;

/// A file by which its file system is asked.
///
/// The question is a change, as both look at their journal only when one begins, and the smallest that they refuse
/// aloud: the file gets the flags that it has. It costs a microsecond or two, and no sync.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(crate) struct Pulse {
    file: File,
    /// None where nobody is asked: of other file systems it is not known that they need it.
    flags: Option<IFlags>,
}

#[cfg(target_os = "linux")]
impl Pulse {
    /// By the file `path`. Where that belongs to another user its file system cannot be asked, and is believed.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let flags = match magic::of(path)? {
            magic::EXT | magic::XFS => flags_to_set(&file, path),
            _ => None,
        };
        Ok(Self { file, flags })
    }

    /// Fails when the file system has stopped. Of a sync that had succeeded before, on any of its files, this tells
    /// whether it is to be believed.
    pub(crate) fn check(&self) -> io::Result<()> {
        match self.flags {
            Some(flags) => Ok(ioctl_setflags(&self.file, flags)?),
            None => Ok(()),
        }
    }

    /// Of a file system that has stopped: a device has no flags.
    #[cfg(test)]
    pub(crate) fn stopped() -> Self {
        Self {
            file: File::open("/dev/null").expect("it is everywhere"),
            flags: Some(IFlags::empty()),
        }
    }
}

/// Those that it has, if they can be set.
#[cfg(target_os = "linux")]
fn flags_to_set(file: &File, path: &Path) -> Option<IFlags> {
    let set = ioctl_getflags(file).and_then(|flags| ioctl_setflags(file, flags).map(|()| flags));
    set.inspect_err(|error| {
        let path = path.display();
        tracing::debug!(%path, %error, "the file system cannot be asked whether it has stopped");
    })
    .ok()
}

/// Other operating systems are not asked.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub(crate) struct Pulse;

#[cfg(not(target_os = "linux"))]
impl Pulse {
    pub(crate) fn of(_path: &Path) -> io::Result<Self> {
        Ok(Self)
    }

    pub(crate) fn check(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_goes_on_is_believed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let pulse = Pulse::of(file.path()).unwrap();
        let is_asked = matches!(magic::of(file.path()).unwrap(), magic::EXT | magic::XFS);
        assert_eq!(pulse.flags.is_some(), is_asked);
        pulse.check().unwrap();
    }

    #[test]
    fn one_that_cannot_be_asked_is_believed() {
        let path = Path::new("/proc/self/status");
        Pulse::of(path).unwrap().check().unwrap();
        let device = Path::new("/dev/null");
        assert_eq!(flags_to_set(&File::open(device).unwrap(), device), None);
        Pulse::stopped().check().unwrap_err();
    }
}
