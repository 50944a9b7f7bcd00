//! Uploads that survive the process that began them.

use std::time::{Duration, SystemTime};

use serde_json::Value;
use windlass_testkit::farm;
use windlass_testkit::media::Media;

use super::run::{ClientDir, Running, assert_media, uploads};
use crate::server::farm;

const KIB: u64 = 1 << 10;
const MEDIA: Media = Media::new(21, 6 << 20);

/// Slow enough that it can be stopped in the middle, in steps that are committed one by one.
const SLOWLY: [&str; 4] = ["--max-rate", "2M", "--chunk-size", "256K"];

/// A running upload of a film of this name, with this number of committed bytes.
fn begun(client_dir: &ClientDir, name: &str, committed: u64) -> Running {
    let url = uploads(farm());
    let metadata = farm::named(name);
    let words = ["upload", "film.mp4", &url, "--metadata", &metadata];
    let mut running = client_dir.start(&[&words[..], &SLOWLY].concat());
    running.until_committed(committed);
    running
}

/// A client's directory with a film and its partial upload.
fn client_dir(name: &str) -> ClientDir {
    let client_dir = ClientDir::new();
    client_dir.media("film.mp4", MEDIA);
    begun(&client_dir, name, 512 * KIB).kill9();
    client_dir
}

#[test]
fn the_same_command_carries_on_after_kill_9() {
    let client_dir = client_dir("killed");
    let left = client_dir.unfinished().remove(0);
    assert!(left["committed"].as_u64() > Some(0), "{left}");
    assert_eq!(left["total"], MEDIA.len());
    let words = [
        "upload",
        "film.mp4",
        &uploads(farm()),
        "--metadata",
        r#"{"name":"killed"}"#,
    ];
    let ran = client_dir
        .run(&[&words[..], &["--json"]].concat())
        .expect(0);
    let first = ran.events("progress").into_iter();
    let mut sending = first.filter(|event| event["state"] == "sending");
    let sending = sending.next().expect("it sends");
    assert!(
        sending["committed"].as_u64() >= Some(512 * KIB),
        "{sending}"
    );
    let uploaded = ran.events("uploaded").remove(0);
    assert_eq!(uploaded["restarts"], 0);
    assert_media(farm(), &uploaded["resource"], MEDIA);
    assert_eq!(farm::count(farm(), "killed"), 1);
    assert_eq!(client_dir.unfinished().len(), 0);
}

#[test]
fn without_a_terminal_it_says_that_it_carries_on() {
    let client_dir = client_dir("lines");
    let words = [
        "upload",
        "film.mp4",
        &uploads(farm()),
        "--metadata",
        r#"{"name":"lines"}"#,
    ];
    let ran = client_dir.run(&words).expect(0);
    ran.says("film.mp4: carrying on; ");
    ran.says(" of 6 MiB committed, begun ");
    assert_media(farm(), &ran.json(), MEDIA);
}

