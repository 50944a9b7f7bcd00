//! Uploads in another protocol than Google's first form.

use windlass_testkit::farm;
use windlass_testkit::fault_proxy::{Fault, FaultProxy, Plan};
use windlass_testkit::media::Media;
use windlass_testkit::raw::exchange;

use super::run::{ClientDir, assert_media, uploads};
use crate::server::{farm, own};

const MEDIA: Media = Media::new(23, 6 << 20);

/// The protocols besides Google's first form.
const OTHERS: [&str; 3] = ["x-goog-upload", "tus", "ietf"];

/// The words of an upload in this protocol. tus and the draft have no place for JSON: the animal has
/// the name of the file.
fn words<'a>(url: &'a str, file: &'a str, protocol: &'a str) -> Vec<&'a str> {
    vec!["upload", file, url, "--protocol", protocol]
}

#[test]
fn upload_is_continued_after_kill_9_and_checked() {
    for protocol in OTHERS {
        let client_dir = ClientDir::new();
        let file = format!("film-{protocol}.mp4");
        client_dir.media(&file, MEDIA);
        let url = uploads(farm());
        let words = words(&url, &file, protocol);
        let slowly = ["--max-rate", "2M", "--chunk-size", "256K"];
        let mut running = client_dir.start(&[&words[..], &slowly].concat());
        running.until_committed(512 << 10);
        running.kill9();
        let left = client_dir.unfinished().remove(0);
        assert_eq!(left["protocol"], protocol);

        let status = client_dir.run(&["status", "--json"]).expect(0).json();
        assert_eq!(status["state"], "active");
        assert!(status["committed"].as_u64() >= Some(512 << 10), "{status}");

        let ran = client_dir.run(&["resume", "--json"]).expect(0);
        let uploaded = ran.events("uploaded").remove(0);
        assert_eq!(uploaded["protocol"], protocol);
        assert_eq!(uploaded["restarts"], 0);
        assert_media(farm(), &uploaded["resource"], MEDIA);
        assert_eq!(client_dir.unfinished().len(), 0);
    }
}

#[test]
fn upload_whose_session_is_gone_begins_again_once() {
    for protocol in OTHERS {
        let client_dir = ClientDir::new();
        client_dir.media("film.mp4", MEDIA);
        let proxy = FaultProxy::start(farm());
        let gone = Fault::Replace {
            status: 404,
            body: "",
        };
        proxy.set_plan(Plan::once(2, gone));
        let url = uploads(proxy.address());
        let words = words(&url, "film.mp4", protocol);
        let ran = client_dir.run(&[&words[..], &["--chunk-size", "1M", "--json"]].concat());
        let uploaded = ran.expect(0).events("uploaded").remove(0);
        assert_eq!(uploaded["restarts"], 1, "{protocol}");
        assert_media(farm(), &uploaded["resource"], MEDIA);
    }
}

#[test]
fn upload_whose_last_reply_was_lost_is_found_finished_and_not_repeated() {
    for protocol in OTHERS {
        let server = own(&[]);
        let client_dir = ClientDir::new();
        client_dir.media("film.mp4", MEDIA);
        let proxy = FaultProxy::start(server.address());
        // As for a client that is killed when the server has finished the upload.
        proxy.set_plan(Plan::new(|request| {
            request.is_session.then_some(Fault::LoseReply)
        }));
        let url = uploads(proxy.address());
        let words = words(&url, "film.mp4", protocol);
        let whole = ["--chunk-size", "8M", "--retries", "0"];
        client_dir.run(&[&words[..], &whole].concat()).expect(4);
        proxy.set_plan(Plan::none());
        let ran = client_dir.run(&["resume", "--json"]).expect(0);
        let uploaded = ran.events("uploaded").remove(0);
        assert_eq!(uploaded["restarts"], 0, "{protocol}");
        let list = exchange(server.address(), &farm::list("")).expect(200);
        let animals = list.field("items");
        assert_eq!(animals.as_array().map(Vec::len), Some(1), "{protocol}");
        assert_media(server.address(), &animals[0], MEDIA);
    }
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
