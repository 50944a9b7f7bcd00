//! Media that is a function of the offset, created once and returned in slices.

use std::ops::Range;
use std::sync::LazyLock;

use bytes::Bytes;

/// A prime, so that bytes at an offset that is wrong by chunks, or by any smaller number of bytes,
/// are detected.
const PERIOD: u64 = 524_287;

/// Maximum length of a slice.
const PIECE: u64 = 128 * 1024;

static PATTERN: LazyLock<Bytes> = LazyLock::new(|| {
    let noise = |offset: u64| (offset % PERIOD).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    let bytes = (0..PERIOD + PIECE).map(|offset| u8::try_from(noise(offset)).expect("eight bits"));
    bytes.collect()
});

/// Returns the bytes of a range in pieces of a few sizes.
pub(crate) fn pieces(range: Range<u64>) -> impl Iterator<Item = Bytes> {
    let mut first = range.start;
    std::iter::from_fn(move || {
        let rest = range.end - first;
        let len = rest.min(PIECE - first % 1000);
        let start = index(first % PERIOD);
        first += len;
        (len > 0).then(|| PATTERN.slice(start..start + index(len)))
    })
}

/// The media on a server.
#[derive(Debug, Default)]
pub(crate) struct Stored(Vec<Bytes>);

impl Stored {
    pub(crate) fn push(&mut self, piece: Bytes) {
        self.0.push(piece);
    }

    pub(crate) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.iter().map(|piece| piece.len() as u64).sum()
    }

    /// Keeps the first `len` bytes.
    pub(crate) fn truncate(&mut self, len: u64) {
        let mut left = index(len);
        self.0.retain_mut(|piece| {
            piece.truncate(left);
            left -= piece.len();
            !piece.is_empty()
        });
    }

    /// Drops the first `len` bytes.
    pub(crate) fn skip(&mut self, len: u64) {
        let mut left = index(len);
        self.0.retain_mut(|piece| {
            let here = left.min(piece.len());
            let _ = piece.split_to(here);
            left -= here;
            !piece.is_empty()
        });
    }

    /// Returns whether every byte is at its offset.
    pub(crate) fn is_right(&self) -> bool {
        let mut first = 0;
        self.0.iter().all(|piece| {
            let range = first..first + piece.len() as u64;
            first = range.end;
            let mut rest = &piece[..];
            pieces(range).all(|expected| {
                let (here, behind) = rest.split_at(expected.len());
                rest = behind;
                here == expected
            })
        })
    }
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("a few MiB fit into memory")
}

#[test]
fn piece_at_a_wrong_offset_is_detected() {
    let stored = |ranges: &[Range<u64>]| {
        Stored(ranges.iter().cloned().flat_map(pieces).collect()).is_right()
    };
    assert!(stored(&[0..700_000, 700_000..3_000_000]));
    assert!(!stored(&[0..262_144, 262_145..300_000]));
    assert!(!stored(&[0..262_144, 0..262_144]));
    assert!(!stored(&[0..262_144, 524_288..600_000]));
}

#[test]
fn stored_media_is_cut_at_both_ends() {
    let mut stored = Stored(pieces(0..1_000_000).collect());
    stored.truncate(300_001);
    assert_eq!(stored.len(), 300_001);
    assert!(stored.is_right());
    let mut rest = Stored(pieces(0..500_000).collect());
    rest.skip(300_001);
    stored.append(rest);
    assert_eq!(stored.len(), 500_000);
    assert!(stored.is_right());
}
