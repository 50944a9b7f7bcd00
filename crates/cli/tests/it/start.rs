//! Starts of resumable uploads (docs/protocol.md, 2.7).

use std::collections::HashSet;

use windlass_testkit::encodings::{chunked, gzip};
use windlass_testkit::error_object::assert_error;
use windlass_testkit::farm::{self, UPLOADS};
use windlass_testkit::media::Media;
use windlass_testkit::raw::{Reply, Request, exchange};
use windlass_testkit::session::Session;

use crate::server::{farm, pond, with_configuration};

const TARGET: &str = "/upload/farm/v1/animals?uploadType=resumable";

fn post() -> Request {
    Request::new("POST", TARGET)
}

/// The reply to the end of an upload that the start began.
#[track_caller]
fn finish(start: &Request, body: &str) -> Reply {
    let session = Session::start(farm(), start);
    session
        .exchange(&session.request("PUT").body(body))
        .expect(201)
}

#[test]
fn a_start_is_answered_as_every_client_library_needs_it() {
    let reply = exchange(farm(), &farm::start(r#"{"name":"Llama"}"#)).expect(200);
    assert_eq!(reply.reason, "OK");
    assert_eq!(reply.header("content-length"), Some("0"));
    let cache_control = Some("no-cache, no-store, max-age=0, must-revalidate");
    assert_eq!(reply.header("cache-control"), cache_control);
    assert_eq!(reply.header("pragma"), Some("no-cache"));
    assert_eq!(
        reply.header("expires"),
        Some("Mon, 01 Jan 1990 00:00:00 GMT")
    );
    assert_eq!(reply.header("retry-after"), None);
    assert!(reply.body.is_empty());
}

#[test]
fn the_session_uri_is_absolute_and_carries_the_upload_id() {
    let reply = exchange(farm(), &farm::start("")).expect(200);
    let location = reply.header("location").unwrap();
    let prefix = format!("http://farm.localhost{TARGET}&upload_id=");
    let upload_id = location
        .strip_prefix(&prefix)
        .unwrap_or_else(|| panic!("{location}"));
    assert_eq!(reply.header("x-guploader-uploadid"), Some(upload_id));
    assert!(location.len() < 2048);
    assert!(
        upload_id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte))
    );
}

#[test]
fn an_upload_id_is_long_and_never_given_twice() {
    let start = farm::start("");
    let mut ids = HashSet::new();
    for _ in 0..20 {
        let session = Session::start(farm(), &start);
        // 192 bits are 32 characters of base64.
        assert!(session.upload_id().len() >= 32, "{}", session.upload_id());
        assert!(ids.insert(session.upload_id().to_owned()));
    }
}

#[test]
fn a_host_without_its_port_yields_a_session_uri_that_reaches_the_server() {
    let address = farm();
    let start = post().header("Host", "127.0.0.1").body("");
    let reply = exchange(address, &start).expect(200);
    let location = reply.header("location").unwrap();
    assert!(
        location.starts_with(&format!("http://{address}/upload/")),
        "{location}"
    );
}

#[test]
fn a_start_needs_no_metadata_and_no_content_type_and_no_length_of_the_media() {
    let starts = [
        post(),
        post().body(""),
        post()
            .header("Transfer-Encoding", "chunked")
            .raw_body(chunked([])),
        post().header("Content-Type", "application/json").body(""),
        post()
            .header("Content-Type", "application/json; charset=UTF-8")
            .body("{}"),
        post()
            .header("Content-Type", "application/json")
            .body("null"),
        post().header("Content-Type", "").body("{}"),
        post()
            .header("X-Upload-Content-Length", "")
            .header("X-Upload-Content-Type", "")
            .body(""),
        post().header("X-Upload-Content-Length", "0").body(""),
    ];
    for start in starts {
        assert_eq!(finish(&start, "abc").field("size"), "3", "{start:?}");
    }
}

#[test]
fn metadata_of_the_start_is_in_the_final_resource() {
    let json = r#"{"name":"Llama","legs":4,"tags":["wool"]}"#;
    let pieces = chunked(json.as_bytes().chunks(3));
    let starts = [
        farm::start(json),
        post().body(json),
        post().header("Content-Type", "text/plain").body(json),
        post()
            .header("Transfer-Encoding", "chunked")
            .raw_body(pieces),
        post()
            .header("Content-Encoding", "gzip")
            .body(gzip(json.as_bytes())),
    ];
    for start in starts {
        let reply = finish(&start, "abc");
        assert_eq!(reply.field("name"), "Llama", "{start:?}");
        assert_eq!(reply.field("legs"), 4, "{start:?}");
        assert_eq!(
            reply.field("tags"),
            serde_json::json!(["wool"]),
            "{start:?}"
        );
    }
}

#[test]
fn metadata_that_is_no_json_object_is_a_parse_error() {
    let bodies: [&[u8]; 8] = [
        b"{",
        b"{]",
        b"Llama",
        b"[]",
        b"\"Llama\"",
        b"17",
        b"{\"name\":\"\xff\"}",
        b"{}{}",
    ];
    for body in bodies {
        let start = post().header("Content-Type", "application/json").body(body);
        assert_error(&exchange(farm(), &start), 400, "parseError", None);
    }
}

