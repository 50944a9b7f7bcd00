//! The parameters that every method has (docs/protocol.md, 2.2 and 4.26).

use serde_json::json;
use windlass_testkit::error_object::assert_error;
use windlass_testkit::farm::{self, ANIMALS, UPLOADS};
use windlass_testkit::media::Media;
use windlass_testkit::raw::{Reply, Request, exchange};
use windlass_testkit::session::Session;

use crate::server::{farm, own};

fn get(id: &str, query: &str) -> Reply {
    exchange(
        farm(),
        &Request::new("GET", format!("{}?{query}", farm::animal(id))),
    )
}

fn llama() -> String {
    let metadata = r#"{"name":"Llama","species":"llama","tags":["wool","spit"]}"#;
    let insert = Request::new("POST", farm::ANIMALS).header("Content-Type", "application/json");
    farm::id(&exchange(farm(), &insert.body(metadata)).expect(200))
}

#[test]
fn alt_may_be_json_or_nothing() {
    let id = llama();
    for query in ["alt=json", "alt=", ""] {
        assert_eq!(get(&id, query).expect(200).field("name"), "Llama");
    }
}

#[test]
fn an_unknown_alt_is_refused() {
    let id = llama();
    for alt in ["xml", "proto", "JSON"] {
        assert_error(
            &get(&id, &format!("alt={alt}")),
            400,
            "invalidAltValue",
            Some("alt"),
        );
    }
    for upload in ["media", "resumable"] {
        let request =
            Request::new("POST", format!("{UPLOADS}?uploadType={upload}&alt=xml")).body("");
        assert_error(
            &exchange(farm(), &request),
            400,
            "invalidAltValue",
            Some("alt"),
        );
    }
}

#[test]
fn alt_media_on_a_method_without_media_is_refused() {
    let request = Request::new("GET", format!("{}?alt=media", farm::ANIMALS));
    assert_error(
        &exchange(farm(), &request),
        400,
        "invalidAltValue",
        Some("alt"),
    );
}

#[test]
fn fields_select_parts_of_the_reply() {
    let id = llama();
    let table = [
        ("name", json!({"name": "Llama"})),
        ("species,name", json!({"name": "Llama", "species": "llama"})),
        ("tags,legs", json!({"tags": ["wool", "spit"]})),
        ("legs", json!({})),
    ];
    for (fields, expected) in table {
        assert_eq!(
            get(&id, &format!("fields={fields}")).expect(200).json(),
            expected,
            "{fields}"
        );
    }
    assert_eq!(get(&id, "fields=*").expect(200).json(), get(&id, "").json());
}

#[test]
fn fields_reach_into_lists() {
    llama();
    let list = |fields: &str| {
        let target = format!("{}?maxResults=1&fields={fields}", farm::ANIMALS);
        exchange(farm(), &Request::new("GET", target))
            .expect(200)
            .json()
    };
    for fields in [
        "kind,items(id,kind)",
        "kind,items/id,items/kind",
        "kind%2Citems%28id%2Ckind%29",
    ] {
        let reply = list(fields);
        let item = &reply["items"][0];
        assert_eq!(reply.as_object().unwrap().len(), 2, "{reply}");
        assert_eq!(item.as_object().unwrap().len(), 2, "{reply}");
        assert_eq!(item["kind"], "farm#animal");
    }
}

#[test]
fn malformed_fields_are_refused() {
    let id = llama();
    for fields in ["name(", "name)", ",", "name,,id", "a/", "(a)", "a(b"] {
        assert_error(
            &get(&id, &format!("fields={fields}")),
            400,
            "invalidParameter",
            Some("fields"),
        );
    }
}

#[test]
fn malformed_fields_are_refused_before_the_media_is_taken() {
    for upload in ["media", "resumable"] {
        let request = Request::new(
            "POST",
            format!("{UPLOADS}?uploadType={upload}&fields=name("),
        )
        .body("");
        assert_error(
            &exchange(farm(), &request),
            400,
            "invalidParameter",
            Some("fields"),
        );
    }
}

#[test]
fn fields_that_the_reply_cannot_have_are_refused() {
    let id = llama();
    let refused = |target: String, name: &str| {
        let reply = exchange(farm(), &Request::new("GET", target));
        assert_error(&reply, 400, "invalidParameter", Some("fields"));
        let message = &reply.json()["error"]["message"];
        assert_eq!(*message, format!("Invalid field selection {name}"));
    };
    for (fields, name) in [("name/first", "first"), ("name,tags/nosuch", "nosuch")] {
        refused(format!("{}?fields={fields}", farm::animal(&id)), name);
    }
    for (fields, name) in [
        ("nosuch", "nosuch"),
        ("id", "id"),
        ("pageToken,items(name)", "pageToken"),
        ("nextpagetoken", "nextpagetoken"),
        ("items/name/first", "first"),
        ("items(id,name(*))", "*"),
    ] {
        refused(format!("{ANIMALS}?fields={fields}"), name);
    }
    // An animal may have any fields.
    assert_eq!(get(&id, "fields=wings").expect(200).json(), json!({}));
}

#[test]
fn unknown_fields_are_refused_before_anything_changes() {
    let server = own(&[]);
    let target = |kind: &str| format!("{UPLOADS}?uploadType={kind}&fields=name/first");
    let parts = "--b\r\nContent-Type: application/json\r\n\r\n{}\r\n\
                 --b\r\nContent-Type: image/png\r\n\r\nabc\r\n--b--";
    let png = |kind| Request::new("POST", target(kind)).header("Content-Type", "image/png");
    let requests = [
        png("media").body("abc"),
        Request::new("POST", target("multipart"))
            .header("Content-Type", "multipart/related; boundary=b")
            .body(parts),
        Request::new("POST", target("resumable")).body(farm::named("a")),
        Request::new("POST", format!("{ANIMALS}?fields=name/first"))
            .header("Content-Type", "application/json")
            .body(farm::named("a")),
    ];
    for request in requests {
        let reply = exchange(server.address(), &request);
        assert_error(&reply, 400, "invalidParameter", Some("fields"));
    }
    let all = exchange(server.address(), &Request::new("GET", ANIMALS)).expect(200);
    assert_eq!(all.json()["items"].as_array().map_or(0, Vec::len), 0);
}

