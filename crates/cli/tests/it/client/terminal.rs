//! The output on a terminal.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use windlass_testkit::fault_proxy::{Fault, FaultProxy, Plan};
use windlass_testkit::media::Media;

use super::run::{ClientDir, uploads};
use crate::server::farm;

const MIB: u64 = 1 << 20;

/// How long a test waits for a command that writes nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command with a terminal as standard input and standard error.
struct OnTerminal {
    child: Child,
    /// The keyboard input.
    keyboard: File,
    /// The screen output, piece by piece.
    screen: Receiver<Vec<u8>>,
    seen: String,
}

impl OnTerminal {
    #[track_caller]
    fn start(mut command: Command) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&controller).expect("it is ours");
        unlockpt(&controller).expect("it is ours");
        let name = ptsname(&controller, Vec::new()).expect("it has a name");
        // Not the controlling terminal of a process: the tests send signals themselves.
        let no_controlling_terminal = i32::try_from(OpenptFlags::NOCTTY.bits()).expect("a flag");
        let terminal = File::options()
            .read(true)
            .write(true)
            .custom_flags(no_controlling_terminal)
            .open(name.to_str().expect("a path"))
            .expect("it can be opened");
        let stdin = terminal.try_clone().expect("it can be shared");
        command.stdin(stdin).stderr(terminal);
        let child = command.spawn().expect("the command can be started");
        // Closes this process's copies of the terminal. Otherwise its end could not be read.
        drop(command);
        let keyboard = File::from(controller);
        let screen = read_all(keyboard.try_clone().expect("it can be shared"));
        Self {
            child,
            keyboard,
            screen,
            seen: String::new(),
        }
    }

    /// Waits until this is written.
    #[track_caller]
    fn until(&mut self, text: &str) {
        while !self.seen.contains(text) {
            assert!(self.read_on(), "no `{text}` in:\n{}", self.seen);
        }
    }

    /// Reads the next output. Returns whether there was any.
    #[track_caller]
    fn read_on(&mut self) -> bool {
        match self.screen.recv_timeout(PATIENCE) {
            Ok(piece) => {
                self.seen.push_str(&String::from_utf8_lossy(&piece));
                true
            }
            Err(RecvTimeoutError::Disconnected) => false,
            Err(RecvTimeoutError::Timeout) => {
                self.child.kill().ok();
                panic!("it does not end:\n{}", self.seen);
            }
        }
    }

    fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("it reads");
    }

    fn interrupt(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("it runs");
    }

    /// Waits for the end, and returns all that was written, with the ends of lines of files.
    #[track_caller]
    fn end(mut self, code: i32) -> String {
        while self.read_on() {}
        let status = self.child.wait().expect("it ends");
        assert_eq!(status.code(), Some(code), "{}", self.seen);
        self.seen.replace("\r\n", "\n")
    }
}

/// Reads until no process has the terminal open.
fn read_all(mut screen: File) -> Receiver<Vec<u8>> {
    let (pieces, received) = channel();
    thread::spawn(move || {
        let mut piece = [0; 4096];
        // The end of a terminal is an error.
        while let Ok(len @ 1..) = screen.read(&mut piece) {
            if pieces.send(piece[..len].to_vec()).is_err() {
                return;
            }
        }
    });
    received
}

/// A command that prints its results into a file.
fn command(client_dir: &ClientDir, words: &[&str]) -> Command {
    let mut command = client_dir.command(words);
    let results = File::create(client_dir.path("results")).expect("the desk is writable");
    command.stdout(results);
    command
}

#[test]
fn several_files_have_a_bar_for_their_sum() {
    let client_dir = ClientDir::new();
    client_dir.media("a.jpg", Media::new(81, MIB));
    client_dir.media("b.jpg", Media::new(82, MIB));
    let url = uploads(farm());
    let words = [
        "upload",
        "a.jpg",
        "none.jpg",
        "b.jpg",
        &url,
        "--max-rate",
        "2M",
    ];
    let mut running = OnTerminal::start(command(&client_dir, &words));
    running.until(" of 3, 1 failed");
    let screen = running.end(3);
    assert!(screen.contains(" of 2 MiB sent"), "{screen}");
    assert!(screen.ends_with("2 of 3 uploaded, 1 failed\n"), "{screen}");
}

#[test]
fn bar_shows_committed_bytes_only_when_they_are_known() {
    let client_dir = ClientDir::new();
    client_dir.media("film.mp4", Media::new(83, 6 * MIB));
    let url = uploads(farm());
    let words = ["upload", "film.mp4", &url, "--max-rate", "16M"];
    let screen = OnTerminal::start(command(&client_dir, &words)).end(0);
    assert!(screen.contains(" % of 6 MiB sent"), "{screen}");
    assert!(!screen.contains("0 B of"), "{screen}");
    let words = [
        "upload",
        "film.mp4",
        &url,
        "--chunk-size",
        "1M",
        "--max-rate",
        "16M",
    ];
    let screen = OnTerminal::start(command(&client_dir, &words)).end(0);
    assert!(screen.contains(" of 6 MiB committed"), "{screen}");
}

