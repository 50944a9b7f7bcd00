use http::Version;

use windlass_digest::Algorithm;

use super::*;
use crate::command::Framing;
use crate::parameters::Parameters;

const SESSION: &str = "uploadType=tus&upload_id=u";

fn headers(fields: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        let name = HeaderName::try_from(*name).expect("a name");
        headers.append(name, HeaderValue::from_str(value).expect("a value"));
    }
    headers
}

/// Parses an HTTP/1.1 request of version 1.0.0.
fn read(method: &Method, query: &str, fields: &[(&str, &str)]) -> Result<Command, ProtocolError> {
    let mut headers = headers(fields);
    headers.insert(TUS_RESUMABLE, VERSION);
    read_headers(method, query, &headers)
}

fn read_headers(
    method: &Method,
    query: &str,
    headers: &HeaderMap,
) -> Result<Command, ProtocolError> {
    let framing = Framing::of(Version::HTTP_11, headers, false)?;
    Tus::default().command(&RequestHead {
        http_method: method,
        parameters: &Parameters::parse(Some(query)).expect("it is UTF-8"),
        headers,
        framing,
    })
}

fn create(fields: &[(&str, &str)]) -> Result<StartHead, ProtocolError> {
    read(&Method::POST, "", fields).map(|command| match command {
        Command::Start(head) => head,
        other => panic!("{other:?}"),
    })
}

fn patch(fields: &[(&str, &str)]) -> Result<SessionRequest, ProtocolError> {
    let part = ("content-type", PART_TYPE);
    read(&Method::PATCH, SESSION, &[&[part], fields].concat()).map(|command| match command {
        Command::Session(head) => head.request,
        other => panic!("{other:?}"),
    })
}

#[track_caller]
fn claims(method: &Method, is_upload_path: bool, query: &str, fields: &[(&str, &str)]) -> bool {
    Tus::default().claims(&RequestTarget {
        http_method: method,
        is_upload_path,
        is_media_path: false,
        parameters: &Parameters::parse(Some(query)).expect("it is UTF-8"),
        headers: &headers(fields),
    })
}

#[test]
fn requests_are_known_by_the_version_a_field_or_the_session() {
    let versioned = [("tus-resumable", "1.0.0")];
    assert!(claims(&Method::POST, true, "", &versioned));
    assert!(claims(&Method::POST, false, "", &versioned));
    assert!(
        !claims(&Method::DELETE, false, "", &versioned),
        "a resource's"
    );
    assert!(claims(&Method::DELETE, true, SESSION, &versioned));
    assert!(claims(&Method::POST, true, "", &[("upload-length", "1")]));
    assert!(claims(&Method::HEAD, true, SESSION, &[]));
    assert!(claims(&Method::PATCH, true, SESSION, &[]));
    let google = "uploadType=resumable&upload_id=u";
    assert!(!claims(&Method::HEAD, true, google, &[]));
    assert!(!claims(&Method::PUT, true, SESSION, &[]));
    assert!(!claims(&Method::OPTIONS, true, "", &versioned));
    assert!(!claims(&Method::POST, true, "", &[]));
}

#[test]
fn fields_of_the_draft_make_a_request_the_draft_s_unless_the_version_is_stated() {
    let draft = ("upload-complete", "?1");
    assert!(!claims(
        &Method::POST,
        true,
        "",
        &[draft, ("upload-length", "1")]
    ));
    assert!(!claims(&Method::HEAD, true, SESSION, &[draft]));
    let interop = ("upload-draft-interop-version", "6");
    let versioned = ("tus-resumable", "1.0.0");
    assert!(claims(
        &Method::PATCH,
        true,
        SESSION,
        &[draft, interop, versioned]
    ));
}

#[test]
fn creation_declares_a_length_or_defers_it() {
    let length = |fields: &[(&str, &str)]| create(fields).map(|head| head.content_length);
    assert_eq!(length(&[("upload-length", "11")]), Ok(Some(11)));
    assert_eq!(length(&[("upload-defer-length", "1")]), Ok(None));
    for fields in [
        &[][..],
        &[("upload-length", "1"), ("upload-defer-length", "1")],
        &[("upload-defer-length", "2")],
        &[("upload-length", "-1")],
        &[("upload-length", "+1")],
        &[("upload-length", "01")],
        &[("upload-length", "")],
        &[("upload-length", "9223372036854775808")],
    ] {
        assert!(length(fields).is_err(), "{fields:?}");
    }
}

