//! Whole uploads over a transport with scripted replies, on a paused clock.

use std::sync::Mutex;
use std::time::Duration;

use http::StatusCode;
use http::header::{LOCATION, RETRY_AFTER};

use super::*;
use crate::{Entry, Journal, Kind, State};

mod origins;
mod progress;
mod protocols;
mod run;
mod script;
mod unknown_host;

use script::{Answer, Script, committed, finished, replies, started};

fn resumable() -> Upload {
    let url = "http://h/upload/farm/v1/animals"
        .parse()
        .expect("it is a URL");
    Upload::new(url)
        .expect("it is http")
        .upload_type(UploadType::Resumable)
}

async fn run(
    script: &Arc<Script>,
    upload: Upload,
    media: &'static [u8],
) -> Result<Uploaded, Error> {
    let client = Client::with_transport(script.clone(), None);
    client.upload(upload, Source::bytes(media)).await
}

/// Asserts that a wait takes `seconds` and at most one second more.
#[track_caller]
fn assert_wait(waited: Duration, seconds: u64) {
    let (least, most) = (
        Duration::from_secs(seconds),
        Duration::from_secs(seconds + 1),
    );
    // tokio's clock has a resolution of one millisecond.
    let slack = Duration::from_millis(2);
    assert!(
        waited >= least && waited <= most + slack,
        "{waited:?} for {seconds} s"
    );
}

#[tokio::test(start_paused = true)]
async fn unreachable_server_gets_six_attempts_with_the_documented_waits() {
    let script = Script::new((0..6).map(|_| replies(503)));
    let error = run(&script, resumable(), b"Llama")
        .await
        .expect_err("the server is down");
    assert_eq!(error.kind(), Kind::Unavailable);
    assert_eq!(error.status(), Some(StatusCode::SERVICE_UNAVAILABLE));
    assert!(error.is_retryable());
    let waits = script.waits();
    assert_eq!(waits.len(), 5);
    for (wait, seconds) in waits.iter().zip([1, 2, 4, 8, 16]) {
        assert_wait(*wait, seconds);
    }
    let total: Duration = waits.iter().sum();
    assert!(total >= Duration::from_secs(31) && total < Duration::from_millis(36_010));
}

#[tokio::test(start_paused = true)]
async fn random_part_of_each_wait_is_drawn_again() {
    let script = Script::new((0..6).map(|_| replies(500)));
    run(&script, resumable(), b"Llama")
        .await
        .expect_err("the server is down");
    let waits = script.waits();
    let mut parts: Vec<u32> = waits.iter().map(Duration::subsec_millis).collect();
    parts.sort_unstable();
    parts.dedup();
    // Five random numbers of a thousand: all of them are equal once in 10^12 runs.
    assert!(parts.len() > 1, "{parts:?}");
}

