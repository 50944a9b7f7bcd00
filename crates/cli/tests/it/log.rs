//! What the log says by itself: what is served, and each request.

use windlass_testkit::farm::{self, ANIMALS, UPLOADS};
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{Request, exchange};
use windlass_testkit::wait;

use crate::server::own;

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
fn requests_are_not_logged_by_default() {
    let server = own(&[]);
    exchange(server.address(), &Request::new("GET", ANIMALS)).expect(200);
    let upload = Request::new("POST", format!("{UPLOADS}?uploadType=media"));
    exchange(server.address(), &upload.body("a cow"));
    assert!(!server.stderr().contains("answered"));
}
