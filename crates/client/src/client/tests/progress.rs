//! The values that the progress callback receives.

use std::sync::{Arc, Mutex};

use super::script::{Answer, Script, committed, finished, replies, started};
use super::*;
use crate::Progress;

/// Returns an upload, and the events that its callback gets.
fn observed(upload: Upload) -> (Upload, Arc<Mutex<Vec<Progress>>>) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let reported = Arc::clone(&events);
    let upload = upload.on_progress(move |progress| {
        let mut events = reported.lock().expect("no test panicked");
        events.push(progress.clone());
    });
    (upload, events)
}

/// Returns the states with the committed bytes. States that are reported again count once.
fn steps(events: &Mutex<Vec<Progress>>) -> Vec<(State, u64)> {
    let events = events.lock().expect("no test panicked");
    let mut steps: Vec<_> = events
        .iter()
        .map(|event| (event.state.clone(), event.committed))
        .collect();
    steps.dedup();
    steps
}

#[tokio::test(start_paused = true)]
async fn events_of_an_upload_end_with_done_and_all_bytes_committed() {
    for (upload_type, script, first) in [
        (
            UploadType::Media,
            Script::new([finished(r#"{"size":"5"}"#)]),
            vec![(State::Sending, 0)],
        ),
        (
            UploadType::Resumable,
            Script::new([started(), finished(r#"{"size":"5"}"#)]),
            vec![(State::Starting, 0), (State::Sending, 0)],
        ),
    ] {
        let (upload, events) = observed(resumable().upload_type(upload_type));
        run(&script, upload, b"Llama").await.expect("it succeeds");
        let last = [(State::Checking, 5), (State::Done, 5)];
        assert_eq!(steps(&events), [&first[..], &last].concat());
        let events = events.lock().expect("no test panicked");
        assert!(events.iter().all(|event| event.sent >= event.committed));
    }
}

#[tokio::test(start_paused = true)]
async fn upload_without_verification_ends_with_done() {
    let (upload, events) = observed(resumable().verify(false));
    let script = Script::new([started(), finished("")]);
    run(&script, upload, b"Llama").await.expect("it succeeds");
    assert_eq!(steps(&events).last(), Some(&(State::Done, 5)));
}

#[tokio::test(start_paused = true)]
async fn committed_bytes_are_what_the_server_said_last() {
    let (upload, events) = observed(resumable());
    let script = Script::new([
        started(),
        Answer::Breaks,
        committed(3),
        replies(404),
        started(),
        finished("{}"),
    ]);
    run(&script, upload, b"Llama").await.expect("it succeeds");
    let mut steps = steps(&events);
    steps.retain(|(state, _)| !matches!(state, State::Waiting(_)));
    let expected = [
        (State::Starting, 0),
        (State::Sending, 0),
        (State::Querying, 0),
        (State::Sending, 3),
        // The session is lost, and its bytes with it.
        (State::Starting, 0),
        (State::Sending, 0),
        (State::Checking, 5),
        (State::Done, 5),
    ];
    assert_eq!(steps, expected);
}

#[tokio::test(start_paused = true)]
async fn resumed_upload_begins_with_what_the_journal_knows() {
    let directory = tempfile::tempdir().expect("there is room");
    let file = directory.path().join("media");
    std::fs::write(&file, b"Llama").expect("the directory is ours");
    let journal = Journal::open(directory.path().join("journal")).expect("the directory is ours");
    let upload = || resumable().journal(journal.clone());
    let answers = [started(), Answer::Breaks, committed(2), Answer::Hangs];
    let client = Client::with_transport(Script::new(answers), None);
    let given_up = upload().timeout(Duration::from_secs(10));
    let error = client.upload(given_up, Source::path(&file)).await;
    error.expect_err("the server hangs");

    let (upload, events) = observed(upload());
    let answers = [committed(4), finished(r#"{"size":"5"}"#)];
    let client = Client::with_transport(Script::new(answers), None);
    let resumed = client.upload(upload, Source::path(&file)).await;
    resumed.expect("it succeeds");
    let expected = [
        (State::Querying, 2),
        (State::Sending, 4),
        (State::Checking, 5),
        (State::Done, 5),
    ];
    assert_eq!(steps(&events), expected);
}

#[tokio::test(start_paused = true)]
async fn failed_upload_is_never_done() {
    let (upload, events) = observed(resumable());
    let script = Script::new([started(), replies(400)]);
    run(&script, upload, b"Llama").await.expect_err("refused");
    let expected = [(State::Starting, 0), (State::Sending, 0)];
    assert_eq!(steps(&events), expected);
}
