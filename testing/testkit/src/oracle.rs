//! The rules of `docs/durability.md`: the server's promises, and how an answer breaks them.
//!
//! 1. An acknowledged offset never decreases.
//! 2. The final media equals the bytes that were sent.
//! 3. A finished session stays finished, with one resource and equal replies.
//! 4. A cancelled, failed or expired session never yields a resource.
//! 5. After a sweep there is no media without a row and no row without media.
//!
//! The oracle has no clock and does no I/O. An adapter turns requests into [`Event`]s and replies
//! into [`Answer`]s, keeps the [`Promise`] of each upload, and asks [`judge`]. There are three
//! adapters: for the real process ([`checker`](crate::checker)), for simulated time
//! (`testing/sim`), and for a server inside of the test's process (`lives` in the tests of
//! `crates/server`). Rules 2 and 5 are not visible in answers: an adapter compares media or
//! inspects the store and reports [`Rule::MediaDiffers`] or [`Rule::Store`].

use std::fmt;
use std::ops::Range;

#[cfg(test)]
mod tests;

/// Something that happened to an upload, as its client saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A request with these bytes of the media is about to be sent.
    Sent(Range<u64>),
    /// The server has started a session; its target is kept with the upload.
    Started,
    /// The server has said that this number of bytes is committed.
    Committed(u64),
    /// The server has said that the upload is complete, with this body.
    Finished(Vec<u8>),
    /// A cancel is about to be sent.
    CancelSent,
    /// The server has said that the session was cancelled.
    Cancelled,
    /// The server has said: not now.
    Refused(u16),
    /// The connection broke, or nothing came in time.
    Broken(std::io::ErrorKind),
    /// The test injected a fault.
    Fault(String),
}

/// The meaning of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A session was started; this is the target of its requests.
    Started(String),
    /// This number of bytes is committed.
    Committed(u64),
    /// The upload is complete. The body is to be repeated, in every reply to come that has one: in
    /// some dialects an empty body stands for a reply that does not show it.
    Finished(Vec<u8>),
    /// The session was cancelled.
    Cancelled,
    /// There is no such session.
    Unknown,
    /// Not now, with this status.
    NotNow(u16),
    /// The protocol has no place for it.
    Strange(String),
}

impl Answer {
    /// The event that this answer reports, or `None` if it reports no change.
    pub fn event(&self) -> Option<Event> {
        match self {
            Self::Started(_) => Some(Event::Started),
            Self::Committed(offset) => Some(Event::Committed(*offset)),
            Self::Finished(body) => Some(Event::Finished(body.clone())),
            Self::Cancelled => Some(Event::Cancelled),
            Self::NotNow(status) => Some(Event::Refused(*status)),
            Self::Unknown | Self::Strange(_) => None,
        }
    }
}

/// The server's promise about one upload: its acknowledgements, and the client's requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Promise {
    /// A session was started.
    pub started: bool,
    /// The highest offset that was acknowledged.
    pub offset: u64,
    /// End of the media that was ever sent: more cannot be committed.
    pub sent: u64,
    /// The body of the first final reply that has one, and an empty body until then.
    pub finished: Option<Vec<u8>>,
    /// A cancel was on its way: the session may be gone.
    pub may_be_cancelled: bool,
    /// The cancel was acknowledged: the session must be gone.
    pub cancelled: bool,
}

impl Promise {
    /// Returns the promise that follows from events in their order.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut promise = Self::default();
        for event in events {
            promise.note(event);
        }
        promise
    }

    /// Takes in one more event.
    pub fn note(&mut self, event: &Event) {
        match event {
            Event::Sent(range) => self.sent = self.sent.max(range.end),
            Event::Started => self.started = true,
            Event::Committed(offset) => self.offset = self.offset.max(*offset),
            Event::Finished(body) => {
                let known = self.finished.get_or_insert_default();
                if known.is_empty() {
                    known.clone_from(body);
                }
            }
            Event::CancelSent => self.may_be_cancelled = true,
            Event::Cancelled => self.cancelled = true,
            Event::Refused(_) | Event::Broken(_) | Event::Fault(_) => {}
        }
    }

    /// Number of bytes that the server has to keep. It is 0 for a cancelled upload.
    pub fn acknowledged(&self) -> u64 {
        match self.finished {
            _ if self.cancelled => 0,
            Some(_) => self.sent,
            None => self.offset,
        }
    }

    /// Whether the upload has ended.
    pub fn is_over(&self) -> bool {
        self.finished.is_some() || self.cancelled
    }

    /// How the upload of media of this length has ended.
    pub fn end(&self, length: u64) -> End {
        match &self.finished {
            _ if self.cancelled => End::Cancelled,
            _ if self.sent < length => End::Incomplete,
            Some(_) => End::Finished,
            None => End::Open,
        }
    }
}

/// How an upload has ended, as its client knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Its final reply has arrived.
    Finished,
    /// Its cancel was acknowledged.
    Cancelled,
    /// Not all of its media was ever sent, whatever its client was told: its session was left to
    /// expire, or is still being written.
    Incomplete,
    /// None of these. It may have been completed by a request that was not answered.
    Open,
}

/// The answers that the limited lifetime of sessions allows. The default is a session in the midst
/// of its life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Age {
    /// The session may have expired by the time of the answer.
    pub may_have_expired: bool,
    /// The session had expired when the question went out.
    pub has_expired: bool,
}

