//! Parses the head of a request on an upload URI into a command (docs/protocol.md, 2.1 and 2.3).

use http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderName, Method, Version};

use crate::content_range::{ContentRange, ContentRangeError};
use crate::digest::ExpectedDigests;
use crate::error::ProtocolError;
use crate::header::{
    X_GUPLOADER_NO_308, X_HTTP_METHOD_OVERRIDE, X_UPLOAD_CONTENT_LENGTH, X_UPLOAD_CONTENT_TYPE,
};
use crate::parameters::{Parameters, UploadId};
use crate::related::{Boundary, RelatedError};
use crate::upload_type::UploadType;

#[cfg(test)]
mod tests;

pub use crate::session::{BodyLength, SessionRequest};

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

/// The head of a request that starts a session. Its body is metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartHead {
    /// Type of the media to come.
    pub content_type: Option<String>,
    /// Size of the media to come as the client declared it; see
    /// [`declared_total`](Self::declared_total).
    pub content_length: Option<u64>,
    /// Length of the metadata.
    pub length: BodyLength,
    /// Digests that the media must have.
    pub expected: ExpectedDigests,
}

impl StartHead {
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
    /// What the session is asked to do.
    pub request: SessionRequest,
    /// Whether the client asks for `200` in place of `308`.
    pub no_308: bool,
    /// Digests that the whole media must have.
    pub expected: ExpectedDigests,
}

const UPLOAD_METHODS: &[Method] = &[Method::POST, Method::PUT, Method::PATCH];
const SESSION_METHODS: &[Method] = &[Method::PUT, Method::POST, Method::DELETE];

/// Returns the method that a request stands for. A POST may name another one in
/// `X-HTTP-Method-Override`.
pub fn effective_method(method: &Method, headers: &HeaderMap) -> Result<Method, ProtocolError> {
    match headers
        .get(X_HTTP_METHOD_OVERRIDE)
        .map(|value| value.as_bytes().trim_ascii())
    {
        Some(name) if method == Method::POST && !name.is_empty() => {
            Method::from_bytes(&name.to_ascii_uppercase())
                .map_err(|_| invalid("X-HTTP-Method-Override"))
        }
        _ => Ok(method.clone()),
    }
}

/// Parses a request on an upload URI. `method` is the [effective](effective_method) one.
///
/// A request with an `upload_id` addresses a session, whatever `uploadType` says.
pub fn command(
    method: &Method,
    parameters: &Parameters,
    headers: &HeaderMap,
    framing: Framing,
) -> Result<Command, ProtocolError> {
    let head = Head {
        headers,
        framing,
        coding: ContentCoding::from_headers(headers)?,
    };
    if let Some(upload_id) = parameters.upload_id() {
        return match *method {
            Method::PUT | Method::POST => head.session(upload_id).map(Command::Session),
            Method::DELETE => Ok(Command::Cancel { upload_id }),
            _ => Err(ProtocolError::MethodNotAllowed {
                allowed: SESSION_METHODS,
            }),
        };
    }
    if !UPLOAD_METHODS.contains(method) {
        return Err(ProtocolError::MethodNotAllowed {
            allowed: UPLOAD_METHODS,
        });
    }
    match UploadType::from_parameters(parameters)? {
        UploadType::Media => head.simple().map(Command::Simple),
        UploadType::Multipart => head.multipart().map(Command::Multipart),
        UploadType::Resumable => head.start().map(Command::Start),
    }
}

/// The input of all commands.
struct Head<'a> {
    headers: &'a HeaderMap,
    framing: Framing,
    coding: ContentCoding,
}

