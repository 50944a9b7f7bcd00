//! Ctrl-C.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use windlass_testkit::fault_proxy::{Fault, FaultProxy, Plan};
use windlass_testkit::media::Media;

use super::run::{ClientDir, assert_media, uploads};
use crate::server::farm;

const KIB: u64 = 1 << 10;
const MEDIA: Media = Media::new(31, 6 << 20);

/// Many files, so that sequential waits take much longer than concurrent waits.
const FILES: usize = 16;

/// The duration of waits in sequence, two seconds for each file.
const TURNS: Duration = Duration::from_secs(32);

#[test]
fn an_interrupt_leaves_the_upload_and_says_how_to_carry_on() {
    let client_dir = ClientDir::new();
    client_dir.media("film.mp4", MEDIA);
    let url = uploads(farm());
    let mut running = client_dir.start(&["upload", "film.mp4", &url, "--max-rate", "2M"]);
    running.until(|event| event["sent"].as_u64() >= Some(600 * KIB));
    running.signal(Signal::INT);
    let ran = running.end().expect(4);
    let failed = ran.events("failed").remove(0);
    assert_eq!(failed["kind"], "interrupted");
    let id = failed["upload"].as_str().expect("an id");
    // With the limit of this command: the resumed one is to keep it.
    ran.says(&format!(
        "hint: `windlass resume {id} --max-rate 2M` carries on"
    ));
    ran.says("film.mp4: stopped; ");
    // Later commands show the committed bytes that the server reported.
    let (_, stopped) = ran.stderr.split_once("stopped; ").expect("it was said");
    let (much, _) = stopped.split_once(" committed").expect("it was said");
    let listed = client_dir.run(&["uploads"]).expect(0).stdout;
    assert!(listed.contains(much), "{much}: {listed}");
    let resumed = client_dir.run(&["resume", id]).expect(0);
    assert_media(farm(), &resumed.json(), MEDIA);
}

#[test]
fn interrupted_upload_that_cannot_be_continued_says_so() {
    let client_dir = ClientDir::new();
    client_dir.media("film.mp4", MEDIA);
    let url = uploads(farm());
    for flags in [["--type", "media"], ["--no-journal", "--quiet"]] {
        let words = ["upload", "film.mp4", &url, "--max-rate", "2M"];
        let mut running = client_dir.start(&[&words[..], &flags].concat());
        running.until(|event| event["state"] == "sending");
        running.signal(Signal::INT);
        running
            .end()
            .expect(4)
            .says("this upload cannot be continued");
    }
    assert_eq!(client_dir.unfinished().len(), 0);
}

#[test]
fn servers_that_do_not_say_how_much_they_have_are_waited_for_once() {
    let client_dir = ClientDir::new();
    // In sequence they would take two seconds each.
    let names: Vec<_> = (1..=FILES).map(|file| format!("{file}.mp4")).collect();
    for name in &names {
        client_dir.media(name, MEDIA);
    }
    let proxy = FaultProxy::start(farm());
    proxy.set_plan(Plan::new(|request| {
        request
            .is_session
            .then_some(Fault::Stall { after: 256 * KIB })
    }));
    let url = uploads(proxy.address());
    let concurrency = FILES.to_string();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let words = [
        &["upload"][..],
        &names,
        &[&url, "--concurrency", &concurrency],
    ];
    let mut running = client_dir.start(&words.concat());
    let mut begun = HashSet::new();
    running.until(|event| {
        if event["upload"].is_string() {
            begun.insert(event["source"].to_string());
        }
        begun.len() == FILES
    });
    running.signal(Signal::INT);
    let since = Instant::now();
    let ran = running.end().expect(4);
    let took = since.elapsed();
    assert!(took < TURNS, "{took:?}");
    assert_eq!(ran.events("failed").len(), FILES);
}
