//! Media of a few units, each in one of two versions.

use std::fmt;
use std::ops::Range;

/// Which of two contents a client sends for the same range. A client whose file has changed sends
/// the other version, and so does a hostile one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Version {
    Original,
    Changed,
}

/// The content of a range: its length in units, and the version of each unit as a bit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Bytes {
    len: u8,
    versions: u8,
}

impl Bytes {
    /// `len` units, at most 7, of one version.
    pub(crate) fn of(len: u8, version: Version) -> Self {
        let versions = match version {
            Version::Original => 0,
            Version::Changed => mask(len),
        };
        Self { len, versions }
    }

    pub(crate) fn len(self) -> u8 {
        self.len
    }

    pub(crate) fn is_empty(self) -> bool {
        self.len == 0
    }

    pub(crate) fn followed_by(self, next: Self) -> Self {
        Self {
            len: self.len + next.len,
            versions: self.versions | next.versions << self.len,
        }
    }

    pub(crate) fn concat(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().fold(Self::default(), Self::followed_by)
    }

    pub(crate) fn slice(self, range: Range<u8>) -> Self {
        let len = range.end - range.start;
        Self {
            len,
            versions: self.versions >> range.start & mask(len),
        }
    }

    /// Whether one of both is the beginning of the other.
    pub(crate) fn agrees_with(self, other: Self) -> bool {
        let shorter = self.len.min(other.len);
        self.slice(0..shorter) == other.slice(0..shorter)
    }
}

fn mask(len: u8) -> u8 {
    (1 << len) - 1
}

/// A letter for each unit: `a` for the original version, `b` for the changed one.
impl fmt::Display for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return formatter.write_str("nothing");
        }
        for unit in 0..self.len {
            let is_changed = self.versions >> unit & 1 == 1;
            formatter.write_str(if is_changed { "b" } else { "a" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concatenated_bytes_are_sliced_at_any_unit() {
        let original = Bytes::of(2, Version::Original);
        let all = original.followed_by(Bytes::of(2, Version::Changed));
        assert_eq!(all.to_string(), "aabb");
        assert_eq!(all.slice(1..3).to_string(), "ab");
        assert_eq!(all.slice(0..2), original);
    }

    #[test]
    fn bytes_agree_with_their_beginnings_only() {
        let original = Bytes::of(3, Version::Original);
        let changed = Bytes::of(1, Version::Changed);
        assert!(original.agrees_with(Bytes::of(2, Version::Original)));
        assert!(original.agrees_with(Bytes::default()));
        assert!(!original.agrees_with(changed));
        assert!(!changed.agrees_with(original));
    }
}
