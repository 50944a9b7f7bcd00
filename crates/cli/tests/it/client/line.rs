//! Uploads over a bad line.

use windlass_testkit::fault_proxy::{Fault, FaultProxy, Plan};
use windlass_testkit::media::Media;

use super::run::{ClientDir, assert_media, uploads};
use crate::server::farm;

const MEDIA: Media = Media::new(41, 6 << 20);

#[test]
fn broken_connection_is_retried_and_shown() {
    let client_dir = ClientDir::new();
    client_dir.media("film.mp4", MEDIA);
    let proxy = FaultProxy::start(farm());
    proxy.set_plan(Plan::once(0, Fault::CutRequest { after: 2 << 20 }));
    let url = uploads(proxy.address());
    let ran = client_dir
        .run(&["upload", "film.mp4", &url, "--json"])
        .expect(0);
    let waiting = ran.events("progress").into_iter();
    let mut waiting = waiting.filter(|event| event["state"] == "waiting");
    let wait = waiting.next().expect("it waits")["wait"].clone();
    assert_eq!(
        (wait["attempt"].as_u64(), wait["of"].as_u64()),
        (Some(2), Some(6))
    );
    assert!(
        wait["seconds"].is_f64() && wait["cause"].is_string(),
        "{wait}"
    );
    let uploaded = ran.events("uploaded").remove(0);
    assert_media(farm(), &uploaded["resource"], MEDIA);
}

#[test]
fn when_retries_are_used_up_the_hint_says_how_to_carry_on() {
    let client_dir = ClientDir::new();
    client_dir.media("film.mp4", MEDIA);
    let proxy = FaultProxy::start(farm());
    proxy.set_plan(Plan::new(|request| {
        request
            .is_session
            .then_some(Fault::CutRequest { after: 1 << 20 })
    }));
    let url = uploads(proxy.address());
    let ran = client_dir
        .run(&["upload", "film.mp4", &url, "--retries", "0", "--json"])
        .expect(4);
    let failed = ran.events("failed").remove(0);
    let id = failed["upload"].as_str().expect("an id");
    ran.says(&format!("`windlass resume {id}` carries on"));
    proxy.set_plan(Plan::none());
    let ran = client_dir.run(&["resume", id]).expect(0);
    assert_media(farm(), &ran.json(), MEDIA);
}