/// How a rule was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// Rule 1: fewer bytes are committed than were acknowledged.
    OffsetMovedBack {
        /// The highest acknowledged offset.
        acknowledged: u64,
        /// The committed offset now.
        now: u64,
    },
    /// More bytes are committed than were ever sent.
    MoreThanSent {
        /// Number of bytes sent.
        sent: u64,
        /// Number of bytes committed, according to the server.
        now: u64,
    },
    /// Rule 2: the media differs from the sent media.
    MediaDiffers(String),
    /// Rule 1: a session that was started is not known.
    SessionLost,
    /// Rule 3: a finished session is not finished any more.
    Unfinished,
    /// Rule 3: the final reply is another one.
    ReplyChanged,
    /// Rule 4: a cancelled session lives.
    CancelledLives,
    /// Rule 4: an expired session lives.
    ExpiredLives,
    /// Rules 3 and 4: too few or too many resources.
    Resources {
        /// How many there are.
        found: usize,
        /// The minimum.
        least: usize,
        /// The maximum.
        most: usize,
    },
    /// Rule 5: rows and media do not fit together, as the server's own verification says.
    Store(String),
    /// A reply that the protocol has no place for.
    Strange(String),
    /// The upload could not be brought to its end, though nothing disturbed it any more.
    Stuck(String),
    /// Apart from uploads: the server misbehaves, as a tier sees it.
    Misbehaves(String),
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OffsetMovedBack { acknowledged, now } => write!(
                f,
                "rule 1: {now} bytes are committed, {acknowledged} were acknowledged"
            ),
            Self::MoreThanSent { sent, now } => {
                write!(f, "{now} bytes are committed, only {sent} were sent")
            }
            Self::MediaDiffers(how) => write!(f, "rule 2: the media differs: {how}"),
            Self::SessionLost => f.write_str("rule 1: the session is not known any more"),
            Self::Unfinished => f.write_str("rule 3: the finished session is not finished"),
            Self::ReplyChanged => f.write_str("rule 3: the final reply is another one"),
            Self::CancelledLives => f.write_str("rule 4: the cancelled session lives"),
            Self::ExpiredLives => f.write_str("rule 4: the expired session lives"),
            Self::Resources { found, least, most } => write!(
                f,
                "rules 3 and 4: {found} resources, wanted {least} to {most}"
            ),
            Self::Store(finding) => write!(f, "rule 5: {finding}"),
            Self::Strange(reply) => write!(f, "a reply without a place in the protocol: {reply}"),
            Self::Misbehaves(how) => write!(f, "the server misbehaves: {how}"),
            Self::Stuck(how) => write!(f, "the upload does not come to its end: {how}"),
        }
    }
}

/// A broken rule, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The name of the upload.
    pub upload: String,
    /// The broken rule.
    pub rule: Rule,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.upload, self.rule)
    }
}

/// Returns the rule that an answer breaks. `promise` is the promise at the time of the question,
/// since replies may overtake each other. A cancel that was sent later counts as well.
pub fn judge(promise: &Promise, answer: &Answer, age: Age) -> Option<Rule> {
    match answer {
        Answer::Strange(reply) => Some(Rule::Strange(reply.clone())),
        Answer::Started(_) | Answer::NotNow(_) => None,
        Answer::Unknown if age.may_have_expired => None,
        Answer::Cancelled | Answer::Unknown => judge_loss(promise),
        _ if promise.cancelled => Some(Rule::CancelledLives),
        Answer::Committed(_) if promise.finished.is_some() => Some(Rule::Unfinished),
        Answer::Committed(_) | Answer::Finished(_) if age.has_expired => Some(Rule::ExpiredLives),
        Answer::Committed(now) => judge_offset(promise, *now),
        Answer::Finished(body) => {
            let known = promise.finished.as_ref();
            let known = known.filter(|known| !known.is_empty() && !body.is_empty());
            let changed = known.is_some_and(|known| known != body);
            changed.then_some(Rule::ReplyChanged)
        }
    }
}

/// Returns the rule that the number of resources breaks. With `may_repeat` there may be more than
/// one of an upload: its client could not know of the first, and has sent it again.
pub fn judge_resources(end: End, found: usize, may_repeat: bool) -> Option<Rule> {
    let (least, most) = match end {
        End::Cancelled | End::Incomplete => (0, 0),
        End::Finished => (1, 1),
        End::Open => (0, 1),
    };
    let most = if may_repeat { usize::MAX } else { most };
    let is_right = (least..=most).contains(&found);
    (!is_right).then_some(Rule::Resources { found, least, most })
}

/// Returns how many acknowledged bytes an answer that breaks a rule says are lost.
pub fn lost(promise: &Promise, answer: &Answer) -> u64 {
    match answer {
        Answer::Committed(now) => promise.acknowledged().saturating_sub(*now),
        Answer::Cancelled | Answer::Unknown => promise.acknowledged(),
        Answer::Started(_) | Answer::Finished(_) | Answer::NotNow(_) | Answer::Strange(_) => 0,
    }
}

/// For an answer that there is no such session.
fn judge_loss(promise: &Promise) -> Option<Rule> {
    if promise.cancelled || (promise.may_be_cancelled && promise.finished.is_none()) {
        None
    } else if promise.started {
        Some(Rule::SessionLost)
    } else {
        let what = "a client that asked for no session is told that it is gone";
        Some(Rule::Strange(what.to_owned()))
    }
}

fn judge_offset(promise: &Promise, now: u64) -> Option<Rule> {
    let (acknowledged, sent) = (promise.offset, promise.sent);
    if now < acknowledged {
        Some(Rule::OffsetMovedBack { acknowledged, now })
    } else if now > sent {
        Some(Rule::MoreThanSent { sent, now })
    } else {
        None
    }
}
