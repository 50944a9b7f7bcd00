//! The form of the default handler's replies.

use serde_json::json;

use super::{Barn, ok};

#[tokio::test]
async fn resource_wrapped_in_request_and_response_is_filled_in() {
    let barn = Barn::new();
    let metadata =
        json!({"hayFile": {"title": "Hay", "weight": "3", "labels": {"a": "b"}, "sizeBytes": "9"}});
    let reply = ok(&barn
        .upload("v1/barns/b/hayFiles:upload", "hayFileId=h", &metadata)
        .await);
    let expected = json!({
        "name": "barns/b/hayFiles/h",
        "title": "Hay",
        "weight": 3,
        "labels": {"a": "b"},
        "createTime": "1970-01-01T00:00:00.000Z",
        "sizeBytes": "3",
        "mimeType": "text/plain",
        "digests": {
            "sha256": "4e30ea25cda1c18cfc423e4d9dfa57b7051a9ef311e09ed43f8e33523f3d9533",
            "md5Checksum": "4982b37aa4ff1d1761d9567323d2cf38",
        },
    });
    assert_eq!(reply["hayFile"], expected);
}

#[tokio::test]
async fn required_fields_are_filled_in_with_the_simplest_value() {
    let barn = Barn::new();
    let made = ok(&barn.call("POST", "/v1/barns/b/hayFiles", &json!({})).await);
    assert_eq!(made["state"], "DRY");
    let wet = ok(&barn
        .call("POST", "/v1/barns/b/hayFiles", &json!({"state": "WET"}))
        .await);
    assert_eq!(wet["state"], "WET");
}

#[tokio::test]
async fn nested_objects_state_their_kind() {
    let barn = Barn::new();
    let hay = json!({"harvest": {"total": 7}});
    let made = ok(&barn.call("POST", "/v1/barns/b/hayFiles", &hay).await);
    assert_eq!(
        made["harvest"],
        json!({"kind": "barn#harvest", "total": "7"})
    );
}

#[tokio::test]
async fn operation_is_done_and_can_be_read_by_its_name() {
    let barn = Barn::new();
    let operation = ok(&barn
        .upload("v1/barns/b/straw:import", "", &json!({"title": "Straw"}))
        .await);
    let name = operation["name"].as_str().expect("a name");
    assert!(name.starts_with("barns/b/operations/"), "{name}");
    assert_eq!(operation["done"], true);
    let response = &operation["response"];
    assert_eq!(response["@type"], "type.googleapis.com/UploadStrawResponse");
    assert_eq!(response["straw"][0]["title"], "Straw");
    assert_eq!(ok(&barn.get(&format!("/v1/{name}")).await), operation);
}

#[tokio::test]
async fn operation_that_creates_a_resource_returns_it() {
    let barn = Barn::new();
    let straw = json!({"title": "Straw"});
    let operation = ok(&barn.call("POST", "/v1/barns/b/straw", &straw).await);
    let response = &operation["response"];
    assert_eq!(response["@type"], "type.googleapis.com/HayFile");
    assert_eq!(response["title"], "Straw");
    let name = response["name"].as_str().expect("a name");
    assert!(name.starts_with("barns/b/straw/"), "{name}");
}

#[tokio::test]
async fn deletion_may_return_an_operation() {
    let barn = Barn::new();
    ok(&barn
        .upload("v1/barns/b/hayFiles:upload", "hayFileId=h", &json!({}))
        .await);
    let uri = "/v1/barns/b/hayFiles/h";
    let operation = ok(&barn.call("DELETE", uri, &json!(null)).await);
    assert_eq!(operation["done"], true);
    assert_eq!(barn.get(uri).await.status, 404);
    let name = operation["name"].as_str().expect("a name");
    assert_eq!(ok(&barn.get(&format!("/v1/{name}")).await), operation);
}

#[tokio::test]
async fn id_is_a_number_if_the_schema_requires_one() {
    let barn = Barn::new();
    let tag = ok(&barn.upload("tags", "", &json!({"text": "moo"})).await);
    let id = tag["id"].as_str().expect("an id");
    assert!(id.parse::<i64>().is_ok(), "{id}");
}

#[tokio::test]
async fn method_without_a_response_has_an_empty_reply() {
    let barn = Barn::new();
    assert_eq!(ok(&barn.upload("blank", "", &json!({})).await), json!({}));
}
