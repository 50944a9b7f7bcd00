//! The quota of one principal (docs/configuration.md, "Limits").

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
        let dave = "[[allow]]\nprincipals = ['dave']\napis = ['farm', 'gmail']\n";
        write("auth.toml", &format!("{CREDENTIALS}\n{dave}"));
        write(
            "windlass.toml",
            "apis = ['farm', 'gmail']\n[auth]\nfile = 'auth.toml'\n[sessions]\nchunks = 'lenient'\n\
            [limits]\nsessions_per_principal = 3\nbytes_per_principal = '100KB'\n\
            [gmail]\nrelay = 'smtp+plain://127.0.0.1:1'\n",
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

    // An open upload can be finished in any case.
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
    // The bytes for which there was room are kept.
    let last = reply
        .header("range")
        .and_then(|it| it.strip_prefix("bytes=0-"));
    let kept: u64 = last.expect("it has bytes").parse().expect("an offset");
    assert!((29_999..42_400).contains(&kept), "{kept}");
    // The last bytes state the total, so no byte is taken of a body that would not fit.
    let whole = session
        .ranged("bytes 30000-69999/70000")
        .body(media.bytes(30_000..70_000));
    assert_refused(&session.exchange(&whole));

    let delete = Request::new("DELETE", farm::animal(&farm::id(&stored)));
    limited.send(&delete, CAROL).expect(204);
    session.exchange(&chunk(30_000, 60_000)).expect(308);
    let last = session
        .ranged("bytes 60000-69999/70000")
        .body(media.bytes(60_000..70_000));
    session.exchange(&last).expect(201);
}

#[test]
fn uploads_at_the_same_time_share_what_is_left() {
    let limited = Limited::new();
    let head = |framing: &str| {
        format!(
            "POST {UPLOADS}?uploadType=media HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {CAROL}\r\n\
             Content-Type: image/png\r\n{framing}\r\n\r\n"
        )
    };
    let mut first = RawPeer::connect(limited.server.address());
    first.send(head("Content-Length: 80000\r\nExpect: 100-continue"));
    let asked = first.head().expect("an interim reply");
    assert_eq!(asked.status, 100, "its bytes are asked for");
    let mut second = RawPeer::connect(limited.server.address());
    second.send(head("Content-Length: 60000\r\nExpect: 100-continue"));
    assert_refused(&second.reply());
    // Of an unknown length, it ends before its body does.
    let mut endless = RawPeer::connect(limited.server.address());
    endless.send(head("Transfer-Encoding: chunked"));
    endless.send(format!("{:x}\r\n{}", 1 << 20, "x".repeat(60_000)));
    assert_refused(&endless.reply());
    first.send(vec![b'x'; 80_000]);
    first.reply().expect(200);
}

#[test]
fn media_counts_for_the_principal_who_has_sent_it() {
    let limited = Limited::new();
    let ids: Vec<_> = (0..3)
        .map(|n| limited.send(&farm::simple(Media::new(n, 1000)), CAROL))
        .map(|stored| farm::id(&stored.expect(200)))
        .collect();
    let replace = |id: &str, length: u64| {
        let media = Media::new(9, length).whole();
        let put = Request::new("PUT", format!("{UPLOADS}/{id}?uploadType=media"));
        put.header("Content-Type", "image/png").body(media)
    };
    limited.send(&replace(&ids[0], 60_000), DAVE).expect(200);
    assert_refused(&limited.send(&replace(&ids[1], 60_000), DAVE));
    limited.send(&replace(&ids[2], 60_000), CAROL).expect(200);
    // The owner has no room for a longer text either.
    let long = format!("{{\"name\": \"{}\"}}", "x".repeat(50_000));
    let patch =
        Request::new("PATCH", farm::animal(&ids[2])).header("Content-Type", "application/json");
    assert_refused(&limited.send(&patch.body(long), DAVE));
}

#[test]
fn what_is_remembered_of_finished_uploads_counts() {
    let limited = Limited::new();
    let metadata = farm::named(&"x".repeat(20_000));
    let refused = (0..10).find_map(|_| {
        let started = limited.send(&farm::start(&metadata), CAROL);
        if started.status != 200 {
            return Some(started);
        }
        let session = limited.session(&started);
        let made = session
            .exchange(&session.ranged("bytes */0").body(""))
            .expect(201);
        let delete = Request::new("DELETE", farm::animal(&farm::id(&made)));
        limited.send(&delete, CAROL).expect(204);
        None
    });
    assert_refused(&refused.expect("the replies of a few fill the quota"));
}

