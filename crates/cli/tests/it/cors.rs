//! Requests from pages of other origins (docs/protocol.md, 2.13).

mod dialects;

use std::sync::OnceLock;

use tempfile::TempDir;
use windlass_testkit::error_object::{ErrorObject, assert_error};
use windlass_testkit::farm::{self, ANIMALS, UPLOADS};
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{Reply, Request, exchange};
use windlass_testkit::session::{CHUNK_GRANULARITY, Session, target_in};

use crate::authentication::{TOKEN, bearing, guarded};
use crate::server::{farm as plain_farm, own, scratch, with_configuration};

const APP: &str = "https://app.example";
const OTHER: &str = "https://other.example";
const MEDIA: Media = Media::new(213, 2 * CHUNK_GRANULARITY + 7);

/// Every verb that a client of an upload sends.
const VERBS: [&str; 6] = ["POST", "PUT", "PATCH", "DELETE", "GET", "HEAD"];

/// Origins that must not match the origins of `cors.toml`.
const FORBIDDEN: [&str; 11] = [
    OTHER,
    "null",
    "http://app.example",
    "https://app.example:8443",
    "https://app.example.evil",
    "https://example.com",
    "https://evilexample.com",
    "https://example.com.evil",
    "https://a.example.com.evil",
    "https://evil.test/.example.com",
    "http://127.0.0.1:30001",
];

fn configured(more: &[&str]) -> ServerProcess {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/cors.toml");
    let pond = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/pond.toml");
    let apis = ["farm", pond, "gmail"];
    let apis = apis.iter().flat_map(|api| ["--api", api]);
    let arguments: Vec<_> = ["--config", config].into_iter().chain(apis).collect();
    own(&[&arguments[..], more].concat())
}

/// The server of the tests that need no other.
fn server() -> &'static ServerProcess {
    static SERVER: OnceLock<ServerProcess> = OnceLock::new();
    SERVER.get_or_init(|| configured(&[]))
}

#[track_caller]
fn send(request: &Request) -> Reply {
    exchange(server().address(), request)
}

fn preflight(target: &str, origin: &str, verb: &str) -> Request {
    Request::new("OPTIONS", target)
        .header("Origin", origin)
        .header("Access-Control-Request-Method", verb)
}

fn from(request: &Request, origin: &str) -> Request {
    request.clone().header("Origin", origin)
}

/// The elements of a header that is a list.
fn list<'a>(reply: &'a Reply, name: &str) -> Vec<&'a str> {
    let value = reply.header(name).unwrap_or_default();
    value.split(", ").filter(|it| !it.is_empty()).collect()
}

/// The names of the headers of CORS that a reply has.
fn own_headers(reply: &Reply) -> Vec<&str> {
    let names = reply.headers.iter().map(|(name, _)| name.as_str());
    names
        .filter(|name| name.starts_with("access-control-"))
        .collect()
}

/// A reply that a page of this origin may read.
#[track_caller]
fn assert_readable(reply: &Reply, origin: &str) {
    assert_eq!(
        reply.header("access-control-allow-origin"),
        Some(origin),
        "{reply:?}"
    );
    assert_eq!(reply.header("vary"), Some("Origin"), "{reply:?}");
    let exposed = list(reply, "access-control-expose-headers");
    for name in [
        "Location",
        "Range",
        "ETag",
        "Content-Range",
        "X-GUploader-UploadID",
        "X-HTTP-Status-Code-Override",
        "X-Goog-Hash",
        "X-Goog-Upload-Status",
        "X-Goog-Upload-URL",
        "X-Goog-Upload-Size-Received",
        "X-Goog-Upload-Chunk-Granularity",
        "Content-Location",
        "Tus-Resumable",
        "Tus-Version",
        "Upload-Defer-Length",
        "Upload-Expires",
        "Upload-Length",
        "Upload-Metadata",
        "Upload-Offset",
    ] {
        assert!(exposed.contains(&name), "{name}: {exposed:?}");
    }
    let secret = |name: &&&str| name.starts_with("access-control");
    assert_eq!(exposed.iter().find(secret), None);
}

#[track_caller]
fn assert_hidden(reply: &Reply) {
    assert!(own_headers(reply).is_empty(), "{reply:?}");
    assert_eq!(reply.header("vary"), Some("Origin"), "{reply:?}");
}

