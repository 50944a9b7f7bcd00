//! Large writes bypass the page cache.
//!
//! Media is synced before it is acknowledged, so the page cache saves nobody a wait. But its pages
//! have to be found, filled and written back, which takes more processor time than everything else
//! in a large upload. A direct write hands its bytes to the disk and is done (`docs/adr/0006`).
//!
//! The kernel requires memory, offset and length of a direct write to be multiples of a few KiB at
//! most. Other bytes are written through the page cache. Either way bytes are durable only after a
//! sync.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use windlass_store::WRITE_UNIT;

use crate::filesystem::{self, Stopped};

/// Shorter writes go through the page cache: most of their cost does not depend on their length.
const MIN_DIRECT_LEN: usize = 64 * 1024;

/// A media's file, open for writing.
#[derive(Debug)]
pub(super) struct MediaFile {
    file: File,
    /// Direct writes are wanted, and none has been refused. Relaxed, because a stale value only
    /// costs a direct write that is refused once more.
    takes_direct: AtomicBool,
    /// The mode of the descriptor. Locked during a write, because `O_DIRECT` is a flag of the
    /// descriptor and would change under a parallel write.
    mode: Mutex<IoMode>,
}

/// Whether large writes bypass the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WritePolicy {
    /// They do, as long as the file system does not refuse it.
    Direct,
    /// They do not.
    Cached,
}

/// How the writes of a descriptor reach the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IoMode {
    Cached,
    Direct,
}

impl MediaFile {
    pub(super) fn new(file: File, write_policy: WritePolicy) -> Self {
        Self {
            file,
            takes_direct: AtomicBool::new(write_policy == WritePolicy::Direct),
            mode: Mutex::new(IoMode::Cached),
        }
    }

    /// Returns the file, to be synced.
    pub(super) fn as_file(&self) -> &File {
        &self.file
    }

    /// Returns whether a write, or its first part, will bypass the page cache unless it is refused.
    pub(super) fn is_direct(&self, pieces: &[Bytes], offset: u64) -> bool {
        self.direct_len(pieces, offset) > 0
    }

    /// Returns the number of leading bytes that will bypass the page cache.
    fn direct_len(&self, pieces: &[Bytes], offset: u64) -> usize {
        let len = whole_units(pieces, offset);
        let is_long_enough = len >= MIN_DIRECT_LEN && self.takes_direct.load(Ordering::Relaxed);
        if is_long_enough { len } else { 0 }
    }

    /// Writes all pieces one after another at `offset`. Nothing is durable yet. Returns the number
    /// of bytes that went into the page cache.
    pub(super) fn write_all_at(&self, pieces: &[Bytes], offset: u64) -> Result<u64, Stopped> {
        let mut write = Write {
            media: self,
            // A panic while it was held leaves the mode of the descriptor known: it is stored only
            // after the descriptor has been switched.
            mode: self.mode.lock().unwrap_or_else(PoisonError::into_inner),
            offset,
            written: 0,
            cached: 0,
        };
        let (units, rest) = split(pieces, self.direct_len(pieces, offset));
        let done = write.direct(&units).and_then(|()| write.cached(&rest));
        match done {
            Ok(()) => Ok(write.cached),
            Err(error) => Err(Stopped {
                written: write.written,
                error,
            }),
        }
    }
}

/// A write in progress.
struct Write<'a> {
    media: &'a MediaFile,
    mode: MutexGuard<'a, IoMode>,
    /// Offset of the first byte in the file.
    offset: u64,
    /// Number of bytes written.
    written: u64,
    /// Number of those bytes that went into the page cache.
    cached: u64,
}

