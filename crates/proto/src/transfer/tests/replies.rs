use super::*;

/// The expected effect of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Finished,
    BacksOff,
    Pauses,
    /// The transfer fails, because the server does not speak the protocol.
    NotTheProtocol,
    StartsAnew,
    Refused,
    Cancelled,
    /// The next request is a query.
    GoesOn,
}

fn outcome(transfer: &Transfer) -> Outcome {
    match transfer.poll() {
        Action::Finished => Outcome::Finished,
        Action::Wait(wait) if wait.of == 6 => Outcome::BacksOff,
        Action::Wait(wait) if wait.of == 10 => Outcome::Pauses,
        Action::Send(Request::Start) => Outcome::StartsAnew,
        Action::Send(_) => Outcome::GoesOn,
        Action::Failed(Failure::Refused(_)) => Outcome::Refused,
        Action::Failed(Failure::Cancelled) => Outcome::Cancelled,
        Action::Failed(Failure::Unexpected { tries: 1, .. }) => Outcome::NotTheProtocol,
        other => panic!("{other:?} is in no table"),
    }
}

#[track_caller]
fn check(transfer: &Transfer, table: &[(Outcome, &[u16])]) {
    for (expected, statuses) in table {
        for status in *statuses {
            let mut transfer = transfer.clone();
            answer(*status).to(&mut transfer);
            assert_eq!(outcome(&transfer), *expected, "{status}");
        }
    }
}

const REFUSED: &[u16] = &[400, 401, 402, 403, 405, 406, 411, 412, 413, 415, 416, 422];
const OVERLOAD: &[u16] = &[408, 429, 500, 502, 503, 504];
const ODD: &[u16] = &[202, 203, 206, 301, 302, 304, 307, 409, 421, 423, 425];

#[test]
fn every_status_of_a_data_request_is_classified() {
    let table = [
        (Outcome::Finished, &[200, 201, 204][..]),
        // None of the sent bytes are committed.
        (Outcome::BacksOff, &[308]),
        (Outcome::BacksOff, OVERLOAD),
        (Outcome::Pauses, ODD),
        (Outcome::StartsAnew, &[404, 410]),
        (Outcome::Cancelled, &[499]),
        (Outcome::Refused, REFUSED),
    ];
    check(&sending(), &table);
}

#[test]
fn every_status_of_a_query_is_classified() {
    let table = [
        (Outcome::Finished, &[200, 201][..]),
        // It shows no resource and may come from a proxy.
        (Outcome::Pauses, &[204]),
        (Outcome::GoesOn, &[308]),
        (Outcome::BacksOff, OVERLOAD),
        (Outcome::Pauses, ODD),
        (Outcome::StartsAnew, &[404, 410]),
        (Outcome::Cancelled, &[499]),
        (Outcome::Refused, REFUSED),
    ];
    check(&Transfer::resume(seekable()), &table);
}

#[test]
fn every_status_of_a_start_is_classified() {
    let table = [
        // Without a `Location` there is no session, but the server may have created something else.
        (Outcome::NotTheProtocol, &[200, 201, 204, 206][..]),
        (Outcome::NotTheProtocol, &[301, 302, 307, 308]),
        (Outcome::Pauses, &[409, 425]),
        (Outcome::BacksOff, OVERLOAD),
        (Outcome::Cancelled, &[499]),
        (Outcome::Refused, REFUSED),
        (Outcome::Refused, &[404, 410]),
    ];
    check(&Transfer::start(seekable()), &table);
}

#[test]
fn every_status_of_a_single_request_is_classified() {
    let table = [
        (Outcome::Finished, &[200, 201, 204][..]),
        (Outcome::NotTheProtocol, &[202, 302, 308]),
        (Outcome::Pauses, &[409]),
        (Outcome::BacksOff, OVERLOAD),
        (Outcome::Refused, REFUSED),
        (Outcome::Refused, &[404, 410]),
    ];
    check(&Transfer::start(single_request(UploadType::Media)), &table);
    check(
        &Transfer::start(single_request(UploadType::Multipart)),
        &table,
    );
}

fn single_request(upload_type: UploadType) -> Plan {
    Plan::new(upload_type, Media::seekable(LEN))
}

#[test]
fn html_page_is_not_a_resource() {
    for content_type in [
        "text/html",
        "TEXT/HTML; charset=utf-8",
        " text/html;charset=x",
    ] {
        let page = answer(200).with(CONTENT_TYPE, HeaderValue::from_static(content_type));
        for (transfer, expected) in [
            (sending(), Outcome::Pauses),
            (querying(), Outcome::Pauses),
            // The server may have stored the media nevertheless.
            (
                Transfer::start(single_request(UploadType::Media)),
                Outcome::NotTheProtocol,
            ),
        ] {
            let mut transfer = transfer;
            assert_eq!(page.to(&mut transfer), Event::Nothing);
            assert_eq!(outcome(&transfer), expected, "{content_type}");
        }
    }
}

