//! The meaning of paths and verbs (docs/protocol.md, 2.1, 4.17, 4.24 and 4.27).

use tempfile::TempDir;
use windlass_testkit::error_object::assert_error;
use windlass_testkit::farm::{self, ANIMALS, UPLOADS};
use windlass_testkit::media::Media;
use windlass_testkit::raw::{Request, exchange};
use windlass_testkit::session::Session;

use crate::server::{farm, own, pond, scratch};

#[test]
fn resumable_upload_paths_are_upload_paths() {
    let target = format!("/resumable{UPLOADS}");
    let simple = Request::new("POST", format!("{target}?uploadType=media"));
    exchange(
        farm(),
        &simple.header("Content-Type", "image/png").body("abc"),
    )
    .expect(200);
    let start = Request::new("POST", format!("{target}?uploadType=resumable")).body("");
    let session = Session::start(farm(), &start);
    assert!(
        session.target().starts_with("/resumable/upload/"),
        "{}",
        session.target()
    );
    session.put("bytes 0-2/3", "abc").expect(201);
}

#[test]
fn request_with_an_upload_id_addresses_a_session() {
    let session = farm::begin(farm(), "addressed");
    let id = session.upload_id();
    let queries = [
        format!("upload_id={id}"),
        format!("uploadType=media&upload_id={id}"),
        format!("upload_id={id}&uploadType=multipart&alt=json&prettyPrint=false"),
        format!("uploadType=nonsense&upload_id={id}&key=k"),
    ];
    for query in queries {
        for base in [UPLOADS, "/resumable/upload/farm/v1/animals"] {
            let request = Request::new("PUT", format!("{base}?{query}"));
            let reply = exchange(
                farm(),
                &request.header("Content-Range", "bytes */*").body(""),
            );
            assert_eq!(reply.status, 308, "{base}?{query}");
        }
    }
}

#[test]
fn an_unknown_upload_id_is_answered_404() {
    let session = farm::begin(farm(), "addressed");
    let id = session.upload_id();
    let ids = [
        "",
        "x",
        "%00",
        "%C3%BF",
        "../../etc/passwd",
        &id[1..],
        &format!("{id}A"),
        &id.to_lowercase(),
    ];
    for id in ids {
        let request = Request::new(
            "PUT",
            format!("{UPLOADS}?uploadType=resumable&upload_id={id}"),
        );
        let reply = exchange(
            farm(),
            &request.header("Content-Range", "bytes */*").body(""),
        );
        assert_error(&reply, 404, "notFound", None);
    }
}

#[test]
fn a_session_is_found_only_under_the_path_it_was_started_with() {
    let animal = farm::id(&farm::upload(farm(), Media::new(0, 1)));
    let session = farm::begin(farm(), "addressed");
    let id = session.upload_id();
    for path in [
        &format!("{UPLOADS}/{animal}"),
        "/upload/farm/v1/animals/",
        "/upload/farm/v1/cows",
        "/upload",
    ] {
        let request = Request::new("PUT", format!("{path}?upload_id={id}"));
        let reply = exchange(
            farm(),
            &request.header("Content-Range", "bytes */*").body(""),
        );
        assert_error(&reply, 404, "notFound", None);
    }
    session.query().expect(308);
}

#[test]
fn a_session_takes_put_post_and_delete_and_answers_405_to_other_verbs() {
    let session = farm::begin(farm(), "addressed");
    for verb in ["GET", "HEAD", "PATCH", "TRACE", "BREW"] {
        let reply = session.exchange(&session.request(verb));
        assert_eq!(reply.status, 405, "{verb}");
        assert_eq!(reply.header("allow"), Some("PUT, POST, DELETE"), "{verb}");
        if verb != "HEAD" {
            assert_error(&reply, 405, "methodNotAllowed", None);
        }
    }
    session.query().expect(308);
}

#[test]
fn upload_path_answers_405_to_other_methods() {
    let animal = farm::id(&farm::upload(farm(), Media::new(0, 1)));
    for verb in ["GET", "DELETE", "BREW"] {
        for target in [UPLOADS.to_owned(), format!("{UPLOADS}/{animal}")] {
            let request = Request::new(verb, format!("{target}?uploadType=media"));
            assert_error(&exchange(farm(), &request), 405, "methodNotAllowed", None);
        }
    }
}

