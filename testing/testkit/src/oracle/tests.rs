use super::*;

fn half() -> Promise {
    Promise::of(&[Event::Started, Event::Sent(0..100), Event::Committed(50)])
}

fn finished() -> Promise {
    Promise::of(&[
        Event::Started,
        Event::Sent(0..9),
        Event::Finished(b"a".to_vec()),
    ])
}

#[test]
fn offset_below_the_acknowledged_or_past_the_sent_breaks_a_rule() {
    assert_eq!(judge(&half(), &Answer::Committed(50), Age::default()), None);
    assert_eq!(
        judge(&half(), &Answer::Committed(100), Age::default()),
        None
    );
    let back = judge(&half(), &Answer::Committed(49), Age::default());
    assert_eq!(
        back,
        Some(Rule::OffsetMovedBack {
            acknowledged: 50,
            now: 49
        })
    );
    let more = judge(&half(), &Answer::Committed(101), Age::default());
    assert_eq!(
        more,
        Some(Rule::MoreThanSent {
            sent: 100,
            now: 101
        })
    );
}

#[test]
fn started_session_is_known_until_its_cancel_was_sent() {
    assert_eq!(
        judge(&half(), &Answer::Unknown, Age::default()),
        Some(Rule::SessionLost)
    );
    assert_eq!(
        judge(&half(), &Answer::Cancelled, Age::default()),
        Some(Rule::SessionLost)
    );
    let mut promise = half();
    promise.note(&Event::CancelSent);
    assert_eq!(
        judge(&promise, &Answer::Committed(50), Age::default()),
        None
    );
    assert_eq!(judge(&promise, &Answer::Cancelled, Age::default()), None);
    promise.note(&Event::Cancelled);
    assert_eq!(
        judge(&promise, &Answer::Committed(50), Age::default()),
        Some(Rule::CancelledLives)
    );
    assert_eq!(judge(&promise, &Answer::Unknown, Age::default()), None);
}

#[test]
fn session_that_was_never_started_cannot_be_gone() {
    let promise = Promise::of(&[Event::Sent(0..100)]);
    for answer in [Answer::Unknown, Answer::Cancelled] {
        assert!(matches!(
            judge(&promise, &answer, Age::default()),
            Some(Rule::Strange(_))
        ));
    }
}

#[test]
fn finished_session_repeats_its_reply() {
    assert_eq!(
        judge(
            &finished(),
            &Answer::Finished(b"a".to_vec()),
            Age::default()
        ),
        None
    );
    let changed = judge(
        &finished(),
        &Answer::Finished(b"b".to_vec()),
        Age::default(),
    );
    assert_eq!(changed, Some(Rule::ReplyChanged));
    assert_eq!(
        judge(&finished(), &Answer::Committed(9), Age::default()),
        Some(Rule::Unfinished)
    );
}

#[test]
fn refusal_breaks_no_rule() {
    assert_eq!(
        judge(&finished(), &Answer::NotNow(503), Age::default()),
        None
    );
    assert_eq!(judge(&half(), &Answer::NotNow(503), Age::default()), None);
}

#[test]
fn lost_bytes_are_the_acknowledged_that_are_missing() {
    assert_eq!(lost(&half(), &Answer::Committed(30)), 20);
    assert_eq!(lost(&half(), &Answer::Committed(101)), 0);
    assert_eq!(lost(&half(), &Answer::Unknown), 50);
    assert_eq!(lost(&finished(), &Answer::Committed(2)), 7);
    assert_eq!(lost(&finished(), &Answer::Finished(b"b".to_vec())), 0);
}

#[test]
fn cancelled_upload_loses_no_bytes() {
    let mut promise = half();
    promise.note(&Event::CancelSent);
    promise.note(&Event::Cancelled);
    assert_eq!(lost(&promise, &Answer::Committed(0)), 0);
}

#[test]
fn finished_session_is_not_gone_though_a_cancel_was_sent() {
    let mut promise = finished();
    promise.note(&Event::CancelSent);
    for answer in [Answer::Unknown, Answer::Cancelled] {
        let broken = judge(&promise, &answer, Age::default());
        assert_eq!(broken, Some(Rule::SessionLost));
    }
}

#[test]
fn session_may_be_gone_when_it_may_have_expired_and_must_not_go_on_when_it_has() {
    let may = Age {
        may_have_expired: true,
        has_expired: false,
    };
    assert_eq!(judge(&half(), &Answer::Unknown, may), None);
    assert_eq!(judge(&half(), &Answer::Committed(50), may), None);
    // Nobody has cancelled it.
    assert!(judge(&half(), &Answer::Cancelled, may).is_some());
    let has = Age {
        has_expired: true,
        ..may
    };
    for answer in [Answer::Committed(50), Answer::Finished(b"a".to_vec())] {
        let broken = judge(&half(), &answer, has);
        assert_eq!(broken, Some(Rule::ExpiredLives));
    }
}

#[test]
fn upload_that_was_sent_in_part_yields_no_resource_whatever_its_client_was_told() {
    let mut promise = half();
    assert_eq!(promise.end(100), End::Open);
    assert_eq!(promise.end(101), End::Incomplete);
    promise.note(&Event::Finished(b"a".to_vec()));
    assert_eq!(promise.end(100), End::Finished);
    assert_eq!(promise.end(101), End::Incomplete);
    promise.note(&Event::Cancelled);
    assert_eq!(promise.end(101), End::Cancelled);
    assert_eq!(Promise::default().end(0), End::Open);
}

#[test]
fn answer_is_an_event_if_it_tells_of_a_change() {
    let told = [
        Answer::Started("/a".to_owned()),
        Answer::Committed(9),
        Answer::Finished(b"a".to_vec()),
        Answer::Cancelled,
        Answer::NotNow(503),
        Answer::Unknown,
    ];
    let events = [
        Some(Event::Started),
        Some(Event::Committed(9)),
        Some(Event::Finished(b"a".to_vec())),
        Some(Event::Cancelled),
        Some(Event::Refused(503)),
        None,
    ];
    assert_eq!(told.map(|answer| answer.event()), events);
}

#[test]
fn finished_upload_has_one_resource_and_a_cancelled_or_incomplete_one_none() {
    let is_right = |end, found| judge_resources(end, found, false).is_none();
    assert_eq!(
        [0, 1, 2].map(|n| is_right(End::Finished, n)),
        [false, true, false]
    );
    for end in [End::Cancelled, End::Incomplete] {
        assert_eq!([0, 1, 2].map(|n| is_right(end, n)), [true, false, false]);
    }
    assert_eq!(
        [0, 1, 2].map(|n| is_right(End::Open, n)),
        [true, true, false]
    );
    assert_eq!(judge_resources(End::Finished, 2, true), None);
    assert!(judge_resources(End::Finished, 0, true).is_some());
}
