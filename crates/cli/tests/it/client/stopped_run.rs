//! Runs of several files that are stopped, and started again.

use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use serde_json::Value;
use windlass_testkit::farm;
use windlass_testkit::fault_proxy::{Fault, FaultProxy, Plan};
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::exchange;

use super::run::{ClientDir, Ran, assert_media, uploads};
use crate::server::own;

const MIB: u64 = 1 << 20;
const FILES: u64 = 12;

/// A directory with many small files and some large ones, and a server for them alone.
struct Herd {
    client_dir: ClientDir,
    server: ServerProcess,
}

/// The file with this number. Each third one is too large for a single request.
fn media(file: u64) -> Media {
    let len = if file.is_multiple_of(3) {
        5 * MIB + 7
    } else {
        1000
    };
    Media::new(1000 + file, len + file)
}

fn name(file: u64) -> String {
    format!("herd/{file:02}.bin")
}

impl Herd {
    fn new() -> Self {
        let client_dir = ClientDir::new();
        fs::create_dir(client_dir.path("herd")).expect("the desk is writable");
        for file in 0..FILES {
            client_dir.media(&name(file), media(file));
        }
        let server = own(&[]);
        Self { client_dir, server }
    }

    fn url(&self) -> String {
        uploads(self.server.address())
    }

    /// The command that uploads all of it.
    fn command(&self) -> [String; 5] {
        let metadata = r#"{"name":"{path}"}"#.to_owned();
        [
            "upload".to_owned(),
            "-r".to_owned(),
            "herd".to_owned(),
            self.url(),
            format!("-m{metadata}"),
        ]
    }

    fn words(&self, more: &[&str]) -> Vec<String> {
        let more = more.iter().map(ToString::to_string);
        self.command().into_iter().chain(more).collect()
    }

    /// All resources of the server.
    #[track_caller]
    fn resources(&self) -> Vec<Value> {
        resources(self.server.address())
    }

    /// Checks that each file is there once, with its bytes, and that nothing is recorded any more.
    #[track_caller]
    fn assert_each_is_there_once(&self) {
        let resources = self.resources();
        for file in 0..FILES {
            let path = format!("{file:02}.bin");
            let of_file: Vec<_> = resources.iter().filter(|it| it["name"] == *path).collect();
            assert_eq!(of_file.len(), 1, "{path}");
            assert_media(self.server.address(), of_file[0], media(file));
        }
        assert_eq!(resources.len() as u64, FILES);
        self.assert_nothing_is_recorded();
    }

    #[track_caller]
    fn assert_nothing_is_recorded(&self) {
        let journal = fs::read_dir(self.client_dir.path("state/windlass/uploads"));
        let names = journal
            .expect("there is a journal")
            .map(|entry| entry.expect("one").path());
        let names: Vec<_> = names.collect();
        assert!(names.is_empty(), "{names:?}");
    }
}

#[track_caller]
fn resources(address: SocketAddr) -> Vec<Value> {
    let reply = exchange(address, &farm::list("")).expect(200);
    let items = reply.field("items");
    items.as_array().cloned().unwrap_or_default()
}

/// Lets this number of uploads end. All further uploads stand still.
fn stall_after(uploads: usize) -> Plan {
    let ended = AtomicUsize::new(0);
    Plan::new(move |request| {
        let range = request.content_range.as_deref()?;
        let is_media = !range.starts_with("bytes */");
        let stalls = is_media && ended.fetch_add(1, Ordering::Relaxed) >= uploads;
        stalls.then_some(Fault::Stall { after: 0 })
    })
}

#[test]
fn run_that_is_stopped_again_and_again_uploads_each_file_once() {
    let herd = Herd::new();
    let proxy = FaultProxy::start(herd.server.address());
    let mut words = herd.words(&["--concurrency", "3"]);
    words[3] = uploads(proxy.address());
    let words: Vec<_> = words.iter().map(|word| &**word).collect();
    for round in 0..5 {
        proxy.set_plan(stall_after(2));
        let mut running = herd.client_dir.start(&words);
        for _ in 0..2 {
            running.until(|event| event["event"] == "uploaded");
        }
        if round % 2 == 0 {
            running.kill9();
        } else {
            running.signal(Signal::INT);
            running.end().expect(4).says("stopped");
        }
    }
    proxy.set_plan(Plan::none());
    let last = herd.client_dir.run(&[&words[..], &["--json"]].concat());
    assert_eq!(last.expect(0).events("skipped").len(), 10);
    herd.assert_each_is_there_once();
}

