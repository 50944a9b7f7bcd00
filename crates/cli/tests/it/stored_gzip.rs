//! Downloads of media that is stored in gzip (docs/protocol.md, 2.18).

use std::io::ErrorKind;

use windlass_testkit::encodings::gzip;
use windlass_testkit::http2::{Event, Http2Peer};
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{RawPeer, Reply, Request, exchange};
use windlass_testkit::wait;

use crate::server::own;

/// Media that is in the ledger when it is packed, and media that is in the vault.
const MEDIA: [Media; 2] = [Media::new(71, 1000), Media::new(72, 600_000)];

/// A server with the bucket `barn`.
pub(crate) fn storage() -> ServerProcess {
    storage_with(&[])
}

/// As [`storage`], with further arguments.
pub(crate) fn storage_with(arguments: &[&str]) -> ServerProcess {
    let server = own(&[&["--api", "storage"], arguments].concat());
    let bucket = Request::new("POST", "/storage/v1/b?project=farm").body(r#"{"name": "barn"}"#);
    exchange(server.address(), &bucket).expect(200);
    server
}

/// Puts the object `cow`, which says that it is in gzip.
pub(crate) fn put_gzip(server: &ServerProcess, stored: &[u8]) {
    let path = "/upload/storage/v1/b/barn/o?name=cow&contentEncoding=gzip";
    let upload = Request::new("POST", path).header("Content-Type", "text/plain");
    exchange(server.address(), &upload.body(stored)).expect(200);
}

/// The path of the object's media.
pub(crate) const COW: &str = "/storage/v1/b/barn/o/cow?alt=media";

fn get() -> Request {
    Request::new("GET", COW)
}

#[track_caller]
fn assert_chunked(reply: &Reply) {
    assert_eq!(reply.header("transfer-encoding"), Some("chunked"));
    assert_eq!(reply.header("content-length"), None);
}

#[test]
fn unpacked_media_goes_out_in_chunks_and_leaves_the_connection() {
    let server = storage();
    for media in MEDIA {
        put_gzip(&server, &gzip(&media.whole()));
        let mut peer = RawPeer::connect(server.address());
        for _ in 0..2 {
            let reply = peer
                .exchange(&get().header("Range", "bytes=0-9"))
                .expect(200);
            assert_chunked(&reply);
            assert_eq!(reply.header("content-encoding"), None);
            assert_eq!(reply.header("warning"), Some("214 UploadServer gunzipped"));
            assert!(reply.body == media.whole(), "{media:?}");
            let head = Request::new("HEAD", COW);
            peer.send(head.to_bytes());
            let head = peer.head_reply().expect(200);
            assert_eq!(head.header("content-length"), None);
            assert_eq!(head.header("etag"), reply.header("etag"));
        }
    }
}

#[test]
fn part_of_stored_gzip_goes_out_in_chunks() {
    let server = storage();
    for media in MEDIA {
        let packed = gzip(&media.whole());
        put_gzip(&server, &packed);
        let accepting = get().header("Accept-Encoding", "gzip, deflate");
        let whole = exchange(server.address(), &accepting).expect(200);
        assert_eq!(
            whole.header("content-length"),
            Some(&*packed.len().to_string())
        );
        assert!(whole.body == packed);
        let range = format!("bytes=0-{}", 10 * packed.len());
        let part = exchange(server.address(), &accepting.header("Range", range)).expect(206);
        assert_chunked(&part);
        assert_eq!(part.header("content-encoding"), Some("gzip"));
        let all = format!("bytes 0-{}/{}", packed.len() - 1, packed.len());
        assert_eq!(part.header("content-range"), Some(&*all));
        assert!(part.body == packed);
    }
}

#[test]
fn damaged_gzip_breaks_the_connection() {
    let server = storage();
    for media in MEDIA {
        let packed = gzip(&media.whole());
        for kept in [packed.len() / 2, packed.len() - 1] {
            put_gzip(&server, &packed[..kept]);
            let mut peer = RawPeer::connect(server.address());
            peer.send(get().to_bytes());
            let error = peer.try_reply().expect_err("it is not whole");
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{error}");
        }
    }
}

#[test]
fn damaged_gzip_resets_the_stream() {
    let server = storage();
    let packed = gzip(&MEDIA[0].whole());
    put_gzip(&server, &packed[..packed.len() - 1]);
    let mut peer = Http2Peer::connect(server.address(), 1 << 20);
    let stream = peer.get(COW);
    loop {
        match peer.next_event().expect("the connection goes on") {
            Some(Event::Reset { stream: of }) if of == stream => break,
            Some(Event::Head { status: 200, .. } | Event::Data { is_last: false, .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    let health = peer.get("/healthz");
    assert_eq!(peer.reply(health).status, 200);
}

#[test]
fn gzip_that_unpacks_to_nothing_without_end_breaks_the_connection() {
    const LEN: usize = 2 * 1024 * 1024;
    let server = storage();
    let member = gzip(b"");
    let members = member.repeat(LEN / member.len());
    // Stored blocks of no bytes. The last one, and the trailer, say that this is all.
    let block = [0, 0, 0, 0xff, 0xff];
    let last = [1, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];
    let blocks = [&member[..10], &block.repeat(LEN / block.len()), &last].concat();
    for packed in [members, blocks] {
        put_gzip(&server, &packed);
        let mut peer = RawPeer::connect(server.address());
        peer.send(get().to_bytes());
        let error = peer.try_reply().expect_err("it is not whole");
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{error}");
    }
}

#[test]
fn client_without_chunks_gets_the_stored_bytes_with_their_length() {
    let server = storage();
    for media in MEDIA {
        let packed = gzip(&media.whole());
        put_gzip(&server, &packed);
        for (headers, status, expected) in [
            ("", 200, &packed[..]),
            ("Range: bytes=5-99\r\n", 206, &packed[5..100]),
            (
                "Accept-Encoding: gzip\r\nRange: bytes=5-99\r\n",
                206,
                &packed[5..100],
            ),
        ] {
            let mut peer = RawPeer::connect(server.address());
            peer.send(format!("GET {COW} HTTP/1.0\r\n{headers}\r\n"));
            let reply = peer.reply().expect(status);
            let length = expected.len().to_string();
            assert_eq!(reply.header("content-length"), Some(&*length), "{headers}");
            assert_eq!(reply.header("content-encoding"), Some("gzip"));
            assert!(reply.body == expected, "{headers}");
        }
    }
}

#[test]
fn download_whose_client_has_left_is_not_unpacked_further() {
    let server = storage();
    let zeros = gzip(&vec![0; 1 << 20]);
    // A gigabyte.
    put_gzip(&server, &zeros.repeat(1024));
    let mut peer = RawPeer::connect(server.address());
    peer.send(get().to_bytes());
    peer.head().expect("it is answered");
    peer.reset();
    let metrics = Request::new("GET", "/metrics");
    for resource in ["downloads", "replies"] {
        wait::until("it is given back", || {
            let scrape = exchange(server.address(), &metrics).expect(200);
            let lines = scrape.text().lines();
            let mut used = lines.filter(|line| {
                line.starts_with("windlass_capacity_used") && line.contains(resource)
            });
            used.all(|line| line.ends_with(" 0"))
        });
    }
    assert!(server.peak_memory() < 96 * 1024 * 1024);
}
