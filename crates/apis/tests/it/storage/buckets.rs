//! Buckets.

use serde_json::{Value, json};

use windlass_store::Resource;

use super::{BUCKET, Storage, row};
use crate::world::{ORIGIN, Peer as _, World};

const BUCKETS: &str = "/storage/v1/b?project=farm";

#[tokio::test]
async fn bucket_shows_the_written_fields() {
    let storage = Storage::new().await;
    let said = json!({"name": "stall", "location": "eu", "labels": {"herd": "north"}});
    let bucket = storage.json("POST", BUCKETS, &said).await.resource();
    let expected = json!({
        "kind": "storage#bucket",
        "id": "stall",
        "selfLink": format!("{ORIGIN}/storage/v1/b/stall"),
        "name": "stall",
        "metageneration": "1",
        "etag": "\"1\"",
        "timeCreated": bucket["timeCreated"],
        "updated": bucket["timeCreated"],
        "location": "EU",
        "locationType": "multi-region",
        "storageClass": "STANDARD",
        "labels": {"herd": "north"},
    });
    assert_eq!(bucket, expected);
    assert_eq!(
        storage.call("GET", "/storage/v1/b/stall").await.resource(),
        bucket
    );
}

#[tokio::test]
async fn existing_bucket_is_not_created_again() {
    let storage = Storage::new().await;
    storage.bucket("barn").await.refusal(409, "conflict");
    storage.bucket("Barn").await.refusal(400, "invalid");
    storage
        .json("POST", BUCKETS, &json!({}))
        .await
        .refusal(400, "required");
    storage
        .json("POST", "/storage/v1/b", &json!({"name": "stall"}))
        .await
        .refusal(400, "required");
}

#[tokio::test]
async fn only_an_empty_bucket_is_deleted() {
    let storage = Storage::new().await;
    storage.put("cow", b"moo").await;
    storage
        .call("DELETE", BUCKET)
        .await
        .refusal(409, "conflict");
    storage.call("DELETE", &format!("{BUCKET}/o/cow")).await;
    assert_eq!(storage.call("DELETE", BUCKET).await.status, 204);
    for uri in [BUCKET.to_owned(), format!("{BUCKET}/o")] {
        storage.call("GET", &uri).await.refusal(404, "notFound");
    }
    storage
        .alone("name=cow", "moo")
        .await
        .refusal(404, "notFound");
}

#[tokio::test]
async fn a_patch_adds_and_an_update_replaces() {
    let storage = Storage::new().await;
    let patch = async |body: Value| storage.json("PATCH", BUCKET, &body).await.resource();
    patch(json!({"labels": {"a": "1", "b": "2"}, "storageClass": "COLDLINE"})).await;
    let patched = patch(json!({"labels": {"a": null, "c": "3"}})).await;
    assert_eq!(patched["labels"], json!({"b": "2", "c": "3"}));
    assert_eq!(
        (&patched["metageneration"], &patched["storageClass"]),
        (&json!("3"), &json!("COLDLINE"))
    );
    let updated = storage
        .json("PUT", BUCKET, &json!({"labels": {"d": "4"}}))
        .await
        .resource();
    assert_eq!(updated["labels"], json!({"d": "4"}));
    assert_eq!(updated["storageClass"], "STANDARD");
}

#[tokio::test]
async fn layout_of_a_bucket_shows_its_location_and_no_folders() {
    let storage = Storage::new().await;
    let layout = storage
        .call("GET", &format!("{BUCKET}/storageLayout"))
        .await;
    let expected = json!({
        "kind": "storage#storageLayout",
        "bucket": "barn",
        "location": "US",
        "locationType": "multi-region",
        "hierarchicalNamespace": {"enabled": false},
    });
    assert_eq!(layout.resource(), expected);
    let missing = storage.call("GET", "/storage/v1/b/shed/storageLayout");
    missing.await.refusal(404, "notFound");
}

