use super::*;

const URL: &str = "https://up.example.com/u?upload_id=secret";

fn plan() -> Plan {
    seekable().with_protocol(Some(Protocol::XGoogUpload))
}

fn state(status: u16, state: &str) -> Answer {
    answer(status).field("x-goog-upload-status", state)
}

fn created() -> Answer {
    state(200, "active").field("x-goog-upload-url", URL)
}

fn received(status: u16, bytes: u64) -> Answer {
    state(status, "active").field("x-goog-upload-size-received", &bytes.to_string())
}

fn started(plan: Plan) -> Transfer {
    let mut transfer = Transfer::start(plan);
    created().to(&mut transfer);
    transfer
}

#[test]
fn upload_is_started_appended_queried_and_finalized() {
    let mut transfer = Transfer::start(plan().with_chunking(fixed(3)));
    let len = LEN.to_string();
    assert_head(
        &head(&transfer),
        &Method::POST,
        &[
            ("x-goog-upload-protocol", "resumable"),
            ("x-goog-upload-command", "start"),
            ("x-goog-upload-header-content-length", &len),
        ],
    );
    let location = URL.to_owned();
    assert_eq!(created().to(&mut transfer), Event::Started { location });
    let upload = |offset, command| {
        [
            ("x-goog-upload-command", command),
            ("x-goog-upload-offset", offset),
        ]
    };
    assert_head(&head(&transfer), &Method::POST, &upload("0", "upload"));
    transfer.broke(0);
    transfer.waited();
    assert_head(
        &head(&transfer),
        &Method::POST,
        &[("x-goog-upload-command", "query")],
    );
    received(200, Q).to(&mut transfer);
    let first = Q.to_string();
    assert_head(
        &head(&transfer),
        &Method::POST,
        &upload(&first, "upload, finalize"),
    );
    assert_eq!(state(200, "final").to(&mut transfer), Event::Finished);
}

#[test]
fn accepted_chunk_is_stored_as_a_whole() {
    let mut transfer = started(plan().with_chunking(fixed(1)));
    let event = state(200, "active").to(&mut transfer);
    assert_eq!(event, Event::Committed { offset: Q });
}

#[test]
fn all_bytes_committed_without_an_end_are_finalized_by_an_empty_request() {
    let mut transfer = started(plan());
    transfer.broke(0);
    transfer.waited();
    received(200, LEN).to(&mut transfer);
    let sent = head(&transfer);
    assert_eq!(sent.headers["x-goog-upload-command"], "finalize");
    // The text of Google Photos is no JSON.
    let token = state(200, "final").body("CAISA-token");
    assert_eq!(token.to(&mut transfer), Event::Finished);
}

#[test]
fn lost_final_reply_is_repeated_by_a_query() {
    let mut transfer = started(plan());
    transfer.broke(0);
    transfer.waited();
    let last = state(200, "final").body("{\"id\": 7}");
    assert_eq!(last.to(&mut transfer), Event::Finished);
}

#[test]
fn query_without_a_size_is_repeated() {
    let mut transfer = started(plan());
    transfer.broke(0);
    transfer.waited();
    for reply in [state(200, "active"), answer(200), answer(204)] {
        assert_eq!(reply.to(&mut transfer), Event::Nothing);
        assert_eq!(wait(&transfer).of, 10);
        transfer.waited();
        assert!(matches!(request(&transfer), Request::Query { .. }));
    }
}

#[test]
fn refusal_of_an_active_session_realigns() {
    for status in [400, 409, 412, 416] {
        let mut transfer = started(plan());
        assert_eq!(
            received(status, Q).to(&mut transfer),
            Event::Committed { offset: Q },
            "{status}"
        );
        // The same once more is no progress.
        assert_eq!(received(status, Q).to(&mut transfer), Event::Nothing);
        assert_eq!(wait(&transfer).of, 10);
    }
}

#[test]
fn state_decides_what_follows_an_error() {
    for (answer, of) in [
        (answer(503), 6),
        (state(503, "active"), 6),
        (answer(302), 10),
        (answer(200), 10),
    ] {
        let mut transfer = started(plan());
        answer.to(&mut transfer);
        assert_eq!(wait(&transfer).of, of, "{answer:?}");
    }
    for status in [404, 410] {
        let mut transfer = started(plan());
        assert_eq!(state(status, "final").to(&mut transfer), Event::Lost);
    }
    for status in [400, 403, 413, 503] {
        let mut transfer = started(plan());
        state(status, "final").to(&mut transfer);
        assert!(
            matches!(failure(&transfer), Failure::Rejected(_)),
            "{status}"
        );
    }
    let mut transfer = started(plan());
    state(200, "Cancelled").to(&mut transfer);
    assert_eq!(failure(&transfer), Failure::Cancelled);
    let mut transfer = started(plan());
    state(413, "active").to(&mut transfer);
    assert!(matches!(failure(&transfer), Failure::Refused(_)));
}

#[test]
fn start_without_a_url_is_none() {
    for start in [state(200, "active"), answer(200), state(200, "final")] {
        let mut transfer = Transfer::start(plan());
        start.to(&mut transfer);
        assert!(
            matches!(failure(&transfer), Failure::Unexpected { tries: 1, .. }),
            "{start:?}"
        );
    }
    let mut transfer = Transfer::start(plan());
    state(400, "final").to(&mut transfer);
    assert!(matches!(failure(&transfer), Failure::Refused(_)));
}

#[test]
fn chunks_are_multiples_of_the_granularity() {
    let granularity =
        |bytes: u64| created().field("x-goog-upload-chunk-granularity", &bytes.to_string());
    for (bytes, expected) in [(2 * Q, 2 * Q), (Q, 3 * Q), (1, 3 * Q), (0, 3 * Q)] {
        let mut transfer = Transfer::start(plan().with_chunking(fixed(3)));
        granularity(bytes).to(&mut transfer);
        let Request::Data(chunk) = request(&transfer) else {
            panic!("there is media to send");
        };
        assert_eq!(chunk.len(), expected, "{bytes}");
    }
}

#[test]
fn status_and_cancellation_are_read() {
    let protocol = Protocol::XGoogUpload;
    assert_head(
        &protocol.cancel(),
        &Method::POST,
        &[("x-goog-upload-command", "cancel")],
    );
    let query = |answer: Answer| protocol.read_query(&answer.reply());
    let committed = 7;
    assert_eq!(
        query(received(200, 7)),
        Some(SessionStatus::Active { committed })
    );
    assert_eq!(query(state(200, "final")), Some(SessionStatus::Finished));
    assert_eq!(
        query(state(200, "cancelled")),
        Some(SessionStatus::Cancelled)
    );
    let cancel = |answer: Answer| protocol.read_cancel(&answer.reply());
    assert_eq!(
        cancel(state(200, "cancelled")),
        Some(SessionStatus::Cancelled)
    );
    assert_eq!(cancel(answer(404)), Some(SessionStatus::Lost));
    assert_eq!(cancel(state(400, "final")), None);
}
