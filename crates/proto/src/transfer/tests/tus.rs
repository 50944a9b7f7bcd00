use super::*;

fn plan() -> Plan {
    seekable().with_protocol(Some(Protocol::Tus))
}

fn created() -> Answer {
    answer(201)
        .field("tus-resumable", "1.0.0")
        .field("location", "/files/secret")
}

fn offset(status: u16, offset: u64) -> Answer {
    answer(status)
        .field("tus-resumable", "1.0.0")
        .field("upload-offset", &offset.to_string())
}

/// Returns the reply to a query of an upload of known length.
fn at(committed: u64) -> Answer {
    offset(200, committed).field("upload-length", &LEN.to_string())
}

fn started(plan: Plan) -> Transfer {
    let mut transfer = Transfer::start(plan);
    created().to(&mut transfer);
    transfer
}

fn start(description: &Description<'_>) -> Result<Head, Unsupported> {
    Transfer::start(plan()).head(&Request::Start, description)
}

#[test]
fn upload_is_created_appended_queried_and_finished() {
    let mut transfer = Transfer::start(plan());
    let len = LEN.to_string();
    assert_head(
        &head(&transfer),
        &Method::POST,
        &[("tus-resumable", "1.0.0"), ("upload-length", &len)],
    );
    // It is relative to the URL of the request.
    let location = "/files/secret".to_owned();
    assert_eq!(created().to(&mut transfer), Event::Started { location });
    assert_head(
        &head(&transfer),
        &Method::PATCH,
        &[
            ("tus-resumable", "1.0.0"),
            ("upload-offset", "0"),
            ("content-type", "application/offset+octet-stream"),
        ],
    );
    transfer.broke(0);
    transfer.waited();
    assert_head(
        &head(&transfer),
        &Method::HEAD,
        &[("tus-resumable", "1.0.0")],
    );
    // The offset need not be a multiple of anything.
    assert_eq!(
        at(1001).to(&mut transfer),
        Event::Committed { offset: 1001 }
    );
    let sent = head(&transfer);
    assert_eq!(sent.headers["upload-offset"], "1001");
    let Content::Chunk(chunk) = sent.content else {
        panic!("{sent:?} has no media");
    };
    assert_eq!((chunk.first, chunk.end), (1001, LEN));
    assert_eq!(offset(204, LEN).to(&mut transfer), Event::Finished);
}

#[test]
fn lost_final_reply_is_found_by_a_query() {
    let mut transfer = started(plan());
    transfer.broke(0);
    transfer.waited();
    assert_eq!(at(LEN).to(&mut transfer), Event::Finished);
}

#[test]
fn session_without_a_location_or_a_version_is_none() {
    for start in [
        answer(201).field("tus-resumable", "1.0.0"),
        answer(201).field("location", "/files/1"),
        answer(302).field("location", "/files/1"),
    ] {
        let mut transfer = Transfer::start(plan());
        assert_eq!(start.to(&mut transfer), Event::Nothing);
        assert!(
            matches!(failure(&transfer), Failure::Unexpected { tries: 1, .. }),
            "{start:?}"
        );
    }
}

#[test]
fn missing_or_malformed_offset_is_followed_by_a_query() {
    for reply in [
        answer(204),
        answer(204).field("upload-offset", "-1"),
        answer(204).field("upload-offset", "+5"),
        answer(204).field("upload-offset", "1e3"),
        answer(204).field("upload-offset", "99999999999999999999"),
    ] {
        let mut transfer = started(plan());
        assert_eq!(reply.to(&mut transfer), Event::Nothing);
        assert_eq!(wait(&transfer).of, 10);
        transfer.waited();
        assert!(matches!(request(&transfer), Request::Query { .. }));
        // Nor does such a reply to a query state an offset.
        assert_eq!(reply.to(&mut transfer), Event::Nothing);
        transfer.waited();
        at(5).to(&mut transfer);
        assert_eq!(transfer.committed(), 5);
    }
}

#[test]
fn conflict_is_followed_by_a_query() {
    let mut transfer = started(plan());
    assert_eq!(answer(409).to(&mut transfer), Event::Nothing);
    assert_eq!(wait(&transfer).of, 10);
    transfer.waited();
    assert!(matches!(request(&transfer), Request::Query { .. }));
}

