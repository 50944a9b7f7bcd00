//! The last bytes of a stream, in memory.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use bytes::{Buf, Bytes};

use super::SourceError;

/// What is kept, from `first` to `end`: never more than the size and the one byte that is looked
/// at ahead, and in memory a block or two more, for blocks are let go of as a whole.
pub(super) struct Window {
    size: u64,
    first: u64,
    end: u64,
    pieces: VecDeque<Bytes>,
}

impl Window {
    pub(super) fn new(size: u64) -> Self {
        Self {
            size,
            first: 0,
            end: 0,
            pieces: VecDeque::new(),
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The end of the window, were it full.
    pub(super) fn reach(&self) -> u64 {
        self.first.saturating_add(self.size)
    }

    pub(super) fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.end += piece.len() as u64;
            self.pieces.push_back(piece);
        }
    }

    /// Forgets what is before this offset.
    pub(super) fn release(&mut self, before: u64) {
        let before = before.min(self.end);
        while self.first < before {
            let Some(piece) = self.pieces.front_mut() else {
                return;
            };
            let gone = (before - self.first).min(piece.len() as u64);
            self.first += gone;
            if gone == piece.len() as u64 {
                self.pieces.pop_front();
            } else {
                piece.advance(slice_len(gone));
            }
        }
    }

    /// Exactly these bytes.
    pub(super) fn pieces(&self, range: Range<u64>) -> io::Result<Vec<Bytes>> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        if range.start < self.first {
            return Err(io::Error::other(SourceError::NoLongerBuffered {
                wanted: range.start,
                kept_from: self.first,
            }));
        }
        if range.end > self.end {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut wanted = Vec::new();
        let mut offset = self.first;
        for piece in &self.pieces {
            let end = offset + piece.len() as u64;
            let (from, to) = (range.start.max(offset), range.end.min(end));
            if from < to {
                wanted.push(piece.slice(slice_len(from - offset)..slice_len(to - offset)));
            }
            offset = end;
        }
        Ok(wanted)
    }
}

fn slice_len(len: u64) -> usize {
    usize::try_from(len).expect("it is within a piece, which is in memory")
}
