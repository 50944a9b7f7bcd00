use http::Version;

use super::*;
use crate::command::{Framing, MultipartHead, SimpleHead};
use crate::dialect::SessionStatus;
use crate::parameters::Parameters;
use crate::session::SessionError;

/// Parses an HTTP/1.1 request.
fn read(method: &Method, query: &str, fields: &[(&str, &str)]) -> Result<Command, ProtocolError> {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        let name = HeaderName::try_from(*name).expect("a name");
        headers.append(name, HeaderValue::from_str(value).expect("a value"));
    }
    let framing = Framing::of(Version::HTTP_11, &headers, false)?;
    XGoogUpload.command(&RequestHead {
        http_method: method,
        parameters: &Parameters::parse(Some(query)).unwrap(),
        headers: &headers,
        framing,
    })
}

fn post(fields: &[(&str, &str)]) -> Result<Command, ProtocolError> {
    read(&Method::POST, "uploadType=resumable", fields)
}

fn on_url(fields: &[(&str, &str)]) -> Result<Command, ProtocolError> {
    read(&Method::POST, "upload_id=u", fields)
}

/// Returns the action that a request asks of a session, and the length of its body.
fn asked(fields: &[(&str, &str)]) -> Result<(SessionAction, BodyLength), ProtocolError> {
    on_url(fields).map(|command| match command {
        Command::Session(SessionHead {
            upload_id, request, ..
        }) => {
            assert_eq!(upload_id.as_str(), "u");
            (request.action, request.body)
        }
        other => panic!("{other:?}"),
    })
}

fn started(fields: &[(&str, &str)]) -> Result<(Option<String>, Option<u64>), ProtocolError> {
    let start = [
        ("x-goog-upload-protocol", "resumable"),
        ("x-goog-upload-command", "start"),
    ];
    post(&[&start, fields].concat()).map(|command| match command {
        Command::Start(head) => (head.content_type, head.content_length),
        other => panic!("{other:?}"),
    })
}

fn status(headers: &HeaderMap) -> Option<&str> {
    let status = headers.get("x-goog-upload-status")?;
    Some(status.to_str().expect("it is text"))
}

const COMMAND: &str = "x-goog-upload-command";
const OFFSET: &str = "x-goog-upload-offset";
const LENGTH: &str = "content-length";

#[test]
fn dialect_claims_requests_with_its_headers_alone() {
    let table = [
        (Some("x-goog-upload-protocol"), true),
        (Some("x-goog-upload-command"), true),
        (Some("x-goog-upload-offset"), false),
        (Some("x-upload-content-length"), false),
        (None, false),
    ];
    for (name, expected) in table {
        let mut headers = HeaderMap::new();
        if let Some(name) = name {
            headers.insert(name, HeaderValue::from_static("x"));
        }
        for (http_method, is_upload_path, is_ours) in [
            (Method::POST, true, true),
            (Method::DELETE, true, true),
            (Method::POST, false, true),
            (Method::GET, false, false),
        ] {
            let claims = XGoogUpload.claims(&RequestTarget {
                http_method: &http_method,
                is_upload_path,
                is_media_path: false,
                parameters: &Parameters::default(),
                headers: &headers,
            });
            assert_eq!(claims, expected && is_ours, "{http_method} {name:?}");
        }
    }
}

#[test]
fn protocol_selects_the_command_without_a_session() {
    let multipart = post(&[
        ("x-goog-upload-protocol", "multipart"),
        ("content-type", "multipart/related; boundary=b"),
        (LENGTH, "5"),
    ]);
    assert!(
        matches!(multipart, Ok(Command::Multipart(MultipartHead { .. }))),
        "{multipart:?}"
    );
    for protocol in ["raw", "RAW"] {
        let raw = post(&[
            ("x-goog-upload-protocol", protocol),
            ("content-type", "image/png"),
            (LENGTH, "5"),
        ]);
        assert!(
            matches!(&raw, Ok(Command::Simple(SimpleHead { content_type: Some(of), .. })) if of == "image/png"),
            "{raw:?}"
        );
    }
    let unknown = post(&[("x-goog-upload-protocol", "batch"), (LENGTH, "0")]);
    assert_eq!(unknown, Err(invalid("X-Goog-Upload-Protocol")));
}

