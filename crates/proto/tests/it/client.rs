//! The parts of a client outside its [`Transfer`](windlass_proto::transfer::Transfer): media, and
//! requests and replies on the wire.

use std::ops::Range;

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method};
use windlass_proto::session::CHUNK_GRANULARITY;
use windlass_proto::transfer::{Chunk, Request};

use crate::schedule::{Dialect, Habits, Schedule};
use crate::server::Answer;
use reader::Reader;

mod google;
mod reader;
mod x_goog_upload;

/// A request on the wire. Of the body it holds only the range in the media.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Range<u64>,
}

/// A client on the wire.
#[derive(Debug)]
pub(crate) struct Client<'a> {
    case: &'a Schedule,
    pub(crate) reader: Reader,
    /// The query of the session's URI, as stored by the client.
    session: Option<String>,
    /// The last request of this session, if it has data; queries do not count.
    last_data: Option<Outgoing>,
}

impl<'a> Client<'a> {
    pub(crate) fn new(case: &'a Schedule) -> Self {
        Self {
            case,
            reader: Reader::new(case),
            session: None,
            last_data: None,
        }
    }

    /// Restarts the client, which has stored the URI of its session. A stream starts at its
    /// beginning.
    pub(crate) fn restart(&mut self) {
        self.reader = Reader::new(self.case);
        self.last_data = None;
    }

    pub(crate) fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Continues with another session, or without a session.
    pub(crate) fn set_session(&mut self, session: Option<String>) {
        self.session = session;
        self.last_data = None;
    }

    /// Writes the request of the transfer. `total` is the size, as far as the transfer knows it.
    pub(crate) fn write(&mut self, request: Request, total: Option<u64>) -> Outgoing {
        let (session, len) = (self.session(), self.case.len);
        let outgoing = match self.case.dialect {
            Dialect::Google(options) => google::write(request, total, session, len, options),
            Dialect::XGoogUpload(habits) => {
                if let Some(again) = self.repeated(request, habits) {
                    return again;
                }
                let request = self.rounded(request, habits);
                x_goog_upload::write(request, total, session, len, habits.finish)
            }
        };
        if matches!(request, Request::Data(_)) {
            self.last_data = Some(outgoing.clone()).filter(|it| !it.body.is_empty());
        }
        outgoing
    }

    /// Writes the request that cancels a session.
    pub(crate) fn cancel(&self, session: &str) -> Outgoing {
        match self.case.dialect {
            Dialect::Google(_) => google::cancel(session),
            Dialect::XGoogUpload(_) => x_goog_upload::cancel(session),
        }
    }

    /// Returns a reply as a transfer reads it: in Google's dialect.
    pub(crate) fn read(&self, outgoing: &Outgoing, answer: Answer) -> Answer {
        match self.case.dialect {
            Dialect::Google(_) => answer,
            Dialect::XGoogUpload(_) => x_goog_upload::read(outgoing, answer),
        }
    }

    /// Returns the request with data that a client sends again where another one asks for the
    /// offset. The reply says the same.
    fn repeated(&self, request: Request, habits: Habits) -> Option<Outgoing> {
        let repeats = habits.repeats && matches!(request, Request::Query { .. });
        let again = self.last_data.as_ref().filter(|_| repeats)?;
        self.reader.has(&again.body).then(|| again.clone())
    }

    /// Returns the request with its offset rounded down, where the client has the bytes.
    fn rounded(&self, request: Request, habits: Habits) -> Request {
        match request {
            Request::Data(chunk) if habits.rounds && !chunk.is_empty() => {
                let first = chunk.first - chunk.first % CHUNK_GRANULARITY;
                let has = self.reader.has(&(first..chunk.end));
                let first = if has { first } else { chunk.first };
                Request::Data(Chunk { first, ..chunk })
            }
            _ => request,
        }
    }
}

/// The length of a request with the whole media.
fn length_of_all(len: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    // Some clients do not send the length.
    if len.is_multiple_of(2) {
        headers.insert(CONTENT_LENGTH, len.into());
    } else {
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    headers
}
