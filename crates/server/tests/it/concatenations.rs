//! Calls with media that the vault concatenates.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use serde_json::{Map, json};
use windlass_discovery::Api;
use windlass_server::config::Limits;
use windlass_server::handler::{Answer, ApiHandler, Call, Concatenation, Rejection, Uploaded};
use windlass_server::{CONCATENATIONS, Registry, ServedApi, Settings, Stores};
use windlass_store::fault::{Faults, FaultyLedger, FaultyVault, InjectedFault, Trigger};
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_store::{Expected, Resource, ResourceChange, Vault as _};
use windlass_testkit::media::Media;

use crate::world::{Peer as _, Reply, SMALL_MEDIA, World, limits};

const BINDERY: &str = r#"
name = "bindery"
version = "v1"
methods."sheets.insert" = { http = "POST", path = "sheets/{id}", response = "Sheet", media = {} }
methods."sheets.get" = { http = "GET", path = "sheets/{id}", response = "Sheet", download = true }
methods."sheets.delete" = { http = "DELETE", path = "sheets/{id}" }
methods."sheets.bind" = { http = "POST", path = "sheets/{id}/bind", request = "Bind", response = "Sheet" }
schemas.Bind.of = "string[]"
schemas.Sheet.id = "string"
"#;

/// Sheets, and sheets that are bound from other sheets.
struct Bindery;

#[async_trait]
impl ApiHandler for Bindery {
    async fn admit(&self, _: &Call<'_>) -> Result<(), Rejection> {
        Ok(())
    }

    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
        let id = call.path.value("id").unwrap_or_default();
        let old = call.lookup.resource("sheets", id).await?;
        let Some(Uploaded { media, .. }) = media else {
            return match &*call.method.id {
                "bindery.sheets.bind" => bind(call).await,
                "bindery.sheets.delete" => Ok(Answer {
                    changes: old.map(deleted).into_iter().collect(),
                    ..Answer::default()
                }),
                _ => Ok(Answer::of(Map::new())),
            };
        };
        let sheet = Resource {
            collection: "sheets".to_owned(),
            id: id.to_owned(),
            version: old.as_ref().map_or(1, |old| old.version + 1),
            body: Bytes::from_static(b"{}"),
            media: Some(media),
            created: call.now,
            updated: call.now,
            due: None,
            claimed_by: None,
            owner: None,
        };
        let change = match old {
            None => ResourceChange::Insert(sheet),
            Some(old) => ResourceChange::Replace {
                resource: sheet,
                expected: old.version,
            },
        };
        Ok(Answer {
            changes: vec![change],
            ..Answer::of(Map::from_iter([("id".to_owned(), id.into())]))
        })
    }

    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        sheet(call, call.path.value("id").unwrap_or_default()).await
    }

    fn lock_key(&self, call: &Call<'_>) -> Option<String> {
        call.path.value("id").map(str::to_owned)
    }
}

async fn sheet(call: &Call<'_>, id: &str) -> Result<Resource, Rejection> {
    let sheet = call.lookup.resource("sheets", id).await?;
    sheet.ok_or_else(|| Rejection::NotFound {
        what: "sheet".to_owned(),
        id: id.to_owned(),
    })
}

async fn bind(call: &Call<'_>) -> Result<Answer, Rejection> {
    let (mut sources, mut expect) = (Vec::new(), Vec::new());
    for id in call.metadata["of"].as_array().expect("tests send it") {
        let sheet = sheet(call, id.as_str().expect("tests send names")).await?;
        expect.push(Expected::unchanged(&sheet));
        sources.extend(sheet.media);
    }
    Ok(Answer {
        concatenation: Some(Concatenation { sources, expect }),
        ..Answer::default()
    })
}

fn deleted(sheet: Resource) -> ResourceChange {
    ResourceChange::Delete {
        collection: sheet.collection,
        id: sheet.id,
        expected: sheet.version,
    }
}

/// The calls to a store that wait for the disk.
const WAITS: [&str; 5] = ["create", "append", "sync", "concat", "apply"];

