//! Tests of single rules. `tests/it` tests them in combination.

use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderName, LOCATION, RANGE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::*;
use crate::content_range::{CHUNK_GRANULARITY, CommittedRange};
use crate::header::X_HTTP_STATUS_CODE_OVERRIDE;
use crate::upload_type::UploadType;

mod chunk_sizer;
mod discovery;
mod failures;
mod ietf;
mod offsets;
mod phases;
mod plans;
mod replies;
mod retry_policy;
mod sessions;
mod streams;
mod tokens;
mod tus;
mod x_goog_upload;

const Q: u64 = CHUNK_GRANULARITY;

const SESSION_URI: &str = "https://up.example.com/u?upload_id=secret";

/// Size of media that is sent in one request by default.
const LEN: u64 = 3 * Q + 1000;

/// A reply to be sent.
#[derive(Debug, Clone)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
    retry_after: Option<Duration>,
}

fn answer(status: u16) -> Answer {
    Answer {
        status: StatusCode::from_u16(status).expect("a status"),
        headers: HeaderMap::new(),
        body: String::new(),
        retry_after: None,
    }
}

/// Returns a `308`, with `Range` if bytes are committed.
fn incomplete(committed: u64) -> Answer {
    match CommittedRange::of(committed) {
        Some(range) => answer(308).with(RANGE, range.into()),
        None => answer(308),
    }
}

fn ranged(range: &'static str) -> Answer {
    answer(308).with(RANGE, HeaderValue::from_static(range))
}

fn session_start() -> Answer {
    answer(200).with(LOCATION, HeaderValue::from_static(SESSION_URI))
}

fn page(status: u16) -> Answer {
    answer(status)
        .with(
            CONTENT_TYPE,
            HeaderValue::from_static("text/html; charset=UTF-8"),
        )
        .body("<!DOCTYPE html>\n<html>Sign in</html>")
}

/// Returns a reply with Google's error object.
fn refusal(status: u16, reason: &str) -> Answer {
    answer(status).body(&format!(
        r#"{{"error": {{"code": {status}, "message": "No.", "errors": [{{"reason": "{reason}"}}]}}}}"#
    ))
}

impl Answer {
    fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    fn field(self, name: &'static str, value: &str) -> Self {
        self.with(
            HeaderName::from_static(name),
            value.parse().expect("it is a value"),
        )
    }

    fn body(self, body: &str) -> Self {
        Self {
            body: body.to_owned(),
            ..self
        }
    }

    fn retry_after(self, seconds: u64) -> Self {
        Self {
            retry_after: Some(Duration::from_secs(seconds)),
            ..self
        }
    }

    fn reply(&self) -> Reply<'_> {
        Reply {
            status: self.status,
            headers: &self.headers,
            body: self.body.as_bytes(),
            retry_after: self.retry_after,
        }
    }

    fn to(&self, transfer: &mut Transfer) -> Event {
        transfer.replied(&self.reply(), 0)
    }
}

fn seekable() -> Plan {
    Plan::resumable(Media::seekable(LEN))
}

fn fixed(multiples: u64) -> Chunking {
    Chunking::Fixed(ChunkSize::new(multiples * Q).expect("a multiple above zero"))
}

/// Returns a transfer just after the start of its session.
fn in_session(plan: Plan) -> Transfer {
    let mut transfer = Transfer::start(plan);
    session_start().to(&mut transfer);
    transfer
}

/// Returns a transfer of `LEN` seekable bytes just after the start of its session.
fn sending() -> Transfer {
    in_session(seekable())
}

/// Returns a transfer that waits for the reply to a query.
fn querying() -> Transfer {
    let mut transfer = sending();
    transfer.broke(0);
    transfer.waited();
    transfer
}

/// Writes the head of the current request.
#[track_caller]
fn head(transfer: &Transfer) -> Head {
    let description = Description {
        total: transfer.total(),
        ..Description::default()
    };
    transfer
        .head(&request(transfer), &description)
        .expect("the protocol carries it")
}

/// Asserts that a head has this method and these header fields, and no others.
#[track_caller]
fn assert_head(head: &Head, method: &Method, fields: &[(&str, &str)]) {
    assert_eq!(head.method, *method);
    let mut found: Vec<_> = head
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().expect("it is text")))
        .collect();
    found.sort_unstable();
    let mut expected = fields.to_vec();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[track_caller]
fn request(transfer: &Transfer) -> Request {
    match transfer.poll() {
        Action::Send(request) => request,
        other => panic!("{other:?} sends nothing"),
    }
}

#[track_caller]
fn content_range(transfer: &Transfer) -> String {
    let range = request(transfer).content_range();
    range.expect("a request to a session").to_string()
}

#[track_caller]
fn wait(transfer: &Transfer) -> Wait {
    match transfer.poll() {
        Action::Wait(wait) => wait,
        other => panic!("{other:?} does not wait"),
    }
}

#[track_caller]
fn failure(transfer: &Transfer) -> Failure {
    match transfer.poll() {
        Action::Failed(failure) => failure,
        other => panic!("{other:?} has not failed"),
    }
}

/// Ends the wait, if there is one.
fn end_wait(transfer: &mut Transfer) {
    if matches!(transfer.poll(), Action::Wait(_)) {
        transfer.waited();
    }
}

/// Meets every request with the same result. Returns the number of requests and the final failure.
#[track_caller]
fn run_until_failure(
    transfer: &mut Transfer,
    mut meet: impl FnMut(&mut Transfer),
) -> (usize, Failure) {
    for requests in 1..100 {
        request(transfer);
        meet(transfer);
        if let Action::Failed(failure) = transfer.poll() {
            return (requests, failure);
        }
        end_wait(transfer);
    }
    panic!("it goes on for ever");
}
