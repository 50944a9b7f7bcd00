use super::*;

#[test]
fn simple_length_is_known_unless_the_body_is_chunked_or_coded() {
    let table: [(&[(&str, &str)], _); 6] = [
        (&[("content-length", "5")], Ok(BodyLength::Exact(5))),
        (&[("content-length", "0")], Ok(BodyLength::Exact(0))),
        (&[("transfer-encoding", "chunked")], Ok(BodyLength::Unknown)),
        (
            &[("content-length", "25"), ("content-encoding", "gzip")],
            Ok(BodyLength::Unknown),
        ),
        (
            &[("content-length", "0"), ("content-encoding", "gzip")],
            Ok(BodyLength::Exact(0)),
        ),
        (&[], Err(ProtocolError::LengthRequired)),
    ];
    for (fields, expected) in table {
        assert_eq!(
            simple(fields).map(|head| head.length),
            expected,
            "{fields:?}"
        );
    }
}

#[test]
fn content_type_of_a_simple_upload_is_the_media_type() {
    let table = [
        ("image/png", Ok(Some("image/png"))),
        (
            "text/plain; charset=utf-8",
            Ok(Some("text/plain; charset=utf-8")),
        ),
        (
            "application/vnd.api+json ;x",
            Ok(Some("application/vnd.api+json ;x")),
        ),
        ("", Ok(None)),
        ("  ", Ok(None)),
        ("image", Err(invalid("Content-Type"))),
        ("image/", Err(invalid("Content-Type"))),
        ("/png", Err(invalid("Content-Type"))),
        ("image /png", Err(invalid("Content-Type"))),
        ("image/png/x", Err(invalid("Content-Type"))),
    ];
    for (value, expected) in table {
        let found = simple(&[("content-length", "5"), ("content-type", value)])
            .map(|head| head.content_type);
        assert_eq!(
            found,
            expected.map(|text| text.map(str::to_owned)),
            "{value:?}"
        );
    }
}

#[test]
fn simple_upload_reads_digests_from_both_headers() {
    let fields = [
        ("content-length", "0"),
        ("x-goog-hash", "crc32c=AAAAAA=="),
        ("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg=="),
    ];
    let expected = simple(&fields).expect("it is a simple upload").expected;
    assert_eq!(expected.crc32c, Some(Crc32c(0)));
    assert_eq!(
        expected.md5,
        Some(Md5::from_hex("d41d8cd98f00b204e9800998ecf8427e").expect("digits"))
    );
}

#[test]
fn content_md5_of_a_coded_body_is_ignored() {
    let fields = [
        ("content-length", "20"),
        ("content-encoding", "gzip"),
        ("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg=="),
    ];
    assert_eq!(
        simple(&fields).map(|head| head.expected),
        Ok(ExpectedDigests::default())
    );
}

#[test]
fn malformed_digest_is_refused() {
    let error = simple(&[("content-length", "0"), ("x-goog-hash", "crc32c=AAAA")]);
    let malformed = ExpectedDigestsError::Malformed {
        digest: "crc32c",
        place: "header X-Goog-Hash",
    };
    assert_eq!(error, Err(malformed.into()));
}
