//! What was promised on the wire, and what became of it.
//!
//! The witness stands between client and server and believes nothing but replies. The rules are those of
//! `docs/durability.md`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};

use crate::trace::{digest, note};

/// Remembers every session and every broken rule. Clones are the same witness.
#[derive(Debug, Clone, Default)]
pub(crate) struct Witness(Arc<Mutex<Record>>);

#[derive(Debug, Default)]
struct Record {
    sessions: BTreeMap<String, Session>,
    broken: Vec<String>,
}

/// What is known of a session.
#[derive(Debug, Clone)]
struct Session {
    /// When it was asked for; its life begins no earlier.
    asked: SystemTime,
    /// When it was heard of; its life has begun then.
    heard: SystemTime,
    /// The highest offset that was acknowledged.
    acknowledged: u64,
    /// Somebody has asked for its end.
    may_be_cancelled: bool,
    end: Option<End>,
}

#[derive(Clone, PartialEq, Eq)]
enum End {
    /// With this reply.
    Finished(Bytes),
    Cancelled,
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finished(reply) => write!(f, "finished (reply {:016x})", digest(reply)),
            Self::Cancelled => f.write_str("cancelled"),
        }
    }
}

/// What was true when a request went out: its reply must not fall behind.
#[derive(Debug)]
pub(crate) struct Asked {
    uri: String,
    at: SystemTime,
    /// The length of the media, if the request told it.
    total: u64,
    before: Option<Session>,
}

impl Witness {
    /// A request goes out.
    pub(crate) fn asks(&self, method: &Method, uri: &str, headers: &HeaderMap) -> Asked {
        let mut record = self.lock();
        if let Some(session) = record.sessions.get_mut(uri) {
            session.may_be_cancelled |= method == Method::DELETE;
        }
        Asked {
            uri: uri.to_owned(),
            at: now(),
            total: total(headers),
            before: record.sessions.get(uri).cloned(),
        }
    }

    /// Its reply has come in.
    pub(crate) fn hears(
        &self,
        asked: &Asked,
        status: StatusCode,
        headers: &HeaderMap,
        body: &Bytes,
    ) {
        let mut record = self.lock();
        match &asked.before {
            None => record.begins(asked, status, headers),
            Some(before) => record.goes_on(asked, before, status, headers, body),
        }
    }

    /// A rule was broken.
    pub(crate) fn accuse(&self, what: String) {
        self.lock().accuse(what);
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
    fn accuse(&mut self, what: String) {
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
                acknowledged: 0,
                may_be_cancelled: false,
                end: None,
            };
            self.sessions.insert(location.to_owned(), session);
        }
    }

    fn goes_on(
        &mut self,
        asked: &Asked,
        before: &Session,
        status: StatusCode,
        headers: &HeaderMap,
        body: &Bytes,
    ) {
        let name = short(&asked.uri);
        let end = match status.as_u16() {
            308 => return self.acknowledges(asked, before, committed(headers)),
            200 | 201 => End::Finished(body.clone()),
            499 => End::Cancelled,
            404 | 410 => return self.is_lost(asked, before, status),
            // It says nothing of the session.
            _ => return,
        };
        if end == End::Cancelled && !self.may_be_cancelled(&asked.uri) {
            self.accuse(format!("{name}: cancelled, and nobody has asked for it"));
        }
        if let Some(known) = &before.end
            && *known != end
        {
            self.accuse(format!("{name}: was {known:?}, now it is {end:?}"));
        }
        if let Some(session) = self.sessions.get_mut(&asked.uri) {
            if end != End::Cancelled {
                session.acknowledged = session.acknowledged.max(asked.total);
            }
            session.end = Some(end);
        }
    }

    /// Whether somebody has asked for a session's end by now: it may come before an older reply.
    fn may_be_cancelled(&self, uri: &str) -> bool {
        self.sessions
            .get(uri)
            .is_some_and(|session| session.may_be_cancelled)
    }

    /// Rule 1, and halves of rules 3 and 4.
    fn acknowledges(&mut self, asked: &Asked, before: &Session, offset: u64) {
        let name = short(&asked.uri);
        if asked.at > before.heard + LIFETIME {
            self.accuse(format!("{name}: its time is over, and it goes on"));
        }
        if offset < before.acknowledged {
            let was = before.acknowledged;
            self.accuse(format!(
                "{name}: {was} bytes were acknowledged, now it is {offset}"
            ));
        }
        if let Some(end) = &before.end {
            self.accuse(format!("{name}: was {end:?}, now it goes on"));
        }
        if let Some(session) = self.sessions.get_mut(&asked.uri) {
            session.acknowledged = session.acknowledged.max(offset);
        }
    }

    /// A session lives until its time is over.
    fn is_lost(&mut self, asked: &Asked, before: &Session, status: StatusCode) {
        let name = short(&asked.uri);
        let is_finished = matches!(before.end, Some(End::Finished(_)));
        let is_cancelled = self.may_be_cancelled(&asked.uri) && !is_finished;
        if now() < before.asked + LIFETIME && !is_cancelled {
            let was = before.acknowledged;
            self.accuse(format!(
                "{name}: lost ({status}) with {was} bytes acknowledged"
            ));
        }
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

/// The length of the media that a request tells: what is behind the slash of its `Content-Range`.
fn total(headers: &HeaderMap) -> u64 {
    let range = headers
        .get("content-range")
        .and_then(|range| range.to_str().ok());
    let total = range.and_then(|range| range.rsplit('/').next()?.parse().ok());
    total.unwrap_or(0)
}

/// Enough of a session's URI to tell it from others.
fn short(uri: &str) -> String {
    let id = uri.rsplit("upload_id=").next().unwrap_or_default();
    format!("session {}", &id[..id.len().min(8)])
}
