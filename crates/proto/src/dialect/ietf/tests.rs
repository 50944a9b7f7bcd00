use std::time::{Duration, SystemTime};

use super::*;
use crate::command::Framing;

const START: &str = "name=x";
const SESSION: &str = "uploadType=ietf&upload_id=abc";

/// The versions that the server speaks, and none.
fn versions() -> impl Iterator<Item = Option<u8>> {
    (3..=10).map(Some).chain([None])
}

fn headers(version: Option<u8>, fields: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        let value = HeaderValue::from_str(value).expect("it is the value of a header");
        headers.append(*name, value);
    }
    if let Some(version) = version {
        headers.insert(UPLOAD_DRAFT_INTEROP_VERSION, u16::from(version).into());
    }
    headers
}

/// The flag of a version.
fn flag_of(version: Option<u8>, is_complete: bool) -> (&'static str, &'static str) {
    let text = |flag| if flag { "?1" } else { "?0" };
    match version {
        Some(3) => ("upload-incomplete", text(!is_complete)),
        _ => ("upload-complete", text(is_complete)),
    }
}

fn parameters(query: &str) -> Parameters {
    Parameters::parse(Some(query)).expect("it is a query")
}

fn claims(method: &Method, query: &str, headers: &HeaderMap) -> bool {
    Ietf::default().claims(&RequestTarget {
        http_method: method,
        is_upload_path: true,
        is_media_path: false,
        parameters: &parameters(query),
        headers,
    })
}

/// The dialect as it answers a request.
fn ietf(method: &Method, headers: &HeaderMap) -> Ietf {
    Ietf {
        version: Version::of(headers),
        is_query: [Method::HEAD, Method::GET].contains(method),
    }
}

fn command(
    method: &Method,
    query: &str,
    headers: &HeaderMap,
    framing: Framing,
) -> Result<Command, ProtocolError> {
    ietf(method, headers).command(&RequestHead {
        http_method: method,
        parameters: &parameters(query),
        headers,
        framing,
    })
}

fn start(headers: &HeaderMap, framing: Framing) -> StartHead {
    match command(&Method::POST, START, headers, framing) {
        Ok(Command::Start(start)) => start,
        other => panic!("no start: {other:?}"),
    }
}

#[track_caller]
fn part_of(start: &StartHead) -> FirstPart {
    match &start.body {
        StartBody::Data {
            part: Some(part), ..
        } => *part,
        other => panic!("no part: {other:?}"),
    }
}

#[test]
fn creation_is_claimed_by_its_flag() {
    for version in versions() {
        for is_complete in [true, false] {
            let headers = headers(version, &[flag_of(version, is_complete)]);
            for method in UPLOAD_METHODS {
                assert!(claims(method, START, &headers), "{version:?} {method}");
            }
            assert!(!claims(&Method::GET, START, &headers));
        }
        assert!(!claims(&Method::POST, START, &headers(version, &[])));
        for malformed in ["true", "1", "?2", "?", "\"?1\"", "(?1)", "?1, ?1", ""] {
            let (name, _) = flag_of(version, true);
            let headers = headers(version, &[(name, malformed)]);
            assert!(!claims(&Method::POST, START, &headers), "{malformed}");
        }
        let twice = headers(version, &[flag_of(version, true), flag_of(version, true)]);
        assert!(!claims(&Method::POST, START, &twice));
    }
    let of_tus = headers(
        None,
        &[("upload-complete", "?1"), ("tus-resumable", "1.0.0")],
    );
    assert!(!claims(&Method::POST, START, &of_tus));
    assert!(!claims(&Method::PATCH, SESSION, &of_tus));
    let with_parameter = headers(None, &[("upload-complete", "?1;a=b")]);
    assert!(claims(&Method::POST, START, &with_parameter));
}

#[test]
fn flag_that_urlsession_adds_changes_no_upload_of_google() {
    let added = headers(Some(6), &[("upload-complete", "?1")]);
    for query in [
        "uploadType=media",
        "uploadType=multipart",
        "uploadType=resumable",
        "uploadType=resumable&upload_id=abc",
        "upload_id=abc",
    ] {
        for method in [Method::POST, Method::PUT] {
            assert!(!claims(&method, query, &added), "{method} {query}");
        }
    }
    let ranged = headers(
        Some(6),
        &[("upload-complete", "?1"), ("content-range", "bytes 0-1/2")],
    );
    assert!(!claims(&Method::PUT, START, &ranged));
    let related = headers(
        Some(6),
        &[
            ("upload-complete", "?1"),
            ("content-type", "multipart/related; boundary=b"),
        ],
    );
    assert!(!claims(&Method::POST, START, &related));
    // A part of an upload would be taken for the whole.
    let part = headers(Some(6), &[("upload-complete", "?0")]);
    assert!(claims(&Method::POST, "uploadType=media", &part));
}

