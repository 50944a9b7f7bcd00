//! Credentials that have expired, at every method of every built-in API: a JWT, and a signed link.

use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_testkit::farm::{ANIMALS, UPLOADS};
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{RawPeer, Reply, Request, exchange};
use windlass_testkit::session::{Session, content_range, target_in};

use super::table::{APIS, requests_of};
use super::{MEDIA, bearing, resumable};
use crate::credentials::{LINK_SECRET, Signer, link, now};
use crate::server::{own, scratch};

/// Longer than the clocks may differ by default.
const BEYOND_SKEW: u64 = 120;

/// A body so large that the server does not read the rest of it after a refusal.
const LARGE: u64 = 1 << 30;

/// A server that trusts the tokens of two issuers. It has the keys of one issuer, and the second
/// issuer cannot be reached.
struct Guarded {
    server: ServerProcess,
    directory: TempDir,
    signer: Signer,
}

impl Guarded {
    fn new(settings: &str, apis: &[&str]) -> Self {
        let (directory, signer) = (
            TempDir::new_in(scratch()).expect("it is writable"),
            Signer::new(),
        );
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).expect("it is writable");
            path
        };
        write("keys.json", &signer.keys().to_string());
        let credentials = format!(
            "[[jwt]]\nissuer = 'issuer'\naudience = ['windlass']\njwks_file = 'keys.json'\n\
             [[jwt]]\nissuer = 'gone'\naudience = ['windlass']\njwks_uri = 'http://127.0.0.1:1/'\n\
             [[links.keys]]\nid = 'k'\nsecret = '{LINK_SECRET}'\n"
        );
        write("auth.toml", &credentials);
        let config = format!("[auth]\nfile = 'auth.toml'\n[audit]\nfile = 'audit.log'\n{settings}");
        let config = write("windlass.toml", &config);
        let mut arguments = vec!["--config", config.to_str().expect("it is UTF-8")];
        arguments.extend(apis.iter().flat_map(|api| ["--api", api]));
        Self {
            server: own(&arguments),
            directory,
            signer,
        }
    }

    fn token(&self, expires: u64) -> String {
        self.token_of("issuer", expires)
    }

    fn token_of(&self, issuer: &str, expires: u64) -> String {
        let header = json!({"alg": "EdDSA", "kid": "k1", "typ": "at+jwt"});
        let claims = json!({
            "iss": issuer, "aud": "windlass", "sub": "alice", "iat": expires - 600, "exp": expires,
        });
        self.signer.token(&header, &claims)
    }

    fn good(&self) -> String {
        self.token(now() + 600)
    }

    fn expired(&self) -> String {
        self.token(now() - BEYOND_SKEW)
    }

    #[track_caller]
    fn ask(&self, request: &Request) -> Reply {
        exchange(self.server.address(), request)
    }

    fn audit_log(&self) -> PathBuf {
        self.directory.path().join("audit.log")
    }

    /// The entries of the audit log that are not in `before`.
    fn audited_since(&self, before: usize) -> Vec<Value> {
        let text = std::fs::read_to_string(self.audit_log()).expect("it is readable");
        let entries = text.lines().skip(before).map(serde_json::from_str);
        entries
            .map(|entry| entry.expect("it is a JSON object"))
            .collect()
    }

    /// Returns the replies to all reading requests of this table, as the bearer of a good token
    /// sees them.
    fn readable(&self, requests: &[(String, Request)]) -> Vec<String> {
        let token = self.good();
        // `drive.files.generateIds` returns new ids each time.
        let gets = requests
            .iter()
            .filter(|(id, get)| get.verb() == "GET" && id != "drive.files.generateIds");
        gets.map(|(_, get)| {
            let reply = self.ask(&bearing(get, &token));
            let body = String::from_utf8_lossy(&reply.body);
            format!("{} {}: {body}", reply.status, target_of(get))
        })
        .collect()
    }
}

/// Checks that a reply refuses an expired token as RFC 6750 (section 3.1) says.
#[track_caller]
fn check_expired(reply: &Reply, about: &str) {
    assert_eq!(reply.status, 401, "{about}: {}", reply.text());
    assert_eq!(
        reply.header("www-authenticate"),
        Some(
            "Bearer realm=\"windlass\", error=\"invalid_token\", \
             error_description=\"the token has expired\""
        ),
        "{about}"
    );
    let error = &reply.json()["error"];
    assert_eq!(error["status"], "UNAUTHENTICATED", "{about}");
    assert_eq!(error["errors"][0]["reason"], "authError", "{about}");
    let message = error["message"].as_str().unwrap_or_default();
    assert!(message.contains("have expired"), "{about}: {message}");
}

