//! Partial uploads, and the uploads that are concatenated from them.

use super::*;

const PARTIAL: UploadKind = UploadKind::Partial;
const CONCATENATED: UploadKind = UploadKind::Concatenated;

fn snapshot(state: State, offset: u64, total: Option<u64>) -> Snapshot {
    Snapshot {
        state,
        offset,
        total,
    }
}

fn append(first: u64, end: End, length: Option<u64>) -> SessionAction {
    SessionAction::AppendAt {
        first,
        overlap: Overlap::Conflict,
        end,
        length,
    }
}

fn ask(
    kind: UploadKind,
    snapshot: &Snapshot,
    action: SessionAction,
    body: u64,
) -> Result<Step, SessionError> {
    let rules = Rules::default().with_kind(kind);
    let body = BodyLength::Exact(body);
    step(snapshot, &rules, &SessionRequest { action, body })
}

#[test]
fn partial_upload_takes_data_up_to_its_length_and_has_no_end() {
    let active = snapshot(State::Active, 3, Some(5));
    let Ok(Step::Append(mut filter)) = ask(PARTIAL, &active, append(3, End::AtLength, None), 2)
    else {
        panic!("it takes data");
    };
    let kept = filter.accept(Bytes::from_static(b"de")).expect("it fits");
    assert_eq!(&kept[..], b"de");
    assert_eq!(filter.end(Ending::Complete), Ok(Outcome::Committed));

    let past = Err(SessionError::PastLength { end: 6, length: 5 });
    let refused = ask(PARTIAL, &active, append(3, End::AtLength, None), 3);
    assert_eq!(refused.map(drop), past);
    let rules = Rules::default().with_kind(PARTIAL);
    let streamed = SessionRequest {
        action: append(3, End::AtLength, None),
        body: BodyLength::Unknown,
    };
    let Ok(Step::Append(mut filter)) = step(&active, &rules, &streamed) else {
        panic!("it takes data");
    };
    let refused = filter.accept(Bytes::from_static(b"def"));
    assert_eq!(refused.map(drop), past);
}

#[test]
fn no_request_ends_a_partial_upload() {
    let complete = snapshot(State::Active, 5, Some(5));
    for action in [
        append(5, End::Always, None),
        SessionAction::Finish,
        SessionAction::Ranged(Ok(None)),
        SessionAction::Ranged(ContentRange::parse(b"bytes 0-4/5").map(Some)),
    ] {
        let refused = ask(PARTIAL, &complete, action, 0);
        assert_eq!(refused, Err(SessionError::NoEnd), "{action:?}");
    }
    assert!(!SessionError::NoEnd.ends_session());
    for action in [
        SessionAction::Query(Query::SettledAtLength),
        SessionAction::Query(Query::Undisturbed),
        SessionAction::Ranged(ContentRange::parse(b"bytes */5").map(Some)),
    ] {
        let asked = ask(PARTIAL, &complete, action, 0);
        assert_eq!(asked, Ok(Step::Report), "{action:?}");
    }
    let empty = ask(PARTIAL, &complete, append(5, End::AtLength, None), 0);
    let Ok(Step::Append(filter)) = empty else {
        panic!("{empty:?}");
    };
    assert_eq!(filter.end(Ending::Complete), Ok(Outcome::Committed));
}

#[test]
fn concatenated_upload_takes_no_data_and_answers_queries() {
    let finished = snapshot(State::Finished, 5, Some(5));
    for first in [0, 5, 6] {
        let refused = ask(
            CONCATENATED,
            &finished,
            append(first, End::AtLength, None),
            1,
        );
        assert_eq!(refused, Err(SessionError::NoData), "{first}");
    }
    let query = SessionAction::Query(Query::SettledAtLength);
    assert_eq!(ask(CONCATENATED, &finished, query, 0), Ok(Step::Replay));
    let failed = snapshot(State::Failed, 0, Some(5));
    let refused = ask(CONCATENATED, &failed, append(0, End::AtLength, None), 1);
    assert_eq!(refused, Err(SessionError::Gone));
}

#[test]
fn only_complete_partial_uploads_are_concatenated() {
    let length = |kind, state, offset, total| {
        let rules = Rules::default().with_kind(kind);
        partial_length(&snapshot(state, offset, total), &rules)
    };
    assert_eq!(length(PARTIAL, State::Active, 5, Some(5)), Ok(5));
    assert_eq!(length(PARTIAL, State::Active, 0, Some(0)), Ok(0));
    let incomplete = |committed| Err(SessionError::Incomplete { committed });
    assert_eq!(length(PARTIAL, State::Active, 4, Some(5)), incomplete(4));
    assert_eq!(length(PARTIAL, State::Active, 4, None), incomplete(4));
    for kind in [UploadKind::Whole, CONCATENATED] {
        for state in [State::Active, State::Finishing, State::Finished] {
            let refused = length(kind, state, 5, Some(5));
            assert_eq!(refused, Err(SessionError::NotPartial), "{kind:?} {state:?}");
        }
    }
    let cancelled = length(PARTIAL, State::Cancelled, 5, Some(5));
    assert_eq!(cancelled, Err(SessionError::Cancelled));
    let failed = length(PARTIAL, State::Failed, 5, Some(5));
    assert_eq!(failed, Err(SessionError::Gone));
}
