//! The adapter of the [oracle](windlass_testkit::oracle) for simulated time.
//!
//! It observes the messages between client and server, and trusts only replies.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use windlass_testkit::oracle::{Age, Answer, Event, Promise, judge};

use crate::os::trace::note;

/// Remembers every session and every broken rule. Clones share their memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Oracle(Arc<Mutex<Record>>);

#[derive(Debug, Default)]
struct Record {
    sessions: BTreeMap<String, Session>,
    broken: Vec<String>,
}

/// The facts known about a session.
#[derive(Debug, Clone)]
struct Session {
    /// When the session was requested. Its lifetime begins no earlier.
    asked: SystemTime,
    /// When the first reply arrived. The lifetime has begun by then.
    heard: SystemTime,
    promise: Promise,
    /// Number of bytes that were acknowledged, also of sessions that were cancelled later.
    acknowledged: u64,
}

/// The state of a session when a request was sent. The reply must not fall behind it.
#[derive(Debug)]
pub(crate) struct Asked {
    uri: String,
    at: SystemTime,
    /// The length of the media, if the request told it; 0 otherwise.
    total: u64,
    before: Option<Session>,
}

impl Oracle {
    /// Takes in a request that goes out.
    pub(crate) fn request(&self, method: &Method, uri: &str, headers: &HeaderMap) -> Asked {
        let mut record = self.lock();
        if let Some(session) = record.sessions.get_mut(uri) {
            if method == Method::DELETE {
                session.promise.note(&Event::CancelSent);
            }
            // A request without a range, which is no query, sends the whole media.
            let sent = match headers.get("content-range") {
                Some(_) => sent(headers),
                None => u64::MAX,
            };
            session.promise.note(&Event::Sent(0..sent));
        }
        Asked {
            uri: uri.to_owned(),
            at: now(),
            total: total(headers),
            before: record.sessions.get(uri).cloned(),
        }
    }

    /// Takes in its reply.
    pub(crate) fn reply(
        &self,
        asked: &Asked,
        status: StatusCode,
        headers: &HeaderMap,
        body: &Bytes,
    ) {
        let mut record = self.lock();
        match &asked.before {
            None => record.begins(asked, status, headers),
            Some(before) => record.goes_on(asked, before, &answer(status, headers, body)),
        }
    }

    /// Notes that a rule was broken.
    pub(crate) fn violate(&self, what: impl Display) {
        self.lock().violate(what.to_string());
    }

    /// The rules that were broken.
    pub(crate) fn broken(&self) -> Vec<String> {
        self.lock().broken.clone()
    }

    /// All sessions that were begun.
    pub(crate) fn sessions(&self) -> Vec<String> {
        self.lock().sessions.keys().cloned().collect()
    }

    /// How many bytes of media were acknowledged, over all sessions.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.lock()
            .sessions
            .values()
            .map(|session| session.acknowledged)
            .sum()
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    fn violate(&mut self, what: String) {
        note!("BROKEN   {what}");
        self.broken.push(what);
    }

    fn begins(&mut self, asked: &Asked, status: StatusCode, headers: &HeaderMap) {
        let location = headers
            .get("location")
            .and_then(|location| location.to_str().ok());
        if let (StatusCode::OK, Some(location)) = (status, location) {
            let session = Session {
                asked: asked.at,
                heard: now(),
                promise: Promise::of(&[Event::Started]),
                acknowledged: 0,
            };
            self.sessions.insert(location.to_owned(), session);
        }
    }

    fn goes_on(&mut self, asked: &Asked, before: &Session, answer: &Answer) {
        let Some(session) = self.sessions.get_mut(&asked.uri) else {
            return;
        };
        // A cancel of another request may be carried out before an older reply arrives.
        let promise = Promise {
            may_be_cancelled: session.promise.may_be_cancelled,
            ..before.promise.clone()
        };
        let age = Age {
            may_have_expired: now() >= before.asked + LIFETIME,
            has_expired: asked.at > before.heard + LIFETIME,
        };
        let acknowledged = match answer {
            Answer::Committed(offset) => *offset,
            Answer::Finished(_) => asked.total,
            _ => 0,
        };
        session.acknowledged = session.acknowledged.max(acknowledged);
        if let Some(event) = answer.event() {
            session.promise.note(&event);
        }
        if let Some(rule) = judge(&promise, answer, age) {
            self.violate(format!("{}: {rule}", short(&asked.uri)));
        }
    }
}

/// The meaning of a reply to a request of a session. A status that says nothing of the session is a
/// refusal.
fn answer(status: StatusCode, headers: &HeaderMap, body: &Bytes) -> Answer {
    match status.as_u16() {
        308 => Answer::Committed(committed(headers)),
        200 | 201 => Answer::Finished(body.to_vec()),
        499 => Answer::Cancelled,
        404 | 410 => Answer::Unknown,
        other => Answer::NotNow(other),
    }
}

/// How long the servers of the simulation keep a session.
pub(crate) const LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The simulated time of day.
#[expect(
    clippy::disallowed_methods,
    reason = "it is the simulation's own clock"
)]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}

/// The offset that a 308 tells.
fn committed(headers: &HeaderMap) -> u64 {
    let range = headers.get("range").and_then(|range| range.to_str().ok());
    let last = range.and_then(|range| range.strip_prefix("bytes=0-")?.parse::<u64>().ok());
    last.map_or(0, |last| last + 1)
}

/// The end of the bytes that a request sends, as its `Content-Range` says; 0 for a query.
fn sent(headers: &HeaderMap) -> u64 {
    let range = content_range(headers).and_then(|range| range.split('/').next());
    let last = range.and_then(|range| range.rsplit('-').next()?.parse::<u64>().ok());
    last.map_or(0, |last| last + 1)
}

/// Returns the length of the media in a request: the number after the slash of its `Content-Range`.
fn total(headers: &HeaderMap) -> u64 {
    let total = content_range(headers).and_then(|range| range.rsplit('/').next()?.parse().ok());
    total.unwrap_or(0)
}

fn content_range(headers: &HeaderMap) -> Option<&str> {
    headers.get("content-range")?.to_str().ok()
}

/// Enough of a session's URI to tell it from others.
fn short(uri: &str) -> String {
    let id = uri.rsplit("upload_id=").next().unwrap_or_default();
    let id = id.rsplit("/-tus/").next().unwrap_or_default();
    format!("session {}", &id[..id.len().min(8)])
}