#[test]
fn metadata_is_kept_as_sent_and_read() {
    let raw = "filename Y2F0LnBuZw==,filetype aW1hZ2UvcG5n,flag,is_ok dHJ1ZQ==";
    let head = create(&[("upload-length", "1"), ("upload-metadata", raw)]);
    let head = head.expect("it is well-formed");
    assert_eq!(head.kept.as_deref(), Some(raw));
    assert_eq!(head.content_type.as_deref(), Some("image/png"));
    let StartBody::Data {
        file_name,
        fields,
        part: None,
    } = head.body
    else {
        panic!("it has no data");
    };
    assert_eq!(file_name.as_deref(), Some("cat.png"));
    assert_eq!(fields["flag"], "");
    assert_eq!(fields["is_ok"], "true");
    let empty = create(&[("upload-length", "1"), ("upload-metadata", "")]);
    assert_eq!(
        empty.expect("some clients send it").kept.as_deref(),
        Some("")
    );
    for raw in ["a ?", "a YQ==,a Yg==", "a YQ== b", ",", "a YQ==,"] {
        let refused = create(&[("upload-length", "1"), ("upload-metadata", raw)]);
        assert_eq!(refused, Err(invalid("Upload-Metadata")), "{raw:?}");
    }
}

#[test]
fn creation_may_bring_the_first_part() {
    let part = |fields: &[(&str, &str)]| {
        let head = create(&[&[("upload-length", "5")], fields].concat());
        head.map(|head| match head.body {
            StartBody::Data { part, .. } => (part, head.length),
            other => panic!("{other:?}"),
        })
    };
    let first = FirstPart {
        end: End::AtLength,
        length: Some(5),
    };
    let data = ("content-type", PART_TYPE);
    let three = ("content-length", "3");
    assert_eq!(
        part(&[data, three]),
        Ok((Some(first), BodyLength::Exact(3)))
    );
    let ignored = (None, BodyLength::Exact(0));
    assert_eq!(part(&[("content-type", "text/plain"), three]), Ok(ignored));
    // A part without bytes. Its reply states the offset.
    let empty = (Some(first), BodyLength::Exact(0));
    assert_eq!(part(&[data, ("content-length", "0")]), Ok(empty));
    let too_long = SessionError::PastLength { end: 6, length: 5 };
    assert_eq!(
        part(&[data, ("content-length", "6")]),
        Err(ProtocolError::Session(too_long))
    );
    let empty = create(&[("upload-length", "0")]).expect("it may be empty");
    assert!(matches!(
        empty.body,
        StartBody::Data {
            part: Some(FirstPart {
                length: Some(0),
                ..
            }),
            ..
        }
    ));
}

#[test]
fn part_begins_at_its_offset_and_may_state_the_length() {
    let at = |first, length| SessionAction::AppendAt {
        first,
        overlap: Overlap::Conflict,
        end: End::AtLength,
        length,
    };
    let request = patch(&[("upload-offset", "3"), ("content-length", "2")]);
    let request = request.expect("it is well-formed");
    assert_eq!(
        (request.action, request.body),
        (at(3, None), BodyLength::Exact(2))
    );
    let request = patch(&[("upload-offset", "0"), ("upload-length", "9")]);
    let request = request.expect("it is well-formed");
    assert_eq!(
        (request.action, request.body),
        (at(0, Some(9)), BodyLength::Exact(0))
    );
    let name = "Upload-Offset";
    assert_eq!(patch(&[]), Err(ProtocolError::MissingHeader { name }));
    for offset in ["", "-1", "x", "00", "1.0"] {
        assert_eq!(patch(&[("upload-offset", offset)]), Err(invalid(name)));
    }
    let other = read(
        &Method::PATCH,
        SESSION,
        &[("upload-offset", "0"), ("content-type", "text/plain")],
    );
    assert!(matches!(other, Err(ProtocolError::PartType { .. })));
}

#[test]
fn unknown_version_is_answered_with_the_known_one() {
    for version in [None, Some("0.2.2"), Some("1.0")] {
        let mut fields = vec![("upload-length", "1")];
        fields.extend(version.map(|version| ("tus-resumable", version)));
        let error = read_headers(&Method::POST, "", &headers(&fields));
        let reply = Tus::default().protocol_error(&error.expect_err("it is refused"));
        assert_eq!(reply.status, StatusCode::PRECONDITION_FAILED);
        assert_eq!(reply.headers["tus-version"], "1.0.0");
    }
    let query = read_headers(&Method::HEAD, SESSION, &HeaderMap::new());
    assert!(matches!(query, Ok(Command::Session(_))));
}

#[test]
fn mismatch_of_a_checksum_has_a_status_of_its_own() {
    let field = "Upload-Checksum";
    let mismatch = BodyDigestError::Mismatch {
        field,
        algorithm: Algorithm::Sha1,
    };
    for (error, status, phrase) in [
        (mismatch, 460, Some("Checksum Mismatch")),
        (BodyDigestError::Malformed { field }, 400, None),
        (BodyDigestError::Missing { field }, 400, None),
    ] {
        let reply = Tus::default().protocol_error(&error.into());
        assert_eq!(
            (reply.status.as_u16(), reply.reason_phrase),
            (status, phrase)
        );
    }
}

