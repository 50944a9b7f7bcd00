//! Resources on their plain paths.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_testkit::error_object::assert_error;
use windlass_testkit::farm::{self, ANIMALS};
use windlass_testkit::media::Media;
use windlass_testkit::raw::{Reply, Request, exchange};

use crate::server::{farm, own};

fn json(verb: &str, target: &str, body: &Value) -> Request {
    Request::new(verb, target)
        .header("Content-Type", "application/json")
        .body(body.to_string())
}

fn get(target: &str) -> Reply {
    exchange(farm(), &Request::new("GET", target))
}

fn insert(body: &Value) -> Reply {
    exchange(farm(), &json("POST", ANIMALS, body)).expect(200)
}

#[test]
fn inserted_animal_has_the_fields_of_client_and_server() {
    let reply =
        insert(&json!({"name": "Dolly", "legs": 4, "tags": ["sheep"], "id": "mine", "size": "9"}));
    let id = farm::id(&reply);
    assert_ne!(id, "mine");
    assert_eq!(reply.field("kind"), "farm#animal");
    assert_eq!(reply.field("name"), "Dolly");
    assert_eq!(reply.field("legs"), 4);
    assert_eq!(reply.field("tags"), json!(["sheep"]));
    assert_eq!(reply.field("size"), Value::Null);
    assert_eq!(
        reply.field("selfLink"),
        format!("http://farm.localhost{}", farm::animal(&id))
    );
    assert_eq!(reply.field("createdTime"), reply.field("updatedTime"));
    assert_eq!(reply.header("etag"), reply.field("etag").as_str());
    assert_eq!(get(&farm::animal(&id)).expect(200).json(), reply.json());
}

#[test]
fn an_update_replaces_and_a_patch_merges() {
    let id = farm::id(&insert(
        &json!({"name": "Dolly", "species": "sheep", "tags": ["a"]}),
    ));
    let target = farm::animal(&id);
    let patched = exchange(
        farm(),
        &json("PATCH", &target, &json!({"name": "Molly", "tags": null})),
    )
    .expect(200);
    assert_eq!(patched.field("name"), "Molly");
    assert_eq!(patched.field("species"), "sheep");
    assert_eq!(patched.field("tags"), Value::Null);
    let updated = exchange(farm(), &json("PUT", &target, &json!({"name": "Polly"}))).expect(200);
    assert_eq!(updated.field("name"), "Polly");
    assert_eq!(updated.field("species"), Value::Null);
    assert_eq!(get(&target).json(), updated.json());
}

#[test]
fn a_patch_leaves_no_nulls_in_an_object_that_it_brings() {
    let id = farm::id(&insert(&json!({"name": "Dolly"})));
    let patch = json!({"home": {"farm": "Roslin", "pen": null}});
    let patched = exchange(farm(), &json("PATCH", &farm::animal(&id), &patch)).expect(200);
    assert_eq!(patched.field("home"), json!({"farm": "Roslin"}));
}

#[test]
fn a_page_of_large_animals_ends_before_it_has_all_that_were_asked_for() {
    let server = own(&[]);
    let large = "x".repeat(900_000);
    for number in 0..6 {
        let animal = json!({"name": number.to_string(), "species": large});
        exchange(server.address(), &json("POST", ANIMALS, &animal)).expect(200);
    }
    let page = |token: &Value| {
        let token = token.as_str().unwrap_or_default();
        let target = format!("{ANIMALS}?maxResults=1000&pageToken={token}");
        exchange(server.address(), &Request::new("GET", target)).expect(200)
    };
    let names = |reply: &Reply| -> Vec<Value> {
        let items = reply.field("items");
        let items = items.as_array().expect("a list of items");
        items.iter().map(|item| item["name"].clone()).collect()
    };
    let first = page(&Value::Null);
    let second = page(&first.field("nextPageToken"));
    assert_eq!(names(&first), ["0", "1", "2", "3"]);
    assert_eq!(names(&second), ["4", "5"]);
    assert_eq!(second.field("nextPageToken"), Value::Null);
}

#[test]
fn a_change_of_the_metadata_keeps_the_media() {
    let media = Media::new(26, 100_000);
    let id = farm::id(&farm::upload(farm(), media));
    let reply = exchange(
        farm(),
        &json("PUT", &farm::animal(&id), &json!({"name": "Dolly"})),
    )
    .expect(200);
    assert_eq!(reply.field("name"), "Dolly");
    farm::assert_media(farm(), &reply, media);
}

