//! Partial uploads of tus, and the uploads that are concatenated from them.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use http::{Request, StatusCode};
use windlass_discovery::{Access, Api};
use windlass_server::config::SessionAuth;
use windlass_server::{Principal, Registry, ServedApi, Settings, Stores};
use windlass_store::fault::{Faults, FaultyLedger, FaultyVault, InjectedFault, Trigger};
use windlass_store::memory::{MemoryLedger, MemoryVault, ObjectVault};
use windlass_store::{Sweep, SweepOptions, Vault};
use windlass_testkit::farm;
use windlass_testkit::media::Media;

use crate::world::{Body, LIFETIME, Peer, Reply, SMALL_MEDIA, SharedStores, World};

const UPLOADS: &str = farm::UPLOADS;

const MEDIA: Media = Media::new(5, 100_000);

const VERSION: (&str, &str) = ("tus-resumable", "1.0.0");
const PART: (&str, &str) = ("content-type", "application/offset+octet-stream");
const PARTIAL: (&str, &str) = ("upload-concat", "partial");

fn world() -> World {
    SharedStores::new().server()
}

/// A server with these settings over a vault in memory, and this ledger and vault.
fn set_up(stores: Stores, set: impl FnOnce(&mut Settings)) -> World {
    let farm = Api::from_toml(farm::SHORT_FORM).expect("it is valid");
    let registry = Registry::new([ServedApi::with_default_handler(farm)]);
    let registry = registry.expect("there is one API");
    World::of_registry(registry, stores, Arc::default(), set)
}

fn stores_over(vault: Arc<dyn Vault>) -> Stores {
    Stores {
        ledger: Arc::new(MemoryLedger::new()),
        vault,
    }
}

/// Stores whose calls have a fault.
fn stores_with(vault: &MemoryVault, faults: Faults) -> (Stores, Arc<Faults>) {
    let faults = Arc::new(faults);
    let ledger = Arc::new(MemoryLedger::new());
    let stores = Stores {
        ledger: Arc::new(FaultyLedger::new(ledger, Arc::clone(&faults))),
        vault: Arc::new(FaultyVault::new(
            Arc::new(vault.clone()),
            Arc::clone(&faults),
        )),
    };
    (stores, faults)
}

