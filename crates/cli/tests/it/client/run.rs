//! A place to run commands in: a directory, a separate journal, and the output.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::raw::exchange;

use crate::server::program;

/// A directory in which commands are run.
pub(crate) struct ClientDir(TempDir);

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A command that prints events and has not ended.
pub(crate) struct Running {
    child: Child,
    events: BufReader<ChildStdout>,
    seen: String,
}

/// The URL of uploads of animals.
pub(crate) fn uploads(address: SocketAddr) -> String {
    format!("http://{address}{}", farm::UPLOADS)
}

/// Checks that the animal which a resource shows has exactly this media.
#[track_caller]
pub(crate) fn assert_media(address: SocketAddr, resource: &Value, media: Media) {
    assert_eq!(resource["size"], media.len().to_string());
    let id = resource["id"].as_str().expect("an id");
    let reply = exchange(address, &farm::download(id)).expect(200);
    media
        .compare(0..media.len(), &reply.body[..])
        .expect("the media is what was uploaded");
}

impl ClientDir {
    pub(crate) fn new() -> Self {
        let scratch = env!("CARGO_TARGET_TMPDIR");
        Self(TempDir::with_prefix_in("desk-", scratch).expect("the scratch directory is writable"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).expect("the desk is writable");
    }

    /// A file with media in it.
    pub(crate) fn media(&self, name: &str, media: Media) {
        self.write(name, media.whole());
    }

    /// A command that has not been started.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .args(words)
            .current_dir(self.0.path())
            .env_remove("WINDLASS_TOKEN")
            .env_remove("WINDLASS_JOURNAL")
            .env_remove("COLUMNS")
            .env_remove("CLICOLOR_FORCE")
            .env("TERM", "xterm")
            .env("NO_COLOR", "1")
            .env("XDG_STATE_HOME", self.path("state"))
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    #[track_caller]
    pub(crate) fn run(&self, words: &[&str]) -> Ran {
        Ran::of(&mut self.command(words))
    }

    /// Starts a command that prints events.
    #[track_caller]
    pub(crate) fn start(&self, words: &[&str]) -> Running {
        let mut command = self.command(words);
        command
            .arg("--json")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command can be started");
        let stdout = child.stdout.take().expect("stdout is a pipe");
        Running {
            child,
            events: BufReader::new(stdout),
            seen: String::new(),
        }
    }

    /// The unfinished uploads.
    #[track_caller]
    pub(crate) fn unfinished(&self) -> Vec<Value> {
        self.run(&["uploads", "--json"]).expect(0).lines()
    }
}

impl Ran {
    #[track_caller]
    pub(crate) fn of(command: &mut Command) -> Self {
        let output = command.output().expect("the command can be run");
        Self::new(output.status.code(), &output.stdout, &output.stderr)
    }

    /// No command prints a session URI.
    #[track_caller]
    fn new(code: Option<i32>, stdout: &[u8], stderr: &[u8]) -> Self {
        let ran = Self {
            code,
            stdout: String::from_utf8_lossy(stdout).into_owned(),
            stderr: String::from_utf8_lossy(stderr).into_owned(),
        };
        assert!(!ran.stdout.contains("upload_id"), "{ran:?}");
        assert!(!ran.stderr.contains("upload_id"), "{ran:?}");
        ran
    }

    /// The same, if the exit code is this one.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        let Self { stdout, stderr, .. } = &self;
        assert_eq!(
            self.code,
            Some(code),
            "stdout:\n{stdout}\nstderr:\n{stderr}"
        );
        self
    }

    /// The JSON documents on standard output, one or more lines each.
    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<Value> {
        let documents = serde_json::Deserializer::from_str(&self.stdout).into_iter();
        let documents: Result<_, _> = documents.collect();
        documents.unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }

    /// The only JSON document on standard output.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let mut lines = self.lines();
        assert_eq!(lines.len(), 1, "{}", self.stdout);
        lines.remove(0)
    }

    /// The events of one kind.
    #[track_caller]
    pub(crate) fn events(&self, kind: &str) -> Vec<Value> {
        let all = self.lines().into_iter();
        all.filter(|event| event["event"] == kind).collect()
    }

    /// Checks the messages on standard error.
    #[track_caller]
    pub(crate) fn says(&self, text: &str) {
        assert!(
            self.stderr.contains(text),
            "no `{text}` in:\n{}",
            self.stderr
        );
    }
}

impl Running {
    /// Reads events until one is as is wished.
    #[track_caller]
    pub(crate) fn until(&mut self, mut wish: impl FnMut(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            let read = self.events.read_line(&mut line).expect("stdout is text");
            assert!(read > 0, "it has ended: {}", self.seen);
            self.seen.push_str(&line);
            let event: Value = serde_json::from_str(&line).expect("a line is JSON");
            if wish(&event) {
                return event;
            }
        }
    }

    /// Reads events until so much is committed.
    #[track_caller]
    pub(crate) fn until_committed(&mut self, bytes: u64) {
        self.until(|event| event["committed"].as_u64() >= Some(bytes));
    }

    #[track_caller]
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the command runs");
    }

    /// Kills it without a warning.
    #[track_caller]
    pub(crate) fn kill9(mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn end(mut self) -> Ran {
        self.events
            .read_to_string(&mut self.seen)
            .expect("stdout is text");
        let output = self.child.wait_with_output().expect("it ends");
        Ran::new(output.status.code(), self.seen.as_bytes(), &output.stderr)
    }
}

/// Whether a file is there.
pub(crate) fn exists(path: &Path) -> bool {
    path.try_exists().expect("the desk is readable")
}
