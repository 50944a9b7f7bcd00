//! Several calls in one request (docs/protocol.md, 2.19).

use serde_json::Value;
use windlass_testkit::encodings::gzip;
use windlass_testkit::error_object::assert_error;
use windlass_testkit::farm::{self, ANIMALS};
use windlass_testkit::media::Media;
use windlass_testkit::raw::{RawPeer, Reply, Request, exchange};

use crate::authentication::{TOKEN, bearing, guarded};
use crate::server::{farm, own};

const PATH: &str = "/batch/farm/v1";

/// A batch of these calls, each of which is a head with an empty line and a body.
pub(crate) fn batch(calls: &[impl AsRef<str>]) -> Request {
    let parts = calls.iter().enumerate().map(|(n, call)| {
        let call = call.as_ref();
        format!("--b\r\nContent-Type: application/http\r\nContent-ID: <x + {n}>\r\n\r\n{call}\r\n")
    });
    let body: String = parts.chain(["--b--\r\n".to_owned()]).collect();
    to(PATH, &body)
}

fn to(path: &str, body: &str) -> Request {
    Request::new("POST", path)
        .header("Content-Type", "multipart/mixed; boundary=b")
        .body(body)
}

fn insert(name: &str) -> String {
    let json = farm::named(name);
    let len = json.len();
    format!(
        "POST {ANIMALS} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {len}\r\n\r\n{json}"
    )
}

/// A part of a reply.
#[derive(Debug, PartialEq)]
struct Part {
    id: String,
    status: u16,
    /// From the status line to the empty line.
    head: String,
    body: String,
}

impl Part {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The message of a refusal.
    #[track_caller]
    fn refusal(&self, status: u16, reason: &str) -> String {
        assert_eq!(self.status, status, "{self:?}");
        let error = &self.json()["error"];
        assert_eq!(error["errors"][0]["reason"], reason, "{self:?}");
        error["message"].as_str().expect("a message").to_owned()
    }
}

/// The parts of the reply to a batch, in their order.
#[track_caller]
fn parts(reply: &Reply) -> Vec<Part> {
    assert_eq!(reply.status, 200, "{}", reply.text());
    let content_type = reply.header("content-type").expect("it has a type");
    // Some clients take all that is behind the first equals sign.
    let boundary = content_type.strip_prefix("multipart/mixed; boundary=");
    let boundary = boundary.expect("as it is always written");
    let text = reply.text();
    let inner = text
        .strip_prefix(&format!("--{boundary}\r\n"))
        .and_then(|it| it.strip_suffix(&format!("\r\n--{boundary}--\r\n")))
        .unwrap_or_else(|| panic!("other delimiters: {text}"));
    inner
        .split(&format!("\r\n--{boundary}\r\n"))
        .map(|part| {
            let (headers, reply) = part.split_once("\r\n\r\n").expect("it has headers");
            let id = headers.strip_prefix("Content-Type: application/http\r\nContent-ID: ");
            let (head, body) = reply.split_once("\r\n\r\n").expect("it has a head");
            let status = head.split(' ').nth(1).expect("it has a status");
            assert!(head.contains(&format!("\r\ncontent-length: {}", body.len())));
            assert!(!head.contains("connection"), "{head}");
            Part {
                id: id.expect("the id that the call has").to_owned(),
                status: status.parse().expect("a number"),
                head: head.to_owned(),
                body: body.to_owned(),
            }
        })
        .collect()
}

