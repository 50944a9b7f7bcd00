//! The machine that figures come from.

use std::fmt;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::units::{GIB, KIB, figure, float, mib};

/// How many syncs are timed.
const SYNCS: usize = 200;

/// How much is written at once to time the disk.
const WRITE: usize = 1 << 20;

/// The alignment of direct writes.
const BLOCK: usize = 4096;

/// How a file is asked for them.
#[cfg(target_os = "linux")]
const DIRECT: OFlags = OFlags::DIRECT;
#[cfg(not(target_os = "linux"))]
const DIRECT: OFlags = OFlags::empty();

/// The facts about a machine that are needed to read its figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    processor: String,
    cores: usize,
    memory: u64,
    kernel: String,
    file_system: String,
}

/// The speed of the disk and the load of the machine before a scenario.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MachineLoad {
    /// The median time to append 4 KiB to a file and sync the file.
    sync: Duration,
    /// Bytes that the disk takes in a second, written in a row and synced at the end.
    disk: u64,
    /// The same past the page cache; as before where the file system cannot do that.
    direct: u64,
    load: String,
}

impl Machine {
    /// This machine, and the file system of this directory.
    ///
    /// # Errors
    /// When it does not tell.
    pub(crate) fn look(directory: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            processor: value("/proc/cpuinfo", "model name"),
            cores: available_parallelism()?.get(),
            memory: kibibytes(&value("/proc/meminfo", "MemTotal")) * KIB,
            kernel: read("/proc/sys/kernel/osrelease"),
            file_system: file_system(directory),
        })
    }
}

impl MachineLoad {
    /// Writes this number of bytes sequentially into a directory.
    ///
    /// # Errors
    /// When nothing can be written and synced there.
    pub(crate) fn look(directory: &Path, row: u64) -> anyhow::Result<Self> {
        Ok(Self {
            sync: sync(&directory.join("sync"))?,
            load: read("/proc/loadavg"),
            disk: disk(&directory.join("row"), OFlags::empty(), row)?,
            direct: disk(&directory.join("direct"), DIRECT, row)
                .or_else(|_| disk(&directory.join("direct"), OFlags::empty(), row))?,
        })
    }

    /// The time to append 4 KiB with fdatasync, in ms.
    pub(crate) fn sync_milliseconds(&self) -> f64 {
        self.sync.as_secs_f64() * 1000.0
    }

    /// MiB/s that the disk takes in a row.
    pub(crate) fn disk(&self) -> f64 {
        mib(self.disk)
    }

    /// MiB/s that it takes past the page cache.
    pub(crate) fn direct(&self) -> f64 {
        mib(self.direct)
    }

    /// The disk's figures, as a sentence has them.
    pub(crate) fn said(sync: f64, disk: f64, direct: f64) -> String {
        format!(
            "an append of 4 KiB with fdatasync {} ms, {} MiB/s in large writes with one at the end, {} past the page cache",
            figure(sync),
            figure(disk),
            figure(direct),
        )
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} cores, {} GiB; Linux {}; {}",
            self.processor,
            self.cores,
            figure(float(self.memory) / float(GIB)),
            self.kernel,
            self.file_system,
        )
    }
}

impl fmt::Display for MachineLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let load = self.load.split(' ').next().unwrap_or_default();
        let disk = Self::said(self.sync_milliseconds(), self.disk(), self.direct());
        write!(f, "{disk}; load {load}")
    }
}

fn read(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.trim().to_owned()
}

/// The value of the first line with this name.
fn value(path: &str, name: &str) -> String {
    let text = read(path);
    let line = text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim().to_owned())
    });
    line.unwrap_or_else(|| "unknown".to_owned())
}

fn kibibytes(text: &str) -> u64 {
    let number = text.strip_suffix(" kB").map(str::parse);
    number.and_then(Result::ok).unwrap_or(0)
}

/// Type and device of the file system that a directory is on: of the longest mount point above it.
fn file_system(directory: &Path) -> String {
    let directory = directory.canonicalize().unwrap_or_default();
    let mounts = read("/proc/self/mounts");
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (device, place, kind) = (words.next()?, words.next()?, words.next()?);
        let is_above = directory.starts_with(place);
        is_above.then(|| (place.len(), format!("{kind} on {device}")))
    });
    let longest = mounts.max_by_key(|(len, _)| *len);
    longest.map_or_else(|| "unknown file system".to_owned(), |(_, text)| text)
}

fn sync(path: &Path) -> std::io::Result<Duration> {
    let mut file = File::create(path)?;
    let mut times = Vec::new();
    for _ in 0..SYNCS {
        let start = Instant::now();
        file.write_all(&[0; 4096])?;
        file.sync_data()?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// The file stays, since removing it would be work for the disk too.
fn disk(path: &Path, flags: OFlags, row: u64) -> std::io::Result<u64> {
    let mut file = File::create(path)?;
    rustix::fs::fcntl_setfl(&file, flags)?;
    let memory = vec![0xa5; WRITE + BLOCK];
    let piece = &memory[memory.as_ptr().align_offset(BLOCK)..][..WRITE];
    let start = Instant::now();
    for _ in 0..row / WRITE as u64 {
        file.write_all(piece)?;
    }
    file.sync_data()?;
    let nanoseconds = start.elapsed().as_nanos().max(1);
    let rate = u128::from(row) * 1_000_000_000 / nanoseconds;
    Ok(u64::try_from(rate).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::units::MIB;

    #[test]
    fn a_machine_has_a_name_memory_and_a_file_system() {
        let directory = tempfile::tempdir().unwrap();
        let machine = Machine::look(directory.path()).unwrap();
        assert!(machine.memory > 0 && machine.cores > 0);
        assert!(!machine.to_string().contains("unknown"), "{machine}");
    }

    #[test]
    fn a_disk_takes_time() {
        let directory = tempfile::tempdir().unwrap();
        let machine_load = MachineLoad::look(directory.path(), MIB).unwrap();
        assert!(
            machine_load.sync > Duration::ZERO && machine_load.disk > 0 && machine_load.direct > 0
        );
    }
}
