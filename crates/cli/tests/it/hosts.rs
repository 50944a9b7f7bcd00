//! Several APIs side by side, told apart by their hosts (docs/protocol.md, 2.1 and 2.16).

use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_testkit::error_object::assert_error;
use windlass_testkit::farm::{self, ANIMALS};
use windlass_testkit::http2::{Event, Http2Peer};
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{RawPeer, Reply, Request, exchange};
use windlass_testkit::session::Session;

use crate::server::{own, program, scratch};

const POND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/pond.toml");
const LAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/lake.toml");
const POND_OF_LAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/pond_of_lake.toml");

/// Where frogs of either API are uploaded.
const UPLOADS: &str = "/upload/pond/v2/frogs";

/// The Pond API, which takes pictures, on `pond.example`; another one with the same paths, which
/// takes text, on `[::1]`; and the Farm API everywhere.
fn server(lake: &str, more: &[&str]) -> ServerProcess {
    let (pond, lake) = (format!("{POND}@pond.example"), format!("{lake}@[::1]"));
    let apis = ["--api", &pond, "--api", &lake, "--api", "farm"];
    own(&[&apis[..], more].concat())
}

fn upload(target: &str, content_type: &str) -> Request {
    Request::new("POST", format!("{target}?uploadType=media"))
        .header("Content-Type", content_type)
        .body("quak")
}

