//! Requests that begin at the committed offset or not at all, and end the upload at its length.

use super::*;

fn asked(
    snapshot: Snapshot,
    first: u64,
    length: Option<u64>,
    body: BodyLength,
) -> Result<Step, SessionError> {
    let action = SessionAction::AppendAt {
        first,
        overlap: Overlap::Conflict,
        end: End::AtLength,
        length,
    };
    let rules = Rules::default()
        .with_chunks(ChunkRule::Lenient)
        .with_max_size(Some(100));
    step(&snapshot, &rules, &SessionRequest { action, body })
}

fn part(snapshot: Snapshot, first: u64, len: u64) -> Result<Step, SessionError> {
    asked(snapshot, first, None, BodyLength::Exact(len))
}

fn conflict(first: u64, committed: u64) -> SessionError {
    SessionError::Conflict { first, committed }
}

#[test]
fn body_that_reaches_the_length_ends_the_upload() {
    let (stored, outcome) = send(filter(part(active(4, Some(10)), 4, 5)), 5);
    assert_eq!((stored, outcome), (5, Ok(Outcome::Committed)));
    let (stored, outcome) = send(filter(part(active(4, Some(10)), 4, 6)), 6);
    assert_eq!((stored, outcome), (6, Ok(Outcome::Finished { total: 10 })));
    let (stored, outcome) = send(filter(part(active(4, None), 4, 6)), 6);
    assert_eq!((stored, outcome), (6, Ok(Outcome::Committed)));
}

#[test]
fn streamed_body_that_reaches_the_length_ends_the_upload() {
    let streamed = |len| {
        let step = asked(active(4, Some(10)), 4, None, BodyLength::Unknown);
        send(filter(step), len)
    };
    assert_eq!(streamed(5), (5, Ok(Outcome::Committed)));
    assert_eq!(streamed(6), (6, Ok(Outcome::Finished { total: 10 })));
    let past = SessionError::PastLength {
        end: 11,
        length: 10,
    };
    assert_eq!(streamed(7), (0, Err(past)));
    assert!(!past.ends_session());
}

#[test]
fn body_that_would_pass_the_length_is_refused_before_it_is_read() {
    let past = SessionError::PastLength {
        end: 11,
        length: 10,
    };
    assert_eq!(part(active(4, Some(10)), 4, 7), Err(past));
}

#[test]
fn empty_body_at_the_length_ends_the_upload() {
    for (offset, total) in [(0, 0), (10, 10)] {
        let (stored, outcome) = send(filter(part(active(offset, Some(total)), offset, 0)), 0);
        assert_eq!((stored, outcome), (0, Ok(Outcome::Finished { total })));
    }
}

#[test]
fn any_other_offset_is_a_conflict_in_each_state() {
    for state in [State::Active, State::Finishing, State::Finished] {
        let snapshot = Snapshot {
            state,
            ..active(4, Some(10))
        };
        for first in [0, 3, 5, u64::MAX] {
            assert_eq!(part(snapshot, first, 1), Err(conflict(first, 4)));
        }
    }
    assert!(!conflict(0, 4).ends_session());
    // The bytes of a running request may lead there.
    assert!(conflict(5, 4).may_be_resolved());
    assert!(!conflict(3, 4).may_be_resolved());
}

#[test]
fn finished_upload_is_told_to_have_ended_whatever_follows() {
    let finished = Snapshot {
        state: State::Finished,
        ..active(10, Some(10))
    };
    assert_eq!(part(finished, 10, 0), Ok(Step::Replay));
    assert_eq!(part(finished, 10, 5), Ok(Step::Replay));
}

#[test]
fn length_may_be_stated_later_and_must_not_change() {
    let state = |snapshot, length| asked(snapshot, 4, Some(length), BodyLength::Exact(0));
    let (stored, outcome) = send(filter(state(active(4, None), 10)), 0);
    assert_eq!((stored, outcome), (0, Ok(Outcome::Committed)));
    assert_eq!(filter(state(active(4, None), 10)).total(), Some(10));
    let (_, outcome) = send(filter(state(active(4, None), 4)), 0);
    assert_eq!(outcome, Ok(Outcome::Finished { total: 4 }));
    assert!(state(active(4, Some(10)), 10).is_ok());
    let changed = SessionError::LengthChanged {
        stated: 11,
        known: 10,
    };
    assert_eq!(state(active(4, Some(10)), 11), Err(changed));
    let before = SessionError::EndsBeforeCommitted {
        total: 3,
        committed: 4,
    };
    assert_eq!(state(active(4, None), 3), Err(before));
    let large = SessionError::LengthTooLarge { limit: 100 };
    assert_eq!(state(active(4, None), 101), Err(large));
    assert!(!changed.ends_session() && !large.ends_session());
}

#[test]
fn query_finishes_what_only_lacks_its_end() {
    let query = |snapshot, query| {
        let action = SessionAction::Query(query);
        let body = BodyLength::Exact(0);
        step(
            &snapshot,
            &Rules::default(),
            &SessionRequest { action, body },
        )
    };
    let complete = active(10, Some(10));
    assert_eq!(
        query(complete, Query::SettledAtLength),
        Ok(Step::Finish { total: 10 })
    );
    for (snapshot, kind) in [
        (complete, Query::Settled),
        (complete, Query::Undisturbed),
        (active(9, Some(10)), Query::SettledAtLength),
        (active(10, None), Query::SettledAtLength),
    ] {
        assert_eq!(query(snapshot, kind), Ok(Step::Report));
    }
}