#[test]
fn upload_whose_last_reply_was_lost_is_not_repeated() {
    let herd = Herd::new();
    let proxy = FaultProxy::start(herd.server.address());
    // As for a client that is killed when the server has finished the upload.
    proxy.set_plan(Plan::new(|request| {
        request.is_session.then_some(Fault::LoseReply)
    }));
    let mut words = herd.words(&["--retries", "0"]);
    words[3] = uploads(proxy.address());
    let words: Vec<_> = words.iter().map(|word| &**word).collect();
    herd.client_dir.run(&words).expect(4);
    assert_eq!(herd.resources().len() as u64, FILES);
    proxy.set_plan(Plan::none());
    herd.client_dir.run(&words).expect(0);
    herd.assert_each_is_there_once();
}

/// A run of which the files with an odd number have failed.
struct Stopped {
    herd: Herd,
    proxy: FaultProxy,
    words: Vec<String>,
}

impl Stopped {
    fn new() -> Self {
        let herd = Herd::new();
        let proxy = FaultProxy::start(herd.server.address());
        let is_odd = |size: u64| (0..FILES).any(|file| file % 2 == 1 && media(file).len() == size);
        proxy.set_plan(Plan::new(move |request| {
            let range = request.content_range.as_deref()?;
            let size = range.rsplit('/').next()?.parse().ok()?;
            is_odd(size).then_some(Fault::Replace {
                status: 503,
                body: "busy",
            })
        }));
        let mut words = herd.words(&[]);
        words[3] = uploads(proxy.address());
        let stopped = Self { herd, proxy, words };
        let ran = stopped.run(&["--retries", "0"]).expect(4);
        ran.says("6 of 12 uploaded, 6 failed");
        stopped.proxy.set_plan(Plan::none());
        stopped
    }

    #[track_caller]
    fn run(&self, more: &[&str]) -> Ran {
        let words = self
            .words
            .iter()
            .map(|word| &**word)
            .chain(more.iter().copied());
        self.herd.client_dir.run(&words.collect::<Vec<_>>())
    }

    fn count(&self) -> usize {
        self.herd.resources().len()
    }
}

#[test]
fn finished_files_are_skipped_until_a_run_ends_whole() {
    let stopped = Stopped::new();
    assert_eq!(stopped.count(), 6);
    let ran = stopped.run(&[]).expect(0);
    ran.says("herd/00.bin: skipped, uploaded as ");
    ran.says("6 sources are skipped: an earlier run has uploaded them; --again ");
    ran.says("6 of 12 uploaded, 6 skipped");
    stopped.herd.assert_each_is_there_once();
    // Now it is a new upload.
    let ran = stopped.run(&[]).expect(0);
    assert!(!ran.stderr.contains("skipped"), "{}", ran.stderr);
    assert_eq!(stopped.count(), 24);
    stopped.herd.assert_nothing_is_recorded();
}

#[test]
fn other_urls_and_changed_files_are_no_finished_uploads() {
    let stopped = Stopped::new();
    let mut other: Vec<_> = stopped.words.iter().map(|word| &**word).collect();
    let url = format!("{}?prettyPrint=false", stopped.words[3]);
    other[3] = &url;
    stopped.herd.client_dir.run(&other).expect(0);
    assert_eq!(stopped.count(), 18);
    // A finished file, and a file with a begun upload.
    for file in [0, 1] {
        let changed = Media::new(2000 + file, 1500);
        stopped.herd.client_dir.media(&name(file), changed);
    }
    let ran = stopped.run(&[]).expect(0);
    ran.says("herd/01.bin: starting again; it has changed since its upload began");
    ran.says("7 of 12 uploaded, 5 skipped");
    assert_eq!(stopped.count(), 25);
    stopped.herd.assert_nothing_is_recorded();
}

