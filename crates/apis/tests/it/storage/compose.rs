//! Composed objects.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_server::Stores;
use windlass_store::fault::{Faults, FaultyLedger, FaultyVault};
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_store::{Ledger, Sweep, SweepOptions, Timestamp, Vault};

use super::{LARGE, OBJECTS, Storage};
use crate::world::{Peer as _, Reply, World};

impl Storage {
    /// Composes `herd` as `body` says.
    async fn composed(&self, body: &Value) -> Reply {
        self.composed_into("herd", body).await
    }

    /// `rest` is the name of the new object, and a query.
    async fn composed_into(&self, rest: &str, body: &Value) -> Reply {
        let (name, query) = rest.split_once('?').unwrap_or((rest, ""));
        let uri = format!("{OBJECTS}/{name}/compose?{query}");
        self.json("POST", &uri, body).await
    }

    /// Composes an object of others and gives its resource.
    async fn compose(&self, name: &str, sources: &[&str]) -> Value {
        self.composed_into(name, &of(sources)).await.resource()
    }
}

fn of(sources: &[&str]) -> Value {
    let sources: Vec<_> = sources.iter().map(|name| json!({"name": name})).collect();
    json!({"sourceObjects": sources})
}

/// CRC32C as the service writes it.
async fn crc32c_of(storage: &Storage, media: &[u8]) -> Value {
    storage.put("reference", media).await["crc32c"].clone()
}

#[tokio::test]
async fn object_is_composed_of_media_in_either_store() {
    let storage = Storage::new().await;
    storage.put("large", LARGE).await;
    storage.put("small", b"moo").await;
    storage.put("none", b"").await;
    let cases: [(&[&str], Vec<u8>); 6] = [
        (&["large", "small"], [LARGE, b"moo"].concat()),
        (
            &["small", "large", "small", "large"],
            [b"moo", LARGE, b"moo", LARGE].concat(),
        ),
        (&["small", "small"], b"moomoo".to_vec()),
        (&["none", "none"], Vec::new()),
        (&["large"], LARGE.to_vec()),
        (&["small"], b"moo".to_vec()),
    ];
    for (sources, expected) in cases {
        let herd = storage.compose("herd", sources).await;
        assert_eq!(herd["size"], expected.len().to_string(), "{sources:?}");
        assert_eq!(
            herd["crc32c"],
            crc32c_of(&storage, &expected).await,
            "{sources:?}"
        );
        assert_eq!(herd["componentCount"], sources.len(), "{sources:?}");
        assert_eq!(herd.get("md5Hash"), None, "{sources:?}");
        assert!(storage.media("herd").await == expected, "{sources:?}");
        assert_eq!(storage.object("herd").await.resource(), herd);
    }
    assert!(storage.media("large").await == LARGE);
}

#[tokio::test]
async fn composite_object_has_the_fields_that_the_call_states() {
    let storage = Storage::new().await;
    storage.put("cow", LARGE).await;
    let destination = json!({
        "contentType": "image/png", "metadata": {"herd": "north"}, "cacheControl": "no-store",
        // These fields are ignored: libraries send back the fields of an earlier object.
        "crc32c": "AAAAAA==", "md5Hash": "AAAAAAAAAAAAAAAAAAAAAA==", "componentCount": 7,
        "generation": "7", "name": "other", "size": "7",
    });
    let body = json!({
        "kind": "storage#composeRequest",
        "sourceObjects": [{"name": "cow"}, {"name": "cow"}],
        "destination": destination,
    });
    let herd = storage
        .composed_into("herd?destinationPredefinedAcl=private", &body)
        .await;
    let herd = herd.resource();
    for (field, expected) in [
        ("name", json!("herd")),
        ("contentType", json!("image/png")),
        ("metadata", json!({"herd": "north"})),
        ("cacheControl", json!("no-store")),
        ("storageClass", json!("STANDARD")),
        ("componentCount", json!(2)),
        ("metageneration", json!("1")),
        ("size", json!((2 * LARGE.len()).to_string())),
    ] {
        assert_eq!(herd[field], expected, "{field}");
    }
    let plain = storage.compose("plain", &["cow"]).await;
    assert_eq!(plain["contentType"], "application/octet-stream");
}

