//! Requests in Google's dialect.

use std::ops::Range;

use http::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use windlass_proto::header::{X_GUPLOADER_NO_308, X_UPLOAD_CONTENT_LENGTH, X_UPLOAD_CONTENT_TYPE};
use windlass_proto::transfer::Request;

use super::{Outgoing, length_of_all};
use crate::schedule::Options;

/// Writes a request. `session` is the query of the session's URI, `len` the size of the media.
pub(super) fn write(
    request: Request,
    total: Option<u64>,
    session: Option<&str>,
    len: u64,
    options: Options,
) -> Outgoing {
    match request {
        Request::Discover => unreachable!("the plan states the protocol"),
        Request::Start => start(total),
        Request::SingleRequest => single_request(len),
        Request::Query { .. } => put(request, 0..0, session, options),
        Request::Data(chunk) => put(request, chunk.first..chunk.end, session, options),
    }
}

fn start(total: Option<u64>) -> Outgoing {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    headers.insert(
        X_UPLOAD_CONTENT_TYPE,
        HeaderValue::from_static("video/webm"),
    );
    if let Some(total) = total {
        headers.insert(X_UPLOAD_CONTENT_LENGTH, total.into());
    }
    Outgoing {
        method: Method::POST,
        query: "uploadType=resumable".to_owned(),
        headers,
        body: 0..0,
    }
}

fn single_request(len: u64) -> Outgoing {
    let mut headers = length_of_all(len);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("video/webm"));
    Outgoing {
        method: Method::POST,
        query: "uploadType=media".to_owned(),
        headers,
        body: 0..len,
    }
}

fn put(request: Request, body: Range<u64>, session: Option<&str>, options: Options) -> Outgoing {
    let range = request
        .content_range()
        .expect("requests to a session have one");
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_LENGTH, (body.end - body.start).into());
    headers.insert(
        CONTENT_RANGE,
        windlass_proto::content_range::header_value(range),
    );
    if options.no_308 {
        headers.insert(X_GUPLOADER_NO_308, HeaderValue::from_static("yes"));
    }
    Outgoing {
        method: Method::PUT,
        query: session.expect("a session was started").to_owned(),
        headers,
        body,
    }
}

pub(super) fn cancel(session: &str) -> Outgoing {
    Outgoing {
        method: Method::DELETE,
        query: session.to_owned(),
        headers: HeaderMap::new(),
        body: 0..0,
    }
}
