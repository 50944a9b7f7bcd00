//! Failing commands: the exit code, and the hint.

use windlass_testkit::fault_proxy::{Fault, FaultProxy, Plan};
use windlass_testkit::media::Media;
use windlass_testkit::tls::Authority;

use super::run::{ClientDir, uploads};
use crate::server::{farm, own, scratch};

const MEDIA: Media = Media::new(5, 3000);

/// A client's directory with a file `cow.jpg`.
fn client_dir() -> ClientDir {
    let client_dir = ClientDir::new();
    client_dir.media("cow.jpg", MEDIA);
    client_dir
}

#[test]
fn invalid_arguments_exit_with_the_usage_code() {
    let client_dir = client_dir();
    let url = uploads(farm());
    let cases: [(&[&str], &str); 9] = [
        (&["upload", "cow.jpg"], "<URL>"),
        (&["upload", "cow.jpg", "nowhere"], "http://"),
        (
            &["upload", "cow.jpg", &url, "--chunk-size", "1000"],
            "256 KiB",
        ),
        (
            &["upload", "cow.jpg", &url, "--metadata", "name=Bella"],
            "not JSON",
        ),
        (
            &["upload", "cow.jpg", &url, "--metadata", "[]"],
            "must be a JSON object",
        ),
        (
            &["upload", "cow.jpg", &url, "--content-type", "cow"],
            "image/jpeg",
        ),
        (
            &["upload", "cow.jpg", &url, "--token", "ya29.secret"],
            "env:NAME",
        ),
        (&["upload", "-", "-", &url], "only once"),
        (
            &["upload", "-", &url, "--chunk-size", "1025M"],
            "--chunk-size must be at most 1G",
        ),
    ];
    for (words, text) in cases {
        let ran = client_dir.run(words).expect(2);
        ran.says(text);
        assert!(!ran.stderr.contains("ya29"), "{}", ran.stderr);
    }
}

#[test]
fn command_that_cannot_start_prints_its_reason() {
    let client_dir = client_dir();
    let url = uploads(farm());
    client_dir.write("no-directory", "");
    let cases: [(&[&str], &str); 5] = [
        (&["upload", "none.jpg", &url], "cannot open none.jpg"),
        (&["upload", ".", &url], "is a directory"),
        (
            &["upload", "cow.jpg", &url, "--metadata", "@none.json"],
            "none.json",
        ),
        (
            &["upload", "cow.jpg", &url, "--journal", "no-directory"],
            "--no-journal",
        ),
        (
            &["upload", "cow.jpg", &url, "--token", "env:NO_SUCH"],
            "NO_SUCH",
        ),
    ];
    for (words, text) in cases {
        client_dir.run(words).expect(3).says(text);
    }
}

#[test]
fn refusal_is_printed_with_a_hint() {
    let client_dir = client_dir();
    client_dir.write("cow.tar.xz", b"\xfd7zXZ\0");
    let root = format!("http://{}", farm());
    let no_upload = format!("{root}/farm/v1/cows");
    let no_method = format!("{root}/upload/farm/v1/cows");
    let url = uploads(farm());
    let cases: [(&[&str], &str); 3] = [
        (&["upload", "cow.jpg", &no_upload], ".../upload/..."),
        (&["upload", "cow.jpg", &no_method], "check the path"),
        (&["upload", "cow.tar.xz", &url], "--content-type"),
    ];
    for (words, text) in cases {
        let ran = client_dir.run(words).expect(1);
        assert!(ran.stderr.contains("\nhint: "), "{}", ran.stderr);
        ran.says(text);
    }
}

#[test]
fn failed_event_contains_the_failure() {
    let client_dir = client_dir();
    let url = format!("http://{}/upload/farm/v1/cows", farm());
    let ran = client_dir
        .run(&["upload", "cow.jpg", &url, "--json"])
        .expect(1);
    let failed = ran.events("failed").remove(0);
    assert_eq!(failed["kind"], "refused");
    assert_eq!(failed["status"], 404);
    assert_eq!(failed["reason"], "notFound");
    assert_eq!(failed["source"], "cow.jpg");
    assert_eq!(failed["exit_code"], 1);
    assert!(failed["message"].is_string() && failed["hint"].is_string());
}

#[test]
fn unreachable_server_is_reported_as_unfinished() {
    let client_dir = client_dir();
    let url = "http://127.0.0.1:1/upload/farm/v1/animals";
    let ran = client_dir
        .run(&["upload", "cow.jpg", url, "--retries", "0"])
        .expect(4);
    ran.says("--retries");
    let ran = client_dir
        .run(&["upload", "cow.jpg", url, "--timeout", "100ms"])
        .expect(4);
    ran.says("waiting");
}

