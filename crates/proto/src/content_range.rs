//! The `Content-Range` header of requests to a session (docs/protocol.md, 2.4), and the `Range`
//! header of a `308`, which states the committed bytes (2.8).

use http::HeaderValue;

pub use windlass_session::{CHUNK_GRANULARITY, ContentRange, ContentRangeError};

#[cfg(test)]
mod tests;

/// Returns the value of the header that states a range.
pub fn header_value(range: ContentRange) -> HeaderValue {
    HeaderValue::try_from(range.to_string()).expect("ASCII makes a header value")
}

/// The committed bytes `0..=last`, as a `308` reports them in `Range`. If no bytes are committed,
/// the header is left out.
///
/// ```
/// use http::HeaderValue;
/// use windlass_proto::content_range::CommittedRange;
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
    /// Returns the range of the first `committed` bytes; `None` for 0.
    pub fn of(committed: u64) -> Option<Self> {
        committed.checked_sub(1).map(|last| Self { last })
    }

    /// Parses a server's header: `bytes=0-42`, and also `bytes 0-42` and `0-42`, which some servers
    /// send.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let digits = without_unit(value.trim_ascii()).strip_prefix(b"0-")?;
        // `u64::from_str` accepts a sign.
        let digits = digits.iter().all(u8::is_ascii_digit).then_some(digits)?;
        let last: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
        // The number of committed bytes must fit as well.
        (last < u64::MAX).then_some(Self { last })
    }

    /// Number of committed bytes.
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
