//! What may begin an upload, whatever dialect it is in, and also at the plain path of the API of
//! files: its page, its principal, its quota, its link.

use tempfile::TempDir;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{Reply, Request, exchange};

use crate::authentication::{CAROL, CREDENTIALS, DAVE, bearing};
use crate::server::{own, scratch};

const UPLOADS: &str = "/upload/files";

/// The path without `/upload` before it, at which clients of tus create.
const FILES: &str = "/files";

/// How much a principal may have.
const QUOTA: usize = 100_000;

/// Every request that begins an upload of this many bytes, or makes a whole one.
fn creations(length: usize) -> Vec<(String, Request)> {
    let bytes = "x".repeat(length);
    let post = |target: &str| Request::new("POST", target).header("Content-Type", "text/plain");
    let google = |upload_type: &str| post(&format!("{UPLOADS}?uploadType={upload_type}"));
    let x_goog = |protocol: &str| post(UPLOADS).header("X-Goog-Upload-Protocol", protocol);
    let multipart = format!(
        "--b\r\nContent-Type: application/json\r\n\r\n{{}}\r\n--b\r\nContent-Type: text/plain\r\n\r\n{bytes}\r\n--b--\r\n"
    );
    let related = Request::new("POST", format!("{UPLOADS}?uploadType=multipart"))
        .header("Content-Type", "multipart/related; boundary=b");
    let mut creations = vec![
        ("google, whole", google("media").body(&bytes)),
        ("google, in parts", related.body(multipart)),
        (
            "google, session",
            google("resumable")
                .header("X-Upload-Content-Length", length)
                .body(""),
        ),
        ("x-goog-upload, whole", x_goog("raw").body(&bytes)),
        (
            "x-goog-upload, session",
            x_goog("resumable")
                .header("X-Goog-Upload-Command", "start")
                .header("X-Goog-Upload-Header-Content-Length", length)
                .body(""),
        ),
        (
            "ietf, whole",
            post(UPLOADS).header("Upload-Complete", "?1").body(&bytes),
        ),
        (
            "ietf, session",
            post(UPLOADS)
                .header("Upload-Complete", "?0")
                .header("Upload-Length", length)
                .body(""),
        ),
    ];
    for path in [UPLOADS, FILES] {
        let tus = Request::new("POST", path)
            .header("Tus-Resumable", "1.0.0")
            .header("Upload-Length", length);
        let part = tus.clone();
        let part = part.header("Content-Type", "application/offset+octet-stream");
        creations.push(("tus, whole", part.body(&bytes)));
        creations.push(("tus, session", tus.body("")));
    }
    let described = creations.into_iter().map(|(name, request)| {
        let head = String::from_utf8(request.head_bytes()).expect("it is text");
        let line = head.lines().next().unwrap_or_default();
        (format!("{name}: {line}"), request)
    });
    described.collect()
}

/// Checks that a request is refused with this status, and that the refusal says why.
#[track_caller]
fn assert_refused(name: &str, reply: &Reply, status: u16, said: &str) {
    assert_eq!(reply.status, status, "{name}: {reply:?}");
    let text = reply.text().to_lowercase();
    assert!(text.contains(said), "{name}: {text}");
    for session in ["location", "x-goog-upload-url"] {
        assert_eq!(reply.header(session), None, "{name}");
    }
}

/// A server of files with these credentials, and quotas of a principal.
fn server_for(credentials: &str, sessions: u32) -> ServerProcess {
    let directory = TempDir::new_in(scratch()).expect("it is writable");
    let write = |name: &str, text: &str| {
        std::fs::write(directory.path().join(name), text).expect("it is writable");
    };
    write("auth.toml", credentials);
    let config = format!(
        "apis = ['files']\n[auth]\nfile = 'auth.toml'\n\
         [limits]\nsessions_per_principal = {sessions}\nbytes_per_principal = '{QUOTA}'\n"
    );
    write("windlass.toml", &config);
    let config = directory.path().join("windlass.toml");
    own(&["--config", config.to_str().expect("it is UTF-8")])
}

/// How many files there are.
fn count(server: &ServerProcess) -> usize {
    let list = bearing(&Request::new("GET", FILES), CAROL);
    let files = exchange(server.address(), &list).expect(200).field("items");
    files.as_array().map_or(0, Vec::len)
}

#[test]
fn upload_in_any_dialect_is_begun_by_every_path_that_takes_it() {
    let server = own(&["--api", "files"]);
    for (name, request) in creations(5) {
        let reply = exchange(server.address(), &request);
        assert!(matches!(reply.status, 200 | 201), "{name}: {reply:?}");
    }
}

#[test]
fn page_of_another_origin_begins_no_upload_in_any_dialect() {
    let server = own(&["--api", "files"]);
    for (name, request) in creations(5) {
        let request = request.header("Origin", "https://evil.example");
        let reply = exchange(server.address(), &request);
        assert_refused(&name, &reply, 403, "origin");
        // A page could read it.
        assert_eq!(reply.header("access-control-allow-origin"), None, "{name}");
    }
    assert_eq!(count(&server), 0);
}

#[test]
fn caller_who_may_not_insert_begins_no_upload_in_any_dialect() {
    let dave = "[[allow]]\nprincipals = ['dave']\napis = ['files']\nmethods = ['get', 'list']\n";
    let server = server_for(&format!("{CREDENTIALS}\n{dave}"), 0);
    for (name, request) in creations(5) {
        let reply = exchange(server.address(), &bearing(&request, DAVE));
        assert_refused(&name, &reply, 403, "do not allow the method");
        let reply = exchange(server.address(), &request);
        assert_refused(&name, &reply, 401, "credential");
    }
    assert_eq!(count(&server), 0);
}

#[test]
fn quota_of_bytes_bounds_uploads_in_every_dialect() {
    let server = server_for(CREDENTIALS, 0);
    let send = |request: &Request| exchange(server.address(), &bearing(request, CAROL));
    let (_, stored) = creations(60_000).swap_remove(0);
    send(&stored).expect(200);
    for (name, request) in creations(60_000) {
        assert_refused(&name, &send(&request), 429, "has reached its limit");
    }
    assert_eq!(count(&server), 1);
    // A small one fits.
    for (name, request) in creations(5) {
        let reply = send(&request);
        assert!(matches!(reply.status, 200 | 201), "{name}: {reply:?}");
    }
}

#[test]
fn quota_of_sessions_bounds_uploads_in_every_dialect() {
    let server = server_for(CREDENTIALS, 1);
    let send = |request: &Request| exchange(server.address(), &bearing(request, CAROL));
    let is_session = |(name, _): &(String, Request)| name.contains("session");
    let sessions: Vec<_> = creations(5).into_iter().filter(is_session).collect();
    send(&sessions[0].1).expect(200);
    for (name, request) in &sessions {
        assert_refused(name, &send(request), 429, "has reached its limit");
    }
}