#[test]
fn offset_that_goes_back_is_sent_again() {
    let mut transfer = started(plan().with_chunking(fixed(1)));
    offset(204, Q).to(&mut transfer);
    transfer.broke(0);
    transfer.waited();
    assert_eq!(at(7).to(&mut transfer), Event::Committed { offset: 7 });
    assert_eq!(head(&transfer).headers["upload-offset"], "7");
}

#[test]
fn offset_beyond_the_sent_bytes_fails() {
    let mut transfer = started(plan().with_chunking(fixed(1)));
    offset(204, 2 * Q).to(&mut transfer);
    let failure = failure(&transfer);
    assert!(matches!(failure, Failure::OffsetBeyondSent { .. }));
}

#[test]
fn upload_that_is_gone_starts_again() {
    for status in [404, 410] {
        let mut transfer = started(plan());
        assert_eq!(answer(status).to(&mut transfer), Event::Lost);
        assert_head(
            &head(&transfer),
            &Method::POST,
            &[
                ("tus-resumable", "1.0.0"),
                ("upload-length", &LEN.to_string()),
            ],
        );
    }
}

#[test]
fn server_of_another_version_is_named_in_the_failure() {
    let mut transfer = Transfer::start(plan());
    answer(412).field("tus-version", "0.2.2").to(&mut transfer);
    assert_eq!(
        failure(&transfer).to_string(),
        "the server refused the request: status 412, it speaks tus 0.2.2"
    );
}

#[test]
fn replies_without_success_are_classified() {
    let table = [
        (&[408, 429, 500, 502, 503, 504][..], 6),
        (&[423, 425, 307][..], 10),
    ];
    for (statuses, of) in table {
        for status in statuses {
            let mut transfer = started(plan());
            // The offset of a failed request counts for nothing.
            offset(*status, 5).to(&mut transfer);
            assert_eq!(wait(&transfer).of, of, "{status}");
            assert_eq!(transfer.committed(), 0);
        }
    }
    for status in [400, 403, 413, 415, 460, 499] {
        let mut transfer = started(plan());
        answer(status).to(&mut transfer);
        assert!(
            matches!(failure(&transfer), Failure::Refused(_)),
            "{status}"
        );
    }
}

#[test]
fn conflict_that_repeats_its_offset_gives_up() {
    let mut transfer = started(plan());
    let (requests, failure) = run_until_failure(&mut transfer, |transfer| {
        match request(transfer) {
            Request::Query { .. } => at(5).to(transfer),
            _ => offset(409, 5).to(transfer),
        };
    });
    assert!(matches!(failure, Failure::Unexpected { .. }), "{failure}");
    assert!(requests < 25, "{requests}");
}

#[test]
fn length_of_a_stream_is_deferred_and_stated_once() {
    let stream = Plan::resumable(Media::streamed(None)).with_protocol(Some(Protocol::Tus));
    let mut transfer = Transfer::start(stream.with_chunking(fixed(1)));
    assert_head(
        &head(&transfer),
        &Method::POST,
        &[("tus-resumable", "1.0.0"), ("upload-defer-length", "1")],
    );
    created().to(&mut transfer);
    transfer.filled(Q + 1, false);
    assert!(!head(&transfer).headers.contains_key("upload-length"));
    offset(204, Q).to(&mut transfer);
    transfer.filled(Q + 1, true);
    let total = (Q + 1).to_string();
    assert_eq!(head(&transfer).headers["upload-length"], total.as_str());
    // The request arrived, and a part of its body.
    transfer.broke(0);
    transfer.waited();
    let mut known = transfer.clone();
    offset(200, Q).field("upload-length", &total).to(&mut known);
    assert!(!head(&known).headers.contains_key("upload-length"));
    // The request did not arrive.
    offset(200, Q)
        .field("upload-defer-length", "1")
        .to(&mut transfer);
    assert_eq!(head(&transfer).headers["upload-length"], total.as_str());
    assert_eq!(offset(204, Q + 1).to(&mut transfer), Event::Finished);
}

