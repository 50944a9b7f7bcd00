//! The rules, and what breaks them.

use std::fmt;

use super::dialect::Answer;
use super::record::Known;

/// How a rule was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// Rule 1: fewer bytes are committed than were acknowledged.
    OffsetMovedBack {
        /// What was acknowledged.
        acknowledged: u64,
        /// What is committed now.
        now: u64,
    },
    /// More bytes are committed than were ever sent.
    MoreThanSent {
        /// What was sent.
        sent: u64,
        /// What is said to be committed.
        now: u64,
    },
    /// Rule 2: the media is not what was sent.
    MediaDiffers(String),
    /// Rule 1: a session that was started is not known.
    SessionLost,
    /// Rule 3: a finished session is not finished any more.
    Unfinished,
    /// Rule 3: the final reply is another one.
    ReplyChanged,
    /// Rule 4: a cancelled session lives.
    CancelledLives,
    /// Rules 3 and 4: too few or too many resources.
    Resources {
        /// How many there are.
        found: usize,
        /// At least so many there must be.
        least: usize,
        /// At most so many there may be.
        most: usize,
    },
    /// Rule 5: rows and media do not fit together, as the server's own verification says.
    Store(String),
    /// A reply that the protocol has no place for.
    Strange(String),
    /// The upload could not be brought to its end, though nothing disturbed it any more.
    Stuck(String),
    /// Apart from uploads: the server does what it must not, as a tier sees it.
    Misbehaves(String),
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OffsetMovedBack { acknowledged, now } => {
                write!(
                    f,
                    "rule 1: {now} bytes are committed, {acknowledged} were acknowledged"
                )
            }
            Self::MoreThanSent { sent, now } => {
                write!(f, "{now} bytes are committed, only {sent} were sent")
            }
            Self::MediaDiffers(how) => write!(f, "rule 2: the media differs: {how}"),
            Self::SessionLost => f.write_str("rule 1: the session is not known any more"),
            Self::Unfinished => f.write_str("rule 3: the finished session is not finished"),
            Self::ReplyChanged => f.write_str("rule 3: the final reply is another one"),
            Self::CancelledLives => f.write_str("rule 4: the cancelled session lives"),
            Self::Resources { found, least, most } => {
                write!(
                    f,
                    "rules 3 and 4: {found} resources, wanted {least} to {most}"
                )
            }
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
    /// What is wrong.
    pub rule: Rule,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.upload, self.rule)
    }
}

/// Whether an answer may be given to a client that knows what it knows.
pub(super) fn judge(known: &Known, answer: &Answer) -> Option<Rule> {
    match answer {
        Answer::Strange(reply) => Some(Rule::Strange(reply.clone())),
        Answer::Started(_) | Answer::NotNow(_) => None,
        Answer::Cancelled | Answer::Unknown if known.may_be_cancelled => None,
        Answer::Cancelled | Answer::Unknown if known.started => Some(Rule::SessionLost),
        Answer::Cancelled | Answer::Unknown => Some(Rule::Strange(
            "whoever asked for no session is told that it is gone".to_owned(),
        )),
        _ if known.cancelled => Some(Rule::CancelledLives),
        Answer::Committed(now) => judge_offset(known, *now),
        Answer::Finished(body) => {
            let changed = known.finished.as_ref().is_some_and(|first| first != body);
            changed.then_some(Rule::ReplyChanged)
        }
    }
}

/// How many acknowledged bytes are not there any more by an answer that may not be given.
pub(super) fn lost(known: &Known, answer: &Answer) -> u64 {
    match answer {
        Answer::Committed(now) => known.acknowledged().saturating_sub(*now),
        Answer::Cancelled | Answer::Unknown => known.acknowledged(),
        Answer::Started(_) | Answer::Finished(_) | Answer::NotNow(_) | Answer::Strange(_) => 0,
    }
}

fn judge_offset(known: &Known, now: u64) -> Option<Rule> {
    if known.finished.is_some() {
        return Some(Rule::Unfinished);
    }
    let (acknowledged, sent) = (known.offset, known.sent);
    if now < acknowledged {
        Some(Rule::OffsetMovedBack { acknowledged, now })
    } else if now > sent {
        Some(Rule::MoreThanSent { sent, now })
    } else {
        None
    }
}
