//! Requests that say themselves whether they end the upload.

use super::*;

fn asked(
    snapshot: Snapshot,
    action: SessionAction,
    body: BodyLength,
) -> Result<Step, SessionError> {
    let rules = Rules::default()
        .with_chunks(ChunkRule::Lenient)
        .with_max_size(Some(4 * Q));
    step(&snapshot, &rules, &SessionRequest { action, body })
}

fn append(snapshot: Snapshot, first: u64, len: u64) -> Result<Step, SessionError> {
    let action = append_at(first, End::Never);
    asked(snapshot, action, BodyLength::Exact(len))
}

fn finish(snapshot: Snapshot, first: u64, len: u64) -> Result<Step, SessionError> {
    let action = append_at(first, End::Always);
    asked(snapshot, action, BodyLength::Exact(len))
}

#[test]
fn appended_bytes_do_not_end_the_upload_even_at_its_declared_size() {
    for total in [None, Some(10)] {
        let (stored, outcome) = send(filter(append(active(4, total), 4, 6)), 6);
        assert_eq!((stored, outcome), (6, Ok(Outcome::Committed)), "{total:?}");
    }
}

#[test]
fn streamed_bytes_do_not_end_the_upload() {
    let action = append_at(4, End::Never);
    let (stored, outcome) = send(
        filter(asked(active(4, None), action, BodyLength::Unknown)),
        6,
    );
    assert_eq!((stored, outcome), (6, Ok(Outcome::Committed)));
}

#[test]
fn bytes_before_the_committed_offset_are_skipped() {
    let (stored, outcome) = send(filter(append(active(4, None), 0, 6)), 6);
    assert_eq!((stored, outcome), (2, Ok(Outcome::Committed)));
    let repeated = filter(append(active(4, None), 0, 3));
    assert!(!repeated.commits());
    let (stored, outcome) = send(repeated, 3);
    assert_eq!((stored, outcome), (0, Ok(Outcome::Committed)));
    let (stored, outcome) = send(filter(finish(active(4, None), 0, 6)), 6);
    assert_eq!((stored, outcome), (2, Ok(Outcome::Finished { total: 6 })));
}

#[test]
fn bytes_after_the_committed_offset_are_refused() {
    let gap = SessionError::Gap {
        first: 5,
        committed: 4,
    };
    assert_eq!(append(active(4, None), 5, 1), Err(gap));
    assert_eq!(finish(active(4, None), 5, 1), Err(gap));
}

#[test]
fn finish_without_a_body_ends_with_the_committed_bytes() {
    let action = SessionAction::Finish;
    for total in [None, Some(4)] {
        let step = asked(active(4, total), action, BodyLength::Exact(0));
        let (stored, outcome) = send(filter(step), 0);
        assert_eq!((stored, outcome), (0, Ok(Outcome::Finished { total: 4 })));
    }
    let (stored, outcome) = send(filter(finish(active(0, None), 0, 0)), 0);
    assert_eq!((stored, outcome), (0, Ok(Outcome::Finished { total: 0 })));
}

#[test]
fn finish_without_an_offset_takes_no_bytes() {
    let action = SessionAction::Finish;
    for body in [BodyLength::Exact(1), BodyLength::Unknown] {
        let mut filter = filter(asked(active(4, None), action, body));
        let refused = filter.accept(Bytes::from_static(b"x"));
        assert!(
            matches!(refused, Err(SessionError::LengthDisagrees { .. })),
            "{refused:?}"
        );
    }
}

#[test]
fn finish_before_the_declared_size_is_refused_and_the_session_goes_on() {
    let refused = finish(active(4, Some(10)), 4, 5).expect_err("a byte is missing");
    assert!(matches!(refused, SessionError::LengthDisagrees { .. }));
    assert!(!refused.ends_session());
    let before = finish(active(4, None), 0, 3).expect_err("4 bytes are committed");
    assert!(matches!(before, SessionError::EndsBeforeCommitted { .. }));
}