#[test]
fn file_with_another_time_is_uploaded_again() {
    let stopped = Stopped::new();
    let file = fs::File::options()
        .write(true)
        .open(stopped.herd.client_dir.path(&name(0)));
    let later = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    file.and_then(|file| file.set_modified(later))
        .expect("the desk is writable");
    stopped
        .run(&[])
        .expect(0)
        .says("7 of 12 uploaded, 5 skipped");
}

#[test]
fn finished_files_are_uploaded_again_on_request() {
    let stopped = Stopped::new();
    stopped
        .run(&["--again"])
        .expect(0)
        .says("12 of 12 uploaded");
    assert_eq!(stopped.count(), 18);
    stopped.herd.assert_nothing_is_recorded();
}

#[test]
fn hint_of_a_stopped_run_with_again_uploads_no_file_twice() {
    let stopped = Stopped::new();
    stopped.proxy.set_plan(stall_after(2));
    let words = stopped.words.iter().map(|word| &**word);
    let words: Vec<_> = words.chain(["--again", "--concurrency", "3"]).collect();
    let mut running = stopped.herd.client_dir.start(&words);
    for _ in 0..2 {
        running.until(|event| event["event"] == "uploaded");
    }
    running.signal(Signal::INT);
    let ran = running.end().expect(4);
    ran.says("hint: the same command, run again without --again, uploads ");
    stopped.proxy.set_plan(Plan::none());
    stopped.run(&[]).expect(0).says(", 2 skipped");
    assert_eq!(stopped.count(), 6 + 12);
}

#[test]
fn hint_that_many_files_share_is_printed_once() {
    let herd = Herd::new();
    let proxy = FaultProxy::start(herd.server.address());
    proxy.set_plan(stall_after(0));
    let mut words = herd.words(&["--concurrency", "1"]);
    words[3] = uploads(proxy.address());
    let words: Vec<_> = words.iter().map(|word| &**word).collect();
    let mut running = herd.client_dir.start(&words);
    running.until(|event| event["state"] == "sending");
    running.signal(Signal::INT);
    let ran = running.end().expect(4);
    let not_begun = ran.stderr.matches("stopped before it began").count();
    assert!(not_begun > 1, "{}", ran.stderr);
    let hint = "the same command, run again, uploads the rest";
    assert_eq!(ran.stderr.matches(hint).count(), 1, "{}", ran.stderr);
    // Each event has it.
    let events = ran.events("failed").into_iter();
    assert_eq!(
        events.filter(|event| event["hint"] == hint).count(),
        not_begun
    );
}

#[test]
fn file_that_is_named_twice_is_uploaded_twice() {
    let herd = Herd::new();
    let proxy = FaultProxy::start(herd.server.address());
    proxy.set_plan(stall_after(1));
    let url = uploads(proxy.address());
    let words = ["upload", "herd/01.bin", "herd/01.bin", &url];
    let mut running = herd
        .client_dir
        .start(&[&words[..], &["--concurrency", "1"]].concat());
    running.until(|event| event["event"] == "uploaded");
    running.kill9();
    proxy.set_plan(Plan::none());
    let ran = herd.client_dir.run(&words).expect(0);
    ran.says("1 of 2 uploaded, 1 skipped");
    assert_eq!(herd.resources().len(), 2);
    herd.assert_nothing_is_recorded();
}

#[test]
fn run_of_a_part_leaves_the_records_to_the_larger_run() {
    let stopped = Stopped::new();
    // The upload of the last file has begun, and all earlier files are finished.
    let words = stopped.words.iter().map(|word| &**word);
    let mut part: Vec<_> = words.filter(|word| *word != "-r").collect();
    part.splice(1..2, ["herd/00.bin", "herd/02.bin", "herd/01.bin"]);
    part[5] = "-m{\"name\":\"{name}\"}";
    let client_dir = &stopped.herd.client_dir;
    client_dir
        .run(&part)
        .expect(0)
        .says("1 of 3 uploaded, 2 skipped");
    stopped
        .run(&[])
        .expect(0)
        .says("5 of 12 uploaded, 7 skipped");
    stopped.herd.assert_each_is_there_once();
}