#[test]
fn raw_media_may_state_its_type_in_the_header_of_a_start() {
    let raw = post(&[
        ("x-goog-upload-protocol", "raw"),
        ("content-type", "application/octet-stream"),
        ("x-goog-upload-content-type", "image/png"),
        (LENGTH, "5"),
    ]);
    let Ok(Command::Simple(head)) = raw else {
        panic!("{raw:?}");
    };
    assert_eq!(head.content_type.as_deref(), Some("image/png"));
}

#[test]
fn start_reads_type_and_length_in_all_their_names() {
    let table = [
        (&[][..], (None, None)),
        (
            &[
                ("x-goog-upload-header-content-type", "image/png"),
                ("x-goog-upload-header-content-length", "20"),
            ],
            (Some("image/png"), Some(20)),
        ),
        (
            &[
                ("x-goog-upload-content-type", "image/png"),
                ("x-goog-upload-content-length", "20"),
            ],
            (Some("image/png"), Some(20)),
        ),
        (&[("x-goog-upload-raw-size", "20")], (None, Some(20))),
        (
            &[
                ("x-goog-upload-header-content-type", "image/png"),
                ("x-goog-upload-content-type", "image/gif"),
                ("x-goog-upload-raw-size", "7"),
                ("x-goog-upload-header-content-length", "20"),
            ],
            (Some("image/png"), Some(20)),
        ),
        (&[("x-goog-upload-header-content-length", "")], (None, None)),
    ];
    for (fields, (content_type, length)) in table {
        let expected = (content_type.map(str::to_owned), length);
        assert_eq!(started(fields), Ok(expected), "{fields:?}");
    }
    let malformed = started(&[("x-goog-upload-header-content-length", "many")]);
    let name = "X-Goog-Upload-Header-Content-Length";
    assert_eq!(malformed, Err(invalid(name)));
}

#[test]
fn start_may_come_without_the_protocol_and_with_any_method_of_a_start() {
    for method in [Method::POST, Method::PUT, Method::PATCH] {
        let start = read(&method, "", &[(COMMAND, "start")]);
        assert!(matches!(start, Ok(Command::Start(_))), "{start:?}");
    }
    let get = read(&Method::GET, "", &[(COMMAND, "start")]);
    let allowed = UPLOAD_METHODS;
    assert_eq!(get, Err(ProtocolError::MethodNotAllowed { allowed }));
}

#[test]
fn commands_to_a_session_become_its_actions() {
    let append = append_at(7, End::Never);
    let finish = |first| append_at(first, End::Always);
    let table = [
        (
            &[(COMMAND, "upload"), (OFFSET, "7"), (LENGTH, "5")][..],
            (append, BodyLength::Exact(5)),
        ),
        (
            &[
                (COMMAND, "UPLOAD"),
                (OFFSET, "7"),
                ("transfer-encoding", "chunked"),
            ],
            (append, BodyLength::Unknown),
        ),
        (
            &[(COMMAND, "upload, finalize"), (OFFSET, "0"), (LENGTH, "0")],
            (finish(0), BodyLength::Exact(0)),
        ),
        (
            &[(COMMAND, "upload,finalize"), (OFFSET, "7"), (LENGTH, "5")],
            (finish(7), BodyLength::Exact(5)),
        ),
        (
            &[(COMMAND, "Finalize , Upload"), (OFFSET, "7"), (LENGTH, "5")],
            (finish(7), BodyLength::Exact(5)),
        ),
        (
            &[(COMMAND, "finalize"), (LENGTH, "0")],
            (SessionAction::Finish, BodyLength::Exact(0)),
        ),
        (
            &[(COMMAND, "finalize")],
            (SessionAction::Finish, BodyLength::Exact(0)),
        ),
        (
            &[(COMMAND, "finalize"), (OFFSET, "7"), (LENGTH, "0")],
            (finish(7), BodyLength::Exact(0)),
        ),
        (
            &[(COMMAND, "query"), (LENGTH, "0")],
            (
                SessionAction::Query(Query::Undisturbed),
                BodyLength::Exact(0),
            ),
        ),
        (
            &[(COMMAND, "query")],
            (
                SessionAction::Query(Query::Undisturbed),
                BodyLength::Exact(0),
            ),
        ),
    ];
    for (fields, expected) in table {
        assert_eq!(asked(fields), Ok(expected), "{fields:?}");
    }
}

