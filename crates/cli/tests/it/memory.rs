//! Memory does not grow with the size of the media.

use std::io::Read as _;

use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::session::content_range;

use crate::server::own;

const MEDIA: Media = Media::new(29, 192 * 1024 * 1024);

/// The server itself, its buffers, and the 32 MiB that uploads may hold together.
const BOUND: u64 = 96 * 1024 * 1024;

/// For example `PUT` with `bytes */*` and an endless chunked body.
#[test]
fn questions_whose_end_does_not_come_hold_no_metadata() {
    let server = own(&[]);
    // It is escaped once more where it is kept.
    let session = farm::begin(server.address(), &"\\\\".repeat(500_000));
    let question = session
        .ranged("bytes */*")
        .header("Transfer-Encoding", "chunked");
    let mut peers: Vec<_> = (0..240).map(|_| session.peer()).collect();
    for peer in &mut peers {
        peer.send(question.head_bytes());
    }
    // All have begun when their ends are answered.
    for peer in &mut peers {
        peer.send("0\r\n\r\n");
        peer.reply().expect(308);
    }
    // The metadata of all queries would take 480 MB. The memory for concurrent parsing depends on
    // the processors.
    assert!(
        server.peak_memory() < 256 * 1024 * 1024,
        "{} bytes",
        server.peak_memory()
    );
}

#[test]
fn an_upload_larger_than_the_bound_is_taken_within_the_bound() {
    let server = own(&[]);
    let session = farm::begin(server.address(), "large");
    let mut peer = session.peer();
    let request = session.ranged(&content_range(MEDIA, &(0..MEDIA.len())));
    peer.send(request.header("Content-Length", MEDIA.len()).head_bytes());
    let mut reader = MEDIA.reader(0..MEDIA.len());
    let mut piece = vec![0; 1024 * 1024];
    while let Ok(len @ 1..) = reader.read(&mut piece) {
        peer.send(&piece[..len]);
    }
    let reply = peer.reply().expect(201);
    assert_eq!(reply.field("size"), MEDIA.len().to_string());
    assert_eq!(reply.field("crc32c"), MEDIA.crc32c());
    assert!(
        server.peak_memory() < BOUND,
        "{} bytes",
        server.peak_memory()
    );
}