#[tokio::test]
async fn object_may_be_composed_of_itself_to_append() {
    let storage = Storage::new().await;
    storage.put("log", LARGE).await;
    let mut expected = LARGE.to_vec();
    for n in 2..5 {
        let before = storage.object("log").await.resource();
        storage.put("line", b"moo").await;
        let log = storage.compose("log", &["log", "line"]).await;
        assert_ne!(log["generation"], before["generation"]);
        assert_eq!(log["componentCount"], n);
        expected.extend_from_slice(b"moo");
        assert!(storage.media("log").await == expected);
    }
}

#[tokio::test]
async fn component_count_is_that_of_all_sources_and_does_not_overflow() {
    let storage = Storage::new().await;
    storage.put("none", b"").await;
    assert_eq!(
        storage
            .object("none")
            .await
            .resource()
            .get("componentCount"),
        None
    );
    let mut expected = 1_u64;
    for _ in 0..8 {
        expected = (expected * 32).min(u64::from(i32::MAX.unsigned_abs()));
        let composed = storage.compose("none", &["none"; 32]).await;
        assert_eq!(composed["componentCount"], expected);
    }
}

#[tokio::test]
async fn copy_of_a_composite_object_keeps_its_components_in_the_same_storage_class() {
    let storage = Storage::new().await;
    storage.put("cow", LARGE).await;
    storage.compose("herd", &["cow", "cow"]).await;
    let copy = |body: Value| {
        let uri = format!("{OBJECTS}/herd/copyTo/b/barn/o/copy");
        let storage = &storage;
        async move { storage.json("POST", &uri, &body).await.resource() }
    };
    let same = copy(json!({})).await;
    assert_eq!(
        (&same["componentCount"], same.get("md5Hash")),
        (&json!(2), None)
    );
    assert_eq!(
        copy(json!({"storageClass": "ARCHIVE"})).await["componentCount"],
        1
    );
    let (uri, change) = (format!("{OBJECTS}/herd"), json!({"metadata": {"a": "b"}}));
    let patched = storage.json("PATCH", &uri, &change).await;
    assert_eq!(patched.resource()["componentCount"], 2);
}

#[tokio::test]
async fn number_of_sources_is_1_to_32() {
    let storage = Storage::new().await;
    storage.put("cow", b"moo").await;
    storage.composed(&of(&["cow"; 32])).await.resource();
    storage
        .composed(&of(&["cow"; 33]))
        .await
        .refusal(400, "invalid");
    for none in [
        json!({}),
        json!({"sourceObjects": []}),
        json!({"sourceObjects": null}),
    ] {
        storage.composed(&none).await.refusal(400, "required");
    }
}

#[tokio::test]
async fn malformed_request_is_refused() {
    let storage = Storage::new().await;
    storage.put("cow", b"moo").await;
    let with = |source: Value| json!({"sourceObjects": [source]});
    for (body, reason) in [
        (json!({"sourceObjects": {"name": "cow"}}), "invalid"),
        (with(json!("cow")), "invalid"),
        (with(json!({})), "required"),
        (with(json!({"name": ""})), "required"),
        (with(json!({"name": 7})), "invalid"),
        (with(json!({"name": "cow", "generation": "x"})), "invalid"),
        (with(json!({"name": "cow", "generation": 1.5})), "invalid"),
        (
            with(json!({"name": "cow", "objectPreconditions": 7})),
            "invalid",
        ),
        (
            with(json!({"name": "cow", "objectPreconditions": {"ifGenerationMatch": true}})),
            "invalid",
        ),
        (
            json!({"sourceObjects": [{"name": "cow"}], "destination": "herd"}),
            "invalid",
        ),
        (
            json!({"sourceObjects": [{"name": "cow"}], "destination": {"cacheControl": 1}}),
            "invalid",
        ),
        (
            json!({"sourceObjects": [{"name": "cow"}], "destination": {"temporaryHold": true}}),
            "invalid",
        ),
        (
            json!({"sourceObjects": [{"name": "cow"}], "deleteSourceObjects": "yes"}),
            "invalid",
        ),
    ] {
        let message = storage.composed(&body).await.refusal(400, reason);
        assert!(!message.is_empty(), "{body}");
    }
    storage
        .composed_into("a%0Ab", &of(&["cow"]))
        .await
        .refusal(400, "invalidParameter");
    storage
        .composed_into("herd?kmsKeyName=projects/p", &of(&["cow"]))
        .await
        .refusal(400, "invalidParameter");
    storage.object("herd").await.refusal(404, "notFound");
}

