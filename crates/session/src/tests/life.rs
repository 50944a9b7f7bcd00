use super::*;

fn every_request() -> Vec<SessionRequest> {
    let ranges = [
        "bytes 0-9/10",
        "bytes */*",
        "bytes */10",
        "bytes 0-*/*",
        "*/*",
    ];
    let mut requests: Vec<_> = ranges
        .iter()
        .map(|range| request(range, BodyLength::Unknown))
        .collect();
    requests.push(unranged(BodyLength::Exact(0)));
    requests
}

#[track_caller]
fn check(state: State, expected: &Result<Step, SessionError>) {
    let snapshot = Snapshot {
        state,
        offset: 5,
        total: Some(10),
    };
    for request in every_request() {
        assert_eq!(
            step(&snapshot, &Rules::default(), &request),
            *expected,
            "{request:?}"
        );
    }
}

#[test]
fn finished_session_repeats_its_reply_to_any_request() {
    check(State::Finished, &Ok(Step::Replay));
}

#[test]
fn finishing_session_is_resumed_by_any_request() {
    check(State::Finishing, &Ok(Step::ResumeFinish));
}

#[test]
fn failed_session_is_gone() {
    check(State::Failed, &Err(SessionError::Gone));
}

#[test]
fn cancelled_session_stays_cancelled() {
    check(State::Cancelled, &Err(SessionError::Cancelled));
}
