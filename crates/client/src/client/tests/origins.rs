//! Which servers get media and tokens.

use std::path::PathBuf;

use super::script::{Answer, Script, committed, finished};
use super::*;
use crate::{Download, Record};

/// The session of a server that sends the client to another one.
const ELSEWHERE: &str = "https://elsewhere/session?upload_id=1";

fn upload_to(url: &str) -> Upload {
    let mut upload = resumable();
    upload.url = url.parse().expect("it is a URL");
    upload
}

/// An upload over TLS that also accepts the session [`ELSEWHERE`].
fn encrypted() -> Upload {
    let elsewhere = ELSEWHERE.parse().expect("it is a URL");
    upload_to("https://h/upload/farm/v1/animals").session_origin(&elsewhere)
}

fn started_at(location: &str) -> Answer {
    Answer::Replies(200, vec![(LOCATION, location.to_owned())], "")
}

fn with_token(script: &Arc<Script>) -> Client {
    let token = TokenSource::fixed("secret").expect("it is a token");
    Client::with_transport(script.clone(), Some(token))
}

#[tokio::test(start_paused = true)]
async fn unencrypted_session_of_an_encrypted_upload_is_refused() {
    for location in ["http://h/session?upload_id=1", "http://elsewhere/session"] {
        let script = Script::new([started_at(location)]);
        let allowed = location.parse().expect("it is a URL");
        let upload = encrypted().session_origin(&allowed);
        let error = run(&script, upload, b"Llama").await;
        let error = error.expect_err("it is refused");
        assert_eq!(error.kind(), Kind::Protocol);
        assert_eq!(script.seen().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn media_is_sent_to_another_host_only_if_it_is_allowed() {
    let script = Script::new([started_at(ELSEWHERE)]);
    let upload = upload_to("https://h/upload");
    let error = run(&script, upload.clone(), b"Llama").await;
    let error = error.expect_err("it is refused");
    assert_eq!(error.kind(), Kind::Protocol);
    assert_eq!(error.refused_origin(), Some("https://elsewhere"));
    assert!(!error.to_string().contains("upload_id"), "{error}");
    assert_eq!(script.seen().len(), 1);

    let script = Script::new([started_at(ELSEWHERE), finished("{}")]);
    let allowed = "https://elsewhere".parse().expect("it is a URL");
    let upload = upload.session_origin(&allowed);
    run(&script, upload, b"Llama").await.expect("it is allowed");
    assert_eq!(script.seen()[1].line, format!("PUT {ELSEWHERE}"));
}

#[tokio::test(start_paused = true)]
async fn google_apis_answer_with_sessions_at_other_hosts_of_theirs() {
    let session = "https://storage.googleapis.com/upload/storage/v1/b/b/o?upload_id=1";
    let script = Script::new([started_at(session), finished("{}")]);
    let upload = upload_to("https://www.googleapis.com/upload/storage/v1/b/b/o");
    run(&script, upload, b"Llama").await.expect("it succeeds");
}

#[tokio::test(start_paused = true)]
async fn user_in_a_session_uri_is_no_way_around_the_host() {
    for location in [
        "https://h@elsewhere/s",
        "https://h:443@elsewhere:443/s",
        "//elsewhere/s",
    ] {
        let script = Script::new([started_at(location)]);
        let error = run(&script, upload_to("https://h/upload"), b"Llama").await;
        let error = error.expect_err("it is refused");
        assert_eq!(
            error.refused_origin(),
            Some("https://elsewhere"),
            "{location}"
        );
        assert_eq!(script.seen().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn location_that_is_no_web_address_is_refused() {
    for location in [
        "file:///etc/passwd",
        "ftp://h/s",
        "data:,x",
        "https://",
        "http://[::1",
    ] {
        let script = Script::new([started_at(location)]);
        let error = run(&script, resumable(), b"Llama").await;
        let error = error.expect_err("it is refused");
        assert_eq!(error.kind(), Kind::Protocol, "{location}");
        assert_eq!(script.seen().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn token_is_sent_only_to_the_origin_of_the_upload_url() {
    for (location, trusted) in [
        ("/session?upload_id=1", true),
        (ELSEWHERE, false),
        ("https://h:81/session?upload_id=1", false),
    ] {
        let script = Script::new([started_at(location), finished("{}")]);
        let client = with_token(&script);
        let uploaded = client.upload(encrypted(), Source::bytes("Llama")).await;
        uploaded.expect("the upload succeeds");
        let seen = script.seen();
        assert_eq!(seen[0].headers["authorization"], "Bearer secret");
        let sent = seen[1].headers.contains_key("authorization");
        assert_eq!(sent, trusted, "{location}");
    }
}

#[tokio::test(start_paused = true)]
async fn token_is_sent_without_encryption_to_this_machine_only() {
    for (url, private) in [
        ("http://farm.example/upload", false),
        ("http://10.0.0.1/upload", false),
        ("https://farm.example/upload", true),
        ("http://localhost:8080/upload", true),
        ("http://127.0.0.1:8080/upload", true),
    ] {
        let script = Script::new([finished("{}")]);
        let upload = upload_to(url).upload_type(UploadType::Media);
        let uploaded = with_token(&script)
            .upload(upload, Source::bytes("Llama"))
            .await;
        match uploaded {
            Ok(_) => assert!(private, "{url}"),
            Err(error) => {
                assert_eq!(error.kind(), Kind::Token, "{url}");
                assert!(error.is_token_withheld() && !private, "{url}");
            }
        }
        assert_eq!(script.seen().len(), usize::from(private), "{url}");
    }
}

#[tokio::test(start_paused = true)]
async fn withheld_token_stops_downloads_and_questions_as_well() {
    let directory = tempfile::tempdir().expect("there is room");
    let script = Script::new([]);
    let client = with_token(&script);
    let url = "http://farm.example/cow".parse().expect("it is a URL");
    let download = Download::new(url, directory.path().join("cow"));
    let error = client.download(&download, |_| {}).await;
    assert!(error.expect_err("it fails").is_token_withheld());
    let session: SessionUri = "http://farm.example/s".parse().expect("it is a URL");
    for result in [client.status(&session).await, client.cancel(&session).await] {
        assert!(result.expect_err("it fails").is_token_withheld());
    }
    assert!(script.seen().is_empty());
}

#[tokio::test(start_paused = true)]
async fn token_is_sent_without_encryption_where_that_is_allowed() {
    let script = Script::new([finished("{}")]);
    let client = Client::builder().bearer("secret").expect("it is a token");
    let client = client.allow_plain_http(true).build_over(script.clone());
    let upload = upload_to("http://farm.example/upload").upload_type(UploadType::Media);
    let uploaded = client.upload(upload, Source::bytes("Llama")).await;
    uploaded.expect("it is allowed");
    assert_eq!(script.seen()[0].headers["authorization"], "Bearer secret");
}

#[tokio::test(start_paused = true)]
async fn token_is_not_sent_to_a_session_at_another_origin_for_status_or_cancel() {
    for (location, trusted) in [("/session?upload_id=1", true), (ELSEWHERE, false)] {
        let script = Script::new([
            started_at(location),
            Answer::Hangs,
            committed(2),
            replies(499),
        ]);
        let client = with_token(&script);
        let upload = encrypted().timeout(Duration::from_secs(1));
        let error = client.upload(upload, Source::bytes("Llama")).await;
        let error = error.expect_err("the server hangs");
        let session = error.session().expect("there is a session");
        let status = client.status(session).await.expect("the server replies");
        assert_eq!(status, Status::Active { committed: 2 });
        let status = client.cancel(session).await.expect("the server replies");
        assert_eq!(status, Status::Cancelled);
        for seen in &script.seen()[2..] {
            let sent = seen.headers.contains_key("authorization");
            assert_eq!(sent, trusted, "{location}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn token_is_sent_to_a_parsed_session_and_not_to_a_deserialized_one() {
    let parsed: SessionUri = ELSEWHERE.parse().expect("it is a session URI");
    let written = serde_json::to_string(&parsed).expect("it is a string");
    assert_eq!(written, format!("{ELSEWHERE:?}"));
    let deserialized: SessionUri = serde_json::from_str(&written).expect("it is a session URI");
    for (session, trusted) in [(parsed, true), (deserialized, false)] {
        assert_eq!(session.reveal(), ELSEWHERE);
        let script = Script::new([committed(2)]);
        let client = with_token(&script);
        client.status(&session).await.expect("the server replies");
        let sent = script.seen()[0].headers.contains_key("authorization");
        assert_eq!(sent, trusted);
    }
}

/// Starts an upload that hangs, and returns the file, its journal and the record.
async fn recorded(directory: &tempfile::TempDir, location: &str) -> (PathBuf, Journal, Record) {
    let file = directory.path().join("media");
    std::fs::write(&file, b"Llama").expect("the directory is ours");
    let journal = Journal::open(directory.path().join("journal")).expect("the directory is ours");
    let script = Script::new([started_at(location), Answer::Hangs]);
    let upload = encrypted()
        .journal(journal.clone())
        .timeout(Duration::from_secs(1));
    let client = with_token(&script);
    let hangs = client.upload(upload, Source::path(&file)).await;
    hangs.expect_err("the server hangs");
    let mut entries = journal.entries().expect("it can be read");
    let Some(Entry::Unfinished(record)) = entries.pop() else {
        panic!("there is one upload");
    };
    (file, journal, *record)
}

#[tokio::test(start_paused = true)]
async fn token_is_not_sent_to_a_journaled_session_at_another_origin() {
    let directory = tempfile::tempdir().expect("there is room");
    let (_, _, record) = recorded(&directory, ELSEWHERE).await;
    let script = Script::new([committed(2)]);
    let status = with_token(&script).status(&record.session).await;
    status.expect("the server replies");
    assert!(!script.seen()[0].headers.contains_key("authorization"));
}

/// A journal is private, so this is a second line of defence.
#[tokio::test(start_paused = true)]
async fn record_that_was_pointed_elsewhere_gets_neither_media_nor_token() {
    let directory = tempfile::tempdir().expect("there is room");
    let (file, journal, record) = recorded(&directory, "/session?upload_id=1").await;
    let path = directory
        .path()
        .join("journal")
        .join(format!("{}.upload.json", record.id));
    let written = std::fs::read_to_string(&path).expect("it is ours");
    for session in ["https://elsewhere/session", "http://h/session"] {
        let pointed = written.replace("https://h/session", session);
        assert_ne!(pointed, written);
        std::fs::write(&path, pointed).expect("it is ours");
        let script = Script::new([]);
        let upload = upload_to("https://h/upload/farm/v1/animals").journal(journal.clone());
        let error = with_token(&script)
            .upload(upload.clone(), Source::path(&file))
            .await;
        let error = error.expect_err("it is refused");
        assert_eq!(error.kind(), Kind::Protocol, "{session}");
        assert_eq!(error.upload(), Some(&record.id));
        let locked = journal.lock(&record.id).expect("nobody has it");
        let error = with_token(&script).resume(upload, locked).await;
        assert_eq!(error.expect_err("it is refused").kind(), Kind::Protocol);
        assert!(script.seen().is_empty());
    }
}