#[tokio::test]
async fn sources_must_be_there_in_the_generation_that_is_asked_for() {
    let storage = Storage::new().await;
    let generation = storage.put("cow", LARGE).await["generation"].clone();
    let number: i64 = generation.as_str().unwrap().parse().unwrap();
    let cases = [
        (json!({"name": "none"}), 404),
        (json!({"name": "cow", "generation": "7"}), 404),
        (json!({"name": "cow", "generation": generation}), 200),
        (json!({"name": "cow", "generation": number}), 200),
        (
            json!({"name": "cow", "objectPreconditions": {"ifGenerationMatch": "7"}}),
            412,
        ),
        (
            json!({"name": "cow", "objectPreconditions": {"ifGenerationMatch": generation}}),
            200,
        ),
        (json!({"name": "cow", "objectPreconditions": {}}), 200),
    ];
    for (source, status) in cases {
        let body = json!({"sourceObjects": [{"name": "cow"}, source]});
        assert_eq!(storage.composed(&body).await.status, status, "{body}");
    }
    storage.row("without-media", 7).await;
    storage
        .composed(&of(&["cow", "without-media"]))
        .await
        .refusal(404, "notFound");
    let uri = "/storage/v1/b/none/o/herd/compose";
    storage
        .json("POST", uri, &of(&["cow"]))
        .await
        .refusal(404, "notFound");
}

#[tokio::test]
async fn preconditions_are_on_the_object_that_is_replaced() {
    let storage = Storage::new().await;
    storage.put("cow", LARGE).await;
    let generation = storage.put("herd", b"moo").await["generation"].clone();
    let generation = generation.as_str().unwrap();
    for (query, status) in [
        ("ifGenerationMatch=0".to_owned(), 412),
        ("ifGenerationMatch=7".to_owned(), 412),
        ("ifMetagenerationMatch=2".to_owned(), 412),
        (
            format!("ifGenerationMatch={generation}&ifMetagenerationMatch=1"),
            200,
        ),
        (format!("ifGenerationMatch={generation}"), 412),
    ] {
        let composed = storage
            .composed_into(&format!("herd?{query}"), &of(&["cow", "cow"]))
            .await;
        assert_eq!(composed.status, status, "{query}");
    }
    let fresh = storage
        .composed_into("fresh?ifGenerationMatch=0", &of(&["cow", "cow"]))
        .await;
    assert_eq!(fresh.status, 200);
}

#[tokio::test]
async fn sources_have_one_storage_class_which_the_new_object_gets() {
    let storage = Storage::new().await;
    for (name, class) in [("a", "COLDLINE"), ("b", "COLDLINE"), ("c", "STANDARD")] {
        let said = json!({"name": name, "storageClass": class});
        storage.described(&said, LARGE).await.resource();
    }
    let herd = storage.compose("herd", &["a", "b"]).await;
    assert_eq!(herd["storageClass"], "COLDLINE");
    storage
        .composed(&of(&["a", "c"]))
        .await
        .refusal(400, "invalidArgument");
}

#[tokio::test]
async fn sources_are_deleted_if_the_call_says_so() {
    let storage = Storage::new().await;
    for name in ["a", "b", "herd"] {
        storage.put(name, LARGE).await;
    }
    let body = json!({
        "sourceObjects": [{"name": "herd"}, {"name": "a"}, {"name": "b"}, {"name": "a"}],
        "deleteSourceObjects": true,
    });
    storage.composed(&body).await.resource();
    assert!(storage.media("herd").await == LARGE.repeat(4));
    for name in ["a", "b"] {
        storage.object(name).await.refusal(404, "notFound");
    }
    let renamed = json!({"sourceObjects": [{"name": "herd"}], "deleteSourceObjects": true});
    storage.composed_into("other", &renamed).await.resource();
    storage.object("herd").await.refusal(404, "notFound");
    assert!(storage.media("other").await == LARGE.repeat(4));
}

