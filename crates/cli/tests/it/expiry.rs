//! The life of a session (docs/protocol.md, 4.23).

use std::thread;
use std::time::Duration;

use windlass_testkit::error_object::assert_error;
use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::raw::Reply;
use windlass_testkit::session::{CHUNK_GRANULARITY, Session};
use windlass_testkit::wait;

use crate::server::own;

const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/short_lives.toml");
const MEDIA: Media = Media::new(24, CHUNK_GRANULARITY);

/// Asks until the answer is not `alive` any more.
fn outlive(session: &Session, alive: u16) -> Reply {
    wait::until("the session expires", || session.query().status != alive);
    session.query()
}

#[test]
fn expired_session_is_answered_404_in_any_state() {
    let server = own(&["--config", CONFIG]);
    let address = server.address();
    let (active, cancelled, failed, finished) = (
        farm::begin(address, "active"),
        farm::begin(address, "cancelled"),
        farm::begin(address, "failed"),
        farm::begin(address, "finished"),
    );
    active
        .append(Media::new(0, 1 << 40), 0..CHUNK_GRANULARITY)
        .expect(308);
    cancelled.cancel().expect(499);
    failed.put("bytes 0-0/*", "a").expect(400);
    let reply = finished.append(MEDIA, 0..MEDIA.len()).expect(201);
    for (session, alive) in [
        (&active, 308),
        (&cancelled, 499),
        (&failed, 410),
        (&finished, 201),
    ] {
        assert_error(&outlive(session, alive), 404, "notFound", None);
    }
    let late = active.append(
        Media::new(0, 1 << 40),
        CHUNK_GRANULARITY..2 * CHUNK_GRANULARITY,
    );
    assert_error(&late, 404, "notFound", None);
    assert_error(&active.cancel(), 404, "notFound", None);
    farm::assert_media(address, &reply, MEDIA);
}

#[test]
fn an_idle_session_dies_early_and_progress_keeps_it_alive() {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/idle.toml");
    let server = own(&["--config", config]);
    let media = Media::new(25, 1 << 40);
    let (idle, busy) = (
        farm::begin(server.address(), "idle"),
        farm::begin(server.address(), "busy"),
    );
    let mut committed = 0;
    wait::until("the idle session expires", || {
        let end = committed + CHUNK_GRANULARITY;
        committed = busy.append(media, committed..end).committed();
        thread::sleep(Duration::from_millis(200));
        idle.query().status != 308
    });
    assert_error(&idle.query(), 404, "notFound", None);
    assert_eq!(busy.query().committed(), committed);
}