#[tokio::test]
async fn versioning_and_retention_are_refused() {
    let storage = Storage::new().await;
    for body in [
        json!({"versioning": {"enabled": true}}),
        json!({"retentionPolicy": {"retentionPeriod": "1"}}),
    ] {
        storage
            .json("PATCH", BUCKET, &body)
            .await
            .refusal(400, "invalid");
    }
}

#[tokio::test]
async fn many_small_patches_do_not_make_a_large_bucket() {
    let storage = Storage::new().await;
    for key in ["a", "b"] {
        let reply = storage
            .json("PATCH", BUCKET, &json!({"labels": {key: "x".repeat(9000)}}))
            .await;
        assert_eq!(reply.status, if key == "a" { 200 } else { 400 });
    }
}

#[tokio::test]
async fn page_of_buckets_ends_by_its_bytes_too() {
    let storage = Storage::new().await;
    for n in 0..300 {
        let bucket = json!({"name": format!("stall-{n}"), "labels": {"a": "x".repeat(15_000)}});
        storage.json("POST", BUCKETS, &bucket).await.resource();
    }
    let stalls = format!("{BUCKETS}&prefix=stall&maxResults=1000");
    let first = storage.call("GET", &stalls).await.resource();
    let token = first["nextPageToken"].as_str().unwrap();
    let behind = format!("{stalls}&pageToken={token}");
    let rest = storage.call("GET", &behind).await.resource();
    let count = |page: &Value| page["items"].as_array().unwrap().len();
    assert!(count(&first) < 300, "{}", count(&first));
    assert_eq!(count(&first) + count(&rest), 300);
}

