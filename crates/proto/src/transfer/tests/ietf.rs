use super::*;

fn plan() -> Plan {
    seekable().with_protocol(Some(Protocol::Ietf))
}

fn created() -> Answer {
    answer(201)
        .field("location", "/files/secret")
        .field("upload-complete", "?0")
}

fn offset(status: u16, offset: u64) -> Answer {
    answer(status)
        .field("upload-offset", &offset.to_string())
        .field("upload-complete", "?0")
}

fn complete(status: u16) -> Answer {
    answer(status).field("upload-complete", "?1")
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
    let mut transfer = Transfer::start(plan().with_chunking(fixed(3)));
    let len = LEN.to_string();
    let version = ("upload-draft-interop-version", "6");
    assert_head(
        &head(&transfer),
        &Method::POST,
        &[version, ("upload-complete", "?0"), ("upload-length", &len)],
    );
    let location = "/files/secret".to_owned();
    assert_eq!(created().to(&mut transfer), Event::Started { location });
    let append = |offset, complete| {
        [
            version,
            ("upload-offset", offset),
            ("upload-complete", complete),
            ("content-type", "application/partial-upload"),
        ]
    };
    assert_head(&head(&transfer), &Method::PATCH, &append("0", "?0"));
    transfer.broke(0);
    transfer.waited();
    assert_head(&head(&transfer), &Method::HEAD, &[version]);
    offset(204, 7).to(&mut transfer);
    assert_head(&head(&transfer), &Method::PATCH, &append("7", "?0"));
    // Older versions reply 201 and repeat the offset.
    let end = 7 + 3 * Q;
    assert_eq!(
        offset(201, end).to(&mut transfer),
        Event::Committed { offset: end }
    );
    let first = end.to_string();
    assert_head(&head(&transfer), &Method::PATCH, &append(&first, "?1"));
    assert_eq!(
        complete(200).body("{\"id\": 7}").to(&mut transfer),
        Event::Finished
    );
}

#[test]
fn partial_success_without_an_offset_has_the_whole_request() {
    let mut transfer = started(plan().with_chunking(fixed(1)));
    let partial = answer(204).field("upload-complete", "?0");
    assert_eq!(partial.to(&mut transfer), Event::Committed { offset: Q });
}

#[test]
fn success_that_states_nothing_is_followed_by_a_query() {
    for reply in [
        answer(200),
        answer(204).field("upload-complete", "true"),
        answer(204).field("upload-offset", "-5"),
        answer(204).field("upload-offset", "\"5\""),
        answer(204).field("upload-offset", "5, 6"),
    ] {
        let mut transfer = started(plan());
        assert_eq!(reply.to(&mut transfer), Event::Nothing, "{reply:?}");
        assert_eq!(wait(&transfer).of, 10);
        transfer.waited();
        assert!(matches!(request(&transfer), Request::Query { .. }));
        assert_eq!(reply.to(&mut transfer), Event::Nothing);
        assert_eq!(wait(&transfer).of, 10);
    }
}

#[test]
fn parameters_of_structured_fields_are_ignored() {
    let mut transfer = started(plan());
    transfer.broke(0);
    transfer.waited();
    answer(204)
        .field("upload-offset", "5;a=1")
        .field("upload-complete", "?0;b")
        .to(&mut transfer);
    assert_eq!(transfer.committed(), 5);
}

#[test]
fn lost_final_reply_is_found_by_a_query() {
    let mut transfer = started(plan());
    transfer.broke(0);
    transfer.waited();
    assert_eq!(complete(204).to(&mut transfer), Event::Finished);
}

#[test]
fn all_bytes_committed_without_an_end_are_ended_by_an_empty_request() {
    let mut transfer = started(plan());
    transfer.broke(0);
    transfer.waited();
    offset(204, LEN).to(&mut transfer);
    let sent = head(&transfer);
    assert_eq!(sent.headers["upload-complete"], "?1");
    assert_eq!(sent.headers["upload-offset"], LEN.to_string().as_str());
    assert_eq!(complete(201).to(&mut transfer), Event::Finished);
}

#[test]
fn completion_before_the_last_byte_is_sent_fails() {
    let mut transfer = started(plan().with_chunking(fixed(1)));
    complete(200).to(&mut transfer);
    transfer.waited();
    complete(204).to(&mut transfer);
    let failure = failure(&transfer);
    assert!(matches!(failure, Failure::PrematureSuccess { .. }));
}

#[test]
fn session_of_a_server_that_does_not_know_the_draft_is_none() {
    for start in [
        // It may have created an empty resource.
        answer(201).field("location", "/animals/7"),
        created().field("location", " "),
        created().field("upload-complete", "?1"),
        answer(308).field("location", "/animals/7"),
    ] {
        let mut transfer = Transfer::start(plan());
        assert_eq!(start.to(&mut transfer), Event::Nothing);
        assert!(
            matches!(failure(&transfer), Failure::Unexpected { tries: 1, .. }),
            "{start:?}"
        );
    }
    // The version 6 has no field for the state in this reply.
    let mut transfer = Transfer::start(plan());
    let start = answer(201)
        .field("location", "/files/1")
        .field("upload-draft-interop-version", "6");
    assert!(matches!(start.to(&mut transfer), Event::Started { .. }));
}

