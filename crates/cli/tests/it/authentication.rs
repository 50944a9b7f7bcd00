//! A server that demands a token: who gets in, by which routes, and what the others are told.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;
use windlass_testkit::farm::{self, ANIMALS, UPLOADS};
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{Request, exchange};

use crate::server::{own, program, scratch};

const MEDIA: Media = Media::new(62, 300_000);

pub(crate) const TOKEN: &str = "dGVzdA.-_~+/42==";

/// A directory with a configuration that names a file with this token.
fn configuration(token: &str) -> (TempDir, PathBuf) {
    let directory = TempDir::new_in(scratch()).expect("it is writable");
    let file = directory.path().join("token");
    std::fs::write(&file, token).expect("it is writable");
    let config = directory.path().join("windlass.toml");
    let text = format!("[auth]\ntoken_file = '{}'\n", file.display());
    std::fs::write(&config, text).expect("it is writable");
    (directory, config)
}

pub(crate) fn guarded() -> ServerProcess {
    let (_directory, config) = configuration(&format!("{TOKEN}\n"));
    own(&["--config", config.to_str().expect("it is UTF-8")])
}

fn resumable() -> Request {
    let request = Request::new("POST", format!("{UPLOADS}?uploadType=resumable"));
    request.header("content-length", 0)
}

pub(crate) fn bearing(request: &Request, token: &str) -> Request {
    let request = request.clone();
    request.header("Authorization", format!("Bearer {token}"))
}

/// What only a bearer of the token may do, and what tells strangers nothing else.
fn routes() -> Vec<Request> {
    let simple = Request::new("POST", format!("{UPLOADS}?uploadType=media"));
    let multipart = Request::new("POST", format!("{UPLOADS}?uploadType=multipart"));
    vec![
        simple.header("content-type", "image/png").body("a cow"),
        multipart.body(""),
        resumable(),
        Request::new("GET", ANIMALS),
        Request::new("GET", format!("{ANIMALS}/1?alt=media")),
        Request::new("DELETE", format!("{ANIMALS}/1")),
        Request::new("GET", "/no/such/path"),
        Request::new("GET", "/"),
        Request::new("POST", "/upload"),
    ]
}

#[test]
fn requests_without_the_token_are_refused_before_anything_else() {
    let server = guarded();
    for request in routes() {
        let reply = exchange(server.address(), &request).expect(401);
        let challenge = reply.header("www-authenticate");
        assert_eq!(challenge, Some("Bearer realm=\"windlass\""), "{request:?}");
        let error = &reply.json()["error"];
        assert_eq!(error["status"], "UNAUTHENTICATED");
        assert_eq!(error["errors"][0]["reason"], "required");
        assert_eq!(error["errors"][0]["location"], "Authorization");
    }
}

#[test]
fn requests_with_another_token_are_refused() {
    let server = guarded();
    for request in routes() {
        let reply = exchange(server.address(), &bearing(&request, "other")).expect(401);
        let challenge = reply.header("www-authenticate").unwrap_or_default();
        assert!(
            challenge.ends_with(", error=\"invalid_token\""),
            "{challenge}"
        );
        assert_eq!(reply.json()["error"]["errors"][0]["reason"], "authError");
    }
}

#[test]
fn bearer_of_the_token_uploads_and_its_session_needs_no_token() {
    let server = guarded();
    let started = exchange(server.address(), &bearing(&resumable(), TOKEN)).expect(200);
    let location = started.header("location").expect("a session URI");
    let session = &location[location.find("/upload").expect("its path")..];
    let put = Request::new("PUT", session).body(MEDIA.whole());
    let animal = exchange(server.address(), &put).expect(201);
    let download = farm::download(&farm::id(&animal));
    exchange(server.address(), &download).expect(401);
    let reply = exchange(server.address(), &bearing(&download, TOKEN)).expect(200);
    assert!(reply.body == MEDIA.whole(), "other media");
}

#[test]
fn health_and_discovery_are_open() {
    let server = guarded();
    for path in [
        "/healthz",
        "/readyz",
        "/discovery/v1/apis/farm/v1/rest",
        "/discovery/v1/apis",
    ] {
        exchange(server.address(), &Request::new("GET", path)).expect(200);
    }
}

#[test]
fn token_that_no_client_could_send_is_an_error_at_the_start() {
    for token in ["", "\n", "two words", "two\nlines", "naïve"] {
        let (_directory, config) = configuration(token);
        let refused = Command::new(program())
            .args(["serve", "--check-config", "--config"])
            .arg(config)
            .output()
            .expect("it can be run");
        assert_eq!(refused.status.code(), Some(2), "{token:?}");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains("is empty or has characters"), "{said}");
        assert!(said.contains("openssl rand"), "{said}");
    }
}