/// Targets of preflights: the start of uploads, their sessions in both dialects, and a target that
/// is no longer served.
fn upload_targets() -> Vec<String> {
    let session = farm::begin(server().address(), "asked");
    let start = Request::new("POST", UPLOADS)
        .header("X-Goog-Upload-Protocol", "resumable")
        .header("X-Goog-Upload-Command", "start");
    let started = send(&start.body(farm::named("asked"))).expect(200);
    vec![
        format!("{UPLOADS}?uploadType=media"),
        format!("{UPLOADS}?uploadType=multipart"),
        format!("{UPLOADS}?uploadType=resumable"),
        format!("/resumable{UPLOADS}"),
        format!("{UPLOADS}/7"),
        session.target().to_owned(),
        target_in(&started, "x-goog-upload-url").expect("a URI"),
        "/upload/gone/v1/things?upload_id=x".to_owned(),
    ]
}

#[test]
fn preflight_of_an_upload_allows_every_verb_and_the_requested_headers() {
    let google =
        "authorization,content-range,content-type,x-upload-content-length,x-upload-content-type";
    let other = "x-goog-upload-command, x-goog-upload-offset, x-goog-upload-protocol";
    for target in upload_targets() {
        for verb in VERBS {
            for headers in [google, other] {
                let request = preflight(&target, APP, verb);
                let request = request.header("Access-Control-Request-Headers", headers);
                let reply = send(&request).expect(204);
                assert_eq!(reply.header("access-control-allow-origin"), Some(APP));
                assert!(
                    list(&reply, "access-control-allow-methods").contains(&verb),
                    "{target}"
                );
                let allowed = list(&reply, "access-control-allow-headers");
                let requested: Vec<_> = headers.split(',').map(str::trim).collect();
                assert_eq!(allowed, requested, "{target}");
                assert_eq!(reply.header("access-control-max-age"), Some("90"));
                assert_eq!(reply.header("access-control-allow-credentials"), None);
                let vary = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers";
                assert_eq!(reply.header("vary"), Some(vary));
                assert_eq!(reply.header("content-length"), None);
            }
        }
    }
}

#[test]
fn preflight_of_a_call_allows_the_methods_of_its_path() {
    let cases = [
        (ANIMALS, "POST", "GET, HEAD, POST"),
        (
            &farm::animal("7"),
            "DELETE",
            "GET, HEAD, PUT, PATCH, DELETE",
        ),
        ("/batch/farm/v1", "POST", "POST"),
        ("/discovery/v1/apis/farm/v1/rest", "GET", "GET"),
        ("/no/such/path", "PUT", "PUT"),
    ];
    for (target, verb, expected) in cases {
        let reply = send(&preflight(target, APP, verb)).expect(204);
        let mut allowed = list(&reply, "access-control-allow-methods");
        let mut expected: Vec<_> = expected.split(", ").collect();
        allowed.sort_unstable();
        expected.sort_unstable();
        assert_eq!(allowed, expected, "{target}");
        assert_eq!(
            reply.header("access-control-allow-headers"),
            None,
            "{target}"
        );
    }
}

#[test]
fn preflight_needs_no_credentials_and_a_401_can_be_read() {
    let directory = TempDir::new_in(scratch()).expect("a directory");
    let token = directory.path().join("token");
    std::fs::write(&token, TOKEN).expect("it is writable");
    let config = directory.path().join("windlass.toml");
    let text = format!(
        "[auth]\ntoken_file = '{}'\n[cors]\norigins = ['{APP}']\n",
        token.display()
    );
    std::fs::write(&config, text).expect("it is writable");
    let guarded = own(&["--config", config.to_str().expect("it is UTF-8")]);
    let address = guarded.address();
    exchange(address, &preflight(ANIMALS, APP, "GET")).expect(204);
    let refused = exchange(address, &from(&Request::new("GET", ANIMALS), APP)).expect(401);
    assert_readable(&refused, APP);
    assert!(list(&refused, "access-control-expose-headers").contains(&"WWW-Authenticate"));
    let hidden = exchange(address, &from(&Request::new("GET", ANIMALS), OTHER)).expect(401);
    assert_hidden(&hidden);
}

