//! Deliveries that succeed, and the end of deliveries when the server stops.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{pending, ready};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use windlass_discovery::Access;
use windlass_server::handler::{DeliveryPolicy, Failure, Outcome};
use windlass_server::{Ended, Principal, Registry};
use windlass_store::Ledger as _;
use windlass_testkit::farm;
use windlass_testkit::in_process;

use super::receiver::{receiver, slow, willing};
use super::{A_WHILE, Announcer, MEDIA, OTHER, Place, TOPIC, counts, delete, next, tries, upload};
use crate::world::{Peer as _, World, limits};

#[tokio::test(start_paused = true)]
async fn events_of_uploads_and_calls_are_delivered_at_once_and_only_once() {
    let place = Place::new();
    let (receiver, mut attempts) = willing();
    let world = place.world([receiver]);
    let serving = world.serve().await;
    let begun = Instant::now();
    let simple = upload(&world).await;
    assert_eq!(next(&mut attempts).await.payload["id"], simple);
    let session = world.start(Some(40)).await.expect("it begins");
    let finished = world.put(&session, "bytes 0-39/40", MEDIA).await;
    let resumable = finished.field("id");
    assert_eq!(next(&mut attempts).await.payload["id"], resumable);
    delete(&world, &simple).await;
    assert_eq!(next(&mut attempts).await.payload["id"], simple);
    assert_eq!(begun.elapsed(), Duration::ZERO);
    sleep(A_WHILE).await;
    assert!(attempts.try_recv().is_err(), "each is delivered once");
    assert_eq!(place.waiting().await, [Value::Null; 0]);
    assert_eq!(counts(&world), (3, 0, 0));
    assert_eq!(serving.stop().await.expect("no panic"), Ended::Drained);
}

#[tokio::test(start_paused = true)]
async fn event_keeps_its_media_until_it_is_delivered() {
    let place = Place::new();
    let api = Announcer {
        names_media: true,
        ..Announcer::of(&[TOPIC])
    };
    let (receiver, mut attempts) = willing();
    let world = place.world_of(api.serve(), [receiver]);
    let id = upload(&world).await;
    delete(&world, &id).await;
    let garbage = async || {
        place
            .ledger
            .garbage(None, 10)
            .await
            .expect("it is well")
            .len()
    };
    assert_eq!(garbage().await, 0);
    let _serving = world.serve().await;
    let attempts = [next(&mut attempts).await, next(&mut attempts).await];
    assert!(attempts.iter().any(|it| it.media == Some(MEDIA.whole())));
    sleep(A_WHILE).await;
    let listed = place.stores.vault.list(None, 10).await;
    assert_eq!(listed.expect("the vault is well").stored, []);
}

#[tokio::test(start_paused = true)]
async fn conclusion_changes_the_resources_of_the_owner_whose_call_left_the_event() {
    let place = Place::new();
    let (mut receiver, _attempts) =
        receiver(|_| Box::pin(ready(Outcome::GiveUp(Failure::new("no")))));
    // Inserts the row of the tally in the root namespace, which is no conflict.
    receiver.ledger = Some(Arc::clone(&place.ledger));
    let mut farm = Announcer::farm();
    farm.api = farm
        .api
        .map_settings(|settings| settings.access = Access::Owner);
    let world = place.world_of(farm, [receiver]);
    let _serving = world.serve().await;
    let mut request = in_process::request("POST", farm::ANIMALS, &[], "{}");
    request.extensions_mut().insert(Principal::new("alice"));
    let made = world.try_exchange(request).await;
    assert_eq!(made.status, 200, "{made:?}");
    sleep(A_WHILE).await;
    assert_eq!(place.waiting().await, [Value::Null; 0]);
    for collection in ["tallies", ".owner/alice/tallies"] {
        let tally = place.ledger.resource(collection, "1").await;
        let tally = tally.expect("the ledger is well");
        assert_eq!(tally.map(|tally| tally.version), Some(1), "{collection}");
    }
}

