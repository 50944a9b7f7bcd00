//! The log of a disk: every write, flush and discard in the order in which they were done.
//!
//! The format is the format of the kernel's `dm-log-writes`, in sectors of 512 bytes. A first
//! sector has a magic number and the count of entries. Each entry follows as a sector that
//! describes it, and the written bytes.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::{Context as _, ensure};

/// The unit of the log, and of places on the disk.
const SECTOR: u64 = 512;

const MAGIC: u64 = 0x006a_7366_7773_6872;

const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;

/// All that was written to a disk.
#[derive(Debug)]
pub(super) struct Log {
    file: File,
    entries: Vec<Entry>,
}

/// One request that the disk has carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    flags: u64,
    /// Where on the disk, in bytes.
    offset: u64,
    /// How many bytes.
    len: u64,
    /// Where in the log its bytes begin.
    data: u64,
    /// Where in the log it ends.
    end: u64,
}

impl Log {
    /// Reads a log that is complete.
    ///
    /// # Errors
    /// When it is not.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let [magic, _, count, _] = words(&file, 0).context("the log is empty")?;
        ensure!(magic == MAGIC, "the log begins with {magic:#x}");
        let mut entries = Vec::new();
        let mut position = SECTOR;
        while position < length {
            let entry = Entry::of(words(&file, position)?, position);
            ensure!(entry.end <= length, "the log ends inside an entry");
            position = entry.end;
            entries.push(entry);
        }
        ensure!(
            entries.len() as u64 == count,
            "the log has {} entries and says {count}",
            entries.len()
        );
        Ok(Self { file, entries })
    }

    /// Its entries, the first one first.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Length of the log when it had a number of entries.
    pub(super) fn length(&self, entries: usize) -> u64 {
        match entries {
            0 => SECTOR,
            _ => self.entries[entries - 1].end,
        }
    }

    /// The fewest entries with which the log is at least so long.
    pub(super) fn entries_at(&self, length: u64) -> usize {
        let whole = self.entries.partition_point(|entry| entry.end < length);
        match length {
            0..=SECTOR => 0,
            _ => (whole + 1).min(self.entries.len()),
        }
    }

    /// The bytes that an entry has written.
    ///
    /// # Errors
    /// The log cannot be read.
    pub(super) fn bytes(&self, entry: &Entry) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(entry.len).expect("a request fits into memory")];
        self.file.read_exact_at(&mut bytes, entry.data)?;
        Ok(bytes)
    }
}

impl Entry {
    fn of([sector, sectors, flags, _]: [u64; 4], position: u64) -> Self {
        let data = position + SECTOR;
        let len = sectors.saturating_mul(SECTOR);
        let stored = if flags & DISCARD == 0 { len } else { 0 };
        Self {
            flags,
            offset: sector.saturating_mul(SECTOR),
            len,
            data,
            end: data.saturating_add(stored),
        }
    }

    /// Which bytes of the disk it is about.
    pub(super) fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.len
    }

    /// Whether all earlier writes are safe after it.
    pub(super) fn is_flush(&self) -> bool {
        self.flags & FLUSH != 0
    }

    /// Whether it discards its bytes instead of writing them.
    pub(super) fn is_discard(&self) -> bool {
        self.flags & DISCARD != 0
    }

    /// Whether it may be lost until the next flush.
    pub(super) fn may_be_lost(&self) -> bool {
        self.len > 0 && self.flags & FUA == 0
    }
}

fn words(file: &File, position: u64) -> std::io::Result<[u64; 4]> {
    let mut bytes = [0; 32];
    file.read_exact_at(&mut bytes, position)?;
    let word = |index: usize| {
        let word = bytes[8 * index..][..8].try_into();
        u64::from_le_bytes(word.expect("eight bytes"))
    };
    Ok([0, 1, 2, 3].map(word))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A log with these entries: sector, flags, bytes.
    pub(in crate::blocks) fn log(entries: &[(u64, u64, &[u8])], at: &Path) -> anyhow::Result<Log> {
        let header = |words: [u64; 4]| {
            let mut sector: Vec<_> = words.into_iter().flat_map(u64::to_le_bytes).collect();
            sector.resize(512, 0);
            sector
        };
        let mut bytes = header([MAGIC, 1, entries.len() as u64, 512]);
        for (sector, flags, written) in entries {
            bytes.extend(header([*sector, written.len() as u64 / 512, *flags, 0]));
            if flags & DISCARD == 0 {
                bytes.extend(*written);
            }
        }
        std::fs::write(at, bytes)?;
        Log::open(at)
    }

    #[test]
    fn entries_are_read_in_order_with_their_bytes() {
        let scratch = tempfile::tempdir().unwrap();
        let entries: [(u64, u64, &[u8]); 3] = [
            (4, 0, &[7; 1024]),
            (0, FLUSH, &[]),
            (8, DISCARD, &[0; 4096]),
        ];
        let log = log(&entries, &scratch.path().join("log")).unwrap();
        let [write, flush, discard] = log.entries() else {
            panic!("three entries")
        };
        assert_eq!(write.range(), 2048..3072);
        assert_eq!(log.bytes(write).unwrap(), [7; 1024]);
        assert!(flush.is_flush() && !flush.may_be_lost());
        assert!(discard.is_discard() && discard.may_be_lost());
        assert_eq!(log.length(3), 512 + (512 + 1024) + 512 + 512);
    }

    #[test]
    fn a_length_inside_an_entry_needs_all_of_it() {
        let scratch = tempfile::tempdir().unwrap();
        let log = log(
            &[(0, 0, &[1; 512]), (1, 0, &[1; 512])],
            &scratch.path().join("log"),
        )
        .unwrap();
        let cases = [
            (0, 0),
            (512, 0),
            (513, 1),
            (1536, 1),
            (1537, 2),
            (2560, 2),
            (9999, 2),
        ];
        for (length, entries) in cases {
            assert_eq!(log.entries_at(length), entries, "{length}");
        }
    }

    #[test]
    fn a_log_that_is_cut_or_miscounted_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("log");
        let length = log(&[(0, 0, &[1; 1024])], &path).unwrap().length(1);
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(length - 1).unwrap();
        assert!(Log::open(&path).is_err());
        file.set_len(512).unwrap();
        assert!(Log::open(&path).is_err());
    }
}
