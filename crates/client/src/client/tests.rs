//! Whole uploads over a transport that answers from a script, on a clock that is driven.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use http::header::{CONTENT_RANGE, LOCATION, RANGE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::time::Instant;

use super::*;
use crate::Kind;
use crate::transport::TransportError;

/// What a server says to one request.
enum Answer {
    /// Reads the body and answers.
    Says(u16, Vec<(HeaderName, String)>, &'static str),
    /// Reads the body; the connection breaks before the answer.
    Breaks,
    /// Never answers.
    Hangs,
}

fn says(status: u16) -> Answer {
    Answer::Says(status, Vec::new(), "")
}

fn started() -> Answer {
    Answer::Says(200, vec![(LOCATION, "/session?upload_id=1".into())], "")
}

fn has(committed: u64) -> Answer {
    let range = format!("bytes=0-{}", committed - 1);
    Answer::Says(308, vec![(RANGE, range)], "")
}

fn done(resource: &'static str) -> Answer {
    Answer::Says(201, Vec::new(), resource)
}

/// A request as the server saw it, and when.
struct Seen {
    at: Duration,
    line: String,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Seen {
    fn range(&self) -> &str {
        let range = self.headers.get(CONTENT_RANGE);
        range.map_or("", |range| range.to_str().expect("it is text"))
    }
}

struct Script {
    began: Instant,
    answers: Mutex<VecDeque<Answer>>,
    seen: Mutex<Vec<Seen>>,
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Script")
    }
}

impl Script {
    fn new(answers: impl IntoIterator<Item = Answer>) -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            answers: Mutex::new(answers.into_iter().collect()),
            seen: Mutex::default(),
        })
    }

    fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().expect("no test panicked"))
    }

    /// How long it took from each request to the next.
    fn waits(&self) -> Vec<Duration> {
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
        let answer = self.answers.lock().expect("no test panicked").pop_front();
        match answer.expect("the script has an answer left") {
            Answer::Says(status, headers, body) => Ok(Reply {
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
            Answer::Hangs => std::future::pending().await,
        }
    }
}

fn resumable() -> Upload {
    let url = "http://h/upload/farm/v1/animals"
        .parse()
        .expect("it is a URL");
    Upload::new(url)
        .expect("it is http")
        .upload_type(UploadType::Resumable)
}

async fn run(
    script: &Arc<Script>,
    upload: Upload,
    media: &'static [u8],
) -> Result<Uploaded, Error> {
    let client = Client::over(script.clone(), None);
    client.upload(upload, Source::bytes(media)).await
}

/// Whether a wait is so many seconds and at most one more.
#[track_caller]
fn assert_wait(waited: Duration, seconds: u64) {
    let (least, most) = (
        Duration::from_secs(seconds),
        Duration::from_secs(seconds + 1),
    );
    // tokio's clock has steps of a millisecond.
    let slack = Duration::from_millis(2);
    assert!(
        waited >= least && waited <= most + slack,
        "{waited:?} for {seconds} s"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_is_tried_six_times_with_the_waits_of_the_documents() {
    let script = Script::new((0..6).map(|_| says(503)));
    let error = run(&script, resumable(), b"Llama")
        .await
        .expect_err("it is down");
    assert_eq!(error.kind(), Kind::Unavailable);
    assert_eq!(error.status(), Some(StatusCode::SERVICE_UNAVAILABLE));
    assert!(error.is_retryable());
    let waits = script.waits();
    assert_eq!(waits.len(), 5);
    for (wait, seconds) in waits.iter().zip([1, 2, 4, 8, 16]) {
        assert_wait(*wait, seconds);
    }
    let whole: Duration = waits.iter().sum();
    assert!(whole >= Duration::from_secs(31) && whole < Duration::from_millis(36_010));
}

#[tokio::test(start_paused = true)]
async fn the_random_part_of_a_wait_is_drawn_anew() {
    let script = Script::new((0..6).map(|_| says(500)));
    run(&script, resumable(), b"Llama")
        .await
        .expect_err("it is down");
    let waits = script.waits();
    let mut parts: Vec<u32> = waits.iter().map(Duration::subsec_millis).collect();
    parts.sort_unstable();
    parts.dedup();
    // Five numbers out of a thousand: that all are equal happens once in 10^12 runs.
    assert!(parts.len() > 1, "{parts:?}");
}

#[tokio::test(start_paused = true)]
async fn progress_begins_the_waits_anew() {
    let script = Script::new([
        started(),
        Answer::Breaks,
        Answer::Breaks,
        has(2),
        Answer::Breaks,
        has(3),
        done(r#"{"size":"5"}"#),
    ]);
    run(&script, resumable(), b"Llama")
        .await
        .expect("it gets up");
    let waits = script.waits();
    assert_wait(waits[1], 1);
    assert_wait(waits[2], 2);
    assert_wait(waits[4], 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_when_to_come_back_is_obeyed() {
    let later = Answer::Says(429, vec![(RETRY_AFTER, "40".into())], "");
    let script = Script::new([started(), later, says(308), done("{}")]);
    run(&script, resumable(), b"Llama")
        .await
        .expect("it gets up");
    assert_eq!(script.waits()[1], Duration::from_secs(40));
}

#[tokio::test(start_paused = true)]
async fn what_was_kept_is_not_sent_again() {
    let script = Script::new([started(), Answer::Breaks, has(3), done(r#"{"size":"5"}"#)]);
    let uploaded = run(&script, resumable(), b"Llama")
        .await
        .expect("it gets up");
    assert!(uploaded.verified.size);
    let seen = script.seen();
    assert_eq!(
        seen[0].line,
        "POST http://h/upload/farm/v1/animals?uploadType=resumable"
    );
    assert_eq!(seen[1].range(), "bytes 0-4/5");
    assert_eq!(seen[2].range(), "bytes */5");
    assert_eq!(seen[3].line, "PUT http://h/session?upload_id=1");
    assert_eq!(
        (seen[3].range(), &seen[3].body[..]),
        ("bytes 3-4/5", &b"ma"[..])
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_session_is_replaced_by_a_new_one() {
    let script = Script::new([started(), says(404), started(), done("{}")]);
    let uploaded = run(&script, resumable(), b"Llama")
        .await
        .expect("it gets up");
    assert_eq!(uploaded.restarts, 1);
    assert_eq!(script.seen()[3].body, b"Llama");
}

#[tokio::test(start_paused = true)]
async fn other_media_than_was_sent_is_an_error() {
    let other = done(r#"{"size":"5","crc32c":"AAAAAA=="}"#);
    let script = Script::new([started(), other]);
    let error = run(&script, resumable(), b"Llama")
        .await
        .expect_err("it differs");
    assert_eq!(error.kind(), Kind::Mismatch);
    assert!(error.to_string().contains("crc32c"), "{error}");
    assert_eq!(error.session(), None);
}

#[tokio::test(start_paused = true)]
async fn media_that_was_partly_there_is_checked_as_a_whole() {
    let whole = done(r#"{"size":"5","crc32c":"9olWBA==","md5Hash":"nvT3hbJokJQSEtpnkoWcUQ=="}"#);
    let script = Script::new([started(), Answer::Breaks, has(3), whole]);
    let result = run(&script, resumable(), b"Llama").await;
    let uploaded = result.unwrap_or_else(|error| panic!("{error}"));
    assert!(uploaded.verified.crc32c && uploaded.verified.md5);
}

#[tokio::test(start_paused = true)]
async fn what_takes_longer_than_it_may_names_the_session_to_go_on_with() {
    let script = Script::new([started(), Answer::Hangs]);
    let upload = resumable().within(Duration::from_secs(90));
    let error = run(&script, upload, b"Llama").await.expect_err("it hangs");
    assert_eq!(error.kind(), Kind::Timeout);
    let session = error.session().expect("there is a session");
    assert!(session.reveal().ends_with("upload_id=1"));
    assert!(!format!("{error} {error:?}").contains("upload_id=1"));
}

#[tokio::test(start_paused = true)]
async fn a_session_without_encryption_is_refused_when_the_upload_began_with_it() {
    let plain = vec![(LOCATION, "http://h/session?upload_id=1".into())];
    let script = Script::new([Answer::Says(200, plain, "")]);
    let mut upload = resumable();
    upload.url = "https://h/upload".parse().expect("it is a URL");
    let error = run(&script, upload, b"Llama")
        .await
        .expect_err("it is refused");
    assert_eq!(error.kind(), Kind::Protocol);
}

#[tokio::test(start_paused = true)]
async fn small_media_goes_in_one_request_and_large_media_in_a_session() {
    let metadata = serde_json::json!({"name": "Llama"});
    let url = "http://h/upload?fields=id".parse().expect("it is a URL");
    let plain = Upload::new(url).expect("it is http");
    let described = plain.clone().metadata(&metadata).expect("it is an object");
    let large: &'static [u8] = vec![7; 5 * 1024 * 1024 + 1].leak();
    for (upload, media, uploads, content_type) in [
        (
            plain.clone(),
            &b"Llama"[..],
            "media",
            "application/octet-stream",
        ),
        (described, b"Llama", "multipart", "multipart/related"),
        (plain, large, "resumable", ""),
    ] {
        let first = if uploads == "resumable" {
            started()
        } else {
            done("{}")
        };
        let script = Script::new([first, done("{}")]);
        run(&script, upload, media).await.expect("it gets up");
        let seen = &script.seen()[0];
        let line = format!("POST http://h/upload?fields=id&uploadType={uploads}");
        assert_eq!(seen.line, line);
        let said = seen.headers.get("content-type");
        let said = said.map_or("", |value| value.to_str().expect("it is text"));
        assert!(said.starts_with(content_type), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_its_total_and_needs_no_more_memory_than_its_window() {
    const Q: usize = 256 * 1024;
    let media: &'static [u8] = vec![7; 2 * Q].leak();
    let script = Script::new([started(), has(Q as u64), done(r#"{"size":"524288"}"#)]);
    let client = Client::over(script.clone(), None);
    let source = Source::reader(media).with_window(Q as u64);
    let uploaded = client
        .upload(resumable(), source)
        .await
        .expect("it gets up");
    assert_eq!(uploaded.size, 2 * Q as u64);
    let ranges: Vec<String> = script
        .seen()
        .iter()
        .map(|seen| seen.range().to_owned())
        .collect();
    assert_eq!(
        ranges,
        ["", "bytes 0-262143/*", "bytes 262144-524287/524288"]
    );
}