#[test]
fn origins_are_allowed_by_name_and_by_subdomain() {
    for origin in [
        APP,
        "https://a.example.com",
        "https://b.a.example.com",
        "http://127.0.0.1:3000",
    ] {
        let reply = send(&preflight(UPLOADS, origin, "POST")).expect(204);
        assert_eq!(reply.header("access-control-allow-origin"), Some(origin));
        assert_readable(
            &send(&from(&Request::new("GET", ANIMALS), origin)).expect(200),
            origin,
        );
    }
}

#[test]
fn preflight_of_a_forbidden_origin_is_refused_with_a_reason() {
    for target in upload_targets()
        .iter()
        .map(String::as_str)
        .chain([ANIMALS, "/batch"])
    {
        let reply = send(&preflight(target, OTHER, "POST"));
        assert_error(&reply, 403, "forbidden", Some("Origin"));
        assert_hidden(&reply);
        assert!(ErrorObject::of(&reply, 403).message.contains(OTHER));
    }
    for origin in FORBIDDEN {
        let reply = send(&preflight(UPLOADS, origin, "POST"));
        assert_error(&reply, 403, "forbidden", Some("Origin"));
        assert_hidden(&reply);
    }
}

#[test]
fn request_of_a_forbidden_origin_is_refused_without_the_headers() {
    for origin in FORBIDDEN {
        let reply = send(&from(&Request::new("GET", ANIMALS), origin));
        assert_error(&reply, 403, "forbidden", Some("Origin"));
        assert_hidden(&reply);
    }
    // Caches must not give this reply to a page.
    assert_hidden(&send(&Request::new("GET", ANIMALS)).expect(200));
}

#[test]
fn malformed_list_of_requested_headers_is_refused() {
    let long = "x".repeat(2049);
    for headers in ["content type", "a,b:c", &long] {
        let request = preflight(UPLOADS, APP, "POST");
        let request = request.header("Access-Control-Request-Headers", headers);
        let location = Some("Access-Control-Request-Headers");
        assert_error(&send(&request), 400, "badRequest", location);
    }
    let most = "x".repeat(2048);
    let request = preflight(UPLOADS, APP, "POST");
    send(&request.header("Access-Control-Request-Headers", most)).expect(204);
}

#[test]
fn options_that_are_no_preflight_describe_uploads_or_are_405() {
    let bare = Request::new("OPTIONS", UPLOADS);
    for request in [bare.clone(), from(&bare, APP)] {
        let described = send(&request).expect(204);
        assert_eq!(described.header("tus-version"), Some("1.0.0"));
    }
    let method = bare.header("Access-Control-Request-Method", "POST");
    assert_error(&send(&method), 405, "methodNotAllowed", None);
}

#[test]
fn every_reply_of_an_upload_can_be_read() {
    let start = from(&farm::start(&farm::named("read")), APP);
    let started = send(&start).expect(200);
    assert_readable(&started, APP);
    let session = Session::of_reply(server().address(), &started);
    let put =
        |range: &str, body: &[u8]| session.exchange(&from(&session.ranged(range), APP).body(body));
    assert_readable(&put("bytes */*", b"").expect(308), APP);
    let first = MEDIA.bytes(0..CHUNK_GRANULARITY);
    let kept = put(&format!("bytes 0-{}/*", CHUNK_GRANULARITY - 1), &first).expect(308);
    assert!(kept.header("range").is_some());
    assert_readable(&kept, APP);
    let gap = put("bytes 999999-999999/1000000", b"x");
    assert!(gap.status >= 400, "{gap:?}");
    assert_readable(&gap, APP);
    let rest = MEDIA.bytes(CHUNK_GRANULARITY..MEDIA.len());
    let range = format!(
        "bytes {CHUNK_GRANULARITY}-{}/{}",
        MEDIA.len() - 1,
        MEDIA.len()
    );
    let made = put(&range, &rest).expect(201);
    assert_readable(&made, APP);
    let id = farm::id(&made);
    for (header, status) in [("range", 206), ("x", 200), ("if-none-match", 304)] {
        let value = if status == 304 { "*" } else { "bytes=0-9" };
        let download = from(&farm::download(&id), APP).header(header, value);
        assert_readable(&send(&download).expect(status), APP);
    }
    let behind = from(&farm::download(&id), APP).header("range", "bytes=99999999-");
    assert_readable(&send(&behind).expect(416), APP);
    assert_readable(
        &send(&from(&Request::new("GET", "/no/such"), APP)).expect(404),
        APP,
    );
    let discovery = Request::new("GET", "/discovery/v1/apis/farm/v1/rest");
    assert_readable(&send(&from(&discovery, APP)).expect(200), APP);
}