impl Head<'_> {
    fn simple(&self) -> Result<SimpleHead, ProtocolError> {
        let expected = match self.coding {
            ContentCoding::Identity => ExpectedDigests::from_headers(self.headers)?,
            // Content-MD5 covers the coded bytes (RFC 1864), which are not stored.
            ContentCoding::Gzip => ExpectedDigests::from_goog_hash(self.headers)?,
        };
        Ok(SimpleHead {
            content_type: self.media_type(&CONTENT_TYPE, "Content-Type")?,
            length: self.required_length()?,
            expected,
        })
    }

    fn multipart(&self) -> Result<MultipartHead, ProtocolError> {
        let content_type = self
            .headers
            .get(CONTENT_TYPE)
            .ok_or(RelatedError::NotRelated)?;
        Ok(MultipartHead {
            boundary: Boundary::from_content_type(content_type.as_bytes())?,
            length: self.required_length()?,
            expected: ExpectedDigests::from_goog_hash(self.headers)?,
        })
    }

    fn start(&self) -> Result<StartHead, ProtocolError> {
        if self.headers.contains_key(CONTENT_RANGE) && self.has_data() {
            return Err(ProtocolError::DataOnStart);
        }
        Ok(StartHead {
            content_type: self.media_type(&X_UPLOAD_CONTENT_TYPE, "X-Upload-Content-Type")?,
            content_length: self.declared_length()?,
            length: self.length().unwrap_or(BodyLength::Exact(0)),
            expected: ExpectedDigests::from_goog_hash(self.headers)?,
        })
    }

    fn session(&self, upload_id: UploadId) -> Result<SessionHead, ProtocolError> {
        let content_range = self.content_range();
        let body = match content_range {
            // A query without framing has no body, and needs none. A malformed range is refused in
            // any case.
            Ok(Some(ContentRange::Query { .. })) | Err(_) => {
                self.length().unwrap_or(BodyLength::Exact(0))
            }
            Ok(_) => self.required_length()?,
        };
        Ok(SessionHead {
            upload_id,
            request: SessionRequest {
                content_range,
                body,
            },
            no_308: self.no_308(),
            expected: ExpectedDigests::from_goog_hash(self.headers)?,
        })
    }

    fn length(&self) -> Option<BodyLength> {
        match (self.framing, self.coding) {
            (Framing::Absent, _) => None,
            (Framing::Length(0), _) => Some(BodyLength::Exact(0)),
            (Framing::Length(length), ContentCoding::Identity) => Some(BodyLength::Exact(length)),
            (Framing::Length(_) | Framing::Streamed, _) => Some(BodyLength::Unknown),
        }
    }

    fn required_length(&self) -> Result<BodyLength, ProtocolError> {
        self.length().ok_or(ProtocolError::LengthRequired)
    }

    fn content_range(&self) -> Result<Option<ContentRange>, ContentRangeError> {
        let mut values = self.headers.get_all(CONTENT_RANGE).iter();
        match (values.next(), values.next()) {
            (Some(value), None) => ContentRange::parse(value.as_bytes()).map(Some),
            (Some(_), Some(_)) => Err(ContentRangeError::Repeated),
            (None, _) => Ok(None),
        }
    }

    fn no_308(&self) -> bool {
        let value = self
            .headers
            .get(X_GUPLOADER_NO_308)
            .map(|value| value.as_bytes().trim_ascii());
        value.is_some_and(|value| {
            ["yes", "true", "1"]
                .iter()
                .any(|yes| value.eq_ignore_ascii_case(yes.as_bytes()))
        })
    }

    /// Returns whether a request that starts a session carries something other than metadata.
    fn has_data(&self) -> bool {
        let empty = matches!(self.framing, Framing::Absent | Framing::Length(0));
        !empty
            && self
                .headers
                .get(CONTENT_TYPE)
                .is_some_and(|value| !is_json(value.as_bytes()))
    }

    /// Reads `X-Upload-Content-Length`. An empty value counts as absent.
    fn declared_length(&self) -> Result<Option<u64>, ProtocolError> {
        let name = "X-Upload-Content-Length";
        match self.text(&X_UPLOAD_CONTENT_LENGTH, name)? {
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map(Some).map_err(|_| invalid(name))
            }
            Some(_) => Err(invalid(name)),
            None => Ok(None),
        }
    }

    fn media_type(
        &self,
        header: &HeaderName,
        name: &'static str,
    ) -> Result<Option<String>, ProtocolError> {
        match self.text(header, name)? {
            Some(text) if is_media_type(text) => Ok(Some(text.to_owned())),
            Some(_) => Err(invalid(name)),
            None => Ok(None),
        }
    }

    /// Returns a header's value. An empty value counts as absent.
    fn text(&self, header: &HeaderName, name: &'static str) -> Result<Option<&str>, ProtocolError> {
        let Some(value) = self.headers.get(header) else {
            return Ok(None);
        };
        let text = value.to_str().map_err(|_| invalid(name))?.trim_ascii();
        Ok(Some(text).filter(|text| !text.is_empty()))
    }
}

fn invalid(name: &'static str) -> ProtocolError {
    ProtocolError::InvalidHeader { name }
}

/// Returns whether a text begins with `type/subtype` (RFC 9110, 8.3.1). Parameters are not checked.
fn is_media_type(text: &str) -> bool {
    let essence = text
        .split_once(';')
        .map_or(text, |(essence, _)| essence)
        .trim_ascii_end();
    essence
        .split_once('/')
        .is_some_and(|(main, sub)| is_token(main) && is_token(sub))
}

/// Returns whether a text is `1*tchar` (RFC 9110, 5.6.2).
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

fn is_json(content_type: &[u8]) -> bool {
    let essence = content_type
        .split(|byte| *byte == b';')
        .next()
        .unwrap_or_default()
        .trim_ascii();
    let essence = essence.to_ascii_lowercase();
    essence.is_empty() || essence.ends_with(b"/json") || essence.ends_with(b"+json")
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
    /// A message whose end is ambiguous is refused. The connection should then not be used again
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