#[test]
fn a_deleted_animal_is_gone_with_its_media() {
    let id = farm::id(&farm::upload(farm(), Media::new(27, 100_000)));
    let delete = Request::new("DELETE", farm::animal(&id));
    assert!(exchange(farm(), &delete).expect(204).body.is_empty());
    for request in [
        Request::new("GET", farm::animal(&id)),
        farm::download(&id),
        delete,
    ] {
        assert_error(&exchange(farm(), &request), 404, "notFound", None);
    }
}

#[test]
fn a_change_counts_only_on_the_version_that_the_client_has_seen() {
    let reply = insert(&json!({"name": "Dolly"}));
    let (target, etag) = (
        farm::animal(&farm::id(&reply)),
        reply.header("etag").unwrap(),
    );
    let put = |name: &str| json("PUT", &target, &json!({"name": name})).header("If-Match", etag);
    let updated = exchange(farm(), &put("Molly")).expect(200);
    assert_ne!(updated.header("etag"), Some(etag));
    assert_error(
        &exchange(farm(), &put("Polly")),
        412,
        "conditionNotMet",
        None,
    );
    assert_eq!(get(&target).field("name"), "Molly");
    let unchanged =
        Request::new("GET", &target).header("If-None-Match", updated.header("etag").unwrap());
    exchange(farm(), &unchanged).expect(304);
}

#[test]
fn a_list_shows_every_animal_once_page_by_page() {
    let server = own(&[]);
    let list = |query: &str| {
        exchange(
            server.address(),
            &Request::new("GET", format!("{ANIMALS}?{query}")),
        )
        .expect(200)
    };
    assert_eq!(list("").field("nextPageToken"), Value::Null);
    for number in 0..7 {
        let animal = json("POST", ANIMALS, &json!({"name": number.to_string()}));
        exchange(server.address(), &animal).expect(200);
    }
    for size in [1, 3, 6, 7, 8] {
        let mut names = BTreeSet::new();
        let mut query = format!("maxResults={size}");
        loop {
            let page = list(&query);
            let animals = page.field("items");
            let animals = animals.as_array().expect("an array of animals");
            assert!(animals.len() <= size);
            for animal in animals {
                assert!(names.insert(animal["name"].as_str().expect("a name").to_owned()));
            }
            let Value::String(token) = page.field("nextPageToken") else {
                break;
            };
            query = format!("maxResults={size}&pageToken={token}");
        }
        assert_eq!(names.len(), 7, "{size}");
    }
}

#[test]
fn malformed_parameters_of_a_list_are_refused() {
    let table = [
        ("maxResults=0", "maxResults"),
        ("maxResults=-1", "maxResults"),
        ("maxResults=many", "maxResults"),
        ("pageToken=!!", "pageToken"),
        ("pageToken=_w", "pageToken"),
    ];
    for (query, parameter) in table {
        let reply = get(&format!("{ANIMALS}?{query}"));
        assert_error(&reply, 400, "invalidParameter", Some(parameter));
    }
}

#[test]
fn metadata_that_is_no_json_object_is_a_parse_error() {
    for body in ["{", "[]", "\"Dolly\"", "3"] {
        let request = Request::new("POST", ANIMALS)
            .header("Content-Type", "application/json")
            .body(body);
        assert_error(&exchange(farm(), &request), 400, "parseError", None);
    }
}

#[test]
fn an_animal_that_does_not_exist_is_answered_404() {
    let target = farm::animal("nobody");
    for verb in ["GET", "PUT", "PATCH", "DELETE"] {
        let reply = exchange(farm(), &json(verb, &target, &json!({})));
        assert_error(&reply, 404, "notFound", None);
    }
}

#[test]
fn a_verb_that_a_path_does_not_take_is_answered_405_with_those_it_takes() {
    let reply = exchange(farm(), &json("DELETE", ANIMALS, &json!({})));
    assert_error(&reply, 405, "methodNotAllowed", None);
    let allow = reply
        .header("allow")
        .expect("a reply with 405 says what is allowed");
    assert!(allow.contains("GET") && allow.contains("POST"), "{allow}");
}
