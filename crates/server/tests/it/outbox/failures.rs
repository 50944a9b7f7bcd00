//! Attempts that fail, and events that are given up.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{pending, ready};
use serde_json::{Value, json};
use tokio::time::sleep;
use windlass_server::Clock as _;
use windlass_server::handler::{Failure, Outcome};
use windlass_store::{Ledger as _, ResourceChange};

use super::receiver::{failing, receiver, willing};
use super::{
    A_WHILE, Announcer, Attempts, DAY, Place, Receiver, TOPIC, counts, next, tries, upload,
};

#[tokio::test(start_paused = true)]
async fn failed_delivery_is_retried_with_growing_delays() {
    let place = Place::new();
    let (receiver, mut attempts) = receiver(|attempt| {
        let outcome = match attempt.failures {
            0..3 => Outcome::Retry(Failure::new("not now")),
            // A panic is a failure like any other.
            3 => panic!("on purpose"),
            _ => Outcome::Delivered,
        };
        Box::pin(ready(outcome))
    });
    let world = place.world([receiver]);
    let _serving = world.serve().await;
    upload(&world).await;
    let mut last = next(&mut attempts).await;
    for minutes in [1, 2, 4, 8] {
        let attempt = next(&mut attempts).await;
        assert_eq!(
            (&attempt.id, attempt.failures),
            (&last.id, last.failures + 1)
        );
        let delay = Duration::from_millis(attempt.at.as_millis() - last.at.as_millis());
        let expected = Duration::from_secs(minutes * 60);
        let late = delay.checked_sub(expected);
        assert!(late.is_some_and(|late| late.as_secs() < 3), "{delay:?}");
        last = attempt;
    }
    sleep(A_WHILE).await;
    assert!(attempts.try_recv().is_err());
    assert_eq!(counts(&world), (1, 4, 0));
}

#[tokio::test(start_paused = true)]
async fn attempt_that_takes_too_long_is_a_failure() {
    let (receiver, attempts) = receiver(|attempt| match attempt.failures {
        0 => Box::pin(pending()),
        _ => Box::pin(ready(Outcome::Delivered)),
    });
    assert_fails_by_timeout(receiver, attempts).await;
}

#[tokio::test(start_paused = true)]
async fn conclusion_that_takes_too_long_is_a_failure() {
    let (mut receiver, attempts) = willing();
    receiver.conclude = Some(Box::new(|failures| match failures {
        0 => Box::pin(pending()),
        _ => Box::pin(ready(Ok(Vec::new()))),
    }));
    assert_fails_by_timeout(receiver, attempts).await;
}