#[test]
fn calls_are_answered_in_their_order() {
    let animal = farm::id(&farm::upload(farm(), Media::new(1, 1000)));
    let path = farm::animal(&animal);
    let reply = exchange(
        farm(),
        &batch(&[
            insert("Bella"),
            format!("GET {path}?fields=id,size&prettyPrint=false"),
            format!(
                "PATCH {path} HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{{\"name\": \"Dolly\"}}"
            ),
            format!("GET {path}?fields=name&prettyPrint=false HTTP/1.1"),
            format!("DELETE {path} HTTP/1.1\r\ncontent-length: 0"),
            format!("GET {path} HTTP/1.1\r\n\r\n"),
        ]),
    );
    let parts = parts(&reply);
    let ids: Vec<_> = parts.iter().map(|part| part.id.as_str()).collect();
    let expected: Vec<_> = (0..6).map(|n| format!("<response-x + {n}>")).collect();
    assert_eq!(ids, expected);
    assert_eq!(parts[0].json()["name"], "Bella");
    assert!(
        parts[0].head.starts_with("HTTP/1.1 200 OK\r\n"),
        "{parts:?}"
    );
    assert_eq!(
        parts[1].body,
        format!("{{\"id\":\"{animal}\",\"size\":\"1000\"}}")
    );
    assert_eq!(parts[2].json()["name"], "Dolly");
    assert_eq!(parts[3].body, "{\"name\":\"Dolly\"}");
    assert_eq!(
        parts[4].head,
        "HTTP/1.1 204 No Content\r\ncontent-length: 0"
    );
    parts[5].refusal(404, "notFound");
}

#[test]
fn batch_is_sent_to_the_path_of_its_api_or_to_the_common_one() {
    let call = "--b\r\nContent-Type: application/http\r\nContent-ID: <1>\r\n\r\nGET /farm/v1/animals\r\n--b--";
    for path in [PATH, "/batch", "/batch?prettyPrint=false"] {
        let reply = exchange(farm(), &to(path, call));
        assert_eq!(parts(&reply)[0].status, 200, "{path}");
    }
    for path in [
        "/batch/farm/v2",
        "/batch/farm",
        "/batch/",
        "/batch/farm/v1/x",
    ] {
        let reply = exchange(farm(), &to(path, call));
        assert_error(&reply, 404, "notFound", None);
    }
    for verb in ["GET", "PUT", "DELETE"] {
        let reply = exchange(farm(), &Request::new(verb, PATH).body(""));
        assert_error(&reply, 405, "methodNotAllowed", None);
        assert_eq!(reply.header("allow"), Some("POST"));
    }
    let document = exchange(
        farm(),
        &Request::new("GET", "/discovery/v1/apis/farm/v1/rest"),
    );
    assert_eq!(document.field("batchPath"), PATH[1..]);
}

#[test]
fn call_that_no_batch_may_hold_is_refused_by_itself() {
    let animal = farm::id(&farm::upload(farm(), Media::new(2, 1000)));
    let path = farm::animal(&animal);
    let refused = [
        (
            format!("POST /upload{ANIMALS}?uploadType=media\r\nContent-Type: image/png\r\n\r\nx"),
            "no uploads",
        ),
        (
            format!("POST /resumable/upload{ANIMALS}?uploadType=resumable"),
            "no uploads",
        ),
        (
            format!("PUT /upload{ANIMALS}?uploadType=resumable&upload_id=1"),
            "no uploads",
        ),
        (
            format!("POST {ANIMALS}\r\nX-Goog-Upload-Protocol: raw\r\n\r\nx"),
            "no uploads",
        ),
        (format!("GET {path}?alt=media"), "no downloads"),
        (format!("GET /download{path}"), "no downloads"),
        (
            format!("POST {PATH}\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c--"),
            "part of a batch",
        ),
        ("POST /batch".to_owned(), "part of a batch"),
        (
            format!("GET http://elsewhere.example{path}"),
            "elsewhere.example",
        ),
        (
            format!("GET {path}\r\nHost: elsewhere.example"),
            "elsewhere.example",
        ),
    ];
    let mut calls: Vec<_> = refused.iter().map(|(call, _)| call.clone()).collect();
    calls.push(format!("GET {path}"));
    let parts = parts(&exchange(farm(), &batch(&calls)));
    for ((call, expected), part) in refused.iter().zip(&parts) {
        let message = part.refusal(400, "badRequest");
        assert!(message.contains(expected), "{call}: {message}");
    }
    assert_eq!(
        parts[refused.len()].json()["id"],
        animal,
        "the others go on"
    );
}