#[test]
fn upload_never_ends_with_an_empty_object() {
    let target = |kind: &str| format!("{UPLOADS}?uploadType={kind}&fields=legs");
    let simple = Request::new("POST", target("media")).header("Content-Type", "image/png");
    let reply = exchange(farm(), &simple.body("abc")).expect(200);
    assert_eq!(reply.field("size"), "3");
    let start = Request::new("POST", target("resumable")).body(farm::named("Llama"));
    let session = Session::start(farm(), &start);
    let reply = session.put("bytes 0-2/3", "abc").expect(201);
    assert_eq!(reply.field("name"), "Llama");
    assert_eq!(session.query().body, reply.body);
}

#[test]
fn json_is_indented_unless_the_client_says_otherwise() {
    let id = llama();
    for query in ["", "prettyPrint=true", "prettyPrint="] {
        assert!(
            get(&id, query).text().contains("\n  \"name\": \"Llama\""),
            "{query}"
        );
    }
    for query in ["prettyPrint=false", "alt=json&prettyPrint=false&key=k"] {
        assert!(
            get(&id, query).text().contains("\"name\":\"Llama\""),
            "{query}"
        );
        assert!(!get(&id, query).text().contains('\n'), "{query}");
    }
}

#[test]
fn parameters_of_the_start_shape_the_final_reply() {
    let start = Request::new(
        "POST",
        format!("{UPLOADS}?uploadType=resumable&fields=size,name&prettyPrint=false"),
    );
    let session = Session::start(farm(), &start.body(farm::named("Llama")));
    let reply = session.put("bytes 0-2/3", "abc").expect(201);
    assert_eq!(reply.json(), json!({"size": "3", "name": "Llama"}));
    assert!(!reply.text().contains('\n'), "{}", reply.text());
    assert_eq!(session.query().body, reply.body);
}

#[test]
fn parameters_shape_the_reply_to_simple_uploads() {
    let target = format!("{UPLOADS}?uploadType=media&fields=size&prettyPrint=false");
    let request = Request::new("POST", target).header("Content-Type", "image/png");
    assert_eq!(
        exchange(farm(), &request.body("abc")).expect(200).text(),
        r#"{"size":"3"}"#
    );
}

#[test]
fn unknown_parameters_are_tolerated_everywhere() {
    let unknown = "key=k&oauth_token=t&access_token=a&quotaUser=q&userIp=1.2.3.4&userProject=p\
                   &$.xgafv=2&name=n&ifGenerationMatch=0&colour=red&colour=blue&&=&novalue&%zz=%";
    get(&llama(), unknown).expect(200);
    let media = Media::new(15, 100);
    let simple = Request::new("POST", format!("{UPLOADS}?{unknown}&uploadType=media"));
    let reply = exchange(
        farm(),
        &simple
            .header("Content-Type", "image/png")
            .body(media.whole()),
    );
    farm::assert_media(farm(), &reply.expect(200), media);
    let start = Request::new("POST", format!("{UPLOADS}?{unknown}&uploadType=resumable")).body("");
    let session = Session::start(farm(), &start);
    farm::assert_media(farm(), &session.append(media, 0..100).expect(201), media);
}

#[test]
fn repeated_http_method_is_that_of_the_request() {
    get(&llama(), "$httpMethod=GET").expect(200);
    let reply = get(&llama(), "$httpMethod=DELETE");
    assert_error(&reply, 400, "invalidParameter", Some("$httpMethod"));
}

#[test]
fn system_parameters_without_an_effect_are_refused() {
    for (query, parameter) in [
        ("callback=c", "callback"),
        ("$callback=c", "$callback"),
        ("$fields=name", "$fields"),
        ("$key=k", "$key"),
        ("$alt=proto", "$alt"),
    ] {
        let reply = get(&llama(), query);
        assert_error(&reply, 501, "notImplemented", Some(parameter));
    }
    get(&llama(), "callback=&$alt=json;enum-encoding=int").expect(200);
}

#[test]
fn parameters_that_are_not_utf_8_are_refused() {
    let table = [
        ("uploadType=media&name=caf%E9", "name"),
        ("uploadType=media&name=caf%E8", "name"),
        ("uploadType=resumable&caf%C3%A9=%ff", "caf\u{e9}"),
        ("uploadType=%ff", "uploadType"),
        ("upload_id=%ff", "upload_id"),
    ];
    for (query, name) in table {
        let request = Request::new("POST", format!("{UPLOADS}?{query}"));
        let reply = exchange(farm(), &request.body("abc"));
        assert_error(&reply, 400, "invalidParameter", Some(name));
    }
}

#[test]
fn paths_that_are_not_utf_8_are_refused() {
    for path in [
        format!("{ANIMALS}/caf%E9"),
        format!("{ANIMALS}/caf%E9?alt=media"),
        format!("{UPLOADS}/caf%E9?uploadType=media"),
        "/%ff".to_owned(),
    ] {
        for verb in ["GET", "PUT"] {
            let request = Request::new(verb, &path).body("abc");
            assert_error(&exchange(farm(), &request), 400, "badRequest", None);
        }
    }
}
