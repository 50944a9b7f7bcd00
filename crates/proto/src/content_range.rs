//! The `Content-Range` header of requests to a session (docs/protocol.md, 2.4), and the `Range`
//! header of a `308`, which states the committed bytes (2.8).

use std::fmt;

use http::HeaderValue;

#[cfg(test)]
mod tests;

/// Granularity of chunks: 256 KiB. Every chunk but the last is a multiple of it.
pub const CHUNK_GRANULARITY: u64 = 256 * 1024;

/// The value of a `Content-Range` header in a request to a session.
///
/// [`parse`](Self::parse) returns only consistent ranges: `first <= last < total` and `last <
/// u64::MAX`.
///
/// ```
/// use windlass_proto::content_range::ContentRange;
///
/// let range = ContentRange::parse(b"bytes 0-262143/*").unwrap();
/// assert_eq!(range, ContentRange::Bounded { first: 0, last: 262_143, total: None });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContentRange {
    /// `bytes first-last/total`: the body holds these bytes of the media.
    Bounded {
        /// Offset of the body's first byte.
        first: u64,
        /// Offset of the body's last byte.
        last: u64,
        /// Size of the media; `None` when it is not known yet (`*`).
        total: Option<u64>,
    },
    /// `bytes first-*/total`: the body runs from `first` to the end of the media.
    ToEnd {
        /// Offset of the body's first byte.
        first: u64,
        /// Size of the media; `None` when it follows from the body (`*`).
        total: Option<u64>,
    },
    /// `bytes */total`: the request has no body. It is a query, or it ends an upload after all of
    /// its bytes are committed.
    Query {
        /// Size of the media; `None` when the client does not state it (`*`).
        total: Option<u64>,
    },
}

/// Why a `Content-Range` header cannot be parsed.
///
/// The variant is for logs. Clients get the same text for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentRangeError {
    /// The unit is not `bytes`.
    Unit,
    /// The value does not follow the grammar.
    Syntax,
    /// A number does not fit into 64 bits.
    Overflow,
    /// The range ends before it begins.
    Inverted {
        /// Offset of the first byte.
        first: u64,
        /// Offset of the last byte.
        last: u64,
    },
    /// The range reaches past the total it states.
    PastTotal {
        /// Offset after the last byte of the range.
        end: u64,
        /// The stated total.
        total: u64,
    },
    /// The header occurs more than once.
    Repeated,
}

impl fmt::Display for ContentRangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Failed to parse Content-Range header.")
    }
}

impl std::error::Error for ContentRangeError {}

impl ContentRange {
    /// Parses a header value.
    ///
    /// Two malformed ways to say "nothing to add, the total is N" are accepted because clients in
    /// use send them: `bytes 0--1/0`, and `bytes N-(N-1)/N` for N above zero. Both become a
    /// [`Query`](Self::Query).
    pub fn parse(value: &[u8]) -> Result<Self, ContentRangeError> {
        let spec = after_unit(value.trim_ascii())?;
        let slash = memchr::memchr(b'/', spec).ok_or(ContentRangeError::Syntax)?;
        let (positions, total) = (&spec[..slash], &spec[slash + 1..]);
        let total = number_or_star(total)?;
        match positions {
            b"*" => Ok(Self::Query { total }),
            b"0--1" if total == Some(0) => Ok(Self::Query { total }),
            _ => range(positions, total),
        }
    }
}

impl fmt::Display for ContentRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = match self {
            Self::Bounded { first, last, total } => {
                write!(f, "bytes {first}-{last}/")?;
                total
            }
            Self::ToEnd { first, total } => {
                write!(f, "bytes {first}-*/")?;
                total
            }
            Self::Query { total } => {
                f.write_str("bytes */")?;
                total
            }
        };
        match total {
            Some(total) => write!(f, "{total}"),
            None => f.write_str("*"),
        }
    }
}

impl From<ContentRange> for HeaderValue {
    fn from(range: ContentRange) -> Self {
        HeaderValue::try_from(range.to_string()).expect("ASCII makes a header value")
    }
}

/// Strips `bytes` and the spaces after it.
fn after_unit(value: &[u8]) -> Result<&[u8], ContentRangeError> {
    let (unit, rest) = value
        .split_at_checked(b"bytes".len())
        .ok_or(ContentRangeError::Unit)?;
    let spec = rest.trim_ascii_start();
    let spaces = &rest[..rest.len() - spec.len()];
    let separated = !spaces.is_empty() && spaces.iter().all(|byte| *byte == b' ');
    if unit.eq_ignore_ascii_case(b"bytes") && separated {
        Ok(spec)
    } else {
        Err(ContentRangeError::Unit)
    }
}

fn range(positions: &[u8], total: Option<u64>) -> Result<ContentRange, ContentRangeError> {
    let dash = memchr::memchr(b'-', positions).ok_or(ContentRangeError::Syntax)?;
    let first = number(&positions[..dash])?;
    match number_or_star(&positions[dash + 1..])? {
        None => to_end(first, total),
        Some(last) => bounded(first, last, total),
    }
}

fn to_end(first: u64, total: Option<u64>) -> Result<ContentRange, ContentRangeError> {
    match total {
        Some(total) if first > total => Err(ContentRangeError::PastTotal { end: first, total }),
        _ => Ok(ContentRange::ToEnd { first, total }),
    }
}

fn bounded(first: u64, last: u64, total: Option<u64>) -> Result<ContentRange, ContentRangeError> {
    if total == Some(first) && first.checked_sub(1) == Some(last) {
        return Ok(ContentRange::Query { total });
    }
    let end = end_of(first, last)?;
    match total {
        Some(total) if end > total => Err(ContentRangeError::PastTotal { end, total }),
        _ => Ok(ContentRange::Bounded { first, last, total }),
    }
}

/// Returns the offset after the bytes `first..=last`.
pub(crate) fn end_of(first: u64, last: u64) -> Result<u64, ContentRangeError> {
    if last < first {
        return Err(ContentRangeError::Inverted { first, last });
    }
    last.checked_add(1).ok_or(ContentRangeError::Overflow)
}

fn number_or_star(text: &[u8]) -> Result<Option<u64>, ContentRangeError> {
    if text == b"*" {
        Ok(None)
    } else {
        number(text).map(Some)
    }
}

/// Parses `1*DIGIT` that fits into 64 bits.
fn number(digits: &[u8]) -> Result<u64, ContentRangeError> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(ContentRangeError::Syntax);
    }
    digits
        .iter()
        .try_fold(0u64, |number, digit| {
            number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        })
        .ok_or(ContentRangeError::Overflow)
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
