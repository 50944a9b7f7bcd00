//! Uploads of media.

use std::fs::File;
use std::io::Write as _;
use std::process::Stdio;

use serde_json::json;
use windlass_testkit::fault_proxy::FaultProxy;
use windlass_testkit::media::Media;

use super::run::{ClientDir, Ran, assert_media, uploads};
use crate::server::farm;

/// The beginning of a picture.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

const MIB: u64 = 1 << 20;
const SMALL: Media = Media::new(1, 3000);
const LARGE: Media = Media::new(2, 6 * MIB + 17);

#[test]
fn the_resource_is_data_and_all_else_is_talk() {
    let client_dir = ClientDir::new();
    client_dir.media("cow.jpg", SMALL);
    let ran = client_dir
        .run(&["upload", "cow.jpg", &uploads(farm())])
        .expect(0);
    let resource = ran.json();
    assert_eq!(resource["mimeType"], "image/jpeg");
    assert_media(farm(), &resource, SMALL);
    ran.says("cow.jpg: 2.9 KiB uploaded, checked by size, crc32c");
    let quiet = client_dir.run(&["upload", "cow.jpg", &uploads(farm()), "--quiet"]);
    assert_eq!(quiet.expect(0).stderr, "");
}

#[test]
fn content_type_is_guessed_from_bytes_then_name_unless_given() {
    let client_dir = ClientDir::new();
    let cases: [(&str, &[u8], &[&str], &str); 4] = [
        ("cow.jpg", PNG, &[], "image/png"),
        ("cow.txt", b"a cow", &[], "text/plain"),
        ("cow", b"a cow", &[], "application/octet-stream"),
        (
            "cow.png",
            PNG,
            &["--content-type", "video/mp4"],
            "video/mp4",
        ),
    ];
    for (name, content, flags, expected) in cases {
        client_dir.write(name, content);
        let url = uploads(farm());
        let words = [&["upload", name, &url], flags].concat();
        assert_eq!(
            client_dir.run(&words).expect(0).json()["mimeType"],
            expected,
            "{name}"
        );
    }
}

#[test]
fn every_upload_type_can_be_asked_for_and_else_the_size_decides() {
    let client_dir = ClientDir::new();
    client_dir.media("small", SMALL);
    client_dir.media("large", LARGE);
    let named = ["--metadata", r#"{"name":"Bella"}"#];
    let cases: [(&str, &[&str], &[&str], &str); 6] = [
        ("small", &[], &[], "media"),
        ("small", &[], &named, "multipart"),
        ("large", &[], &[], "resumable"),
        ("small", &["--type", "resumable"], &named, "resumable"),
        ("large", &["--type", "media"], &[], "media"),
        ("large", &["--type", "multipart"], &named, "multipart"),
    ];
    for (name, flags, metadata, expected) in cases {
        let url = uploads(farm());
        let words = [&["upload", name, &url, "--json"], flags, metadata].concat();
        let ran = client_dir.run(&words).expect(0);
        let uploaded = ran.events("uploaded").remove(0);
        assert_eq!(uploaded["type"], expected, "{words:?}");
        assert_eq!(uploaded["source"], name);
        assert_eq!(uploaded["verified"], json!(["size", "crc32c"]));
        assert_eq!(uploaded["restarts"], 0);
        let media = if name == "small" { SMALL } else { LARGE };
        assert_eq!(uploaded["size"], media.len());
        assert_media(farm(), &uploaded["resource"], media);
        if !metadata.is_empty() {
            assert_eq!(uploaded["resource"]["name"], "Bella");
        }
    }
}

#[test]
fn metadata_comes_from_the_command_line_or_a_file() {
    let client_dir = ClientDir::new();
    client_dir.media("cow.jpg", SMALL);
    client_dir.write("cow.json", r#"{"name": "Bella", "legs": 4}"#);
    let words = [
        "upload",
        "cow.jpg",
        &uploads(farm()),
        "--metadata",
        "@cow.json",
    ];
    let resource = client_dir.run(&words).expect(0).json();
    assert_eq!(
        (&resource["name"], &resource["legs"]),
        (&json!("Bella"), &json!(4))
    );
}

#[test]
fn an_update_replaces_the_media_of_a_resource() {
    let client_dir = ClientDir::new();
    client_dir.media("cow.jpg", SMALL);
    client_dir.media("bull.mp4", LARGE);
    let first = client_dir
        .run(&["upload", "cow.jpg", &uploads(farm())])
        .expect(0)
        .json();
    let url = format!(
        "{}/{}",
        uploads(farm()),
        first["id"].as_str().expect("an id")
    );
    let words = ["upload", "bull.mp4", &url, "--method", "put"];
    let second = client_dir.run(&words).expect(0).json();
    assert_eq!(second["id"], first["id"]);
    assert_media(farm(), &second, LARGE);
}

#[test]
fn standard_input_of_any_size_is_uploaded() {
    let client_dir = ClientDir::new();
    let cases = [
        (SMALL, "media"),
        (Media::new(3, 0), "media"),
        (LARGE, "resumable"),
    ];
    for (media, upload_type) in cases {
        let mut command = client_dir.command(&["upload", "-", &uploads(farm()), "--json"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the command can be started");
        let mut stdin = child.stdin.take().expect("stdin is a pipe");
        stdin.write_all(&media.whole()).expect("it reads all");
        drop(stdin);
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success());
        let stdout = String::from_utf8(output.stdout).expect("text");
        let last = stdout.lines().last().expect("an event");
        let uploaded: serde_json::Value = serde_json::from_str(last).expect("JSON");
        assert_eq!(uploaded["type"], upload_type);
        assert_eq!(uploaded["source"], "-");
        assert_media(farm(), &uploaded["resource"], media);
    }
}

#[test]
fn progress_events_have_their_fields_and_never_go_back() {
    let client_dir = ClientDir::new();
    client_dir.media("film.mp4", LARGE);
    let words = [
        "upload",
        "film.mp4",
        &uploads(farm()),
        "--json",
        "--chunk-size",
        "1M",
    ];
    let ran = client_dir.run(&words).expect(0);
    let progress = ran.events("progress");
    assert_eq!(progress[0]["state"], "starting");
    assert_eq!(progress[0].get("upload"), None);
    for event in &progress {
        assert_eq!(event["source"], "film.mp4");
        assert_eq!(event["total"], LARGE.len());
        assert!(event["sent"].is_u64() && event["rate"].is_u64(), "{event}");
    }
    let committed = progress.iter().map(|event| event["committed"].as_u64());
    assert!(committed.is_sorted());
}

#[test]
fn chunks_of_standard_input_are_as_large_as_asked_for() {
    let client_dir = ClientDir::new();
    client_dir.media("film.mp4", Media::new(14, 20 * MIB));
    let proxy = FaultProxy::start(farm());
    let url = uploads(proxy.address());
    let mut command = client_dir.command(&["upload", "-", &url, "--chunk-size", "16M"]);
    let stdin = File::open(client_dir.path("film.mp4")).expect("it is there");
    Ran::of(command.stdin(stdin)).expect(0);
    let chunks = proxy.exchanges().into_iter();
    let mut chunks = chunks.filter(|exchange| exchange.first_byte().is_some());
    let first = chunks.next().expect("a chunk");
    assert_eq!(first.body_bytes_received, 16 * MIB, "{first:?}");
}
