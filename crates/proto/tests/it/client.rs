//! The parts of a client outside its [`Transfer`](windlass_proto::transfer::Transfer): media, and
//! requests on the wire.

use std::ops::Range;

use http::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method};
use windlass_proto::header::{X_GUPLOADER_NO_308, X_UPLOAD_CONTENT_LENGTH, X_UPLOAD_CONTENT_TYPE};
use windlass_proto::transfer::Request;

use crate::schedule::{Schedule, Source};

/// A request on the wire. Of the body it holds only the range in the media.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Range<u64>,
}

impl Outgoing {
    /// `session` is the query of the session's URI.
    pub(crate) fn of(
        request: Request,
        total: Option<u64>,
        session: Option<&str>,
        case: &Schedule,
    ) -> Self {
        match request {
            Request::Start => Self::start(total),
            Request::SingleRequest => Self::single_request(case.len),
            Request::Query { .. } => Self::put(request, 0..0, session, case),
            Request::Data(chunk) => Self::put(request, chunk.first..chunk.end, session, case),
        }
    }

    fn start(total: Option<u64>) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        headers.insert(
            X_UPLOAD_CONTENT_TYPE,
            HeaderValue::from_static("video/webm"),
        );
        if let Some(total) = total {
            headers.insert(X_UPLOAD_CONTENT_LENGTH, total.into());
        }
        Self {
            method: Method::POST,
            query: "uploadType=resumable".to_owned(),
            headers,
            body: 0..0,
        }
    }

    fn single_request(len: u64) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("video/webm"));
        // Some clients do not send the length.
        if len.is_multiple_of(2) {
            headers.insert(CONTENT_LENGTH, len.into());
        } else {
            headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        Self {
            method: Method::POST,
            query: "uploadType=media".to_owned(),
            headers,
            body: 0..len,
        }
    }

    fn put(request: Request, body: Range<u64>, session: Option<&str>, case: &Schedule) -> Self {
        let range = request
            .content_range()
            .expect("requests to a session have one");
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, (body.end - body.start).into());
        headers.insert(CONTENT_RANGE, range.into());
        if case.server.no_308 {
            headers.insert(X_GUPLOADER_NO_308, HeaderValue::from_static("yes"));
        }
        Self {
            method: Method::PUT,
            query: session.expect("a session was started").to_owned(),
            headers,
            body,
        }
    }
}

/// The media as the client has it.
#[derive(Debug)]
pub(crate) struct Reader {
    len: u64,
    window: Option<u64>,
    /// The available range.
    kept: Range<u64>,
    /// Whether the reader notices the end with the last byte, and not only after it.
    sees_end: bool,
}

impl Reader {
    pub(crate) fn new(case: &Schedule) -> Self {
        let seekable = case.source == Source::Seekable;
        Self {
            len: case.len,
            window: case.window(),
            kept: 0..if seekable { case.len } else { 0 },
            sees_end: case.total_known(),
        }
    }

    /// Reads more. Returns the number of available bytes and whether the media has ended. The last
    /// requested byte arrives separately, to test that the transfer waits for it.
    pub(crate) fn fill(&mut self, upto: u64) -> (u64, bool) {
        assert!(
            upto > self.kept.end,
            "filled {:?} already, not {upto}",
            self.kept
        );
        let all_but_one = (upto - 1).max(self.kept.end + 1);
        self.kept.end = all_but_one.min(self.len);
        let ended = all_but_one > self.len || (self.sees_end && all_but_one >= self.len);
        (self.kept.end, ended)
    }

    /// Drops bytes that will not be requested again.
    pub(crate) fn release(&mut self, floor: u64) {
        if self.window.is_some() {
            self.kept.start = self.kept.start.max(floor);
        } else {
            assert_eq!(floor, 0, "all of the media is kept");
        }
    }

    pub(crate) fn check(&self, body: &Range<u64>) {
        let kept = &self.kept;
        assert!(
            kept.start <= body.start && body.end <= kept.end,
            "{body:?} of {kept:?}"
        );
        if let Some(window) = self.window {
            // One more byte tells whether a chunk is the last.
            assert!(
                kept.end.saturating_sub(kept.start) <= window + 1,
                "{kept:?} is more than {window}"
            );
        }
    }
}
