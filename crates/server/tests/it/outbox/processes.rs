//! Claims: crashes, and several servers on one store.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::pending;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use windlass_server::Stores;
use windlass_store::fault::{InjectedFault, Trigger};

use super::receiver::{receiver, slow, willing};
use super::{A_WHILE, Attempts, CLAIM, Place, Receiver, counts, next, upload};

#[tokio::test(start_paused = true)]
async fn event_is_delivered_again_after_a_crash_between_delivery_and_deletion() {
    let place = Place::new();
    // The receiver accepts the event, and the server dies before it learns that.
    let (receiver, mut attempts) = receiver(|_| Box::pin(pending()));
    let world = place.world([receiver]);
    let serving = world.serve().await;
    upload(&world).await;
    let first = next(&mut attempts).await;
    serving.crash().await;
    drop(world);

    let (receiver, mut attempts) = willing();
    let world = place.world([receiver]);
    let serving = world.serve().await;
    let again = next(&mut attempts).await;
    assert_eq!((&again.id, &again.payload), (&first.id, &first.payload));
    let between = again.at.as_millis() - first.at.as_millis();
    assert!(u128::from(between) >= CLAIM.as_millis(), "{between} ms");
    sleep(A_WHILE).await;
    assert!(attempts.try_recv().is_err());
    assert_eq!(place.waiting().await, [Value::Null; 0]);
    serving.stop().await.expect("no panic");
}

#[tokio::test(start_paused = true)]
async fn servers_on_one_store_deliver_each_event_once() {
    let place = Place::new();
    let second = Duration::from_secs(1);
    let ((one, mut of_one), (other, mut of_other)) = (slow(second), slow(second));
    let (one, other) = (place.world([one]), place.world([other]));
    let mut expected = Vec::new();
    for _ in 0..50 {
        expected.push(upload(&one).await);
    }
    let serving = [one.serve().await, other.serve().await];
    sleep(A_WHILE).await;
    let mut delivered = Vec::new();
    for attempts in [&mut of_one, &mut of_other] {
        let before = delivered.len();
        while let Ok(attempt) = attempts.try_recv() {
            delivered.push(attempt.payload["id"].as_str().expect("text").to_owned());
        }
        assert!(delivered.len() > before, "both deliver");
    }
    delivered.sort();
    expected.sort();
    assert_eq!(delivered, expected);
    assert_eq!(place.waiting().await, [Value::Null; 0]);
    for serving in serving {
        serving.stop().await.expect("no panic");
    }
}

/// Two servers that are two processes, with one place.
fn processes() -> [Place; 2] {
    let one = Place::new();
    let ledger = Arc::new(one.ledger.of_another_process());
    let stores = Stores {
        ledger: Arc::clone(&ledger) as Arc<_>,
        ..one.stores.clone()
    };
    let clock = Arc::clone(&one.clock);
    let other = Place {
        ledger,
        stores,
        clock,
    };
    [one, other]
}

#[tokio::test(start_paused = true)]
async fn processes_hand_over_each_event_once() {
    let [first, second] = processes();
    let ((one, mut of_one), (other, mut of_other)) = (slow(CLAIM), slow(CLAIM));
    let (one, other) = (first.world([one]), second.world([other]));
    let _serving = [one.serve().await, other.serve().await];
    let mut expected = Vec::new();
    for _ in 0..5 {
        expected.push(upload(&one).await);
        expected.push(upload(&other).await);
    }
    sleep(A_WHILE).await;
    let mut delivered = Vec::new();
    for attempts in [&mut of_one, &mut of_other] {
        while let Ok(attempt) = attempts.try_recv() {
            delivered.push(attempt.payload["id"].as_str().expect("text").to_owned());
        }
    }
    delivered.sort();
    expected.sort();
    assert_eq!(delivered, expected);
    assert_eq!(first.waiting().await, [Value::Null; 0]);
}

