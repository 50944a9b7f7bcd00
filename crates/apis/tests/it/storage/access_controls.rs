//! Access control lists.

use serde_json::{Value, json};

use windlass_server::{LinkPurpose, LinkTerms, Principal};
use windlass_testkit::in_process::request;

use super::{BUCKET, OBJECTS, Storage};
use crate::world::{ORIGIN, Peer as _, Reply};

const COW: &str = "/storage/v1/b/barn/o/cow";

/// The entities of a list with their roles, in their order.
fn roles(list: &Value) -> Vec<(&str, &str)> {
    let mut entries = Vec::new();
    for entry in list.as_array().expect("a list") {
        let field = |name: &str| entry[name].as_str().expect("a text");
        entries.push((field("entity"), field("role")));
    }
    entries
}

const OWNER: (&str, &str) = ("project-owners-0", "OWNER");
const EVERYBODY: (&str, &str) = ("allUsers", "READER");

impl Storage {
    /// The list of the object `cow`, with the roles of its entities.
    async fn list_of_cow(&self) -> Value {
        let list = self.call("GET", &format!("{COW}/acl")).await.resource();
        assert_eq!(list["kind"], "storage#objectAccessControls");
        list["items"].clone()
    }
}

#[tokio::test]
async fn entries_of_an_object_are_inserted_changed_and_deleted() {
    let storage = Storage::new().await;
    let cow = storage.put("cow", b"moo").await;
    let team = storage.list_of_cow().await;
    let (editors, viewers) = (
        ("project-editors-0", "OWNER"),
        ("project-viewers-0", "READER"),
    );
    assert_eq!(roles(&team), [OWNER, editors, viewers]);
    assert_eq!(
        team[0]["projectTeam"],
        json!({"team": "owners", "projectNumber": "0"})
    );

    let acl = format!("{COW}/acl");
    let entry = json!({"entity": "user-ann@example.com", "role": "READER"});
    let made = storage.json("POST", &acl, &entry).await.resource();
    let link = format!("{ORIGIN}{COW}/acl/user-ann%40example.com");
    let expected = json!({
        "kind": "storage#objectAccessControl",
        "id": format!("barn/cow/{}/user-ann@example.com", cow["generation"].as_str().unwrap()),
        "selfLink": link,
        "bucket": "barn",
        "object": "cow",
        "generation": cow["generation"],
        "entity": "user-ann@example.com",
        "role": "READER",
        "email": "ann@example.com",
        "etag": made["etag"],
    });
    assert_eq!(made, expected);
    let path = format!("{acl}/user-ann%40example.com");
    assert_eq!(storage.call("GET", &path).await.resource(), made);
    for verb in ["PATCH", "PUT"] {
        let role = json!({"role": "OWNER"});
        let changed = storage.json(verb, &path, &role).await.resource();
        assert_eq!(changed["role"], "OWNER");
    }
    let object = storage.object("cow").await.resource();
    assert_eq!(object["metageneration"], "4");
    assert_eq!(object["generation"], cow["generation"]);
    assert_eq!(storage.call("DELETE", &path).await.status, 204);
    for verb in ["GET", "DELETE"] {
        storage.call(verb, &path).await.refusal(404, "notFound");
    }
    let role = json!({"role": "OWNER"});
    storage
        .json("PATCH", &path, &role)
        .await
        .refusal(404, "notFound");
    storage
        .call("GET", &format!("{OBJECTS}/none/acl"))
        .await
        .refusal(404, "notFound");
    for wrong in [json!({"entity": "allUsers"}), json!({"role": "READER"})] {
        storage
            .json("POST", &acl, &wrong)
            .await
            .refusal(400, "required");
    }
    for wrong in [
        json!({"entity": "everybody", "role": "READER"}),
        json!({"entity": "allUsers", "role": "WRITER"}),
    ] {
        storage
            .json("POST", &acl, &wrong)
            .await
            .refusal(400, "invalid");
    }
}

#[tokio::test]
async fn list_has_at_most_100_entries() {
    let storage = Storage::new().await;
    storage.put("cow", b"moo").await;
    let entries = |count: usize| -> Vec<_> {
        let entries = 0..count;
        entries
            .map(|at| json!({"entity": format!("user-{at}"), "role": "OWNER"}))
            .collect()
    };
    let list = json!({"acl": entries(101)});
    storage
        .json("PATCH", COW, &list)
        .await
        .refusal(400, "invalid");
    let list = json!({"acl": entries(100)});
    storage.json("PATCH", COW, &list).await.resource();
    let entry = json!({"entity": "allUsers", "role": "READER"});
    let refused = storage.json("POST", &format!("{COW}/acl"), &entry).await;
    refused.refusal(400, "invalid");
}

