//! Owners: the resources and sessions that a principal sees and changes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode};
use serde_json::json;
use windlass_discovery::{Access, Api};
use windlass_server::config::SessionAuth;
use windlass_server::{Principal, Registry, ServedApi, Stores};
use windlass_store::fault::{Faults, FaultyLedger, InjectedFault, Trigger};
use windlass_testkit::farm::{self, ANIMALS, animal};
use windlass_testkit::in_process::{Peer, Reply};
use windlass_testkit::media::Media;

use crate::embedding::{HOUR, memory};
use crate::protocols::{Outcome, Protocol};
use crate::world::{Body, World};

const MEDIA: Media = Media::new(7, 40);

/// The principal that owns resources without an owner.
const UNOWNED: &str = "token";

const STRANGERS: [Option<&str>; 3] = [Some("bob"), Some(UNOWNED), None];

fn farm(access: Access) -> ServedApi {
    let farm = Api::from_toml(farm::SHORT_FORM).expect("it is valid");
    ServedApi::with_default_handler(farm.map_settings(|settings| settings.access = access))
}

/// A server that shows each principal only its own animals.
fn owned(stores: &Stores) -> World {
    World::of(farm(Access::Owner), stores.clone(), Arc::default())
}

/// A server that shows all animals to every principal.
fn shared(stores: &Stores) -> World {
    World::of(farm(Access::Shared), stores.clone(), Arc::default())
}

/// The requests of one principal, or of nobody.
struct Caller<'a> {
    world: &'a World,
    id: Option<&'a str>,
}

impl Peer for Caller<'_> {
    const ORIGIN: &'static str = World::ORIGIN;

    async fn try_exchange(&self, mut request: Request<Body>) -> Reply {
        if let Some(id) = self.id {
            request.extensions_mut().insert(Principal::new(id));
        }
        self.world.try_exchange(request).await
    }
}

impl Caller<'_> {
    async fn insert(&self) -> String {
        let made = self.simple(ANIMALS, "image/png", &MEDIA.whole()).await;
        made.field("id")
    }

    async fn ids(&self) -> Vec<String> {
        let list = self.get(ANIMALS).await.resource();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let ids = items.iter().map(|item| item["id"].as_str());
        ids.map(|id| id.expect("an id").to_owned()).collect()
    }

    async fn start(&self, http_method: &str, path: &str) -> Reply {
        let uri = format!("/upload{path}?uploadType=resumable");
        self.send(http_method, &uri, &[], "").await
    }

    async fn started(&self) -> String {
        let started = self.start("POST", ANIMALS).await;
        started.location(World::ORIGIN).to_owned()
    }
}

fn caller<'a>(world: &'a World, id: impl Into<Option<&'a str>>) -> Caller<'a> {
    let id = id.into();
    Caller { world, id }
}

/// The calls of a principal about an animal, with the deletion last.
const CALLS: [&str; 10] = [
    "GET",
    "HEAD",
    "media",
    "HEAD media",
    "PUT",
    "PATCH",
    "simple",
    "multipart",
    "resumable",
    "DELETE",
];

async fn carry_out(call: &str, caller: &Caller<'_>, id: &str) -> StatusCode {
    let path = animal(id);
    let named = json!({"name": "Rosie"});
    let media = format!("{path}?alt=media");
    let reply = match call {
        "media" => caller.get(&media).await,
        "HEAD media" => caller.call("HEAD", &media).await,
        "PUT" | "PATCH" => caller.json(call, &path, &named).await,
        "simple" => {
            let uri = format!("/upload{path}?uploadType=media");
            let headers = [("content-type", "image/png")];
            caller.send("PUT", &uri, &headers, MEDIA.whole()).await
        }
        "multipart" => {
            let media = ("image/png", &MEDIA.whole()[..]);
            caller.multipart_by("PUT", &path, &named, media).await
        }
        "resumable" => caller.start("PUT", &path).await,
        _ => caller.call(call, &path).await,
    };
    reply.status
}

