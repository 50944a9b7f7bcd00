//! The output of commands: outputs that cannot be written, and their content.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use windlass_testkit::fault_proxy::{Fault, FaultProxy, Plan};
use windlass_testkit::media::Media;

use super::run::{ClientDir, Ran, uploads};
use crate::server::farm;

const MEDIA: Media = Media::new(61, 3000);

/// A file name with control characters and a line break.
const ODD: &str = "cow\nerror: \u{1b}]0;forged\u{7}\u{9b}2J\u{202e}.jpg";
const SHOWN: &str = r"cow\u{a}error: \u{1b}]0;forged\u{7}\u{9b}2J\u{202e}.jpg";

fn client_dir() -> ClientDir {
    let client_dir = ClientDir::new();
    client_dir.media("cow.jpg", MEDIA);
    client_dir
}

/// Runs a command with a full device as standard output.
#[track_caller]
fn into_full(command: &mut Command) -> Ran {
    let full = File::options().write(true).open("/dev/full");
    spoken(command, full.expect("there is a full device").into())
}

/// Runs a command with a closed pipe as standard output.
#[track_caller]
fn into_nobody(command: &mut Command) -> Ran {
    let (reader, writer) = std::io::pipe().expect("there are pipes");
    drop(reader);
    spoken(command, writer.into())
}

/// Returns the output on standard error and the exit code.
#[track_caller]
fn spoken(command: &mut Command, stdout: Stdio) -> Ran {
    command.stdout(stdout).stderr(Stdio::piped());
    let child = command.spawn().expect("the command can be started");
    let output = child.wait_with_output().expect("it ends");
    Ran {
        code: output.status.code(),
        stdout: String::new(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn data_that_cannot_be_written_is_a_failure() {
    let client_dir = client_dir();
    let url = uploads(farm());
    let cases: [&[&str]; 5] = [
        &["upload", "cow.jpg", &url],
        &["upload", "cow.jpg", &url, "--json"],
        &["man"],
        &["completions", "bash"],
        &["serve", "--check-config"],
    ];
    for words in cases {
        let ran = into_full(&mut client_dir.command(words)).expect(1);
        ran.says("error: cannot write to standard output: No space left");
    }
    let ran = into_full(&mut client_dir.command(&["upload", "none.jpg", &url])).expect(3);
    assert!(!ran.stderr.contains("standard output"), "{}", ran.stderr);
}

#[test]
fn closed_pipe_is_accepted_for_lists_and_an_error_for_results() {
    let client_dir = client_dir();
    into_nobody(&mut client_dir.command(&["man"])).expect(0);
    for flag in ["--quiet", "--json"] {
        let words = ["upload", "cow.jpg", &uploads(farm()), flag];
        into_nobody(&mut client_dir.command(&words))
            .expect(1)
            .says("cannot write to standard output");
    }
}

#[test]
fn server_runs_without_a_reader_of_its_output() {
    let client_dir = ClientDir::new();
    let mut serve = client_dir.command(&["serve", "--listen", "127.0.0.1:0", "--data", "data"]);
    let full = File::options().write(true).open("/dev/full");
    serve
        .stdout(full.expect("there is a full device"))
        .stderr(Stdio::piped());
    let mut child = serve.spawn().expect("the server can be started");
    let mut log = BufReader::new(child.stderr.take().expect("stderr is a pipe"));
    let mut line = String::new();
    while !line.contains("serving") {
        line.clear();
        assert!(log.read_line(&mut line).expect("the log is text") > 0);
    }
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn names_in_messages_are_escaped() {
    let client_dir = client_dir();
    client_dir.media(ODD, MEDIA);
    let ran = client_dir.run(&["upload", ODD, &uploads(farm())]).expect(0);
    ran.says(&format!("{SHOWN}: 2.9 KiB uploaded"));
    let none = format!("none {ODD}");
    let ran = client_dir
        .run(&["upload", &none, &uploads(farm())])
        .expect(3);
    ran.says(&format!("cannot open none {SHOWN}"));
    let ran = client_dir.run(&["upload", "cow.jpg", ODD]).expect(2);
    ran.says(SHOWN);
    assert!(!ran.stderr.contains("\nerror: \u{1b}"), "{}", ran.stderr);
}

#[test]
fn names_in_a_table_are_escaped() {
    let client_dir = ClientDir::new();
    client_dir.media(ODD, Media::new(62, 6 << 20));
    let proxy = FaultProxy::start(farm());
    proxy.set_plan(Plan::new(|request| {
        request
            .is_session
            .then_some(Fault::CutRequest { after: 1 << 20 })
    }));
    let url = uploads(proxy.address());
    let words = ["upload", ODD, &url, "--retries", "0"];
    client_dir.run(&words).expect(4).says(SHOWN);
    proxy.set_plan(Plan::none());
    for command in ["uploads", "status"] {
        let table = client_dir.run(&[command]).stdout;
        assert!(table.contains(SHOWN), "{command}: {table}");
        assert!(!table.contains('\u{1b}'), "{command}: {table}");
    }
}

#[test]
fn texts_of_a_server_are_escaped() {
    let client_dir = client_dir();
    let proxy = FaultProxy::start(farm());
    proxy.set_plan(Plan::always(Fault::Replace {
        status: 403,
        body: r#"{"error":{"code":403,"message":"No.\nhint: \u001b[2Jsend your token to me"}}"#,
    }));
    let url = uploads(proxy.address());
    let ran = client_dir.run(&["upload", "cow.jpg", &url]).expect(1);
    assert!(!ran.stderr.contains('\u{1b}'), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("\nhint: ").count(), 1, "{}", ran.stderr);
}
