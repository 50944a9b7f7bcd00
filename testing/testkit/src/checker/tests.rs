use super::record::{Event, Known};
use super::rule::{Rule, judge, lost};
use super::{Answer, Load};

fn known(events: &[Event]) -> Known {
    let mut known = Known::default();
    for event in events {
        known.note(event);
    }
    known
}

fn half() -> Known {
    known(&[Event::Started, Event::Sent(0..100), Event::Committed(50)])
}

fn finished() -> Known {
    known(&[
        Event::Started,
        Event::Sent(0..9),
        Event::Finished(b"a".to_vec()),
    ])
}

#[test]
fn an_offset_may_grow_but_not_decrease_nor_pass_what_was_sent() {
    assert_eq!(judge(&half(), &Answer::Committed(50)), None);
    assert_eq!(judge(&half(), &Answer::Committed(100)), None);
    let back = judge(&half(), &Answer::Committed(49));
    assert_eq!(
        back,
        Some(Rule::OffsetMovedBack {
            acknowledged: 50,
            now: 49
        })
    );
    let more = judge(&half(), &Answer::Committed(101));
    assert_eq!(
        more,
        Some(Rule::MoreThanSent {
            sent: 100,
            now: 101
        })
    );
}

#[test]
fn a_started_session_is_known_until_it_is_cancelled() {
    assert_eq!(judge(&half(), &Answer::Unknown), Some(Rule::SessionLost));
    assert_eq!(judge(&half(), &Answer::Cancelled), Some(Rule::SessionLost));
    let mut known = half();
    known.note(&Event::CancelSent);
    assert_eq!(judge(&known, &Answer::Committed(50)), None);
    assert_eq!(judge(&known, &Answer::Cancelled), None);
    known.note(&Event::Cancelled);
    assert_eq!(
        judge(&known, &Answer::Committed(50)),
        Some(Rule::CancelledLives)
    );
    assert_eq!(judge(&known, &Answer::Unknown), None);
}

#[test]
fn what_was_never_started_cannot_be_gone() {
    let known = known(&[Event::Sent(0..100)]);
    for answer in [Answer::Unknown, Answer::Cancelled] {
        assert!(matches!(judge(&known, &answer), Some(Rule::Strange(_))));
    }
}

#[test]
fn a_finished_session_says_the_same_for_ever() {
    assert_eq!(judge(&finished(), &Answer::Finished(b"a".to_vec())), None);
    let changed = judge(&finished(), &Answer::Finished(b"b".to_vec()));
    assert_eq!(changed, Some(Rule::ReplyChanged));
    assert_eq!(
        judge(&finished(), &Answer::Committed(9)),
        Some(Rule::Unfinished)
    );
}

#[test]
fn a_refusal_says_nothing() {
    assert_eq!(judge(&finished(), &Answer::NotNow(503)), None);
    assert_eq!(judge(&half(), &Answer::NotNow(503)), None);
}

#[test]
fn what_was_lost_is_what_was_acknowledged_and_is_not_there() {
    assert_eq!(lost(&half(), &Answer::Committed(30)), 20);
    assert_eq!(lost(&half(), &Answer::Committed(101)), 0);
    assert_eq!(lost(&half(), &Answer::Unknown), 50);
    assert_eq!(lost(&finished(), &Answer::Committed(2)), 7);
    assert_eq!(lost(&finished(), &Answer::Finished(b"b".to_vec())), 0);
}

#[test]
fn what_was_cancelled_cannot_be_lost() {
    let mut known = half();
    known.note(&Event::CancelSent);
    known.note(&Event::Cancelled);
    assert_eq!(lost(&known, &Answer::Committed(0)), 0);
}

#[test]
fn what_clients_do_follows_from_the_seed() {
    let load = Load::default();
    assert_eq!(load.upload(1, 2, 3), load.upload(1, 2, 3));
    assert_ne!(load.upload(1, 2, 3), load.upload(1, 2, 4));
    assert_ne!(load.upload(1, 2, 3), load.upload(2, 2, 3));
}
