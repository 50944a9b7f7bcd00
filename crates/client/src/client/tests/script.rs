//! A transport that sends scripted replies and records its requests.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use http::header::{CONTENT_RANGE, LOCATION, RANGE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::time::Instant;

use crate::transport::{Body, Reply, Request, Transport, TransportError};

/// The scripted result of one request.
pub(super) enum Answer {
    /// Reads the body and replies.
    Replies(u16, Vec<(HeaderName, String)>, &'static str),
    /// Replies after the first piece of the body.
    RepliesEarly(u16),
    /// Reads the body and breaks the connection before the reply.
    Breaks,
    /// The name of the server is unknown.
    UnknownHost,
    /// Never replies.
    Hangs,
}

pub(super) fn replies(status: u16) -> Answer {
    Answer::Replies(status, Vec::new(), "")
}

pub(super) fn started() -> Answer {
    Answer::Replies(200, vec![(LOCATION, "/session?upload_id=1".into())], "")
}

pub(super) fn committed(committed: u64) -> Answer {
    let range = format!("bytes=0-{}", committed - 1);
    Answer::Replies(308, vec![(RANGE, range)], "")
}

pub(super) fn finished(resource: &'static str) -> Answer {
    Answer::Replies(201, Vec::new(), resource)
}

/// A recorded request and its time.
pub(super) struct Seen {
    at: Duration,
    pub(super) line: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Seen {
    pub(super) fn range(&self) -> &str {
        let range = self.headers.get(CONTENT_RANGE);
        range.map_or("", |range| range.to_str().expect("it is text"))
    }
}

pub(super) struct Script {
    began: Instant,
    answers: Mutex<VecDeque<Answer>>,
    seen: Mutex<Vec<Seen>>,
    before_the_last: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Script")
    }
}

impl Script {
    pub(super) fn new(answers: impl IntoIterator<Item = Answer>) -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            answers: Mutex::new(answers.into_iter().collect()),
            seen: Mutex::default(),
            before_the_last: Mutex::default(),
        })
    }

    /// Calls `act` after the last request is read and before its reply.
    pub(super) fn before_the_last(&self, act: impl FnOnce() + Send + 'static) {
        *self.before_the_last.lock().expect("no test panicked") = Some(Box::new(act));
    }

    fn next(&self) -> Option<Answer> {
        let mut answers = self.answers.lock().expect("no test panicked");
        let answer = answers.pop_front();
        let act = self
            .before_the_last
            .lock()
            .expect("no test panicked")
            .take_if(|_| answers.is_empty());
        if let Some(act) = act {
            act();
        }
        answer
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().expect("no test panicked"))
    }

    fn replies_early(&self) -> bool {
        let answers = self.answers.lock().expect("no test panicked");
        matches!(answers.front(), Some(Answer::RepliesEarly(_)))
    }

    /// Returns the times between consecutive requests.
    pub(super) fn waits(&self) -> Vec<Duration> {
        let times: Vec<Duration> = self.seen().iter().map(|seen| seen.at).collect();
        times
            .windows(2)
            .map(|pair| pair[1].abs_diff(pair[0]))
            .collect()
    }
}

#[async_trait]
impl Transport for Script {
    async fn send(&self, request: Request) -> Result<Reply, TransportError> {
        let body = match request.body {
            Body::Empty => Vec::new(),
            Body::Bytes(bytes) => bytes.to_vec(),
            Body::Stream { mut stream, .. } if self.replies_early() => {
                let piece = stream.try_next().await.map_err(TransportError::Media)?;
                piece.unwrap_or_default().to_vec()
            }
            Body::Stream { length, stream } => {
                let pieces: Vec<Bytes> =
                    stream.try_collect().await.map_err(TransportError::Media)?;
                let body = pieces.concat();
                assert_eq!(body.len() as u64, length);
                body
            }
        };
        self.seen.lock().expect("no test panicked").push(Seen {
            at: self.began.elapsed(),
            line: format!("{} {}", request.method, request.url),
            headers: request.headers,
            body,
        });
        let answer = self.next();
        match answer.expect("the script has an answer left") {
            Answer::RepliesEarly(status) => Ok(Reply {
                status: StatusCode::from_u16(status).expect("it is a status"),
                headers: HeaderMap::new(),
                body: Bytes::new(),
            }),
            Answer::Replies(status, headers, body) => Ok(Reply {
                status: StatusCode::from_u16(status).expect("it is a status"),
                headers: headers
                    .into_iter()
                    .map(|(name, value)| (name, HeaderValue::try_from(value).expect("it is text")))
                    .collect(),
                body: Bytes::from_static(body.as_bytes()),
            }),
            Answer::Breaks => Err(TransportError::Broken {
                host: "h".into(),
                source: "it broke".into(),
            }),
            Answer::UnknownHost => Err(TransportError::UnknownHost { host: "h".into() }),
            Answer::Hangs => std::future::pending().await,
        }
    }
}
