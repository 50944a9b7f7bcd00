use super::*;

fn asking() -> Transfer {
    Transfer::start(seekable().with_protocol(None))
}

#[test]
fn server_is_asked_before_the_upload_starts() {
    let transfer = asking();
    assert_eq!(transfer.protocol(), None);
    assert_eq!(request(&transfer), Request::Discover);
    assert_head(&head(&transfer), &Method::OPTIONS, &[]);
}

#[test]
fn reply_to_options_decides_the_protocol() {
    let table = [
        (
            answer(204).field("tus-version", "1.1.0, 1.0.0"),
            Protocol::Tus,
        ),
        (answer(200).field("tus-resumable", "1.0.0"), Protocol::Tus),
        (answer(204).field("tus-version", "2.0.0"), Protocol::Google),
        (
            answer(204).field("upload-limit", "min-size=0"),
            Protocol::Ietf,
        ),
        (
            answer(204).field("accept-patch", "text/x, application/partial-upload"),
            Protocol::Ietf,
        ),
        // A server that speaks both.
        (
            answer(204)
                .field("tus-version", "1.0.0")
                .field("upload-limit", "max-size=5"),
            Protocol::Tus,
        ),
        (answer(200), Protocol::Google),
        (answer(404), Protocol::Google),
        (answer(405), Protocol::Google),
        (answer(501), Protocol::Google),
    ];
    for (answer, expected) in table {
        let mut transfer = asking();
        assert_eq!(answer.to(&mut transfer), Event::Nothing);
        assert_eq!(transfer.protocol(), Some(expected), "{answer:?}");
        assert_eq!(request(&transfer), Request::Start);
    }
}

#[test]
fn only_google_s_protocol_has_single_requests() {
    let plan = || Plan::new(UploadType::Media, Media::seekable(LEN));
    let mut google = Transfer::start(plan().with_protocol(None));
    answer(405).to(&mut google);
    assert_eq!(request(&google), Request::SingleRequest);
    let mut tus = Transfer::start(plan().with_protocol(None));
    answer(204).field("tus-version", "1.0.0").to(&mut tus);
    assert_eq!(request(&tus), Request::Start);
    let ietf = Transfer::start(plan().with_protocol(Some(Protocol::Ietf)));
    assert_eq!(request(&ietf), Request::Start);
}

#[test]
fn question_is_repeated_while_the_server_is_overloaded() {
    for status in [408, 429, 500, 502, 503, 504] {
        let mut transfer = asking();
        answer(status).to(&mut transfer);
        wait(&transfer);
        transfer.waited();
        assert_eq!(request(&transfer), Request::Discover);
    }
    let mut transfer = asking();
    transfer.broke(0);
    wait(&transfer);
    transfer.waited();
    assert_eq!(request(&transfer), Request::Discover);
}

#[test]
fn unauthorized_question_refreshes_the_token_once() {
    let mut transfer = Transfer::start(seekable().with_protocol(None).with_refreshable_token(true));
    answer(401).to(&mut transfer);
    assert_eq!(transfer.poll(), Action::RefreshToken);
    transfer.token_refreshed();
    assert_eq!(request(&transfer), Request::Discover);
    answer(401).to(&mut transfer);
    assert!(matches!(failure(&transfer), Failure::Refused(_)));
}

#[test]
fn url_of_an_upload_method_or_with_a_type_is_google_s() {
    for (path, query, expected) in [
        ("/upload/farm/v1/animals", None, Some(Protocol::Google)),
        ("/resumable/upload/x", None, Some(Protocol::Google)),
        ("/u", Some("uploadType=resumable"), Some(Protocol::Google)),
        (
            "/u",
            Some("a=b&upload_protocol=raw"),
            Some(Protocol::Google),
        ),
        ("/files", None, None),
        ("/uploads/", Some("a=b"), None),
        ("/", None, None),
    ] {
        assert_eq!(Protocol::of_url(path, query), expected, "{path} {query:?}");
    }
}