#[test]
fn replies_of_the_other_dialect_can_be_read() {
    let start = Request::new("POST", UPLOADS)
        .header("X-Goog-Upload-Protocol", "resumable")
        .header("X-Goog-Upload-Command", "start");
    let started = send(&from(&start, APP).body(farm::named("read"))).expect(200);
    assert_readable(&started, APP);
    let target = target_in(&started, "x-goog-upload-url").expect("a URI");
    let query = Request::new("POST", target).header("X-Goog-Upload-Command", "query");
    let queried = send(&from(&query, APP).body("")).expect(200);
    assert_eq!(queried.header("x-goog-upload-status"), Some("active"));
    assert_readable(&queried, APP);
}

#[test]
fn api_with_origins_of_its_own_follows_them_alone() {
    let pond = "https://pond.example";
    let frogs = "/pond/v2/frogs";
    for target in [frogs, "/upload/pond/v2/frogs", "/batch/pond/v2"] {
        let reply = send(&preflight(target, pond, "POST")).expect(204);
        assert_eq!(
            reply.header("access-control-allow-credentials"),
            Some("true")
        );
        assert_eq!(reply.header("access-control-max-age"), Some("5"));
        assert_error(
            &send(&preflight(target, APP, "POST")),
            403,
            "forbidden",
            Some("Origin"),
        );
    }
    for target in [frogs, "/discovery/v1/apis/pond/v2/rest"] {
        let reply = send(&from(&Request::new("GET", target), pond)).expect(200);
        assert_readable(&reply, pond);
        assert_eq!(
            reply.header("access-control-allow-credentials"),
            Some("true")
        );
        assert_hidden(&send(&from(&Request::new("GET", target), APP)).expect(403));
    }
    let mail = "/gmail/v1/users/me/messages";
    assert_hidden(&send(&from(&Request::new("GET", mail), APP)).expect(403));
    assert_error(
        &send(&preflight(mail, APP, "GET")),
        403,
        "forbidden",
        Some("Origin"),
    );
    assert_error(
        &send(&preflight(ANIMALS, pond, "GET")),
        403,
        "forbidden",
        Some("Origin"),
    );
}

#[test]
fn page_reads_in_a_batch_only_what_it_may_call() {
    let call = |target: &str| {
        format!("--b\r\nContent-Type: application/http\r\n\r\nGET {target} HTTP/1.1\r\n\r\n\r\n")
    };
    let body = format!("{}{}--b--\r\n", call(ANIMALS), call("/pond/v2/frogs"));
    let batch = Request::new("POST", "/batch/farm/v1")
        .header("Content-Type", "multipart/mixed; boundary=b")
        .body(body);
    let statuses = |reply: &Reply| -> Vec<String> {
        let lines = reply.text().lines();
        let lines = lines.filter_map(|line| line.strip_prefix("HTTP/1.1 "));
        lines.map(|line| line[..3].to_owned()).collect()
    };
    let read = send(&from(&batch, APP)).expect(200);
    assert_readable(&read, APP);
    assert_eq!(statuses(&read), ["200", "403"]);
    assert!(!read.text().contains("access-control-"), "{}", read.text());
    // No page reads these.
    let reply = send(&batch).expect(200);
    assert_hidden(&reply);
    assert_eq!(statuses(&reply), ["200", "200"]);
    assert_hidden(&send(&from(&batch, OTHER)).expect(403));
}

