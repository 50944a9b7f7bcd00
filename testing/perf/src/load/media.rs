//! The uploaded media: an incompressible block of bytes, repeated.

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Range;

use bytes::Bytes;

/// Length of the block.
const LEN: usize = 1 << 20;

/// Number of bytes by which the media of an upload is shifted against the previous upload, so that
/// the two differ.
const SHIFT: u64 = 4093;

/// Memory that all uploads are sent from.
#[derive(Debug)]
pub(crate) struct Block(Bytes);

impl Block {
    /// Random bytes.
    ///
    /// # Errors
    /// When the system has none.
    pub(crate) fn random() -> io::Result<Self> {
        let mut bytes = vec![0; LEN];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(bytes.into()))
    }

    /// A range of the media of the upload with this number, as pieces of the block.
    pub(super) fn pieces(&self, number: u64, range: Range<u64>) -> impl Iterator<Item = &[u8]> {
        parts(number, range).map(|part| &self.0[part])
    }

    /// The same pieces, which share the block and can outlive this reference to it.
    pub(super) fn shared_pieces(
        &self,
        number: u64,
        range: Range<u64>,
    ) -> impl Iterator<Item = Bytes> + Send + use<> {
        let block = self.0.clone();
        parts(number, range).map(move |part| block.slice(part))
    }
}

/// The parts of the block that make a range of the media of the upload with this number.
fn parts(number: u64, range: Range<u64>) -> impl Iterator<Item = Range<usize>> + Send {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let within = (number * SHIFT + at) % LEN as u64;
        let within = usize::try_from(within).expect("an index of the block");
        let left = usize::try_from(range.end - at).unwrap_or(LEN);
        let part = within..LEN.min(within.saturating_add(left));
        at += part.len() as u64;
        (!part.is_empty()).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::units::MIB;

    #[test]
    fn pieces_make_the_media_whatever_the_range_is_cut_into() {
        let block = Block::random().unwrap();
        let whole = block.pieces(3, 0..3 * MIB + 5).collect::<Vec<_>>().concat();
        let mut cut = Vec::new();
        for start in (0..3 * MIB + 5).step_by(300_000) {
            let end = (start + 300_000).min(3 * MIB + 5);
            cut.extend(block.pieces(3, start..end).collect::<Vec<_>>().concat());
        }
        assert_eq!(whole.len() as u64, 3 * MIB + 5);
        assert!(whole == cut);
        let shared = block.shared_pieces(3, 0..3 * MIB + 5).collect::<Vec<_>>();
        assert!(whole == shared.concat());
    }

    #[test]
    fn neighbours_have_different_media() {
        let block = Block::random().unwrap();
        let media = |number| block.pieces(number, 0..4096).collect::<Vec<_>>().concat();
        assert_ne!(media(0), media(1));
    }
}