#[test]
fn partial_upload_is_created_as_any_other_without_metadata() {
    let partial = ("upload-concat", "partial");
    let metadata = ("upload-metadata", "filetype aW1hZ2UvcG5n");
    let head = create(&[partial, metadata, ("upload-length", "5")]).expect("it is well-formed");
    assert_eq!(head.content_length, Some(5));
    assert_eq!(head.content_type, None);
    assert_eq!(head.body, StartBody::Partial { part: None });
    let kept = head.kept.expect("it is kept");
    assert_eq!(
        concat::read_kept(&kept),
        ("partial", "filetype aW1hZ2UvcG5n")
    );
    let deferred = create(&[partial, ("upload-defer-length", "1")]);
    assert_eq!(deferred.expect("it is well-formed").content_length, None);
    let empty = create(&[partial, ("upload-length", "0")]).expect("it is well-formed");
    let ends = FirstPart {
        end: End::AtLength,
        length: Some(0),
    };
    assert_eq!(empty.body, StartBody::Partial { part: Some(ends) });
    let name = "Upload-Length";
    assert_eq!(
        create(&[partial]),
        Err(ProtocolError::MissingHeader { name })
    );
    let named = patch(&[partial, ("upload-offset", "0")]);
    assert!(named.is_ok(), "clients repeat it");
}

#[test]
fn final_upload_names_its_partial_uploads() {
    let partials = |list: &str| {
        let concat = format!("final;{list}");
        create(&[("upload-concat", &concat)]).map(|head| match head.body {
            StartBody::Concatenated { partials, .. } => {
                let uris = partials.iter().map(|partial| partial.uri().to_string());
                uris.collect::<Vec<_>>().join(" ")
            }
            other => panic!("{other:?}"),
        })
    };
    for (list, read) in [
        ("/a?b=c", "/a?b=c"),
        (" /a  /a ", "/a /a"),
        (
            "http://h:1/a https://h/b?upload_id=x",
            "http://h:1/a https://h/b?upload_id=x",
        ),
    ] {
        assert_eq!(partials(list), Ok(read.to_owned()), "{list}");
    }
    let many = |count| vec!["/a"; count].join(" ");
    assert!(partials(&many(32)).is_ok());
    let uri = |position| ConcatError::Uri { position };
    for (list, error) in [
        ("", ConcatError::Empty),
        ("  ", ConcatError::Empty),
        (&*many(33), ConcatError::TooMany),
        ("a", uri(1)),
        ("/a ?b", uri(2)),
        ("/a http://", uri(2)),
        ("/a,/b \"", uri(2)),
    ] {
        assert_eq!(partials(list), Err(error.into()), "{list}");
    }
}

#[test]
fn final_upload_states_metadata_and_neither_length_nor_data() {
    let concat = ("upload-concat", "final; /a /b");
    let metadata = ("upload-metadata", "filename Y2F0,filetype aW1hZ2UvcG5n");
    let head = create(&[concat, metadata]).expect("it is well-formed");
    assert_eq!(head.content_type.as_deref(), Some("image/png"));
    assert_eq!(
        head.kept.as_deref().map(concat::read_kept),
        Some((concat.1, metadata.1))
    );
    let StartBody::Concatenated { file_name, .. } = head.body else {
        panic!("it is concatenated");
    };
    assert_eq!(file_name.as_deref(), Some("cat"));
    let data = ("content-type", PART_TYPE);
    let refused = |fields: &[(&str, &str)], error: ConcatError, status| {
        let refused = create(&[&[concat], fields].concat()).expect_err("it is refused");
        assert_eq!(refused, error.into());
        assert_eq!(Tus::default().protocol_error(&refused).status, status);
    };
    let (bad, forbidden) = (StatusCode::BAD_REQUEST, StatusCode::FORBIDDEN);
    refused(&[("upload-length", "1")], ConcatError::Length, bad);
    refused(&[("upload-defer-length", "1")], ConcatError::Length, bad);
    refused(
        &[data, ("content-length", "1")],
        ConcatError::Data,
        forbidden,
    );
    refused(
        &[data, ("transfer-encoding", "chunked")],
        ConcatError::Data,
        forbidden,
    );
    for field in [("content-length", "0"), data] {
        assert!(create(&[concat, field]).is_ok(), "{field:?}");
    }
}