#[test]
fn session_is_continued_by_the_origin_that_started_it_or_by_no_page() {
    let started = send(&from(&farm::start(&farm::named("bound")), APP)).expect(200);
    let session = Session::of_reply(server().address(), &started);
    let query = session.ranged("bytes */*").body("");
    let sub = "https://a.example.com";
    // With the session in the cache, and without it.
    let chunk = session.ranged(&format!("bytes 0-{}/*", CHUNK_GRANULARITY - 1));
    let chunk = chunk.body(MEDIA.bytes(0..CHUNK_GRANULARITY));
    for request in [&chunk, &query, &session.request("DELETE").body("")] {
        for origin in [sub, OTHER, "null"] {
            let reply = session.exchange(&from(request, origin));
            assert_error(&reply, 403, "forbidden", Some("Origin"));
        }
    }
    session.exchange(&from(&query, APP)).expect(308);
    session.exchange(&from(&chunk, APP)).expect(308);
    session.exchange(&query).expect(308);
    let of_nobody = farm::begin(server().address(), "unbound");
    of_nobody
        .exchange(&from(&of_nobody.ranged("bytes */*").body(""), APP))
        .expect(308);
}

#[test]
fn session_is_bound_across_a_restart() {
    let mut server = configured(&[]);
    let start = from(&farm::start(&farm::named("bound")), APP);
    let session = Session::of_reply(
        server.address(),
        &exchange(server.address(), &start).expect(200),
    );
    server.kill9();
    server.start_again();
    let session = session.moved_to(server.address());
    let query = session.ranged("bytes */*").body("");
    let refused = session.exchange(&from(&query, "https://a.example.com"));
    assert_error(&refused, 403, "forbidden", Some("Origin"));
    session.exchange(&from(&query, APP)).expect(308);
}

#[test]
fn session_is_continued_by_every_origin_unless_it_is_bound() {
    let server = guarded();
    let start = bearing(&farm::start(&farm::named("free")), TOKEN);
    let started = exchange(server.address(), &from(&start, APP));
    let session = Session::of_reply(server.address(), &started.expect(200));
    let query = session.ranged("bytes */*").body("");
    session.exchange(&from(&query, OTHER)).expect(308);
}

/// Requests that a browser sends for foreign pages without a preflight, and a request that needs
/// one.
fn foreign() -> Vec<Request> {
    let text = |target: &str| Request::new("POST", target).header("Content-Type", "text/plain");
    let session = farm::begin(plain_farm(), "foreign");
    vec![
        text(ANIMALS).body(farm::named("by a page")),
        text(&format!("{UPLOADS}?uploadType=media")).body("moo"),
        text(&format!("{UPLOADS}?uploadType=resumable")).body(farm::named("by a page")),
        text(session.target())
            .header("X-HTTP-Method-Override", "DELETE")
            .body(""),
        text("/batch/farm/v1").body(""),
        Request::new("GET", ANIMALS),
        Request::new("GET", "/discovery/v1/apis"),
        Request::new("GET", "/"),
        Request::new("DELETE", session.target()).body(""),
    ]
}

#[test]
fn where_no_credentials_are_asked_for_pages_of_other_origins_neither_write_nor_read() {
    for request in foreign() {
        for origin in FORBIDDEN
            .into_iter()
            .chain(["http://farm.localhost:1", "http://localhost"])
        {
            let reply = exchange(plain_farm(), &from(&request, origin));
            assert_error(&reply, 403, "forbidden", Some("Origin"));
            assert_eq!(own_headers(&reply), [""; 0]);
        }
    }
    // Every browser sends one of the two headers, whatever its age.
    let list = Request::new("GET", ANIMALS);
    let posted = Request::new("POST", ANIMALS).header("Content-Type", "text/plain");
    let posted = posted
        .header("Sec-Fetch-Site", "cross-site")
        .body(farm::named("by a page"));
    assert_error(
        &exchange(plain_farm(), &posted),
        403,
        "forbidden",
        Some("Origin"),
    );
    let found = exchange(plain_farm(), &list).expect(200);
    assert!(!found.text().contains("by a page"), "{}", found.text());
    // A page cannot read an embedded resource, and probes reveal nothing.
    let embedded = list.clone().header("Sec-Fetch-Site", "cross-site");
    exchange(plain_farm(), &embedded).expect(200);
    exchange(plain_farm(), &from(&Request::new("GET", "/healthz"), APP)).expect(200);
}