#[test]
fn conflict_continues_at_its_offset() {
    let mut transfer = started(plan());
    transfer.broke(0);
    transfer.waited();
    offset(204, 5).to(&mut transfer);
    assert_eq!(
        offset(409, 9).to(&mut transfer),
        Event::Committed { offset: 9 }
    );
    assert_eq!(head(&transfer).headers["upload-offset"], "9");
    // An offset without progress is queried, so that this ends.
    assert_eq!(offset(409, 9).to(&mut transfer), Event::Nothing);
    assert_eq!(wait(&transfer).of, 10);
    transfer.waited();
    assert!(matches!(request(&transfer), Request::Query { .. }));
}

#[test]
fn upload_that_is_gone_starts_again() {
    for status in [404, 410] {
        let mut transfer = started(plan());
        assert_eq!(answer(status).to(&mut transfer), Event::Lost);
        assert_eq!(request(&transfer), Request::Start);
    }
}

#[test]
fn error_of_a_complete_upload_is_final() {
    for status in [400, 404, 409, 429, 503] {
        let mut transfer = started(plan());
        let problem = r#"{"title": "No cow.", "detail": "It is a horse."}"#;
        complete(status).body(problem).to(&mut transfer);
        let failure = failure(&transfer);
        assert_eq!(
            failure.to_string(),
            format!("the server rejected the upload: status {status}, It is a horse.")
        );
        assert!(!failure.session_survives());
    }
}

#[test]
fn replies_without_success_are_classified() {
    for (statuses, of) in [(&[408, 429, 500, 503][..], 6), (&[423, 425, 307][..], 10)] {
        for status in statuses {
            let mut transfer = started(plan());
            offset(*status, 5).to(&mut transfer);
            assert_eq!(wait(&transfer).of, of, "{status}");
            assert_eq!(transfer.committed(), 0);
        }
    }
    for status in [400, 412, 413, 415, 499] {
        let mut transfer = started(plan());
        offset(status, 5).to(&mut transfer);
        assert!(
            matches!(failure(&transfer), Failure::Refused(_)),
            "{status}"
        );
    }
}

#[test]
fn chunks_are_within_the_limits_of_the_server() {
    let limits = |text| created().field("upload-limit", text);
    let first = |limits: Answer, plan: Plan| {
        let mut transfer = Transfer::start(plan);
        limits.to(&mut transfer);
        let Request::Data(chunk) = request(&transfer) else {
            panic!("there is media to send");
        };
        chunk.len()
    };
    assert_eq!(first(limits("max-append-size=1000"), plan()), 1000);
    let small = || plan().with_chunking(fixed(1));
    let least = format!("max-size=99999999, min-append-size={}", 2 * Q);
    assert_eq!(first(limits(&least), small()), 2 * Q);
    for ignored in [
        "max-append-size=0",
        "max-append-size=?1",
        "max-append-size=-1",
        "=",
        "min-size=0",
    ] {
        assert_eq!(first(limits(ignored), small()), Q, "{ignored}");
    }
}

#[test]
fn name_and_type_are_sent_and_metadata_is_refused() {
    let content_type = HeaderValue::from_static("image/jpeg");
    let description = Description {
        content_type: Some(&content_type),
        file_name: Some(r#"a "cow" \.jpg"#),
        ..Description::default()
    };
    let head = start(&description).unwrap();
    assert_eq!(head.headers["content-type"], "image/jpeg");
    assert_eq!(
        head.headers["content-disposition"],
        r#"inline; filename="a \"cow\" \\.jpg""#
    );
    let foreign = Description {
        file_name: Some("Kuh ü\n.jpg"),
        ..description.clone()
    };
    assert_eq!(
        start(&foreign).unwrap().headers["content-disposition"],
        "inline; filename*=UTF-8''Kuh%20%C3%BC%0A.jpg"
    );
    let metadata = serde_json::json!({"name": "Bella"});
    let described = Description {
        metadata: Some(&metadata),
        ..description
    };
    assert_eq!(
        start(&described).unwrap_err().to_string(),
        "the IETF draft carries no metadata but the type and the name of the file"
    );
}

#[test]
fn status_and_cancellation_are_read() {
    let ietf = Protocol::Ietf;
    assert_head(
        &ietf.cancel(),
        &Method::DELETE,
        &[("upload-draft-interop-version", "6")],
    );
    let query = |answer: Answer| ietf.read_query(&answer.reply());
    let committed = 7;
    assert_eq!(
        query(offset(204, 7)),
        Some(SessionStatus::Active { committed })
    );
    // Newer versions need not state whether the upload is complete.
    assert_eq!(
        query(answer(204).field("upload-offset", "7")),
        Some(SessionStatus::Active { committed })
    );
    assert_eq!(query(complete(204)), Some(SessionStatus::Finished));
    assert_eq!(query(answer(404)), Some(SessionStatus::Lost));
    assert_eq!(query(answer(204)), None);
    let cancel = |status| ietf.read_cancel(&answer(status).reply());
    assert_eq!(cancel(204), Some(SessionStatus::Cancelled));
    assert_eq!(cancel(410), Some(SessionStatus::Lost));
    assert_eq!(cancel(400), None);
}
