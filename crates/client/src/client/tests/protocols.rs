//! Uploads by tus, by the IETF's draft and by `X-Goog-Upload`, and the choice between protocols.

use http::HeaderName;
use http::header::{ACCEPT, CONTENT_LOCATION, CONTENT_TYPE};
use serde_json::json;

use super::*;
use crate::{Entry, Journal, Protocol};

const FILES: &str = "http://h/files";

fn upload(url: &str) -> Upload {
    Upload::new(url.parse().expect("it is a URL")).expect("it is http")
}

fn says(status: u16, fields: &[(&'static str, &str)]) -> Answer {
    let fields = fields
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), (*value).to_owned()));
    Answer::Replies(status, fields.collect(), "")
}

fn speaks_tus() -> Answer {
    says(204, &[("tus-version", "1.0.0")])
}

fn created() -> Answer {
    says(
        201,
        &[("tus-resumable", "1.0.0"), ("location", "files/s3cret")],
    )
}

fn offset(status: u16, offset: &str) -> Answer {
    says(status, &[("upload-offset", offset), ("upload-length", "5")])
}

/// Returns the lines of the requests.
fn lines(script: &Script) -> Vec<String> {
    script.seen().into_iter().map(|seen| seen.line).collect()
}

#[tokio::test(start_paused = true)]
async fn server_of_tus_is_found_by_options_and_continued_after_a_break() {
    let script = Script::new([
        speaks_tus(),
        created(),
        Answer::Breaks,
        offset(200, "3"),
        offset(204, "5"),
    ]);
    let uploaded = run(&script, upload(FILES), b"Llama").await;
    let uploaded = uploaded.expect("the upload succeeds");
    assert_eq!(uploaded.protocol, Protocol::Tus);
    assert_eq!(uploaded.upload_type, UploadType::Resumable);
    assert_eq!(uploaded.resource, None);
    assert!(uploaded.verified.size);
    let seen = script.seen();
    let lines: Vec<_> = seen.iter().map(|seen| &*seen.line).collect();
    assert_eq!(
        lines,
        [
            "OPTIONS http://h/files",
            "POST http://h/files",
            // The location is relative.
            "PATCH http://h/files/s3cret",
            "HEAD http://h/files/s3cret",
            "PATCH http://h/files/s3cret",
        ]
    );
    assert_eq!(seen[2].body, b"Llama");
    assert_eq!(seen[4].body, b"ma");
    assert_eq!(seen[4].headers["upload-offset"], "3");
}

#[tokio::test(start_paused = true)]
async fn final_reply_of_tus_that_is_lost_is_found_by_a_query() {
    let script = Script::new([created(), Answer::Breaks, offset(200, "5")]);
    let uploaded = run(&script, upload(FILES).protocol(Protocol::Tus), b"Llama").await;
    assert!(uploaded.expect("the upload succeeds").verified.size);
}