#[tokio::test]
async fn buckets_are_listed_by_name_in_pages() {
    let storage = Storage::new().await;
    for name in ["stall-2", "stall-1", "stall-3", "zoo"] {
        storage.bucket(name).await.resource();
    }
    let list = async |query: &str| {
        storage
            .call("GET", &format!("{BUCKETS}&{query}"))
            .await
            .resource()
    };
    let names = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().unwrap();
        items
            .iter()
            .map(|it| it["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        names(&list("").await),
        ["barn", "stall-1", "stall-2", "stall-3", "zoo"]
    );
    let first = list("prefix=stall&maxResults=2").await;
    assert_eq!(names(&first), ["stall-1", "stall-2"]);
    let token = first["nextPageToken"].as_str().unwrap();
    let rest = list(&format!("prefix=stall&maxResults=2&pageToken={token}")).await;
    assert_eq!(names(&rest), ["stall-3"]);
    assert_eq!(rest.get("nextPageToken"), None);
    storage
        .call("GET", &format!("{BUCKETS}&pageToken=!"))
        .await
        .refusal(400, "invalidParameter");
    assert_eq!(
        list("prefix=none").await,
        json!({"kind": "storage#buckets"})
    );
}

#[tokio::test]
async fn list_has_the_buckets_of_its_project() {
    let storage = Storage::new().await;
    let make = async |project: &str, name: &str| {
        let uri = format!("/storage/v1/b?project={project}");
        storage.json("POST", &uri, &json!({"name": name})).await
    };
    make("zoo", "cage").await.resource();
    // The name of a bucket is taken in all projects.
    make("zoo", "barn").await.refusal(409, "conflict");
    let patched = json!({"labels": {"a": "1"}});
    let cage = "/storage/v1/b/cage";
    storage.json("PATCH", cage, &patched).await.resource();
    let names = async |project: &str| {
        let uri = format!("/storage/v1/b?project={project}");
        let page = storage.call("GET", &uri).await.resource();
        let items = page["items"].as_array().cloned().unwrap_or_default();
        items
            .iter()
            .map(|it| it["name"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("farm").await, ["barn"]);
    assert_eq!(names("zoo").await, ["cage"]);
    assert_eq!(names("pond").await, [json!(null); 0]);
    let long = "p".repeat(257);
    make(&long, "stall").await.refusal(400, "invalidParameter");
}

/// A row from before buckets had a project.
#[tokio::test]
async fn bucket_without_a_project_is_in_every_list() {
    let storage = Storage::new().await;
    let old = Resource {
        collection: "storage/buckets".to_owned(),
        id: "old".to_owned(),
        body: json!({"metageneration": 1, "fields": {}})
            .to_string()
            .into(),
        ..row("old", 1)
    };
    storage.world.put([old]).await;
    for project in ["farm", "zoo"] {
        let uri = format!("/storage/v1/b?project={project}&prefix=old");
        let page = storage.call("GET", &uri).await.resource();
        assert_eq!(page["items"][0]["name"], "old", "{project}");
    }
}

#[tokio::test]
async fn a_published_document_is_given_the_kind_and_what_has_no_meaning_here_is_not_implemented() {
    let document = json!({
        "name": "storage", "version": "v1", "servicePath": "storage/v1/",
        "resources": {"buckets": {"methods": {"getIamPolicy": {
            "id": "storage.buckets.getIamPolicy", "httpMethod": "GET", "path": "b/{bucket}/iam",
            "parameters": {"bucket": {"location": "path", "required": true, "type": "string"}}
        }}}}
    });
    let world = World::adopting(&document);
    world
        .call("GET", "/storage/v1/b/barn/iam")
        .await
        .refusal(501, "notImplemented");
}

#[tokio::test]
async fn bucket_stays_where_it_is() {
    let storage = Storage::new().await;
    for moved in [json!({"location": "EU"}), json!({"location": "us-east1"})] {
        for http_method in ["PATCH", "PUT"] {
            let refused = storage.json(http_method, BUCKET, &moved).await;
            let message = refused.refusal(400, "invalid");
            assert!(message.contains("location"), "{message}");
        }
    }
    let uri = "/storage/v1/b?project=farm";
    let shed = json!({"name": "shed", "location": "eu"});
    storage.json("POST", uri, &shed).await.resource();
    for same in [
        json!({}),
        json!({"location": null}),
        json!({"location": "eu"}),
    ] {
        for http_method in ["PATCH", "PUT"] {
            let kept = storage.json(http_method, "/storage/v1/b/shed", &same).await;
            assert_eq!(kept.resource()["location"], "EU", "{http_method} {same}");
        }
    }
}

#[tokio::test]
async fn bucket_has_no_managed_folders() {
    let storage = Storage::new().await;
    let list = storage
        .call("GET", &format!("{BUCKET}/managedFolders"))
        .await;
    assert_eq!(list.resource(), json!({"kind": "storage#managedFolders"}));
    let none = storage
        .call("GET", "/storage/v1/b/none/managedFolders")
        .await;
    none.refusal(404, "notFound");
    let made = json!({"name": "hay/"});
    let uri = format!("{BUCKET}/managedFolders");
    let refused = storage.json("POST", &uri, &made).await;
    refused.refusal(405, "methodNotAllowed");
    let uri = format!("{BUCKET}/managedFolders/hay");
    storage
        .call("DELETE", &uri)
        .await
        .refusal(501, "notImplemented");
}

#[tokio::test]
async fn protection_in_a_form_that_does_not_protect_is_refused() {
    let storage = Storage::new().await;
    for iam in [
        json!({"uniformBucketLevelAccess": {"enabled": "true"}}),
        json!({"publicAccessPrevention": "Enforced"}),
        json!("x"),
    ] {
        let fields = json!({"iamConfiguration": iam});
        storage
            .json("PATCH", BUCKET, &fields)
            .await
            .refusal(400, "invalid");
        storage
            .json("PUT", BUCKET, &fields)
            .await
            .refusal(400, "invalid");
    }
    let shown = storage.call("GET", BUCKET).await.resource();
    assert_eq!(shown.get("iamConfiguration"), None);
}
