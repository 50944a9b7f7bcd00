use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, Response};
use serde_json::{Value, json};

use super::*;
use crate::test_issuer::{DrivenClock, FakeOutbound, SigningKey};

const URL: &str = "https://issuer.example/keys";

struct World {
    source: KeySource,
    outbound: Arc<FakeOutbound>,
    clock: Arc<DrivenClock>,
    key: SigningKey,
}

fn url(text: &str) -> ServiceUrl {
    ServiceUrl::try_from(text.to_owned()).unwrap()
}

impl World {
    fn new() -> Self {
        Self::at(Location::Set(url(URL)))
    }

    fn at(location: Location) -> Self {
        let (key, clock) = (SigningKey::es256(), DrivenClock::new());
        let outbound = FakeOutbound::with_document(&json!({"keys": [key.jwk("a")]}));
        let keys = PublishedKeys::new(
            "https://issuer.example".to_owned(),
            location,
            Arc::<FakeOutbound>::clone(&outbound),
            Arc::<DrivenClock>::clone(&clock),
        );
        Self {
            source: KeySource::Published(Arc::new(keys)),
            outbound,
            clock,
            key,
        }
    }

    async fn find(&self, id: &str) -> Result<(), AccessError> {
        self.source.find(Some(id), Algorithm::ES256).await.map(drop)
    }

    fn publish(&self, ids: &[&str]) {
        let keys: Vec<_> = ids.iter().map(|id| self.key.jwk(id)).collect();
        self.outbound.answer_with_document(&json!({ "keys": keys }));
    }

    fn be_down(&self) {
        self.outbound.answer_by(|_| None);
    }

    fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

const UNKNOWN: Result<(), AccessError> = Err(AccessError::CredentialsInvalid);
const DOWN: Result<(), AccessError> = Err(AccessError::Unverifiable);

#[tokio::test(start_paused = true)]
async fn stampede_makes_one_fetch() {
    let world = World::new();
    let found = join_all((0..100).map(|_| world.find("a"))).await;
    assert_eq!(found, vec![Ok(()); 100]);
    assert_eq!(world.outbound.count(), 1);
    world.pass(600);
    let found = join_all((0..100).map(|_| world.find("a"))).await;
    assert_eq!(found, vec![Ok(()); 100]);
    assert_eq!(world.outbound.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn stampede_on_an_issuer_that_is_down_makes_one_fetch() {
    let world = World::new();
    world.be_down();
    let found = join_all((0..100).map(|_| world.find("a"))).await;
    assert_eq!(found, vec![DOWN; 100]);
    assert_eq!(world.find("a").await, DOWN);
    assert_eq!(world.outbound.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn set_is_fetched_again_after_its_lifetime() {
    let world = World::new();
    assert_eq!(world.find("a").await, Ok(()));
    world.pass(599);
    assert_eq!(world.find("a").await, Ok(()));
    assert_eq!(world.outbound.count(), 1);
    world.publish(&["b"]);
    world.pass(1);
    assert_eq!(world.find("a").await, UNKNOWN);
    assert_eq!(world.find("b").await, Ok(()));
    assert_eq!(world.outbound.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn rotated_key_is_fetched_once() {
    let world = World::new();
    assert_eq!(world.find("a").await, Ok(()));
    world.publish(&["a", "b"]);
    world.pass(1);
    let found = join_all((0..100).map(|_| world.find("b"))).await;
    assert_eq!(found, vec![Ok(()); 100]);
    assert_eq!(world.find("a").await, Ok(()));
    assert_eq!(world.outbound.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn unknown_keys_make_at_most_one_fetch_in_thirty_seconds() {
    let world = World::new();
    assert_eq!(world.find("a").await, Ok(()));
    world.pass(1);
    for second in 0..90 {
        for n in 0..10 {
            assert_eq!(world.find(&format!("{second}-{n}")).await, UNKNOWN);
        }
        world.pass(1);
    }
    assert_eq!(world.outbound.count(), 1 + 3);
    let KeySource::Published(keys) = &world.source else {
        panic!("it is fetched");
    };
    assert!(keys.state().unknown.len() <= UNKNOWN_KEYS);
}

#[tokio::test(start_paused = true)]
async fn key_that_was_looked_for_in_vain_makes_no_fetch_for_a_minute() {
    let world = World::new();
    assert_eq!(world.find("a").await, Ok(()));
    world.pass(1);
    assert_eq!(world.find("x").await, UNKNOWN);
    world.pass(59);
    assert_eq!(world.find("x").await, UNKNOWN);
    assert_eq!(world.outbound.count(), 2);
    // Another key causes a fetch, which finds both keys.
    world.publish(&["x", "y"]);
    assert_eq!(world.find("y").await, Ok(()));
    assert_eq!(world.find("x").await, Ok(()));
    assert_eq!(world.outbound.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn old_keys_are_used_for_a_day_while_the_issuer_is_down() {
    let world = World::new();
    assert_eq!(world.find("a").await, Ok(()));
    world.be_down();
    world.pass(600);
    assert_eq!(world.find("a").await, Ok(()));
    assert_eq!(
        world.find("b").await,
        DOWN,
        "it cannot be asked about this one"
    );
    world.pass(24 * 3600 - 601);
    assert_eq!(world.find("a").await, Ok(()));
    // The fetch that the last call has started ends.
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.pass(1);
    assert_eq!(world.find("a").await, DOWN);
    world.publish(&["a"]);
    world.pass(600);
    assert_eq!(world.find("a").await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn fetches_that_fail_back_off() {
    let world = World::new();
    world.be_down();
    for _ in 0..3600 {
        assert_eq!(world.find("a").await, DOWN);
        world.pass(1);
    }
    // 1, 2, 4 … 256 s, then 300 s, each shortened by up to a half.
    let count = world.outbound.count();
    assert!((18..=36).contains(&count), "{count}");
    for (failures, low, high) in [
        (0, 1000, 1000),
        (1, 1000, 2000),
        (5, 16_000, 32_000),
        (40, 150_000, 300_000),
    ] {
        assert_eq!(wait(failures, 0).as_millis(), low);
        assert_eq!(wait(failures, 1000).as_millis(), high);
    }
}

#[tokio::test(start_paused = true)]
async fn fetch_outlives_the_request_that_has_started_it() {
    let world = World::new();
    let first = tokio::time::timeout(Duration::ZERO, world.find("a")).await;
    assert!(first.is_err(), "it waits");
    assert_eq!(world.find("a").await, Ok(()));
    assert_eq!(world.outbound.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn reply_that_is_no_set_counts_as_a_failure() {
    let world = World::new();
    let error = |status: u16| {
        move |_: &Request<Bytes>| {
            let reply = Response::builder().status(status);
            Some(reply.body(Bytes::from_static(b"{\"keys\": []}")).unwrap())
        }
    };
    for status in [201, 302, 404, 500] {
        world.outbound.answer_by(error(status));
        assert_eq!(world.find("a").await, DOWN, "{status}");
        world.pass(600);
    }
    for text in ["", "{}", "[]"] {
        world
            .outbound
            .answer_by(move |_| Some(Response::new(Bytes::from(text))));
        assert_eq!(world.find("a").await, DOWN, "{text}");
        world.pass(600);
    }
    world
        .outbound
        .answer_by(|_| Some(Response::new(Bytes::from(vec![b' '; MAX_SIZE + 1]))));
    assert_eq!(world.find("a").await, DOWN);
}

#[tokio::test(start_paused = true)]
async fn set_is_where_the_document_of_the_issuer_says() {
    let discovery = "https://issuer.example/.well-known/openid-configuration";
    let world = World::at(Location::Discovery(url(discovery)));
    let keys = json!({"keys": [world.key.jwk("a")]}).to_string();
    let describe = |issuer: &str, uri: &str| {
        let document = json!({"issuer": issuer, "jwks_uri": uri}).to_string();
        let keys = keys.clone();
        world.outbound.answer_by(move |request| {
            let is_document = request.uri().path() == "/.well-known/openid-configuration";
            let text = if is_document { &document } else { &keys };
            Some(Response::new(Bytes::from(text.clone())))
        });
    };
    describe("https://issuer.example", "https://elsewhere.example/keys");
    assert_eq!(world.find("a").await, Ok(()));
    assert_eq!(
        world.outbound.last().uri(),
        "https://elsewhere.example/keys"
    );

    for (issuer, uri) in [
        ("https://other.example", "https://issuer.example/keys"),
        ("https://issuer.example", "http://issuer.example/keys"),
        ("https://issuer.example", "file:///keys"),
    ] {
        let world = World::at(Location::Discovery(url(discovery)));
        let document: Value = json!({"issuer": issuer, "jwks_uri": uri});
        world.outbound.answer_with_document(&document);
        assert_eq!(world.find("a").await, DOWN, "{document}");
        assert_eq!(world.outbound.count(), 1, "{document}");
    }
}

#[test]
fn lifetime_is_that_of_the_reply_within_bounds() {
    for (value, seconds) in [
        (None, 600),
        (Some("no-cache"), 600),
        (Some("public, max-age=3600, must-revalidate"), 3600),
        (Some("Max-Age=\"120\""), 120),
        (Some("max-age=0"), 60),
        (Some("max-age=1000000"), 86_400),
        (Some("max-age=x"), 600),
        (Some("s-maxage=5"), 600),
    ] {
        let mut headers = HeaderMap::new();
        if let Some(value) = value {
            headers.insert(CACHE_CONTROL, value.parse().unwrap());
        }
        assert_eq!(lifetime(&headers).as_secs(), seconds, "{value:?}");
    }
}
