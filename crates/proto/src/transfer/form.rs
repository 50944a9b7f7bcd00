//! The seam of the wire forms, on the client's side.
//!
//! A [`Transfer`](super::Transfer) decides which [`Request`] comes next, and what a reply means for
//! the upload. A wire form writes the head of that request, and reads the reply as a
//! [`ReplyClass`]. A form decides nothing else: no retries, no sizes of chunks, no waits.

use http::{HeaderMap, HeaderValue, Method};
use serde_json::Value;

use super::exchange::{Chunk, Reply, ReplyClass, Request};

mod google;

/// The wire form of an upload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// Google's media upload protocol (docs/protocol.md, 2.3 to 2.8).
    #[default]
    Google,
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
    /// The metadata: a JSON object.
    pub metadata: Option<&'a Value>,
}

impl Default for Description<'_> {
    fn default() -> Self {
        Self {
            method: Method::POST,
            total: None,
            content_type: None,
            metadata: None,
        }
    }
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
}

/// A wire form.
trait WireForm {
    /// Writes the head of a start.
    fn start(&self, description: &Description<'_>) -> Head;

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
    /// cancelled.
    fn read_cancel(&self, reply: &Reply<'_>) -> Option<SessionStatus>;
}

impl Protocol {
    fn form(self) -> &'static dyn WireForm {
        match self {
            Self::Google => &google::Google,
        }
    }

    /// Writes the head of a request of a transfer.
    pub fn head(self, request: &Request, description: &Description<'_>) -> Head {
        match request {
            Request::SingleRequest => Head {
                content: Content::Whole,
                ..Head::new(description.method.clone())
            },
            Request::Start => self.form().start(description),
            Request::Query { total } => self.form().query(*total),
            Request::Data(chunk) => self.form().append(chunk),
        }
    }

    /// Writes the head of a request that cancels a session.
    pub fn cancel(self) -> Head {
        self.form().cancel()
    }

    /// Reads the reply to a [query](Request::Query); `None` when the reply does not state the
    /// session's state.
    pub fn read_query(self, reply: &Reply<'_>) -> Option<SessionStatus> {
        match self.read(&Request::Query { total: None }, reply) {
            ReplyClass::Incomplete { committed } => Some(SessionStatus::Active { committed }),
            ReplyClass::Complete => Some(SessionStatus::Finished),
            ReplyClass::Lost => Some(SessionStatus::Lost),
            ReplyClass::Cancelled => Some(SessionStatus::Cancelled),
            ReplyClass::Started { .. }
            | ReplyClass::Transient
            | ReplyClass::Unauthorized
            | ReplyClass::Unexpected
            | ReplyClass::NotTheProtocol
            | ReplyClass::Refused => None,
        }
    }

    /// Reads the reply to a request that [cancels](Self::cancel) a session; `None` when the session
    /// was not cancelled.
    pub fn read_cancel(self, reply: &Reply<'_>) -> Option<SessionStatus> {
        self.form().read_cancel(reply)
    }

    pub(super) fn read(self, request: &Request, reply: &Reply<'_>) -> ReplyClass {
        self.form().read(request, reply)
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
    /// The session is finished; the reply shows the resource.
    Finished,
    /// The session is unknown to the server.
    Lost,
    /// The session was cancelled.
    Cancelled,
}
