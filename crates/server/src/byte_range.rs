//! Byte ranges of a media download: the `Range` a client asks for and the `Content-Range` it gets
//! (RFC 9110, section 14).
//!
//! | `Range`, of a media of 100 bytes | answer |
//! |---|---|
//! | `bytes=0-9` | 206, `bytes 0-9/100` |
//! | `bytes=90-` or `bytes=-10` or `bytes=90-500` | 206, `bytes 90-99/100` |
//! | `bytes=100-` | 416, `bytes */100` |
//! | none, another unit, several ranges, malformed | 200 and the whole media |
//!
//! `Range` is defined for GET alone, and whether it counts at all may hang on `If-Range`: see
//! [`range_applies`](crate::precondition::range_applies).

#[cfg(test)]
mod tests;

use std::ops::Range;

use http::HeaderValue;

/// What a download request wants of a media.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Requested {
    /// All of it.
    Whole,
    /// These bytes of it: at least one, and none behind the end of the media.
    Part(Range<u64>),
    /// Bytes that it does not have.
    NotSatisfiable,
}

impl Requested {
    /// Reads the `Range` header of a request for a media of `length` bytes.
    ///
    /// What a server may ignore is ignored (section 14.2): a header that is malformed, one in
    /// another unit than bytes, and one that asks for several ranges, which would call for a
    /// `multipart/byteranges` reply.
    pub(crate) fn parse(header: Option<&HeaderValue>, length: u64) -> Self {
        header
            .and_then(|value| value.to_str().ok())
            .and_then(RangeSpec::parse)
            .map_or(Self::Whole, |spec| spec.of(length))
    }
}

/// The `Content-Range` of a reply that carries `bytes` of a media of `length` bytes.
///
/// `bytes` is what [`Requested::Part`] holds: an empty range cannot be written.
pub(crate) fn content_range(bytes: &Range<u64>, length: u64) -> HeaderValue {
    debug_assert!(bytes.start < bytes.end && bytes.end <= length);
    written(format!("bytes {}-{}/{length}", bytes.start, bytes.end - 1))
}

/// The `Content-Range` of a reply that says that a media of `length` bytes lacks the range.
pub(crate) fn unsatisfied_range(length: u64) -> HeaderValue {
    written(format!("bytes */{length}"))
}

fn written(value: String) -> HeaderValue {
    HeaderValue::try_from(value).expect("visible ASCII characters are a header value")
}

/// One range, before it is known how long the media is.
#[derive(Debug, Clone, Copy)]
enum RangeSpec {
    /// From the byte `first` to the end.
    From { first: u64 },
    /// From the byte `first` to the byte `last`, which is not before it.
    Between { first: u64, last: u64 },
    /// The last `count` bytes.
    Suffix { count: u64 },
}

impl RangeSpec {
    /// Reads a header that holds exactly one range of bytes.
    fn parse(header: &str) -> Option<Self> {
        let (unit, set) = header.split_once('=')?;
        if !unit.eq_ignore_ascii_case("bytes") {
            return None;
        }
        // A list may have empty elements (section 5.6.1.2).
        let mut specs = set
            .split(',')
            .map(|element| element.trim_matches([' ', '\t']))
            .filter(|element| !element.is_empty());
        match (specs.next(), specs.next()) {
            (Some(only), None) => Self::parse_one(only),
            _ => None,
        }
    }

    fn parse_one(spec: &str) -> Option<Self> {
        match spec.split_once('-')? {
            ("", count) => Some(Self::Suffix {
                count: number(count)?,
            }),
            (first, "") => Some(Self::From {
                first: number(first)?,
            }),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::Between { first, last })
            }
        }
    }

    /// What the range means for a media of `length` bytes.
    fn of(self, length: u64) -> Requested {
        match self {
            Self::Suffix { count: 0 } => Requested::NotSatisfiable,
            // Satisfiable (section 14.1.2), but no `Content-Range` can say "no bytes".
            Self::Suffix { .. } if length == 0 => Requested::Whole,
            Self::Suffix { count } => Requested::Part(length.saturating_sub(count)..length),
            Self::From { first } | Self::Between { first, .. } if first >= length => {
                Requested::NotSatisfiable
            }
            Self::From { first } => Requested::Part(first..length),
            Self::Between { first, last } => {
                Requested::Part(first..last.saturating_add(1).min(length))
            }
        }
    }
}

/// Reads `1*DIGIT`. A number too great for `u64` lies behind the end of every media, as does the
/// greatest `u64`.
fn number(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u64::MAX))
}