#[test]
fn a_field_of_another_type_than_the_schema_says_is_refused() {
    let reply = exchange(farm(), &farm::start(r#"{"tags":"wool"}"#));
    assert_error(&reply, 400, "invalid", None);
}

#[test]
fn media_type_comes_from_the_start_or_its_metadata_never_from_a_chunk() {
    let typed = |content_type: &str| post().header("X-Upload-Content-Type", content_type);
    let table = [
        (typed("video/mp4").body(""), "video/mp4"),
        (
            typed("video/mp4").body(r#"{"mimeType":"image/gif"}"#),
            "video/mp4",
        ),
        (post().body(r#"{"mimeType":"image/gif"}"#), "image/gif"),
        (post().body(""), "application/octet-stream"),
    ];
    for (start, expected) in table {
        let session = Session::start(farm(), &start);
        let chunk = session
            .request("PUT")
            .header("Content-Type", "image/webp")
            .body("abc");
        assert_eq!(
            session.exchange(&chunk).expect(201).field("mimeType"),
            expected
        );
    }
}

#[test]
fn a_type_that_the_method_does_not_accept_is_refused_at_the_start() {
    let typed = post().header("X-Upload-Content-Type", "font/ttf").body("");
    let by_metadata = post().body(r#"{"mimeType":"font/ttf"}"#);
    for start in [typed, by_metadata] {
        assert_error(
            &exchange(farm(), &start),
            400,
            "badRequest",
            Some("Content-Type"),
        );
    }
    // Without a type it is an octet-stream, which is no image.
    let untyped = Request::new("POST", "/upload/pond/v2/frogs?uploadType=resumable").body("");
    assert_error(
        &exchange(pond(), &untyped),
        400,
        "badRequest",
        Some("Content-Type"),
    );
}

#[test]
fn media_length_that_is_not_a_number_is_refused() {
    for length in ["-1", "1e3", "12 34", "0x10", "18446744073709551616", "many"] {
        let start = post().header("X-Upload-Content-Length", length).body("");
        let location = Some("X-Upload-Content-Length");
        assert_error(&exchange(farm(), &start), 400, "invalid", location);
    }
}

#[test]
fn a_start_by_post_ends_with_201_and_by_put_or_patch_with_200() {
    let animal = farm::id(&farm::upload(farm(), Media::new(0, 3)));
    let target = format!("/upload{}?uploadType=resumable", farm::animal(&animal));
    let overridden =
        |verb: &str| Request::new("POST", &target).header("X-HTTP-Method-Override", verb);
    let table = [
        (post(), 201),
        (Request::new("PUT", &target), 200),
        (Request::new("PATCH", &target), 200),
        (overridden("PATCH"), 200),
        (overridden("put"), 200),
    ];
    for (start, status) in table {
        let session = Session::start(farm(), &start.body(""));
        let reply = session.put("bytes 0-3/4", "moo!").expect(status);
        assert_eq!(reply.field("size"), "4");
        assert_eq!(reply.field("id") == animal.as_str(), status == 200);
    }
}

#[test]
fn an_api_may_say_that_creating_is_answered_200() {
    let start = Request::new("POST", "/upload/pond/v2/frogs?uploadType=resumable")
        .header("X-Upload-Content-Type", "image/png")
        .body("");
    let session = Session::start(pond(), &start);
    assert_eq!(
        session.put("bytes 0-2/3", "abc").expect(200).field("size"),
        "3"
    );
}

#[test]
fn configuration_says_with_which_status_an_api_answers() {
    let server = with_configuration("created_status = [\"farm=200\"]\n");
    let session = farm::begin(server.address(), "configured");
    session.put("bytes 0-2/3", "abc").expect(200);
}

#[test]
fn nothing_is_visible_before_the_last_byte() {
    let name = "visible-at-the-end";
    let media = Media::new(6, 300_000);
    let session = farm::begin(farm(), name);
    assert_eq!(farm::count(farm(), name), 0);
    session.append(media, 0..262_144).expect(308);
    assert_eq!(farm::count(farm(), name), 0);
    session.append(media, 262_144..300_000).expect(201);
    assert_eq!(farm::count(farm(), name), 1);
}

#[test]
fn an_update_of_a_resource_that_does_not_exist_is_refused_at_the_start() {
    for verb in ["PUT", "PATCH"] {
        let start = Request::new(verb, format!("{UPLOADS}/nobody?uploadType=resumable")).body("");
        assert_error(&exchange(farm(), &start), 404, "notFound", None);
    }
}

#[test]
fn data_sent_to_the_upload_uri_instead_of_the_session_uri_is_refused() {
    let ranged = post().header("Content-Range", "bytes 0-2/3");
    let data = ranged
        .clone()
        .header("Content-Type", "image/png")
        .body("abc");
    assert_error(
        &exchange(farm(), &data),
        400,
        "badRequest",
        Some("Content-Range"),
    );
    let metadata = ranged
        .clone()
        .header("Content-Type", "application/json")
        .body("{}");
    for harmless in [ranged.body(""), metadata] {
        exchange(farm(), &harmless).expect(200);
    }
}
