//! Parameters in the body of a POST that stands for another method (docs/protocol.md, 2.2).

use serde_json::json;
use tempfile::TempDir;
use windlass_testkit::encodings::gzip;
use windlass_testkit::error_object::assert_error;
use windlass_testkit::farm::{self, ANIMALS};
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{Request, exchange};
use windlass_testkit::session::target_of;

use crate::authentication::{TOKEN, bearing, guarded};
use crate::batch::batch;
use crate::credentials::{LINK_SECRET, link, now};
use crate::server::{farm, own, scratch};

const MEDIA: Media = Media::new(81, 1000);

const FORM: &str = "application/x-www-form-urlencoded";

/// A POST that stands for another method, with a form.
fn overridden(standing_for: &str, target: impl Into<String>, form: &str) -> Request {
    Request::new("POST", target)
        .header("X-HTTP-Method-Override", standing_for)
        .header("Content-Type", FORM)
        .body(form)
}

/// A server with this file of credentials.
fn with_credentials(lines: &str) -> (TempDir, ServerProcess) {
    let directory = TempDir::new_in(scratch()).expect("it is writable");
    std::fs::write(directory.path().join("auth.toml"), lines).expect("it is writable");
    let config = directory.path().join("windlass.toml");
    std::fs::write(&config, "[auth]\nfile = 'auth.toml'\n").expect("it is writable");
    let server = own(&["--config", config.to_str().expect("it is UTF-8")]);
    (directory, server)
}

#[test]
fn form_of_an_overridden_get_is_its_query() {
    let id = farm::id(&farm::upload(farm(), MEDIA));
    let get = |target: &str, form: &str| exchange(farm(), &overridden("GET", target, form));
    let animal = farm::animal(&id);
    let one = json!({"id": id});
    assert_eq!(get(&animal, "fields=id").expect(200).json(), one);
    assert_eq!(get(&format!("{animal}?fields=id"), "alt=json").json(), one);
    assert_eq!(get(&format!("{animal}?fields=id"), "").json(), one);
    let page = get(ANIMALS, "maxResults=1&fields=items%2Fid").expect(200);
    let items = page.json()["items"].as_array().map(Vec::len);
    assert_eq!(items, Some(1));
    assert!(get(&animal, "alt=media").expect(200).body == MEDIA.whole());
    let range = overridden("GET", &animal, "alt=media").header("Range", "bytes=1-9");
    assert!(exchange(farm(), &range).expect(206).body == MEDIA.bytes(1..10));
    assert_error(
        &get(&animal, "alt=xml"),
        400,
        "invalidAltValue",
        Some("alt"),
    );
    // Of several values the first one counts, as in a query.
    assert_eq!(
        get(&format!("{animal}?fields=id"), "fields=name").json(),
        one
    );
}

#[test]
fn form_of_an_overridden_head_is_its_query() {
    let animal = farm::animal(&farm::id(&farm::upload(farm(), MEDIA)));
    let head = |form: &str| exchange(farm(), &overridden("HEAD", &animal, form));
    let media = head("alt=media").expect(200);
    assert_eq!(media.header("content-type"), Some("image/png"));
    assert!(media.body.is_empty(), "a HEAD has no body");
    head("alt=xml").expect(400);
}

#[test]
fn form_in_gzip_is_read() {
    let animal = farm::animal(&farm::id(&farm::upload(farm(), MEDIA)));
    let form = gzip(b"fields=size");
    let request = Request::new("POST", animal)
        .header("X-HTTP-Method-Override", "GET")
        .header("Content-Type", FORM)
        .header("Content-Encoding", "gzip")
        .body(form);
    let reply = exchange(farm(), &request).expect(200);
    assert_eq!(reply.json(), json!({"size": MEDIA.len().to_string()}));
}