#[test]
fn creation_at_a_plain_path_is_media_by_its_type() {
    let at_plain_path = |is_media_path, query: &str, content_type: Option<&str>, flag: &str| {
        let fields = [("upload-complete", flag)];
        let content_type = content_type.map(|it| ("content-type", it));
        let fields: Vec<_> = fields.into_iter().chain(content_type).collect();
        Ietf::default().claims(&RequestTarget {
            http_method: &Method::POST,
            is_upload_path: false,
            is_media_path,
            parameters: &parameters(query),
            headers: &headers(Some(6), &fields),
        })
    };
    for media in ["image/png", "text/plain; charset=utf-8", "application/zip"] {
        assert!(at_plain_path(true, "", Some(media), "?1"), "{media}");
        assert!(!at_plain_path(false, "", Some(media), "?1"), "{media}");
        for query in ["uploadType=media", "upload_protocol=raw", SESSION] {
            assert!(!at_plain_path(true, query, Some(media), "?1"), "{query}");
        }
    }
    // What an application sends by `URLSession` to a method that takes JSON.
    for call in [
        "application/json",
        "Application/JSON; charset=utf-8",
        "application/geo+json",
        "application/x-www-form-urlencoded",
        "multipart/related; boundary=b",
    ] {
        assert!(!at_plain_path(true, "", Some(call), "?1"), "{call}");
    }
    // A creation refuses a malformed type.
    for stated in [None, Some(""), Some("nonsense")] {
        assert!(at_plain_path(true, "", stated, "?1"), "{stated:?}");
    }
    assert!(!at_plain_path(false, "", None, "?1"));
    // The body of a call is never a part.
    assert!(at_plain_path(true, "", Some("application/json"), "?0"));
    assert!(at_plain_path(true, "", None, "?0"));
    assert!(!at_plain_path(false, "", None, "?0"));
}

#[test]
fn version_that_is_no_integer_is_ignored() {
    for version in ["six", "\"6\"", "6.0", "?1", "6, 6", "", "1000000000000000"] {
        let fields = [
            ("upload-complete", "?0"),
            ("upload-draft-interop-version", version),
        ];
        let headers = headers(None, &fields);
        assert_eq!(Version::of(&headers), Version::Unstated, "{version}");
        start(&headers, Framing::Length(0));
    }
}

#[test]
fn uri_of_a_session_shows_its_requests_without_a_header() {
    for method in SESSION_METHODS {
        assert!(claims(method, SESSION, &HeaderMap::new()), "{method}");
    }
    let ranged = headers(None, &[("content-range", "bytes */*")]);
    assert!(!claims(&Method::PUT, SESSION, &ranged), "it is Google's");
    assert!(claims(&Method::PATCH, SESSION, &ranged));
    let made = format!("{}&upload_id=abc", Ietf::default().session_parameters());
    assert_eq!(made, SESSION);
}

#[test]
fn creation_starts_a_session_with_its_first_part() {
    for version in versions() {
        let whole = headers(
            version,
            &[
                flag_of(version, true),
                ("content-type", "image/png"),
                ("content-disposition", "inline; filename=\"a b.png\""),
            ],
        );
        let started = start(&whole, Framing::Length(5));
        assert_eq!(started.content_type.as_deref(), Some("image/png"));
        assert_eq!(started.declared_total(), Some(5));
        assert_eq!(started.length, BodyLength::Exact(5));
        let part = part_of(&started);
        assert_eq!((part.end, part.length), (End::Always, None));
        let StartBody::Data { file_name, .. } = started.body else {
            panic!("its body is data")
        };
        assert_eq!(file_name.as_deref(), Some("a b.png"));

        let first = headers(
            version,
            &[
                flag_of(version, false),
                ("upload-length", "11"),
                ("content-type", "application/partial-upload"),
            ],
        );
        let started = start(&first, Framing::Streamed);
        assert_eq!(started.content_type, None);
        assert_eq!(started.declared_total(), Some(11));
        assert_eq!(started.length, BodyLength::Unknown);
        let part = part_of(&started);
        assert_eq!((part.end, part.length), (End::Never, Some(11)));
    }
}

