//! The default content of the log: the served APIs, and each request.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use windlass_testkit::farm::{self, ANIMALS, UPLOADS};
use windlass_testkit::media::Media;
use windlass_testkit::process::{ServerProcess, first_line, listening_address};
use windlass_testkit::raw::{Request, exchange};
use windlass_testkit::wait;

use crate::server::{own, program};

const POND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/pond.toml");

const MEDIA: Media = Media::new(65, 1000);

/// Returns the first line of the log that contains all of these.
fn line(server: &ServerProcess, parts: &[&str]) -> String {
    let found = || {
        let log = server.stderr();
        let mut lines = log.lines();
        let line = lines.find(|line| parts.iter().all(|part| line.contains(part)));
        line.map(str::to_owned)
    };
    wait::until(&format!("{parts:?} is logged"), || found().is_some());
    found().unwrap_or_default()
}

#[test]
fn start_says_in_words_what_is_served_where() {
    let server = own(&["--api", "farm", "--api", &format!("{POND}@pond.example")]);
    let words = "serving farm v1, pond v2 on pond.example at http://127.0.0.1:";
    let started = line(&server, &[words, "with the data in "]);
    assert!(started.contains(&server.address().to_string()), "{started}");
}

#[test]
fn line_of_a_request_has_its_method_status_bytes_and_time() {
    let server = own(&["--log", "info"]);
    let address = server.address();
    let animal = farm::id(&farm::upload(address, MEDIA));
    let uploaded = line(&server, &["answered", "path=\"/upload/farm/v1/animals\""]);
    for part in [
        "http_method=POST",
        "method=\"farm.animals.insert\"",
        "status=200",
        "received=1000",
        "sent=",
        "ms=",
    ] {
        assert!(uploaded.contains(part), "{part}: {uploaded}");
    }
    exchange(address, &farm::download(&animal)).expect(200);
    line(
        &server,
        &["farm.animals.get", "status=200", "received=0", "sent=1000"],
    );
    line(
        &server,
        &["path=\"/farm/v1/animals/{animalId}\"", "status=200"],
    );
    assert!(
        !server
            .stderr()
            .contains(&format!("path=\"/farm/v1/animals/{animal}"))
    );
    exchange(address, &Request::new("GET", "/")).expect(200);
    line(&server, &["path=\"/\"", "method=\"discovery\""]);
    exchange(address, &Request::new("GET", "/nowhere?key=secret")).expect(404);
    let unknown = line(
        &server,
        &["path=\"/nowhere\"", "method=\"other\"", "status=404"],
    );
    assert!(!unknown.contains("secret"), "{unknown}");
}

#[test]
fn line_of_an_append_has_its_method_and_not_the_session() {
    let server = own(&["--log", "info"]);
    let session = farm::begin(server.address(), "a cow");
    let put = session.ranged("bytes */*").body("");
    exchange(server.address(), &put).expect(308);
    let asked = line(&server, &["http_method=PUT", "status=308"]);
    assert!(asked.contains("method=\"farm.animals.insert\""), "{asked}");
    assert!(!server.stderr().contains(session.upload_id()));
}

#[test]
fn session_in_the_path_is_not_logged() {
    let server = own(&["--log", "debug"]);
    let address = server.address();
    let session = farm::begin(address, "a cow");
    let upload_id = session.upload_id();
    for path in [
        format!("{UPLOADS}/upload_id={upload_id}"),
        format!("/nowhere/{upload_id}"),
        format!("/farm/v1/animals/{upload_id}"),
    ] {
        for http_method in ["GET", "PUT"] {
            exchange(
                address,
                &Request::new(http_method, path.as_str()).body("a cow"),
            );
        }
    }
    line(&server, &["path=\"/nowhere/..\"", "http_method=PUT"]);
    assert!(!server.stderr().contains(upload_id), "{}", server.stderr());
}

#[test]
fn line_of_a_request_is_short_whatever_the_client_sends() {
    let server = own(&[]);
    let long_path = Request::new("GET", format!("/{}", "p".repeat(20_000)));
    exchange(server.address(), &long_path);
    let long_method = Request::new(&"M".repeat(8_000), "/nowhere");
    exchange(server.address(), &long_method);
    for (begins, longest) in [("path=\"/ppp", 1000), ("http_method=MMM", 500)] {
        let line = line(&server, &["answered", begins]);
        assert!(line.len() < longest, "{line}");
    }
}

#[test]
fn requests_are_logged_by_default_and_can_be_left_out() {
    let server = own(&[]);
    exchange(server.address(), &Request::new("GET", ANIMALS)).expect(200);
    line(&server, &["answered", "method=\"farm.animals.list\""]);

    let quiet = "warn,windlass=info,windlass_server::service=warn";
    let mut server = own(&["--log", quiet]);
    exchange(server.address(), &Request::new("GET", ANIMALS)).expect(200);
    line(&server, &["serving farm v1"]);
    assert!(server.terminate().success());
    let log = server.stderr();
    // The end is logged after all that was answered.
    assert!(
        log.contains("stopped") && !log.contains("answered"),
        "{log}"
    );
}

#[test]
fn log_that_nobody_reads_does_not_stop_the_server() {
    // Of each request a line of more than 150 bytes; a pipe takes 64 KiB.
    const REQUESTS: usize = 1000;
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("it is writable");
    let mut command = Command::new(program());
    command
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--allow-unsafe-filesystem",
        ])
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut server = Killed(command.spawn().expect("it can be started"));
    let started = first_line(&mut server.0, Duration::from_secs(60));
    let (line, _stdout) = started.expect("it says where it listens");
    let (_, address) = listening_address(&line).expect("it says where it listens");
    let ask = || exchange(address, &Request::new("GET", ANIMALS)).expect(200);
    for _ in 0..REQUESTS {
        ask();
    }
    let mut log = BufReader::new(server.0.stderr.take().expect("it is a pipe"));
    let (mut line, mut lines) = (String::new(), 0);
    while !line.contains("lines of the log are left out") {
        // Each read makes room for one more line.
        ask();
        line.clear();
        log.read_line(&mut line).expect("it is text");
        lines += 1;
    }
    assert!(lines < REQUESTS, "{lines}");
}

/// A process that is killed on drop.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