/// Delivers an event to a receiver with a first attempt that takes longer than its timeout.
async fn assert_fails_by_timeout(mut receiver: Receiver, mut attempts: Attempts) {
    receiver.policy.timeout = Duration::from_secs(10 * 60);
    let place = Place::new();
    let world = place.world([receiver]);
    let _serving = world.serve().await;
    upload(&world).await;
    let (first, second) = (next(&mut attempts).await, next(&mut attempts).await);
    let between = second.at.as_millis() - first.at.as_millis();
    // The timeout, and the first delay. The clock moves once a second.
    assert!((659_000..663_000).contains(&between), "{between} ms");
    sleep(A_WHILE).await;
    assert_eq!(counts(&world), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn old_event_is_given_up_together_with_the_changes_of_its_delivery() {
    let place = Place::new();
    let (mut receiver, mut attempts) = failing(u32::MAX);
    receiver.policy.max_age = Duration::from_secs(5 * 60);
    // Its first change set conflicts.
    receiver.ledger = Some(Arc::clone(&place.ledger));
    let world = place.world([receiver]);
    let _serving = world.serve().await;
    upload(&world).await;
    sleep(A_WHILE).await;
    // After 0, 1, 3 and 7 minutes.
    assert_eq!((tries(&mut attempts), counts(&world)), (4, (0, 4, 1)));
    assert_eq!(place.waiting().await, [Value::Null; 0]);
    let tally = place.ledger.resource("tallies", "1").await;
    let tally = tally.expect("the ledger is well").expect("it was made");
    assert_eq!(tally.version, 2, "that of the rival, and one more");
}

#[tokio::test(start_paused = true)]
async fn event_whose_conclusion_always_conflicts_is_deleted_at_twice_the_maximum_age() {
    let place = Place::new();
    let (mut receiver, mut attempts) = willing();
    receiver.policy.max_age = Duration::from_secs(5 * 60);
    receiver.conclude = Some(Box::new(|_| {
        let missing = ResourceChange::Delete {
            collection: "tallies".to_owned(),
            id: "none".to_owned(),
            expected: 1,
        };
        Box::pin(ready(Ok(vec![missing])))
    }));
    let world = place.world([receiver]);
    let _serving = world.serve().await;
    upload(&world).await;
    sleep(DAY).await;
    // After 0, 1, 3, 7 and 15 minutes.
    assert_eq!((tries(&mut attempts), counts(&world)), (5, (1, 4, 0)));
    assert_eq!(place.waiting().await, [Value::Null; 0]);
}

#[tokio::test(start_paused = true)]
async fn event_that_is_due_late_has_its_whole_age_for_attempts() {
    let place = Place::new();
    let api = Announcer {
        delay: Some(4 * DAY),
        ..Announcer::of(&[TOPIC])
    };
    let (receiver, mut attempts) = failing(3);
    assert!(receiver.policy.max_age < 4 * DAY);
    let world = place.world_of(api.serve(), [receiver]);
    let _serving = world.serve().await;
    upload(&world).await;
    sleep(5 * DAY).await;
    assert_eq!((tries(&mut attempts), counts(&world)), (4, (1, 3, 0)));
}

#[tokio::test(start_paused = true)]
async fn event_whose_first_attempt_is_late_is_not_given_up_at_its_first_failure() {
    let place = Place::new();
    upload(&place.world([])).await;
    sleep(4 * DAY).await;
    let (receiver, mut attempts) = failing(1);
    let world = place.world([receiver]);
    let _serving = world.serve().await;
    sleep(A_WHILE).await;
    assert_eq!((tries(&mut attempts), counts(&world)), (2, (1, 1, 0)));
}

#[tokio::test(start_paused = true)]
async fn event_about_an_unreadable_row_is_given_up_and_delays_no_other() {
    let place = Place::new();
    let (mut receiver, mut attempts) = willing();
    receiver.policy.max_age = Duration::from_secs(5 * 60);
    receiver.policy.concurrency = 1;
    receiver.reads_badly = true;
    let now = place.clock.now().as_millis();
    let strange = json!({"created": now, "due": now, "failures": 0, "payload": "?"});
    place.insert_row("0", &strange).await;
    let world = place.world([receiver]);
    // Rows of several pages follow it.
    for _ in 0..50 {
        upload(&world).await;
    }
    let _serving = world.serve().await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!((tries(&mut attempts), counts(&world)), (51, (50, 1, 0)));
    sleep(DAY).await;
    // After 1, 3 and 7 minutes.
    assert_eq!((tries(&mut attempts), counts(&world)), (3, (50, 4, 1)));
    assert_eq!(place.waiting().await, [Value::Null; 0]);
}

#[tokio::test(start_paused = true)]
async fn event_that_cannot_be_read_is_left_and_delays_no_other() {
    let place = Place::new();
    for body in [json!({"due": "now"}), json!([]), json!({})] {
        place.insert_row(&format!("0-{body}"), &body).await;
    }
    let (receiver, mut attempts) = receiver(|attempt| {
        let outcome = if attempt.payload == "?" {
            Outcome::Unreadable("what is it?".to_owned())
        } else {
            Outcome::Delivered
        };
        Box::pin(ready(outcome))
    });
    let strange = json!({"created": 0, "due": 0, "failures": 0, "payload": "?"});
    place.insert_row("1", &strange).await;
    let world = place.world([receiver]);
    let _serving = world.serve().await;
    let id = upload(&world).await;
    let mut payloads = [next(&mut attempts).await, next(&mut attempts).await].map(|it| it.payload);
    payloads.sort_by_key(Value::is_object);
    assert_eq!(
        (&payloads[0], &payloads[1]["id"]),
        (&"?".into(), &id.into())
    );
    sleep(A_WHILE).await;
    assert!(attempts.try_recv().is_err(), "it is tried once");
    assert_eq!(place.waiting().await.len(), 4);
    assert_eq!(world.server.outbox()[0].waiting, 4);
}

#[tokio::test(start_paused = true)]
async fn new_events_cause_no_scans_while_the_receiver_is_down() {
    let (place, faults) = Place::new().counted();
    let (receiver, mut attempts) = failing(u32::MAX);
    let world = place.world([receiver]);
    let _serving = world.serve().await;
    for _ in 0..300 {
        upload(&world).await;
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(tries(&mut attempts), 300);
    let scans = faults.calls_of("resources");
    assert!(scans <= 10, "{scans} reads of many rows");
}
