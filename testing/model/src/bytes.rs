//! Media of a few units, each in one of two versions.

use std::fmt;
use std::ops::Range;

/// One of the two contents that clients send for the same range. A client sends
/// [`Version::Changed`] if its file has changed since the last request, or if it is hostile.
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

    /// The length in units.
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

    /// The units in a range, which must not go beyond the end.
    pub(crate) fn slice(self, range: Range<u8>) -> Self {
        let len = range.end - range.start;
        Self {
            len,
            versions: self.versions >> range.start & mask(len),
        }
    }

    /// Whether the bytes begin with `beginning`, or are equal to it.
    pub(crate) fn starts_with(self, beginning: Self) -> bool {
        self.len >= beginning.len && self.slice(0..beginning.len) == beginning
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
    fn bytes_start_with_equal_and_shorter_bytes_only() {
        let original = Bytes::of(3, Version::Original);
        assert!(original.starts_with(original));
        assert!(original.starts_with(Bytes::of(2, Version::Original)));
        assert!(original.starts_with(Bytes::default()));
        assert!(!original.starts_with(Bytes::of(4, Version::Original)));
        assert!(!original.starts_with(Bytes::of(1, Version::Changed)));
    }
}
