//! `Range` in a `308`: what is committed, seen from the media's first byte (docs/protocol.md, 2.8).

use http::HeaderValue;

#[cfg(test)]
mod tests;

/// The committed bytes `0..=last`. Nothing committed has no such range: the header is left out
/// then.
///
/// ```
/// use http::HeaderValue;
/// use windlass_proto::committed_range::CommittedRange;
///
/// let range = CommittedRange::of(43).unwrap();
/// assert_eq!(HeaderValue::from(range), "bytes=0-42");
/// assert_eq!(CommittedRange::of(0), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CommittedRange {
    last: u64,
}

impl CommittedRange {
    /// The range of the first `committed` bytes; `None` when there are none.
    pub fn of(committed: u64) -> Option<Self> {
        committed.checked_sub(1).map(|last| Self { last })
    }

    /// Reads what a server wrote: `bytes=0-42`, and also `bytes 0-42` and `0-42`, as some servers
    /// do.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let digits = without_unit(value.trim_ascii()).strip_prefix(b"0-")?;
        // A sign would be accepted by the number's parser.
        let digits = digits.iter().all(u8::is_ascii_digit).then_some(digits)?;
        let last: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
        // The count of committed bytes has to fit as well.
        (last < u64::MAX).then_some(Self { last })
    }

    /// Count of committed bytes.
    pub fn committed(self) -> u64 {
        self.last + 1
    }
}

impl From<CommittedRange> for HeaderValue {
    fn from(range: CommittedRange) -> Self {
        HeaderValue::try_from(format!("bytes=0-{}", range.last))
            .expect("ASCII digits make a header value")
    }
}

fn without_unit(value: &[u8]) -> &[u8] {
    match value.split_at_checked(b"bytes".len()) {
        Some((unit, [b'=' | b' ', range @ ..])) if unit.eq_ignore_ascii_case(b"bytes") => range,
        _ => value,
    }
}
