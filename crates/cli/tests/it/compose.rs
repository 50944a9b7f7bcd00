//! Objects that are put together from others (docs/apis/storage.md, docs/durability.md).

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_testkit::error_object::assert_error;
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{RawPeer, Reply, Request, exchange};
use windlass_testkit::rng::Rng;

use crate::server::own;
use crate::upkeep::assert_sound;

const MIB: u64 = 1 << 20;

/// Media in the vault, of an odd length, and media in the ledger.
const LARGE: Media = Media::new(61, 16 * MIB + 7);
const SMALL: Media = Media::new(62, 1000);

fn json(target: &str, body: &Value) -> Request {
    Request::new("POST", target)
        .header("Content-Type", "application/json")
        .body(body.to_string())
}

/// A server with the bucket `barn`, and the objects `large` and `small` in it.
fn barn() -> ServerProcess {
    let server = own(&["--api", "storage"]);
    let bucket = json("/storage/v1/b?project=farm", &json!({"name": "barn"}));
    exchange(server.address(), &bucket).expect(200);
    for (name, media) in [("large", LARGE), ("small", SMALL)] {
        put(server.address(), name, media);
    }
    server
}

fn put(address: SocketAddr, name: &str, media: Media) {
    let target = format!("/upload/storage/v1/b/barn/o?uploadType=media&name={name}");
    exchange(address, &Request::new("POST", target).body(media.whole())).expect(200);
}

fn compose(name: &str, sources: &[&str]) -> Request {
    let sources: Vec<_> = sources.iter().map(|name| json!({"name": name})).collect();
    let target = format!("/storage/v1/b/barn/o/{name}/compose");
    json(&target, &json!({"sourceObjects": sources}))
}

fn download(address: SocketAddr, name: &str) -> Reply {
    let target = format!("/storage/v1/b/barn/o/{name}?alt=media");
    exchange(address, &Request::new("GET", target))
}

/// Asserts that an object is these media, one after another.
#[track_caller]
fn assert_is(address: SocketAddr, name: &str, media: &[Media]) {
    let reply = download(address, name).expect(200);
    let mut rest = &reply.body[..];
    for media in media {
        let length = usize::try_from(media.len()).expect("it is in memory");
        let (this, others) = rest.split_at(length.min(rest.len()));
        let same = media.compare(0..media.len(), this);
        same.unwrap_or_else(|error| panic!("{name}: {error}"));
        rest = others;
    }
    assert!(rest.is_empty(), "{} bytes more", rest.len());
}

#[test]
fn composed_object_is_the_bytes_of_its_sources_and_survives_kill_9() {
    let mut server = barn();
    let order = ["small", "large", "large", "small"];
    let composed = exchange(server.address(), &compose("herd", &order)).expect(200);
    server.kill9();
    assert_eq!(composed.field("componentCount"), 4);
    assert_eq!(composed.field("md5Hash"), Value::Null);
    let size = 2 * (LARGE.len() + SMALL.len());
    assert_eq!(composed.field("size"), size.to_string());
    server.start_again();
    assert_is(server.address(), "herd", &[SMALL, LARGE, LARGE, SMALL]);
    let hash = download(server.address(), "herd")
        .header("x-goog-hash")
        .map(str::to_owned);
    let crc32c = composed.field("crc32c");
    assert_eq!(
        hash.as_deref(),
        Some(&*format!("crc32c={}", crc32c.as_str().unwrap()))
    );
}

#[test]
fn composition_needs_little_memory() {
    let server = barn();
    let before = server.peak_memory();
    exchange(server.address(), &compose("herd", &["large"; 8])).expect(200);
    let grown = server.peak_memory() - before;
    assert!(
        grown < 8 * MIB,
        "{grown} bytes more for {} bytes",
        8 * LARGE.len()
    );
}

#[test]
fn source_that_is_not_there_is_named() {
    let server = barn();
    let reply = exchange(server.address(), &compose("herd", &["large", "none"]));
    assert_error(&reply, 404, "notFound", None);
    assert!(reply.text().contains("barn/none"), "{}", reply.text());
}

/// Fault model: `kill -9` at a random moment of a call, most of them while the vault copies.
#[test]
fn crash_in_a_composition_leaves_the_sources_and_the_old_object_or_the_new_one() {
    let mut server = barn();
    let mut rng = Rng::new(7);
    let mut replaced = 0;
    put(server.address(), "herd", SMALL);
    for _ in 0..8 {
        let mut peer = RawPeer::connect(server.address());
        peer.send(compose("herd", &["large", "small", "large", "small"]).to_bytes());
        std::thread::sleep(Duration::from_micros(rng.within(1_000..60_000)));
        server.kill9();
        server.start_again();
        assert_is(server.address(), "large", &[LARGE]);
        assert_is(server.address(), "small", &[SMALL]);
        if download(server.address(), "herd").body.len() as u64 == SMALL.len() {
            assert_is(server.address(), "herd", &[SMALL]);
        } else {
            assert_is(server.address(), "herd", &[LARGE, SMALL, LARGE, SMALL]);
            replaced += 1;
            put(server.address(), "herd", SMALL);
        }
    }
    println!("8 kills, {replaced} objects composed before them");
    assert!(server.terminate().success(), "{}", server.stderr());
    assert_sound(&server.data());
}
