//! Which request is hit by which fault.

use std::fmt;
use std::io::Read as _;
use std::time::Duration;

use super::fault::Fault;
use super::head::Head;
use crate::media::{Media, MediaReader};

#[cfg(test)]
mod tests;

/// How long a body is taken to be when its request does not say it.
const USUAL_LENGTH: u64 = 1 << 20;

/// How many bytes the head of a reply has, about.
const USUAL_REPLY: u64 = 400;

/// Refusals that pass by themselves.
const PASSING: [(u16, &str); 4] = [
    (429, r#"{"error":{"code":429,"message":"Slow down."}}"#),
    (500, r#"{"error":{"code":500,"message":"Internal error."}}"#),
    (502, "<html><title>Error 502</title></html>\n"),
    (504, "<html><title>Error 504</title></html>\n"),
];

/// The information about a request for a plan: its head and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHead {
    /// Its place among all requests of the proxy, from 0.
    pub index: usize,
    /// The method.
    pub verb: String,
    /// Path and query.
    pub target: String,
    /// Whether it is sent to a session: its query has an `upload_id`, or its path is that of a session
    /// of tus.
    pub is_session: bool,
    /// Whether it starts a session: its upload type is `resumable`, and it has no `upload_id`.
    pub is_start: bool,
    /// `Content-Range` as it was sent.
    pub content_range: Option<String>,
    /// `Content-Length`; chunked bodies have none.
    pub content_length: Option<u64>,
}

impl RequestHead {
    pub(super) fn of(index: usize, head: &Head) -> Self {
        let is_session =
            head.parameter("upload_id").is_some() || head.target().contains("/upload/-tus/");
        Self {
            index,
            verb: head.verb().to_owned(),
            target: head.target().to_owned(),
            is_session,
            is_start: !is_session && head.parameter("uploadType") == Some("resumable"),
            content_range: head.field("content-range").map(str::to_owned),
            content_length: head.content_length(),
        }
    }
}

/// Chooses a fault, or none, for every request in the order in which they come.
pub struct Plan(Box<Choose>);

type Choose = dyn FnMut(&RequestHead) -> Option<Fault> + Send;

impl Plan {
    /// A plan of a test's own. A panic in it shows when the proxy is dropped.
    pub fn new(choose: impl FnMut(&RequestHead) -> Option<Fault> + Send + 'static) -> Self {
        Self(Box::new(choose))
    }

    /// No faults.
    pub fn none() -> Self {
        Self::new(|_| None)
    }

    /// The fault at every request.
    pub fn always(fault: Fault) -> Self {
        Self::new(move |_| Some(fault))
    }

    /// The fault at one of the requests to a session; `nth` is 0 for the first of them.
    pub fn once(nth: usize, fault: Fault) -> Self {
        let mut sessions = 0;
        Self::new(move |request| {
            sessions += usize::from(request.is_session);
            (request.is_session && sessions == nth + 1).then_some(fault)
        })
    }

    /// At most `at_most` faults at random requests: every second request is hit on average. The
    /// faults follow from the seed, provided that the requests come in sequence.
    ///
    /// All of them pass, so a client that tries again reaches its end; refusals that end an upload
    /// do not occur. Delays and slow bodies take a tenth of a second at most. A stall takes as long
    /// as the client is patient.
    pub fn mix(seed: u64, at_most: usize) -> Self {
        let mut rng = Rng::new(seed);
        let mut left = at_most;
        Self::new(move |request| {
            let hit = left > 0 && rng.below(2) == 0;
            left -= usize::from(hit);
            hit.then(|| rng.fault(request.content_length.unwrap_or(USUAL_LENGTH)))
        })
    }

    pub(super) fn choose(&mut self, request: &RequestHead) -> Option<Fault> {
        (self.0)(request)
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").finish_non_exhaustive()
    }
}

/// Numbers that follow from a seed, as media does.
struct Rng(MediaReader);

impl Rng {
    fn new(seed: u64) -> Self {
        Self(Media::new(seed, u64::MAX).reader(0..u64::MAX))
    }

    fn below(&mut self, limit: u64) -> u64 {
        let mut word = [0; 8];
        self.0
            .read_exact(&mut word)
            .expect("this media does not end");
        u64::from_le_bytes(word) % limit
    }

    fn fault(&mut self, length: u64) -> Fault {
        let after = self.below(length.saturating_add(1));
        match self.below(11) {
            0 => Fault::CutRequest { after },
            1 => Fault::ResetRequest { after },
            2 => Fault::Stall { after },
            3 => Fault::UnavailableAfter { after },
            4 => Fault::Unavailable {
                retry_after: (self.below(2) == 0).then_some(0),
            },
            5 => Fault::LoseReply,
            6 => Fault::CutReply {
                after: self.below(USUAL_REPLY),
            },
            7 => Fault::RangeLost,
            8 => self.refusal(),
            9 => Fault::Delay {
                by: Duration::from_millis(self.below(50)),
            },
            _ => Fault::Throttle {
                bytes_per_second: length.max(1).saturating_mul(10 + self.below(90)),
            },
        }
    }

    fn refusal(&mut self) -> Fault {
        let chosen = usize::try_from(self.below(PASSING.len() as u64)).expect("a small number");
        let (status, body) = PASSING[chosen];
        Fault::Replace { status, body }
    }
}
