use super::*;

fn multipart(fields: &[(&str, &str)]) -> Result<Command, ProtocolError> {
    read(&Method::POST, "uploadType=multipart", fields)
}

#[test]
fn multipart_boundary_comes_from_the_content_type() {
    let fields = [
        ("content-length", "99"),
        ("content-type", "multipart/related;boundary=b"),
    ];
    let command = multipart(&fields);
    let boundary =
        Boundary::from_content_type(b"multipart/related; boundary=b").expect("it is one");
    let (length, expected) = (BodyLength::Exact(99), ExpectedDigests::default());
    assert_eq!(
        command,
        Ok(Command::Multipart(MultipartHead {
            boundary,
            length,
            expected
        }))
    );
}

#[test]
fn multipart_upload_with_another_content_type_is_refused() {
    for fields in [
        &[("content-length", "99")][..],
        &[("content-length", "99"), ("content-type", "image/png")],
    ] {
        assert_eq!(
            multipart(fields),
            Err(RelatedError::NotRelated.into()),
            "{fields:?}"
        );
    }
}

#[test]
fn content_md5_of_a_multipart_document_is_ignored() {
    let fields = [
        ("content-length", "99"),
        ("content-type", "multipart/related; boundary=b"),
        ("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg=="),
    ];
    let command = multipart(&fields);
    assert!(
        matches!(&command, Ok(Command::Multipart(head)) if head.expected.md5.is_none()),
        "{command:?}"
    );
}

#[test]
fn multipart_upload_without_a_body_is_refused() {
    let fields = [("content-type", "multipart/related; boundary=b")];
    assert_eq!(multipart(&fields), Err(ProtocolError::LengthRequired));
}