#[tokio::test]
async fn list_is_shown_in_the_full_projection_alone() {
    let storage = Storage::new().await;
    let made = storage.put("cow", b"moo").await;
    let bucket = storage.call("GET", BUCKET).await.resource();
    let listed = storage.call("GET", OBJECTS).await.resource();
    for shown in [&made, &bucket, &listed["items"][0]] {
        assert_eq!(shown.get("acl"), None, "{shown}");
    }
    let full = storage.object("cow?projection=full").await.resource();
    assert_eq!(full["acl"], storage.list_of_cow().await);
    let uri = format!("{OBJECTS}?projection=full");
    let listed = storage.call("GET", &uri).await.resource();
    assert_eq!(listed["items"][0], full);
    let uri = format!("{BUCKET}?projection=full");
    let bucket = storage.call("GET", &uri).await.resource();
    assert_eq!(bucket["acl"][0]["kind"], "storage#bucketAccessControl");
    assert_eq!(bucket["acl"][0]["id"], "barn/project-owners-0");
    assert_eq!(bucket["defaultObjectAcl"][0].get("id"), None);
    // The default is full here, as in the service.
    let patched = storage.json("PATCH", COW, &json!({})).await.resource();
    assert_eq!(roles(&patched["acl"]).len(), 3);
    let uri = format!("{COW}?projection=noAcl");
    let patched = storage.json("PATCH", &uri, &json!({})).await.resource();
    assert_eq!(patched.get("acl"), None);
    let wrong = storage.object("cow?projection=all").await;
    wrong.refusal(400, "invalidParameter");
}

#[tokio::test]
async fn list_of_an_object_is_written_with_it_or_by_the_name_of_a_predefined_one() {
    let storage = Storage::new().await;
    let said = json!({"name": "cow", "acl": [{"entity": "allUsers", "role": "READER"}]});
    let made = storage.described(&said, b"moo").await.resource();
    assert_eq!(roles(&made["acl"]), [OWNER, EVERYBODY]);
    let uri = format!("{COW}?predefinedAcl=private");
    // Google's library for Python sends an empty list with the name, the one for JavaScript null.
    let patched = storage.json("PATCH", &uri, &json!({"acl": []})).await;
    assert_eq!(roles(&patched.resource()["acl"]), [OWNER]);
    let uri = format!("{COW}?predefinedAcl=publicRead");
    let patched = storage.json("PUT", &uri, &json!({"acl": null})).await;
    assert_eq!(roles(&patched.resource()["acl"]), [OWNER, EVERYBODY]);
    // A change of another field keeps the list; another upload does not.
    let change = json!({"cacheControl": "no-store"});
    let patched = storage.json("PATCH", COW, &change).await.resource();
    assert_eq!(roles(&patched["acl"]), [OWNER, EVERYBODY]);
    storage.put("cow", b"moo").await;
    assert_eq!(roles(&storage.list_of_cow().await).len(), 3);
    storage
        .alone("name=cow&predefinedAcl=publicRead", "moo")
        .await
        .resource();
    assert_eq!(roles(&storage.list_of_cow().await), [OWNER, EVERYBODY]);
    let unknown = storage.alone("name=cow&predefinedAcl=public", "moo").await;
    unknown.refusal(400, "invalidParameter");
}

#[tokio::test]
async fn copy_gets_a_list_of_its_own_and_a_moved_object_keeps_its_list() {
    let storage = Storage::new().await;
    storage
        .alone("name=cow&predefinedAcl=publicRead", "moo")
        .await
        .resource();
    let full = async |name: &str| {
        let object = storage.object(&format!("{name}?projection=full")).await;
        object.resource()["acl"].clone()
    };
    let copy = async |query: &str, body: Value| {
        let uri = format!("{COW}/copyTo/b/barn/o/calf{query}");
        storage.json("POST", &uri, &body).await.resource();
        full("calf").await
    };
    assert_eq!(roles(&copy("", json!({})).await).len(), 3);
    let named = copy("?destinationPredefinedAcl=publicRead", json!({})).await;
    assert_eq!(roles(&named), [OWNER, EVERYBODY]);
    assert_eq!(roles(&copy("", json!({"acl": []})).await), [OWNER]);
    let uri = format!("{OBJECTS}/both/compose?destinationPredefinedAcl=publicRead");
    let sources = json!({"sourceObjects": [{"name": "cow"}, {"name": "calf"}]});
    storage.json("POST", &uri, &sources).await.resource();
    assert_eq!(roles(&full("both").await), [OWNER, EVERYBODY]);
    storage
        .call("POST", &format!("{COW}/moveTo/o/bull"))
        .await
        .resource();
    assert_eq!(roles(&full("bull").await), [OWNER, EVERYBODY]);
}