async fn send(
    peer: &impl Peer,
    method: &str,
    uri: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> Reply {
    let headers = [&[VERSION], headers].concat();
    peer.send(method, uri, &headers, body).await
}

#[track_caller]
fn check(reply: &Reply, status: u16, offset: u64) {
    assert_eq!(reply.status, status, "{reply:?}");
    assert_eq!(
        reply.headers["upload-offset"],
        offset.to_string(),
        "{reply:?}"
    );
}

#[track_caller]
fn target_of(created: &Reply) -> String {
    assert_eq!(created.status, 201, "{created:?}");
    created.location(World::ORIGIN).to_owned()
}

/// Creates a partial upload with these bytes. Returns the target of its URL.
async fn partial(peer: &impl Peer, bytes: Vec<u8>) -> String {
    let len = bytes.len() as u64;
    let length = len.to_string();
    let headers = [PARTIAL, ("upload-length", length.as_str())];
    let target = target_of(&send(peer, "POST", UPLOADS, &headers, Vec::new()).await);
    if !bytes.is_empty() {
        let headers = [PART, PARTIAL, ("upload-offset", "0")];
        let patched = send(peer, "PATCH", &target, &headers, bytes).await;
        check(&patched, 204, len);
    }
    target
}

/// Concatenates the partial uploads of a list.
async fn concatenate(peer: &impl Peer, list: &str) -> Reply {
    let concat = format!("final;{list}");
    let headers = [
        ("upload-concat", &*concat),
        ("upload-metadata", "filename Y293"),
    ];
    send(peer, "POST", UPLOADS, &headers, Vec::new()).await
}

async fn head(peer: &impl Peer, target: &str) -> Reply {
    send(peer, "HEAD", target, &[], Vec::new()).await
}

/// The media of the resource that a final reply names.
async fn media(world: &World, made: &Reply) -> Vec<u8> {
    assert_eq!(made.status, 201, "{made:?}");
    let resource = made.link("content-location", World::ORIGIN).to_owned();
    let media = world.get(&format!("{resource}?alt=media")).await;
    assert_eq!(media.status, 200, "{media:?}");
    media.body.to_vec()
}

async fn sweep(world: &World, stores: &Stores) {
    let mut sweep = Sweep::new(SweepOptions::default());
    let mut is_done = false;
    while !is_done {
        let step = sweep.step(&*stores.ledger, &*stores.vault, world.now());
        is_done = step.await.expect("the stores are well").is_done;
    }
}

/// Ranges of the media, of which one is small and one is empty.
fn parts() -> [Vec<u8>; 4] {
    let small = 60_000 + SMALL_MEDIA - 1;
    [
        MEDIA.bytes(0..60_000),
        MEDIA.bytes(60_000..small),
        Vec::new(),
        MEDIA.bytes(small..100_000),
    ]
}

#[tokio::test]
async fn final_upload_has_the_bytes_of_its_partial_uploads_in_order() {
    let objects = ObjectVault::new(NonZeroU64::new(1024).expect("it is not zero"));
    let vaults: [Arc<dyn Vault>; 2] = [Arc::new(MemoryVault::new()), Arc::new(objects)];
    for vault in vaults {
        let world = set_up(stores_over(vault), |_| {});
        let mut targets = Vec::new();
        for bytes in parts() {
            targets.push(partial(&world, bytes).await);
        }
        assert_eq!(world.count().await, 0);
        // Absolute and relative, in the path and in the query.
        let query = targets[1].strip_prefix("/upload/-tus/").expect("tus's");
        let (id, plain) = query.split_once('/').expect("the path follows");
        let query = format!("/upload/{plain}?uploadType=tus&upload_id={id}");
        let list = format!(
            "{}{} {query} {} {}",
            World::ORIGIN,
            targets[0],
            targets[2],
            targets[3]
        );
        for list in [&*list, &*format!(" {list} ")] {
            let made = concatenate(&world, list).await;
            check(&made, 201, MEDIA.len());
            assert!(media(&world, &made).await == MEDIA.whole(), "other media");
            let target = target_of(&made);
            let asked = head(&world, &target).await;
            check(&asked, 200, MEDIA.len());
            assert_eq!(asked.headers["upload-length"], MEDIA.len().to_string());
            let stated = format!("final;{}", list.trim_end());
            assert_eq!(asked.headers["upload-concat"], stated);
            assert_eq!(asked.headers["upload-metadata"], "filename Y293");
            assert_eq!(asked.headers["cache-control"], "no-store");
            let resource = made.link("content-location", World::ORIGIN).to_owned();
            assert_eq!(world.get(&resource).await.json()["name"], "cow");
        }
        assert_eq!(world.count().await, 2);
        for (target, bytes) in targets.iter().zip(parts()) {
            let asked = head(&world, target).await;
            check(&asked, 200, bytes.len() as u64);
            assert_eq!(asked.headers["upload-length"], bytes.len().to_string());
            assert_eq!(asked.headers["upload-concat"], "partial");
            assert!(!asked.headers.contains_key("upload-metadata"));
            assert!(asked.headers.contains_key("upload-expires"));
        }
    }
}

#[tokio::test]
async fn partial_upload_may_be_repeated_in_a_list_and_be_all_of_it() {
    let world = world();
    let (large, small) = (
        partial(&world, MEDIA.bytes(0..1000)).await,
        partial(&world, MEDIA.bytes(0..5)).await,
    );
    for (list, expected) in [
        (large.clone(), MEDIA.bytes(0..1000)),
        (format!("{large} {large}"), MEDIA.bytes(0..1000).repeat(2)),
        (format!("{small} {small}"), MEDIA.bytes(0..5).repeat(2)),
        ([&*small; 32].join(" "), MEDIA.bytes(0..5).repeat(32)),
    ] {
        let made = concatenate(&world, &list).await;
        assert!(media(&world, &made).await == expected, "other media");
    }
    // Each has media of its own.
    for target in [&large, &small] {
        let gone = send(&world, "DELETE", target, &[], Vec::new()).await;
        assert_eq!(gone.status, 204);
    }
    for id in world.ids().await {
        assert_eq!(world.download(&id).await.status, 200);
    }
}

#[tokio::test]
async fn empty_partial_uploads_make_an_empty_file() {
    let world = world();
    let target = partial(&world, Vec::new()).await;
    check(&head(&world, &target).await, 200, 0);
    let made = concatenate(&world, &format!("{target} {target}")).await;
    check(&made, 201, 0);
    assert!(media(&world, &made).await.is_empty());
}

#[tokio::test]
async fn partial_upload_takes_its_length_and_its_first_data_as_any_other() {
    let world = world();
    let headers = [PARTIAL, ("upload-defer-length", "1")];
    let deferred = target_of(&send(&world, "POST", UPLOADS, &headers, Vec::new()).await);
    let headers = [PART, ("upload-offset", "0")];
    let patched = send(&world, "PATCH", &deferred, &headers, vec![7; 20]).await;
    check(&patched, 204, 20);
    assert_eq!(concatenate(&world, &deferred).await.status, 400);
    let headers = [PART, ("upload-offset", "20"), ("upload-length", "20")];
    let patched = send(&world, "PATCH", &deferred, &headers, Vec::new()).await;
    check(&patched, 204, 20);

    let headers = [PARTIAL, PART, ("upload-length", "30")];
    let with_data = send(&world, "POST", UPLOADS, &headers, vec![8; 30]).await;
    check(&with_data, 201, 30);
    assert!(!with_data.headers.contains_key("content-location"));
    let list = format!("{deferred} {}", target_of(&with_data));
    let made = concatenate(&world, &list).await;
    let expected = [vec![7; 20], vec![8; 30]].concat();
    assert_eq!(media(&world, &made).await, expected);
}

#[tokio::test]
async fn nothing_makes_a_partial_upload_a_resource() {
    let stores = SharedStores::new();
    let world = stores.server();
    let target = partial(&world, vec![7; 40]).await;
    for world in [&world, &stores.server()] {
        check(&head(world, &target).await, 200, 40);
        let headers = [PART, ("upload-offset", "40")];
        let empty = send(world, "PATCH", &target, &headers, Vec::new()).await;
        check(&empty, 204, 40);
        let more = send(world, "PATCH", &target, &headers, vec![7]).await;
        assert_eq!(more.status, 413);
        assert_eq!(world.query(&target).await.committed(), 40);
        assert_eq!(world.put(&target, "bytes */40", "").await.status, 308);
        assert_eq!(world.count().await, 0);
    }
    let gone = send(&world, "DELETE", &target, &[], Vec::new()).await;
    assert_eq!(gone.status, 204);
    assert_eq!(head(&world, &target).await.status, 404);
    assert_eq!(concatenate(&world, &target).await.status, 404);
    assert_eq!(stores.vault.list(None, 10).await.unwrap().stored.len(), 1);
    sweep(
        &world,
        &Stores {
            ledger: stores.ledger,
            vault: Arc::new(stores.vault.clone()),
        },
    )
    .await;
    assert_eq!(stores.vault.list(None, 10).await.unwrap().stored.len(), 0);
}

#[tokio::test]
async fn final_upload_takes_no_data_and_is_not_terminated() {
    let world = world();
    let target = partial(&world, vec![7; 40]).await;
    let made = target_of(&concatenate(&world, &target).await);
    for offset in ["0", "40", "41"] {
        let headers = [PART, ("upload-offset", offset)];
        for body in [Vec::new(), vec![7]] {
            let refused = send(&world, "PATCH", &made, &headers, body).await;
            assert_eq!(refused.status, 403, "{offset}: {refused:?}");
        }
    }
    let refused = send(&world, "DELETE", &made, &[], Vec::new()).await;
    assert_eq!(refused.status, 400);
    check(&head(&world, &made).await, 200, 40);
}

#[tokio::test]
async fn lists_that_name_no_complete_partial_uploads_are_refused() {
    let world = world();
    let complete = partial(&world, vec![7; 40]).await;
    let headers = [PARTIAL, ("upload-length", "9")];
    let incomplete = target_of(&send(&world, "POST", UPLOADS, &headers, Vec::new()).await);
    let headers = [("upload-length", "9")];
    let whole = target_of(&send(&world, "POST", UPLOADS, &headers, Vec::new()).await);
    let finished = target_of(
        &send(
            &world,
            "POST",
            UPLOADS,
            &[("upload-length", "0")],
            Vec::new(),
        )
        .await,
    );
    let google = world.start(Some(9)).await.expect("it is Google's");
    let concatenated = target_of(&concatenate(&world, &complete).await);
    let elsewhere = complete.replace("/animals", "/plants");
    let id_alone = complete.rsplit_once("/farm").expect("its path").0;
    let long = [&*complete; 33].join(" ");
    let longer = vec!["/a"; 10_000].join(" ");
    let mounted = format!("/media{complete}");
    let table = [
        ("", 400),
        (" ", 400),
        (&*incomplete, 400),
        (&*whole, 403),
        (&*finished, 403),
        (&*google, 403),
        (&*concatenated, 403),
        ("/upload/-tus/unknown/farm/v1/animals", 404),
        (
            "/upload/farm/v1/animals?uploadType=tus&upload_id=unknown",
            404,
        ),
        (UPLOADS, 404),
        ("/", 404),
        (&*elsewhere, 404),
        (id_alone, 404),
        (&*mounted, 404),
        ("http://", 400),
        ("animals", 400),
        ("*", 400),
        (&*long, 400),
        (&*longer, 400),
    ];
    let before = world.count().await;
    for (uri, status) in table {
        let list = match status {
            400 => uri.to_owned(),
            _ => format!("{complete} {uri}"),
        };
        let refused = concatenate(&world, &list).await;
        assert_eq!(refused.status, status, "{uri}: {refused:?}");
        assert!(!refused.headers.contains_key("location"));
    }
    for origin in [
        "http://other.localhost",
        "http://farm.localhost:81",
        "//farm.localhost",
    ] {
        let refused = concatenate(&world, &format!("{origin}{complete}")).await;
        assert_eq!(refused.status, 404, "{origin}");
    }
    assert_eq!(world.count().await, before);
}

#[tokio::test]
async fn malformed_creations_are_refused() {
    let world = world();
    let target = partial(&world, vec![7; 40]).await;
    let concat = format!("final;{target}");
    let concat = ("upload-concat", &*concat);
    let table: [(&[_], &[u8], u16); 9] = [
        (&[concat, ("upload-length", "40")], &[], 400),
        (&[concat, ("upload-defer-length", "1")], &[], 400),
        (&[concat, PART], &[7], 403),
        (&[concat, PARTIAL], &[], 400),
        (
            &[("upload-concat", "Partial"), ("upload-length", "1")],
            &[],
            400,
        ),
        (&[("upload-concat", ""), ("upload-length", "1")], &[], 400),
        (
            &[("upload-concat", "final"), ("upload-length", "1")],
            &[],
            400,
        ),
        (&[PARTIAL], &[], 400),
        (&[concat, ("upload-metadata", "a ?")], &[], 400),
    ];
    for (headers, body, status) in table {
        let refused = send(&world, "POST", UPLOADS, headers, body.to_vec()).await;
        assert_eq!(refused.status, status, "{headers:?}: {refused:?}");
    }
    // As of any creation, a body of another type is ignored.
    let headers = [concat, ("content-type", "text/plain")];
    let made = send(&world, "POST", UPLOADS, &headers, vec![7]).await;
    check(&made, 201, 40);
    let older = world.send("POST", UPLOADS, &[concat], "").await;
    assert_eq!(older.status, 412);
}

#[tokio::test]
async fn method_judges_the_final_upload_alone() {
    let accepting = r#"
name = "farm"
version = "v1"
[collections.animals]
schema = { name = "string" }
[collections.animals.media]
accept = ["video/*"]
max_size = "100KB"
"#;
    let api = Api::from_toml(accepting).expect("it is valid");
    let stores = SharedStores::new();
    let stores = Stores {
        ledger: stores.ledger,
        vault: Arc::new(stores.vault),
    };
    let world = World::of(ServedApi::with_default_handler(api), stores, Arc::default());
    let headers = [PARTIAL, ("upload-length", "102401")];
    let refused = send(&world, "POST", UPLOADS, &headers, Vec::new()).await;
    assert_eq!(refused.status, 413);
    let target = partial(&world, MEDIA.bytes(0..60_000)).await;
    let made = async |list: &str, filetype: &str| {
        let concat = format!("final;{list}");
        let headers = [("upload-concat", &*concat), ("upload-metadata", filetype)];
        send(&world, "POST", UPLOADS, &headers, Vec::new()).await
    };
    let (png, mp4) = ("filetype aW1hZ2UvcG5n", "filetype dmlkZW8vbXA0");
    assert_eq!(made(&target, png).await.status, 400);
    let twice = format!("{target} {target}");
    assert_eq!(made(&twice, mp4).await.status, 413);
    assert_eq!(made(&target, mp4).await.status, 201);
    assert_eq!(world.count().await, 1);
}

/// The requests of one principal.
struct Caller<'a>(&'a World, &'static str);

impl Peer for Caller<'_> {
    const ORIGIN: &'static str = World::ORIGIN;

    async fn try_exchange(&self, mut request: Request<Body>) -> Reply {
        request.extensions_mut().insert(Principal::new(self.1));
        self.0.try_exchange(request).await
    }
}

