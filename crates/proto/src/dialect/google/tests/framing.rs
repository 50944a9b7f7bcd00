use super::*;

fn framing(
    version: Version,
    fields: &[(&str, &str)],
    end_of_stream: bool,
) -> Result<Framing, ProtocolError> {
    Framing::of(version, &headers(fields), end_of_stream)
}

#[test]
fn http_1_body_has_a_length_or_is_chunked_or_absent() {
    let table: [(&[(&str, &str)], _); 10] = [
        (&[("content-length", "5")], Ok(Framing::Length(5))),
        (
            &[("content-length", "5"), ("content-length", "5")],
            Ok(Framing::Length(5)),
        ),
        (&[("transfer-encoding", "Chunked")], Ok(Framing::Streamed)),
        (&[], Ok(Framing::Absent)),
        (
            &[("content-length", "5"), ("transfer-encoding", "chunked")],
            Err(ProtocolError::AmbiguousLength),
        ),
        (
            &[("content-length", "5"), ("content-length", "6")],
            Err(ProtocolError::AmbiguousLength),
        ),
        (
            &[("content-length", "-224288")],
            Err(invalid("Content-Length")),
        ),
        (&[("content-length", "")], Err(invalid("Content-Length"))),
        (
            &[("content-length", "18446744073709551616")],
            Err(invalid("Content-Length")),
        ),
        (
            &[("transfer-encoding", "gzip, chunked")],
            Err(ProtocolError::TransferEncoding),
        ),
    ];
    for (fields, expected) in table {
        assert_eq!(
            framing(Version::HTTP_11, fields, false),
            expected,
            "{fields:?}"
        );
    }
}

#[test]
fn http_2_body_needs_no_header() {
    let table: [(&[(&str, &str)], bool, _); 4] = [
        (&[("content-length", "5")], false, Framing::Length(5)),
        (&[("content-length", "0")], true, Framing::Length(0)),
        (&[], true, Framing::Length(0)),
        (&[], false, Framing::Streamed),
    ];
    for (fields, end_of_stream, expected) in table {
        assert_eq!(
            framing(Version::HTTP_2, fields, end_of_stream),
            Ok(expected),
            "{fields:?}"
        );
    }
}

#[test]
fn http_2_body_of_unknown_length_is_accepted() {
    let headers = HeaderMap::new();
    let framing = Framing::of(Version::HTTP_2, &headers, false).expect("it has framing");
    let parameters = Parameters::parse(Some("uploadType=media")).unwrap();
    let command = Google.command(&RequestHead {
        http_method: &Method::POST,
        parameters: &parameters,
        headers: &headers,
        framing,
    });
    assert!(
        matches!(&command, Ok(Command::Simple(head)) if head.length == BodyLength::Unknown),
        "{command:?}"
    );
}

#[test]
fn content_coding_is_identity_or_a_single_gzip() {
    let table: [(&[(&str, &str)], _); 8] = [
        (&[], Ok(ContentCoding::Identity)),
        (&[("content-encoding", "")], Ok(ContentCoding::Identity)),
        (
            &[("content-encoding", "identity")],
            Ok(ContentCoding::Identity),
        ),
        (&[("content-encoding", "GZIP")], Ok(ContentCoding::Gzip)),
        (
            &[("content-encoding", "x-gzip, identity")],
            Ok(ContentCoding::Gzip),
        ),
        (
            &[("content-encoding", "gzip, gzip")],
            Err(ProtocolError::ContentEncoding),
        ),
        (
            &[("content-encoding", "gzip"), ("content-encoding", "gzip")],
            Err(ProtocolError::ContentEncoding),
        ),
        (
            &[("content-encoding", "br")],
            Err(ProtocolError::ContentEncoding),
        ),
    ];
    for (fields, expected) in table {
        assert_eq!(
            ContentCoding::from_headers(&headers(fields)),
            expected,
            "{fields:?}"
        );
    }
}