#[test]
fn pages_of_the_servers_own_origin_need_no_permission() {
    for origin in ["http://farm.localhost", "https://farm.localhost"] {
        exchange(plain_farm(), &from(&Request::new("GET", ANIMALS), origin)).expect(200);
    }
    let own = format!("http://{}", plain_farm());
    let request = farm::start(&farm::named("by the own page")).header("Host", plain_farm());
    exchange(plain_farm(), &from(&request, &own)).expect(200);
}

/// A server with this file of credentials, and pages of [`APP`] that may send none.
fn with_credentials(credentials: &str) -> ServerProcess {
    let directory = TempDir::new_in(scratch()).expect("it is writable");
    let file = directory.path().join("auth.toml");
    std::fs::write(&file, credentials).expect("it is writable");
    let file = file.display();
    with_configuration(&format!(
        "[auth]\nfile = '{file}'\n[cors]\norigins = ['{APP}']\n"
    ))
}

#[test]
fn page_of_another_origin_does_not_act_by_what_its_visitor_may() {
    let proxied = with_credentials("[[proxies]]\nfrom = ['127.0.0.1/32']\n");
    let open = with_credentials("[[allow]]\nanonymous = true\n");
    let text = |target: &str| Request::new("POST", target).header("Content-Type", "text/plain");
    let simple = text(&format!("{UPLOADS}?uploadType=media")).body("moo");
    let batch =
        "--b\r\nContent-Type: application/http\r\n\r\nDELETE /farm/v1/animals/1\r\n\r\n--b--";
    let batch = Request::new("POST", "/batch")
        .header("Content-Type", "multipart/mixed; boundary=b")
        .body(batch);
    for (server, app) in [(&proxied, 403), (&open, 200)] {
        let ask = |request: &Request| {
            // As a proxy adds it that knows the visitor by a cookie.
            let request = request.clone().header("X-Forwarded-User", "bob");
            exchange(server.address(), &request)
        };
        for request in [
            &simple,
            &text(ANIMALS).body(farm::named("by a page")),
            &text(&format!("{UPLOADS}?uploadType=resumable")).body(farm::named("by a page")),
            &batch,
        ] {
            for origin in [OTHER, "null"] {
                let refused = ask(&from(request, origin));
                assert_error(&refused, 403, "forbidden", Some("Origin"));
            }
            ask(&from(request, APP)).expect(app);
            ask(&from(request, "https://farm.localhost")).expect(200);
            ask(request).expect(200);
        }
        let crossing = simple.clone().header("Sec-Fetch-Site", "cross-site");
        ask(&crossing).expect(403);
        ask(&from(&Request::new("GET", ANIMALS), OTHER)).expect(200);
    }
}

#[test]
fn call_of_a_batch_has_no_more_authority_than_its_api_gives_to_the_page() {
    let directory = TempDir::new_in(scratch()).expect("it is writable");
    let file = directory.path().join("auth.toml");
    std::fs::write(&file, "[[proxies]]\nfrom = ['127.0.0.1/32']\n").expect("it is writable");
    let pond = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/pond.toml");
    let server = with_configuration(&format!(
        "apis = ['farm', '{pond}']\n[auth]\nfile = '{}'\n\
         [cors]\napis = ['pond={APP} credentials=true', 'farm={APP}']\n",
        file.display()
    ));
    let call = |call: &str| format!("--b\r\nContent-Type: application/http\r\n\r\n{call}\r\n\r\n");
    let calls = ["DELETE /pond/v2/frogs/1", "DELETE /farm/v1/animals/1"].map(call);
    let batch = Request::new("POST", "/batch/pond/v2")
        .header("Content-Type", "multipart/mixed; boundary=b")
        .header("X-Forwarded-User", "bob")
        .body(format!("{}--b--", calls.concat()));
    let statuses = |request: &Request| -> Vec<String> {
        let reply = exchange(server.address(), request).expect(200);
        let lines = reply.text().lines();
        let lines = lines.filter_map(|line| line.strip_prefix("HTTP/1.1 "));
        lines.map(|line| line[..3].to_owned()).collect()
    };
    assert_eq!(statuses(&batch), ["404", "404"]);
    assert_eq!(statuses(&from(&batch, APP)), ["404", "403"]);
}