impl Write<'_> {
    /// Writes whole units past the page cache. Falls back to the page cache if the file system
    /// refuses that.
    fn direct(&mut self, units: &[&[u8]]) -> io::Result<()> {
        if units.is_empty() {
            return Ok(());
        }
        let before = self.written;
        match self
            .set_mode(IoMode::Direct)
            .and_then(|()| self.write_pieces(units))
        {
            // The file system has no direct writes, or not in units of this size. Refused bytes are
            // not written. Every other error is one of the disk, and is not retried.
            Err(error) if filesystem::is_refused(&error) => {
                tracing::debug!(
                    "the file system refuses direct writes; this media goes through the page cache"
                );
                self.media.takes_direct.store(false, Ordering::Relaxed);
                let begun = usize::try_from(self.written - before).expect("it is in memory");
                self.cached(&split(units, begun).1)
            }
            done => done,
        }
    }

    fn cached(&mut self, pieces: &[&[u8]]) -> io::Result<()> {
        if pieces.is_empty() {
            return Ok(());
        }
        self.set_mode(IoMode::Cached)?;
        let before = self.written;
        let done = self.write_pieces(pieces);
        self.cached += self.written - before;
        done
    }

    fn set_mode(&mut self, mode: IoMode) -> io::Result<()> {
        if *self.mode != mode {
            filesystem::write_directly(&self.media.file, mode == IoMode::Direct)?;
            *self.mode = mode;
        }
        Ok(())
    }

    fn write_pieces(&mut self, pieces: &[&[u8]]) -> io::Result<()> {
        match filesystem::write_all_at(&self.media.file, pieces, self.offset + self.written) {
            Ok(()) => {
                let len = pieces.iter().map(|piece| piece.len() as u64);
                self.written += len.sum::<u64>();
                Ok(())
            }
            Err(stopped) => {
                self.written += stopped.written;
                Err(stopped.error)
            }
        }
    }
}

/// Returns the number of leading bytes in whole units that are aligned in memory and in the file.
fn whole_units(pieces: &[Bytes], offset: u64) -> usize {
    if !offset.is_multiple_of(WRITE_UNIT as u64) {
        return 0;
    }
    let mut len = 0;
    for piece in pieces {
        if !piece.as_ptr().addr().is_multiple_of(WRITE_UNIT) {
            break;
        }
        // After a piece of an odd length the file offset of the next one is not aligned.
        let remainder = piece.len() % WRITE_UNIT;
        len += piece.len() - remainder;
        if remainder > 0 {
            break;
        }
    }
    len
}