#[tokio::test]
async fn composed_object_is_no_longer_than_an_uploaded_one() {
    let storage = Storage::with(World::adopting(&document_with_a_limit())).await;
    storage.put("cow", LARGE).await;
    storage.compose("herd", &["cow"]).await;
    storage
        .composed(&of(&["cow", "cow"]))
        .await
        .refusal(413, "uploadTooLarge");
}

/// Returns the published description of these methods, with a limit on uploads.
fn document_with_a_limit() -> Value {
    let in_path = json!({"location": "path", "required": true, "type": "string"});
    json!({
        "name": "storage", "version": "v1", "servicePath": "storage/v1/",
        "resources": {
            "buckets": {"methods": {"insert": {
                "id": "storage.buckets.insert", "httpMethod": "POST", "path": "b",
            }}},
            "objects": {"methods": {
                "insert": {
                    "id": "storage.objects.insert", "httpMethod": "POST", "path": "b/{bucket}/o",
                    "parameters": {"bucket": in_path},
                    "supportsMediaUpload": true,
                    "mediaUpload": {
                        "accept": ["*/*"], "maxSize": "1000",
                        "protocols": {"simple": {
                            "multipart": true, "path": "/upload/storage/v1/b/{bucket}/o",
                        }},
                    },
                },
                "compose": {
                    "id": "storage.objects.compose", "httpMethod": "POST",
                    "path": "b/{destinationBucket}/o/{destinationObject}/compose",
                    "parameters": {"destinationBucket": in_path, "destinationObject": in_path},
                },
            }},
        },
    })
}

/// Simulates a power cut before and after each call of the stores.
#[tokio::test]
async fn outage_leaves_the_old_object_or_the_new_one_and_always_the_sources() {
    let mut nth = 0;
    loop {
        nth += 1;
        for faults in [Faults::outage_before(nth), Faults::outage_after(nth)] {
            let case = format!("{faults:?}");
            let (ledger, vault) = (Arc::new(MemoryLedger::new()), MemoryVault::new());
            let stores = || Stores {
                ledger: Arc::clone(&ledger) as _,
                vault: Arc::new(vault.clone()),
            };
            let storage = Storage::with(World::over("storage", stores())).await;
            storage.put("large", LARGE).await;
            storage.put("small", b"moo").await;
            storage.put("herd", b"old").await;

            let faults = Arc::new(faults);
            let struck = Stores {
                ledger: Arc::new(FaultyLedger::new(stores().ledger, Arc::clone(&faults))),
                vault: Arc::new(FaultyVault::new(stores().vault, Arc::clone(&faults))),
            };
            let world = World::over("storage", struck);
            let composed = Storage { world }.composed(&of(&["large", "small"])).await;
            let is_struck = faults.calls() >= nth;
            ledger.crash();
            vault.crash();

            let world = World::over("storage", stores());
            let storage = Storage { world };
            assert!(storage.media("large").await == LARGE, "{case}");
            assert!(storage.media("small").await == b"moo"[..], "{case}");
            let herd = storage.media("herd").await;
            let new = [LARGE, b"moo"].concat();
            assert!(herd == new || herd == b"old"[..], "{case}");
            assert!(composed.status != 200 || herd == new, "{case}");
            let expected = if herd == new { 2 } else { 1 };
            assert_eq!(swept(&*ledger, &vault).await, expected, "{case}");
            if !is_struck {
                assert_eq!(composed.status, 200, "{case}");
                return;
            }
        }
    }
}

/// Returns how many media are left after a sweep.
async fn swept(ledger: &dyn Ledger, vault: &MemoryVault) -> usize {
    let options = SweepOptions::default().grace(Duration::ZERO);
    let later = Timestamp::from_millis(1_000_000);
    let mut sweep = Sweep::new(options);
    loop {
        let swept = sweep.step(ledger, vault, later).await;
        if swept.expect("memory does not fail").is_done {
            break;
        }
    }
    let listing = vault.list(None, 100).await;
    listing.expect("memory does not fail").stored.len()
}