#[test]
fn cancel_is_a_command_to_a_session() {
    let cancel = on_url(&[(COMMAND, "cancel"), (LENGTH, "0")]);
    let upload_id = UploadId::from("u");
    assert_eq!(cancel, Ok(Command::Cancel { upload_id }));
}

#[test]
fn session_takes_post_and_put_alone() {
    let command = &[(COMMAND, "query")];
    for method in [Method::POST, Method::PUT] {
        read(&method, "upload_id=u", command).expect("it is allowed");
    }
    for method in [Method::GET, Method::DELETE, Method::PATCH] {
        let refused = read(&method, "upload_id=u", command);
        let allowed = SESSION_METHODS;
        assert_eq!(refused, Err(ProtocolError::MethodNotAllowed { allowed }));
    }
}

#[test]
fn command_without_a_place_is_refused() {
    let unknown = UploadCommandError::Unknown {
        value: "start, upload".to_owned(),
    };
    let table = [
        (
            post(&[("x-goog-upload-protocol", "resumable")]),
            UploadCommandError::Missing,
        ),
        (post(&[(COMMAND, "start, upload")]), unknown),
        (
            post(&[(COMMAND, "upload"), (OFFSET, "0"), (LENGTH, "5")]),
            UploadCommandError::OutsideSession,
        ),
    ];
    for (command, expected) in table {
        assert_eq!(command, Err(expected.into()));
    }
    let raw = post(&[("x-goog-upload-protocol", "raw"), (COMMAND, "start")]);
    assert_eq!(raw, Err(invalid("X-Goog-Upload-Protocol")));
}

#[test]
fn request_that_cannot_be_read_leaves_its_session_active() {
    let command = |error: UploadCommandError| ProtocolError::from(error);
    let unknown = UploadCommandError::Unknown {
        value: "append".to_owned(),
    };
    let table = [
        (
            on_url(&[("x-goog-upload-protocol", "resumable"), (LENGTH, "5")]),
            command(UploadCommandError::Missing),
        ),
        (on_url(&[(COMMAND, "append")]), command(unknown)),
        (
            on_url(&[(COMMAND, "start")]),
            command(UploadCommandError::InsideSession),
        ),
        (
            on_url(&[(COMMAND, "upload"), (LENGTH, "5")]),
            command(UploadCommandError::OffsetMissing),
        ),
        (
            on_url(&[(COMMAND, "upload, finalize"), (LENGTH, "5")]),
            command(UploadCommandError::OffsetMissing),
        ),
        (
            on_url(&[(COMMAND, "finalize"), (LENGTH, "5")]),
            command(UploadCommandError::OffsetMissing),
        ),
        (
            on_url(&[(COMMAND, "upload"), (OFFSET, "-1"), (LENGTH, "5")]),
            invalid("X-Goog-Upload-Offset"),
        ),
        (
            on_url(&[(COMMAND, "upload, finalize"), (OFFSET, "x"), (LENGTH, "5")]),
            invalid("X-Goog-Upload-Offset"),
        ),
        (
            on_url(&[(COMMAND, "upload"), (OFFSET, "0")]),
            ProtocolError::LengthRequired,
        ),
    ];
    for (command, expected) in table {
        let error = command.expect_err("it cannot be read");
        assert_eq!(error.to_string(), expected.to_string());
        assert_eq!(error, ProtocolError::ToSession(Box::new(expected)));
        let reply = XGoogUpload.protocol_error(&error);
        assert!(reply.status.is_client_error(), "{error}");
        assert_eq!(status(&reply.headers), Some("active"), "{error}");
    }
    let coding = ProtocolError::ToSession(Box::new(ProtocolError::TransferEncoding));
    let reply = XGoogUpload.protocol_error(&coding);
    assert_eq!(status(&reply.headers), None, "another try may succeed");
}

