//! Large writes go past the page cache.
//!
//! Media is synced before it is acknowledged, so a stay in the page cache saves nobody a wait; but its pages
//! have to be found, filled and written back, which takes the processor longer than all else that a large
//! upload needs. A direct write hands its bytes to the disk and is done.
//!
//! The kernel wants memory, offset and length of such a write in units of a few KiB at most. What lies
//! otherwise takes the way of all writes. In both cases bytes are durable only after a sync.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use windlass_store::WRITE_UNIT;

use crate::filesystem::{self, Stopped};

/// Writes that are shorter stay in the page cache: what they cost is mostly not their bytes.
const LEAST: usize = 64 * 1024;

/// A media's file, open for writing.
#[derive(Debug)]
pub(super) struct MediaFile {
    file: File,
    /// Whether direct writes are wanted, and none was refused.
    takes_direct: AtomicBool,
    /// Held during a write: a descriptor writes one way or the other.
    way: Mutex<IoMode>,
}

/// How media is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writes {
    /// Large writes past the page cache, where the file does not refuse them.
    Direct,
    /// All through it.
    Cached,
}

/// The way that the writes of a descriptor take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IoMode {
    Cached,
    Direct,
}

impl MediaFile {
    pub(super) fn new(file: File, writes: Writes) -> Self {
        Self {
            file,
            takes_direct: AtomicBool::new(writes == Writes::Direct),
            way: Mutex::new(IoMode::Cached),
        }
    }

    /// The file, to be synced.
    pub(super) fn as_file(&self) -> &File {
        &self.file
    }

    /// Whether a write will go past the page cache, unless it is refused.
    pub(super) fn goes_direct(&self, pieces: &[Bytes], offset: u64) -> bool {
        self.direct_len(pieces, offset) > 0
    }

    /// How many bytes in front go past the page cache.
    fn direct_len(&self, pieces: &[Bytes], offset: u64) -> usize {
        let len = whole_units(pieces, offset);
        let is_worth_it = len >= LEAST && self.takes_direct.load(Ordering::Relaxed);
        if is_worth_it { len } else { 0 }
    }