#[test]
fn other_statements_of_concatenation_are_refused() {
    let length = ("upload-length", "1");
    for value in [
        "",
        "Partial",
        "partial;",
        "final",
        "partial final;/a",
        "finals;/a",
    ] {
        let refused = create(&[length, ("upload-concat", value)]);
        assert_eq!(refused, Err(invalid("Upload-Concat")), "{value}");
    }
    let twice = create(&[
        length,
        ("upload-concat", "partial"),
        ("upload-concat", "partial"),
    ]);
    assert_eq!(twice, Err(invalid("Upload-Concat")));
}

#[test]
fn query_tells_how_an_upload_was_concatenated() {
    let query = Tus { is_query: true };
    let upload_id = UploadId::from("u");
    let reply = query.reply(Outcome::Final(Final {
        status: StatusCode::CREATED,
        content_type: HeaderValue::from_static("text/plain"),
        length: 9,
        resource: None,
        upload_id: Some(&upload_id),
        location: None,
        kept: Some("final;/a /b\na YQ=="),
    }));
    assert_eq!(reply.headers["upload-concat"], "final;/a /b");
    assert_eq!(reply.headers["upload-metadata"], "a YQ==");
    let reply = query.reply(Outcome::Committed {
        status: SessionStatus {
            kept: Some("partial\n"),
            ..SessionStatus::with_offset(3)
        },
        upload_id: &upload_id,
        no_308: false,
    });
    assert_eq!(reply.headers["upload-concat"], "partial");
    assert!(!reply.headers.contains_key("upload-metadata"));
}

#[test]
fn numbers_are_stated_once() {
    let mut twice = headers(&[("tus-resumable", "1.0.0"), ("upload-length", "1")]);
    twice.append("upload-length", "2".parse().expect("it is valid"));
    let error = read_headers(&Method::POST, "", &twice).expect_err("it is refused");
    let reply = Tus::default().protocol_error(&error);
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
}

#[test]
fn errors_have_the_statuses_that_clients_know() {
    let status = |error: SessionError| Tus::default().protocol_error(&error.into()).status;
    let conflict = SessionError::Conflict {
        first: 1,
        committed: 2,
    };
    assert_eq!(status(conflict), StatusCode::CONFLICT);
    let past = SessionError::PastLength { end: 2, length: 1 };
    assert_eq!(status(past), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(status(SessionError::Cancelled), StatusCode::NOT_FOUND);
    assert_eq!(status(SessionError::Gone), StatusCode::GONE);
    let incomplete = SessionError::Incomplete { committed: 1 };
    assert_eq!(status(incomplete), StatusCode::BAD_REQUEST);
    for error in [
        SessionError::NoData,
        SessionError::NoEnd,
        SessionError::NotPartial,
    ] {
        assert_eq!(status(error), StatusCode::FORBIDDEN, "{error}");
    }
    let condition = |condition| Tus::default().condition(condition).status;
    assert_eq!(condition(Condition::SessionNotFound), StatusCode::NOT_FOUND);
    assert_eq!(condition(Condition::OtherDialect), StatusCode::FORBIDDEN);
    assert_eq!(condition(Condition::Superseded), StatusCode::CONFLICT);
}

#[test]
fn query_tells_offset_length_and_metadata() {
    let query = Tus { is_query: true };
    let upload_id = UploadId::from("u");
    let known = SessionStatus {
        length: Some(9),
        kept: Some("a YQ=="),
        ..SessionStatus::with_offset(3)
    };
    let committed = |status| {
        query.reply(Outcome::Committed {
            status,
            upload_id: &upload_id,
            no_308: false,
        })
    };
    let reply = committed(known);
    assert_eq!(reply.status, StatusCode::OK);
    assert_eq!(reply.headers["upload-offset"], "3");
    assert_eq!(reply.headers["upload-length"], "9");
    assert_eq!(reply.headers["upload-metadata"], "a YQ==");
    assert_eq!(reply.headers["cache-control"], "no-store");
    let reply = committed(SessionStatus::with_offset(3));
    assert_eq!(reply.headers["upload-defer-length"], "1");
    assert!(!reply.headers.contains_key("upload-length"));
    assert!(!reply.headers.contains_key("upload-metadata"));
}

#[test]
fn time_that_no_date_can_name_is_left_out() {
    let mut headers = HeaderMap::new();
    let at = |secs| SystemTime::UNIX_EPOCH + Duration::from_secs(secs);
    let expiry = |at| {
        Some(Expiry {
            at,
            left: Duration::ZERO,
        })
    };
    add_expiry(&mut headers, expiry(at(253_402_300_800)));
    assert!(headers.is_empty());
    add_expiry(&mut headers, expiry(at(784_111_777)));
    assert_eq!(headers["upload-expires"], "Sun, 06 Nov 1994 08:49:37 GMT");
}