#[test]
fn more_than_the_declared_size_ends_the_session() {
    let more = SessionError::MoreThanDeclared { declared: 10 };
    assert_eq!(append(active(4, Some(10)), 4, 7), Err(more));
    assert_eq!(finish(active(4, Some(10)), 4, 7), Err(more));
    let action = append_at(4, End::Never);
    let mut streamed = filter(asked(active(4, Some(10)), action, BodyLength::Unknown));
    assert_eq!(streamed.accept(Bytes::from_static(b"1234567")), Err(more));
    assert!(more.ends_session());
}

#[test]
fn streamed_end_beyond_the_declared_size_ends_the_session() {
    let action = append_at(4, End::Always);
    let mut streamed = filter(asked(active(4, Some(10)), action, BodyLength::Unknown));
    let more = SessionError::MoreThanDeclared { declared: 10 };
    assert_eq!(streamed.accept(Bytes::from_static(b"1234567")), Err(more));
}

#[test]
fn gap_is_told_first() {
    let gap = |first| SessionError::Gap {
        first,
        committed: 4,
    };
    for first in [9, u64::MAX] {
        assert_eq!(append(active(4, Some(10)), first, 3), Err(gap(first)));
        assert_eq!(finish(active(4, Some(10)), first, 3), Err(gap(first)));
    }
}

#[test]
fn finished_session_repeats_its_reply_to_requests_within_its_media_alone() {
    let finished = Snapshot {
        state: State::Finished,
        ..active(10, Some(10))
    };
    for (first, len) in [(0, 10), (4, 6), (10, 0), (0, 3)] {
        assert_eq!(append(finished, first, len), Ok(Step::Replay));
        assert_eq!(finish(finished, first, len), Ok(Step::Replay));
    }
    let after = Err(SessionError::AfterEnd { size: 10 });
    for (first, len) in [(10, 1), (4, 7), (11, 0), (u64::MAX, 3)] {
        assert_eq!(append(finished, first, len), after);
        assert_eq!(finish(finished, first, len), after);
    }
    let ranged = |range, len| {
        let request = request(range, BodyLength::Exact(len));
        step(&finished, &Rules::default(), &request)
    };
    assert_eq!(ranged("bytes 0-9/10", 10), Ok(Step::Replay));
    assert_eq!(ranged("bytes */999", 0), Ok(Step::Replay));
    assert_eq!(ranged("bytes 0-10/11", 11), Ok(Step::Replay));
    assert!(!SessionError::AfterEnd { size: 10 }.ends_session());
}

#[test]
fn more_than_the_size_limit_is_refused() {
    let limit = SessionError::TooLarge { limit: 4 * Q };
    assert_eq!(append(active(0, None), 0, 4 * Q + 1), Err(limit));
    assert_eq!(finish(active(0, None), 0, 4 * Q + 1), Err(limit));
}

#[test]
fn offsets_that_overflow_are_refused() {
    let offset = u64::MAX - 1;
    let overflow = Err(SessionError::ContentRange(ContentRangeError::Overflow));
    assert_eq!(append(active(offset, None), offset, 2), overflow);
    assert_eq!(finish(active(offset, None), offset, 2), overflow);
}

#[test]
fn query_never_finishes() {
    for total in [None, Some(4), Some(10)] {
        let step = asked(
            active(4, total),
            SessionAction::Query(Query::Undisturbed),
            BodyLength::Exact(0),
        );
        assert_eq!(step, Ok(Step::Report));
    }
}

#[test]
fn streamed_body_that_is_not_the_last_may_commit_nothing() {
    let action = append_at(4, End::Never);
    let append = filter(asked(active(4, None), action, BodyLength::Unknown));
    assert!(!append.commits());
    let action = append_at(4, End::Always);
    let finish = filter(asked(active(4, None), action, BodyLength::Unknown));
    assert!(finish.commits());
    let action = SessionAction::Finish;
    let bare = filter(asked(active(4, None), action, BodyLength::Exact(0)));
    assert!(!bare.commits());
}