#[test]
fn replies_state_whether_the_upload_goes_on() {
    let upload_id = UploadId::from("u");
    let location = HeaderValue::from_static("http://localhost/upload/x?upload_id=u");
    let start = XGoogUpload.reply(Outcome::Started {
        location: location.clone(),
        upload_id: HeaderValue::from_static("u"),
        status: SessionStatus::with_offset(0),
        with_data: false,
    });
    assert_eq!(start.status, StatusCode::OK);
    assert_eq!(status(&start.headers), Some("active"));
    assert_eq!(start.headers["x-goog-upload-url"], location);
    assert_eq!(start.headers["x-goog-upload-control-url"], location);
    assert_eq!(start.headers["x-goog-upload-chunk-granularity"], "262144");
    assert_eq!(start.headers["x-guploader-uploadid"], "u");

    let committed = XGoogUpload.reply(Outcome::Committed {
        status: SessionStatus::with_offset(7),
        upload_id: &upload_id,
        no_308: false,
    });
    assert_eq!(committed.status, StatusCode::OK);
    assert_eq!(status(&committed.headers), Some("active"));
    assert_eq!(committed.headers["x-goog-upload-size-received"], "7");
    assert_eq!(
        committed.headers["x-goog-upload-chunk-granularity"],
        "262144"
    );

    let end = XGoogUpload.reply(Outcome::Final(Final {
        status: StatusCode::CREATED,
        content_type: HeaderValue::from_static("text/plain"),
        length: 7,
        resource: None,
        upload_id: Some(&upload_id),
        location: None,
        kept: None,
    }));
    assert_eq!(end.status, StatusCode::OK);
    assert_eq!(status(&end.headers), Some("final"));
    assert_eq!(end.headers["content-type"], "text/plain");

    let cancelled = XGoogUpload.reply(Outcome::Cancelled);
    assert_eq!(cancelled.status, StatusCode::OK);
    assert_eq!(status(&cancelled.headers), Some("cancelled"));
}

#[test]
fn errors_of_a_session_state_what_is_left_of_it() {
    let table = [
        (
            SessionError::Gap {
                first: 9,
                committed: 7,
            },
            400,
            "active",
            Some("7"),
        ),
        (
            SessionError::EndsBeforeCommitted {
                total: 5,
                committed: 7,
            },
            400,
            "active",
            Some("7"),
        ),
        (
            SessionError::LengthDisagrees {
                body: 1,
                expected: 2,
                first: 0,
            },
            400,
            "active",
            None,
        ),
        (SessionError::QueryWithBody, 400, "active", None),
        (
            SessionError::MoreThanDeclared { declared: 5 },
            400,
            "final",
            None,
        ),
        (SessionError::AfterEnd { size: 5 }, 400, "final", None),
        (SessionError::TooLarge { limit: 5 }, 413, "final", None),
        (SessionError::Gone, 410, "final", None),
        (SessionError::Cancelled, 400, "cancelled", None),
    ];
    for (error, code, state, received) in table {
        let reply = XGoogUpload.protocol_error(&error.into());
        assert_eq!(reply.status.as_u16(), code, "{error:?}");
        assert_eq!(status(&reply.headers), Some(state), "{error:?}");
        let size = reply.headers.get("x-goog-upload-size-received");
        assert_eq!(size.map(|size| size.to_str().unwrap()), received);
        if state == "active" {
            assert!(!error.ends_session(), "{error:?} leaves no session");
        }
    }
}

#[test]
fn reply_that_asks_for_another_try_has_no_status() {
    for condition in [
        Condition::Interrupted,
        Condition::Superseded,
        Condition::FinishPending,
        Condition::Unavailable { retry_after: 5 },
    ] {
        let reply = XGoogUpload.condition(condition);
        assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(status(&reply.headers), None, "{condition:?}");
    }
    for (code, state) in [(503, None), (408, None), (429, None), (403, Some("final"))] {
        let reply = ErrorReply::json(StatusCode::from_u16(code).unwrap(), "x");
        let reply = XGoogUpload.other_error(reply);
        assert_eq!(status(&reply.headers), state, "{code}");
    }
    let coding = XGoogUpload.protocol_error(&ProtocolError::TransferEncoding);
    assert_eq!(coding.status, StatusCode::NOT_IMPLEMENTED);
    assert_eq!(status(&coding.headers), None);
}

#[test]
fn conditions_state_that_the_session_is_over() {
    let table = [
        (Condition::SessionNotFound, 404, "final"),
        (Condition::OtherDialect, 400, "final"),
        (Condition::AlreadyFinished, 400, "final"),
        (Condition::AlreadyCancelled, 200, "cancelled"),
        (Condition::MediaLost, 410, "final"),
    ];
    for (condition, code, state) in table {
        let reply = XGoogUpload.condition(condition);
        let found = (reply.status.as_u16(), status(&reply.headers));
        assert_eq!(found, (code, Some(state)), "{condition:?}");
    }
}
