//! What one principal may occupy (docs/configuration.md, "Limits").

use tempfile::TempDir;
use windlass_testkit::error_object::assert_error;
use windlass_testkit::farm::{self, ANIMALS, UPLOADS};
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{RawPeer, Reply, Request, exchange};
use windlass_testkit::session::Session;

use crate::authentication::{CAROL, CREDENTIALS, DAVE, bearing};
use crate::server::{own, scratch};

/// A server on which a principal may have three open sessions and 100 KB.
struct Limited {
    server: ServerProcess,
    _directory: TempDir,
}

impl Limited {
    fn new() -> Self {
        let directory = TempDir::new_in(scratch()).expect("it is writable");
        let write = |name: &str, text: &str| {
            std::fs::write(directory.path().join(name), text).expect("it is writable");
        };
        write("auth.toml", CREDENTIALS);
        let limits = "sessions_per_principal = 3\nbytes_per_principal = '100KB'\n";
        write(
            "windlass.toml",
            &format!(
                "[auth]\nfile = 'auth.toml'\n[limits]\n{limits}[sessions]\nchunks = 'lenient'\n"
            ),
        );
        let config = directory.path().join("windlass.toml");
        Self {
            server: own(&["--config", config.to_str().expect("it is UTF-8")]),
            _directory: directory,
        }
    }

    fn send(&self, request: &Request, token: &str) -> Reply {
        exchange(self.server.address(), &bearing(request, token))
    }

    fn start(&self, declared: Option<u64>, token: &str) -> Reply {
        let mut start = farm::start(&farm::named("counted"));
        if let Some(declared) = declared {
            start = start.header("X-Upload-Content-Length", declared);
        }
        self.send(&start, token)
    }

    fn session(&self, started: &Reply) -> Session {
        Session::of_reply(self.server.address(), started)
    }

    fn counted(&self) -> String {
        let metrics = exchange(self.server.address(), &Request::new("GET", "/metrics"));
        let metrics = metrics.expect(200);
        let name = "windlass_limited_total{limit=\"quota\"} ";
        let mut lines = metrics.text().lines();
        let line = lines.find_map(|line| line.strip_prefix(name));
        line.expect("the metric is there").to_owned()
    }
}

#[track_caller]
fn assert_refused(reply: &Reply) {
    assert_error(reply, 429, "quotaExceeded", None);
    assert_eq!(reply.header("retry-after"), Some("60"), "{reply:?}");
}

#[test]
fn open_sessions_of_a_principal_are_bounded_also_after_a_crash() {
    let mut limited = Limited::new();
    let started: Vec<_> = (0..3)
        .map(|_| limited.start(None, CAROL).expect(200))
        .collect();
    assert_refused(&limited.start(None, CAROL));
    limited.start(None, DAVE).expect(200);
    assert_eq!(limited.counted(), "1");

    limited.server.kill9();
    limited.server.start_again();
    assert_refused(&limited.start(None, CAROL));
    let first = limited.session(&started[0]);
    let first = first.moved_to(limited.server.address());
    let cancel = bearing(&first.request("DELETE").body(""), CAROL);
    first.exchange(&cancel).expect(499);
    limited.start(None, CAROL).expect(200);
    assert_refused(&limited.start(None, CAROL));
}

#[test]
fn declared_and_stored_bytes_of_a_principal_are_bounded_and_deletion_makes_room() {
    let limited = Limited::new();
    let upload =
        |length: u64, token: &str| limited.send(&farm::simple(Media::new(3, length)), token);
    let stored = upload(60_000, CAROL).expect(200);
    assert_refused(&limited.start(Some(60_000), CAROL));
    let session = limited.start(Some(30_000), CAROL).expect(200);
    assert_refused(&upload(20_000, CAROL));
    upload(20_000, DAVE).expect(200);
    let multipart = farm::multipart("second", Media::new(4, 20_000));
    assert_refused(&limited.send(&multipart, CAROL));
    let long = format!("{{\"name\": \"{}\"}}", "x".repeat(20_000));
    let plain = Request::new("POST", ANIMALS).header("Content-Type", "application/json");
    assert_refused(&limited.send(&plain.body(long), CAROL));

    // What is open is finished in any case.
    let media = Media::new(5, 30_000);
    let session = limited.session(&session);
    let whole = session
        .ranged("bytes 0-29999/30000")
        .body(media.bytes(0..30_000));
    session.exchange(&whole).expect(201);
    assert_refused(&upload(20_000, CAROL));
    let delete = Request::new("DELETE", farm::animal(&farm::id(&stored)));
    limited.send(&delete, CAROL).expect(204);
    upload(20_000, CAROL).expect(200);
}

#[test]
fn refusal_comes_before_the_body() {
    let limited = Limited::new();
    let head = format!(
        "POST {UPLOADS}?uploadType=media HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {CAROL}\r\n\
         Content-Type: image/png\r\nContent-Length: 5000000\r\nExpect: 100-continue\r\n\r\n"
    );
    let mut peer = RawPeer::connect(limited.server.address());
    peer.send(head);
    assert_refused(&peer.reply());
}

#[test]
fn upload_without_a_declared_length_ends_at_the_quota_and_goes_on_when_there_is_room() {
    let limited = Limited::new();
    let stored = limited
        .send(&farm::simple(Media::new(6, 60_000)), CAROL)
        .expect(200);
    let session = limited.session(&limited.start(None, CAROL).expect(200));
    let media = Media::new(7, 70_000);
    let chunk = |from: u64, to: u64| {
        let range = format!("bytes {from}-{}/*", to - 1);
        session.ranged(&range).body(media.bytes(from..to))
    };
    session.exchange(&chunk(0, 30_000)).expect(308);
    assert_refused(&session.exchange(&chunk(30_000, 60_000)));
    let query = session.ranged("bytes */*").body("");
    let reply = session.exchange(&query).expect(308);
    assert_eq!(reply.header("range"), Some("bytes=0-29999"));

    let delete = Request::new("DELETE", farm::animal(&farm::id(&stored)));
    limited.send(&delete, CAROL).expect(204);
    session.exchange(&chunk(30_000, 60_000)).expect(308);
    let last = session
        .ranged("bytes 60000-69999/70000")
        .body(media.bytes(60_000..70_000));
    session.exchange(&last).expect(201);
}