/// Checks that nothing but refusals is in the audit log. It has not all of them: there are too many
/// in a second.
#[track_caller]
fn check_refusals(entries: &[Value], status: u16) {
    assert!(entries.len() >= 100, "{}", entries.len());
    for entry in entries {
        assert_eq!(entry["action"], "authorize", "{entry}");
        assert_eq!(entry["outcome"], "refused", "{entry}");
        if entry["omitted"].is_null() {
            assert_eq!(entry["status"], status, "{entry}");
        }
    }
}

/// The same request as the beginning of a large request that sends `Expect: 100-continue`.
fn announced(request: &Request, token: &str) -> Request {
    let request = Request::new(request.verb(), target_of(request));
    bearing(&request, token)
        .header("Expect", "100-continue")
        .header("Content-Length", LARGE)
}

fn target_of(request: &Request) -> String {
    let head = String::from_utf8(request.head_bytes()).expect("it is ASCII");
    let target = head.split(' ').nth(1).expect("a target");
    target.to_owned()
}

#[test]
fn every_method_refuses_an_expired_token_and_reads_and_changes_nothing() {
    let guarded = Guarded::new("", &APIS);
    let address = guarded.server.address();
    let requests = requests_of(address);
    assert!(requests.len() > 300, "{}", requests.len());
    let (good, expired) = (guarded.good(), guarded.expired());
    // Creates resources, so that there is something to read and to change.
    for (id, request) in requests.iter().filter(|(_, it)| it.verb() != "DELETE") {
        let status = guarded.ask(&bearing(request, &good)).status;
        assert!(!matches!(status, 401 | 403), "{id}: {status}, {request:?}");
    }
    let before = guarded.readable(&requests);
    let audited = guarded.audited_since(0).len();
    for (id, request) in &requests {
        check_expired(&guarded.ask(&bearing(request, &expired)), id);
        if request.verb() != "GET" {
            let mut peer = RawPeer::connect(address);
            peer.send(announced(request, &expired).head_bytes());
            let first = peer.head().expect("a reply").status;
            assert_eq!(first, 401, "{id} asks for the body: {request:?}");
        }
    }
    check_refusals(&guarded.audited_since(audited), 401);
    for (before, now) in before.iter().zip(guarded.readable(&requests)) {
        assert_eq!(before, &now);
    }
}

#[test]
fn every_method_refuses_an_expired_link_with_the_reason() {
    let guarded = Guarded::new("", &APIS);
    let requests = requests_of(guarded.server.address());
    for (id, request) in &requests {
        let target = target_of(request);
        let path = target.split('?').next().unwrap_or(&target);
        let link = link(request.verb(), path, now() - 1);
        let sign = if target.contains('?') { '&' } else { '?' };
        let head = String::from_utf8(request.head_bytes()).expect("it is ASCII");
        let linked = format!("{target}{sign}X-Windlass-Link={link}");
        let mut peer = RawPeer::connect(guarded.server.address());
        let body = &request.to_bytes()[head.len()..];
        peer.send(head.replacen(&target, &linked, 1));
        peer.send(body);
        let reply = peer.reply().expect(403);
        let message = reply.json()["error"]["message"].to_string();
        assert!(message.contains("has expired"), "{id}: {message}");
    }
    check_refusals(&guarded.audited_since(0), 403);
}

#[test]
fn link_that_tests_make_is_good_until_it_expires() {
    let guarded = Guarded::new("", &[]);
    let link = link("POST", UPLOADS, now() + 600);
    let target = format!("{UPLOADS}?uploadType=media&X-Windlass-Link={link}");
    let upload = Request::new("POST", target).header("content-type", "image/png");
    guarded.ask(&upload.body("a cow")).expect(200);
}

#[test]
fn skew_is_granted_and_no_more() {
    let guarded = Guarded::new("", &[]);
    let list = Request::new("GET", ANIMALS);
    let late = guarded.token(now() - 1);
    guarded.ask(&bearing(&list, &late)).expect(200);
    let early = guarded.ask(&bearing(&list, &guarded.expired()));
    check_expired(&early, "a list");
}

