//! The command of a request on an upload URI, in terms that all [dialects](crate::dialect) share,
//! and the parts of a request's head that do not depend on a dialect.

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, Method, Version};
use serde_json::{Map, Value};
use windlass_digest::ExpectedDigests;

use crate::concat::PartialUri;
use crate::error::ProtocolError;
use crate::header::X_HTTP_METHOD_OVERRIDE;
use crate::parameters::UploadId;
use crate::related::Boundary;

pub use crate::session::{BodyLength, End, Overlap, Query, SessionAction, SessionRequest};

/// A command to the upload service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Store the body as media.
    Simple(SimpleHead),
    /// Store the media of a multipart/related body.
    Multipart(MultipartHead),
    /// Start a session.
    Start(StartHead),
    /// Append to a session, ask for its offset, or finish it.
    Session(SessionHead),
    /// Cancel a session.
    Cancel {
        /// The session.
        upload_id: UploadId,
    },
}

/// The head of a simple upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimpleHead {
    /// Type of the media.
    pub content_type: Option<String>,
    /// Length of the media.
    pub length: BodyLength,
    /// Digests that the media must have.
    pub expected: ExpectedDigests,
}

/// The head of a multipart upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MultipartHead {
    /// Delimiter of the body parts.
    pub boundary: Boundary,
    /// Length of the whole document.
    pub length: BodyLength,
    /// Digests that the media must have.
    pub expected: ExpectedDigests,
}

/// The head of a request that starts a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartHead {
    /// Type of the media to come.
    pub content_type: Option<String>,
    /// Size of the media to come as the client declared it; see
    /// [`declared_total`](Self::declared_total).
    pub content_length: Option<u64>,
    /// Length of the body.
    pub length: BodyLength,
    /// Digests that the media must have.
    pub expected: ExpectedDigests,
    /// What the body is.
    pub body: StartBody,
    /// What the dialect wants back when it reports on the session, such as a header as it was sent.
    /// The server keeps it with the session, and does not look into it.
    pub kept: Option<String>,
}

/// The body of a request that starts a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartBody {
    /// The metadata of the resource, as JSON.
    Metadata,
    /// Not metadata. What is known about the media is in the head.
    Data {
        /// The name of the file.
        file_name: Option<String>,
        /// Statements about the media by name. Those that the metadata of the resource can hold
        /// become its metadata.
        fields: Map<String, Value>,
        /// The first part of the media, which is the body; `None` if the body is to be ignored.
        part: Option<FirstPart>,
    },
    /// Not metadata. The upload is partial: it is made to be concatenated with others, and becomes
    /// no resource.
    Partial {
        /// As in [`StartBody::Data`].
        part: Option<FirstPart>,
    },
    /// None. The media is concatenated from partial uploads, and the upload ends with this request.
    Concatenated {
        /// As in [`StartBody::Data`].
        file_name: Option<String>,
        /// As in [`StartBody::Data`].
        fields: Map<String, Value>,
        /// The partial uploads, in order; at least one and at most
        /// [`MAX_PARTIALS`](crate::concat::MAX_PARTIALS).
        partials: Vec<PartialUri>,
    },
}

/// The first part of the media, in the body of the request that starts the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstPart {
    /// Whether the upload ends with it.
    pub end: End,
    /// Length of the whole media, if the request states it. Zero is a length.
    pub length: Option<u64>,
}

impl StartHead {
    /// Returns the head of a request whose body of this length is metadata, and that states nothing
    /// else.
    pub fn with_metadata(length: BodyLength) -> Self {
        Self {
            content_type: None,
            content_length: None,
            length,
            expected: ExpectedDigests::default(),
            body: StartBody::Metadata,
            kept: None,
        }
    }

    /// Returns the size that the media will have. A declared zero counts as unknown, because some
    /// clients send it for "unknown".
    pub fn declared_total(&self) -> Option<u64> {
        self.content_length.filter(|total| *total > 0)
    }
}

/// The head of a request to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionHead {
    /// The session.
    pub upload_id: UploadId,
    /// The action on the session.
    pub request: SessionRequest,
    /// Whether the client asks for `200` in place of `308`. Google's dialect has this option.
    pub no_308: bool,
    /// Digests that the whole media must have.
    pub expected: ExpectedDigests,
}

/// Returns the method that a request stands for. A POST may name another one in
/// `X-HTTP-Method-Override`.
pub fn effective_method(method: &Method, headers: &HeaderMap) -> Result<Method, ProtocolError> {
    match headers
        .get(X_HTTP_METHOD_OVERRIDE)
        .map(|value| value.as_bytes().trim_ascii())
    {
        Some(name) if method == Method::POST && !name.is_empty() => {
            Method::from_bytes(&name.to_ascii_uppercase()).map_err(|_| {
                ProtocolError::InvalidHeader {
                    name: "X-HTTP-Method-Override",
                }
            })
        }
        _ => Ok(method.clone()),
    }
}

/// The length of a request's body as stated on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Number of coded bytes.
    Length(u64),
    /// The length is not stated: chunked transfer coding, or HTTP/2 data without a
    /// `Content-Length`.
    Streamed,
    /// HTTP/1 without any framing: the request has no body (RFC 9112, 6.3).
    Absent,
}

impl Framing {
    /// Reads the framing of a request.
    ///
    /// `end_of_stream` states that no body follows the head. It matters in HTTP/2 and later, where
    /// no header needs to announce a body.
    ///
    /// # Errors
    ///
    /// A message with an ambiguous end is refused. The connection should then not be used again
    /// (RFC 9112, 6.3).
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

/// The content coding of a body. Offsets and sizes count decoded bytes (docs/protocol.md, 2.15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentCoding {
    /// No coding.
    Identity,
    /// Gzip.
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
