//! The output of commands, word for word: transcripts of standard output, standard error and exit
//! codes.
//!
//! A transcript is a file in `messages/`. Each line that begins with `$ ` is a command. Below it
//! are the lines of standard output behind `| `, the lines of standard error behind `! `, and the
//! exit code unless it is 0. The commands of a file run in sequence in one directory. Addresses,
//! ids, times and versions are replaced by words in capital letters, which commands can use as
//! well.
//!
//! After a change, `UPDATE_MESSAGES=1 cargo test --test it messages` rewrites the files. Read each
//! changed line like a user who sees it for the first time.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use windlass_testkit::fault_proxy::{Fault, FaultProxy, Plan};
use windlass_testkit::media::Media;

use crate::client::run::ClientDir;
use crate::server::{farm, own, pond};
use normal::{Names, normalised};

mod normal;

const MIB: u64 = 1 << 20;

/// A directory in which the commands of transcripts run.
struct Desk {
    client_dir: ClientDir,
    names: RefCell<Names>,
}

impl Desk {
    /// With some files.
    fn new() -> Self {
        let client_dir = ClientDir::new();
        client_dir.media("cow.jpg", Media::new(91, 3000));
        client_dir.media("goat.jpg", Media::new(92, 2000));
        let names = RefCell::new(Names::new(&client_dir.path("")));
        Self { client_dir, names }
    }

    fn named(self, name: &str, value: &dyn ToString) -> Self {
        self.names.borrow_mut().add(name, value);
        self
    }

    /// Runs the commands of a transcript, and compares their output.
    #[track_caller]
    fn check(&self, transcript: &str) {
        let path = transcript_path(transcript);
        let expected = fs::read_to_string(&path).expect("there is a transcript");
        let mut found = String::new();
        for line in expected.lines() {
            if line.starts_with("# ") || line.is_empty() {
                writeln!(found, "{line}").expect("memory takes everything");
            } else if let Some(command) = line.strip_prefix("$ windlass") {
                found.push_str(&self.run(command));
            }
        }
        if std::env::var_os("UPDATE_MESSAGES").is_some() {
            fs::write(&path, &found).expect("the sources are writable");
        } else {
            assert_eq!(
                found, expected,
                "{transcript}: see messages.rs on how to update it"
            );
        }
    }

    /// Runs a command, and returns its part of a transcript.
    #[track_caller]
    fn run(&self, command: &str) -> String {
        let words = words(&self.names.borrow().filled_in(command));
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let ran = self.client_dir.run(&words);
        let left = self.client_dir.unfinished().into_iter();
        let ids = left.map(|upload| upload["id"].as_str().expect("an id").to_owned());
        let mut names = self.names.borrow_mut();
        names.add_uploads(ids);
        let mut part = format!("$ windlass{command}\n");
        for (mark, text) in [("|", &ran.stdout), ("!", &ran.stderr)] {
            for line in normalised(text, &names).lines() {
                let line = format!("{mark} {line}");
                writeln!(part, "{}", line.trim_end()).expect("memory takes everything");
            }
        }
        match ran.code {
            Some(0) => {}
            Some(code) => writeln!(part, "exit code {code}").expect("memory takes everything"),
            None => part.push_str("killed\n"),
        }
        part
    }
}

fn transcript_path(name: &str) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    sources
        .join("tests/it/messages")
        .join(name)
        .with_extension("txt")
}