#[tokio::test(start_paused = true)]
async fn resource_that_the_last_reply_of_tus_names_is_read_and_checked() {
    let last = || {
        says(
            204,
            &[
                ("upload-offset", "5"),
                ("content-location", "/files/v1/files/7"),
            ],
        )
    };
    let resource = |body| {
        let json = vec![(CONTENT_TYPE, "application/json; charset=UTF-8".to_owned())];
        Answer::Replies(200, json, body)
    };
    let tus = || upload(FILES).protocol(Protocol::Tus);
    let right = resource(r#"{"id":"7","size":"5","crc32c":"9olWBA=="}"#);
    let script = Script::new([created(), last(), right]);
    let uploaded = run(&script, tus(), b"Llama").await.expect("it succeeds");
    assert_eq!(uploaded.resource.expect("there is one")["id"], "7");
    assert!(uploaded.verified.size && uploaded.verified.crc32c);
    let seen = script.seen();
    assert_eq!(seen[2].line, "GET http://h/files/v1/files/7");
    assert_eq!(seen[2].headers[ACCEPT], "application/json");

    let wrong = resource(r#"{"id":"7","size":"5","crc32c":"AAAAAA=="}"#);
    let script = Script::new([created(), last(), wrong]);
    let error = run(&script, tus(), b"Llama").await;
    assert_eq!(error.expect_err("the media differs").kind(), Kind::Mismatch);

    // The media itself, a page, a failure: the upload has succeeded all the same.
    let page = Answer::Replies(200, vec![(CONTENT_TYPE, "text/html".to_owned())], "{}");
    for other in [resource("[2,3]"), page, replies(404), Answer::Breaks] {
        let script = Script::new([created(), last(), other]);
        let uploaded = run(&script, tus(), b"Llama").await.expect("it succeeds");
        assert_eq!(uploaded.resource, None);
    }
    // Another server gets no request.
    let elsewhere = Answer::Replies(
        204,
        vec![
            (HeaderName::from_static("upload-offset"), "5".to_owned()),
            (CONTENT_LOCATION, "http://other/files/7".to_owned()),
        ],
        "",
    );
    let script = Script::new([created(), elsewhere]);
    run(&script, tus(), b"Llama").await.expect("it succeeds");
    assert_eq!(lines(&script).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn draft_ends_with_the_resource_of_its_last_reply() {
    let draft = Answer::Replies(
        201,
        vec![(HeaderName::from_static("upload-complete"), "?1".to_owned())],
        r#"{"id":"7","size":"5","crc32c":"9olWBA=="}"#,
    );
    let script = Script::new([
        says(200, &[("upload-limit", "min-size=0")]),
        says(201, &[("location", "/up/1"), ("upload-complete", "?0")]),
        draft,
    ]);
    let uploaded = run(&script, upload("http://h/photos?a=b"), b"Llama").await;
    let uploaded = uploaded.expect("the upload succeeds");
    assert_eq!(uploaded.protocol, Protocol::Ietf);
    assert!(uploaded.verified.crc32c);
    assert_eq!(
        lines(&script),
        [
            "OPTIONS http://h/photos?a=b",
            "POST http://h/photos?a=b",
            "PATCH http://h/up/1",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn x_goog_upload_sends_the_metadata_and_ends_with_its_resource() {
    let last = Answer::Replies(
        200,
        vec![(
            HeaderName::from_static("x-goog-upload-status"),
            "final".to_owned(),
        )],
        r#"{"id":"7","size":"5"}"#,
    );
    let script = Script::new([
        says(
            200,
            &[
                ("x-goog-upload-status", "active"),
                ("x-goog-upload-url", "http://h/u?upload_id=1"),
            ],
        ),
        last,
    ]);
    let described = upload("http://h/upload/x")
        .protocol(Protocol::XGoogUpload)
        .metadata(&json!({"name": "Bella"}))
        .expect("it is an object");
    let uploaded = run(&script, described, b"Llama").await;
    assert_eq!(uploaded.expect("it succeeds").resource.unwrap()["id"], "7");
    let seen = script.seen();
    assert_eq!(seen[0].line, "POST http://h/upload/x");
    assert_eq!(seen[0].body, br#"{"name":"Bella"}"#);
    assert_eq!(seen[1].line, "POST http://h/u?upload_id=1");
}

#[tokio::test(start_paused = true)]
async fn server_that_knows_no_other_protocol_gets_google_s() {
    let script = Script::new([replies(405), finished("{}")]);
    let uploaded = run(&script, upload("http://h/u"), b"Llama").await;
    assert_eq!(uploaded.expect("it succeeds").protocol, Protocol::Google);
    assert_eq!(
        lines(&script),
        ["OPTIONS http://h/u", "POST http://h/u?uploadType=media"]
    );
    // No question is needed where the URL or the type says it.
    for (url, upload_type) in [
        ("http://h/upload/x", None),
        ("http://h/x?uploadType=media", None),
        ("http://h/x", Some(UploadType::Media)),
    ] {
        let script = Script::new([finished("{}")]);
        let mut asked = upload(url);
        asked.requested_type = upload_type;
        run(&script, asked, b"Llama").await.expect("it succeeds");
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_protocol_cannot_carry_is_refused_before_the_first_request() {
    let tus = || upload(FILES).protocol(Protocol::Tus);
    let ietf = || upload(FILES).protocol(Protocol::Ietf);
    let x_goog_upload = upload(FILES).protocol(Protocol::XGoogUpload);
    let age = &json!({"age": 7});
    for upload in [
        tus().upload_type(UploadType::Media),
        ietf().upload_type(UploadType::Multipart),
        x_goog_upload.upload_type(UploadType::Media),
        upload("http://h/x?uploadType=multipart").protocol(Protocol::Tus),
        tus().http_method(crate::HttpMethod::Put),
        tus().metadata(age).expect("it is an object"),
        ietf().metadata(age).expect("it is an object"),
    ] {
        let script = Script::new([]);
        let error = run(&script, upload, b"Llama").await;
        let error = error.expect_err("it is refused");
        assert_eq!(error.kind(), Kind::Usage, "{error}");
        assert_eq!(error.session(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn journal_remembers_the_protocol_and_hides_the_path_of_the_session() {
    let directory = tempfile::tempdir().expect("there is room");
    let file = directory.path().join("Llama.txt");
    std::fs::write(&file, "Llama").expect("there is room");
    let journal = Journal::open(directory.path().join("journal")).expect("it is new");
    let journaled = || upload(FILES).journal(journal.clone());
    let start = async |script: &Arc<Script>, upload: Upload| {
        let client = Client::with_transport(script.clone(), None);
        client.upload(upload, Source::path(&file)).await
    };

    let script = Script::new([speaks_tus(), created(), Answer::Hangs]);
    let limited = journaled().timeout(Duration::from_secs(1));
    let error = start(&script, limited).await.expect_err("it hangs");
    let metadata = &script.seen()[1].headers["upload-metadata"];
    assert_eq!(metadata, "filename TGxhbWEudHh0");
    let session = error.session().expect("there is a session");
    assert_eq!(session.protocol(), Protocol::Tus);
    assert!(session.reveal().ends_with("/s3cret"));
    assert_eq!(session.to_string(), "http://h/..");
    assert!(!format!("{error} {error:?}").contains("s3cret"));

    // Another protocol does not continue it.
    let script = Script::new([
        says(201, &[("location", "/up/1"), ("upload-complete", "?0")]),
        Answer::Hangs,
    ]);
    let other = journaled().protocol(Protocol::Ietf);
    let limited = other.timeout(Duration::from_secs(1));
    start(&script, limited).await.expect_err("it hangs");
    let entries = journal.entries().expect("it can be read");
    let mut protocols: Vec<_> = entries
        .iter()
        .map(|entry| match entry {
            Entry::Unfinished(record) => record.session.protocol().as_str(),
            Entry::Damaged { damage, .. } => panic!("{damage}"),
        })
        .collect();
    protocols.sort_unstable();
    assert_eq!(protocols, ["ietf", "tus"]);

    // No question is needed to continue. A lost session starts again in its protocol.
    let script = Script::new([replies(404), created(), offset(204, "5")]);
    let uploaded = start(&script, journaled().protocol(Protocol::Tus)).await;
    let uploaded = uploaded.expect("the upload succeeds");
    assert_eq!((uploaded.protocol, uploaded.restarts), (Protocol::Tus, 1));
    assert_eq!(
        lines(&script),
        [
            "HEAD http://h/files/s3cret",
            "POST http://h/files",
            "PATCH http://h/files/s3cret"
        ]
    );
    assert_eq!(journal.entries().expect("it can be read").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn record_is_not_continued_in_another_protocol() {
    let directory = tempfile::tempdir().expect("there is room");
    let file = directory.path().join("Llama.txt");
    std::fs::write(&file, "Llama").expect("there is room");
    let journal = Journal::open(directory.path().join("journal")).expect("it is new");
    let script = Script::new([created(), Answer::Hangs]);
    let client = Client::with_transport(script, None);
    let tus = upload(FILES)
        .protocol(Protocol::Tus)
        .journal(journal.clone());
    let limited = tus.clone().timeout(Duration::from_secs(1));
    let error = client.upload(limited, Source::path(&file)).await;
    let id = error.expect_err("it hangs").upload().cloned();
    let id = id.expect("it is recorded");
    let locked = journal.lock(&id).expect("nobody has it");
    let error = client.resume(tus.protocol(Protocol::Google), locked).await;
    let error = error.expect_err("it is refused");
    assert_eq!(error.kind(), Kind::Usage);
    assert_eq!(
        error.to_string(),
        "the upload began by tus, and cannot be continued by google"
    );
    assert_eq!(error.upload(), Some(&id));
}

#[tokio::test(start_paused = true)]
async fn status_and_cancellation_are_in_the_protocol_of_the_session() {
    let session: SessionUri = "http://h/files/1".parse().expect("it is a URI");
    let tus = session.with_protocol(Protocol::Tus);
    let script = Script::new([offset(200, "3"), offset(200, "5"), replies(204)]);
    let client = Client::with_transport(script.clone(), None);
    let committed = 3;
    assert_eq!(
        client.status(&tus).await.expect("it replies"),
        Status::Active { committed }
    );
    let status = client.status(&tus).await.expect("it replies");
    assert_eq!(status, Status::Finished { resource: None });
    let status = client.cancel(&tus).await.expect("it replies");
    assert_eq!(status, Status::Cancelled);
    assert_eq!(
        lines(&script),
        [
            "HEAD http://h/files/1",
            "HEAD http://h/files/1",
            "DELETE http://h/files/1"
        ]
    );
}
