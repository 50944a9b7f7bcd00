//! A server in memory that supports ranges and has scripted faults.

use std::sync::Mutex;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::StatusCode;
use http::header::CONTENT_LENGTH;

use super::*;
use crate::transport::{Reply, TransportError};

/// Serves one media.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) media: Bytes,
    /// Headers of the responses with media, except `Content-Length` and `Content-Range`.
    pub(super) describe: Vec<(&'static str, String)>,
    /// Faults of the next requests, the last one first. Requests after these succeed.
    faults: Mutex<Vec<Fault>>,
    /// All requests, in order.
    log: Mutex<Vec<Seen>>,
}

/// A fault of a request.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// Nothing.
    None,
    /// No connection is established.
    Unreachable,
    /// The connection breaks after this many bytes of the body.
    BreaksAfter(usize),
    /// The connection breaks after this many bytes of the body, for which the client has waited a
    /// minute.
    DripsAfter(usize),
    /// As `BreaksAfter`, and the length of the body is not stated.
    BreaksWithoutLength(usize),
    /// Responds with this status and these headers.
    Status(u16, Vec<(&'static str, String)>),
    /// The range is ignored.
    IgnoresRange,
    /// Responds with this status, these headers and this body.
    Reply(u16, Vec<(&'static str, String)>, Bytes),
    /// Responds with a 206 with this `Content-Range` and this many last bytes of the media.
    Range(String, usize),
}

/// The URL and some headers of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) url: String,
    pub(super) range: Option<String>,
    pub(super) if_range: Option<String>,
    pub(super) authorization: Option<String>,
}

impl Server {
    pub(super) fn new(media: impl Into<Bytes>) -> Self {
        Self {
            media: media.into(),
            describe: vec![("etag", "\"v1\"".to_owned())],
            faults: Mutex::default(),
            log: Mutex::default(),
        }
    }

    /// Sets the faults of the next requests, the first one first.
    pub(super) fn failing(self, faults: impl IntoIterator<Item = Fault>) -> Self {
        let mut faults: Vec<_> = faults.into_iter().collect();
        faults.reverse();
        *self.faults.lock().unwrap() = faults;
        self
    }

    /// Replaces the default headers of responses with media, which are only an `ETag`.
    pub(super) fn describing(mut self, headers: &[(&'static str, &str)]) -> Self {
        let owned = headers
            .iter()
            .map(|&(name, value)| (name, value.to_owned()));
        self.describe = owned.collect();
        self
    }

    pub(super) fn log(&self) -> Vec<Seen> {
        self.log.lock().unwrap().clone()
    }

    fn etag(&self) -> Option<String> {
        let etag = self.describe.iter().find(|(name, _)| *name == "etag");
        etag.map(|(_, value)| value.clone())
    }

    /// Returns a response with the media from `start` on.
    fn media_from(&self, start: Option<usize>) -> Incoming {
        let rest = self.media.slice(start.unwrap_or(0)..);
        let mut headers = self.describe.clone();
        headers.push(("content-length", rest.len().to_string()));
        let status = match start {
            Some(start) => {
                let (last, total) = (self.media.len() - 1, self.media.len());
                headers.push(("content-range", format!("bytes {start}-{last}/{total}")));
                206
            }
            None => 200,
        };
        reply(status, headers, &rest)
    }

    fn unbroken(&self, seen: &Seen) -> Incoming {
        let range = seen.range.as_deref();
        let start = range.map(|range| range["bytes=".len()..range.len() - 1].parse().unwrap());
        match start.filter(|_| seen.if_range == self.etag()) {
            Some(start) if start >= self.media.len() => {
                let total = format!("bytes */{}", self.media.len());
                reply(416, vec![("content-range", total)], &Bytes::new())
            }
            start => self.media_from(start),
        }
    }
}

#[async_trait]
impl Transport for Server {
    async fn send(&self, request: Request) -> Result<Reply, TransportError> {
        self.open(request).await?.collect().await
    }

    async fn open(&self, request: Request) -> Result<Incoming, TransportError> {
        let header = |name| {
            let value = request.headers.get(name)?;
            Some(value.to_str().unwrap().to_owned())
        };
        let seen = Seen {
            url: request.url.to_string(),
            range: header(RANGE),
            if_range: header(IF_RANGE),
            authorization: header(AUTHORIZATION),
        };
        self.log.lock().unwrap().push(seen.clone());
        let fault = self.faults.lock().unwrap().pop().unwrap_or(Fault::None);
        Ok(match fault {
            Fault::None => self.unbroken(&seen),
            Fault::Unreachable => {
                return Err(TransportError::Connect {
                    host: "farm".to_owned(),
                    source: "nobody there".into(),
                });
            }
            Fault::BreaksAfter(len) => broken_after(self.unbroken(&seen), len),
            Fault::DripsAfter(len) => {
                let mut incoming = broken_after(self.unbroken(&seen), len);
                let slowly = |piece| async {
                    tokio::time::sleep(Duration::from_secs(60)).await;
                    piece
                };
                incoming.body = incoming.body.then(slowly).boxed();
                incoming
            }
            Fault::BreaksWithoutLength(len) => {
                let mut incoming = broken_after(self.unbroken(&seen), len);
                incoming.headers.remove(CONTENT_LENGTH);
                incoming
            }
            Fault::Status(status, headers) => reply(status, headers, &Bytes::new()),
            Fault::Reply(status, headers, body) => reply(status, headers, &body),
            Fault::IgnoresRange => self.media_from(None),
            Fault::Range(range, len) => {
                let mut headers = self.describe.clone();
                headers.push(("content-range", range));
                let end = self.media.slice(self.media.len() - len..);
                reply(206, headers, &end)
            }
        })
    }
}

fn reply(status: u16, headers: Vec<(&'static str, String)>, body: &Bytes) -> Incoming {
    let headers = headers
        .into_iter()
        .map(|(name, value)| (name.parse().unwrap(), HeaderValue::try_from(value).unwrap()));
    let pieces: Vec<_> = body.chunks(1000).map(Bytes::copy_from_slice).collect();
    Incoming {
        status: StatusCode::from_u16(status).unwrap(),
        headers: headers.collect(),
        host: "farm".to_owned(),
        body: stream::iter(pieces).map(Ok).boxed(),
    }
}

fn broken_after(incoming: Incoming, len: usize) -> Incoming {
    let error = TransportError::Broken {
        host: "farm".to_owned(),
        source: "cut".into(),
    };
    let mut left = len;
    let pieces = incoming.body.map(move |piece| {
        piece.map(|piece| {
            let piece = piece.slice(..piece.len().min(left));
            left -= piece.len();
            piece
        })
    });
    let pieces = pieces.take(len.div_ceil(1000));
    Incoming {
        body: pieces.chain(stream::once(async { Err(error) })).boxed(),
        ..incoming
    }
}