/// A bindery, and the calls to its stores.
struct Watched {
    world: World,
    vault: MemoryVault,
    calls: Arc<Faults>,
    seen: usize,
}

impl Watched {
    fn new() -> Self {
        Self::over(Faults::new(Trigger::Never, InjectedFault::Fault), limits())
    }

    /// A bindery with a vault that has this fault during a concatenation.
    fn struck(fault: InjectedFault) -> Self {
        Self::over(Faults::new(Trigger::CallsOf("concat"), fault), limits())
    }

    fn over(faults: Faults, limits: Limits) -> Self {
        Self::set_up(faults, |settings| settings.limits = limits)
    }

    fn set_up(faults: Faults, set: impl FnOnce(&mut Settings)) -> Self {
        let calls = Arc::new(faults);
        let (ledger, vault) = (Arc::new(MemoryLedger::new()), MemoryVault::new());
        let inner = Arc::new(vault.clone());
        let stores = Stores {
            ledger: Arc::new(FaultyLedger::new(ledger, Arc::clone(&calls))),
            vault: Arc::new(FaultyVault::new(inner, Arc::clone(&calls))),
        };
        let api = Api::from_toml(BINDERY).expect("it is valid");
        let registry = Registry::new([ServedApi::new(api, Arc::new(Bindery))]);
        let registry = registry.expect("there is one API");
        Self {
            world: World::of_registry(registry, stores, Arc::default(), set),
            vault,
            calls,
            seen: 0,
        }
    }

    /// The calls since the last time that waited for the disk.
    fn waits(&mut self) -> Vec<&'static str> {
        let names = self.calls.names();
        let new = names[self.seen..].iter().copied();
        self.seen = names.len();
        new.filter(|name| WAITS.contains(name)).collect()
    }

    async fn put(&self, id: &str, media: Media) {
        let uri = format!("/upload/bindery/v1/sheets/{id}?uploadType=media");
        let reply = self.world.send("POST", &uri, &[], media).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }

    async fn bind(&self, id: &str, of: &[&str]) -> Reply {
        let uri = format!("/bindery/v1/sheets/{id}/bind");
        self.world.json("POST", &uri, &json!({"of": of})).await
    }

    async fn media(&self, id: &str) -> Reply {
        let uri = format!("/bindery/v1/sheets/{id}?alt=media");
        self.world.get(&uri).await
    }

    /// How many media the vault holds.
    async fn stored(&self) -> usize {
        let listing = self.vault.list(None, 100).await.expect("it is in memory");
        listing.stored.len()
    }
}

/// Long enough for anything else to happen.
const LONG: Duration = Duration::from_secs(60);

/// Media that is in the vault, and media that is in the ledger.
const LARGE: Media = Media::new(1, 1000);
const SMALL: Media = Media::new(2, 7);

#[tokio::test(start_paused = true)]
async fn media_is_durable_before_the_commit_of_its_resource() {
    let mut watched = Watched::new();
    watched.put("large", LARGE).await;
    watched.put("small", SMALL).await;
    let (large, small) = (LARGE.whole(), SMALL.whole());
    let cases: [(&[&str], Vec<u8>, &[&str]); 4] = [
        (
            &["large", "small", "large"],
            [&large[..], &small, &large].concat(),
            &["concat", "apply"],
        ),
        // Small media is committed with its resource.
        (&["small", "small"], small.repeat(2), &["apply"]),
        (
            &["small", "small", "small"],
            small.repeat(3),
            &["concat", "apply"],
        ),
        // The media of a single source is not copied.
        (&["large"], large, &["apply"]),
    ];
    for (of, expected, waits) in cases {
        watched.waits();
        let bound = watched.bind("bound", of).await;
        assert_eq!(
            (bound.status.as_u16(), watched.waits()),
            (200, waits.to_vec()),
            "{of:?}"
        );
        let media = watched.media("bound").await;
        assert!(media.body == expected, "{of:?}");
        let mut hasher = windlass_digest::Crc32cHasher::default();
        hasher.update(&expected);
        let crc32c = format!("crc32c={}", hasher.value());
        assert_eq!(media.headers["x-goog-hash"], crc32c, "{of:?}");
    }
    const { assert!(2 * SMALL.len() <= SMALL_MEDIA && 3 * SMALL.len() > SMALL_MEDIA) };
}