#[test]
fn length_that_is_no_length_is_ignored() {
    for length in ["-1", "1.0", "1000000000000000", "\"7\"", "7 8", "7, 7", ""] {
        let headers = headers(
            None,
            &[("upload-complete", "?0"), ("upload-length", length)],
        );
        let started = start(&headers, Framing::Length(0));
        assert_eq!(started.declared_total(), None, "{length}");
        assert_eq!(part_of(&started).length, None, "{length}");
    }
    for length in ["999999999999999", "007", "7;a=b"] {
        let headers = headers(
            None,
            &[("upload-complete", "?0"), ("upload-length", length)],
        );
        let part = part_of(&start(&headers, Framing::Length(0)));
        assert!(part.length.is_some(), "{length}");
    }
}

#[test]
fn whole_upload_of_another_length_starts_no_session() {
    let fields = [("upload-complete", "?1"), ("upload-length", "100")];
    let headers = headers(None, &fields);
    let refused = command(&Method::POST, START, &headers, Framing::Length(5));
    let error = refused.expect_err("the lengths differ");
    let reply = Ietf::default().protocol_error(&error);
    assert_eq!(reply.status, 400);
    assert_eq!(reply.form, Form::Problem(INCONSISTENT_LENGTH));
    assert_headers(&reply.headers, &[("upload-complete", Some("?0"))]);
}

#[test]
fn clients_that_announce_a_draft_are_told_of_progress() {
    let location = HeaderValue::from_static("http://host/upload?upload_id=abc");
    for version in versions() {
        let dialect = ietf(&Method::POST, &headers(version, &[]));
        let location = &location;
        let started = dialect.progress(Progress::Started { location });
        let committed = dialect.progress(Progress::Committed { offset: 7 });
        assert_eq!(started.is_some(), version.is_some());
        assert_eq!(committed.is_some(), version.is_some_and(|it| it >= 5));
        if let Some(headers) = started {
            assert_eq!(headers[LOCATION], *location);
            assert!(headers.contains_key(UPLOAD_DRAFT_INTEROP_VERSION));
        }
        if let Some(headers) = committed {
            assert_headers(
                &headers,
                &[("upload-offset", Some("7")), ("location", None)],
            );
            assert!(headers.contains_key(UPLOAD_DRAFT_INTEROP_VERSION));
        }
    }
}

#[test]
fn unknown_draft_is_a_plain_upload_or_is_refused() {
    for version in ["2", "11", "300", "-3"] {
        let stated = |complete| {
            headers(
                None,
                &[
                    ("upload-draft-interop-version", version),
                    ("upload-complete", complete),
                ],
            )
        };
        let framing = Framing::Length(5);
        let plain = command(&Method::POST, START, &stated("?1"), framing);
        assert!(matches!(plain, Ok(Command::Simple(_))), "{version}");
        let refused = command(&Method::POST, START, &stated("?0"), framing);
        assert_eq!(
            refused,
            Err(invalid("Upload-Draft-Interop-Version")),
            "{version}"
        );
    }
}

#[test]
fn version_that_is_no_number_is_ignored() {
    for version in ["x", "6.0", "6, 6", "\"6\"", ""] {
        let headers = headers(None, &[("upload-draft-interop-version", version)]);
        assert_eq!(Version::of(&headers), Version::Unstated, "{version}");
    }
}

#[test]
fn empty_file_of_tus_js_is_complete_when_it_is_created() {
    for (version, metadata, length, is_last) in [
        (Some(5), true, "0", true),
        (Some(6), true, "0", true),
        (Some(6), true, "1", false),
        (Some(6), false, "0", false),
        (Some(7), true, "0", false),
        (None, true, "0", false),
    ] {
        let mut fields = vec![("upload-complete", "?0"), ("upload-length", length)];
        if metadata {
            fields.push(("upload-metadata", "filename YQ=="));
        }
        let started = start(&headers(version, &fields), Framing::Length(0));
        let end = if is_last { End::Always } else { End::Never };
        assert_eq!(part_of(&started).end, end, "{version:?} {fields:?}");
    }
}

