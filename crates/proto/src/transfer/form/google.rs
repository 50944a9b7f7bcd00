//! Google's media upload protocol (docs/protocol.md, 2.3 to 2.8).

use http::header::{CONTENT_RANGE, CONTENT_TYPE, LOCATION, RANGE};
use http::{HeaderMap, HeaderValue, Method};

use super::{Content, Description, Head, SessionStatus, WireForm};
use crate::content_range::{self, CommittedRange, ContentRange};
use crate::header::{X_HTTP_STATUS_CODE_OVERRIDE, X_UPLOAD_CONTENT_LENGTH, X_UPLOAD_CONTENT_TYPE};
use crate::transfer::exchange::{Chunk, ErrorReply, Reply, ReplyClass, Request};

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=UTF-8");

/// Google's form.
pub(super) struct Google;

impl WireForm for Google {
    fn start(&self, description: &Description<'_>) -> Head {
        let mut head = Head::new(description.method.clone());
        if let Some(content_type) = description.content_type {
            head.headers
                .insert(X_UPLOAD_CONTENT_TYPE, content_type.clone());
        }
        if let Some(total) = description.total {
            head.headers.insert(X_UPLOAD_CONTENT_LENGTH, total.into());
        }
        if description.metadata.is_some() {
            head.headers.insert(CONTENT_TYPE, JSON);
            head.content = Content::Metadata;
        }
        head
    }

    fn query(&self, total: Option<u64>) -> Head {
        ranged(ContentRange::Query { total }, Content::Empty)
    }

    fn append(&self, chunk: &Chunk) -> Head {
        ranged(range_of(chunk), Content::Chunk(*chunk))
    }

    fn cancel(&self) -> Head {
        Head::new(Method::DELETE)
    }

    fn read(&self, request: &Request, reply: &Reply<'_>) -> ReplyClass {
        let in_session = matches!(request, Request::Query { .. } | Request::Data(_));
        match reply.status.as_u16() {
            308 if in_session => incomplete(reply.headers),
            200 if in_session && stands_for_308(reply.headers) => incomplete(reply.headers),
            200..=299 if *request == Request::Start => started(reply.headers),
            200 | 201 if is_resource(reply) => ReplyClass::Complete,
            // A 204 confirms the request that carried the media. In reply to a query it may come
            // from a proxy that answers everything.
            204 if matches!(request, Request::SingleRequest | Request::Data(_)) => {
                ReplyClass::Complete
            }
            // The server has already acted, or another address would act: a retry could create a
            // second resource.
            200..=399 if !in_session => ReplyClass::NotTheProtocol,
            404 | 410 if in_session => ReplyClass::Lost,
            401 => ReplyClass::Unauthorized,
            499 => ReplyClass::Cancelled,
            408 | 429 | 500..=599 => ReplyClass::Transient,
            403 if ErrorReply::of(reply).is_rate_limit() => ReplyClass::Transient,
            // A second writer, a wrong connection, a request that is too early: each may pass.
            100..=399 | 409 | 421 | 423 | 425 => ReplyClass::Unexpected,
            _ => ReplyClass::Refused,
        }
    }

    fn read_cancel(&self, reply: &Reply<'_>) -> Option<SessionStatus> {
        match reply.status.as_u16() {
            499 | 200 | 204 => Some(SessionStatus::Cancelled),
            404 | 410 => Some(SessionStatus::Lost),
            _ => None,
        }
    }
}

fn ranged(range: ContentRange, content: Content) -> Head {
    let mut head = Head::new(Method::PUT);
    head.headers
        .insert(CONTENT_RANGE, content_range::header_value(range));
    Head { content, ..head }
}

/// Returns the range of a chunk. A chunk without bytes is a query, which states the total.
fn range_of(chunk: &Chunk) -> ContentRange {
    let Chunk { first, end, total } = *chunk;
    if chunk.is_empty() {
        return ContentRange::Query { total };
    }
    let last = end - 1;
    ContentRange::Bounded { first, last, total }
}

impl Request {
    /// Returns the `Content-Range` of a request to a session in [Google's form](super::Protocol);
    /// `None` for other requests.
    pub fn content_range(&self) -> Option<ContentRange> {
        match self {
            Self::SingleRequest | Self::Start => None,
            Self::Query { total } => Some(ContentRange::Query { total: *total }),
            Self::Data(chunk) => Some(range_of(chunk)),
        }
    }
}

/// Without a `Range` nothing is committed. A malformed `Range` states no reliable offset.
fn incomplete(headers: &HeaderMap) -> ReplyClass {
    let Some(range) = headers.get(RANGE) else {
        return ReplyClass::Incomplete { committed: 0 };
    };
    match CommittedRange::parse(range.as_bytes()) {
        Some(range) => ReplyClass::Incomplete {
            committed: range.committed(),
        },
        None => ReplyClass::Unexpected,
    }
}

fn stands_for_308(headers: &HeaderMap) -> bool {
    headers
        .get(X_HTTP_STATUS_CODE_OVERRIDE)
        .is_some_and(|status| status.as_bytes().trim_ascii() == b"308")
}

fn started(headers: &HeaderMap) -> ReplyClass {
    let location = headers
        .get(LOCATION)
        .and_then(|location| location.to_str().ok());
    match location {
        Some(location) if !location.trim().is_empty() => ReplyClass::Started {
            location: location.trim().to_owned(),
        },
        _ => ReplyClass::NotTheProtocol,
    }
}

/// A JSON object, or an empty body: a method need not show the resource that it created.
fn is_resource(reply: &Reply<'_>) -> bool {
    let body = reply.body.trim_ascii();
    matches!(body, [] | b"null" | [b'{', ..]) && !is_html(reply.headers)
}

/// Detects the HTML page of a proxy or a login portal.
fn is_html(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|content_type| {
        let essence = content_type.as_bytes().trim_ascii_start();
        essence.len() >= 9 && essence[..9].eq_ignore_ascii_case(b"text/html")
    })
}