#[tokio::test(start_paused = true)]
async fn media_of_a_single_source_is_kept_as_long_as_either_resource() {
    for media in [LARGE, SMALL] {
        let watched = Watched::new();
        watched.put("source", media).await;
        watched.bind("bound", &["source"]).await;
        let deleted = watched
            .world
            .call("DELETE", "/bindery/v1/sheets/source")
            .await;
        assert_eq!(deleted.status, 204);
        assert_eq!(watched.media("bound").await.body, media.whole());
    }
}

#[tokio::test(start_paused = true)]
async fn concatenation_counts_as_an_upload() {
    let mut limits = limits();
    limits.uploads = 1;
    let slow = InjectedFault::Slow(LONG);
    let watched = Watched::over(Faults::new(Trigger::CallsOf("concat"), slow), limits);
    watched.put("large", LARGE).await;
    let first = watched.bind("bound", &["large", "large"]);
    let second = async {
        tokio::time::sleep(LONG / 2).await;
        watched.bind("other", &["large"]).await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (200, 503));
    let text = String::from_utf8_lossy(&second.body);
    assert!(text.contains("concurrent uploads"), "{text}");
    assert_eq!(watched.bind("other", &["large"]).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn concatenations_above_their_limit_wait_and_are_refused() {
    let slow = InjectedFault::Slow(LONG);
    let watched = Watched::over(Faults::new(Trigger::CallsOf("concat"), slow), limits());
    watched.put("large", LARGE).await;
    let names: Vec<String> = (0..=CONCATENATIONS).map(|n| format!("bound-{n}")).collect();
    let calls = names
        .iter()
        .map(|name| watched.bind(name, &["large", "large"]));
    let other = async {
        tokio::time::sleep(LONG / 2).await;
        watched.put("other", LARGE).await;
    };
    let (replies, ()) = tokio::join!(join_all(calls), other);
    let refused: Vec<_> = replies.iter().filter(|reply| reply.status == 503).collect();
    let [refused] = refused[..] else {
        panic!("{replies:?}");
    };
    let text = String::from_utf8_lossy(&refused.body);
    assert!(text.contains("put media together"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn short_requests_do_not_multiply_media() {
    let media = Media::new(3, 1_000_000);
    let faults = Faults::new(Trigger::Never, InjectedFault::Fault);
    let watched = Watched::set_up(faults, |settings| {
        settings.limits.copies_per_hour = 100_000_000;
    });
    watched.put("c0", media).await;
    // One million bytes were uploaded and may be copied twice. The other 30 million are part of the
    // hour's limit.
    assert_eq!(watched.bind("c1", &["c0"; 32]).await.status, 200);
    let refused = watched.bind("c2", &["c1"; 32]).await;
    assert_eq!(refused.status, 429, "{refused:?}");
    assert_eq!(refused.headers["retry-after"], "3600");
    let reason = &refused.json()["error"]["errors"][0]["reason"];
    assert_eq!(reason, "rateLimitExceeded");
    let text = String::from_utf8_lossy(&refused.body);
    assert!(text.contains("copy 1024000000 bytes"), "{text}");
    assert!(text.contains("copies 70000000 more"), "{text}");
    assert_eq!(watched.calls.calls_of("concat"), 1, "nothing is copied");

    // Uploaded media may be copied, and media of a single source is not copied.
    watched.put("large", Media::new(4, 200_000_000)).await;
    assert_eq!(watched.bind("c3", &["large", "c0"]).await.status, 200);
    assert_eq!(watched.bind("c4", &["c3"]).await.status, 200);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(watched.bind("c5", &["c0"; 32]).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn copy_that_fails_does_not_count() {
    let media = Media::new(3, 1_000_000);
    let faults = Faults::new(Trigger::CallsOf("concat"), InjectedFault::NoSpace);
    let watched = Watched::set_up(faults, |settings| {
        settings.limits.copies_per_hour = 40_000_000;
    });
    watched.put("c0", media).await;
    for _ in 0..3 {
        let reply = watched.bind("c1", &["c0"; 32]).await;
        assert_eq!(reply.status, 503, "{reply:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn media_that_the_vault_has_lost_is_not_copied_again_and_again() {
    let watched = Watched::new();
    watched.put("one", LARGE).await;
    watched.put("two", LARGE).await;
    let listed = watched.vault.list(None, 10).await.unwrap();
    watched.vault.delete(&listed.stored[0].name).await.unwrap();
    let bound = watched.bind("bound", &["one", "two"]).await;
    assert_eq!(bound.status, 500, "{bound:?}");
    assert_eq!(watched.calls.calls_of("concat"), 1);
    assert_eq!(watched.stored().await, 1, "nothing is left of the copy");
}

#[tokio::test(start_paused = true)]
async fn concatenation_leaves_the_space_that_must_stay_free() {
    let media = Media::new(3, 1_000_000);
    let faults = Faults::new(Trigger::Never, InjectedFault::Fault);
    let total = MemoryVault::new().space().await.unwrap().unwrap().total;
    let watched = Watched::set_up(faults, |settings| {
        settings.free_space.soft = total - 2_500_000;
    });
    watched.world.server.start().await;
    watched.put("large", media).await;
    let refused = watched.bind("bound", &["large", "large"]).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(refused.headers["retry-after"], "30");
    assert_eq!(watched.calls.calls_of("concat"), 0);
    assert_eq!(
        watched.bind("bound", &["large"]).await.status,
        200,
        "it is not copied"
    );
    watched.put("other", media).await;
}

#[tokio::test(start_paused = true)]
async fn vault_without_space_is_no_fault_and_keeps_nothing() {
    let watched = Watched::struck(InjectedFault::NoSpace);
    watched.put("large", LARGE).await;
    for _ in 0..2 {
        let refused = watched.bind("bound", &["large", "large"]).await;
        assert_eq!(refused.status, 503, "{refused:?}");
        assert_eq!(refused.headers["retry-after"], "30");
    }
    assert_eq!(watched.media("bound").await.status, 404);
    assert_eq!(watched.stored().await, 1);
    watched.put("other", LARGE).await;
}

#[tokio::test(start_paused = true)]
async fn fault_of_the_vault_stops_the_server() {
    for fault in [InjectedFault::Fault, InjectedFault::Lost] {
        let watched = Watched::struck(fault);
        watched.put("large", LARGE).await;
        let refused = watched.bind("bound", &["large", "large"]).await;
        assert_eq!(refused.status, 503, "{refused:?}");
        let health = watched.world.get("/healthz").await;
        assert_eq!(health.status, 503, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn concatenation_outlives_its_client() {
    let watched = Watched::struck(InjectedFault::Slow(LONG));
    watched.put("large", LARGE).await;
    let mut call = Box::pin(watched.bind("bound", &["large", "large"]));
    assert!((&mut call).now_or_never().is_none());
    drop(call);
    assert_eq!(watched.media("bound").await.status, 404);
    tokio::time::sleep(2 * LONG).await;
    assert_eq!(watched.media("bound").await.body, LARGE.whole().repeat(2));
}

#[tokio::test(start_paused = true)]
async fn drain_ends_a_concatenation_that_takes_too_long() {
    let watched = Watched::struck(InjectedFault::Slow(LONG));
    watched.put("large", LARGE).await;
    let call = watched.bind("bound", &["large", "large"]);
    let drain = async {
        // Allows the call to begin.
        tokio::time::sleep(Duration::from_secs(1)).await;
        watched.world.server.drain().await;
    };
    let (refused, ()) = tokio::join!(call, drain);
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(watched.stored().await, 1, "what was begun is deleted");
}

#[tokio::test(start_paused = true)]
async fn drain_waits_for_a_concatenation() {
    let watched = Watched::struck(InjectedFault::Slow(Duration::from_secs(2)));
    watched.put("large", LARGE).await;
    let call = watched.bind("bound", &["large", "large"]);
    let drain = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        watched.world.server.drain().await;
    };
    let (bound, ()) = tokio::join!(call, drain);
    assert_eq!(bound.status, 200, "{bound:?}");
}

/// Binds two sheets, and runs `meanwhile` while the vault concatenates them.
async fn meanwhile(watched: &Watched, meanwhile: impl AsyncFnOnce()) -> Reply {
    watched.put("one", LARGE).await;
    watched.put("two", LARGE).await;
    watched.put("bound", SMALL).await;
    let call = watched.bind("bound", &["one", "two"]);
    let other = async {
        tokio::time::sleep(LONG / 2).await;
        meanwhile().await;
    };
    let (bound, ()) = tokio::join!(call, other);
    bound
}

#[tokio::test(start_paused = true)]
async fn source_that_is_replaced_meanwhile_is_read_again() {
    let watched = Watched::struck(InjectedFault::Slow(LONG));
    let new = Media::new(9, 500);
    let bound = meanwhile(&watched, async || watched.put("two", new).await).await;
    assert_eq!(bound.status, 200, "{bound:?}");
    let expected = [LARGE.whole(), new.whole()].concat();
    assert!(watched.media("bound").await.body == expected);
    assert_eq!(watched.calls.calls_of("concat"), 2);
    // The old media of the source is garbage, which no sweep of this test deletes.
    assert_eq!(watched.stored().await, 4, "the first media is deleted");
}

#[tokio::test(start_paused = true)]
async fn source_that_is_deleted_meanwhile_is_not_found() {
    let watched = Watched::struck(InjectedFault::Slow(LONG));
    let delete = async || {
        watched.world.call("DELETE", "/bindery/v1/sheets/two").await;
    };
    let bound = meanwhile(&watched, delete).await;
    assert_eq!(bound.status, 404, "{bound:?}");
    assert_eq!(watched.media("bound").await.body, SMALL.whole());
    assert_eq!(
        watched.stored().await,
        2,
        "what was put together is deleted"
    );
}

#[tokio::test(start_paused = true)]
async fn source_that_changes_without_its_media_needs_no_second_copy() {
    let watched = Watched::struck(InjectedFault::Slow(LONG));
    let change = async || {
        // The sheet is its own source: another version with the same media.
        assert_eq!(watched.bind("two", &["two"]).await.status, 200);
    };
    let bound = meanwhile(&watched, change).await;
    assert_eq!(bound.status, 200, "{bound:?}");
    assert!(watched.media("bound").await.body == LARGE.whole().repeat(2));
    assert_eq!(watched.calls.calls_of("concat"), 1);
    // Three uploads, the change of the source, and the commit that is refused before the last.
    assert_eq!(watched.calls.calls_of("apply"), 6);
}

#[tokio::test(start_paused = true)]
async fn destination_that_is_replaced_meanwhile_is_replaced_again() {
    let watched = Watched::struck(InjectedFault::Slow(LONG));
    let bound = meanwhile(&watched, async || watched.put("bound", LARGE).await).await;
    assert_eq!(bound.status, 200, "{bound:?}");
    assert!(watched.media("bound").await.body == LARGE.whole().repeat(2));
    assert_eq!(watched.calls.calls_of("concat"), 1);
}

#[tokio::test(start_paused = true)]
async fn reply_is_shaped_as_the_client_asks() {
    let watched = Watched::new();
    watched.put("large", LARGE).await;
    let bind = |query| {
        let uri = format!("/bindery/v1/sheets/bound/bind?{query}");
        let world = &watched.world;
        async move { world.json("POST", &uri, &json!({"of": ["large"]})).await }
    };
    assert_eq!(bind("").await.json(), json!({"id": "bound"}));
    assert_eq!(bind("fields=id").await.json(), json!({"id": "bound"}));
    assert_eq!(bind("fields=none").await.status, 400);
    assert_eq!(bind("fields=(").await.status, 400);
}
