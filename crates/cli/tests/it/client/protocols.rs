//! Uploads in another protocol than Google's first form.

use windlass_testkit::farm;
use windlass_testkit::media::Media;

use super::run::{ClientDir, assert_media, uploads};
use crate::server::farm;

const MEDIA: Media = Media::new(23, 6 << 20);

#[test]
fn x_goog_upload_is_continued_after_kill_9_and_checked() {
    let client_dir = ClientDir::new();
    client_dir.media("film.mp4", MEDIA);
    let url = uploads(farm());
    let metadata = farm::named("by commands");
    let words = ["upload", "film.mp4", &url, "--metadata", &metadata];
    let words = [&words[..], &["--protocol", "x-goog-upload"]].concat();
    let slowly = ["--max-rate", "2M", "--chunk-size", "256K"];
    let mut running = client_dir.start(&[&words[..], &slowly].concat());
    running.until_committed(512 << 10);
    running.kill9();
    let left = client_dir.unfinished().remove(0);
    assert_eq!(left["protocol"], "x-goog-upload");

    let status = client_dir.run(&["status", "--json"]).expect(0).json();
    assert_eq!(status["state"], "active");
    assert!(status["committed"].as_u64() >= Some(512 << 10), "{status}");

    let ran = client_dir.run(&["resume", "--json"]).expect(0);
    let uploaded = ran.events("uploaded").remove(0);
    assert_eq!(uploaded["protocol"], "x-goog-upload");
    assert_eq!(uploaded["restarts"], 0);
    assert_media(farm(), &uploaded["resource"], MEDIA);
    assert_eq!(farm::count(farm(), "by commands"), 1);
    assert_eq!(client_dir.unfinished().len(), 0);
}

#[test]
fn protocol_of_an_upload_in_the_journal_cannot_be_chosen() {
    let client_dir = ClientDir::new();
    for command in ["status", "cancel"] {
        let ran = client_dir.run(&[command, "mzxw6ytb", "--protocol", "tus"]);
        ran.expect(2)
            .says("--protocol is for session URIs; an upload of the journal has its own");
    }
}

#[test]
fn type_without_a_session_is_refused() {
    let client_dir = ClientDir::new();
    client_dir.media("film.mp4", MEDIA);
    let words = ["upload", "film.mp4", "http://127.0.0.1:9/files"];
    let words = [&words[..], &["--protocol", "tus", "--type", "media"]].concat();
    let ran = client_dir.run(&words).expect(2);
    ran.says("an upload by tus is a session");
}
