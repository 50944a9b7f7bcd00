use super::*;
use crate::raw::Request;

const SESSION: &str = "/upload/farm/v1/animals?uploadType=resumable&upload_id=abc";
const START: &str = "/upload/farm/v1/animals?uploadType=resumable";

fn head(verb: &str, target: &str) -> RequestHead {
    let head = Request::new(verb, target).body("abc").head_bytes();
    RequestHead::of(0, &Head::parse(&head).unwrap().unwrap())
}

#[test]
fn a_plan_knows_starts_from_sessions() {
    for (target, is_start, is_session) in [
        (START, true, false),
        (SESSION, false, true),
        ("/upload/-tus/a1/farm/v1/animals", false, true),
        ("/upload/farm/v1/animals?uploadType=media", false, false),
        ("/farm/v1/animals", false, false),
    ] {
        let head = head("PUT", target);
        assert_eq!(head.is_start, is_start, "{target}");
        assert_eq!(head.is_session, is_session, "{target}");
        assert_eq!(head.content_length, Some(3));
    }
}

#[test]
fn a_fault_may_strike_once() {
    let mut plan = Plan::once(1, Fault::LoseReply);
    let targets = [SESSION, START, SESSION, START, SESSION];
    let chosen = targets.map(|target| plan.choose(&head("PUT", target)).is_some());
    assert_eq!(chosen, [false, false, true, false, false]);
}

#[test]
fn a_mix_follows_from_its_seed_and_ends() {
    let request = head("PUT", SESSION);
    let run = |seed| {
        let mut plan = Plan::mix(seed, 5);
        [0; 100].map(|_| plan.choose(&request))
    };
    for seed in 0..100 {
        assert_eq!(run(seed), run(seed));
        assert_eq!(run(seed).iter().flatten().count(), 5);
    }
    assert_ne!(run(1), run(2));
}