    /// Writes all pieces one after another at `offset`. Nothing is durable yet. Returns how many of the
    /// bytes the page cache has, as far as we know.
    pub(super) fn write_all_at(&self, pieces: &[Bytes], offset: u64) -> Result<u64, Stopped> {
        let mut write = Write {
            media: self,
            way: self.way.lock().unwrap_or_else(PoisonError::into_inner),
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

/// A write on its way.
struct Write<'a> {
    media: &'a MediaFile,
    way: MutexGuard<'a, IoMode>,
    /// Where it began.
    offset: u64,
    /// How far it is.
    written: u64,
    /// How much of that went into the page cache.
    cached: u64,
}

impl Write<'_> {
    /// Whole units. A file system may refuse to take them like this: it cannot do it at all, or not with
    /// units of this size. What it refuses is not written.
    fn direct(&mut self, units: &[&[u8]]) -> io::Result<()> {
        if units.is_empty() {
            return Ok(());
        }
        let before = self.written;
        match self.turn(IoMode::Direct).and_then(|()| self.run(units)) {
            Err(error) if filesystem::is_refused(&error) => {
                tracing::debug!(
                    "a direct write was refused: this media goes through the page cache"
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
        self.turn(IoMode::Cached)?;
        let before = self.written;
        let done = self.run(pieces);
        self.cached += self.written - before;
        done
    }

    fn turn(&mut self, way: IoMode) -> io::Result<()> {
        if *self.way != way {
            filesystem::write_directly(&self.media.file, way == IoMode::Direct)?;
            *self.way = way;
        }
        Ok(())
    }

    fn run(&mut self, pieces: &[&[u8]]) -> io::Result<()> {
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

/// How many bytes in front lie in whole units, in memory and at `offset` of a file.
fn whole_units(pieces: &[Bytes], offset: u64) -> usize {
    if !offset.is_multiple_of(WRITE_UNIT as u64) {
        return 0;
    }
    let mut len = 0;
    for piece in pieces {
        if !piece.as_ptr().addr().is_multiple_of(WRITE_UNIT) {
            break;
        }
        let odd = piece.len() % WRITE_UNIT;
        len += piece.len() - odd;
        if odd > 0 {
            break;
        }
    }
    len
}

/// The first `len` bytes, and the rest.
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

    /// Bytes in whole units of memory, or just beside them.
    fn noise(len: usize, is_askew: bool) -> Bytes {
        let memory: Vec<u8> = (0..=250).cycle().take(len + 2 * WRITE_UNIT).collect();
        let start = memory.as_ptr().align_offset(WRITE_UNIT) + usize::from(is_askew);
        Bytes::from(memory).slice(start..start + len)
    }

    fn media_file(file: &File, writes: Writes) -> MediaFile {
        MediaFile::new(file.try_clone().unwrap(), writes)
    }

    #[test]
    fn bytes_lie_where_they_should_whichever_way_they_took() {
        for writes in [Writes::Direct, Writes::Cached] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("media");
            let media = media_file(&filesystem::create(&path).unwrap(), writes);
            let mut expected = Vec::new();
            for pieces in [
                vec![noise(MIB, false)],
                vec![noise(MIB, false), noise(WRITE_UNIT, false), noise(5, false)],
                vec![noise(MIB, false)],
                vec![noise(WRITE_UNIT - 5, false)],
                vec![noise(MIB, true)],
                vec![noise(MIB, false), noise(MIB, true), noise(MIB, false)],
                vec![Bytes::new(), noise(MIB, false)],
                vec![noise(WRITE_UNIT, false)],
            ] {
                media.write_all_at(&pieces, expected.len() as u64).unwrap();
                expected.extend(pieces.concat());
            }
            assert!(std::fs::read(&path).unwrap() == expected, "{writes:?}");
        }
    }

    #[test]
    fn only_what_lies_right_passes_the_page_cache_by() {
        let file = tempfile::tempfile().unwrap();
        let media = media_file(&file, Writes::Direct);
        let direct = |pieces: &[Bytes], offset| media.direct_len(pieces, offset);
        assert_eq!(direct(&[noise(MIB, false)], 0), MIB);
        assert_eq!(direct(&[noise(MIB + 5, false)], 0), MIB);
        assert_eq!(direct(&[noise(MIB, false), noise(MIB, true)], 0), MIB);
        assert_eq!(direct(&[noise(MIB, false)], 5), 0);
        assert_eq!(direct(&[noise(MIB, true)], 0), 0);
        assert_eq!(direct(&[noise(WRITE_UNIT, false)], 0), 0);
        let cached_only = media_file(&file, Writes::Cached);
        assert_eq!(cached_only.direct_len(&[noise(MIB, false)], 0), 0);
    }

    /// A file system may refuse direct writes. Then the page cache has all, and the media does not ask again.
    #[test]
    fn what_the_page_cache_has_is_known() {
        let file = tempfile::tempfile().unwrap();
        let media = media_file(&file, Writes::Direct);
        let pieces = [noise(MIB + 5, false)];
        let cached = media.write_all_at(&pieces, 0).unwrap();
        let expected = if media.goes_direct(&pieces, 0) {
            5
        } else {
            MIB + 5
        };
        assert_eq!(cached, expected as u64);
    }

    #[test]
    fn what_refuses_direct_writes_gets_its_bytes_all_the_same() {
        let device = |path| OpenOptions::new().write(true).open(path).unwrap();
        let sink = media_file(&device("/dev/null"), Writes::Direct);
        let cached = sink.write_all_at(&[noise(MIB, false)], 0).unwrap();
        assert_eq!(cached, MIB as u64);
        assert!(!sink.goes_direct(&[noise(MIB, false)], 0));
        let full = media_file(&device("/dev/full"), Writes::Direct);
        let stopped = full.write_all_at(&[noise(MIB, false)], 0).unwrap_err();
        assert_eq!(stopped.written, 0);
        assert!(filesystem::is_out_of_space(&stopped.error));
    }

    /// A test of a process of its own, for which a file may not grow beyond some odd length: the kernel cuts a
    /// direct write off there, and refuses the rest because it is no whole unit.
    #[test]
    fn what_was_written_before_there_was_no_room_is_known_to_the_byte() {
        const LIMITED: &str = "WINDLASS_TEST_LIMITED";
        if std::env::var_os(LIMITED).is_some() {
            return write_beyond_a_limit();
        }
        let name =
            "vault::direct::tests::what_was_written_before_there_was_no_room_is_known_to_the_byte";
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
        let sent = noise(5 * MIB, false);
        let pieces: Vec<_> = (0..sent.len())
            .step_by(WRITE_UNIT)
            .map(|at| sent.slice(at..at + WRITE_UNIT))
            .collect();
        for limit in [700, 4 << 20, (4 << 20) + 512, (4 << 20) + 700] {
            let mut limits = rustix::process::getrlimit(Resource::Fsize);
            limits.current = Some(limit);
            rustix::process::setrlimit(Resource::Fsize, limits).unwrap();
            let path = dir.path().join(limit.to_string());
            let media = media_file(&filesystem::create(&path).unwrap(), Writes::Direct);
            let stopped = media.write_all_at(&pieces, 0).unwrap_err();
            assert!(filesystem::is_out_of_space(&stopped.error), "{stopped:?}");
            assert_eq!(stopped.written, limit);
            let stored = std::fs::read(&path).unwrap();
            assert!(stored == sent[..stored.len()] && stored.len() as u64 == limit);
        }
    }
}
