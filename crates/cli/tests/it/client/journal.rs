//! A journal that is damaged, that goes away, or that cannot be had.

use std::fs;
use std::process::{Command, Stdio};

use windlass_testkit::media::Media;

use super::run::{Desk, Ran, assert_media, uploads};
use crate::server::farm;

const SMALL: Media = Media::new(71, 3000);
const LARGE: Media = Media::new(72, 6 << 20);
const DAMAGED: &str = "mzxw6ytb is of no use";

/// A desk with a small and a large file, and a record that cannot be read.
fn desk() -> Desk {
    let desk = Desk::new();
    desk.media("cow.jpg", SMALL);
    desk.media("film.mp4", LARGE);
    let journal = desk.path("state/windlass/uploads");
    fs::create_dir_all(&journal).expect("the desk is writable");
    fs::write(journal.join("mzxw6ytb.upload.json"), "{}").expect("the desk is writable");
    desk
}

/// A command of a user without a place for a journal.
fn homeless(desk: &Desk, words: &[&str]) -> Command {
    let mut command = desk.command(words);
    command.env("XDG_STATE_HOME", "/proc/nope");
    command
}

#[test]
fn what_needs_no_journal_does_without() {
    let desk = desk();
    let url = uploads(farm());
    for (name, media) in [("cow.jpg", SMALL), ("film.mp4", LARGE)] {
        let ran = Ran::of(&mut homeless(&desk, &["upload", name, &url])).expect(0);
        assert_media(farm(), &ran.json(), media);
        assert_eq!(ran.stderr.matches("warning: ").count(), 1, "{}", ran.stderr);
        ran.says("warning: nothing will be remembered: ");
        ran.says("hint: ");
    }
    let words = ["upload", "cow.jpg", &url, "--quiet"];
    let ran = Ran::of(&mut homeless(&desk, &words)).expect(0);
    assert_eq!(ran.stderr, "");
}

#[test]
fn standard_input_is_not_remembered_anyway() {
    let desk = desk();
    let url = uploads(farm());
    let stdin = || fs::File::open(desk.path("cow.jpg")).expect("it is there");
    let mut command = homeless(&desk, &["upload", "-", &url]);
    let ran = Ran::of(command.stdin(Stdio::from(stdin()))).expect(0);
    assert_media(farm(), &ran.json(), SMALL);
    assert!(!ran.stderr.contains("warning"), "{}", ran.stderr);
    let mut command = homeless(&desk, &["upload", "-", &url, "--journal", "/proc/nope"]);
    Ran::of(command.stdin(Stdio::from(stdin()))).expect(3);
}

#[test]
fn a_journal_that_somebody_chose_must_be_usable() {
    let desk = desk();
    let words = ["upload", "cow.jpg", &uploads(farm())];
    let flag = [&words[..], &["--journal", "/proc/nope"]].concat();
    desk.run(&flag).expect(3).says("--no-journal");
    let mut variable = desk.command(&words);
    variable.env("WINDLASS_JOURNAL", "/proc/nope");
    Ran::of(&mut variable).expect(3).says("--no-journal");
}

#[test]
fn damaged_records_are_told_of_by_every_command_that_wanted_them() {
    let desk = desk();
    let cases: [&[&str]; 4] = [
        &["resume"],
        &["resume", "--all"],
        &["status"],
        &["status", "--json"],
    ];
    for words in cases {
        let ran = desk.run(words).expect(3);
        ran.says(&format!("warning: {DAMAGED}"));
        ran.says("hint: `windlass cancel mzxw6ytb --forget` removes it");
        assert!(!ran.stderr.contains("no unfinished"), "{}", ran.stderr);
    }
    desk.run(&["uploads"]).expect(0).says(DAMAGED);
    let ran = desk.run(&["upload", "cow.jpg", &uploads(farm())]).expect(0);
    assert_eq!(ran.stderr.matches(DAMAGED).count(), 1, "{}", ran.stderr);
    desk.run(&["cancel", "mzxw6ytb", "--forget"]).expect(0);
    desk.run(&["resume", "--all"]).expect(0);
}

#[test]
fn a_journal_that_goes_away_is_worth_one_warning() {
    for (flag, warnings) in [("--no-verify", 1), ("--quiet", 0)] {
        let desk = desk();
        let url = uploads(farm());
        let words = ["upload", "film.mp4", &url, "--chunk-size", "256K"];
        let mut running = desk.start(&[&words[..], &["--max-rate", "1M", flag]].concat());
        running.until_committed(256 << 10);
        let journal = desk.path("state/windlass/uploads");
        fs::remove_dir_all(journal).expect("the desk is writable");
        let ran = running.end().expect(0);
        let warned = ran.stderr.matches("warning: the journal does not know");
        assert_eq!(warned.count(), warnings, "{}", ran.stderr);
    }
}

#[test]
fn a_session_that_no_server_knows_is_not_said_to_be_cancelled() {
    let desk = Desk::new();
    let session = format!(
        "{}?uploadType=resumable&upload_id=mzxw6ytbmzxw6ytb",
        uploads(farm())
    );
    let ran = desk.run(&["cancel", &session]).expect(0);
    ran.says("the server does not know the session any more");
    assert!(!ran.stderr.contains("cancelled"), "{}", ran.stderr);
}