#[test]
fn run_without_a_journal_names_the_files_that_are_left() {
    let stopped = Stopped::new();
    stopped.proxy.set_plan(Plan::always(Fault::Replace {
        status: 503,
        body: "busy",
    }));
    let ran = stopped.run(&["--no-journal", "--retries", "0"]).expect(4);
    ran.says("Run the command again for the files that are left, or ");
    let ran = stopped.run(&["--again", "--retries", "0"]).expect(4);
    ran.says("Run the command again without --again, or ");
}

#[test]
fn resumed_uploads_of_a_run_are_skipped_by_it() {
    let stopped = Stopped::new();
    let resumed = stopped.herd.client_dir.run(&["resume", "--all"]).expect(0);
    resumed.says("6 of 6 uploaded");
    stopped
        .run(&[])
        .expect(0)
        .says("0 of 12 uploaded, 12 skipped");
    stopped.herd.assert_each_is_there_once();
}

#[test]
fn finished_uploads_are_listed_and_can_be_forgotten() {
    let stopped = Stopped::new();
    let client_dir = &stopped.herd.client_dir;
    let ran = client_dir.run(&["uploads"]).expect(0);
    ran.says("6 files are uploaded and will be skipped when their command runs again; ");
    ran.says("--finished` lists them");
    assert!(
        ran.stdout.lines().all(|line| line.chars().count() <= 80),
        "{}",
        ran.stdout
    );
    let listed = client_dir
        .run(&["uploads", "--finished", "--json"])
        .expect(0)
        .lines();
    let mut ids: Vec<_> = listed.iter().map(|upload| &upload["resource_id"]).collect();
    let there = stopped.herd.resources();
    let mut expected: Vec<_> = there.iter().map(|resource| &resource["id"]).collect();
    ids.sort_by_key(ToString::to_string);
    expected.sort_by_key(ToString::to_string);
    assert_eq!(ids, expected);
    let table = client_dir.run(&["uploads", "--finished"]).expect(0).stdout;
    assert!(table.contains("herd/02.bin"), "{table}");
    client_dir.run(&["uploads", "--forget-finished"]).expect(0);
    stopped.run(&[]).expect(0).says("12 of 12 uploaded");
}

#[test]
fn damaged_record_of_finished_files_stops_a_run_before_it_uploads() {
    let stopped = Stopped::new();
    let client_dir = &stopped.herd.client_dir;
    let journal = fs::read_dir(client_dir.path("state/windlass/uploads"));
    let files = journal
        .expect("a journal")
        .map(|entry| entry.expect("one").path());
    let file = files
        .into_iter()
        .find(|path| path.extension().is_some_and(|it| it == "finished"));
    fs::write(file.expect("it is there"), "nothing of ours\n").expect("it is ours");
    let ran = stopped.run(&[]).expect(3);
    ran.says("cannot be used");
    ran.says("--forget-finished");
    assert_eq!(stopped.count(), 6);
}

#[test]
fn sources_of_one_command_alone_are_a_run() {
    let herd = Herd::new();
    let url = herd.url();
    let command = |more: &[&str]| {
        let words = ["upload", "herd/00.bin", "none.bin", &url];
        herd.client_dir.run(&[&words[..], more].concat())
    };
    command(&[]).expect(3);
    command(&[])
        .expect(3)
        .says("0 of 2 uploaded, 1 skipped, 1 failed");
    assert_eq!(herd.resources().len(), 1);
    // A single file is uploaded whenever the user says so.
    herd.client_dir
        .run(&["upload", "herd/00.bin", &url])
        .expect(0);
    assert_eq!(herd.resources().len(), 2);
    // Without a journal nothing is known.
    command(&["--no-journal"]).expect(3);
    assert_eq!(herd.resources().len(), 3);
}