/// The sender has begun the conversation in the mailbox of the recipient.
#[test]
fn full_quota_of_a_sender_does_not_stop_the_recipient() {
    let limited = Limited::new();
    let send = |token: &str, text: String| {
        let path = "/upload/gmail/v1/users/me/messages/send?uploadType=media";
        let send = Request::new("POST", path).header("Content-Type", "message/rfc822");
        limited.send(&send.body(text), token)
    };
    let first = "To: dave@windlass.localhost\r\nMessage-ID: <first@x>\r\nSubject: field\r\n\r\nhay"
        .to_owned();
    send(CAROL, first).expect(200);
    let fill = |length| limited.send(&farm::simple(Media::new(1, length)), CAROL);
    while fill(10_000).status == 200 {}
    while fill(1).status == 200 {}

    let list = Request::new("GET", "/gmail/v1/users/me/messages");
    let listed = limited.send(&list, DAVE).expect(200).json();
    let id = listed["messages"][0]["id"].as_str().expect("it has come");
    for n in 0..12 {
        let answer = format!(
            "To: x@example.com\r\nIn-Reply-To: <first@x>\r\nReferences: <first@x>\r\nSubject: Re: field\r\n\r\n{n}"
        );
        send(DAVE, answer).expect(200);
    }
    let label = Request::new("POST", format!("/gmail/v1/users/me/messages/{id}/modify"))
        .header("Content-Type", "application/json")
        .body("{\"addLabelIds\": [\"STARRED\"]}");
    limited.send(&label, DAVE).expect(200);
    // Nor does the own quota, once it is full, keep anybody from reading and clearing up.
    while limited
        .send(&farm::simple(Media::new(1, 10_000)), DAVE)
        .status
        == 200
    {}
    while limited.send(&farm::simple(Media::new(1, 1)), DAVE).status == 200 {}
    for method in ["untrash", "trash"] {
        let path = format!("/gmail/v1/users/me/messages/{id}/{method}");
        limited.send(&Request::new("POST", path), DAVE).expect(200);
    }
    let delete = Request::new("DELETE", format!("/gmail/v1/users/me/messages/{id}"));
    limited.send(&delete, DAVE).expect(204);
}

/// The session itself was counted already, and its end does not depend on the rest of the quota.
#[test]
fn copies_for_recipients_count_at_the_end_of_a_session() {
    let limited = Limited::new();
    let finish = |header: usize| {
        let people = (0..50).map(|n| format!("u{n}@windlass.localhost"));
        let people = people.collect::<Vec<_>>().join(",\r\n ");
        let mail = format!("To: {people}\r\nX-Long: {}\r\n\r\nhay", "j".repeat(header));
        let path = "/upload/gmail/v1/users/me/messages/send?uploadType=resumable";
        let start = Request::new("POST", path)
            .header("X-Upload-Content-Type", "message/rfc822")
            .header("X-Upload-Content-Length", mail.len());
        let started = limited.send(&start, CAROL).expect(200);
        let session = limited.session(&started);
        let range = format!("bytes 0-{}/{}", mail.len() - 1, mail.len());
        limited.send(&session.ranged(&range).body(mail), CAROL)
    };
    assert_refused(&finish(40_000));
    finish(1_000).expect(201);
}

#[test]
fn mail_counts_until_it_is_delivered() {
    let limited = Limited::new();
    let mail = Request::new(
        "POST",
        "/upload/gmail/v1/users/me/messages/send?uploadType=media",
    )
    .header("Content-Type", "message/rfc822")
    .body(format!(
        "To: x@example.com\r\nSubject: long\r\n\r\n{}",
        "x".repeat(20_000)
    ));
    let refused = (0..10).find_map(|_| {
        let sent = limited.send(&mail, CAROL);
        if sent.status != 200 {
            return Some(sent);
        }
        let path = format!("/gmail/v1/users/me/messages/{}", farm::id(&sent));
        limited
            .send(&Request::new("DELETE", path), CAROL)
            .expect(204);
        None
    });
    assert_refused(&refused.expect("what waits for the relay fills the quota"));
}
