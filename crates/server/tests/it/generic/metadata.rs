//! Checks of metadata against the request schema.

use serde_json::{Value, json};

use super::{Barn, ok, refused};

#[tokio::test]
async fn metadata_that_violates_the_schema_is_refused_with_the_path_of_the_field() {
    let barn = Barn::new();
    let table = [
        (json!({"title": ["Hay"]}), "title: must be of type string"),
        (json!({"weight": "much"}), "weight: must be of type integer"),
        (json!({"weight": 3.5}), "weight: must be of type integer"),
        (
            json!({"weight": 2_147_483_648_u64}),
            "weight: must have the format int32",
        ),
        (json!({"state": "DAMP"}), "state: must be one of DRY, WET"),
        (
            json!({"labels": {"a": {}}}),
            "labels.a: must be of type string",
        ),
        (json!({"harvest": "yes"}), "harvest: must be of type object"),
        (
            json!({"harvest": {"at": "noon"}}),
            "harvest.at: must have the format date-time",
        ),
        (
            json!({"harvest": {"loads": 3}}),
            "harvest.loads: must be of type array",
        ),
        (
            json!({"harvest": {"loads": [1, -1]}}),
            "harvest.loads[1]: must have the format uint32",
        ),
        (
            json!({"harvest": {"loads": [null]}}),
            "harvest.loads[0]: must not be null",
        ),
        (
            json!({"harvest": {"total": "-1"}}),
            "harvest.total: must have the format uint64",
        ),
        (
            json!({"harvest": {"code": "a-1-"}}),
            "harvest.code: must match the pattern",
        ),
        (
            json!({"harvest": {"seal": "?"}}),
            "harvest.seal: must have the format byte",
        ),
    ];
    for (metadata, says) in table {
        let reply = barn.call("POST", "/v1/barns/b/hayFiles", &metadata).await;
        refused(&reply, 400, says);
        let inside = json!({"hayFile": metadata});
        let reply = barn.upload("v1/barns/b/hayFiles:upload", "", &inside).await;
        refused(&reply, 400, &format!("hayFile.{says}"));
    }
    assert_eq!(
        ok(&barn.get("/v1/barns/b/hayFiles").await)["hayFiles"],
        json!([])
    );
}

#[tokio::test]
async fn an_upload_with_wrong_metadata_is_refused_before_its_media() {
    let barn = Barn::new();
    let uri = "/upload/v1/barns/b/hayFiles:upload?uploadType=resumable";
    let reply = barn
        .call("POST", uri, &json!({"hayFile": {"weight": []}}))
        .await;
    refused(&reply, 400, "hayFile.weight");
}

#[tokio::test]
async fn equivalent_values_are_returned_in_the_form_of_the_schema() {
    let barn = Barn::new();
    let table = [
        (json!({"title": 7}), json!({"title": "7"})),
        (json!({"weight": "3"}), json!({"weight": 3})),
        (json!({"weight": 3.0}), json!({"weight": 3})),
        (
            json!({"harvest": {"total": 7, "seal": "_-8"}}),
            json!({"harvest": {"kind": "barn#harvest", "total": "7", "seal": "_-8"}}),
        ),
    ];
    for (sent, expected) in table {
        let made = ok(&barn.call("POST", "/v1/barns/b/hayFiles", &sent).await);
        for (name, value) in expected.as_object().expect("an object") {
            assert_eq!(&made[name], value, "{sent}");
        }
    }
}

#[tokio::test]
async fn unknown_and_server_fields_are_accepted_and_not_stored() {
    let barn = Barn::new();
    let hay = json!({
        "hat": 1,
        "sizeBytes": "9",
        "createTime": "2001-01-01T00:00:00Z",
        "title": null,
        "harvest": {"hat": 1, "by": "nobody", "code": "a-1"},
    });
    let made = ok(&barn.call("POST", "/v1/barns/b/hayFiles", &hay).await);
    assert_eq!(made["hat"], Value::Null);
    assert_eq!(made["sizeBytes"], Value::Null);
    assert_eq!(made["createTime"], "1970-01-01T00:00:00.000Z");
    assert!(made.as_object().is_some_and(|it| !it.contains_key("title")));
    assert_eq!(
        made["harvest"],
        json!({"kind": "barn#harvest", "code": "a-1"})
    );
}
