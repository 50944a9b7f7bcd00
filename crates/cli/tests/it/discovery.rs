//! The description of an API, as a client library builds itself from it (docs/protocol.md, 2.16).

use std::process::Command;

use serde_json::{Value, json};
use windlass_testkit::raw::{Reply, Request, exchange};

use crate::server::{farm, pond, program};

const DOCUMENT: &str = "/discovery/v1/apis/farm/v1/rest";

fn document() -> Reply {
    exchange(farm(), &Request::new("GET", DOCUMENT)).expect(200)
}

#[test]
fn the_document_says_where_it_was_reached() {
    for host in ["farm.localhost", "barn.localhost:8080"] {
        let reply =
            exchange(farm(), &Request::new("GET", DOCUMENT).header("Host", host)).expect(200);
        assert_eq!(
            reply.header("content-type"),
            Some("application/json; charset=UTF-8")
        );
        assert_eq!(reply.field("kind"), "discovery#restDescription");
        assert_eq!(reply.field("rootUrl"), format!("http://{host}/"));
        assert_eq!(reply.field("servicePath"), "farm/v1/");
        assert_eq!(reply.field("baseUrl"), format!("http://{host}/farm/v1/"));
    }
}

#[test]
fn document_of_a_media_method_states_types_and_upload_paths() {
    let document = document().json();
    let insert = &document["resources"]["animals"]["methods"]["insert"];
    assert_eq!(insert["supportsMediaUpload"], true);
    assert_eq!(insert["httpMethod"], "POST");
    let upload = &insert["mediaUpload"];
    assert!(
        upload["accept"]
            .as_array()
            .is_some_and(|accept| accept.contains(&json!("image/*")))
    );
    assert_eq!(upload["maxSize"], (50_u64 << 30).to_string());
    let path = "/upload/farm/v1/animals";
    let protocols = json!({
        "simple": {"multipart": true, "path": path},
        "resumable": {"multipart": true, "path": format!("/resumable{path}")},
    });
    assert_eq!(upload["protocols"], protocols);
    assert_eq!(
        document["resources"]["animals"]["methods"]["get"]["supportsMediaDownload"],
        true
    );
}

#[test]
fn openapi_document_is_served_as_the_command_prints_it() {
    let path = DOCUMENT.replace("/rest", "/openapi.json");
    let served = exchange(farm(), &Request::new("GET", path)).expect(200);
    let content_type = served.header("content-type");
    assert_eq!(content_type, Some("application/json; charset=UTF-8"));
    let printed = Command::new(program())
        .args(["api", "show", "farm", "--openapi"])
        .args(["--root-url", "http://farm.localhost"])
        .output()
        .expect("it runs");
    let printed: Value = serde_json::from_slice(&printed.stdout).expect("it is JSON");
    assert_eq!(served.json(), printed);
}

#[test]
fn every_api_is_in_the_directory() {
    let directory = exchange(pond(), &Request::new("GET", "/discovery/v1/apis")).expect(200);
    let items = directory.field("items");
    let pond = items
        .as_array()
        .into_iter()
        .flatten()
        .find(|item| item["id"] == "pond:v2");
    let url = pond.expect("the pond is in the directory")["discoveryRestUrl"].clone();
    assert_eq!(url, "http://farm.localhost/discovery/v1/apis/pond/v2/rest");
}

#[test]
fn an_unknown_api_is_answered_404() {
    for path in [
        "/discovery/v1/apis/farm/v9/rest",
        "/discovery/v1/apis/zoo/v1/rest",
        "/discovery/v1/apis/farm/v9/openapi.json",
    ] {
        exchange(farm(), &Request::new("GET", path)).expect(404);
    }
}