#[tokio::test]
async fn what_a_principal_made_is_found_and_changed_by_no_other() {
    let world = owned(&memory());
    let alice = caller(&world, "alice");
    let metadata = json!({"name": "Rosie"});
    let media = MEDIA.whole();
    let made = [
        alice.simple(ANIMALS, "image/png", &media).await,
        alice
            .multipart(ANIMALS, &metadata, "image/png", &media)
            .await,
        alice
            .resumable(ANIMALS, &metadata, "image/png", &media)
            .await,
        alice.json("POST", ANIMALS, &metadata).await,
    ];
    let mut ids: Vec<_> = made.iter().map(|made| made.field("id")).collect();
    // The clock stands still, so ids are in no order.
    ids.sort();
    for id in &ids {
        for stranger in STRANGERS {
            for call in CALLS {
                let status = carry_out(call, &caller(&world, stranger), id).await;
                assert_eq!(status, StatusCode::NOT_FOUND, "{call} by {stranger:?}");
            }
        }
    }
    for stranger in STRANGERS {
        let seen = caller(&world, stranger).ids().await;
        assert_eq!(seen, [""; 0], "{stranger:?}");
    }
    assert_eq!(alice.ids().await, ids);
    // The animal without media cannot be downloaded.
    let bare = made[3].field("id");
    for id in ids.iter().filter(|id| **id != bare) {
        for call in CALLS {
            let status = carry_out(call, &alice, id).await;
            assert!(status.is_success(), "{call}: {status}");
        }
    }
    assert_eq!(alice.ids().await, [bare]);
}

#[tokio::test]
async fn everybody_sees_and_changes_everything_that_is_shared() {
    let world = shared(&memory());
    for maker in [Some("alice"), None] {
        for other in STRANGERS {
            for call in CALLS {
                let id = caller(&world, maker).insert().await;
                let status = carry_out(call, &caller(&world, other), &id).await;
                assert!(status.is_success(), "{call} by {other:?}: {status}");
            }
        }
    }
}

#[tokio::test]
async fn what_was_made_before_there_were_owners_belongs_to_the_named_principal() {
    let stores = memory();
    let mut before = [
        caller(&shared(&stores), None).insert().await,
        caller(&shared(&stores), "alice").insert().await,
    ];
    before.sort();
    let world = owned(&stores);
    for id in [Some(UNOWNED), None] {
        assert_eq!(caller(&world, id).ids().await, before, "{id:?}");
    }
    assert_eq!(caller(&world, "alice").ids().await, [""; 0]);
    let since = caller(&world, "alice").insert().await;

    let registry = Registry::new([farm(Access::Owner)]).expect("there is one API");
    let clock = Arc::default();
    let renamed = World::of_registry(registry, stores.clone(), clock, |settings| {
        settings.unowned_principal = Some("carol".to_owned());
    });
    assert_eq!(caller(&renamed, "carol").ids().await, before);
    assert_eq!(caller(&renamed, UNOWNED).ids().await, [""; 0]);
    assert_eq!(caller(&renamed, "alice").ids().await, [&*since]);
    // An owner's resources are not shared later, and belong to the owner again afterwards.
    assert_eq!(caller(&shared(&stores), "alice").ids().await, before);
    assert_eq!(caller(&owned(&stores), "alice").ids().await, [since]);
}

#[tokio::test]
async fn upload_that_is_continued_by_its_uri_alone_belongs_to_the_principal_that_began_it() {
    let stores = memory();
    let world = owned(&stores);
    let session = caller(&world, "alice").started().await;
    let finished = world.put(&session, "bytes 0-39/40", MEDIA).await;
    assert_eq!(finished.status, StatusCode::CREATED);
    let id = finished.field("id");
    assert_eq!(caller(&world, "alice").ids().await, [&*id]);
    assert_eq!(world.ids().await, [""; 0]);
    let collection = ".owner/alice/farm/farm/v1/animals";
    let row = stores.ledger.resource(collection, &id).await;
    let row = row.expect("memory can be read").expect("it is there");
    assert_eq!(row.owner.as_deref(), Some("alice"));
}

/// Sends every request in every dialect to a session. Returns the statuses of the replies.
async fn statuses(caller: &Caller<'_>, session: &str) -> BTreeSet<u16> {
    let mut statuses = BTreeSet::new();
    for dialect in Protocol::ALL {
        let session = &dialect.readdressed(session);
        for sent in [
            dialect.append(session, 20..30, MEDIA.bytes(20..30)),
            dialect.query(session),
            dialect.end(session, 20..40, MEDIA.bytes(20..40)),
            dialect.cancel(session),
        ] {
            statuses.insert(sent.to(caller).await.status.as_u16());
        }
    }
    statuses
}

/// Begins an upload in a dialect, and brings the half of its media.
async fn begin(caller: &Caller<'_>, dialect: Protocol) -> String {
    let started = dialect.start(Some(40)).to(caller).await;
    let session = dialect.session(&started);
    let part = dialect.append(&session, 0..20, MEDIA.bytes(0..20));
    let part = part.to(caller).await;
    assert_eq!(dialect.read(&part), Outcome::Committed(20), "{part:?}");
    session
}

