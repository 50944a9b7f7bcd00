use super::*;

#[track_caller]
fn refused(answer: &Answer) -> String {
    let mut transfer = sending();
    answer.to(&mut transfer);
    failure(&transfer).to_string()
}

#[test]
fn refusal_shows_the_servers_reason_and_message() {
    assert_eq!(
        refused(&refusal(403, "forbidden")),
        "the server refused the request: status 403 (forbidden), No."
    );
    assert_eq!(
        refused(&answer(400).body("Failed to parse Content-Range header.\n")),
        "the server refused the request: status 400, Failed to parse Content-Range header."
    );
    assert_eq!(
        refused(&answer(412)),
        "the server refused the request: status 412"
    );
}

#[test]
fn content_of_an_html_page_is_not_shown() {
    for body in [
        "<!DOCTYPE html><p>secret",
        " <html>",
        "two\nlines",
        "\u{1b}[2J\nx",
    ] {
        assert_eq!(
            refused(&answer(400).body(body)),
            "the server refused the request: status 400"
        );
    }
}

#[test]
fn body_of_any_shape_is_read_without_panic() {
    for body in [
        "null",
        "7",
        "[]",
        r#""text""#,
        r#"{"error": "invalid_grant"}"#,
        r#"{"error": {"errors": {}, "message": 5}}"#,
        r#"{"error": {"errors": []}}"#,
    ] {
        assert_eq!(
            refused(&answer(400).body(body)),
            "the server refused the request: status 400",
            "{body}"
        );
    }
    let reply = Reply {
        body: &[0xff, 0xfe, 0x00],
        ..Reply::empty(StatusCode::BAD_REQUEST)
    };
    assert_eq!(ErrorReply::of(&reply).message, None);
}

#[test]
fn control_characters_are_removed_from_error_texts() {
    let body = r#"{"error": {"message": "a\u001b[31mb\r\nc\u0085d\u202e\u061ce\u2028f",
        "errors": [{"reason": "x\u0007\ny"}]}}"#;
    let text = refused(&answer(400).body(body));
    assert_eq!(
        text,
        "the server refused the request: status 400 (xy), a[31mbcdef"
    );
    let text = refused(&answer(400).body("over\rwrite\u{7}\u{2066}"));
    assert_eq!(
        text,
        "the server refused the request: status 400, overwrite"
    );
}

#[test]
fn long_message_is_truncated() {
    let text = refused(&answer(400).body(&"ä".repeat(5000)));
    assert_eq!(text.chars().filter(|c| *c == 'ä').count(), 400);
}

/// Returns all texts that a transfer can produce.
fn texts(transfer: &Transfer) -> Vec<String> {
    let mut texts = vec![format!("{transfer:?}"), format!("{:?}", transfer.poll())];
    if let Action::Failed(failure) = transfer.poll() {
        texts.push(failure.to_string());
    }
    texts
}

#[test]
fn session_uri_appears_in_no_text() {
    let location = HeaderValue::from_static(SESSION_URI);
    let mut transfer = Transfer::start(seekable());
    let event = session_start().to(&mut transfer);
    assert!(!format!("{event:?}").contains("secret"), "{event:?}");
    let mut all = texts(&transfer);
    for status in [200, 302, 308, 400, 404, 410, 499, 503] {
        let mut transfer = transfer.clone();
        let event = answer(status)
            .with(LOCATION, location.clone())
            .to(&mut transfer);
        all.push(format!("{event:?}"));
        all.extend(texts(&transfer));
    }
    for text in all {
        assert!(!text.contains("secret"), "{text}");
    }
}

#[test]
fn failure_tells_whether_the_session_survives() {
    let survives = |answer: Answer| {
        let mut transfer = sending();
        run_until_failure(&mut transfer, |transfer| {
            answer.to(transfer);
        })
        .1
        .session_survives()
    };
    for status in [401, 403, 407, 408, 429, 503, 302] {
        assert!(survives(answer(status)), "{status}");
    }
    // Without an error object, the reply may come from a proxy.
    for status in [400, 405, 412, 413] {
        assert!(survives(answer(status)), "{status}");
        assert!(!survives(refusal(status, "invalid")), "{status}");
    }
    assert!(!survives(answer(499)));
}

#[test]
fn failure_before_a_session_leaves_none() {
    let (_, broken) = run_until_failure(&mut Transfer::start(seekable()), |transfer| {
        transfer.broke(0);
    });
    assert!(!broken.session_survives());
    let (_, unexpected) = run_until_failure(&mut Transfer::start(seekable()), |transfer| {
        page(200).to(transfer);
    });
    assert!(!unexpected.session_survives());
}

#[test]
fn failure_holds_the_reply_that_caused_it() {
    for (answer, refused) in [
        (answer(400), true),
        (answer(503), true),
        (page(200), true),
        (answer(499), false),
        (incomplete(0), false),
    ] {
        let (_, failure) = run_until_failure(&mut sending(), |transfer| {
            answer.to(transfer);
        });
        let status = failure.error_reply().map(|reply| reply.status);
        assert_eq!(status, refused.then_some(answer.status));
    }
}

#[test]
fn every_failure_has_a_text() {
    let texts = [
        (
            Failure::GaveUp {
                cause: Cause::Broken,
                tries: 6,
                session: true,
                retry_after: None,
            },
            "given up after 6 attempts without progress: the connection broke",
        ),
        (
            Failure::SessionsLost {
                restarts: 3,
                status: StatusCode::GONE,
            },
            "the server has lost the upload's session (status 410) 4 times",
        ),
        (Failure::Cancelled, "the upload was cancelled"),
        (
            Failure::PrematureSuccess { sent: 7 },
            "the server finished the upload before all media was sent (at most 7 bytes were)",
        ),
    ];
    for (failure, text) in texts {
        assert_eq!(failure.to_string(), text);
    }
}