#[tokio::test]
async fn bucket_has_a_list_of_its_own_and_one_for_its_objects() {
    let storage = Storage::new().await;
    let entry = json!({"entity": "allUsers", "role": "WRITER"});
    let acl = format!("{BUCKET}/acl");
    let made = storage.json("POST", &acl, &entry).await.resource();
    assert_eq!(made["kind"], "storage#bucketAccessControl");
    let default = format!("{BUCKET}/defaultObjectAcl");
    storage
        .json("POST", &default, &entry)
        .await
        .refusal(400, "invalid");
    let entry = json!({"entity": "allUsers", "role": "READER"});
    storage.json("POST", &default, &entry).await.resource();
    storage.put("cow", b"moo").await;
    assert_eq!(roles(&storage.list_of_cow().await).len(), 4);

    let uri = format!("{BUCKET}?predefinedDefaultObjectAcl=private");
    let list = json!({"acl": [{"entity": "allAuthenticatedUsers", "role": "READER"}]});
    let patched = storage.json("PATCH", &uri, &list).await.resource();
    let authenticated = ("allAuthenticatedUsers", "READER");
    assert_eq!(roles(&patched["acl"]), [OWNER, authenticated]);
    assert_eq!(roles(&patched["defaultObjectAcl"]), [OWNER]);
    let path = format!("{acl}/allAuthenticatedUsers");
    assert_eq!(storage.call("DELETE", &path).await.status, 204);
    let list = storage.call("GET", &acl).await.resource();
    assert_eq!(list["kind"], "storage#bucketAccessControls");
    assert_eq!(roles(&list["items"]), [OWNER]);
    // Fields and lists are changed apart from each other.
    let labels = json!({"labels": {"a": "1"}});
    let patched = storage.json("PATCH", BUCKET, &labels).await.resource();
    assert_eq!(roles(&patched["acl"]), [OWNER]);
    let uri = "/storage/v1/b?project=farm&predefinedAcl=publicRead&projection=full";
    let made = storage
        .json("POST", uri, &json!({"name": "stall"}))
        .await
        .resource();
    assert_eq!(roles(&made["acl"]), [OWNER, EVERYBODY]);
}

#[tokio::test]
async fn uniform_access_to_a_bucket_switches_lists_off() {
    let storage = Storage::new().await;
    storage.put("cow", b"moo").await;
    let uniform = |enabled: bool| json!({"iamConfiguration": {"uniformBucketLevelAccess": {"enabled": enabled}}});
    let patched = storage
        .json("PATCH", BUCKET, &uniform(true))
        .await
        .resource();
    assert_eq!(patched.get("acl"), None);
    let lists = [
        format!("{COW}/acl"),
        format!("{BUCKET}/acl"),
        format!("{BUCKET}/defaultObjectAcl"),
    ];
    let entry = json!({"entity": "allUsers", "role": "READER"});
    for list in &lists {
        storage
            .call("GET", list)
            .await
            .refusal(400, "invalidArgument");
        storage
            .json("POST", list, &entry)
            .await
            .refusal(400, "invalidArgument");
    }
    for uri in [
        format!("{COW}?predefinedAcl=publicRead"),
        format!("{BUCKET}?predefinedAcl=publicRead"),
    ] {
        storage
            .json("PATCH", &uri, &json!({}))
            .await
            .refusal(400, "invalidArgument");
    }
    let public = storage
        .alone("name=calf&predefinedAcl=publicRead", "moo")
        .await;
    public.refusal(400, "invalidArgument");
    storage.alone("name=calf", "moo").await.resource();
    assert_eq!(
        storage
            .object("cow?projection=full")
            .await
            .resource()
            .get("acl"),
        None
    );
    storage
        .json("PATCH", BUCKET, &uniform(false))
        .await
        .resource();
    assert_eq!(roles(&storage.list_of_cow().await).len(), 3);
}

/// Uploads by a link with a signature that covers these parameters.
async fn by_link(storage: &Storage, signed: &[&str], query: &str, acl: bool) -> Reply {
    let signed = signed.iter().map(|&name| name.to_owned());
    let terms = LinkTerms::new(LinkPurpose::Upload).with_signed_parameters(signed);
    let principal = Principal::new("link:7").with_link(terms);
    let metadata = if acl {
        json!({"name": "cow", "acl": [{"entity": "allUsers", "role": "READER"}]})
    } else {
        json!({"name": "cow"})
    };
    let uri = format!("/upload/storage/v1/b/barn/o?uploadType=resumable&{query}");
    let mut request = request("POST", &uri, &[], metadata.to_string());
    request.extensions_mut().insert(principal);
    storage.world.try_exchange(request).await
}

#[tokio::test]
async fn link_gives_others_access_only_if_that_was_signed() {
    let storage = Storage::new().await;
    let public = "predefinedAcl=publicRead";
    for (signed, query, acl, is_made) in [
        (&[][..], "", false, true),
        (&[][..], "predefinedAcl=", false, true),
        (&[][..], public, false, false),
        (&["name"][..], public, false, false),
        (&["predefinedAcl"][..], public, false, true),
        (&[][..], "", true, false),
        (&["predefinedAcl"][..], public, true, false),
    ] {
        let reply = by_link(&storage, signed, query, acl).await;
        if is_made {
            assert_eq!(reply.status, 200, "{signed:?} {query} {acl}: {reply:?}");
        } else {
            let message = reply.refusal(403, "forbidden");
            assert!(message.contains("predefinedAcl"), "{message}");
        }
    }
    // A caller with other credentials publishes as before.
    let query = format!("name=cow&{public}");
    storage.alone(&query, "moo").await.resource();
}