#[test]
fn refused_token_and_missing_token_have_different_hints() {
    let client_dir = client_dir();
    let proxy = FaultProxy::start(farm());
    proxy.set_plan(Plan::always(Fault::Replace {
        status: 401,
        body: r#"{"error":{"code":401,"message":"No.","errors":[{"reason":"authError"}]}}"#,
    }));
    let url = uploads(proxy.address());
    client_dir
        .run(&["upload", "cow.jpg", &url])
        .expect(1)
        .says("requires a token");
    client_dir.write("token", "ya29.secret");
    let ran = client_dir
        .run(&["upload", "cow.jpg", &url, "--token", "file:token"])
        .expect(1);
    ran.says("rejects the token");
    assert!(!ran.stderr.contains("ya29"), "{}", ran.stderr);
}

#[test]
fn upload_with_mismatched_checksum_is_reported() {
    let client_dir = client_dir();
    let proxy = FaultProxy::start(farm());
    proxy.set_plan(Plan::always(Fault::Replace {
        status: 200,
        body: r#"{"id":"1","size":"3000","crc32c":"AAAAAA=="}"#,
    }));
    let url = uploads(proxy.address());
    client_dir
        .run(&["upload", "cow.jpg", &url])
        .expect(5)
        .says("crc32c");
    client_dir
        .run(&["upload", "cow.jpg", &url, "--no-verify"])
        .expect(0);
}

#[test]
fn worst_of_several_exit_codes_decides() {
    let client_dir = client_dir();
    let url = format!("http://{}/upload/farm/v1/cows", farm());
    client_dir
        .run(&["upload", "none.jpg", "cow.jpg", "none.jpg", &url])
        .expect(1);
}

#[test]
fn reply_of_an_ordinary_call_is_not_an_upload() {
    let client_dir = client_dir();
    let proxy = FaultProxy::start(farm());
    let root = format!("http://{}/farm/v1/animals", proxy.address());
    let cases = [
        (200, root, ".../upload/..."),
        (200, uploads(proxy.address()), "check the path"),
        (302, uploads(proxy.address()), "the URL it redirects to"),
    ];
    for (status, url, text) in cases {
        proxy.set_plan(Plan::always(Fault::Replace { status, body: "{}" }));
        let words = ["upload", "cow.jpg", &url, "--type", "resumable"];
        let ran = client_dir.run(&[&words[..], &["--retries", "0"]].concat());
        let ran = ran.expect(1);
        assert!(ran.stderr.contains("\nhint: "), "{}", ran.stderr);
        ran.says(text);
    }
}

#[test]
fn https_url_of_a_port_without_tls_ends_at_once_with_a_hint() {
    let client_dir = ClientDir::new();
    client_dir.media("cow.jpg", Media::new(66, 6 << 20));
    let secure = uploads(farm()).replace("http://", "https://");
    let download = ["download", &secure, "-o", "copy.jpg"];
    for words in [&["upload", "cow.jpg", &secure][..], &download] {
        let ran = client_dir.run(words).expect(1);
        ran.says("does not speak TLS\n");
        ran.says("hint: use an http:// URL");
        assert!(!ran.stderr.contains("waiting"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("given up"), "{}", ran.stderr);
    }
}

#[test]
fn http_url_of_a_port_with_tls_ends_at_once_with_a_hint() {
    let client_dir = client_dir();
    let authority = Authority::new(scratch());
    let flags = authority.flags();
    let server = own(&flags.iter().map(String::as_str).collect::<Vec<_>>());
    let url = uploads(server.address());
    let session = format!("{url}?upload_id=none");
    for words in [
        &["upload", "cow.jpg", &url][..],
        &["download", &url, "-o", "copy.jpg"],
        &["status", &session],
    ] {
        let ran = client_dir.run(words).expect(1);
        ran.says("does not speak HTTP\nhint: use an https:// URL");
        assert!(!ran.stderr.contains("waiting"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("given up"), "{}", ran.stderr);
    }
}

#[test]
fn host_that_does_not_exist_ends_a_command_at_once() {
    // No resolver is asked for it: a label is too long.
    let client_dir = client_dir();
    let host = "x".repeat(64);
    let url = format!("http://{host}.example/upload/farm/v1/animals");
    for words in [
        &["upload", "cow.jpg", &url][..],
        &["download", &url, "-o", "copy.jpg"],
    ] {
        let ran = client_dir.run(words).expect(1);
        ran.says("no such host\nhint: check the host in the URL");
        assert!(!ran.stderr.contains("waiting"), "{}", ran.stderr);
    }
}

#[test]
fn wait_says_why_there_is_no_connection() {
    let client_dir = client_dir();
    let url = "http://127.0.0.1:1/upload/farm/v1/animals";
    let words = ["upload", "cow.jpg", url, "--timeout", "100ms"];
    let ran = client_dir.run(&words).expect(4);
    ran.says("attempt 2 of 6: cannot connect: connection refused");
    let ran = client_dir
        .run(&[&words[..], &["--json"]].concat())
        .expect(4);
    let mut waits = ran.events("progress").into_iter();
    let wait = waits
        .find(|event| event["state"] == "waiting")
        .expect("it waits");
    assert_eq!(wait["wait"]["cause"], "cannot connect: connection refused");
}
