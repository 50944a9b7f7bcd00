//! The upload tokens of Google Photos, which are secrets: the whole program.

use std::net::SocketAddr;

use serde_json::json;
use windlass_testkit::raw::{RawPeer, Reply, Request, exchange};
use windlass_testkit::session::target_in;

use crate::server::own;

fn command(target: &str, command: &str, offset: usize) -> Request {
    Request::new("POST", target)
        .header("X-Goog-Upload-Command", command)
        .header("X-Goog-Upload-Offset", offset)
}

#[track_caller]
fn token_in(reply: &Reply) -> String {
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.header("x-goog-upload-status"), Some("final"));
    let content_type = reply.header("content-type");
    assert_eq!(content_type, Some("text/plain; charset=utf-8"));
    reply.text().to_owned()
}

fn create(address: SocketAddr, token: &str) -> Reply {
    let item = json!({"simpleMediaItem": {"uploadToken": token}});
    let body = json!({"newMediaItems": [item]}).to_string();
    let request = Request::new("POST", "/v1/mediaItems:batchCreate")
        .header("Content-Type", "application/json")
        .body(body);
    exchange(address, &request).expect(200)
}

#[test]
fn token_survives_a_lost_reply_and_a_crash_and_is_in_no_log() {
    let mut server = own(&["--api", "photoslibrary", "--log", "trace"]);
    let start = Request::new("POST", "/v1/uploads")
        .header("X-Goog-Upload-Protocol", "resumable")
        .header("X-Goog-Upload-Command", "start")
        .header("X-Goog-Upload-Content-Type", "image/png")
        .header("X-Goog-Upload-Raw-Size", 9)
        .body("");
    let started = exchange(server.address(), &start).expect(200);
    let target = target_in(&started, "x-goog-upload-url").expect("an absolute URI");
    let chunk = command(&target, "upload", 0).body("a pic");
    exchange(server.address(), &chunk).expect(200);
    let last = command(&target, "upload, finalize", 5).body("ture");
    let mut peer = RawPeer::connect(server.address());
    peer.send(last.to_bytes());
    // The reply is lost with the connection.
    let _ = peer.bytes(1);
    drop(peer);

    let query = command(&target, "query", 0).body("");
    let token = token_in(&exchange(server.address(), &query));
    server.kill9();
    server.start_again();
    assert_eq!(token, token_in(&exchange(server.address(), &last)));

    let made = create(server.address(), &token).json();
    let item = &made["newMediaItemResults"][0]["mediaItem"];
    assert_eq!(item["mimeType"], "image/png", "{made}");
    let path = format!("/v1/media/{}=d", item["id"].as_str().expect("an id"));
    let media = exchange(server.address(), &Request::new("GET", path));
    assert_eq!(media.body, b"a picture");
    let again = create(server.address(), &token).json();
    assert_eq!(again["newMediaItemResults"][0]["status"]["code"], 3);

    let log = server.stderr();
    assert!(log.contains("/v1/mediaItems:batchCreate"), "{log}");
    assert!(!log.contains(&token), "{log}");
}