/// The words of a command; single quotes keep words together, as in a shell.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut is_quoted) = (None::<String>, false);
    for c in command.chars() {
        match c {
            '\'' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            ' ' if !is_quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[test]
fn commands_that_are_typed_wrong() {
    Desk::new().check("usage");
}

#[test]
fn uploads_that_succeed_and_that_fail() {
    let desk = Desk::new().named("SERVER", &farm()).named("POND", &pond());
    fs::create_dir_all(desk.client_dir.path("herd/2026")).expect("the desk is writable");
    fs::create_dir(desk.client_dir.path("empty")).expect("the desk is writable");
    desk.client_dir.write("herd/2026/notes.txt", "none");
    desk.client_dir.write("large.png", vec![7; 400_000]);
    desk.check("upload");
}

#[test]
fn servers_that_demand_tokens_or_cannot_be_reached() {
    let scratch = ClientDir::new();
    scratch.write("token", "secret");
    let file = scratch.path("token");
    let guarded = own(&["--config", config(&scratch, &file).to_str().expect("UTF-8")]);
    let wrong = FaultProxy::start(farm());
    wrong.set_plan(Plan::always(Fault::Replace {
        status: 200,
        body: r#"{"id":"1","size":"3000","crc32c":"AAAAAA=="}"#,
    }));
    let desk = Desk::new()
        .named("GUARDED", &guarded.address())
        .named("SERVER", &farm())
        .named("WRONG", &wrong.address());
    desk.client_dir.write("token", "secret");
    desk.client_dir.write("other", "other");
    desk.check("refused");
}

/// A configuration file with a token for all clients.
fn config(directory: &ClientDir, token_file: &Path) -> PathBuf {
    let text = format!("[auth]\ntoken_file = '{}'\n", token_file.display());
    directory.write("windlass.toml", text);
    directory.path("windlass.toml")
}

#[test]
fn unfinished_uploads_from_the_failure_to_the_end() {
    let desk = Desk::new();
    desk.check("nothing_unfinished");
    let proxy = FaultProxy::start(farm());
    let desk = desk
        .named("SERVER", &farm())
        .named("PROXY", &proxy.address());
    desk.client_dir.media("film.mp4", Media::new(93, 6 * MIB));
    desk.client_dir.media("second.mp4", Media::new(94, 6 * MIB));
    // The first chunk of a megabyte arrives, the second does not.
    let fail_after_one = || {
        proxy.set_plan(Plan::new(|request| {
            let is_second = request.content_range.as_deref();
            let is_second = is_second.is_some_and(|range| range.starts_with("bytes 1048576-"));
            is_second.then_some(Fault::Replace {
                status: 503,
                body: "busy",
            })
        }));
    };
    fail_after_one();
    desk.check("unfinished");
    proxy.set_plan(Plan::none());
    desk.check("resumed");
}

#[test]
fn downloads() {
    let desk = Desk::new().named("SERVER", &farm());
    let url = format!("http://{}/upload/farm/v1/animals", farm());
    let uploaded = desk.client_dir.run(&["upload", "cow.jpg", &url]).expect(0);
    let id = uploaded.json()["id"].as_str().expect("an id").to_owned();
    fs::create_dir(desk.client_dir.path("herd")).expect("the desk is writable");
    desk.client_dir.write("own.jpg.part", "something else");
    desk.named("ANIMAL", &id).check("download");
}

#[test]
fn servers_that_cannot_start() {
    let running = own(&[]);
    let desk = Desk::new()
        .named("RUNNING", &running.address())
        .named("IN_USE", &running.data().display());
    desk.client_dir.write("typo.toml", "limitz = 3\n");
    desk.client_dir
        .write("key.toml", "[limits]\ngzip_ration = 3\n");
    desk.client_dir.write("value.toml", "listen = '8080x'\n");
    for (file, path) in [
        ("relative.toml", "uploads"),
        ("taken.toml", "/upload/files"),
    ] {
        let text = format!("[files]\npath = '{path}'\n");
        desk.client_dir.write(file, &text);
    }
    desk.client_dir.write("table.toml", "limits = 3\n");
    desk.client_dir.write("syntax.toml", "listen = [\n");
    desk.client_dir.write("zoo.toml", "name = 'zoo'\n");
    desk.client_dir.write("farm", "name = 'farm'\n");
    desk.check("serve");
}

/// The farm with other rules.
const FARM_OF_IMAGES: &str = r#"
name = "farm"
version = "v1"
[collections.animals]
schema = { name = "string", species = { type = "string", required = true } }
"#;

#[test]
fn stores_that_are_verified_and_backed_up() {
    let mut server = own(&[]);
    let desk = Desk::new().named("SERVER", &server.address());
    let url = format!("http://{}/upload/farm/v1/animals", server.address());
    desk.client_dir.run(&["upload", "cow.jpg", &url]).expect(0);
    let desk = desk.named("DATA", &server.data().display());
    let image = desk.client_dir.path("image.toml");
    std::fs::write(image, FARM_OF_IMAGES).expect("the desk is writable");
    desk.check("store_in_use");
    assert!(server.terminate().success());
    desk.check("store");
}

/// A description with a mistake in nearly every line, one of which steers terminals.
const MISTAKES: &str = r#"name = "album"
version = 3
tittle = "Album"

[collections.photos]
schema = { stars = { type = "integer", minimum = 1 }, title = "text" }
filter_by = ["title", "star"]
media = { max_size = "20XB" }

[methods.photos.hide]
http = "POST"

[methods."photos.like"]
http = "POST"
path = "photos/{photoId}:like"
response = "Foto"
backend = "\u001b[31m"
"#;

#[test]
fn descriptions() {
    let desk = Desk::new();
    desk.client_dir.write(
        "bad.json",
        r#"{"name": "a", "methods": {"x": {"id": "a.x"}}}"#,
    );
    desk.client_dir.write("syntax.toml", "name = \n");
    desk.client_dir.write("empty.toml", "");
    desk.client_dir.write("mistakes.toml", MISTAKES);
    let warnings = "name = 'a'\nversion = 'v1'\n[collections.photos]\nmedia = {}\n\
                    [methods.'photos.like']\nhttp = 'POST'\npath = 'photos/{photoId}:like'\n";
    desk.client_dir.write("warnings.toml", warnings);
    desk.check("api");
}
