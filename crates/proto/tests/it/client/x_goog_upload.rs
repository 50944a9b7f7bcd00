//! Requests and replies in the dialect `X-Goog-Upload`, as the libraries of Firebase and Gemini and
//! Google's generated libraries write and read them (docs/protocol.md, 2.12).
//!
//! After a failure these libraries behave as a transfer does: they ask for the offset and continue
//! there. Their replies are therefore read as the equivalent replies of Google's dialect, and the
//! same oracle judges them.

use std::ops::Range;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION, RANGE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use windlass_proto::content_range::CommittedRange;
use windlass_proto::header::{
    X_GOOG_UPLOAD_COMMAND, X_GOOG_UPLOAD_CONTENT_TYPE, X_GOOG_UPLOAD_HEADER_CONTENT_LENGTH,
    X_GOOG_UPLOAD_HEADER_CONTENT_TYPE, X_GOOG_UPLOAD_OFFSET, X_GOOG_UPLOAD_PROTOCOL,
    X_GOOG_UPLOAD_SIZE_RECEIVED, X_GOOG_UPLOAD_STATUS, X_GOOG_UPLOAD_URL,
};
use windlass_proto::transfer::{Chunk, Request};

use super::{Outgoing, length_of_all};
use crate::schedule::Finish;
use crate::server::Answer;

/// Writes a request. `session` is the query of the session's URI, `len` the size of the media.
pub(super) fn write(
    request: Request,
    total: Option<u64>,
    session: Option<&str>,
    len: u64,
    finish: Finish,
) -> Outgoing {
    let session = || session.expect("a session was started");
    match request {
        Request::Discover => unreachable!("the plan states the protocol"),
        Request::Start => start(total),
        Request::SingleRequest => single_request(len),
        Request::Query { .. } => command(session(), "query", None, 0..0),
        Request::Data(chunk) => data(session(), chunk, finish),
    }
}

fn start(total: Option<u64>) -> Outgoing {
    let mut headers = HeaderMap::new();
    let mut add = |name: HeaderName, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    add(X_GOOG_UPLOAD_PROTOCOL, "resumable");
    add(X_GOOG_UPLOAD_COMMAND, "start");
    add(X_GOOG_UPLOAD_HEADER_CONTENT_TYPE, "video/webm");
    add(CONTENT_LENGTH, "0");
    if let Some(total) = total {
        headers.insert(X_GOOG_UPLOAD_HEADER_CONTENT_LENGTH, total.into());
    }
    Outgoing {
        method: Method::POST,
        query: String::new(),
        headers,
        body: 0..0,
    }
}

fn single_request(len: u64) -> Outgoing {
    let mut headers = length_of_all(len);
    headers.insert(X_GOOG_UPLOAD_PROTOCOL, HeaderValue::from_static("raw"));
    headers.insert(
        X_GOOG_UPLOAD_CONTENT_TYPE,
        HeaderValue::from_static("video/webm"),
    );
    Outgoing {
        method: Method::POST,
        query: String::new(),
        headers,
        body: 0..len,
    }
}

fn data(session: &str, chunk: Chunk, finish: Finish) -> Outgoing {
    let body = chunk.first..chunk.end;
    let first = Some(chunk.first);
    let is_last = chunk.total == Some(chunk.end);
    match finish {
        _ if !is_last => command(session, "upload", first, body),
        Finish::WithData => command(session, "upload, finalize", first, body),
        Finish::Alone | Finish::AloneAtOffset if !chunk.is_empty() => {
            command(session, "upload", first, body)
        }
        Finish::Alone => command(session, "finalize", None, body),
        Finish::AloneAtOffset => command(session, "finalize", first, body),
    }
}

pub(super) fn cancel(session: &str) -> Outgoing {
    command(session, "cancel", None, 0..0)
}

fn command(session: &str, name: &'static str, first: Option<u64>, body: Range<u64>) -> Outgoing {
    let mut headers = HeaderMap::new();
    headers.insert(X_GOOG_UPLOAD_COMMAND, HeaderValue::from_static(name));
    headers.insert(CONTENT_LENGTH, (body.end - body.start).into());
    // The type of a body with data means nothing, and one library sends this one.
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(first) = first {
        headers.insert(X_GOOG_UPLOAD_OFFSET, first.into());
    }
    Outgoing {
        method: Method::POST,
        query: session.to_owned(),
        headers,
        body,
    }
}

/// Returns the reply of Google's dialect that means the same.
///
/// # Panics
/// If no fault explains the reply.
pub(super) fn read(outgoing: &Outgoing, answer: Answer) -> Answer {
    let is_ok = answer.status == StatusCode::OK;
    match text(&answer.headers, &X_GOOG_UPLOAD_STATUS) {
        // Of a proxy, or it asks for another try.
        None => answer,
        Some("active") if outgoing.query.is_empty() => {
            assert!(is_ok, "{answer:?} to a start");
            let uri = answer.headers.get(X_GOOG_UPLOAD_URL).cloned();
            Answer::new(200, "").with_header(LOCATION, uri.expect("a session has a URI"))
        }
        Some("active") => active(outgoing, &answer),
        Some("final") if is_ok => answer,
        Some("final") => {
            let is_lost = matches!(answer.status.as_u16(), 404 | 410);
            assert!(is_lost, "{answer:?} to what breaks no rule");
            answer
        }
        Some("cancelled") => Answer::new(499, ""),
        Some(other) => panic!("{other:?} is no state of an upload"),
    }
}

/// Reads a reply that says that more is to come, also if it is an error.
fn active(outgoing: &Outgoing, answer: &Answer) -> Answer {
    let is_ok = answer.status == StatusCode::OK;
    let command = text(&outgoing.headers, &X_GOOG_UPLOAD_COMMAND).expect("a session gets commands");
    let ends = command.contains("finalize");
    assert!(!(ends && is_ok), "{command:?} ends an upload or fails");
    let received = text(&answer.headers, &X_GOOG_UPLOAD_SIZE_RECEIVED);
    match received.map(str::parse) {
        Some(Ok(received)) => incomplete(received),
        // The offset is missing in no reply to a query. A chunk that is accepted is stored.
        None if is_ok && command == "upload" => incomplete(outgoing.body.end),
        // The reply has no offset at which to continue, so the client asks again.
        None | Some(Err(_)) => Answer::page(409),
    }
}

fn incomplete(committed: u64) -> Answer {
    let answer = Answer::new(308, "");
    match CommittedRange::of(committed) {
        Some(range) => answer.with_header(RANGE, range.into()),
        None => answer,
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let value = headers.get(name)?;
    Some(value.to_str().expect("ASCII"))
}