#[test]
fn media_sent_to_the_plain_path_is_refused_with_the_upload_path() {
    let animal = farm::id(&farm::upload(farm(), Media::new(0, 1)));
    for (verb, target) in [("POST", ANIMALS.to_owned()), ("PUT", farm::animal(&animal))] {
        for content_type in [
            "image/png",
            "application/octet-stream",
            "multipart/related; boundary=b",
        ] {
            let request = Request::new(verb, &target).header("Content-Type", content_type);
            let reply = exchange(farm(), &request.body("\x01\x02"));
            assert_error(&reply, 400, "wrongUrlForUpload", Some("Content-Type"));
        }
    }
}

#[test]
fn json_with_a_parameter_of_uploads_is_refused_at_the_plain_path() {
    let animal = farm::animal(&farm::id(&farm::upload(farm(), Media::new(0, 1))));
    let read = || exchange(farm(), &Request::new("GET", &animal)).expect(200);
    let before = read().body;
    let table = [
        ("uploadType", "media"),
        ("uploadType", "multipart"),
        ("uploadType", "resumable"),
        ("uploadType", ""),
        ("upload_protocol", "raw"),
        ("upload_id", "x"),
    ];
    for (name, value) in table {
        for (verb, target) in [("POST", ANIMALS), ("PUT", &animal)] {
            let request = Request::new(verb, format!("{target}?{name}={value}"));
            let request = request.header("Content-Type", "application/json");
            let reply = exchange(farm(), &request.body(r#"{"name": "changed"}"#));
            assert_error(&reply, 400, "wrongUrlForUpload", Some(name));
            assert!(reply.text().contains("/upload"), "{}", reply.text());
        }
    }
    assert_eq!(read().body, before);
}

#[test]
fn media_for_a_method_that_takes_none_is_refused() {
    let request = Request::new("POST", "/upload/pond/v2/notes?uploadType=media").body("abc");
    assert_error(&exchange(pond(), &request), 400, "notUpload", None);
}

#[test]
fn a_path_of_no_method_is_answered_404() {
    let paths = [
        "/",
        "/upload",
        "/upload/",
        "/upload//farm/v1/animals",
        "/upload/farm/v1/animals/",
        "/upload/farm/v1/animals/a/b",
        "/upload/farm/v2/animals",
        "/upload/upload/farm/v1/animals",
        "/uploads/farm/v1/animals",
        "/FARM/v1/animals",
    ];
    for path in paths {
        let request = Request::new("POST", format!("{path}?uploadType=media"));
        let reply = exchange(
            farm(),
            &request.header("Content-Type", "image/png").body("abc"),
        );
        assert_error(&reply, 404, "notFound", None);
    }
}

#[test]
fn an_id_may_be_percent_encoded() {
    let id = farm::id(&farm::upload(farm(), Media::new(0, 1)));
    let encoded: Vec<_> = id.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let target = farm::animal(&encoded.concat());
    let reply = exchange(farm(), &Request::new("GET", target)).expect(200);
    assert_eq!(farm::id(&reply), id);
}

#[test]
fn the_target_may_be_in_absolute_form() {
    let reply = farm::upload(farm(), Media::new(14, 1000));
    let target = format!("http://{}{}", farm(), farm::animal(&farm::id(&reply)));
    assert_eq!(
        exchange(farm(), &Request::new("GET", target))
            .expect(200)
            .field("id"),
        reply.field("id")
    );
    let start = Request::new(
        "POST",
        format!("http://barn.localhost{UPLOADS}?uploadType=resumable"),
    );
    let reply = exchange(farm(), &start.body("")).expect(200);
    let location = reply.header("location").unwrap();
    assert!(
        location.starts_with("http://barn.localhost/upload/"),
        "{location}"
    );
    let query = Request::new("PUT", location)
        .header("Content-Range", "bytes */*")
        .body("");
    exchange(farm(), &query).expect(308);
}

#[test]
fn only_post_may_override_its_method() {
    let animal = farm::id(&farm::upload(farm(), Media::new(0, 1)));
    let request = |verb, standing_for| {
        Request::new(verb, farm::animal(&animal))
            .header("X-HTTP-Method-Override", standing_for)
            .header("Content-Type", "application/json")
            .body(r#"{"name":"Dolly"}"#)
    };
    assert_eq!(
        exchange(farm(), &request("POST", "PATCH"))
            .expect(200)
            .field("name"),
        "Dolly"
    );
    let empty = |verb, standing_for| {
        let request = Request::new(verb, farm::animal(&animal));
        let request = request.header("X-HTTP-Method-Override", standing_for);
        exchange(farm(), &request.body(""))
    };
    assert_eq!(empty("POST", "GET").expect(200).field("name"), "Dolly");
    exchange(farm(), &request("GET", "DELETE")).expect(200);
    empty("POST", "DELETE").expect(204);
    empty("GET", "").expect(404);
}

#[test]
fn the_public_url_is_where_session_uris_and_links_point() {
    let server = own(&["--public-url", "https://up.example.com/"]);
    let reply = exchange(server.address(), &farm::start("")).expect(200);
    let location = reply.header("location").unwrap();
    assert!(
        location.starts_with("https://up.example.com/upload/"),
        "{location}"
    );
    let link = farm::upload(server.address(), Media::new(0, 1)).field("selfLink");
    assert!(
        link.as_str()
            .unwrap()
            .starts_with("https://up.example.com/farm/v1/animals/"),
        "{link}"
    );
}

#[test]
fn replies_are_kept_by_no_cache_and_taken_for_their_type_alone() {
    let missing = Request::new("GET", farm::animal("none"));
    let elsewhere = Request::new("GET", ANIMALS).header("Host", "evil.example");
    let page = Request::new("GET", "/").header("Accept", "text/html");
    let document = Request::new("GET", "/discovery/v1/apis/farm/v1/rest");
    let list = Request::new("GET", ANIMALS);
    let made = Request::new("POST", ANIMALS).body(farm::named("plain"));
    let made = made.header("Content-Type", "application/json");
    let upload = farm::simple(Media::new(15, 1000));
    let health = Request::new("GET", "/healthz");
    for request in [
        missing, elsewhere, page, document, list, made, upload, health,
    ] {
        let reply = exchange(farm(), &request);
        assert_eq!(
            reply.header("x-content-type-options"),
            Some("nosniff"),
            "{reply:?}"
        );
        assert_eq!(reply.header("cache-control"), Some("no-store"), "{reply:?}");
    }
}

#[test]
fn browsers_are_told_to_use_https_under_a_name_that_is_reached_by_it() {
    let list = |host: &str| Request::new("GET", ANIMALS).header("Host", host);
    let told = |arguments: &[&str]| {
        let server = own(arguments);
        let reply = exchange(server.address(), &list("localhost")).expect(200);
        reply.header("strict-transport-security").map(str::to_owned)
    };
    let year = Some("max-age=31557600".to_owned());
    assert_eq!(
        told(&["--public-url", "https://up.example.com/media"]),
        year
    );
    assert_eq!(told(&["--public-url", "http://up.example.com"]), None);
    assert_eq!(told(&["--public-url", "https://127.0.0.1:8443"]), None);
    assert_eq!(told(&["--public-url", "https://localhost:8443"]), None);
    assert_eq!(told(&[]), None);
    let directory = TempDir::new_in(scratch()).expect("a directory");
    let config = directory.path().join("windlass.toml");
    let settings = "hsts = '0s'\npublic_url = 'https://up.example.com'\n";
    std::fs::write(&config, settings).expect("it is writable");
    assert_eq!(
        told(&["--config", config.to_str().expect("it is UTF-8")]),
        None
    );
}

#[test]
fn a_proxy_that_is_trusted_says_where_session_uris_point_and_no_other_does() {
    let start = farm::start("")
        .header("X-Forwarded-Host", "up.localhost")
        .header("X-Forwarded-Proto", "https");
    let trusting = own(&["--trust-forwarded"]);
    let table = [
        (trusting.address(), "https://up.localhost/upload/"),
        (farm(), "http://farm.localhost/upload/"),
    ];
    for (address, expected) in table {
        let reply = exchange(address, &start).expect(200);
        let location = reply.header("location").unwrap();
        assert!(location.starts_with(expected), "{location}");
    }
}
