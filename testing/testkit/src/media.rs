//! Media that is a function: every byte follows from the seed and its offset.
//!
//! So a range of any media, however large, is made without the rest of it, and bytes that end up at
//! a wrong offset are noticed.

use std::io::{self, Read};
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crc_fast::CrcAlgorithm;
use md5::Md5;
use sha2::{Digest, Sha256};

use crate::rng;

#[cfg(test)]
mod tests;

/// How much is made at once where media is streamed.
const PIECE: u64 = 64 * 1024;

/// Bytes that follow from a seed.
///
/// ```
/// use windlass_testkit::media::Media;
///
/// let media = Media::new(7, 1 << 40);
/// let far = media.bytes(1_000_000_000_000..1_000_000_000_010);
/// assert_eq!(far[3..], media.bytes(1_000_000_000_003..1_000_000_000_010));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Media {
    seed: u64,
    len: u64,
}

impl Media {
    /// The media of `len` bytes that follows from `seed`.
    pub const fn new(seed: u64, len: u64) -> Self {
        Self { seed, len }
    }

    /// Its length.
    pub const fn len(self) -> u64 {
        self.len
    }

    /// Whether it has no bytes.
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// All of it.
    pub fn whole(self) -> Vec<u8> {
        self.bytes(0..self.len)
    }

    /// The bytes of a range. It may reach past the end: the function is defined there too.
    pub fn bytes(self, range: Range<u64>) -> Vec<u8> {
        let len = usize::try_from(range.end.saturating_sub(range.start));
        let mut bytes = vec![0; len.expect("a range that is held fits into memory")];
        self.fill(range.start, &mut bytes);
        bytes
    }

    /// Writes the bytes from `offset` on.
    pub fn fill(self, offset: u64, buf: &mut [u8]) {
        let mut index = offset / 8;
        let skip = usize::try_from(offset % 8).expect("below eight");
        let (head, body) = buf.split_at_mut(((8 - skip) % 8).min(buf.len()));
        if !head.is_empty() {
            let word = self.word(index);
            head.copy_from_slice(&word[skip..skip + head.len()]);
            index += 1;
        }
        for place in body.chunks_mut(8) {
            place.copy_from_slice(&self.word(index)[..place.len()]);
            index += 1;
        }
    }

    /// The bytes of a range as a stream.
    pub fn reader(self, range: Range<u64>) -> MediaReader {
        MediaReader { media: self, range }
    }

    /// Reads `download` to its end and says where it first differs from the bytes of `range`.
    ///
    /// # Errors
    /// `InvalidData` when a byte is another one, or when there are too few or too many.
    pub fn compare(self, range: Range<u64>, mut download: impl Read) -> io::Result<()> {
        let mut offset = range.start;
        let mut piece = vec![0; usize::try_from(PIECE).expect("a small number")];
        loop {
            match download.read(&mut piece)? {
                0 if offset == range.end => return Ok(()),
                0 => return Err(different(format!("ends at {offset}, not at {}", range.end))),
                read => offset = self.compare_piece(offset, range.end, &piece[..read])?,
            }
        }
    }

    /// Compares the bytes read at `offset` and returns the offset behind them.
    fn compare_piece(self, offset: u64, limit: u64, piece: &[u8]) -> io::Result<u64> {
        let end = offset + piece.len() as u64;
        if end > limit {
            return Err(different(format!("bytes behind the end at {limit}")));
        }
        let expected = self.bytes(offset..end);
        let mut pairs = expected.iter().zip(piece);
        match pairs.position(|(expected, actual)| expected != actual) {
            Some(at) => Err(different(format!(
                "wrong byte at offset {}",
                offset + at as u64
            ))),
            None => Ok(end),
        }
    }

    /// Its CRC32C as Google writes it: base64 of the four bytes, big-endian.
    pub fn crc32c(self) -> String {
        crc32c(self.reader(0..self.len)).expect("it is made while it is read")
    }

    /// Its MD5 in base64.
    pub fn md5(self) -> String {
        let mut digest = Md5::new();
        self.pieces(|piece| digest.update(piece));
        STANDARD.encode(digest.finalize())
    }

    /// Its SHA-256 in base64.
    pub fn sha256(self) -> String {
        let mut digest = Sha256::new();
        self.pieces(|piece| digest.update(piece));
        STANDARD.encode(digest.finalize())
    }

    /// The SHA-256 of a range in base64.
    pub fn sha256_of(self, range: Range<u64>) -> String {
        STANDARD.encode(Sha256::digest(self.bytes(range)))
    }

    fn pieces(self, mut each: impl FnMut(&[u8])) {
        let mut offset = 0;
        while offset < self.len {
            let end = (offset + PIECE).min(self.len);
            each(&self.bytes(offset..end));
            offset = end;
        }
    }

    /// The eight bytes at eight times `index`.
    fn word(self, index: u64) -> [u8; 8] {
        let state = self.seed.wrapping_add((index + 1).wrapping_mul(rng::STEP));
        rng::mix(state).to_le_bytes()
    }
}

/// The CRC32C of a reader's bytes, written like [`Media::crc32c`].
///
/// # Errors
/// The reader fails.
pub fn crc32c(mut reader: impl Read) -> io::Result<String> {
    let mut digest = crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi);
    let mut piece = vec![0; usize::try_from(PIECE).expect("a small number")];
    while let read @ 1.. = reader.read(&mut piece)? {
        digest.update(&piece[..read]);
    }
    let crc = u32::try_from(digest.finalize()).expect("a CRC of 32 bits");
    Ok(STANDARD.encode(crc.to_be_bytes()))
}

fn different(how: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, how)
}

/// A range of a [`Media`] that is made while it is read.
#[derive(Debug, Clone)]
pub struct MediaReader {
    media: Media,
    range: Range<u64>,
}

impl Read for MediaReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.range.end.saturating_sub(self.range.start);
        let len = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        self.media.fill(self.range.start, &mut buf[..len]);
        self.range.start += len as u64;
        Ok(len)
    }
}