#[test]
fn paths_of_no_method_refuse_an_expired_token_and_what_is_open_takes_it_as_none() {
    let guarded = Guarded::new("", &[]);
    let expired = guarded.expired();
    for (verb, path) in [
        ("POST", "/"),
        ("GET", "/no/such/path"),
        ("OPTIONS", ANIMALS),
        ("POST", "/batch"),
        ("POST", "/upload/no/such/path?uploadType=media"),
        ("GET", "/farm/v1/animals?upload_id=x"),
    ] {
        check_expired(
            &guarded.ask(&bearing(&Request::new(verb, path), &expired)),
            path,
        );
    }
    for path in [
        "/",
        "/healthz",
        "/readyz",
        "/metrics",
        "/discovery/v1/apis",
        "/discovery/v1/apis/farm/v1/rest",
    ] {
        let request = Request::new("GET", path);
        guarded.ask(&bearing(&request, &expired)).expect(200);
    }
}

#[test]
fn call_of_a_batch_with_an_expired_token_is_refused_in_its_part() {
    let guarded = Guarded::new("", &[]);
    let call = |token: &str| {
        format!(
            "--b\r\ncontent-type: application/http\r\n\r\nGET {ANIMALS}\r\nAuthorization: Bearer \
             {token}\r\n\r\n"
        )
    };
    let (good, expired) = (guarded.good(), guarded.expired());
    let body = format!("{}{}--b--", call(&expired), call(&good));
    let batch = Request::new("POST", "/batch");
    let batch = batch.header("content-type", "multipart/mixed; boundary=b");
    let reply = guarded.ask(&bearing(&batch, &good).body(body)).expect(200);
    let text = reply.text();
    let (first, second) = (text.find("HTTP/1.1 401"), text.find("HTTP/1.1 200"));
    assert!(first.is_some() && first < second, "{text}");
    assert!(text.contains("error=\"invalid_token\""), "{text}");
}

/// The requests of a session to its end, in both dialects, and the statuses of their replies.
fn continuations(guarded: &Guarded) -> Vec<(Request, u16)> {
    let good = guarded.good();
    let google = Session::start(guarded.server.address(), &bearing(&resumable(), &good));
    let append = |range: std::ops::Range<u64>| {
        let request = google.ranged(&content_range(MEDIA, &range));
        request.body(MEDIA.bytes(range))
    };
    let start = Request::new("POST", UPLOADS)
        .header("X-Goog-Upload-Protocol", "resumable")
        .header("X-Goog-Upload-Command", "start");
    let started = guarded.ask(&bearing(&start, &good).body("")).expect(200);
    let other = target_in(&started, "x-goog-upload-url").expect("a session URI");
    let command = |command: &str| {
        let request = Request::new("POST", &other).header("X-Goog-Upload-Command", command);
        request.header("X-Goog-Upload-Offset", 0)
    };
    vec![
        (append(0..262_144), 308),
        (google.ranged("bytes */*").body(""), 308),
        (append(262_144..MEDIA.len()), 201),
        (command("query").body(""), 200),
        (command("upload, finalize").body(MEDIA.whole()), 200),
    ]
}

#[test]
fn session_goes_on_with_an_expired_token() {
    let guarded = Guarded::new("", &[]);
    let expired = guarded.expired();
    for (request, status) in continuations(&guarded) {
        guarded.ask(&bearing(&request, &expired)).expect(status);
    }
}

#[test]
fn session_that_demands_its_owner_refuses_an_expired_token() {
    let guarded = Guarded::new("[sessions]\nauth = 'owner'\n", &[]);
    let (good, expired) = (guarded.good(), guarded.expired());
    for (request, status) in continuations(&guarded) {
        let reply = guarded.ask(&bearing(&request, &expired));
        let challenge = reply.header("www-authenticate").map(str::to_owned);
        assert_eq!(reply.status, 401, "{request:?}: {}", reply.text());
        let said = "error=\"invalid_token\", error_description=\"the token has expired\"";
        assert!(
            challenge.as_ref().is_some_and(|it| it.contains(said)),
            "{challenge:?}"
        );
        guarded.ask(&bearing(&request, &good)).expect(status);
    }
}

#[test]
fn session_that_demands_its_owner_is_tried_again_if_a_token_cannot_be_checked() {
    let guarded = Guarded::new("[sessions]\nauth = 'owner'\n", &[]);
    let unverifiable = guarded.token_of("gone", now() + 600);
    for (request, status) in continuations(&guarded) {
        guarded.ask(&bearing(&request, &unverifiable)).expect(503);
        guarded
            .ask(&bearing(&request, &guarded.good()))
            .expect(status);
    }
}
