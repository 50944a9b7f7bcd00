//! A disk that logs its writes.
//!
//! The image lies behind qemu-storage-daemon. Its driver `blklogwrites` appends every write, flush
//! and discard to a log before the request is answered. The daemon shows the disk as a file (FUSE),
//! and a loop device turns the file into a block device.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::log::Log;
use crate::disk::LoopDevice;

/// The program that the disk is made of.
pub(super) const DAEMON: &str = "qemu-storage-daemon";

/// How long it may take to show the disk, and to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often a wait looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A block device, the log of all that was written to it, and the program behind both. Fields are
/// dropped in order.
#[derive(Debug)]
pub(super) struct LoggedDisk {
    device: LoopDevice,
    daemon: Daemon,
    log: PathBuf,
}

impl LoggedDisk {
    /// Makes a disk of an image; all that is needed besides lies in `directory`.
    ///
    /// # Errors
    /// When the daemon has not shown the disk in time, or no loop device is free.
    pub(super) fn new(image: &Path, directory: &Path) -> anyhow::Result<Self> {
        let (log, export) = (directory.join("log"), directory.join("export"));
        File::create(&log)?;
        File::create(&export)?;
        let daemon = Daemon::start(image, &log, &export, &directory.join("daemon.pid"))?;
        Ok(Self {
            device: LoopDevice::attach(&export)?,
            daemon,
            log,
        })
    }

    /// The block device.
    pub(super) fn device(&self) -> &LoopDevice {
        &self.device
    }

    /// Returns a function for the length of the log. At each call, the length covers all requests
    /// that were answered before.
    ///
    /// It is the length of the file. An entry gets its place when it begins, and is in the file
    /// before the request is answered. A caller that has seen a reply therefore sees a length at or
    /// behind the end of its entry. The count in the log's first sector would not do: it is written
    /// after the entry, and concurrent requests write their counts in any order.
    ///
    /// # Errors
    /// The log cannot be opened.
    pub(super) fn log_length(&self) -> anyhow::Result<impl Fn() -> u64 + Send + Sync + use<>> {
        let log = File::open(&self.log)?;
        Ok(move || log.metadata().expect("an open file has metadata").len())
    }

    /// Ends the disk and returns all that was written to it.
    ///
    /// # Errors
    /// When the daemon does not end, or the log makes no sense.
    pub(super) fn close(self) -> anyhow::Result<Log> {
        let Self {
            device,
            daemon,
            log,
        } = self;
        drop(device);
        daemon.end()?;
        Log::open(&log)
    }
}

/// The program. It is ended when it is dropped.
#[derive(Debug)]
struct Daemon(Child);

impl Daemon {
    fn start(image: &Path, log: &Path, export: &Path, pid: &Path) -> anyhow::Result<Self> {
        let [image_file, log_file] = [image, log].map(|path| path.display());
        let mut command = Command::new(DAEMON);
        command
            .args(["--blockdev", &format!("driver=file,node-name=image,filename={image_file}")])
            .args(["--blockdev", &format!("driver=file,node-name=log,filename={log_file}")])
            .args(["--blockdev", "driver=blklogwrites,node-name=disk,file=image,log=log,log-sector-size=512,log-super-update-interval=1"])
            .args(["--export", &format!("type=fuse,id=disk,node-name=disk,mountpoint={},writable=on", export.display())])
            .arg("--pidfile")
            .arg(pid)
            // Ctrl-C must not take the disk away from under its file system.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let mut daemon = Self(command.spawn().context(DAEMON)?);
        let size = image.metadata()?.len();
        let begun = Instant::now();
        while export.metadata().map_or(0, |export| export.len()) != size {
            if begun.elapsed() > PATIENCE || daemon.0.try_wait()?.is_some() {
                bail!("{DAEMON} does not show the disk");
            }
            sleep(LOOK_AGAIN);
        }
        Ok(daemon)
    }

    fn end(mut self) -> anyhow::Result<()> {
        self.ask_to_end();
        let begun = Instant::now();
        while self.0.try_wait()?.is_none() {
            if begun.elapsed() > PATIENCE {
                bail!("{DAEMON} does not end");
            }
            sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    fn ask_to_end(&self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).ok();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
