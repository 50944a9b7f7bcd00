//! The range of a request to a session, in the grammar of `Content-Range` (docs/protocol.md, 2.4).

use std::fmt;

#[cfg(test)]
mod tests;

/// Granularity of chunks: 256 KiB. Every chunk but the last should be a multiple of it;
/// [`ChunkRule`](crate::ChunkRule) says what happens if it is not.
pub const CHUNK_GRANULARITY: u64 = 256 * 1024;

/// The value of a `Content-Range` header in a request to a session.
///
/// [`parse`](Self::parse) returns only consistent ranges: `first <= last < total` and `last <
/// u64::MAX`, or `first <= total` for a range to the end.
///
/// ```
/// use windlass_session::ContentRange;
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
