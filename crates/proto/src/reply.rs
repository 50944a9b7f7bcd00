//! Replies of the protocol itself: a session has started, a chunk is committed (docs/protocol.md,
//! 2.7, 2.8).
//!
//! The server makes replies that carry a resource, and replies to errors.

use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, EXPIRES, LOCATION, PRAGMA, RANGE};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::content_range::CommittedRange;
use crate::header::{X_GUPLOADER_UPLOADID, X_HTTP_STATUS_CODE_OVERRIDE};

#[cfg(test)]
mod tests;

/// Status and headers of a reply without a body.
#[derive(Debug, Clone)]
pub struct ReplyHead {
    /// The status.
    pub status: StatusCode,
    /// Reason phrase, where it is not the status's usual one.
    pub reason_phrase: Option<&'static str>,
    /// The headers.
    pub headers: HeaderMap,
}

impl ReplyHead {
    fn empty(status: StatusCode) -> Self {
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
        }
    }
}

/// Returns the reply to the start of a session. `location` is the absolute session URI, which
/// carries `upload_id`.
///
/// The status is exactly 200 and caching is forbidden, because several clients accept nothing else.
pub fn started(location: HeaderValue, upload_id: HeaderValue) -> ReplyHead {
    let mut reply = ReplyHead::empty(StatusCode::OK);
    let headers = &mut reply.headers;
    headers.insert(LOCATION, location);
    headers.insert(X_GUPLOADER_UPLOADID, upload_id);
    headers.insert(
        CACHE_CONTROL,
        HeaderValue::from_static("no-cache, no-store, max-age=0, must-revalidate"),
    );
    headers.insert(PRAGMA, HeaderValue::from_static("no-cache"));
    headers.insert(
        EXPIRES,
        HeaderValue::from_static("Mon, 01 Jan 1990 00:00:00 GMT"),
    );
    reply
}

/// Returns the reply to an unfinished upload with `committed` bytes.
///
/// The status is `308 Resume Incomplete`. With `no_308` it is a `200` with the status 308 in a
/// header, because the HTTP stacks of some clients treat a 308 as a redirection. The reply never
/// has a `Location`, because clients would follow it.
pub fn resume_incomplete(committed: u64, no_308: bool) -> ReplyHead {
    let mut reply = if no_308 {
        let mut reply = ReplyHead::empty(StatusCode::OK);
        reply
            .headers
            .insert(X_HTTP_STATUS_CODE_OVERRIDE, HeaderValue::from_static("308"));
        reply
    } else {
        let reply = ReplyHead::empty(StatusCode::PERMANENT_REDIRECT);
        ReplyHead {
            reason_phrase: Some("Resume Incomplete"),
            ..reply
        }
    };
    if let Some(range) = CommittedRange::of(committed) {
        reply.headers.insert(RANGE, range.into());
    }
    reply
}
