//! Uploads that are conditional on the resource they replace (docs/protocol.md, 4.25).

use windlass_testkit::farm::{self, UPLOADS};
use windlass_testkit::media::Media;
use windlass_testkit::raw::{Request, exchange};
use windlass_testkit::session::Session;

use crate::server::farm;

const OLD: Media = Media::new(41, 100);
const NEW: Media = Media::new(42, 300_000);

fn update(id: &str, upload_type: &str, if_match: &str) -> Request {
    Request::new("PUT", format!("{UPLOADS}/{id}?uploadType={upload_type}"))
        .header("Content-Type", "image/png")
        .header("If-Match", if_match)
}

#[test]
fn an_upload_replaces_only_the_version_that_it_names() {
    let animal = farm::upload(farm(), OLD);
    let (id, etag) = (farm::id(&animal), animal.field("etag"));
    let etag = etag.as_str().expect("a text");
    let stale = update(&id, "media", "\"v99\"").body(NEW.whole());
    exchange(farm(), &stale).expect(412);
    let right = update(&id, "media", etag).body(NEW.whole());
    let reply = exchange(farm(), &right).expect(200);
    farm::assert_media(farm(), &reply, NEW);
    exchange(farm(), &right).expect(412);
}

#[test]
fn a_condition_that_no_longer_holds_at_the_end_ends_the_session() {
    let animal = farm::upload(farm(), OLD);
    let (id, etag) = (farm::id(&animal), animal.field("etag"));
    let etag = etag.as_str().expect("a text");
    let session = Session::start(farm(), &update(&id, "resumable", etag).body(""));
    exchange(farm(), &update(&id, "media", etag).body(OLD.whole())).expect(200);
    session.append(NEW, 0..NEW.len()).expect(412);
    session.query().expect(410);
}
