//! Several files, and the files of directories.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;
use windlass_testkit::media::Media;

use super::run::{ClientDir, Ran, assert_media, uploads};
use crate::server::farm;

const MIB: u64 = 1 << 20;

#[test]
fn several_sources_go_at_once_and_all_are_tried() {
    let client_dir = ClientDir::new();
    let media = [
        Media::new(11, 100),
        Media::new(12, 6 * MIB),
        Media::new(13, 300),
    ];
    for (index, media) in media.into_iter().enumerate() {
        client_dir.media(&format!("{index}.jpg"), media);
    }
    let url = uploads(farm());
    let words = [
        "upload",
        "0.jpg",
        "none.jpg",
        "1.jpg",
        "2.jpg",
        &url,
        "--concurrency",
        "2",
        "--json",
    ];
    let ran = client_dir.run(&words).expect(3);
    for uploaded in ran.events("uploaded") {
        let index: usize = uploaded["source"].as_str().expect("a name")[..1]
            .parse()
            .expect("0 to 2");
        assert_media(farm(), &uploaded["resource"], media[index]);
    }
    assert_eq!(ran.events("uploaded").len(), 3);
    let failed = ran.events("failed").remove(0);
    assert_eq!(failed["source"], "none.jpg");
    assert_eq!(failed["kind"], "source");
    assert_eq!(failed["exit_code"], 3);
}

#[test]
fn several_sources_are_summed_up_for_people() {
    let client_dir = ClientDir::new();
    client_dir.media("0.jpg", Media::new(11, 100));
    let url = uploads(farm());
    let words = ["upload", "0.jpg", "none.jpg", &url];
    let ran = client_dir.run(&words).expect(3);
    assert!(
        ran.stderr.ends_with("1 of 2 uploaded, 1 failed\n"),
        "{}",
        ran.stderr
    );
    let alone = client_dir.run(&["upload", "0.jpg", &url]).expect(0);
    assert!(!alone.stderr.contains(" of 1 "), "{}", alone.stderr);
}

/// A directory with files on two levels.
fn herd() -> ClientDir {
    let client_dir = ClientDir::new();
    fs::create_dir_all(client_dir.path("herd/2026")).expect("the desk is writable");
    client_dir.media("herd/bella.jpg", Media::new(21, 100));
    client_dir.media("herd/2026/my \"best\" cow.2.png", Media::new(22, 200));
    client_dir.write("herd/notes.txt", "none");
    client_dir
}

/// The resources by their sources.
#[track_caller]
fn by_source(ran: &Ran) -> BTreeMap<String, Value> {
    let results = ran.stdout.lines().map(|line| {
        let result: Value = serde_json::from_str(line).expect("a line is JSON");
        let source = result["source"].as_str().expect("a name").to_owned();
        (source, result["resource"].clone())
    });
    results.collect()
}

#[test]
fn results_of_several_sources_name_them() {
    let client_dir = ClientDir::new();
    let media = [Media::new(23, 100), Media::new(24, 6 * MIB)];
    client_dir.media("a.jpg", media[0]);
    client_dir.media("b.jpg", media[1]);
    let ran = client_dir.run(&["upload", "a.jpg", "b.jpg", &uploads(farm())]);
    let results = by_source(&ran.expect(0));
    assert_media(farm(), &results["a.jpg"], media[0]);
    assert_media(farm(), &results["b.jpg"], media[1]);
}

#[test]
fn files_of_a_directory_are_uploaded_with_metadata_of_their_own() {
    let client_dir = herd();
    let url = uploads(farm());
    let metadata = r#"{"name": "{stem}, {name}, {path}, {size}, {{stem}}"}"#;
    let words = [
        "upload",
        "-r",
        "herd",
        &url,
        "--exclude",
        "*.txt",
        "-m",
        metadata,
    ];
    let results = by_source(&client_dir.run(&words).expect(0));
    let names: Vec<_> = results.values().map(|result| &result["name"]).collect();
    let expected = [
        "my \"best\" cow.2, my \"best\" cow.2.png, 2026/my \"best\" cow.2.png, 200, {stem}",
        "bella, bella.jpg, bella.jpg, 100, {stem}",
    ];
    assert_eq!(names, expected);
    assert_media(farm(), &results["herd/bella.jpg"], Media::new(21, 100));
}

#[test]
fn large_files_have_metadata_of_their_own_and_are_resumed_with_it() {
    let client_dir = ClientDir::new();
    let media = Media::new(25, 6 * MIB);
    client_dir.media("film.mp4", media);
    let url = uploads(farm());
    let named = r#"{"name": "{stem} {size}"}"#;
    let words = ["upload", "film.mp4", &url, "-m", named];
    let slowly = ["--max-rate", "2M", "--chunk-size", "256K"];
    let mut running = client_dir.start(&[&words[..], &slowly].concat());
    running.until_committed(256 << 10);
    running.signal(rustix::process::Signal::INT);
    running.end().expect(4);
    assert_eq!(client_dir.unfinished().len(), 1);
    let resumed = client_dir.run(&words).expect(0);
    resumed.says("carrying on");
    assert_eq!(resumed.json()["name"], format!("film {}", media.len()));
    assert_media(farm(), &resumed.json(), media);
}

#[test]
fn directories_are_filtered_by_pattern_and_depth() {
    let client_dir = herd();
    let url = uploads(farm());
    let words = ["upload", "--recursive", "herd", &url];
    for (flags, expected) in [
        (&["--include", "*.jpg"][..], &["herd/bella.jpg"][..]),
        (&["--max-depth", "1"], &["herd/bella.jpg", "herd/notes.txt"]),
        (
            &["--include", "2026/*"],
            &["herd/2026/my \"best\" cow.2.png"],
        ),
    ] {
        let ran = client_dir.run(&[&words[..], flags].concat()).expect(0);
        let results = by_source(&ran);
        assert_eq!(results.keys().collect::<Vec<_>>(), expected, "{flags:?}");
    }
    let none = [&words[..], &["--include", "*.gif"]].concat();
    let ran = client_dir.run(&none).expect(0);
    ran.says("warning: there is no file to upload in herd\nhint: --include");
    client_dir
        .run(&["upload", "herd", &url, "--include", "*.gif"])
        .expect(2)
        .says("--recursive");
}

#[test]
fn directory_without_the_flag_is_an_error_with_a_hint_and_the_others_go_on() {
    let client_dir = herd();
    let url = uploads(farm());
    let ran = client_dir.run(&["upload", "herd", "herd/bella.jpg", &url]);
    let ran = ran.expect(3);
    ran.says("error: herd is a directory\nhint: --recursive uploads the files in a directory");
    ran.says("1 of 2 uploaded, 1 failed");
}

#[test]
fn braces_that_are_no_placeholder_are_refused_before_anything_is_uploaded() {
    let client_dir = herd();
    let url = uploads(farm());
    for metadata in [r#"{"name": "{nmae}"}"#, r#"{"name": "{"}"#] {
        let words = ["upload", "herd/bella.jpg", &url, "-m", metadata];
        let ran = client_dir.run(&words).expect(2);
        ran.says("hint: the placeholders are {name}, {stem}, {path} and {size}; {{ and }} are");
    }
    let words = ["upload", "-", &url, "-m", r#"{"name": "{name}"}"#];
    client_dir.run(&words).expect(2).says("standard input");
}