/// Returns the API that answers a request, identified by the one media type that the API takes.
fn answers(server: &ServerProcess, request: impl Fn(Request) -> Request) -> Option<&'static str> {
    let status = |content_type| {
        let request = request(upload(UPLOADS, content_type));
        exchange(server.address(), &request).status
    };
    match (status("image/png"), status("text/plain")) {
        (200, 400) => Some("pond"),
        (400, 200) => Some("lake"),
        (404, 404) => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_api_with_a_host_answers_on_that_host_alone() {
    let server = server(LAKE, &[]);
    for (host, expected) in [
        ("pond.example", Some("pond")),
        ("pond.example:8080", Some("pond")),
        ("POND.Example.", Some("pond")),
        ("[::1]", Some("lake")),
        ("[0:0:0:0:0:0:0:1]:443", Some("lake")),
        ("other.localhost", None),
        ("127.0.0.1", None),
    ] {
        let answers = answers(&server, |request| request.header("Host", host));
        assert_eq!(answers, expected, "{host}");
    }
    let wrong = upload(UPLOADS, "image/png").header("Host", "farm.localhost");
    assert_error(&exchange(server.address(), &wrong), 404, "notFound", None);
}

#[test]
fn an_api_without_a_host_answers_on_every_host() {
    let server = server(LAKE, &[]);
    for host in ["pond.example", "[::1]", "other.localhost", "192.0.2.7"] {
        let list = Request::new("GET", ANIMALS).header("Host", host);
        exchange(server.address(), &list).expect(200);
    }
}

#[test]
fn a_target_in_absolute_form_names_the_host() {
    let server = server(LAKE, &[]);
    for (host, expected) in [
        ("pond.example", Some("pond")),
        ("[::1]:99", Some("lake")),
        ("other.localhost", None),
    ] {
        let answers = answers(&server, |request| {
            let text = String::from_utf8(request.to_bytes()).expect("it is text");
            let content_type = text.contains("image/png").then_some("image/png");
            let target = format!("http://{host}{UPLOADS}");
            upload(&target, content_type.unwrap_or("text/plain")).header("Host", "pond.example")
        });
        assert_eq!(answers, expected, "{host}");
    }
    // RFC 9110, section 4.2.4: with a user in it, it misleads.
    let target = format!("http://me@pond.example{UPLOADS}");
    let misleading = upload(&target, "image/png").header("Host", "pond.example");
    exchange(server.address(), &misleading).expect(400);
}

#[test]
fn a_trusted_proxy_says_which_host_was_asked_for() {
    let forwarded = |request: Request| {
        request
            .header("Host", "pond.example")
            .header("X-Forwarded-Host", "[::1]:8443")
    };
    assert_eq!(answers(&server(LAKE, &[]), forwarded), Some("pond"));
    let trusting = server(LAKE, &["--trust-forwarded"]);
    assert_eq!(answers(&trusting, forwarded), Some("lake"));
    let by_standard = |request: Request| request.header("Forwarded", "host=\"[::1]\"");
    assert_eq!(answers(&trusting, by_standard), Some("lake"));
}

/// A GET with these lines in its head instead of the usual `Host`.
fn with_lines(target: &str, lines: &str) -> String {
    format!("GET {target} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n")
}

fn send(server: &ServerProcess, head: &str) -> Reply {
    let mut peer = RawPeer::connect(server.address());
    peer.send(head);
    peer.reply()
}

#[test]
fn request_without_a_host_or_with_two_or_with_none_that_is_one_is_refused() {
    let server = server(LAKE, &[]);
    for lines in [
        "",
        "Host: \r\n",
        "Host: pond example\r\n",
        "Host: pond.example:port\r\n",
        "Host: pond.example:70000\r\n",
        "Host: me@pond.example\r\n",
        "Host: http://pond.example\r\n",
        "Host: pond.example,pond.example\r\n",
        "Host: pond.example\r\nHost: pond.example\r\n",
        "Host: pond.example\r\nHost: evil.example\r\n",
        "Host: pond.example\r\nhost:\r\n",
    ] {
        for target in [ANIMALS, "/healthz", "http://pond.example/farm/v1/animals"] {
            let reply = send(&server, &with_lines(target, lines));
            assert_error(&reply, 400, "badRequest", Some("Host"));
        }
    }
    let old = "GET /farm/v1/animals HTTP/1.0\r\n\r\n";
    send(&server, old).expect(200);
}

#[test]
fn http2_request_needs_one_host_and_a_path() {
    let server = server(LAKE, &[]);
    let mut peer = Http2Peer::connect(server.address(), 65_535);
    let (method, scheme, path) = ((":method", "GET"), (":scheme", "http"), (":path", ANIMALS));
    let (known, evil) = (
        (":authority", "pond.example"),
        (":authority", "evil.example"),
    );
    for (fields, expected) in [
        (vec![method, scheme, path, known], 200),
        (vec![method, scheme, path, ("host", "pond.example")], 200),
        (
            vec![method, scheme, path, known, ("host", "Pond.example.")],
            200,
        ),
        (vec![method, scheme, path], 400),
        (
            vec![method, scheme, path, known, ("host", "evil.example")],
            400,
        ),
        (vec![method, scheme, path, ("host", "a b")], 400),
        (vec![method, scheme, path, evil], 421),
        (vec![method, path, known], 400),
        (vec![method, known], 400),
        (vec![method, ("host", "pond.example")], 400),
    ] {
        let asked = peer.head(&fields, true);
        let status = loop {
            match peer.next_event().expect("the server answers") {
                Some(Event::Head { stream, status, .. }) if stream == asked => break status,
                Some(Event::Reset { stream }) if stream == asked => break 400,
                Some(_) => {}
                None => panic!("the connection ended: {fields:?}"),
            }
        };
        assert_eq!(status, expected, "{fields:?}");
    }
}

#[test]
fn host_that_nobody_has_named_is_refused_unless_it_is_listed() {
    let server = server(LAKE, &[]);
    let list = |target: &str, host: &str| Request::new("GET", target).header("Host", host);
    for host in [
        "evil.example",
        "a.pond.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example:80",
    ] {
        let upload = upload("/upload/farm/v1/animals", "image/png").header("Host", host);
        for request in [
            list(ANIMALS, host),
            list("/discovery/v1/apis", host),
            list("/", host),
            upload,
        ] {
            let reply = exchange(server.address(), &request);
            assert_error(&reply, 421, "misdirectedRequest", Some("Host"));
            assert!(reply.text().contains("`hosts`"), "{}", reply.text());
        }
        // Load balancers send probes with any host name.
        exchange(server.address(), &list("/healthz", host)).expect(200);
    }
    let absolute = Request::new("GET", format!("http://evil.example{ANIMALS}"));
    let reply = exchange(server.address(), &absolute);
    assert_error(&reply, 421, "misdirectedRequest", Some("Host"));

    let directory = TempDir::new_in(scratch()).expect("a directory");
    let config = directory.path().join("windlass.toml");
    let config = config.to_str().expect("it is UTF-8");
    for (hosts, other) in [("['windlass', 'up.example']", 421), ("['*']", 200)] {
        std::fs::write(config, format!("hosts = {hosts}\n")).expect("it is writable");
        let listed = own(&["--config", config]);
        for (host, status) in [
            ("windlass:8080", 200),
            ("UP.example", 200),
            ("evil.example", other),
        ] {
            exchange(listed.address(), &list(ANIMALS, host)).expect(status);
        }
    }
    let public = own(&["--public-url", "https://up.example.com:8443/media"]);
    exchange(
        public.address(),
        &list("/media/farm/v1/animals", "up.example.com"),
    )
    .expect(404);
    exchange(public.address(), &list(ANIMALS, "evil.example")).expect(421);
}

#[test]
fn host_that_a_trusted_proxy_states_must_be_known_and_that_of_its_own_request_need_not() {
    let server = own(&["--trust-forwarded"]);
    let list = |stated: &str| {
        let list = Request::new("GET", ANIMALS).header("Host", "upstream");
        list.header("X-Forwarded-Host", stated)
    };
    exchange(server.address(), &list("up.localhost")).expect(200);
    exchange(server.address(), &list("evil.example")).expect(421);
}

/// Starts an upload of a frog on a host.
fn start(server: &ServerProcess, host: &str, content_type: &str) -> Reply {
    let start = Request::new("POST", format!("{UPLOADS}?uploadType=resumable"))
        .header("Host", host)
        .header("X-Upload-Content-Type", content_type)
        .body("");
    exchange(server.address(), &start).expect(200)
}

#[test]
fn a_session_belongs_to_the_api_at_its_host_also_after_a_restart() {
    let mut server = server(POND_OF_LAKE, &[]);
    let replies = [
        (
            start(&server, "pond.example:81", "image/png"),
            "pond.example:81",
            200,
        ),
        (start(&server, "[::1]", "text/plain"), "[::1]", 201),
    ];
    server.terminate();
    server.start_again();
    for (reply, host, status) in replies {
        let location = reply.header("location").expect("a session URI");
        let expected = format!("http://{host}{UPLOADS}?");
        assert!(location.starts_with(&expected), "{location}");
        let session = Session::of_reply(server.address(), &reply);
        let finished = session.put("bytes 0-3/4", "quak").expect(status);
        let link = finished.field("selfLink");
        let link = link.as_str().expect("a link");
        let expected = format!("http://{host}/pond/v2/frogs/");
        assert!(link.starts_with(&expected), "{link}");
    }
}

#[test]
fn with_a_public_url_the_links_of_an_api_name_its_host() {
    let server = server(LAKE, &["--public-url", "https://up.example.com:8443"]);
    let reply = start(&server, "pond.example", "image/png");
    let location = reply.header("location").expect("a session URI");
    assert!(
        location.starts_with("https://pond.example:8443/"),
        "{location}"
    );
    let reply = exchange(server.address(), &farm::start("")).expect(200);
    let location = reply.header("location").expect("a session URI");
    assert!(
        location.starts_with("https://up.example.com:8443/"),
        "{location}"
    );
}

/// The reply of the discovery service on a host.
fn discovered(server: &ServerProcess, host: &str, target: &str) -> Reply {
    exchange(
        server.address(),
        &Request::new("GET", target).header("Host", host),
    )
}

#[test]
fn on_each_host_the_apis_that_answer_there_are_discovered() {
    let server = server(POND_OF_LAKE, &[]);
    for (host, titles) in [
        ("pond.example", json!(["Pond API", "Farm API"])),
        ("[::1]", json!(["The lake's pond", "Farm API"])),
        ("other.localhost", json!(["Farm API"])),
    ] {
        let directory = discovered(&server, host, "/discovery/v1/apis").expect(200);
        let items = directory.field("items");
        let listed = items.as_array().expect("a list").iter();
        let listed: Value = listed.map(|item| item["title"].clone()).collect();
        assert_eq!(listed, titles, "{host}");

        let status = if titles.as_array().is_some_and(|all| all.len() == 2) {
            200
        } else {
            404
        };
        for target in [
            "/$discovery/rest?version=v2",
            "/discovery/v1/apis/pond/v2/rest",
        ] {
            let document = discovered(&server, host, target).expect(status);
            if status == 200 {
                assert_eq!(document.field("title"), titles[0], "{host}");
                assert_eq!(document.field("rootUrl"), format!("http://{host}/"));
            }
        }
    }
    let document = discovered(&server, "pond.example", "/$discovery/rest?version=v1");
    assert_eq!(document.expect(200).field("name"), "farm");
}

/// Returns the exit code and the output of `windlass serve --check-config` for these APIs.
fn check(apis: &[String]) -> (Option<i32>, String) {
    let output = Command::new(program())
        .args(["serve", "--check-config"])
        .args(apis.iter().flat_map(|api| ["--api", api]))
        .current_dir(scratch())
        .output()
        .expect("the command can be run");
    let stderr = String::from_utf8_lossy(&output.stderr);
    (output.status.code(), stderr.into_owned())
}

#[test]
fn apis_with_the_same_paths_are_refused_at_the_start_unless_their_hosts_differ() {
    let (pond, lake) = (POND.to_owned(), LAKE.to_owned());
    let at = |api: &str, host: &str| format!("{api}@{host}");
    for apis in [
        [pond.clone(), lake.clone()],
        [pond.clone(), at(LAKE, "lake.example")],
        [at(POND, "one.example"), at(LAKE, "One.Example.")],
    ] {
        let (code, stderr) = check(&apis);
        assert_eq!(code, Some(2), "{stderr}");
        for expected in [
            "pond.frogs.",
            "lake.frogs.",
            " both answer ",
            " /pond/v2/frogs",
            "hint: give the APIs hosts of their own",
        ] {
            assert!(stderr.contains(expected), "{stderr}");
        }
    }
    let (code, stderr) = check(&[at(POND, "one.example"), at(LAKE, "other.localhost")]);
    assert_eq!(code, Some(0), "{stderr}");
    let (code, stderr) = check(&[at(POND, "one.example"), at(POND, "other.localhost")]);
    assert_eq!(code, Some(0), "{stderr}");
    let (code, stderr) = check(&[at(POND, "one.example:80")]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(
        stderr.contains("`one.example:80` is not the name of a host"),
        "{stderr}"
    );
}