#[tokio::test(start_paused = true)]
async fn progress_resets_the_waits() {
    let script = Script::new([
        started(),
        Answer::Breaks,
        Answer::Breaks,
        committed(2),
        Answer::Breaks,
        committed(3),
        finished(r#"{"size":"5"}"#),
    ]);
    run(&script, resumable(), b"Llama")
        .await
        .expect("the upload succeeds");
    let waits = script.waits();
    assert_wait(waits[1], 1);
    assert_wait(waits[2], 2);
    assert_wait(waits[4], 1);
}

#[tokio::test(start_paused = true)]
async fn retry_after_of_the_server_is_honoured() {
    let later = Answer::Replies(429, vec![(RETRY_AFTER, "40".into())], "");
    let script = Script::new([started(), later, replies(308), finished("{}")]);
    run(&script, resumable(), b"Llama")
        .await
        .expect("the upload succeeds");
    assert_eq!(script.waits()[1], Duration::from_secs(40));
}

#[tokio::test(start_paused = true)]
async fn committed_bytes_are_not_resent() {
    let script = Script::new([
        started(),
        Answer::Breaks,
        committed(3),
        finished(r#"{"size":"5"}"#),
    ]);
    let uploaded = run(&script, resumable(), b"Llama")
        .await
        .expect("the upload succeeds");
    assert!(uploaded.verified.size);
    let seen = script.seen();
    assert_eq!(
        seen[0].line,
        "POST http://h/upload/farm/v1/animals?uploadType=resumable"
    );
    assert_eq!(seen[1].range(), "bytes 0-4/5");
    assert_eq!(seen[2].range(), "bytes */5");
    assert_eq!(seen[3].line, "PUT http://h/session?upload_id=1");
    assert_eq!(
        (seen[3].range(), &seen[3].body[..]),
        ("bytes 3-4/5", &b"ma"[..])
    );
}

#[tokio::test(start_paused = true)]
async fn success_before_all_media_was_sent_is_none() {
    static MEDIA: [u8; 200_000] = [7; 200_000];
    let script = Script::new([
        started(),
        Answer::RepliesEarly(201),
        committed(65_536),
        finished(r#"{"size":"200000"}"#),
    ]);
    let uploaded = run(&script, resumable(), &MEDIA).await;
    uploaded.expect("the upload succeeds");
    let seen = script.seen();
    // In memory the media is one piece. The transport has taken less.
    assert_eq!(seen[1].body.len(), 65_536);
    assert_eq!(seen[2].range(), "bytes */200000");
    assert_eq!(seen[3].range(), "bytes 65536-199999/200000");
}

#[tokio::test(start_paused = true)]
async fn lost_session_is_replaced_by_a_new_one() {
    let script = Script::new([started(), replies(404), started(), finished("{}")]);
    let uploaded = run(&script, resumable(), b"Llama")
        .await
        .expect("the upload succeeds");
    assert_eq!(uploaded.restarts, 1);
    assert_eq!(script.seen()[3].body, b"Llama");
}

#[tokio::test(start_paused = true)]
async fn media_that_differs_on_the_server_is_an_error() {
    let other = finished(r#"{"size":"5","crc32c":"AAAAAA=="}"#);
    let script = Script::new([started(), other]);
    let error = run(&script, resumable(), b"Llama")
        .await
        .expect_err("the media differs");
    assert_eq!(error.kind(), Kind::Mismatch);
    assert!(error.to_string().contains("crc32c"), "{error}");
    assert_eq!(error.session(), None);
}

#[tokio::test(start_paused = true)]
async fn resumed_media_is_verified_as_a_whole() {
    let finished =
        finished(r#"{"size":"5","crc32c":"9olWBA==","md5Hash":"nvT3hbJokJQSEtpnkoWcUQ=="}"#);
    let script = Script::new([started(), Answer::Breaks, committed(3), finished]);
    let result = run(&script, resumable(), b"Llama").await;
    let uploaded = result.unwrap_or_else(|error| panic!("{error}"));
    assert!(uploaded.verified.crc32c && uploaded.verified.md5);
}

#[tokio::test(start_paused = true)]
async fn timeout_error_names_the_session_to_continue() {
    let script = Script::new([started(), Answer::Hangs]);
    let upload = resumable().timeout(Duration::from_secs(90));
    let error = run(&script, upload, b"Llama")
        .await
        .expect_err("the server hangs");
    assert_eq!(error.kind(), Kind::Timeout);
    let session = error.session().expect("there is a session");
    assert!(session.reveal().ends_with("upload_id=1"));
    assert!(!format!("{error} {error:?}").contains("upload_id=1"));
}

#[tokio::test(start_paused = true)]
async fn timeout_covers_the_reading_of_the_media_before_the_first_request() {
    let (reader, _writer) = tokio::io::duplex(16);
    let client = Client::with_transport(Script::new([]), None);
    let url = "http://h/upload".parse().expect("it is a URL");
    let upload = Upload::new(url).expect("it is http");
    let upload = upload.timeout(Duration::from_secs(90));
    let uploading = client.upload(upload, Source::reader(reader));
    let ended = tokio::time::timeout(Duration::from_secs(3600), uploading).await;
    let error = ended.expect("it ends").expect_err("no media arrives");
    assert_eq!(error.kind(), Kind::Timeout);
}

#[tokio::test(start_paused = true)]
async fn finishing_is_reported_when_all_media_is_sent() {
    for upload_type in [
        UploadType::Media,
        UploadType::Multipart,
        UploadType::Resumable,
    ] {
        let script = match upload_type {
            UploadType::Resumable => Script::new([started(), Answer::Hangs]),
            _ => Script::new([Answer::Hangs]),
        };
        let states = Arc::new(Mutex::new(Vec::new()));
        let reported = Arc::clone(&states);
        let upload = resumable()
            .upload_type(upload_type)
            .timeout(Duration::from_secs(1))
            .on_progress(move |progress| {
                let mut states = reported.lock().expect("no test panicked");
                states.push(progress.state.clone());
            });
        let hangs = run(&script, upload, b"Llama").await;
        hangs.expect_err("the server hangs");
        let states = states.lock().expect("no test panicked");
        assert!(states.contains(&State::Sending), "{states:?}");
        assert_eq!(states.last(), Some(&State::Finishing), "{upload_type:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn small_media_is_one_request_and_large_media_a_session() {
    let metadata = serde_json::json!({"name": "Llama"});
    let url = "http://h/upload?fields=id".parse().expect("it is a URL");
    let plain = Upload::new(url).expect("it is http");
    let described = plain.clone().metadata(&metadata).expect("it is an object");
    let large: &'static [u8] = vec![7; 5 * 1024 * 1024 + 1].leak();
    for (upload, media, uploads, content_type) in [
        (
            plain.clone(),
            &b"Llama"[..],
            "media",
            "application/octet-stream",
        ),
        (described, b"Llama", "multipart", "multipart/related"),
        (plain, large, "resumable", ""),
    ] {
        let first = if uploads == "resumable" {
            started()
        } else {
            finished("{}")
        };
        let script = Script::new([first, finished("{}")]);
        run(&script, upload, media)
            .await
            .expect("the upload succeeds");
        let seen = &script.seen()[0];
        let line = format!("POST http://h/upload?fields=id&uploadType={uploads}");
        assert_eq!(seen.line, line);
        let stated = seen.headers.get("content-type");
        let stated = stated.map_or("", |value| value.to_str().expect("it is text"));
        assert!(stated.starts_with(content_type), "{stated}");
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_that_the_upload_type_does_not_send_is_refused_before_the_first_request() {
    let metadata = serde_json::json!({"name": "Llama"});
    let described = |url: &str| {
        let upload = Upload::new(url.parse().expect("it is a URL")).expect("it is http");
        upload.metadata(&metadata).expect("it is an object")
    };
    for upload in [
        described("http://h/upload?uploadType=media"),
        described("http://h/upload").upload_type(UploadType::Media),
    ] {
        let script = Script::new([]);
        let error = run(&script, upload, b"Llama").await;
        let error = error.expect_err("the metadata would be lost");
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.to_string().contains("multipart"), "{error}");
        assert!(script.seen().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn upload_that_another_process_has_just_finished_is_not_continued() {
    let directory = tempfile::tempdir().expect("there is room");
    let file = directory.path().join("media");
    std::fs::write(&file, b"Llama").expect("the directory is ours");
    let journal = Journal::open(directory.path().join("journal")).expect("the directory is ours");
    let media = Source::path(&file).open().await.expect("it is a file");
    let source = media.identity().await.expect("it can be read");
    let source = source.expect("it is a regular file");
    let session: SessionUri = "http://h/session?upload_id=1".parse().expect("it is a URI");
    let create = || {
        let record = resumable().new_record(session.clone(), source.clone());
        journal.create(record).expect("the directory is ours")
    };
    let found = || {
        let found = journal.find(&resumable().key(&source));
        found.expect("it can be read")
    };
    let ended = create();
    let just_found = found();
    ended.finish().expect("it can be removed");
    let locked = lock_newest(&journal, just_found).expect("it is no error");
    assert!(locked.is_none());

    // An older upload is continued then.
    let older = create();
    let id = older.record().id.clone();
    drop(older);
    let ended = create();
    let mut just_found = found();
    just_found.sort_by_key(|record| record.id != id);
    ended.finish().expect("it can be removed");
    let locked = lock_newest(&journal, just_found).expect("it is no error");
    assert_eq!(locked.expect("one is left").record().id, id);
}

#[tokio::test(start_paused = true)]
async fn stream_ends_with_its_total_and_stays_within_its_window() {
    const Q: usize = 256 * 1024;
    let media: &'static [u8] = vec![7; 2 * Q].leak();
    let script = Script::new([
        started(),
        committed(Q as u64),
        finished(r#"{"size":"524288"}"#),
    ]);
    let client = Client::with_transport(script.clone(), None);
    let source = Source::reader(media).with_window(Q as u64);
    let uploaded = client
        .upload(resumable(), source)
        .await
        .expect("the upload succeeds");
    assert_eq!(uploaded.size, 2 * Q as u64);
    let ranges: Vec<String> = script
        .seen()
        .iter()
        .map(|seen| seen.range().to_owned())
        .collect();
    assert_eq!(
        ranges,
        ["", "bytes 0-262143/*", "bytes 262144-524287/524288"]
    );
}

#[tokio::test(start_paused = true)]
async fn start_declares_the_media_and_carries_the_metadata() {
    let script = Script::new([started(), finished("{}")]);
    let upload = resumable()
        .content_type("image/png")
        .and_then(|upload| upload.metadata(&serde_json::json!({"name": "Llama"})))
        .expect("it is a good upload")
        .http_method(crate::HttpMethod::Put);
    run(&script, upload, b"Llama")
        .await
        .expect("the upload succeeds");
    let start = &script.seen()[0];
    assert!(start.line.starts_with("PUT "), "{}", start.line);
    assert_eq!(start.headers["x-upload-content-type"], "image/png");
    assert_eq!(start.headers["x-upload-content-length"], "5");
    assert_eq!(
        start.headers["content-type"],
        "application/json; charset=UTF-8"
    );
    assert_eq!(start.body, br#"{"name":"Llama"}"#);
}

#[tokio::test(start_paused = true)]
async fn windowed_stream_is_verified_by_crc32c_and_not_md5() {
    let resource =
        finished(r#"{"size":"5","crc32c":"9olWBA==","md5Hash":"AAAAAAAAAAAAAAAAAAAAAA=="}"#);
    let script = Script::new([started(), resource]);
    let client = Client::with_transport(script.clone(), None);
    let uploaded = client
        .upload(resumable(), Source::reader(&b"Llama"[..]))
        .await;
    let verified = uploaded.expect("the upload succeeds").verified;
    assert!(verified.size && verified.crc32c && !verified.md5);
}

#[tokio::test(start_paused = true)]
async fn journal_keeps_an_upload_only_if_it_can_continue() {
    let refusal = r#"{"error":{"errors":[{"reason":"conditionNotMet"}]}}"#;
    // A refusal without an error object may come from a proxy.
    for (last, body, kept) in [
        (503, "", 1),
        (412, refusal, 0),
        (405, "<html>", 1),
        (499, "", 0),
        (401, refusal, 1),
    ] {
        let directory = tempfile::tempdir().expect("there is room");
        let file = directory.path().join("media");
        std::fs::write(&file, b"Llama").expect("the directory is ours");
        let journal =
            Journal::open(directory.path().join("journal")).expect("the directory is ours");
        let mut answers = vec![started()];
        answers.extend((0..6).map(|_| Answer::Replies(last, Vec::new(), body)));
        let script = Script::new(answers);
        let client = Client::with_transport(script, None);
        let upload = resumable().journal(journal.clone());
        let error = client.upload(upload, Source::path(&file)).await;
        let error = error.expect_err("it fails");
        let entries = journal.entries().expect("it can be read");
        assert_eq!(entries.len(), kept, "{last}: {error}");
        assert_eq!(error.upload().is_some(), kept == 1);
    }
}

#[tokio::test(start_paused = true)]
async fn error_before_an_upload_continues_names_its_session_and_record() {
    let directory = tempfile::tempdir().expect("there is room");
    let file = directory.path().join("media");
    std::fs::write(&file, b"Llama").expect("the directory is ours");
    let journal = Journal::open(directory.path().join("journal")).expect("the directory is ours");
    let upload = || resumable().journal(journal.clone());
    let client = Client::with_transport(Script::new([started(), Answer::Hangs]), None);
    let given_up = upload().timeout(Duration::from_secs(1));
    let error = client.upload(given_up, Source::path(&file)).await;
    let id = error.expect_err("the server hangs").upload().cloned();
    let id = id.expect("there is a record");

    let held = journal.lock(&id).expect("it is not locked");
    let busy = client.upload(upload(), Source::path(&file)).await;
    drop(held);
    std::fs::write(&file, b"Llamas").expect("the directory is ours");
    let changed = client.upload(upload(), Source::path(&file)).await;
    std::fs::remove_file(&file).expect("the directory is ours");
    let locked = journal.lock(&id).expect("it is not locked");
    let gone = client.resume(upload(), locked).await;
    for (result, kind) in [
        (busy, Kind::Busy),
        (changed, Kind::SourceChanged),
        (gone, Kind::Source),
    ] {
        let error = result.expect_err("it does not continue");
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(error.upload(), Some(&id), "{error}");
        let session = error.session().expect("there is a session");
        assert!(session.reveal().ends_with("upload_id=1"));
    }
    assert_eq!(journal.entries().expect("it can be read").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn another_process_queries_first_and_sends_the_rest() {
    let directory = tempfile::tempdir().expect("there is room");
    let file = directory.path().join("media");
    std::fs::write(&file, b"Llama").expect("the directory is ours");
    let journal = Journal::open(directory.path().join("journal")).expect("the directory is ours");
    let upload = || resumable().journal(journal.clone());
    let script = Script::new([started(), Answer::Hangs]);
    let first = Client::with_transport(script, None);
    let given_up = upload().timeout(Duration::from_secs(1));
    first
        .upload(given_up, Source::path(&file))
        .await
        .expect_err("the server hangs");

    let script = Script::new([
        committed(2),
        finished(r#"{"size":"5","crc32c":"9olWBA=="}"#),
    ]);
    let second = Client::with_transport(script.clone(), None);
    let uploaded = second.upload(upload(), Source::path(&file)).await;
    assert!(uploaded.expect("the upload succeeds").verified.crc32c);
    let seen = script.seen();
    assert_eq!(seen[0].range(), "bytes */5");
    assert_eq!(
        (seen[1].range(), &seen[1].body[..]),
        ("bytes 2-4/5", &b"ama"[..])
    );
    assert!(journal.entries().expect("it can be read").is_empty());
}

#[tokio::test]
async fn refused_token_is_refreshed_once_for_status_and_cancel() {
    let directory = tempfile::tempdir().expect("there is room");
    let path = directory.path().join("token");
    let session: SessionUri = "https://h/session?upload_id=1"
        .parse()
        .expect("it is a session URI");
    std::fs::write(&path, "old").expect("there is room");
    let script = Script::new([
        committed(2),
        replies(401),
        committed(3),
        replies(401),
        replies(401),
    ]);
    let client = Client::with_transport(script.clone(), Some(TokenSource::file(&path)));
    client.status(&session).await.expect("the server replies");
    std::fs::write(&path, "new").expect("there is room");
    let status = client.status(&session).await.expect("the server replies");
    assert_eq!(status, Status::Active { committed: 3 });
    let error = client.cancel(&session).await.expect_err("it is refused");
    assert_eq!(error.kind(), Kind::Refused);
    let seen = script.seen();
    let tokens: Vec<_> = seen
        .iter()
        .map(|seen| &seen.headers["authorization"])
        .collect();
    let (old, new) = ("Bearer old", "Bearer new");
    assert_eq!(tokens, [old, old, new, new, new]);
}

#[tokio::test(start_paused = true)]
async fn overload_is_told_from_a_refusal_of_a_status_query() {
    let session: SessionUri = "http://h/session?upload_id=1"
        .parse()
        .expect("it is a session URI");
    for (status, kind) in [
        (503, Kind::Unavailable),
        (429, Kind::Unavailable),
        (403, Kind::Refused),
    ] {
        let client = Client::with_transport(Script::new([replies(status)]), None);
        let error = client.status(&session).await.expect_err("it fails");
        assert_eq!(error.kind(), kind);
        assert_eq!(error.is_retryable(), kind == Kind::Unavailable);
    }
}

#[tokio::test(start_paused = true)]
async fn error_of_a_malformed_session_hides_it() {
    for text in ["\"no-secret\"", "\"ftp://h/secret\""] {
        let error = serde_json::from_str::<SessionUri>(text).expect_err("it is no session URI");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn file_changed_during_the_upload_is_an_error_at_the_end() {
    let directory = tempfile::tempdir().expect("there is room");
    let file = directory.path().join("media");
    std::fs::write(&file, b"Llama").expect("the directory is ours");
    let changed = file.clone();
    let script = Script::new([started(), finished("{}")]);
    script.before_the_last(move || std::fs::write(&changed, b"Lamas").expect("it is ours"));
    let client = Client::with_transport(script, None);
    let error = client.upload(resumable(), Source::path(&file)).await;
    let error = error.expect_err("the file has changed");
    assert_eq!(error.kind(), Kind::SourceChanged);
    assert_eq!(error.session(), None);
}

#[tokio::test(start_paused = true)]
async fn file_that_cannot_be_examined_at_the_end_is_not_reported_as_changed() {
    let directory = tempfile::tempdir().expect("there is room");
    let folder = directory.path().join("folder");
    std::fs::create_dir(&folder).expect("the directory is ours");
    let file = folder.join("media");
    std::fs::write(&file, b"Llama").expect("the directory is ours");
    let moved = directory.path().join("moved");
    let script = Script::new([started(), finished("{}")]);
    // The path of the file leads through a file then.
    script.before_the_last(move || {
        std::fs::rename(&folder, moved).expect("it is ours");
        std::fs::write(&folder, b"").expect("it is ours");
    });
    let client = Client::with_transport(script, None);
    let error = client.upload(resumable(), Source::path(&file)).await;
    let error = error.expect_err("nobody knows whether the file has changed");
    assert_eq!(error.kind(), Kind::Source);
    assert!(error.session().is_some());
}