#[test]
fn all_bytes_of_unstated_length_are_ended_by_an_empty_request() {
    let stream = Plan::resumable(Media::streamed(None)).with_protocol(Some(Protocol::Tus));
    let mut transfer = started(stream);
    transfer.filled(5, true);
    transfer.broke(0);
    transfer.waited();
    // A part of the request arrived without its head.
    offset(200, 5)
        .field("upload-defer-length", "1")
        .to(&mut transfer);
    let sent = head(&transfer);
    assert_eq!(sent.headers["upload-length"], "5");
    assert_eq!(sent.headers["upload-offset"], "5");
    assert_eq!(offset(204, 5).to(&mut transfer), Event::Finished);
}

#[test]
fn server_that_cannot_defer_the_length_refuses() {
    let stream = Plan::resumable(Media::streamed(None)).with_protocol(Some(Protocol::Tus));
    let mut transfer = Transfer::start(stream);
    answer(501).to(&mut transfer);
    assert!(matches!(failure(&transfer), Failure::Refused(_)));
}

#[test]
fn empty_media_needs_no_request_with_media() {
    let empty = Plan::resumable(Media::seekable(0)).with_protocol(Some(Protocol::Tus));
    let mut transfer = Transfer::start(empty);
    assert_eq!(created().to(&mut transfer), Event::Finished);
}

#[test]
fn name_type_and_strings_of_the_metadata_are_sent_in_base64() {
    let metadata = serde_json::json!({"name": "Bella", "note": ""});
    let description = Description {
        total: Some(5),
        content_type: Some(&HeaderValue::from_static("image/jpeg")),
        file_name: Some("Kuh ü.jpg"),
        metadata: Some(&metadata),
        ..Description::default()
    };
    let head = start(&description).unwrap();
    assert_eq!(
        head.headers["upload-metadata"],
        "filename S3VoIMO8LmpwZw==,filetype aW1hZ2UvanBlZw==,name QmVsbGE=,note"
    );
    assert_eq!(head.content, Content::Empty);
    let metadata = serde_json::json!({"filename": "b"});
    let named = Description {
        metadata: Some(&metadata),
        content_type: None,
        ..description
    };
    assert_eq!(
        start(&named).unwrap().headers["upload-metadata"],
        "filename Yg=="
    );
}

#[test]
fn metadata_that_tus_cannot_carry_is_refused() {
    for (metadata, expected) in [
        (
            serde_json::json!({"age": 7}),
            "tus carries only strings as metadata: the field \"age\" has another value",
        ),
        (
            serde_json::json!({"a b": "c"}),
            "a key of the metadata of tus is ASCII text without spaces and commas: \"a b\" is not",
        ),
        (
            serde_json::json!({"": "c"}),
            "a key of the metadata of tus is ASCII text without spaces and commas: \"\" is not",
        ),
    ] {
        let description = Description {
            metadata: Some(&metadata),
            ..Description::default()
        };
        assert_eq!(start(&description).unwrap_err().to_string(), expected);
    }
    let put = Description {
        method: Method::PUT,
        ..Description::default()
    };
    assert_eq!(
        start(&put).unwrap_err().to_string(),
        "an upload by tus starts with POST, not with PUT"
    );
}

#[test]
fn status_and_cancellation_are_read() {
    let tus = Protocol::Tus;
    assert_head(
        &tus.cancel(),
        &Method::DELETE,
        &[("tus-resumable", "1.0.0")],
    );
    let query = |answer: Answer| tus.read_query(&answer.reply());
    let committed = 7;
    assert_eq!(query(at(7)), Some(SessionStatus::Active { committed }));
    assert_eq!(query(at(LEN)), Some(SessionStatus::Finished));
    assert_eq!(query(answer(410)), Some(SessionStatus::Lost));
    assert_eq!(query(answer(200)), None);
    let cancel = |status| tus.read_cancel(&answer(status).reply());
    assert_eq!(cancel(204), Some(SessionStatus::Cancelled));
    assert_eq!(cancel(404), Some(SessionStatus::Lost));
    assert_eq!(cancel(405), None);
}

#[test]
fn redirection_of_a_session_does_not_show_its_path() {
    let mut transfer = started(plan());
    let moved = answer(307).field("location", "https://other.example/files/secret");
    let (_, failure) = run_until_failure(&mut transfer, |transfer| {
        moved.to(transfer);
    });
    let text = failure.to_string();
    assert!(text.contains("it redirects to another URL"), "{text}");
    assert!(!text.contains("secret"), "{text}");
}
