//! Journals that are damaged, disappear, or cannot be opened.

use std::fs;
use std::process::{Command, Stdio};

use windlass_testkit::media::Media;

use super::run::{ClientDir, Ran, assert_media, uploads};
use crate::server::farm;

const SMALL: Media = Media::new(71, 3000);
const LARGE: Media = Media::new(72, 6 << 20);
const DAMAGED: &str = "the record of mzxw6ytb cannot be used";

/// A client's directory with a small and a large file, and a record that cannot be read.
fn client_dir() -> ClientDir {
    let client_dir = ClientDir::new();
    client_dir.media("cow.jpg", SMALL);
    client_dir.media("film.mp4", LARGE);
    let journal = client_dir.path("state/windlass/uploads");
    fs::create_dir_all(&journal).expect("the desk is writable");
    fs::write(journal.join("mzxw6ytb.upload.json"), "{}").expect("the desk is writable");
    client_dir
}

/// A command of a user without a place for a journal.
fn homeless(client_dir: &ClientDir, words: &[&str]) -> Command {
    let mut command = client_dir.command(words);
    command.env("XDG_STATE_HOME", "/proc/nope");
    command
}

#[test]
fn upload_without_a_home_directory_runs_without_a_journal() {
    let client_dir = client_dir();
    let url = uploads(farm());
    for (name, media) in [("cow.jpg", SMALL), ("film.mp4", LARGE)] {
        let ran = Ran::of(&mut homeless(&client_dir, &["upload", name, &url])).expect(0);
        assert_media(farm(), &ran.json(), media);
        assert_eq!(ran.stderr.matches("warning: ").count(), 1, "{}", ran.stderr);
        ran.says("warning: unfinished uploads will not be recorded: ");
        ran.says("hint: ");
    }
    let words = ["upload", "cow.jpg", &url, "--quiet"];
    let ran = Ran::of(&mut homeless(&client_dir, &words)).expect(0);
    assert_eq!(ran.stderr, "");
}

#[test]
fn standard_input_is_not_remembered_anyway() {
    let client_dir = client_dir();
    let url = uploads(farm());
    let stdin = || fs::File::open(client_dir.path("cow.jpg")).expect("it is there");
    let mut command = homeless(&client_dir, &["upload", "-", &url]);
    let ran = Ran::of(command.stdin(Stdio::from(stdin()))).expect(0);
    assert_media(farm(), &ran.json(), SMALL);
    assert!(!ran.stderr.contains("warning"), "{}", ran.stderr);
    let mut command = homeless(
        &client_dir,
        &["upload", "-", &url, "--journal", "/proc/nope"],
    );
    Ran::of(command.stdin(Stdio::from(stdin()))).expect(3);
}

#[test]
fn unusable_journal_given_on_the_command_line_is_an_error() {
    let client_dir = client_dir();
    let words = ["upload", "cow.jpg", &uploads(farm())];
    let flag = [&words[..], &["--journal", "/proc/nope"]].concat();
    client_dir.run(&flag).expect(3).says("--no-journal");
    let mut variable = client_dir.command(&words);
    variable.env("WINDLASS_JOURNAL", "/proc/nope");
    Ran::of(&mut variable).expect(3).says("--no-journal");
}

#[test]
fn damaged_records_are_reported_by_every_command_that_reads_them() {
    let client_dir = client_dir();
    let cases: [&[&str]; 4] = [
        &["resume"],
        &["resume", "--all"],
        &["status"],
        &["status", "--json"],
    ];
    for words in cases {
        let ran = client_dir.run(words).expect(3);
        ran.says(&format!("warning: {DAMAGED}"));
        ran.says("hint: `windlass cancel mzxw6ytb --forget` removes it");
        assert!(!ran.stderr.contains("no unfinished"), "{}", ran.stderr);
    }
    client_dir.run(&["uploads"]).expect(0).says(DAMAGED);
    let ran = client_dir
        .run(&["upload", "cow.jpg", &uploads(farm())])
        .expect(0);
    assert_eq!(ran.stderr.matches(DAMAGED).count(), 1, "{}", ran.stderr);
    client_dir
        .run(&["cancel", "mzxw6ytb", "--forget"])
        .expect(0);
    client_dir.run(&["resume", "--all"]).expect(0);
}

#[test]
fn journal_removed_during_an_upload_gives_one_warning() {
    for (flag, warnings) in [("--no-verify", 1), ("--quiet", 0)] {
        let client_dir = client_dir();
        let url = uploads(farm());
        let words = ["upload", "film.mp4", &url, "--chunk-size", "256K"];
        let mut running = client_dir.start(&[&words[..], &["--max-rate", "1M", flag]].concat());
        running.until_committed(256 << 10);
        let journal = client_dir.path("state/windlass/uploads");
        fs::remove_dir_all(journal).expect("the desk is writable");
        let ran = running.end().expect(0);
        let warned = ran.stderr.matches("warning: cannot write the progress");
        assert_eq!(warned.count(), warnings, "{}", ran.stderr);
    }
}

#[test]
fn unknown_session_is_not_reported_as_cancelled() {
    let client_dir = ClientDir::new();
    let session = format!(
        "{}?uploadType=resumable&upload_id=mzxw6ytbmzxw6ytb",
        uploads(farm())
    );
    let ran = client_dir.run(&["cancel", &session]).expect(0);
    ran.says("the server does not know the session any more");
    assert!(!ran.stderr.contains("cancelled"), "{}", ran.stderr);
}