#[tokio::test]
async fn partial_uploads_of_others_are_as_any_other_session_of_theirs() {
    let farm = |access| {
        let farm = Api::from_toml(farm::SHORT_FORM).expect("it is valid");
        ServedApi::with_default_handler(farm.map_settings(|settings| settings.access = access))
    };
    for (access, auth, status) in [
        (Access::Owner, SessionAuth::Uri, 404),
        (Access::Owner, SessionAuth::Owner, 404),
        (Access::Shared, SessionAuth::Owner, 403),
        (Access::Shared, SessionAuth::Uri, 201),
    ] {
        let registry = Registry::new([farm(access)]).expect("there is one API");
        let stores = stores_over(Arc::new(MemoryVault::new()));
        let world = World::of_registry(registry, stores, Arc::default(), |settings| {
            settings.session_auth = auth;
        });
        let (alice, bob) = (Caller(&world, "alice"), Caller(&world, "bob"));
        let target = partial(&alice, vec![7; 40]).await;
        let own = partial(&bob, vec![8; 40]).await;
        let made = concatenate(&bob, &format!("{own} {target}")).await;
        let expected = head(&bob, &target).await.status;
        assert_eq!(made.status, status, "{access:?} {auth:?}");
        assert_eq!(expected.is_success(), made.status == 201, "{expected}");
        assert_eq!(concatenate(&alice, &target).await.status, 201);
    }
}

