//! Google's media upload protocol (docs/protocol.md, 2.3 to 2.8).

use http::header::{CONTENT_RANGE, CONTENT_TYPE, LOCATION, RANGE};
use http::{HeaderMap, Method};

use super::{Content, Description, Head, SessionStatus, Unsupported, WireForm, failure, text};
use crate::content_range::{self, CommittedRange, ContentRange};
use crate::header::{X_HTTP_STATUS_CODE_OVERRIDE, X_UPLOAD_CONTENT_LENGTH, X_UPLOAD_CONTENT_TYPE};
use crate::transfer::exchange::{Chunk, Committed, Reply, ReplyClass, Request};

/// Google's form.
pub(super) struct Google;

impl WireForm for Google {
    fn start(&self, description: &Description<'_>) -> Result<Head, Unsupported> {
        let mut head = Head::new(description.method.clone()).with_metadata(description);
        if let Some(content_type) = description.content_type {
            head = head.with(X_UPLOAD_CONTENT_TYPE, content_type.clone());
        }
        if let Some(total) = description.total {
            head = head.with(X_UPLOAD_CONTENT_LENGTH, total);
        }
        Ok(head)
    }

    fn query(&self, total: Option<u64>) -> Head {
        ranged(ContentRange::Query { total })
    }

    fn append(&self, chunk: &Chunk) -> Head {
        ranged(range_of(chunk)).with_content(Content::Chunk(*chunk))
    }

    fn cancel(&self) -> Head {
        Head::new(Method::DELETE)
    }

    fn read(&self, request: &Request, reply: &Reply<'_>) -> ReplyClass {
        let in_session = request.is_in_session();
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
            499 => ReplyClass::Cancelled,
            _ => failure(request, reply),
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

fn ranged(range: ContentRange) -> Head {
    Head::new(Method::PUT).with(CONTENT_RANGE, content_range::header_value(range))
}

/// Returns the range of a chunk. A chunk without bytes is a query, which states the total.
fn range_of(chunk: &Chunk) -> ContentRange {
    let Chunk {
        first, end, total, ..
    } = *chunk;
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
            Self::Discover | Self::SingleRequest | Self::Start => None,
            Self::Query { total } => Some(ContentRange::Query { total: *total }),
            Self::Data(chunk) => Some(range_of(chunk)),
        }
    }
}

/// Without a `Range` nothing is committed. A malformed `Range` states no reliable offset.
fn incomplete(headers: &HeaderMap) -> ReplyClass {
    let Some(range) = headers.get(RANGE) else {
        return ReplyClass::Incomplete(Committed::bytes(0));
    };
    match CommittedRange::parse(range.as_bytes()) {
        Some(range) => ReplyClass::Incomplete(Committed::bytes(range.committed())),
        None => ReplyClass::Unexpected,
    }
}

fn stands_for_308(headers: &HeaderMap) -> bool {
    headers
        .get(X_HTTP_STATUS_CODE_OVERRIDE)
        .is_some_and(|status| status.as_bytes().trim_ascii() == b"308")
}

fn started(headers: &HeaderMap) -> ReplyClass {
    match text(headers, &LOCATION) {
        Some(location) => ReplyClass::started_at(location),
        None => ReplyClass::NotTheProtocol,
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
