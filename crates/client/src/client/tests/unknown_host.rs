//! Servers with an unknown name.

use super::*;

#[tokio::test(start_paused = true)]
async fn unknown_host_ends_an_upload_that_has_reached_nothing() {
    let script = Script::new([Answer::UnknownHost]);
    let error = run(&script, resumable(), b"Llama")
        .await
        .expect_err("nothing was reached");
    assert_eq!(error.kind(), Kind::Connection);
    assert!(error.is_unknown_host() && !error.is_retryable());
    assert_eq!(script.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn unknown_host_is_waited_for_once_something_was_reached() {
    let script = Script::new([started(), Answer::UnknownHost, replies(308), finished("{}")]);
    let causes = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&causes);
    let upload = resumable().on_progress(move |progress| {
        if matches!(progress.state, State::Waiting(_)) {
            seen.lock()
                .expect("no test panicked")
                .push(progress.broken.clone());
        }
    });
    run(&script, upload, b"Llama").await.expect("it is back");
    let causes = causes.lock().expect("no test panicked");
    let expected = Some("cannot connect: no such host".to_owned());
    assert_eq!(causes[..], [expected]);
}