/// Splits pieces into the first `len` bytes and the rest.
fn split(pieces: &[impl AsRef<[u8]>], len: usize) -> (Vec<&[u8]>, Vec<&[u8]>) {
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    let mut left = len;
    for piece in pieces {
        let piece = piece.as_ref();
        let (now, later) = piece.split_at(left.min(piece.len()));
        left -= now.len();
        first.extend((!now.is_empty()).then_some(now));
        rest.extend((!later.is_empty()).then_some(later));
    }
    (first, rest)
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use rustix::process::Resource;

    use super::*;

    const MIB: usize = 1 << 20;

    /// Bytes that are aligned to units of memory, or off by one.
    fn pattern(len: usize, is_misaligned: bool) -> Bytes {
        let memory: Vec<u8> = (0..=250).cycle().take(len + 2 * WRITE_UNIT).collect();
        let start = memory.as_ptr().align_offset(WRITE_UNIT) + usize::from(is_misaligned);
        Bytes::from(memory).slice(start..start + len)
    }

    fn media_file(file: &File, write_policy: WritePolicy) -> MediaFile {
        MediaFile::new(file.try_clone().unwrap(), write_policy)
    }

    #[test]
    fn mixed_writes_in_either_mode_store_all_bytes_in_place() {
        for write_policy in [WritePolicy::Direct, WritePolicy::Cached] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("media");
            let media = media_file(&filesystem::create(&path).unwrap(), write_policy);
            let mut expected = Vec::new();
            for pieces in [
                vec![pattern(MIB, false)],
                vec![
                    pattern(MIB, false),
                    pattern(WRITE_UNIT, false),
                    pattern(5, false),
                ],
                vec![pattern(MIB, false)],
                vec![pattern(WRITE_UNIT - 5, false)],
                vec![pattern(MIB, true)],
                vec![pattern(MIB, false), pattern(MIB, true), pattern(MIB, false)],
                vec![Bytes::new(), pattern(MIB, false)],
                vec![pattern(WRITE_UNIT, false)],
            ] {
                media.write_all_at(&pieces, expected.len() as u64).unwrap();
                expected.extend(pieces.concat());
            }
            assert!(
                std::fs::read(&path).unwrap() == expected,
                "{write_policy:?}"
            );
        }
    }

    #[test]
    fn only_large_and_aligned_writes_are_direct() {
        let file = tempfile::tempfile().unwrap();
        let media = media_file(&file, WritePolicy::Direct);
        let direct = |pieces: &[Bytes], offset| media.direct_len(pieces, offset);
        assert_eq!(direct(&[pattern(MIB, false)], 0), MIB);
        assert_eq!(direct(&[pattern(MIB + 5, false)], 0), MIB);
        assert_eq!(direct(&[pattern(MIB, false), pattern(MIB, true)], 0), MIB);
        assert_eq!(direct(&[pattern(MIB, false)], 5), 0);
        assert_eq!(direct(&[pattern(MIB, true)], 0), 0);
        assert_eq!(direct(&[pattern(WRITE_UNIT, false)], 0), 0);
        let cached_only = media_file(&file, WritePolicy::Cached);
        assert_eq!(cached_only.direct_len(&[pattern(MIB, false)], 0), 0);
    }

    /// If the file system refuses direct writes, the page cache gets all bytes.
    #[test]
    fn bytes_in_the_page_cache_are_counted() {
        let file = tempfile::tempfile().unwrap();
        let media = media_file(&file, WritePolicy::Direct);
        let pieces = [pattern(MIB + 5, false)];
        let cached = media.write_all_at(&pieces, 0).unwrap();
        let expected = if media.is_direct(&pieces, 0) {
            5
        } else {
            MIB + 5
        };
        assert_eq!(cached, expected as u64);
    }

    #[test]
    fn refused_direct_write_falls_back_to_the_page_cache() {
        let device = |path| OpenOptions::new().write(true).open(path).unwrap();
        let sink = media_file(&device("/dev/null"), WritePolicy::Direct);
        let cached = sink.write_all_at(&[pattern(MIB, false)], 0).unwrap();
        assert_eq!(cached, MIB as u64);
        assert!(!sink.is_direct(&[pattern(MIB, false)], 0));
        let full = media_file(&device("/dev/full"), WritePolicy::Direct);
        let stopped = full.write_all_at(&[pattern(MIB, false)], 0).unwrap_err();
        assert_eq!(stopped.written, 0);
        assert!(filesystem::is_out_of_space(&stopped.error));
    }

    /// Runs in a process of its own, in which no file may grow beyond some odd length: the kernel
    /// cuts a direct write off there, and refuses the rest because it is not a whole unit.
    #[test]
    fn full_disk_reports_the_exact_number_of_written_bytes() {
        const LIMITED: &str = "WINDLASS_TEST_LIMITED";
        if std::env::var_os(LIMITED).is_some() {
            return write_beyond_a_limit();
        }
        let name = "vault::direct::tests::full_disk_reports_the_exact_number_of_written_bytes";
        let alone = std::process::Command::new("sh")
            .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
            .arg(std::env::current_exe().unwrap())
            .args([name, "--exact"])
            .env(LIMITED, "1")
            .output()
            .unwrap();
        assert!(alone.status.success(), "{alone:?}");
    }

    fn write_beyond_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        // The kernel takes 1024 pieces at once: these are 4 MiB, and there is a second call.
        let sent = pattern(5 * MIB, false);
        let pieces: Vec<_> = (0..sent.len())
            .step_by(WRITE_UNIT)
            .map(|at| sent.slice(at..at + WRITE_UNIT))
            .collect();
        for limit in [700, 4 << 20, (4 << 20) + 512, (4 << 20) + 700] {
            let mut limits = rustix::process::getrlimit(Resource::Fsize);
            limits.current = Some(limit);
            rustix::process::setrlimit(Resource::Fsize, limits).unwrap();
            let path = dir.path().join(limit.to_string());
            let media = media_file(&filesystem::create(&path).unwrap(), WritePolicy::Direct);
            let stopped = media.write_all_at(&pieces, 0).unwrap_err();
            assert!(filesystem::is_out_of_space(&stopped.error), "{stopped:?}");
            assert_eq!(stopped.written, limit);
            let stored = std::fs::read(&path).unwrap();
            assert!(stored == sent[..stored.len()] && stored.len() as u64 == limit);
        }
    }
}
