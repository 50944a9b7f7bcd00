//! Whatever comes, the server answers it with a 4xx or hangs up, and stays healthy.

use windlass_testkit::farm::{self, ANIMALS, UPLOADS};
use windlass_testkit::media::Media;
use windlass_testkit::raw::{RawPeer, Request, exchange};

use crate::server::{farm, own};

/// Sends bytes and nothing more; every reply that comes must blame the client.
#[track_caller]
fn assert_survives(bytes: &[u8]) {
    let mut peer = RawPeer::connect(farm());
    peer.try_send(bytes).ok();
    peer.finish_sending();
    while let Ok(reply) = peer.try_reply() {
        assert!(
            (400..500).contains(&reply.status),
            "{}: {reply:?}",
            shown(bytes)
        );
    }
    assert!(peer.is_closed(), "{}", shown(bytes));
    assert_eq!(
        exchange(farm(), &Request::new("GET", "/healthz"))
            .expect(200)
            .text(),
        "ok\n"
    );
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned()
}

#[test]
fn random_bytes_are_survived() {
    for seed in 0..50 {
        let noise = Media::new(seed, 1 + seed * 37).whole();
        assert_survives(&noise);
        assert_survives(&[b"POST ", &noise[..], b"\r\n\r\n"].concat());
        assert_survives(&[b"PUT / HTTP/1.1\r\n", &noise[..], b"\r\n\r\n"].concat());
    }
}

#[test]
fn malformed_heads_are_survived() {
    let heads = [
        "\r\n\r\n",
        "GET\r\n\r\n",
        "GET /\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\n: no name\r\n\r\n",
        "GET / HTTP/1.1\r\nX: a\0b\r\n\r\n",
        "GET / HTTP/1.1\r\n folded\r\n\r\n",
        "GET  /  HTTP/1.1\r\n\r\n",
        "GET /\u{7f} HTTP/1.1\r\n\r\n",
        "POST /upload/farm/v1/animals?uploadType=media HTTP/1.1\r\nContent-Length: \r\n\r\n",
    ];
    for head in heads {
        assert_survives(head.as_bytes());
    }
}

#[test]
fn a_head_that_breaks_off_anywhere_is_survived() {
    let whole = farm::start(r#"{"name":"Llama"}"#)
        .header("Transfer-Encoding", "chunked")
        .to_bytes();
    for end in 0..whole.len() {
        assert_survives(&whole[..end]);
    }
}

#[test]
fn a_long_head_is_taken() {
    let long = Request::new("GET", "/healthz").header("X-Long", "x".repeat(30_000));
    RawPeer::connect(farm()).exchange(&long).expect(200);
}

#[test]
fn a_huge_head_is_answered_431() {
    for len in [40_000, 140_000, 2_000_000] {
        let huge = Request::new("GET", "/healthz").header("X-Huge", "x".repeat(len));
        let mut peer = RawPeer::connect(farm());
        peer.try_send(huge.to_bytes()).ok();
        assert_eq!(peer.reply().status, 431, "{len}");
    }
    let many = (0..2000).fold(Request::new("GET", "/healthz"), |request, number| {
        request.header(&format!("X-{number}"), "x")
    });
    let mut peer = RawPeer::connect(farm());
    peer.try_send(many.to_bytes()).ok();
    assert_eq!(peer.reply().status, 431);
}

#[test]
fn a_long_target_is_refused() {
    for len in [5_000, 60_000, 200_000] {
        for target in [
            format!("{ANIMALS}/{}", "a".repeat(len)),
            format!("{ANIMALS}?pageToken={}", "a".repeat(len)),
        ] {
            let mut peer = RawPeer::connect(farm());
            peer.try_send(Request::new("GET", target).to_bytes()).ok();
            let reply = peer.reply();
            assert!(
                matches!(reply.status, 400 | 404 | 414 | 431),
                "{len}: {}",
                reply.status
            );
        }
    }
}

#[test]
fn strange_targets_are_answered_4xx() {
    let targets = [
        "/farm/v1/animals/%",
        "/farm/v1/animals/%zz",
        "/farm/v1/animals/%ff%fe",
        "/farm/v1/animals/%00",
        "/farm/v1/animals/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/farm/v1/animals/../../../etc/passwd",
        "/farm/v1/animals/a%2Fb",
        "/upload/farm/v1/animals/%?uploadType=media",
        "/upload/farm/v1/animals/..?uploadType=media",
        "//",
        "/x?",
        "/%",
        "*",
    ];
    for target in targets {
        // OPTIONS says what a path takes, whether or not it names a resource.
        for verb in ["GET", "PUT", "POST", "BREW"] {
            assert_survives(
                &Request::new(verb, target)
                    .header("Content-Type", "image/png")
                    .body("abc")
                    .to_bytes(),
            );
        }
    }
}

#[test]
fn strange_parameters_are_survived() {
    let queries = [
        "uploadType=%ff",
        "uploadType",
        "uploadType=media&uploadType=resumable&fields=((((",
        "upload_id=%ff",
        "upload_id",
        "uploadType=resumable&fields=a%00",
        "uploadType=resumable&alt=%F0%9F%90%84",
    ];
    for query in queries {
        let request = Request::new("PUT", format!("{UPLOADS}?{query}")).body("abc");
        assert_survives(&request.to_bytes());
    }
}

#[test]
fn deep_json_is_a_parse_error() {
    for depth in [200, 100_000] {
        let deep = format!("{{\"name\":{}1{}}}", "[".repeat(depth), "]".repeat(depth));
        let reply = exchange(farm(), &farm::start(&deep)).expect(400);
        assert_eq!(reply.json()["error"]["errors"][0]["reason"], "parseError");
    }
}

#[test]
fn deep_fields_are_refused() {
    let target = format!(
        "{ANIMALS}?fields={}a{}",
        "a(".repeat(1000),
        ")".repeat(1000)
    );
    exchange(farm(), &Request::new("GET", target)).expect(400);
}

#[test]
fn strange_session_requests_are_answered_4xx() {
    for seed in 0..30 {
        let session = farm::begin(farm(), "strange");
        let noise: String = Media::new(seed, 30)
            .whole()
            .iter()
            .map(|byte| char::from(b' ' + byte % 94))
            .collect();
        for name in [
            "Content-Range",
            "X-Goog-Hash",
            "Content-Encoding",
            "X-HTTP-Method-Override",
        ] {
            let request = session
                .request("POST")
                .header(name, &noise)
                .header("Content-Length", 3);
            assert_survives(&request.raw_body("abc").to_bytes());
        }
    }
}

#[test]
fn many_silent_connections_do_not_exclude_others() {
    let server = own(&[]);
    let idle: Vec<_> = (0..200)
        .map(|_| RawPeer::connect(server.address()))
        .collect();
    let media = Media::new(30, 1000);
    farm::assert_media(
        server.address(),
        &farm::upload(server.address(), media),
        media,
    );
    drop(idle);
}