#[tokio::test(start_paused = true)]
async fn event_of_a_process_that_has_died_is_delivered_at_once() {
    let [first, second] = processes();
    // The receiver accepts the event, and the server dies before it learns that.
    let (receiver, mut attempts) = receiver(|_| Box::pin(pending()));
    let world = first.world([receiver]);
    let serving = world.serve().await;
    upload(&world).await;
    let claimed = next(&mut attempts).await;
    let (receiver, mut attempts) = willing();
    let other = second.world([receiver]);
    let _serving = other.serve().await;
    let before = CLAIM / 5;
    sleep(before).await;
    assert!(attempts.try_recv().is_err(), "it is claimed");
    serving.crash().await;
    first.ledger.end_process();
    let again = next(&mut attempts).await;
    assert_eq!(again.id, claimed.id);
    let between = again.at.as_millis() - claimed.at.as_millis();
    // The second server looks once a minute, and before the claim expires.
    let within = before + Duration::from_secs(62);
    assert!(u128::from(between) <= within.as_millis(), "{between} ms");
    assert!(within < CLAIM);
    sleep(A_WHILE).await;
    assert!(attempts.try_recv().is_err());
    assert_eq!(second.waiting().await, [Value::Null; 0]);
}

#[tokio::test(start_paused = true)]
async fn slow_delivery_does_not_delay_a_new_event() {
    let place = Place::new();
    let (receiver, mut attempts) = slow(Duration::from_secs(60));
    let world = place.world([receiver]);
    let _serving = world.serve().await;
    upload(&world).await;
    let first = next(&mut attempts).await;
    sleep(Duration::from_secs(10)).await;
    upload(&world).await;
    let second = next(&mut attempts).await;
    let between = second.at.as_millis() - first.at.as_millis();
    assert!(between < 12_000, "{between} ms");
}

#[tokio::test(start_paused = true)]
async fn long_delivery_keeps_its_claim() {
    let (one, of_one) = slow(3 * CLAIM);
    assert_keeps_claim(one, of_one).await;
}

#[tokio::test(start_paused = true)]
async fn long_conclusion_keeps_its_claim() {
    let (mut one, of_one) = willing();
    one.conclude = Some(Box::new(|_| {
        Box::pin(async {
            sleep(3 * CLAIM).await;
            Ok(Vec::new())
        })
    }));
    assert_keeps_claim(one, of_one).await;
}

/// Delivers an event to a receiver that takes three times as long as a claim lasts. Another server
/// on the same store waits for an event in the meantime.
async fn assert_keeps_claim(one: Receiver, mut of_one: Attempts) {
    let place = Place::new();
    let (other, mut of_other) = willing();
    let (one, other) = (place.world([one]), place.world([other]));
    let _one = one.serve().await;
    upload(&one).await;
    next(&mut of_one).await;
    let _other = other.serve().await;
    sleep(4 * CLAIM).await;
    assert!(of_one.try_recv().is_err() && of_other.try_recv().is_err());
    assert_eq!((counts(&one), counts(&other)), ((1, 0, 0), (0, 0, 0)));
}

#[tokio::test(start_paused = true)]
async fn event_that_cannot_be_claimed_is_not_delivered() {
    let place = Place::new();
    upload(&place.world([])).await;
    let (full_place, full) = place.faulty(Trigger::From(1), InjectedFault::NoSpace);
    let (receiver, mut attempts) = willing();
    let world = full_place.world([receiver]);
    let serving = world.serve().await;
    sleep(A_WHILE).await;
    assert!(attempts.try_recv().is_err());
    let claims = full.calls_of("claim");
    assert!((20..=22).contains(&claims), "one each minute: {claims}");
    serving.stop().await.expect("no panic");
    assert_eq!(place.waiting().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn event_of_another_process_is_found_within_a_minute_though_own_events_keep_coming() {
    let place = Place::new();
    let (receiver, mut attempts) = willing();
    let world = place.world([receiver]);
    let _serving = world.serve().await;
    upload(&world).await;
    next(&mut attempts).await;
    // An old id, like the id of an event that another process has postponed.
    let foreign = json!({"created": 0, "due": 0, "failures": 0, "payload": "foreign"});
    place.insert_row("0", &foreign).await;
    let begun = Instant::now();
    loop {
        sleep(Duration::from_secs(10)).await;
        upload(&world).await;
        if next(&mut attempts).await.payload == "foreign" {
            break;
        }
        assert!(begun.elapsed() <= Duration::from_secs(70));
    }
}
