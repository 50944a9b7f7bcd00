//! Cancelled uploads (docs/protocol.md, 2.9 and 4.17).

use std::fs;
use std::path::Path;

use windlass_testkit::error_object::assert_error;
use windlass_testkit::media::Media;
use windlass_testkit::raw::{Reply, Request, exchange};
use windlass_testkit::session::CHUNK_GRANULARITY;
use windlass_testkit::{farm, wait};

use crate::server::{farm, own};

const MEDIA: Media = Media::new(12, CHUNK_GRANULARITY + 1);

#[track_caller]
fn assert_cancelled(reply: &Reply) {
    assert_eq!(reply.status, 499, "{reply:?}");
    assert_eq!(reply.reason, "Client Closed Request");
    assert_eq!(reply.header("content-length"), Some("0"));
}

#[test]
fn a_cancel_is_answered_499_and_so_is_everything_after_it() {
    let name = "cancelled";
    let session = farm::begin(farm(), name);
    session.append(MEDIA, 0..CHUNK_GRANULARITY).expect(308);
    assert_cancelled(&session.cancel());
    assert_cancelled(&session.cancel());
    assert_cancelled(&session.query());
    assert_cancelled(&session.append(MEDIA, CHUNK_GRANULARITY..MEDIA.len()));
    assert_cancelled(&session.exchange(&session.request("POST").body("abc")));
    assert_eq!(farm::count(farm(), name), 0);
}

#[test]
fn a_cancel_needs_no_length() {
    let session = farm::begin(farm(), "cancelled");
    assert_cancelled(&session.exchange(&session.request("DELETE")));
}

#[test]
fn cancel_may_be_a_post_with_method_override() {
    let session = farm::begin(farm(), "cancelled");
    let request = session
        .request("POST")
        .header("X-HTTP-Method-Override", "DELETE");
    assert_cancelled(&session.exchange(&request.body("")));
}

#[test]
fn a_finished_upload_cannot_be_cancelled_and_keeps_its_resource() {
    let session = farm::begin(farm(), "finished");
    let reply = session.append(MEDIA, 0..MEDIA.len()).expect(201);
    assert_error(&session.cancel(), 400, "badRequest", None);
    farm::assert_media(farm(), &reply, MEDIA);
    assert_eq!(session.query().body, reply.body);
}

#[test]
fn a_cancel_of_an_unknown_session_is_answered_404() {
    let session = farm::begin(farm(), "cancelled");
    let target = session.target().replace(session.upload_id(), "nobody");
    let reply = exchange(farm(), &Request::new("DELETE", target).body(""));
    assert_error(&reply, 404, "notFound", None);
}

#[test]
fn a_cancel_stops_an_append_that_is_under_way() {
    let name = "cancelled-under-way";
    let session = farm::begin(farm(), name);
    let mut peer = session.peer();
    let request = session
        .ranged("bytes 0-262144/262145")
        .header("Content-Length", MEDIA.len());
    peer.send(request.head_bytes());
    peer.send(MEDIA.bytes(0..100_000));
    assert_cancelled(&session.cancel());
    peer.try_send(MEDIA.bytes(100_000..MEDIA.len())).ok();
    if let Ok(reply) = peer.try_reply() {
        assert!(matches!(reply.status, 499 | 503), "{reply:?}");
    }
    assert_cancelled(&session.query());
    assert_eq!(farm::count(farm(), name), 0);
}

#[test]
fn the_media_of_a_cancelled_upload_is_soon_deleted() {
    let server = own(&[]);
    let session = farm::begin(server.address(), "cancelled");
    let media = Media::new(43, 4 * CHUNK_GRANULARITY);
    session.append(media, 0..2 * CHUNK_GRANULARITY).expect(308);
    let vault = server.data().join("vault");
    assert_eq!(media_below(&vault), 1);
    session.cancel().expect(499);
    wait::until("the media is deleted", || media_below(&vault) == 0);
}

/// The number of files in a vault, without the file that names its store.
fn media_below(vault: &Path) -> usize {
    files_below(vault) - 1
}

fn files_below(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).expect("a directory");
    let entries = entries.map(|entry| entry.expect("it can be read").path());
    entries
        .map(|path| if path.is_dir() { files_below(&path) } else { 1 })
        .sum()
}
