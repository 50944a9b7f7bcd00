//! Google's protocol with the headers `X-Goog-Upload-*` (docs/protocol.md, 2.12).
//!
//! A reply has a state, which says more than its status: `active` keeps the session, `final` ends
//! it.

use http::{HeaderValue, Method};

use super::{
    Content, Description, Head, SessionStatus, Unsupported, WireForm, failure, number, text,
};
use crate::header::{
    X_GOOG_UPLOAD_CHUNK_GRANULARITY, X_GOOG_UPLOAD_COMMAND, X_GOOG_UPLOAD_HEADER_CONTENT_LENGTH,
    X_GOOG_UPLOAD_HEADER_CONTENT_TYPE, X_GOOG_UPLOAD_OFFSET, X_GOOG_UPLOAD_PROTOCOL,
    X_GOOG_UPLOAD_SIZE_RECEIVED, X_GOOG_UPLOAD_STATUS, X_GOOG_UPLOAD_URL,
};
use crate::transfer::exchange::{Chunk, ChunkLimits, Committed, Reply, ReplyClass, Request};

/// The form of `X-Goog-Upload`.
pub(super) struct XGoogUpload;

/// The state of an upload in a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UploadState {
    Active,
    Final,
    Cancelled,
}

impl WireForm for XGoogUpload {
    fn start(&self, description: &Description<'_>) -> Result<Head, Unsupported> {
        let mut head = Head::new(description.method.clone())
            .with_metadata(description)
            .with(
                X_GOOG_UPLOAD_PROTOCOL,
                HeaderValue::from_static("resumable"),
            )
            .with(X_GOOG_UPLOAD_COMMAND, HeaderValue::from_static("start"));
        if let Some(content_type) = description.content_type {
            head = head.with(X_GOOG_UPLOAD_HEADER_CONTENT_TYPE, content_type.clone());
        }
        if let Some(total) = description.total {
            head = head.with(X_GOOG_UPLOAD_HEADER_CONTENT_LENGTH, total);
        }
        Ok(head)
    }

    fn query(&self, _total: Option<u64>) -> Head {
        command("query")
    }

    fn append(&self, chunk: &Chunk) -> Head {
        let is_last = chunk.total == Some(chunk.end);
        let name = match (is_last, chunk.is_empty()) {
            (true, true) => "finalize",
            (true, false) => "upload, finalize",
            (false, _) => "upload",
        };
        command(name)
            .with(X_GOOG_UPLOAD_OFFSET, chunk.first)
            .with_content(Content::Chunk(*chunk))
    }

    fn cancel(&self) -> Head {
        command("cancel")
    }

    fn read(&self, request: &Request, reply: &Reply<'_>) -> ReplyClass {
        let is_success = reply.status.is_success();
        match state_of(reply) {
            Some(UploadState::Active) if is_success => active(request, reply),
            // The session is intact, but it did not take the request as it was.
            Some(UploadState::Active)
                if request.is_in_session()
                    && matches!(reply.status.as_u16(), 400 | 409 | 412 | 416) =>
            {
                ReplyClass::WrongOffset {
                    committed: number(reply.headers, &X_GOOG_UPLOAD_SIZE_RECEIVED),
                }
            }
            Some(UploadState::Final) if request.is_in_session() => ended(reply),
            Some(UploadState::Cancelled) => ReplyClass::Cancelled,
            // Without a state the reply may come from something between client and server.
            Some(UploadState::Active | UploadState::Final) | None => failure(request, reply),
        }
    }

    fn read_cancel(&self, reply: &Reply<'_>) -> Option<SessionStatus> {
        match (reply.status.as_u16(), state_of(reply)) {
            (_, Some(UploadState::Cancelled)) => Some(SessionStatus::Cancelled),
            (404 | 410, _) => Some(SessionStatus::Lost),
            _ => None,
        }
    }
}

/// Returns the head of a request to a session.
fn command(name: &'static str) -> Head {
    Head::new(Method::POST).with(X_GOOG_UPLOAD_COMMAND, HeaderValue::from_static(name))
}

fn state_of(reply: &Reply<'_>) -> Option<UploadState> {
    let state = text(reply.headers, &X_GOOG_UPLOAD_STATUS)?;
    [
        ("active", UploadState::Active),
        ("final", UploadState::Final),
        ("cancelled", UploadState::Cancelled),
    ]
    .into_iter()
    .find_map(|(name, known)| state.eq_ignore_ascii_case(name).then_some(known))
}

/// Reads a success that leaves the session active.
fn active(request: &Request, reply: &Reply<'_>) -> ReplyClass {
    let received = number(reply.headers, &X_GOOG_UPLOAD_SIZE_RECEIVED);
    let bytes = match request {
        Request::Start => return started(reply),
        Request::Query { .. } => received,
        // A chunk that is accepted is stored.
        Request::Data(chunk) => received.or(Some(chunk.end)),
        Request::Discover | Request::SingleRequest => return ReplyClass::NotTheProtocol,
    };
    match bytes {
        Some(bytes) => ReplyClass::Incomplete(Committed {
            limits: limits(reply),
            ..Committed::bytes(bytes)
        }),
        None => ReplyClass::Unexpected,
    }
}

fn started(reply: &Reply<'_>) -> ReplyClass {
    match text(reply.headers, &X_GOOG_UPLOAD_URL) {
        Some(url) => ReplyClass::Started {
            location: url.to_owned(),
            limits: limits(reply).unwrap_or_default(),
        },
        None => ReplyClass::NotTheProtocol,
    }
}

/// Reads a reply of a session that has ended.
fn ended(reply: &Reply<'_>) -> ReplyClass {
    match reply.status.as_u16() {
        200..=299 => ReplyClass::Complete,
        404 | 410 => ReplyClass::Lost,
        401 => ReplyClass::Unauthorized,
        _ => ReplyClass::Rejected,
    }
}

fn limits(reply: &Reply<'_>) -> Option<ChunkLimits> {
    let granularity = number(reply.headers, &X_GOOG_UPLOAD_CHUNK_GRANULARITY)?;
    Some(ChunkLimits {
        granularity: Some(granularity),
        ..ChunkLimits::default()
    })
}
