//! Bytes against what a row says of them.

use std::ops::Range;

use windlass_proto::digest::{Crc32c, Crc32cHasher, Digests, SlowHasher, Wanted};
use windlass_store::{Extent, MediaId};

use super::finding::Fault;
use crate::ledger::SessionRow;

/// What a row says of the first bytes of a media. What is behind them means nothing.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) len: u64,
    digests: Digests,
    /// The last stretch of them.
    extent: Option<Extent>,
}

impl Expected {
    pub(crate) fn of_session(session: &SessionRow) -> Self {
        Self {
            len: session.offset,
            digests: Digests {
                crc32c: session.crc32c,
                md5: None,
                sha256: None,
            },
            extent: session.extent,
        }
    }

    pub(crate) fn of_resource(len: u64, digests: Digests) -> Self {
        Self {
            len,
            digests,
            extent: None,
        }
    }

    /// Where the last stretch begins, of which there is a checksum of its own.
    fn extent_start(&self) -> u64 {
        self.extent.map_or(self.len, |extent| extent.start)
    }
}

/// The comparison, fed with the bytes in order.
pub(crate) struct Check<'a> {
    expected: &'a Expected,
    at: u64,
    before_extent: Crc32cHasher,
    extent: Crc32cHasher,
    slow: SlowHasher,
}

impl<'a> Check<'a> {
    pub(crate) fn new(expected: &'a Expected) -> Self {
        let wanted = Wanted {
            md5: expected.digests.md5.is_some(),
            sha256: expected.digests.sha256.is_some(),
        };
        Self {
            expected,
            at: 0,
            before_extent: Crc32cHasher::default(),
            extent: Crc32cHasher::default(),
            slow: SlowHasher::new(wanted),
        }
    }

    /// Takes the next bytes, up to the end of what is expected.
    pub(crate) fn take(&mut self, piece: &[u8]) {
        let before = self.expected.extent_start().saturating_sub(self.at);
        let before = usize::try_from(before).map_or(piece.len(), |len| len.min(piece.len()));
        let (first, rest) = piece.split_at(before);
        self.before_extent.update(first);
        self.extent.update(rest);
        self.slow.update(piece);
        self.at += piece.len() as u64;
    }

    /// What differs. `media` is whose bytes they were.
    pub(crate) fn finish(self, media: MediaId) -> Option<Fault> {
        let Expected { len, digests, .. } = *self.expected;
        let rotten = |bytes: Range<u64>, digest| Fault::Rotten {
            media,
            bytes,
            digest,
        };
        if self.at < len {
            return Some(Fault::Short {
                media,
                len: self.at,
                expected: len,
            });
        }
        if self.is_extent_rotten() {
            return Some(rotten(self.expected.extent_start()..len, "CRC32C"));
        }
        if self.crc32c() != digests.crc32c {
            return Some(rotten(0..self.rot_ends_before(), "CRC32C"));
        }
        let (md5, sha256) = self.slow.finish();
        if md5 != digests.md5 {
            return Some(rotten(0..len, "MD5"));
        }
        (sha256 != digests.sha256).then(|| rotten(0..len, "SHA-256"))
    }

    fn is_extent_rotten(&self) -> bool {
        let extent = self.expected.extent;
        extent.is_some_and(|extent| extent.crc32c != self.extent.value())
    }

    /// The extent is sound by now: what differs is before it, unless it is everything.
    fn rot_ends_before(&self) -> u64 {
        match self.expected.extent_start() {
            0 => self.expected.len,
            start => start,
        }
    }

    fn crc32c(&self) -> Crc32c {
        let extent_len = self.expected.len - self.expected.extent_start();
        self.before_extent
            .value()
            .combine(self.extent.value(), extent_len)
    }
}
