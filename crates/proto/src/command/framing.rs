//! How long the body of a request is.

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, Version};

use crate::error::ProtocolError;

/// What a request says about the length of its body, as it is on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// So many coded bytes.
    Length(u64),
    /// The body ends when it ends: chunked transfer coding, or HTTP/2 data without a
    /// `Content-Length`.
    Streamed,
    /// HTTP/1 without any framing: there is no body (RFC 9112, 6.3).
    Absent,
}

impl Framing {
    /// Reads the framing of a request.
    ///
    /// `end_of_stream` says that no body follows the head. It matters in HTTP/2 and later, where a
    /// body needs no header to announce it.
    ///
    /// # Errors
    ///
    /// A message whose end is in doubt is refused; the connection should not be used again (RFC
    /// 9112, 6.3).
    pub fn of(
        version: Version,
        headers: &HeaderMap,
        end_of_stream: bool,
    ) -> Result<Self, ProtocolError> {
        match (content_length(headers)?, chunked(headers)?) {
            (Some(_), true) => Err(ProtocolError::AmbiguousLength),
            (Some(length), false) => Ok(Self::Length(length)),
            (None, false) if version < Version::HTTP_2 => Ok(Self::Absent),
            (None, false) if end_of_stream => Ok(Self::Length(0)),
            (None, _) => Ok(Self::Streamed),
        }
    }
}

/// Length of a body in decoded bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    /// Known beforehand.
    Exact(u64),
    /// Known when the body has ended: it is chunked, or it is coded.
    Unknown,
}

/// The content coding of a body. Offsets and sizes count what is left when it is undone
/// (docs/protocol.md, 2.15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentCoding {
    /// The bytes as they are.
    Identity,
    /// To be unpacked.
    Gzip,
}

impl ContentCoding {
    /// Reads `Content-Encoding`.
    pub fn from_headers(headers: &HeaderMap) -> Result<Self, ProtocolError> {
        let mut coding = Self::Identity;
        for value in headers.get_all(CONTENT_ENCODING) {
            for name in value
                .as_bytes()
                .split(|byte| *byte == b',')
                .map(<[u8]>::trim_ascii)
            {
                coding = match (coding, name.to_ascii_lowercase().as_slice()) {
                    (coding, b"" | b"identity") => coding,
                    (Self::Identity, b"gzip" | b"x-gzip") => Self::Gzip,
                    _ => return Err(ProtocolError::ContentEncoding),
                };
            }
        }
        Ok(coding)
    }
}

fn content_length(headers: &HeaderMap) -> Result<Option<u64>, ProtocolError> {
    let mut length = None;
    for value in headers.get_all(CONTENT_LENGTH) {
        let stated = Some(digits(value.as_bytes().trim_ascii())?);
        if length.is_some() && length != stated {
            return Err(ProtocolError::AmbiguousLength);
        }
        length = stated;
    }
    Ok(length)
}

fn digits(value: &[u8]) -> Result<u64, ProtocolError> {
    let invalid = ProtocolError::InvalidHeader {
        name: "Content-Length",
    };
    match std::str::from_utf8(value) {
        Ok(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.parse().map_err(|_| invalid)
        }
        _ => Err(invalid),
    }
}

fn chunked(headers: &HeaderMap) -> Result<bool, ProtocolError> {
    let mut values = headers.get_all(TRANSFER_ENCODING).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(false),
        (Some(coding), None)
            if coding
                .as_bytes()
                .trim_ascii()
                .eq_ignore_ascii_case(b"chunked") =>
        {
            Ok(true)
        }
        _ => Err(ProtocolError::TransferEncoding),
    }
}
