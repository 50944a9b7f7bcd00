//! Length that the write-ahead log has before it needs it.
//!
//! A log that grows with each commit is longer each time, and a sync is over only when the file system has written
//! that down as well: one more write to the disk, or several where it has a journal. So zeros are written behind
//! the log now and then, and commits go over them. SQLite knows its own by their checksums, and takes zeros for the
//! end. Once the log has begun anew it has its length, and nothing is done here.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::filesystem;

/// Shortest stretch that is added: a commit of some changes.
const SHORTEST: u64 = 64 << 10;

/// Longest stretch that is added. The next commit syncs it.
const LONGEST: u64 = 1 << 20;

static ZEROS: [u8; 4096] = [0; 4096];

/// The log's file, beside SQLite, with whoever is the only one to write to it.
#[derive(Debug)]
pub(super) struct Runway {
    file: File,
    /// As far as is known.
    len: u64,
}

impl Runway {
    /// For the log in `path`, which exists.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = filesystem::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self { file, len })
    }

    /// Whether there is little left, with so much of it in the log's use.
    pub(super) fn is_short(&self, used: u64) -> bool {
        self.len < Self::wanted(used)
    }

    /// Adds to the file where there is little left, to be called while nobody writes to the log. Where there is no
    /// room nothing is added: SQLite tries for itself.
    pub(super) fn extend(&mut self, used: u64) -> io::Result<()> {
        match self.try_extend(used) {
            Err(error) if filesystem::is_out_of_space(&error) => {
                // Not again before it has outgrown this.
                self.len = Self::wanted(used) + LONGEST;
                Ok(())
            }
            extended => extended,
        }
    }

    fn try_extend(&mut self, used: u64) -> io::Result<()> {
        // SQLite may have made it longer.
        self.len = self.file.metadata()?.len();
        if self.is_short(used) {
            let pages = (self.len / 2).clamp(SHORTEST, LONGEST) / ZEROS.len() as u64;
            let zeros: Vec<&[u8]> = (0..pages).map(|_| &ZEROS[..]).collect();
            let written = filesystem::write_all_at(&self.file, &zeros, self.len);
            written.map_err(|stopped| stopped.error)?;
            self.len += pages * ZEROS.len() as u64;
        }
        Ok(())
    }

    fn wanted(used: u64) -> u64 {
        used + SHORTEST / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_added_behind_what_is_there_and_only_when_little_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let log = vec![7; 10_000];
        std::fs::write(&path, &log).unwrap();
        let mut runway = Runway::open(&path).unwrap();
        runway.extend(10_000).unwrap();
        let longer = std::fs::read(&path).unwrap();
        assert_eq!(longer.len() as u64, 10_000 + SHORTEST);
        assert_eq!(longer[..10_000], log);
        assert!(longer[10_000..].iter().all(|byte| *byte == 0));
        assert!(!runway.is_short(10_000 + SHORTEST / 2));
        runway.extend(10_000 + SHORTEST / 2).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), longer);
        assert!(runway.is_short(10_001 + SHORTEST / 2));
        runway.extend(10_001 + SHORTEST / 2).unwrap();
        assert!(std::fs::metadata(&path).unwrap().len() > longer.len() as u64);
    }

    #[test]
    fn what_has_grown_meanwhile_is_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "").unwrap();
        let mut runway = Runway::open(&path).unwrap();
        let log = vec![7; 1 << 20];
        std::fs::write(&path, &log).unwrap();
        runway.extend(1 << 20).unwrap();
        assert_eq!(std::fs::read(&path).unwrap()[..1 << 20], log);
        for used in [0, 100_000, 1 << 20] {
            runway.extend(used).unwrap();
        }
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 3 << 19);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_adds_nothing_and_other_failures_are_told() {
        let mut runway = Runway::open(Path::new("/dev/full")).unwrap();
        runway.extend(1).unwrap();
        assert!(!runway.is_short(1), "it is not tried again at once");
        runway.file = File::open("/dev/null").unwrap();
        runway.extend(1).unwrap_err();
    }
}