#[tokio::test(start_paused = true)]
async fn split_event_is_delivered_in_parts() {
    let place = Place::new();
    let (receiver, mut attempts) = receiver(|attempt| {
        let outcome = if attempt.payload.is_object() {
            Outcome::Split(vec!["a".into(), "b".into()])
        } else {
            Outcome::Delivered
        };
        Box::pin(ready(outcome))
    });
    let world = place.world([receiver]);
    let _serving = world.serve().await;
    upload(&world).await;
    let whole = next(&mut attempts).await;
    let mut parts = [next(&mut attempts).await, next(&mut attempts).await];
    parts.sort_by(|one, other| one.id.cmp(&other.id));
    assert_eq!(
        (&parts[0].payload, &parts[1].payload),
        (&"a".into(), &"b".into())
    );
    assert!(parts.iter().all(|part| part.id.starts_with(&whole.id)));
    sleep(A_WHILE).await;
    assert!(attempts.try_recv().is_err());
    assert_eq!(place.waiting().await, [Value::Null; 0]);
}

#[tokio::test(start_paused = true)]
async fn topic_that_hangs_does_not_delay_another() {
    let place = Place::new();
    let (stuck, mut of_stuck) = receiver(|_| Box::pin(pending()));
    let (mut other, mut of_other) = willing();
    other.topic = OTHER;
    let api = Announcer::of(&[TOPIC, OTHER]).serve();
    let world = place.world_of(api, [stuck, other]);
    let _serving = world.serve().await;
    for _ in 0..10 {
        upload(&world).await;
    }
    for _ in 0..10 {
        next(&mut of_other).await;
    }
    sleep(Duration::from_secs(1)).await;
    let tried = tries(&mut of_stuck);
    assert_eq!(tried, DeliveryPolicy::default().concurrency);
}

#[tokio::test(start_paused = true)]
async fn drain_waits_for_the_running_delivery_and_begins_no_other() {
    let place = Place::new();
    let (mut receiver, mut attempts) = slow(Duration::from_secs(1));
    receiver.policy.concurrency = 1;
    let world = place.world([receiver]);
    let serving = world.serve().await;
    upload(&world).await;
    upload(&world).await;
    next(&mut attempts).await;
    assert_eq!(serving.stop().await.expect("no panic"), Ended::Drained);
    assert!(attempts.try_recv().is_err());
    assert_eq!(
        (counts(&world), place.waiting().await.len()),
        ((1, 0, 0), 1)
    );
}

#[tokio::test(start_paused = true)]
async fn drain_drops_a_delivery_that_takes_too_long() {
    let place = Place::new();
    let (receiver, mut attempts) = receiver(|_| Box::pin(pending()));
    let world = place.world([receiver]);
    let serving = world.serve().await;
    upload(&world).await;
    next(&mut attempts).await;
    let begun = Instant::now();
    assert_eq!(serving.stop().await.expect("no panic"), Ended::Drained);
    assert!(begun.elapsed() <= limits().drain);
    assert_eq!(place.waiting().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn drain_ends_the_scan_of_many_events() {
    let (place, faults) = Place::new().counted();
    let (mut receiver, mut attempts) = slow(Duration::from_secs(1));
    receiver.policy.concurrency = 1;
    let world = place.world([receiver]);
    for _ in 0..100 {
        upload(&world).await;
    }
    let serving = world.serve().await;
    next(&mut attempts).await;
    let before = faults.calls_of("claim");
    assert_eq!(serving.stop().await.expect("no panic"), Ended::Drained);
    assert_eq!(faults.calls_of("claim"), before);
}

#[tokio::test(start_paused = true)]
async fn dropped_server_keeps_no_store_open() {
    let place = Place::new();
    let (receiver, mut attempts) = willing();
    let registry = Registry::new([Announcer::farm()]).expect("there is one API");
    let clock = Arc::clone(&place.clock);
    let world = World::of_registry(
        registry.with_delivery(Arc::new(receiver)),
        place.stores.clone(),
        clock,
        |_| (),
    );
    world.server.start().await;
    upload(&world).await;
    next(&mut attempts).await;
    sleep(Duration::from_secs(1)).await;
    drop(world);
    // No task gets a turn to end in between. One reference to the ledger belongs to the task that
    // waits for other processes. The remaining references belong to `place`.
    assert_eq!(Arc::strong_count(&place.stores.vault), 1);
    assert_eq!(Arc::strong_count(&place.ledger), 3);
}