fn patch(version: Option<u8>, fields: &[(&'static str, &str)]) -> Result<Command, ProtocolError> {
    let headers = headers(version, fields);
    command(&Method::PATCH, SESSION, &headers, Framing::Length(5))
}

fn append(first: u64, end: End, length: Option<u64>) -> SessionAction {
    SessionAction::AppendAt {
        first,
        overlap: Overlap::Conflict,
        end,
        length,
    }
}

#[track_caller]
fn assert_action(command: Result<Command, ProtocolError>, expected: SessionAction) {
    match command {
        Ok(Command::Session(head)) => assert_eq!(head.request.action, expected),
        other => panic!("not for a session: {other:?}"),
    }
}

#[track_caller]
fn assert_refused(command: Result<Command, ProtocolError>, name: &'static str) {
    let error = command.expect_err("the request is refused");
    assert_eq!(error, ProtocolError::ToSession(Box::new(invalid(name))));
}

#[test]
fn patch_appends_at_its_offset() {
    const TYPE: (&str, &str) = ("content-type", "application/partial-upload");
    for version in versions() {
        let at = ("upload-offset", "7");
        for (is_complete, end) in [(true, End::Always), (false, End::Never)] {
            let flag = flag_of(version, is_complete);
            assert_action(patch(version, &[TYPE, at, flag]), append(7, end, None));
            let length = ("upload-length", "12");
            assert_action(
                patch(version, &[TYPE, at, flag, length]),
                append(7, end, Some(12)),
            );
        }
        let flag = flag_of(version, false);
        assert_refused(patch(version, &[TYPE, flag]), "Upload-Offset");
        for offset in ["-1", "x", "7.5", "1000000000000000"] {
            let at = ("upload-offset", offset);
            assert_refused(patch(version, &[TYPE, at, flag]), "Upload-Offset");
        }
        let without_type = patch(version, &[at, flag]);
        let other_type = patch(version, &[at, flag, ("content-type", "text/plain")]);
        for command in [without_type, other_type] {
            if version.is_some_and(|version| version <= 5) {
                assert_action(command, append(7, End::Never, None));
            } else {
                assert_refused(command, "Content-Type");
            }
        }
        let without_flag = patch(version, &[TYPE, at]);
        match version {
            Some(3) => assert_action(without_flag, append(7, End::Always, None)),
            Some(4..=6) => assert_action(without_flag, append(7, End::AtLength, None)),
            _ => assert_refused(without_flag, "Upload-Complete"),
        }
    }
}

#[test]
fn coded_body_is_refused() {
    let fields = [
        ("upload-complete", "?1"),
        ("upload-offset", "0"),
        ("content-type", "application/partial-upload"),
        ("content-encoding", "gzip"),
    ];
    assert_refused(patch(None, &fields), "Content-Encoding");
    let created = command(
        &Method::POST,
        START,
        &headers(None, &fields),
        Framing::Length(5),
    );
    assert_eq!(created, Err(invalid("Content-Encoding")));
    let refused = ProtocolError::ToSession(Box::new(invalid("Content-Encoding")));
    let reply = Ietf::default().protocol_error(&refused);
    assert_eq!(reply.status, 415);
}

#[test]
fn offset_is_asked_and_an_upload_is_cancelled_without_state() {
    for method in [Method::HEAD, Method::GET] {
        let asked = command(&method, SESSION, &HeaderMap::new(), Framing::Absent);
        assert_action(asked, SessionAction::Query(Query::Settled));
    }
    let cancel = command(&Method::DELETE, SESSION, &HeaderMap::new(), Framing::Absent);
    assert!(matches!(cancel, Ok(Command::Cancel { .. })));
    for method in [Method::HEAD, Method::GET, Method::DELETE] {
        for (name, value, text) in [
            ("upload-offset", "7", "Upload-Offset"),
            ("upload-complete", "?0", "Upload-Complete"),
            ("upload-incomplete", "?1", "Upload-Incomplete"),
        ] {
            let headers = headers(Some(6), &[(name, value)]);
            assert_refused(command(&method, SESSION, &headers, Framing::Absent), text);
        }
    }
    let put = command(&Method::PUT, SESSION, &HeaderMap::new(), Framing::Absent);
    let error = ProtocolError::MethodNotAllowed {
        allowed: SESSION_METHODS,
    };
    assert_eq!(put, Err(ProtocolError::ToSession(Box::new(error))));
}

fn status(offset: u64) -> SessionStatus<'static> {
    SessionStatus {
        length: Some(11),
        expires: Some(Expiry {
            at: SystemTime::UNIX_EPOCH,
            left: Duration::from_millis(9_999),
        }),
        ..SessionStatus::with_offset(offset)
    }
}

#[track_caller]
fn assert_headers(headers: &HeaderMap, expected: &[(&'static str, Option<&str>)]) {
    for (name, value) in expected {
        let stated = headers.get(*name).map(|it| it.to_str().unwrap());
        assert_eq!(stated, *value, "{name}");
    }
}

#[test]
fn one_set_of_replies_suits_all_drafts() {
    for version in versions() {
        let of_version = headers(version, &[]);
        let (flag, unfinished) = flag_of(version, false);
        let (_, finished) = flag_of(version, true);
        let limits = match version {
            Some(3..=6) => "expires=9",
            _ => "max-age=9",
        };
        let state = [
            (flag, Some(unfinished)),
            ("upload-offset", Some("7")),
            ("upload-length", Some("11")),
            ("upload-limit", Some(limits)),
        ];
        let patch = ietf(&Method::PATCH, &of_version);
        let upload_id = UploadId::from("abc");
        let committed = || Outcome::Committed {
            status: status(7),
            upload_id: &upload_id,
            no_308: false,
        };
        let reply = patch.reply(committed());
        let partial = if version.is_some_and(|it| it <= 6) {
            201
        } else {
            204
        };
        assert_eq!(reply.status, partial, "{version:?}");
        assert_headers(&reply.headers, &state);
        let reply = ietf(&Method::HEAD, &of_version).reply(committed());
        assert_eq!(reply.status, 204);
        assert_headers(&reply.headers, &state);
        assert_headers(&reply.headers, &[("cache-control", Some("no-store"))]);

        let location = HeaderValue::from_static("http://host/upload?upload_id=abc");
        let reply = patch.reply(Outcome::Started {
            location: location.clone(),
            upload_id: HeaderValue::from_static("abc"),
            status: status(7),
            with_data: true,
        });
        assert_eq!(reply.status, 201);
        assert_headers(&reply.headers, &state);
        assert_eq!(reply.headers[LOCATION], location);

        let end = || {
            Outcome::Final(Final {
                status: StatusCode::CREATED,
                content_type: HeaderValue::from_static("application/json"),
                length: 11,
                resource: None,
                upload_id: Some(&upload_id),
                location: None,
                kept: None,
            })
        };
        let state = [
            (flag, Some(finished)),
            ("upload-offset", Some("11")),
            ("upload-length", Some("11")),
        ];
        let reply = patch.reply(end());
        assert_eq!((reply.status.as_u16(), reply.drops_body), (201, false));
        assert_headers(&reply.headers, &state);
        let reply = ietf(&Method::HEAD, &of_version).reply(end());
        assert_eq!((reply.status.as_u16(), reply.drops_body), (204, true));
        assert_headers(&reply.headers, &state);
    }
}

#[test]
fn replies_repeat_the_version_of_their_request() {
    for version in versions() {
        let patch = ietf(&Method::PATCH, &headers(version, &[]));
        let reply = patch.reply(Outcome::Cancelled);
        assert_eq!(reply.status, 204);
        let mut marked = HeaderMap::new();
        patch.mark(&mut marked);
        let number = version.map(|it| it.to_string());
        let echoed = [("upload-draft-interop-version", number.as_deref())];
        assert_headers(&marked, &echoed);
    }
}

#[test]
fn conflict_states_the_offset() {
    for version in versions() {
        let dialect = ietf(&Method::PATCH, &headers(version, &[]));
        let reply = dialect.protocol_error(
            &SessionError::Conflict {
                first: 9,
                committed: 7,
            }
            .into(),
        );
        assert_eq!(reply.status, 409);
        assert_eq!(reply.form, Form::Problem(MISMATCHING_OFFSET));
        let (flag, unfinished) = flag_of(version, false);
        assert_headers(
            &reply.headers,
            &[(flag, Some(unfinished)), ("upload-offset", Some("7"))],
        );
        assert_eq!(reply.members["expected-offset"], 7);
        assert_eq!(reply.members["provided-offset"], 9);
    }
}

#[test]
fn errors_of_the_session_are_problems() {
    for (error, status, form) in [
        (SessionError::Cancelled, 404, BLANK),
        (SessionError::Gone, 410, BLANK),
        (SessionError::TooLarge { limit: 7 }, 413, BLANK),
        (SessionError::LengthTooLarge { limit: 7 }, 413, BLANK),
        (SessionError::AfterEnd { size: 7 }, 400, COMPLETED_UPLOAD),
        (
            SessionError::LengthChanged {
                stated: 7,
                known: 8,
            },
            400,
            INCONSISTENT_LENGTH,
        ),
        (
            SessionError::MoreThanDeclared { declared: 7 },
            400,
            INCONSISTENT_LENGTH,
        ),
        (SessionError::QueryWithBody, 400, BLANK),
    ] {
        let reply = Ietf::default().protocol_error(&error.into());
        assert_eq!(
            (reply.status.as_u16(), reply.form),
            (status, Form::Problem(form))
        );
        assert_headers(&reply.headers, &[("upload-complete", Some("?0"))]);
    }
    let large = Ietf::default().protocol_error(&SessionError::TooLarge { limit: 7 }.into());
    assert_headers(&large.headers, &[("upload-limit", Some("max-size=7"))]);
}

#[test]
fn refusal_by_the_api_ends_the_upload() {
    let refused = |status| {
        let reply = Ietf::default().other_error(ErrorReply::json(status, "forbidden"));
        reply.headers[UPLOAD_COMPLETE].to_str().unwrap().to_owned()
    };
    assert_eq!(refused(StatusCode::FORBIDDEN), "?1");
    assert_eq!(refused(StatusCode::TOO_MANY_REQUESTS), "?0");
    assert_eq!(refused(StatusCode::SERVICE_UNAVAILABLE), "?0");
}

#[test]
fn options_state_the_limits() {
    let offer = |max_size| {
        let mut headers = HeaderMap::new();
        let lifetime = Duration::from_secs(60);
        Ietf::default().describe(&Offer { max_size, lifetime }, &mut headers);
        assert_headers(
            &headers,
            &[("accept-patch", Some("application/partial-upload"))],
        );
        headers[UPLOAD_LIMIT].to_str().unwrap().to_owned()
    };
    assert_eq!(offer(Some(7)), "max-size=7, max-age=60");
    let greatest = "max-size=999999999999999, max-age=60";
    assert_eq!(offer(Some(u64::MAX)), greatest);
    assert_eq!(offer(None), greatest);
}

#[test]
fn last_part_is_more_important_than_another() {
    let intent = |method: &Method, query, complete: &'static str| {
        let headers = headers(None, &[("upload-complete", complete)]);
        Ietf::default().intent(&RequestTarget {
            http_method: method,
            is_upload_path: true,
            is_media_path: false,
            parameters: &parameters(query),
            headers: &headers,
        })
    };
    assert_eq!(intent(&Method::PATCH, SESSION, "?1"), Intent::Finish);
    assert_eq!(intent(&Method::PATCH, SESSION, "?0"), Intent::Append);
    assert_eq!(intent(&Method::POST, START, "?1"), Intent::Start);
    assert_eq!(intent(&Method::HEAD, SESSION, "?0"), Intent::Query);
    assert_eq!(intent(&Method::DELETE, SESSION, "?0"), Intent::Finish);
}

#[test]
fn file_is_named_by_its_disposition() {
    for (disposition, name) in [
        ("inline; filename=a.png", Some("a.png")),
        (
            "attachment;filename=\"a \\\"b\\\".png\"; size=7",
            Some("a \"b\".png"),
        ),
        (
            "inline; filename=x; filename*=UTF-8''%e2%82%ac.png",
            Some("€.png"),
        ),
        ("inline; filename*=utf-8'en'a%20b", Some("a b")),
        ("inline; filename*=iso-8859-1''%e4; filename=x", Some("x")),
        ("inline; filename=\"unclosed", None),
        ("inline; filename=", None),
        ("inline", None),
        ("", None),
    ] {
        let named = disposition::file_name(disposition.as_bytes());
        assert_eq!(named.as_deref(), name, "{disposition}");
    }
}
