//! The adapter of the [oracle](windlass_testkit::oracle) for a server inside of the test's process.

use std::fmt;

use serde_json::Value;
use windlass_testkit::oracle::{Age, Answer, Event, Promise, Rule, Violation, judge};

use crate::protocols::{Outcome, Protocol};
use crate::world::Reply;

/// The promises to one upload. A broken promise ends the test.
pub(super) struct Oracle {
    /// The name of the upload.
    upload: String,
    promise: Promise,
    /// The age of the session by the clock.
    age: Age,
}

impl Oracle {
    pub(super) fn new(upload: impl fmt::Debug) -> Self {
        Self {
            upload: format!("{upload:?}"),
            promise: Promise::default(),
            age: Age::default(),
        }
    }

    pub(super) fn promise(&self) -> &Promise {
        &self.promise
    }

    /// The id of the resource, once there was a final reply that names it.
    #[track_caller]
    pub(super) fn resource(&self) -> Option<String> {
        let body = self.promise.finished.as_deref();
        // In some dialects the final reply has no body.
        let body = body.filter(|body| !body.is_empty())?;
        let json: Value = serde_json::from_slice(body).unwrap_or_default();
        match json["id"].as_str() {
            Some(id) => Some(id.to_owned()),
            None => self.violate(Rule::Strange(format!(
                "the final reply names no resource: {}",
                body.escape_ascii()
            ))),
        }
    }

    pub(super) fn note(&mut self, event: &Event) {
        self.promise.note(event);
    }

    /// Records that the session has expired.
    pub(super) fn note_expiry(&mut self) {
        self.age = Age {
            may_have_expired: true,
            has_expired: true,
        };
    }

    /// Records a reply to a request of the upload.
    #[track_caller]
    pub(super) fn take(&mut self, reply: &Reply) -> Answer {
        self.take_answer(answer(reply))
    }

    /// Records a reply in another dialect than Google's.
    #[track_caller]
    pub(super) fn take_in(&mut self, dialect: Protocol, reply: &Reply) -> Answer {
        let answer = match dialect.read(reply) {
            Outcome::Committed(offset) => Answer::Committed(offset),
            Outcome::Finished => Answer::Finished(reply.body.to_vec()),
            Outcome::Cancelled => Answer::Cancelled,
            // The offset is another one than the client knows of. It has to ask.
            Outcome::Refused if reply.status.as_u16() == 409 => Answer::NotNow(409),
            Outcome::Refused => answer(reply),
        };
        self.take_answer(answer)
    }

    #[track_caller]
    fn take_answer(&mut self, answer: Answer) -> Answer {
        self.demand(judge(&self.promise, &answer, self.age));
        if let Some(event) = answer.event() {
            self.promise.note(&event);
        }
        answer
    }

    /// Records a reply that must be a refusal.
    #[track_caller]
    pub(super) fn take_refusal(&mut self, reply: &Reply) {
        let answer = self.take(reply);
        if !matches!(answer, Answer::NotNow(_)) {
            self.violate(strange(reply));
        }
    }

    /// Ends the test if a rule is broken.
    #[track_caller]
    pub(super) fn demand(&self, broken: Option<Rule>) {
        if let Some(rule) = broken {
            self.violate(rule);
        }
    }

    /// Ends the test: a rule is broken.
    #[track_caller]
    pub(super) fn violate(&self, rule: Rule) -> ! {
        violate(&self.upload, rule)
    }
}

/// Ends the test with a description of the violation.
#[track_caller]
pub(super) fn violate(upload: &str, rule: Rule) -> ! {
    let upload = upload.to_owned();
    panic!("{}", Violation { upload, rule })
}

/// Classifies a reply. Only faulty stores refuse with 503 here.
fn answer(reply: &Reply) -> Answer {
    match reply.status.as_u16() {
        308 => Answer::Committed(reply.committed()),
        200 | 201 => Answer::Finished(reply.body.to_vec()),
        404 | 410 => Answer::Unknown,
        499 => Answer::Cancelled,
        503 => Answer::NotNow(503),
        _ => Answer::Strange(format!("{reply:?}")),
    }
}

/// Returns the rule that an unexpected reply breaks.
pub(super) fn strange(reply: &Reply) -> Rule {
    Rule::Strange(format!("{reply:?}"))
}
