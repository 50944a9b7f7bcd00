//! The seam of the wire forms, on the client's side.
//!
//! A [`Transfer`](super::Transfer) decides which [`Request`] comes next, and what a reply means for
//! the upload. A wire form writes the head of that request, and reads the reply as a
//! [`ReplyClass`]. A form decides nothing else: no retries, no sizes of chunks, no waits.

use std::fmt;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::exchange::{Chunk, ErrorReply, Reply, ReplyClass, Request};

mod google;
mod ietf;
mod tus;
mod x_goog_upload;

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=UTF-8");

/// The wire form of an upload.
///
/// Serde writes and reads its [name](Self::as_str).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Protocol {
    /// Google's media upload protocol (docs/protocol.md, 2.3 to 2.8).
    #[default]
    Google,
    /// Google's protocol with the headers `X-Goog-Upload-*` (docs/protocol.md, 2.12).
    XGoogUpload,
    /// [tus 1.0.0](https://tus.io/protocols/resumable-upload).
    Tus,
    /// The IETF's draft
    /// [Resumable Uploads for HTTP](https://datatracker.ietf.org/doc/draft-ietf-httpbis-resumable-upload/),
    /// as the interop versions 6 and newer have it.
    Ietf,
}

/// The media and the request that starts its upload, as the caller describes them.
#[derive(Debug, Clone)]
pub struct Description<'a> {
    /// The HTTP method of a start. Default: POST.
    pub method: Method,
    /// Size of the media, if known.
    pub total: Option<u64>,
    /// Type of the media, if stated.
    pub content_type: Option<&'a HeaderValue>,
    /// Name of the file with the media, without directories. Google's forms do not send it.
    pub file_name: Option<&'a str>,
    /// The metadata: a JSON object.
    pub metadata: Option<&'a Value>,
}

impl Default for Description<'_> {
    fn default() -> Self {
        Self {
            method: Method::POST,
            total: None,
            content_type: None,
            file_name: None,
            metadata: None,
        }
    }
}

/// Why a wire form cannot carry what a [`Description`] says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// An HTTP method other than POST.
    #[error("an upload by tus starts with POST, not with {method}")]
    Method {
        /// The method.
        method: Method,
    },
    /// Metadata in a form that has none.
    #[error("the IETF draft carries no metadata but the type and the name of the file")]
    Metadata,
    /// A field of the metadata that is not a string.
    #[error("tus carries only strings as metadata: the field {field:?} has another value")]
    NotAString {
        /// The name of the field.
        field: String,
    },
    /// A field of the metadata with a name that cannot be a key.
    #[error(
        "a key of the metadata of tus is ASCII text without spaces and commas: {field:?} is not"
    )]
    Key {
        /// The name of the field.
        field: String,
    },
}

/// The head of a request, without its URL.
#[derive(Debug, Clone)]
pub struct Head {
    /// The HTTP method.
    pub method: Method,
    /// The header fields of the wire form.
    pub headers: HeaderMap,
    /// The body.
    pub content: Content,
}

/// The body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// None.
    Empty,
    /// The metadata as JSON.
    Metadata,
    /// The bytes of a chunk.
    Chunk(Chunk),
    /// The whole media, alone or with the metadata, as the upload type says.
    Whole,
}

impl Head {
    /// A head without header fields and body.
    fn new(method: Method) -> Self {
        Self {
            method,
            headers: HeaderMap::new(),
            content: Content::Empty,
        }
    }

    fn with(mut self, name: HeaderName, value: impl Into<HeaderValue>) -> Self {
        self.headers.insert(name, value.into());
        self
    }

    fn with_content(self, content: Content) -> Self {
        Self { content, ..self }
    }

    /// Adds the metadata as the body, if there is some.
    fn with_metadata(self, description: &Description<'_>) -> Self {
        match description.metadata {
            Some(_) => self
                .with(CONTENT_TYPE, JSON)
                .with_content(Content::Metadata),
            None => self,
        }
    }
}

