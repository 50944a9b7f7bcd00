//! Whatever is asked of a session, its acknowledged offset never falls, its size never changes once
//! it is known, the bytes that it stores follow each other, it ends once, or never if it is partial,
//! and a client that follows the protocol can finish it.

#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use windlass_fuzz::media;
use windlass_proto::command::{BodyLength, End, Overlap, Query, SessionAction, SessionRequest};
use windlass_proto::content_range::{CHUNK_GRANULARITY, ContentRange, ContentRangeError};
use windlass_proto::session::{
    BodyFilter, ChunkRule, Ending, Outcome, Rules, SessionError, Snapshot, State, Step, UploadKind,
    step,
};

#[derive(Debug, Arbitrary)]
struct Input {
    is_lenient: bool,
    is_partial: bool,
    max_size: Option<Number>,
    declared: Option<Number>,
    operations: Vec<Operation>,
}

#[derive(Debug, Arbitrary)]
enum Operation {
    Send(Request),
    /// The server ends while a resource is being made; see [`Session::crashes`].
    CrashAtNextFinish,
    Cancel,
}

#[derive(Debug, Arbitrary)]
struct Request {
    action: Action,
    /// Stated length of the body; `None` where it is streamed.
    stated: Option<Number>,
    /// The number of body bytes sent, and the size of their packets.
    sent: Number,
    packet: u16,
    is_broken: bool,
}

