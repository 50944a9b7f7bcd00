use super::*;

#[test]
fn session_body_needs_framing_and_a_query_does_not() {
    let range = ("content-range", "bytes 0-4/5");
    let query = ("content-range", "bytes */5");
    let table: [(&[(&str, &str)], _); 8] = [
        (&[range, ("content-length", "5")], Ok(BodyLength::Exact(5))),
        (
            &[range, ("transfer-encoding", "chunked")],
            Ok(BodyLength::Unknown),
        ),
        (&[range], Err(ProtocolError::LengthRequired)),
        (&[("content-length", "0")], Ok(BodyLength::Exact(0))),
        (&[], Err(ProtocolError::LengthRequired)),
        (&[query], Ok(BodyLength::Exact(0))),
        (
            &[
                query,
                ("content-length", "20"),
                ("content-encoding", "gzip"),
            ],
            Ok(BodyLength::Unknown),
        ),
        (
            &[query, ("transfer-encoding", "chunked")],
            Ok(BodyLength::Unknown),
        ),
    ];
    for (fields, expected) in table {
        assert_eq!(
            session(fields).map(|head| head.request.body),
            expected,
            "{fields:?}"
        );
    }
}

#[test]
fn malformed_range_is_passed_to_the_session() {
    for fields in [
        &[("content-range", "*/*")][..],
        &[("content-range", "*/*"), ("content-length", "5")],
    ] {
        let range = session(fields).map(|head| head.request.action);
        assert_eq!(
            range,
            Ok(SessionAction::Ranged(Err(ContentRangeError::Unit))),
            "{fields:?}"
        );
    }
}

#[test]
fn repeated_content_range_is_malformed() {
    let fields = [
        ("content-range", "bytes */*"),
        ("content-range", "bytes */*"),
    ];
    let range = session(&fields).map(|head| head.request.action);
    assert_eq!(
        range,
        Ok(SessionAction::Ranged(Err(ContentRangeError::Repeated)))
    );
}

#[test]
fn no_308_header_is_read() {
    let table = [
        ("yes", true),
        ("YES", true),
        ("true", true),
        ("1", true),
        ("no", false),
        ("", false),
    ];
    for (value, expected) in table {
        let head = session(&[("content-length", "0"), ("X-Guploader-No-308", value)]);
        assert_eq!(head.map(|head| head.no_308), Ok(expected), "{value:?}");
    }
    assert_eq!(
        session(&[("content-length", "0")]).map(|head| head.no_308),
        Ok(false)
    );
}

#[test]
fn only_x_goog_hash_covers_the_media_of_a_session() {
    let fields = [
        ("content-length", "0"),
        ("x-goog-hash", "crc32c=AAAAAA=="),
        ("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg=="),
    ];
    let expected = session(&fields).expect("it is for a session").expected;
    assert_eq!((expected.crc32c, expected.md5), (Some(Crc32c(0)), None));
}

#[test]
fn upload_id_is_hidden_in_debug_output() {
    let head = read(&Method::PUT, "upload_id=s3cret", &[("content-length", "0")])
        .expect("it is for a session");
    let cancel = read(&Method::DELETE, "upload_id=s3cret", &[]).expect("it cancels");
    assert!(!format!("{head:?} {cancel:?}").contains("s3cret"));
}