/// Brings the other half. Nothing in between has changed the upload.
async fn end(caller: &Caller<'_>, dialect: Protocol, session: &str) {
    let asked = dialect.query(session).to(caller).await;
    assert_eq!(dialect.read(&asked), Outcome::Committed(20), "{asked:?}");
    let end = dialect.end(session, 20..40, MEDIA.bytes(20..40));
    let end = end.to(caller).await;
    assert_eq!(dialect.read(&end), Outcome::Finished, "{end:?}");
}

#[tokio::test]
async fn session_of_any_dialect_is_not_found_by_another_principal() {
    for dialect in Protocol::ALL {
        let world = owned(&memory());
        let alice = caller(&world, "alice");
        let session = begin(&alice, dialect).await;
        // The session is in the cache now, and read from the ledger after the first query.
        for stranger in ["bob", UNOWNED] {
            let refused = statuses(&caller(&world, stranger), &session).await;
            assert_eq!(refused, [404].into(), "{dialect:?} {stranger}");
        }
        let nobody = caller(&world, None);
        let asked = dialect.query(&session).to(&nobody).await;
        let outcome = dialect.read(&asked);
        assert_eq!(outcome, Outcome::Committed(20), "the URI is a credential");
        end(&alice, dialect, &session).await;
        let refused = statuses(&caller(&world, "bob"), &session).await;
        assert_eq!(refused, [404].into(), "{dialect:?}, finished");
        assert_eq!(alice.ids().await.len(), 1, "{dialect:?}");
    }
}

#[tokio::test]
async fn session_of_any_dialect_demands_its_principal_where_that_is_set() {
    for dialect in Protocol::ALL {
        let registry = Registry::new([farm(Access::Shared)]).expect("there is one API");
        let world = World::of_registry(registry, memory(), Arc::default(), |settings| {
            settings.session_auth = SessionAuth::Owner;
        });
        let alice = caller(&world, "alice");
        let session = begin(&alice, dialect).await;
        for (stranger, status) in [(None, 401), (Some("bob"), 403)] {
            let refused = statuses(&caller(&world, stranger), &session).await;
            assert_eq!(refused, [status].into(), "{dialect:?} {stranger:?}");
        }
        end(&alice, dialect, &session).await;
        let refused = statuses(&caller(&world, "bob"), &session).await;
        assert_eq!(refused, [403].into(), "{dialect:?}, finished");
    }
}

#[tokio::test]
async fn session_of_a_shared_api_is_found_by_everybody_who_has_its_uri() {
    let world = shared(&memory());
    let session = caller(&world, "alice").started().await;
    let range = [("content-range", "bytes 0-39/40")];
    let bob = caller(&world, "bob");
    let finished = bob.send("PUT", &session, &range, MEDIA.whole()).await;
    assert_eq!(finished.status, StatusCode::CREATED);
}

#[tokio::test(start_paused = true)]
async fn upload_that_a_crash_interrupted_belongs_to_the_principal_that_began_it() {
    let failing = |stores: &Stores, trigger| {
        let faults = Arc::new(Faults::new(trigger, InjectedFault::Fault));
        let ledger = FaultyLedger::new(Arc::clone(&stores.ledger), Arc::clone(&faults));
        let ledger = Arc::new(ledger);
        let vault = Arc::clone(&stores.vault);
        (owned(&Stores { ledger, vault }), faults)
    };
    let upload = async |world: &World| {
        let session = caller(world, "alice").started().await;
        world.put(&session, "bytes 0-39/40", MEDIA).await.status
    };
    let (world, faults) = failing(&memory(), Trigger::Never);
    assert_eq!(upload(&world).await, StatusCode::CREATED);
    let names = faults.names();
    let finish = names.iter().position(|name| *name == "apply");
    let finish = 1 + finish.expect("it is committed") as u64;

    let stores = memory();
    let (world, _) = failing(&stores, Trigger::From(finish));
    assert_eq!(upload(&world).await, StatusCode::SERVICE_UNAVAILABLE);
    drop(world);
    let world = owned(&stores);
    let _serving = world.serve().await;
    tokio::time::sleep(HOUR + Duration::from_secs(1)).await;
    assert_eq!(caller(&world, "alice").ids().await.len(), 1);
    for stranger in STRANGERS {
        let seen = caller(&world, stranger).ids().await;
        assert_eq!(seen, [""; 0], "{stranger:?}");
    }
}
