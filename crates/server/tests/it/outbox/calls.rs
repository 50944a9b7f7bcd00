//! The events that calls leave.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use windlass_server::handler::MAX_EVENT_LEN;
use windlass_store::Ledger as _;
use windlass_testkit::farm::{ANIMALS, UPLOADS};

use super::{Announcer, EVENTS, MEDIA, Place, TOPIC, upload};
use crate::world::Peer as _;

#[tokio::test(start_paused = true)]
async fn call_that_conflicts_and_runs_again_leaves_its_events_once() {
    let place = Place::new();
    let changed = async |method: &str, uri: &str, headers: &[_], body: &[u8]| {
        let handler = Arc::new(Announcer {
            rival: Some(Arc::clone(&place.ledger)),
            ..Announcer::of(&[TOPIC])
        });
        let api = Announcer::serve_shared(Arc::clone(&handler));
        let world = place.world_of(api, []);
        let reply = world.send(method, uri, headers, body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(handler.calls.load(Ordering::Relaxed), 2);
        reply.field("id")
    };
    let uri = format!("{UPLOADS}?uploadType=media");
    let made = changed("POST", &uri, &[("content-type", "image/png")], b"media").await;
    let uri = format!("{ANIMALS}/{made}");
    let json = [("content-type", "application/json")];
    changed("PUT", &uri, &json, br#"{"name": "ox"}"#).await;
    let waiting = place.waiting().await;
    let mut versions: Vec<_> = waiting.iter().map(|it| it["version"].as_u64()).collect();
    // Their ids are of the same millisecond, and have no order.
    versions.sort_unstable();
    let [Some(first), Some(second)] = versions[..] else {
        panic!("{waiting:?}");
    };
    assert_eq!(first + 1, second);
}

#[tokio::test]
async fn upload_whose_event_is_too_long_is_refused_and_leaves_neither() {
    let place = Place::new();
    let api = Announcer {
        padding: MAX_EVENT_LEN,
        ..Announcer::of(&[TOPIC])
    };
    let world = place.world_of(api.serve(), []);
    let refused = world.simple(ANIMALS, "image/png", &MEDIA.whole()).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    assert_eq!((world.count().await, place.waiting().await.len()), (0, 0));
}

#[tokio::test]
async fn no_request_reaches_an_event() {
    let place = Place::new();
    let world = place.world([]);
    upload(&world).await;
    let row = place.ledger.resources(EVENTS, None, 1).await;
    let id = row.expect("the ledger is well").remove(0).id;
    let places = [
        ".outbox/animals",
        "farm/v1/.outbox/animals",
        "farm/v1/animals/..%2F.outbox%2Fanimals",
        "farm/v1/animals/%2E%2E/%2E%2E/.outbox/animals",
        "farm/.outbox/animals",
    ];
    for place in places {
        for uri in [
            format!("/{place}"),
            format!("/{place}/{id}"),
            format!("/{place}%2F{id}"),
        ] {
            let reply = world.get(&uri).await;
            assert_eq!(reply.status, 404, "{uri}: {reply:?}");
        }
    }
    let animal = world.get(&format!("{ANIMALS}/{id}")).await;
    assert_eq!(animal.status, 404, "{animal:?}");
}
