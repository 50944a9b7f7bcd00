//! The parts of replies that a [dialect](crate::dialect) decides on.

use std::borrow::Cow;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Map, Value};

/// Status and headers of a reply.
#[derive(Debug, Clone)]
pub struct ReplyHead {
    /// The status.
    pub status: StatusCode,
    /// Reason phrase, where it is not the status's usual one.
    pub reason_phrase: Option<&'static str>,
    /// The headers.
    pub headers: HeaderMap,
    /// Whether the reply goes without the body that the API has for it. Default: no.
    pub drops_body: bool,
}

impl ReplyHead {
    /// Returns a head without headers.
    pub fn new(status: StatusCode) -> Self {
        Self {
            status,
            reason_phrase: None,
            headers: HeaderMap::new(),
            drops_body: false,
        }
    }

    /// Returns the head of a reply without a body.
    pub fn empty(status: StatusCode) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("text/plain; charset=utf-8"),
        );
        Self {
            status,
            reason_phrase: None,
            headers,
            drops_body: false,
        }
    }
}

/// The reply to an error. The server adds the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorReply {
    /// HTTP status.
    pub status: StatusCode,
    /// Google's `errors[].domain`: `global`, or a service's domain for a reason that only this
    /// service has.
    pub domain: &'static str,
    /// Google's `errors[].reason`, which the retry logic of client libraries reads.
    pub reason: &'static str,
    /// Part of the request that is wrong, if it is a single one.
    pub location: Option<Location>,
    /// Form of the reply's body.
    pub form: Form,
    /// `Retry-After` in seconds.
    pub retry_after: Option<u32>,
    /// Further headers, which the dialect adds.
    pub headers: HeaderMap,
    /// Reason phrase, where it is not the status's usual one.
    pub reason_phrase: Option<&'static str>,
    /// Further members of a [problem](Form::Problem).
    pub members: Map<String, Value>,
}

/// The part of a request that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A header.
    Header(Cow<'static, str>),
    /// A parameter of the path or the query.
    Parameter(Cow<'static, str>),
    /// A field of the metadata.
    Field(Cow<'static, str>),
}

/// The form of an error's reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Google's JSON error object.
    Json,
    /// A problem of this type (RFC 9457), with the message as its detail and with
    /// [`ErrorReply::members`].
    Problem(&'static str),
    /// The message as plain text. Errors of sessions have this form: a client library tells a gap
    /// from a transient fault by it.
    Text,
    /// No body.
    Empty,
}

impl ErrorReply {
    /// Returns a reply with Google's JSON error object as its body.
    pub fn json(status: StatusCode, reason: &'static str) -> Self {
        Self {
            status,
            domain: "global",
            reason,
            location: None,
            form: Form::Json,
            retry_after: None,
            headers: HeaderMap::new(),
            reason_phrase: None,
            members: Map::new(),
        }
    }

    /// Returns a reply with a problem of this type as its body.
    pub fn problem(status: StatusCode, kind: &'static str) -> Self {
        Self {
            form: Form::Problem(kind),
            ..Self::json(status, "badRequest")
        }
    }

    /// Returns a reply with the message as its body.
    pub fn text(status: StatusCode, reason: &'static str) -> Self {
        Self {
            form: Form::Text,
            ..Self::json(status, reason)
        }
    }

    /// Returns a reply without a body.
    pub fn empty(status: StatusCode, reason: &'static str) -> Self {
        Self {
            form: Form::Empty,
            ..Self::json(status, reason)
        }
    }

    /// Returns the reply to a request that may succeed after this number of seconds: 503.
    pub fn unavailable(retry_after: u32) -> Self {
        Self {
            retry_after: Some(retry_after),
            ..Self::json(StatusCode::SERVICE_UNAVAILABLE, "backendError")
        }
    }

    /// Returns the reply to a client that sends too many requests and may send the next one after
    /// this number of seconds: 429.
    pub fn too_many(retry_after: u32) -> Self {
        Self {
            retry_after: Some(retry_after),
            ..Self::json(StatusCode::TOO_MANY_REQUESTS, "rateLimitExceeded")
        }
    }

    /// Returns the reply to a client that occupies as much as it may, and may ask again after this
    /// number of seconds: 429.
    pub fn over_quota(retry_after: u32) -> Self {
        Self {
            retry_after: Some(retry_after),
            ..Self::json(StatusCode::TOO_MANY_REQUESTS, "quotaExceeded")
        }
    }

    /// Names the header that is wrong.
    #[must_use]
    pub fn header(self, name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            location: Some(Location::Header(name.into())),
            ..self
        }
    }

    /// Names the parameter that is wrong.
    #[must_use]
    pub fn parameter(self, name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            location: Some(Location::Parameter(name.into())),
            ..self
        }
    }
}