#[test]
fn calls_of_a_batch_may_have_forms() {
    let id = farm::id(&farm::upload(farm(), MEDIA));
    let call = |content_type: &str| {
        format!(
            "POST {} HTTP/1.1\r\nX-HTTP-Method-Override: GET\r\n\
             Content-Type: {content_type}\r\n\r\nfields=id",
            farm::animal(&id)
        )
    };
    let reply = exchange(farm(), &batch(&[call(FORM), call("text/plain")])).expect(200);
    let text = reply.text();
    assert!(
        text.contains(&format!("{{\n  \"id\": \"{id}\"\n}}")),
        "{text}"
    );
    assert!(text.contains("HTTP/1.1 400 Bad Request"), "{text}");
}

#[test]
fn other_body_of_an_overridden_read_is_refused() {
    let animal = farm::animal(&farm::id(&farm::upload(farm(), MEDIA)));
    let charset = format!("{FORM}; charset=utf-16");
    for standing_for in ["GET", "HEAD", "DELETE"] {
        for content_type in ["application/json", "text/plain", &charset] {
            let request = Request::new("POST", &animal)
                .header("X-HTTP-Method-Override", standing_for)
                .header("Content-Type", content_type);
            let reply = exchange(farm(), &request.body("fields=id"));
            assert_error(&reply, 400, "badRequest", Some("Content-Type"));
        }
    }
    exchange(farm(), &Request::new("GET", &animal)).expect(200);
}

#[test]
fn form_decides_about_access_as_a_query_does() {
    let server = guarded();
    let list = overridden("GET", ANIMALS, "access_token=x");
    exchange(server.address(), &list).expect(400);
    exchange(server.address(), &overridden("GET", ANIMALS, "")).expect(401);
    exchange(server.address(), &bearing(&list, TOKEN)).expect(400);

    // The SHA-256 of "key".
    let keys = "[[keys]]\nprincipal = 'k'\nsha256 = \
                '2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683'\n";
    let (_directory, server) = with_credentials(keys);
    let list = |form| exchange(server.address(), &overridden("GET", ANIMALS, form));
    list("key=key").expect(200);
    list("key=other").expect(401);
    list("").expect(401);
    let form = Request::new("POST", ANIMALS).header("Content-Type", FORM);
    exchange(server.address(), &form.body("key=key")).expect(401);
}

#[test]
fn session_is_named_by_a_form_as_by_a_query() {
    let server = guarded();
    let start = bearing(&farm::start("").body(""), TOKEN);
    let started = exchange(server.address(), &start).expect(200);
    let target = target_of(&started).expect("a session URI");
    let (path, query) = target.split_once('?').expect("it has a query");
    let cancel = overridden("DELETE", path, query);
    assert_eq!(exchange(server.address(), &cancel).status, 499);
    let unnamed = overridden("DELETE", path, "uploadType=resumable");
    exchange(server.address(), &unnamed).expect(401);
}

#[test]
fn signed_link_may_be_in_a_form() {
    let lines = format!(
        "[[links.keys]]\nid = 'k'\nsecret = '{LINK_SECRET}'\n\
         [[allow]]\nanonymous = true\nmethods = ['farm.animals.insert']\n"
    );
    let (_directory, server) = with_credentials(&lines);
    let animal = farm::animal(&farm::id(&farm::upload(server.address(), MEDIA)));
    let signed = link("GET", &animal, now() + 600);
    let get = |form: &str| exchange(server.address(), &overridden("GET", &animal, form));
    let form = format!("alt=media&X-Windlass-Link={signed}");
    assert!(get(&form).expect(200).body == MEDIA.whole());
    get(&format!("{form}&{form}")).expect(403);
    get("alt=media").expect(401);
}

#[test]
fn form_longer_than_a_head_is_refused() {
    let form = |len: usize| overridden("GET", ANIMALS, &"a".repeat(len));
    exchange(farm(), &form(32 * 1024)).expect(200);
    let reply = exchange(farm(), &form(32 * 1024 + 1));
    assert_error(&reply, 413, "uploadTooLarge", None);
    let many = "a&".repeat(1001);
    let reply = exchange(farm(), &overridden("GET", ANIMALS, &many));
    assert_error(&reply, 400, "badRequest", None);
}