#[tokio::test]
async fn partial_and_final_uploads_count_against_the_quota() {
    let world = set_up(stores_over(Arc::new(MemoryVault::new())), |settings| {
        settings.limits.bytes_per_principal = 250_000;
    });
    let alice = Caller(&world, "alice");
    let target = partial(&alice, MEDIA.bytes(0..90_000)).await;
    let headers = [PARTIAL, ("upload-length", "170000")];
    let refused = send(&alice, "POST", UPLOADS, &headers, Vec::new()).await;
    assert_eq!(refused.status, 429, "{refused:?}");
    let refused = concatenate(&alice, &format!("{target} {target}")).await;
    assert_eq!(refused.status, 429, "{refused:?}");
    assert_eq!(concatenate(&alice, &target).await.status, 201);
    let refused = concatenate(&alice, &target).await;
    assert_eq!(refused.status, 429, "{refused:?}");
    let gone = send(&alice, "DELETE", &target, &[], Vec::new()).await;
    assert_eq!(gone.status, 204);
    let small = partial(&alice, MEDIA.bytes(0..70_000)).await;
    assert_eq!(concatenate(&alice, &small).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn first_final_upload_is_free_and_others_are_copies() {
    let stores = stores_over(Arc::new(MemoryVault::new()));
    let start = || {
        set_up(stores.clone(), |settings| {
            settings.limits.copies_per_hour = 1000;
        })
    };
    let world = start();
    let [one, two] = [
        partial(&world, MEDIA.bytes(0..10_000)).await,
        partial(&world, MEDIA.bytes(0..1000)).await,
    ];
    // A server that has not seen the upload of the parts.
    let world = start();
    let twice = format!("{one} {one}");
    let refused = concatenate(&world, &twice).await;
    assert_eq!(refused.status, 429, "{refused:?}");
    let both = format!("{one} {two}");
    assert_eq!(concatenate(&world, &both).await.status, 201);
    assert_eq!(
        concatenate(&world, &two).await.status,
        201,
        "the hour's copies"
    );
    for again in [&one, &two] {
        let refused = concatenate(&world, again).await;
        assert_eq!(refused.status, 429, "{refused:?}");
    }
    assert_eq!(world.count().await, 2);
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn partial_upload_that_goes_during_the_copy_leaves_a_whole_file_or_none() {
    let slow = Faults::new(Trigger::CallsOf("concat"), InjectedFault::Slow(LONG));
    let vault = MemoryVault::new();
    let (stores, _) = stores_with(&vault, slow);
    let world = set_up(stores.clone(), |_| {});
    let (first, second) = (
        partial(&world, MEDIA.bytes(0..50_000)).await,
        partial(&world, MEDIA.bytes(50_000..100_000)).await,
    );
    let list = format!("{first} {second}");
    let made = concatenate(&world, &list);
    let gone = async {
        tokio::time::sleep(LONG / 2).await;
        check(&head(&world, &first).await, 200, 50_000);
        let gone = send(&world, "DELETE", &second, &[], Vec::new()).await;
        assert_eq!(gone.status, 204);
        sweep(&world, &stores).await;
    };
    let (made, ()) = tokio::join!(made, gone);
    match made.status.as_u16() {
        201 => assert!(media(&world, &made).await == MEDIA.whole(), "other media"),
        404 => assert_eq!(world.count().await, 0),
        _ => panic!("{made:?}"),
    }
    let kept = vault.list(None, 10).await.expect("it is in memory");
    assert_eq!(kept.stored.len(), 1 + world.count().await);
}

#[tokio::test(start_paused = true)]
async fn uploads_of_the_same_partial_uploads_are_made_at_once() {
    let slow = Faults::new(Trigger::CallsOf("concat"), InjectedFault::Slow(LONG));
    let (stores, _) = stores_with(&MemoryVault::new(), slow);
    let world = set_up(stores, |_| {});
    let target = partial(&world, MEDIA.bytes(0..50_000)).await;
    let list = format!("{target} {target}");
    let requests = (0..4).map(|_| concatenate(&world, &list));
    for made in join_all(requests).await {
        let expected = MEDIA.bytes(0..50_000).repeat(2);
        assert!(media(&world, &made).await == expected, "other media");
    }
}

#[tokio::test]
async fn partial_upload_expires_with_its_media() {
    let stores = SharedStores::new();
    let world = stores.server();
    let target = partial(&world, MEDIA.bytes(0..1000)).await;
    let made = concatenate(&world, &target).await;
    world.clock.advance(LIFETIME);
    assert_eq!(head(&world, &target).await.status, 404);
    assert_eq!(concatenate(&world, &target).await.status, 404);
    world.clock.advance(Duration::from_millis(1));
    let swept = Stores {
        ledger: stores.ledger,
        vault: Arc::new(stores.vault.clone()),
    };
    sweep(&world, &swept).await;
    let kept = stores.vault.list(None, 10).await.expect("it is in memory");
    assert_eq!(kept.stored.len(), 1);
    assert_eq!(media(&world, &made).await, MEDIA.bytes(0..1000));
}

#[tokio::test]
async fn final_upload_is_there_after_a_restart() {
    let stores = SharedStores::new();
    let target = partial(&stores.server(), MEDIA.bytes(0..1000)).await;
    let made = concatenate(&stores.server(), &target).await;
    let world = stores.server();
    let asked = head(&world, &target_of(&made)).await;
    check(&asked, 200, 1000);
    assert_eq!(asked.headers["upload-concat"], format!("final;{target}"));
    assert_eq!(concatenate(&world, &target).await.status, 201);
}

#[tokio::test]
async fn failed_copy_leaves_nothing() {
    for fault in [InjectedFault::NoSpace, InjectedFault::Unavailable] {
        let vault = MemoryVault::new();
        let (stores, _) = stores_with(&vault, Faults::new(Trigger::CallsOf("concat"), fault));
        let world = set_up(stores.clone(), |settings| {
            settings.limits.bytes_per_principal = 250_000;
        });
        let alice = Caller(&world, "alice");
        let target = partial(&alice, MEDIA.bytes(0..90_000)).await;
        for _ in 0..3 {
            let refused = concatenate(&alice, &target).await;
            assert_eq!(
                refused.status,
                StatusCode::SERVICE_UNAVAILABLE,
                "{refused:?}"
            );
        }
        let kept = vault.list(None, 10).await.expect("it is in memory");
        assert_eq!(kept.stored.len(), 1);
        let usage = stores.ledger.usage("alice").await.expect("it is in memory");
        assert_eq!(usage.sessions, 1, "the partial upload");
    }
}