#[test]
fn resume_accepts_a_prefix_of_an_id_or_none_for_a_single_upload() {
    let client_dir = client_dir("resumed");
    let id = client_dir.unfinished().remove(0)["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    client_dir
        .run(&["resume", "22222222"])
        .expect(2)
        .says("windlass uploads");
    let ran = client_dir.run(&["resume", &id[..3]]).expect(0);
    assert_media(farm(), &ran.json(), MEDIA);
    client_dir
        .run(&["resume"])
        .expect(0)
        .says("no unfinished upload");
}

#[test]
fn resume_with_several_uploads_requires_an_id_or_all() {
    let client_dir = client_dir("first");
    begun(&client_dir, "second", 256 * KIB).kill9();
    let ran = client_dir.run(&["resume"]).expect(2);
    ran.says("film.mp4");
    ran.says("--all");
    let ran = client_dir.run(&["resume", "--all", "--json"]).expect(0);
    let names = ran.events("uploaded").into_iter().map(|event| {
        assert_media(farm(), &event["resource"], MEDIA);
        event["resource"]["name"].as_str().map(str::to_owned)
    });
    let mut names: Vec<_> = names.flatten().collect();
    names.sort();
    assert_eq!(names, ["first", "second"]);
}

#[test]
fn status_asks_the_server_and_uploads_does_not() {
    let client_dir = client_dir("asked");
    let table = client_dir.run(&["uploads"]).expect(0).stdout;
    assert!(
        table.contains("film.mp4") && table.contains(" of 6 MiB"),
        "{table}"
    );
    assert!(table.contains(farm::UPLOADS), "{table}");
    let status = client_dir.run(&["status"]).expect(0).stdout;
    assert!(status.contains(" of 6 MiB committed"), "{status}");
    let status = client_dir.run(&["status", "--json"]).expect(0).json();
    assert_eq!(status["state"], "active");
    assert!(status["committed"].as_u64() >= Some(512 * KIB), "{status}");
    assert_eq!(status["upload"]["total"], MEDIA.len());
}

#[test]
fn cancel_deletes_the_session_and_forget_only_the_record() {
    let client_dir = client_dir("cancelled");
    let id = client_dir.unfinished().remove(0)["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    client_dir.run(&["cancel", &id]).expect(0).says("cancelled");
    assert_eq!(client_dir.unfinished().len(), 0);
    client_dir
        .run(&["cancel", &id])
        .expect(2)
        .says("windlass uploads");
    begun(&client_dir, "forgotten", 256 * KIB).kill9();
    let id = client_dir.unfinished().remove(0)["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    client_dir
        .run(&["cancel", &id, "--forget"])
        .expect(0)
        .says("forgotten");
    assert_eq!(client_dir.unfinished().len(), 0);
}

/// The URI of the session, which no command prints.
fn session(client_dir: &ClientDir) -> String {
    let id = client_dir.unfinished().remove(0)["id"].clone();
    let id = id.as_str().expect("an id");
    let record = client_dir.path(&format!("state/windlass/uploads/{id}.upload.json"));
    let record = std::fs::read(record).expect("the record is there");
    let record: Value = serde_json::from_slice(&record).expect("JSON");
    record["session"].as_str().expect("a URI").to_owned()
}

#[test]
fn session_uri_is_accepted_as_an_id_and_not_printed() {
    let client_dir = client_dir("named by its URI");
    let session = session(&client_dir);
    let status = client_dir
        .run(&["status", &session, "--json"])
        .expect(0)
        .json();
    assert_eq!(status["state"], "active");
    client_dir.run(&["cancel", &session]).expect(0);
    assert_eq!(client_dir.unfinished().len(), 0);
    let status = client_dir.run(&["status", &session]).expect(1);
    assert!(status.stdout.contains("cancelled"), "{}", status.stdout);
}

#[test]
fn an_upload_whose_session_was_cancelled_elsewhere_says_so() {
    let client_dir = client_dir("cancelled elsewhere");
    let other = ClientDir::new();
    other.run(&["cancel", &session(&client_dir)]).expect(0);
    let status = client_dir.run(&["status", "--json"]).expect(1).json();
    assert_eq!(status["state"], "cancelled");
    client_dir.run(&["resume"]).expect(1).says("cancelled");
}

#[test]
fn changed_file_is_refused_and_can_be_uploaded_again() {
    let client_dir = client_dir("changed");
    let other = Media::new(22, MEDIA.len());
    client_dir.media("film.mp4", other);
    let later = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let file = std::fs::File::options()
        .write(true)
        .open(client_dir.path("film.mp4"));
    file.and_then(|file| file.set_modified(later))
        .expect("the desk is writable");
    let words = [
        "upload",
        "film.mp4",
        &uploads(farm()),
        "--metadata",
        r#"{"name":"changed"}"#,
    ];
    let ran = client_dir.run(&words).expect(1);
    ran.says("has changed");
    ran.says("--restart");
    let ran = client_dir
        .run(&[&words[..], &["--restart"]].concat())
        .expect(0);
    assert_media(farm(), &ran.json(), other);
    assert_eq!(farm::count(farm(), "changed"), 1);
    assert_eq!(client_dir.unfinished().len(), 0);
}

#[test]
fn an_upload_that_another_process_works_on_is_left_to_it() {
    let client_dir = ClientDir::new();
    client_dir.media("film.mp4", MEDIA);
    let running = begun(&client_dir, "busy", 256 * KIB);
    client_dir
        .run(&["resume"])
        .expect(3)
        .says("another process");
    running.kill9();
}

#[test]
fn the_journal_can_be_named_by_a_flag_or_a_variable_and_hints_repeat_the_flag() {
    let client_dir = ClientDir::new();
    client_dir.media("film.mp4", MEDIA);
    let url = uploads(farm());
    let words = ["upload", "film.mp4", &url, "--journal", "here"];
    let mut running = client_dir.start(&[&words[..], &SLOWLY].concat());
    running.until_committed(256 * KIB);
    running.signal(rustix::process::Signal::TERM);
    running.end().expect(4).says(" --journal here --max-rate ");
    let mut resume = client_dir.command(&["resume"]);
    let ran = super::run::Ran::of(resume.env("WINDLASS_JOURNAL", "here")).expect(0);
    assert_media(farm(), &ran.json(), MEDIA);
}