#[test]
fn malformed_batch_is_refused_before_any_call() {
    let server = own(&[]);
    let part = |call: &str| format!("--b\r\nContent-Type: application/http\r\n\r\n{call}\r\n");
    let good = part(&insert("Bella"));
    let many = good.repeat(101);
    for (body, reason, text) in [
        (String::new(), "parseError", "final boundary"),
        ("--b--".to_owned(), "badRequest", "no calls"),
        (good.clone(), "parseError", "final boundary"),
        (
            format!("{good}{}--b--", part("GET")),
            "parseError",
            "Call 2",
        ),
        (
            format!("{good}--b\r\n\r\nGET /\r\n--b--"),
            "parseError",
            "application/http",
        ),
        (format!("{many}--b--"), "badRequest", "more than 100 calls"),
    ] {
        let reply = exchange(server.address(), &to(PATH, &body));
        assert_error(&reply, 400, reason, None);
        assert!(reply.text().contains(text), "{}", reply.text());
    }
    let other = Request::new("POST", PATH)
        .header("Content-Type", "multipart/related; boundary=b")
        .body(format!("{good}--b--"));
    let reply = exchange(server.address(), &other);
    assert_error(&reply, 400, "badRequest", Some("Content-Type"));
    let large = exchange(server.address(), &to(PATH, &"x".repeat(1024 * 1024 + 1)));
    assert_error(&large, 413, "uploadTooLarge", None);
    let list = exchange(server.address(), &farm::list("")).expect(200);
    assert_eq!(list.field("items"), Value::Array(Vec::new()));
}

#[test]
fn hundred_calls_are_a_batch() {
    let server = own(&[]);
    let calls: Vec<_> = (0..100).map(|n| insert(&format!("cow {n}"))).collect();
    let parts = parts(&exchange(server.address(), &batch(&calls)));
    assert_eq!(parts.len(), 100);
    for (n, part) in parts.iter().enumerate() {
        assert_eq!(part.json()["name"], format!("cow {n}"));
    }
}

#[test]
fn batch_may_come_in_gzip_and_in_bare_line_feeds() {
    let body = format!(
        "--b\nContent-Type: application/http\nMIME-Version: 1.0\nContent-ID: <x + 0>\n\n\
         GET http://farm.localhost{ANIMALS}?fields=items HTTP/1.1\nAccept: application/json\n\
         Host: farm.localhost\n\n\n--b--\n"
    );
    let plain = to(PATH, &body);
    let packed = Request::new("POST", PATH)
        .header("Content-Type", "multipart/mixed; boundary=b")
        .header("Content-Encoding", "gzip")
        .body(gzip(body.as_bytes()));
    for request in [plain, packed] {
        assert_eq!(parts(&exchange(farm(), &request))[0].status, 200);
    }
}

#[test]
fn connection_goes_on_after_a_batch_and_after_a_refused_one() {
    let mut peer = RawPeer::connect(farm());
    let calls = [format!("GET {ANIMALS}?maxResults=1")];
    for _ in 0..2 {
        assert_eq!(parts(&peer.exchange(&batch(&calls)))[0].status, 200);
        peer.exchange(&to(PATH, "--b--")).expect(400);
    }
    peer.exchange(&farm::list("")).expect(200);
}

#[test]
fn batch_needs_the_token_and_a_call_may_have_another() {
    let server = guarded();
    let list = format!("GET {ANIMALS}");
    let with = |token: &str| format!("GET {ANIMALS}\r\nAuthorization: Bearer {token}");
    let calls = batch(&[list.clone(), with(TOKEN), with("wrong"), list]);
    exchange(server.address(), &calls).expect(401);
    exchange(server.address(), &batch(&[with(TOKEN)])).expect(401);
    let parts = parts(&exchange(server.address(), &bearing(&calls, TOKEN)));
    let statuses: Vec<_> = parts.iter().map(|part| part.status).collect();
    assert_eq!(statuses, [200, 200, 401, 200]);
    parts[2].refusal(401, "authError");
    assert!(
        parts[2].head.contains("www-authenticate: Bearer"),
        "{parts:?}"
    );
}