/// A wire form.
trait WireForm {
    /// Writes the head of a start.
    ///
    /// # Errors
    /// The form cannot carry a part of the description.
    fn start(&self, description: &Description<'_>) -> Result<Head, Unsupported>;

    /// Writes the head of a query for the committed bytes. `total` is the size of the media, if
    /// known.
    fn query(&self, total: Option<u64>) -> Head;

    /// Writes the head of a request with a chunk.
    fn append(&self, chunk: &Chunk) -> Head;

    /// Writes the head of the request that cancels a session.
    fn cancel(&self) -> Head;

    /// Reads the reply to a request.
    fn read(&self, request: &Request, reply: &Reply<'_>) -> ReplyClass;

    /// Reads the reply to a request that cancels a session; `None` if the session was not
    /// cancelled. Default: what tus and the IETF draft say of a `DELETE`.
    fn read_cancel(&self, reply: &Reply<'_>) -> Option<SessionStatus> {
        match reply.status.as_u16() {
            200..=299 => Some(SessionStatus::Cancelled),
            404 | 410 => Some(SessionStatus::Lost),
            _ => None,
        }
    }
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Self; 4] = [Self::Google, Self::XGoogUpload, Self::Tus, Self::Ietf];

    /// Returns the name of the protocol: `google`, `x-goog-upload`, `tus` or `ietf`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Google => "google",
            Self::XGoogUpload => "x-goog-upload",
            Self::Tus => "tus",
            Self::Ietf => "ietf",
        }
    }

    /// Returns the protocol with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|protocol| protocol.as_str() == name)
    }

    /// Returns whether the path of a session's URI is a part of its secret. Otherwise only the query
    /// is.
    pub fn has_secret_paths(self) -> bool {
        match self {
            Self::Google | Self::XGoogUpload => false,
            Self::Tus | Self::Ietf => true,
        }
    }

    /// Returns whether the protocol has uploads in a single request. Otherwise every upload is a
    /// session.
    pub fn has_single_requests(self) -> bool {
        match self {
            Self::Google => true,
            Self::XGoogUpload | Self::Tus | Self::Ietf => false,
        }
    }

    /// Returns whether an upload ends when the server has the stated number of bytes. Otherwise the
    /// last request ends it.
    pub(super) fn ends_at_length(self) -> bool {
        match self {
            Self::Tus => true,
            Self::Google | Self::XGoogUpload | Self::Ietf => false,
        }
    }

    fn form(self) -> &'static dyn WireForm {
        match self {
            Self::Google => &google::Google,
            Self::XGoogUpload => &x_goog_upload::XGoogUpload,
            Self::Tus => &tus::Tus,
            Self::Ietf => &ietf::Ietf,
        }
    }

    /// Writes the head of a request in this form. A [`Request::Discover`] is in none.
    pub(super) fn head(
        self,
        request: &Request,
        description: &Description<'_>,
    ) -> Result<Head, Unsupported> {
        Ok(match request {
            Request::Discover => Head::new(Method::OPTIONS),
            Request::SingleRequest => {
                Head::new(description.method.clone()).with_content(Content::Whole)
            }
            Request::Start => self.form().start(description)?,
            Request::Query { total } => self.form().query(*total),
            Request::Data(chunk) => self.form().append(chunk),
        })
    }

    /// Writes the head of a query for the committed bytes of a session.
    pub fn query(self) -> Head {
        self.form().query(None)
    }

    /// Writes the head of a request that cancels a session.
    pub fn cancel(self) -> Head {
        self.form().cancel()
    }

    /// Reads the reply to a [query](Self::query); `None` when the reply does not state the
    /// session's state.
    pub fn read_query(self, reply: &Reply<'_>) -> Option<SessionStatus> {
        match self.read(&Request::Query { total: None }, reply) {
            ReplyClass::Incomplete(committed) => Some(SessionStatus::Active {
                committed: committed.bytes,
            }),
            ReplyClass::Complete => Some(SessionStatus::Finished),
            ReplyClass::Lost => Some(SessionStatus::Lost),
            ReplyClass::Cancelled => Some(SessionStatus::Cancelled),
            ReplyClass::Started { .. }
            | ReplyClass::WrongOffset { .. }
            | ReplyClass::Transient
            | ReplyClass::Unauthorized
            | ReplyClass::Unexpected
            | ReplyClass::NotTheProtocol
            | ReplyClass::Refused
            | ReplyClass::Rejected => None,
        }
    }

    /// Reads the reply to a request that [cancels](Self::cancel) a session; `None` when the session
    /// was not cancelled.
    pub fn read_cancel(self, reply: &Reply<'_>) -> Option<SessionStatus> {
        self.form().read_cancel(reply)
    }

    /// Reads a reply with an error. In tus and the draft the path of a session is its secret, so
    /// only the origin of a redirection is shown.
    pub(super) fn error_reply(self, reply: &Reply<'_>) -> ErrorReply {
        let error_reply = ErrorReply::of(reply);
        if self.has_secret_paths() && reply.status.is_redirection() {
            return ErrorReply {
                message: Some("it redirects to another URL".to_owned()),
                ..error_reply
            };
        }
        error_reply
    }

    pub(super) fn read(self, request: &Request, reply: &Reply<'_>) -> ReplyClass {
        self.form().read(request, reply)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The state of a session according to a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionStatus {
    /// The session accepts more bytes.
    Active {
        /// Number of committed bytes.
        committed: u64,
    },
    /// The session is finished. In Google's forms the reply shows the resource.
    Finished,
    /// The session is unknown to the server.
    Lost,
    /// The session was cancelled.
    Cancelled,
}

/// Reads a reply without success, as far as all forms agree about it.
fn failure(request: &Request, reply: &Reply<'_>) -> ReplyClass {
    let in_session = request.is_in_session();
    match reply.status.as_u16() {
        // The server has already acted, or another address would act: a retry could create a
        // second resource.
        200..=399 if !in_session => ReplyClass::NotTheProtocol,
        404 | 410 if in_session => ReplyClass::Lost,
        401 => ReplyClass::Unauthorized,
        408 | 429 | 500..=599 => ReplyClass::Transient,
        403 if ErrorReply::of(reply).is_rate_limit() => ReplyClass::Transient,
        // A second writer, a wrong connection, a request that is too early: each may pass.
        100..=399 | 409 | 421 | 423 | 425 => ReplyClass::Unexpected,
        _ => ReplyClass::Refused,
    }
}

/// Returns the value of a header; `None` if it is missing, empty or not text.
fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let text = headers.get(name)?.to_str().ok()?.trim();
    (!text.is_empty()).then_some(text)
}

/// Returns the number in a header: decimal digits.
fn number(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    let digits = text(headers, name)?;
    // `u64::from_str` accepts a sign.
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| digits.parse().ok()).flatten()
}