#[test]
fn with_credentials_an_origin_is_what_the_session_is_for() {
    let server = guarded();
    for request in [
        farm::start(&farm::named("for a page")),
        Request::new("GET", ANIMALS),
    ] {
        exchange(server.address(), &from(&bearing(&request, TOKEN), OTHER)).expect(200);
        exchange(server.address(), &from(&request, OTHER)).expect(401);
    }
}

#[test]
fn page_that_a_session_was_started_for_may_use_it_without_a_policy() {
    let server = guarded();
    let start = bearing(&farm::start(&farm::named("for a page")), TOKEN);
    let started = exchange(server.address(), &from(&start, APP)).expect(200);
    assert!(own_headers(&started).is_empty());
    let session = Session::of_reply(server.address(), &started);

    let asked =
        |target: &str, origin| exchange(server.address(), &preflight(target, origin, "PUT"));
    let allowed = asked(session.target(), APP).expect(204);
    assert_eq!(allowed.header("access-control-allow-origin"), Some(APP));
    assert!(list(&allowed, "access-control-allow-methods").contains(&"PUT"));
    assert_eq!(allowed.header("access-control-allow-credentials"), None);
    assert_error(
        &asked(session.target(), OTHER),
        405,
        "methodNotAllowed",
        None,
    );
    let of_nobody = exchange(server.address(), &start).expect(200);
    let of_nobody = Session::of_reply(server.address(), &of_nobody);
    assert_error(
        &asked(of_nobody.target(), APP),
        405,
        "methodNotAllowed",
        None,
    );
    let unknown = format!("{UPLOADS}?uploadType=resumable&upload_id=x");
    assert_error(&asked(&unknown, APP), 405, "methodNotAllowed", None);

    let chunk = session.ranged(&format!("bytes 0-{}/*", CHUNK_GRANULARITY - 1));
    let chunk = chunk.body(MEDIA.bytes(0..CHUNK_GRANULARITY));
    let query = session.ranged("bytes */*").body("");
    let last = session.ranged(&format!("bytes {CHUNK_GRANULARITY}-*/*"));
    let last = last.body(MEDIA.bytes(CHUNK_GRANULARITY..MEDIA.len()));
    for (request, status) in [(&chunk, 308), (&query, 308), (&last, 201), (&query, 201)] {
        let reply = session.exchange(&from(request, APP)).expect(status);
        assert_eq!(reply.header("access-control-allow-origin"), Some(APP));
        assert!(list(&reply, "access-control-expose-headers").contains(&"Range"));
        assert_eq!(reply.header("vary"), Some("Origin"));
        if status == 308 {
            let hidden = session.exchange(&from(request, OTHER)).expect(status);
            assert!(own_headers(&hidden).is_empty());
        }
    }
}

#[test]
fn without_a_policy_nothing_is_said_to_browsers() {
    let server = guarded();
    let list = bearing(&Request::new("GET", ANIMALS), TOKEN);
    let list = exchange(server.address(), &from(&list, APP)).expect(200);
    assert!(own_headers(&list).is_empty());
    assert_eq!(list.header("vary"), None);
    let reply = exchange(
        server.address(),
        &bearing(&preflight(ANIMALS, APP, "GET"), TOKEN),
    );
    assert_error(&reply, 405, "methodNotAllowed", None);
}

#[test]
fn every_origin_is_allowed_without_credentials_and_without_vary() {
    let directory = TempDir::new_in(scratch()).expect("a directory");
    let config = directory.path().join("windlass.toml");
    std::fs::write(&config, "[cors]\norigins = ['*']\n").expect("it is writable");
    let open = own(&["--config", config.to_str().expect("it is UTF-8")]);
    for origin in [APP, "null"] {
        let request = preflight(UPLOADS, origin, "POST");
        let request = request.header("Access-Control-Request-Headers", "authorization");
        let reply = exchange(open.address(), &request).expect(204);
        assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
        assert_eq!(
            reply.header("access-control-allow-headers"),
            Some("authorization")
        );
        assert_eq!(reply.header("access-control-max-age"), Some("600"));
        let reply = exchange(open.address(), &from(&Request::new("GET", ANIMALS), origin));
        assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
        assert_eq!(
            (
                reply.header("access-control-allow-credentials"),
                reply.header("vary")
            ),
            (None, None)
        );
    }
}