#[derive(Debug, Arbitrary)]
enum Action {
    Malformed,
    Whole,
    Bounded(Number, Number, Option<Number>),
    ToEnd(Number, Option<Number>),
    RangeQuery(Option<Number>),
    AppendAt(Number, Place, Stop, Option<Number>),
    Finish,
    Query(Asked),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Place {
    Skip,
    Conflict,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Stop {
    Never,
    AtLength,
    Always,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Asked {
    Undisturbed,
    Settled,
    SettledAtLength,
}

/// A number, often one at which something changes.
#[derive(Debug, Clone, Copy, Arbitrary)]
enum Number {
    /// Around a number of chunks.
    Chunks(u8, i8),
    /// Around the acknowledged offset.
    Committed(i8),
    /// The acknowledged offset, and some chunks.
    Following(u8, i8),
    /// Around the size of the media.
    Total(i8),
    /// Around the greatest one.
    Greatest(u8),
}

struct Session {
    rules: Rules,
    now: Snapshot,
    /// Whether the next end of the upload is followed by a crash before the resource is made.
    crashes: bool,
    finishes: u32,
}

fuzz_target!(|input: Input| {
    let mut session = Session::new(&input);
    for operation in &input.operations {
        let before = session.now;
        match operation {
            Operation::Send(request) => session.send(request),
            Operation::CrashAtNextFinish => session.crashes = true,
            Operation::Cancel => session.cancel(),
        }
        session.check(&before);
    }
    session.finish();
});

impl Session {
    fn new(input: &Input) -> Self {
        let start = Snapshot {
            state: State::Active,
            offset: 0,
            total: None,
        };
        let number = |number: Option<Number>| number.map(|number| number.of(&start));
        let chunks = if input.is_lenient {
            ChunkRule::Lenient
        } else {
            ChunkRule::Strict
        };
        let kind = if input.is_partial {
            UploadKind::Partial
        } else {
            UploadKind::Whole
        };
        let rules = Rules::default()
            .with_kind(kind)
            .with_chunks(chunks)
            .with_max_size(number(input.max_size));
        // A start that declares more than the limit is refused.
        let declared = number(input.declared).filter(|total| *total > 0);
        let declared = declared.filter(|total| rules.max_size.is_none_or(|limit| *total <= limit));
        Self {
            rules,
            now: Snapshot {
                total: declared,
                ..start
            },
            crashes: false,
            finishes: 0,
        }
    }

    fn send(&mut self, request: &Request) {
        let action = request.action.of(&self.now);
        let body = match request.stated {
            Some(length) => BodyLength::Exact(length.of(&self.now)),
            None => BodyLength::Unknown,
        };
        let asked = SessionRequest { action, body };
        match step(&self.now, &self.rules, &asked) {
            Ok(Step::Append(filter)) => self.append(filter, &asked, request),
            Ok(Step::Finish { total }) => {
                assert_eq!(total, self.now.offset);
                self.end(total);
            }
            Ok(Step::ResumeFinish) => {
                assert_eq!(self.now.state, State::Finishing);
                self.now.state = State::Finished;
            }
            Ok(Step::Replay) => assert_eq!(self.now.state, State::Finished),
            Ok(Step::Report) => assert_eq!(self.now.state, State::Active),
            Err(error) => self.refuse(&error),
        }
    }

    /// Stores the bytes that the filter passes, as a server does. Bytes passed before an error are
    /// committed.
    fn append(&mut self, mut filter: BodyFilter, asked: &SessionRequest, request: &Request) {
        assert_eq!(self.now.state, State::Active);
        let hint = filter.remaining_hint();
        let first = filter.position();
        assert!(first <= self.now.offset, "there is no gap");
        let length = match asked.body {
            BodyLength::Exact(length) => length,
            BodyLength::Unknown => request.sent.of(&self.now),
        };
        let sent = if request.is_broken {
            length.min(request.sent.of(&self.now))
        } else {
            length
        };
        // More than this would be a broken connection.
        let end = first.saturating_add(sent).min(media::LEN);
        let is_broken = request.is_broken || end < first.saturating_add(length);
        let mut offset = self.now.offset;
        let mut at = first;
        let most = u64::from(request.packet).max((end.saturating_sub(first) >> 6) + 1);
        while at < end {
            let packet = media::slice(at, end.min(at + most));
            let len = packet.len() as u64;
            match filter.accept(packet) {
                Ok(stored) => {
                    assert!(
                        media::is_at(&stored, offset),
                        "bytes are stored in their order"
                    );
                    offset += stored.len() as u64;
                }
                Err(error) => {
                    // The bytes of a failed session do not matter.
                    if !error.ends_session() {
                        self.commit_at(filter.total(), offset);
                    }
                    return self.refuse(&error);
                }
            }
            at += len;
            assert_eq!(filter.position(), at);
        }
        let total = filter.total();
        let ending = if is_broken {
            Ending::Broken
        } else {
            Ending::Complete
        };
        match filter.end(ending) {
            Ok(Outcome::Interrupted) => assert!(is_broken),
            Ok(Outcome::Committed) => {
                assert!(hint.is_none_or(|hint| offset == self.now.offset + hint));
            }
            Ok(Outcome::Finished { total: end }) => {
                self.commit_at(total, offset);
                return self.end(end);
            }
            Err(error) => {
                self.commit_at(total, offset);
                return self.refuse(&error);
            }
        }
        self.commit_at(total, offset);
    }

    fn commit_at(&mut self, total: Option<u64>, offset: u64) {
        self.now = Snapshot {
            offset,
            total,
            ..self.now
        };
    }

    fn end(&mut self, total: u64) {
        assert_eq!(total, self.now.offset, "all bytes are there");
        assert!(self.now.total.is_none_or(|known| known == total));
        self.finishes += 1;
        self.now.total = Some(total);
        self.now.state = if self.crashes {
            State::Finishing
        } else {
            State::Finished
        };
    }

    fn refuse(&mut self, error: &SessionError) {
        match self.now.state {
            State::Active if error.ends_session() => self.now.state = State::Failed,
            State::Active => {}
            State::Finishing | State::Finished
                if matches!(error, SessionError::Conflict { .. }) => {}
            State::Finished => assert!(matches!(error, SessionError::AfterEnd { .. })),
            State::Failed => assert_eq!(*error, SessionError::Gone),
            State::Cancelled => assert_eq!(*error, SessionError::Cancelled),
            State::Finishing => panic!("{error} keeps an upload from its end"),
        }
    }

    fn cancel(&mut self) {
        if self.now.state == State::Active {
            self.now.state = State::Cancelled;
        }
    }

    fn check(&self, before: &Snapshot) {
        let Snapshot {
            state,
            offset,
            total,
        } = self.now;
        assert!(offset >= before.offset, "an acknowledged byte is lost");
        assert!(total.is_none_or(|total| offset <= total));
        assert!(self.rules.max_size.is_none_or(|limit| offset <= limit));
        assert!(before.total.is_none_or(|known| total == Some(known)));
        let ends = u32::from(self.rules.kind == UploadKind::Whole);
        assert!(self.finishes <= ends);
        let is_allowed = match before.state {
            State::Active => true,
            State::Finishing => matches!(state, State::Finishing | State::Finished),
            ended => state == ended,
        };
        assert!(is_allowed, "{before:?} became {state:?}");
        if before.state != State::Active {
            assert_eq!(offset, before.offset);
        }
    }

    /// A client that asks for the offset and sends the rest has its upload, in both ways to end
    /// one.
    fn finish(&self) {
        if self.now.state != State::Active || self.rules.kind != UploadKind::Whole {
            return;
        }
        let offset = self.now.offset;
        let limit = self.rules.max_size.unwrap_or(u64::MAX).min(media::LEN);
        let end = self.now.total.unwrap_or(offset);
        if end > limit {
            return;
        }
        let range = match end - offset {
            0 => ContentRange::Query { total: Some(end) },
            _ => ContentRange::Bounded {
                first: offset,
                last: end - 1,
                total: Some(end),
            },
        };
        for action in [
            SessionAction::Ranged(Ok(Some(range))),
            append_at(offset, Overlap::Skip, End::Always),
            append_at(offset, Overlap::Conflict, End::Always),
        ] {
            let body = BodyLength::Exact(end - offset);
            let asked = SessionRequest { action, body };
            match step(&self.now, &self.rules, &asked) {
                Ok(Step::Finish { total }) => assert_eq!(total, end),
                Ok(Step::Append(mut filter)) => {
                    let stored = filter.accept(media::slice(offset, end));
                    let stored = stored.expect("it is the rest").len() as u64;
                    assert_eq!(stored, end - offset);
                    let outcome = filter.end(Ending::Complete);
                    assert_eq!(outcome, Ok(Outcome::Finished { total: end }));
                }
                other => panic!("{other:?} keeps {:?} from its end", self.now),
            }
        }
    }
}

fn append_at(first: u64, overlap: Overlap, end: End) -> SessionAction {
    SessionAction::AppendAt {
        first,
        overlap,
        end,
        length: None,
    }
}

impl Action {
    fn of(&self, now: &Snapshot) -> SessionAction {
        let some = |number: Option<Number>| number.map(|number| number.of(now));
        let range = match *self {
            Self::Malformed => return SessionAction::Ranged(Err(ContentRangeError::Syntax)),
            Self::Whole => return SessionAction::Ranged(Ok(None)),
            Self::AppendAt(first, place, stop, length) => {
                return SessionAction::AppendAt {
                    first: first.of(now),
                    overlap: match place {
                        Place::Skip => Overlap::Skip,
                        Place::Conflict => Overlap::Conflict,
                    },
                    end: match stop {
                        Stop::Never => End::Never,
                        Stop::AtLength => End::AtLength,
                        Stop::Always => End::Always,
                    },
                    length: some(length),
                };
            }
            Self::Finish => return SessionAction::Finish,
            Self::Query(asked) => {
                return SessionAction::Query(match asked {
                    Asked::Undisturbed => Query::Undisturbed,
                    Asked::Settled => Query::Settled,
                    Asked::SettledAtLength => Query::SettledAtLength,
                });
            }
            Self::Bounded(first, last, total) => ContentRange::Bounded {
                first: first.of(now),
                last: last.of(now),
                total: some(total),
            },
            Self::ToEnd(first, total) => ContentRange::ToEnd {
                first: first.of(now),
                total: some(total),
            },
            Self::RangeQuery(total) => ContentRange::Query { total: some(total) },
        };
        // As it comes from a header, which refuses ranges that contradict themselves.
        SessionAction::Ranged(ContentRange::parse(range.to_string().as_bytes()).map(Some))
    }
}

impl Number {
    fn of(self, now: &Snapshot) -> u64 {
        let chunks = |count: u8| u64::from(count % 5) * CHUNK_GRANULARITY;
        match self {
            Self::Chunks(count, off) => chunks(count).saturating_add_signed(off.into()),
            Self::Committed(off) => now.offset.saturating_add_signed(off.into()),
            Self::Following(count, off) => {
                (now.offset + chunks(count)).saturating_add_signed(off.into())
            }
            Self::Total(off) => now.total.unwrap_or(0).saturating_add_signed(off.into()),
            Self::Greatest(off) => u64::MAX - u64::from(off),
        }
    }
}