#[test]
fn interrupted_question_ends_its_line() {
    let client_dir = ClientDir::new();
    client_dir.media("film.mp4", Media::new(84, 6 * MIB));
    let proxy = FaultProxy::start(farm());
    proxy.set_plan(Plan::new(|request| {
        request.is_session.then_some(Fault::Replace {
            status: 503,
            body: "busy",
        })
    }));
    let url = uploads(proxy.address());
    let words = ["upload", "film.mp4", &url, "--retries", "0"];
    client_dir.run(&words).expect(4);
    let mut asked = OnTerminal::start(command(&client_dir, &words));
    asked.until("Carry on? [Y/n, r to restart]");
    asked.interrupt();
    let screen = asked.end(4);
    let end = "r to restart] \nerror: stopped before the first upload\n";
    assert!(screen.ends_with(end), "{screen}");
    assert_eq!(client_dir.unfinished().len(), 1);

    let mut asked = OnTerminal::start(command(&client_dir, &words));
    asked.until("Carry on?");
    asked.type_in("n\n");
    asked.end(4);
}

/// Two uploads that have begun, and the command.
fn two_that_have_begun(client_dir: &ClientDir) -> [String; 6] {
    client_dir.media("film.mp4", Media::new(85, 6 * MIB));
    client_dir.media("song.mp3", Media::new(86, 1000));
    let proxy = FaultProxy::start(farm());
    proxy.set_plan(Plan::new(|request| {
        request.is_session.then_some(Fault::Replace {
            status: 503,
            body: "busy",
        })
    }));
    let url = uploads(proxy.address());
    let words = ["upload", "film.mp4", "song.mp3", &url, "--retries", "0"];
    client_dir.run(&words).expect(4);
    assert_eq!(client_dir.unfinished().len(), 2);
    words.map(str::to_owned)
}

#[test]
fn question_is_asked_once_for_several_files() {
    let client_dir = ClientDir::new();
    let words = two_that_have_begun(&client_dir);
    let words: Vec<_> = words.iter().map(|word| &**word).collect();
    let mut asked = OnTerminal::start(command(&client_dir, &words));
    asked.until("2 uploads are unfinished: 0 B of 6 MiB committed, the first begun ");
    asked.type_in("n\n");
    let screen = asked.end(4);
    assert_eq!(screen.matches("Carry on?").count(), 1, "{screen}");
    assert_eq!(client_dir.unfinished().len(), 2);
}

#[test]
fn table_of_uploads_fits_into_the_terminal() {
    let client_dir = ClientDir::new();
    two_that_have_begun(&client_dir);
    // The table of this command goes to standard error.
    let screen = OnTerminal::start(command(&client_dir, &["resume"])).end(2);
    let table = screen
        .lines()
        .take_while(|line| !line.starts_with("error:"));
    for line in table {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(screen.contains("film.mp4"), "{screen}");
}

#[test]
fn messages_have_colours_on_a_terminal_unless_the_user_wants_none() {
    let client_dir = ClientDir::new();
    let words = ["resume", "22222222"];
    for (no_color, term, has_colours) in [
        (None, None, true),
        (Some(""), Some("xterm"), true),
        (Some("1"), Some("xterm"), false),
        (None, Some("dumb"), false),
    ] {
        let mut command = command(&client_dir, &words);
        for (name, value) in [("NO_COLOR", no_color), ("TERM", term)] {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let screen = OnTerminal::start(command).end(2);
        assert_eq!(screen.contains("\u{1b}["), has_colours, "{screen:?}");
        assert!(screen.contains("no unfinished upload"), "{screen}");
    }
    // Nothing but a terminal gets colours.
    let mut piped = client_dir.command(&words);
    let ran = super::run::Ran::of(piped.env_remove("NO_COLOR")).expect(2);
    assert!(!ran.stderr.contains('\u{1b}'), "{}", ran.stderr);
}

#[test]
fn media_from_the_keyboard_is_asked_for() {
    let client_dir = ClientDir::new();
    let url = uploads(farm());
    let mut typed = OnTerminal::start(command(&client_dir, &["upload", "-", &url]));
    typed.until("standard input is the terminal: Ctrl-D");
    typed.type_in("a cow\n\u{4}");
    let screen = typed.end(0);
    assert!(screen.contains("standard input: 6 B uploaded"), "{screen}");
}