#[test]
fn resource_is_recognised_by_its_body_and_not_its_content_type() {
    for content_type in ["application/json", "text/plain", "text/ht"] {
        let mut transfer = sending();
        let reply = answer(200).with(CONTENT_TYPE, HeaderValue::from_static(content_type));
        assert_eq!(reply.to(&mut transfer), Event::Finished);
    }
}

#[test]
fn body_that_is_neither_an_object_nor_empty_is_not_a_resource() {
    let body = |body: &str| Answer {
        body: body.to_owned(),
        ..answer(200)
    };
    for (text, expected) in [
        ("", Outcome::Finished),
        (" null\n", Outcome::Finished),
        ("\n{}", Outcome::Finished),
        ("Welcome to the network.", Outcome::Pauses),
        ("[]", Outcome::Pauses),
    ] {
        let mut transfer = querying();
        body(text).to(&mut transfer);
        assert_eq!(outcome(&transfer), expected, "{text:?}");
    }
}

#[test]
fn reply_before_the_media_is_sent_does_not_finish_the_upload() {
    let mut transfer = sending();
    transfer.cut_short();
    answer(200).to(&mut transfer);
    assert_eq!(outcome(&transfer), Outcome::Pauses);
    transfer.waited();
    answer(200).to(&mut transfer);
    assert!(matches!(
        failure(&transfer),
        Failure::PrematureSuccess { .. }
    ));
}

#[test]
fn request_that_broke_before_its_end_cannot_have_finished_the_upload() {
    for (cut_short, finished) in [(true, false), (false, true)] {
        let mut transfer = sending();
        if cut_short {
            transfer.cut_short();
        }
        transfer.broke(0);
        transfer.waited();
        answer(201).to(&mut transfer);
        assert_eq!(transfer.poll() == Action::Finished, finished);
    }
}

#[test]
fn redirection_shows_its_target_without_query() {
    let mut transfer = Transfer::start(seekable());
    let location = HeaderValue::from_static("https://h/u?upload_id=secret");
    answer(301).with(LOCATION, location).to(&mut transfer);
    let text = failure(&transfer).to_string();
    assert!(
        text.contains("redirects to https://h/u") && !text.contains("secret"),
        "{text}"
    );
}

#[test]
fn reason_distinguishes_a_rate_limit_from_a_refusal() {
    for (reason, expected) in [
        ("rateLimitExceeded", Outcome::BacksOff),
        ("userRateLimitExceeded", Outcome::BacksOff),
        ("forbidden", Outcome::Refused),
        ("insufficientPermissions", Outcome::Refused),
        ("quotaExceeded", Outcome::Refused),
    ] {
        let mut transfer = sending();
        refusal(403, reason).to(&mut transfer);
        assert_eq!(outcome(&transfer), expected, "{reason}");
    }
    let mut transfer = sending();
    page(403).to(&mut transfer);
    assert_eq!(outcome(&transfer), Outcome::Refused);
}

#[test]
fn query_of_a_finished_upload_finishes_the_transfer() {
    for status in [200, 201] {
        let mut transfer = querying();
        assert_eq!(answer(status).to(&mut transfer), Event::Finished);
        assert_eq!(transfer.poll(), Action::Finished);
    }
}

#[test]
fn status_override_of_308_is_a_308() {
    let stands_for_308 = |committed| Answer {
        status: StatusCode::OK,
        ..incomplete(committed).with(
            X_HTTP_STATUS_CODE_OVERRIDE,
            HeaderValue::from_static(" 308 "),
        )
    };
    let mut transfer = querying();
    let event = stands_for_308(Q).to(&mut transfer);
    assert_eq!(event, Event::Committed { offset: Q });
    let event = stands_for_308(2 * Q).to(&mut transfer);
    assert_eq!(event, Event::Committed { offset: 2 * Q });
    assert_eq!(transfer.committed(), 2 * Q);
}

#[test]
fn status_override_of_another_status_is_ignored() {
    let mut transfer = sending();
    let reply = answer(200).with(X_HTTP_STATUS_CODE_OVERRIDE, HeaderValue::from_static("200"));
    assert_eq!(reply.to(&mut transfer), Event::Finished);
}

#[test]
fn retry_after_is_seconds_or_a_date() {
    let noon = httpdate::parse_http_date("Wed, 21 Oct 2015 12:00:00 GMT").expect("a date");
    for (value, expected) in [
        ("0", Some(0)),
        ("120", Some(120)),
        (" 7 ", Some(7)),
        ("Wed, 21 Oct 2015 12:00:30 GMT", Some(30)),
        ("Wed, 21 Oct 2015 11:00:00 GMT", Some(0)),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("99999999999999999999", None),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(
            http::header::RETRY_AFTER,
            value.parse().expect("a header value"),
        );
        let expected = expected.map(Duration::from_secs);
        assert_eq!(retry_after(&headers, noon), expected, "{value:?}");
    }
    assert_eq!(retry_after(&HeaderMap::new(), noon), None);
}
