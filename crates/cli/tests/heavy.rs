//! What takes gigabytes or a thousand connections. Run by `.ci/run`:
//!
//! `cargo test -p windlass --features heavy --test heavy`
#![cfg(feature = "heavy")]

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::process::{Launch, ServerProcess};
use windlass_testkit::raw::RawPeer;
use windlass_testkit::session::{Session, content_range};

const MIB: u64 = 1024 * 1024;

fn server() -> ServerProcess {
    ServerProcess::start(Launch {
        binary: Path::new(env!("CARGO_BIN_EXE_windlass")),
        scratch: Path::new(env!("CARGO_TARGET_TMPDIR")),
        arguments: Vec::new(),
    })
}

#[test]
fn four_gib_in_one_request_take_less_than_64_mib_of_memory() {
    let media = Media::new(4, 4096 * MIB);
    let server = server();
    let session = farm::begin(server.address(), "four");
    let mut peer = session.peer();
    peer.set_patience(Duration::from_secs(300));
    let request = session.ranged(&content_range(media, &(0..media.len())));
    peer.send(request.header("Content-Length", media.len()).head_bytes());
    let mut reader = media.reader(0..media.len());
    let mut piece = vec![0; 1024 * 1024];
    while let Ok(len @ 1..) = reader.read(&mut piece) {
        peer.send(&piece[..len]);
    }
    let reply = peer.reply().expect(201);
    assert_eq!(reply.field("size"), media.len().to_string());
    assert_eq!(reply.field("crc32c"), media.crc32c());
    let peak = server.peak_memory();
    println!("peak memory: {} KiB", peak / 1024);
    assert!(peak < 64 * MIB, "{peak} bytes");
}

#[test]
fn a_thousand_trickling_sessions_take_less_than_200_mib_of_memory() {
    const SESSIONS: u64 = 1000;
    const LEN: u64 = 200_000;
    let server = server();
    let mut open: Vec<(Session, RawPeer, Media)> = (0..SESSIONS)
        .map(|seed| {
            let media = Media::new(seed, LEN);
            let session = farm::begin(server.address(), "trickle");
            let mut peer = session.peer();
            let request = session.ranged(&content_range(media, &(0..LEN)));
            peer.send(request.header("Content-Length", LEN).head_bytes());
            (session, peer, media)
        })
        .collect();
    // Small pieces, in turn, so that all of them are half done at the same time.
    for step in 0..100 {
        let range = step * LEN / 100..(step + 1) * LEN / 100;
        for (_, peer, media) in &mut open {
            peer.send(media.bytes(range.clone()));
        }
    }
    for (session, mut peer, media) in open {
        let reply = peer.reply().expect(201);
        assert_eq!(reply.field("crc32c"), media.crc32c());
        assert_eq!(session.query().body, reply.body);
    }
    let peak = server.peak_memory();
    println!("peak memory: {} KiB", peak / 1024);
    assert!(peak < 200 * MIB, "{peak} bytes");
}
