use super::*;

#[test]
fn body_with_fewer_than_two_parts_is_refused() {
    refused(b"--b--", &RelatedError::TooFewParts { found: 0 });
    refused(
        b"--b\r\n\r\n{}\r\n--b--",
        &RelatedError::TooFewParts { found: 1 },
    );
}

#[test]
fn body_without_its_final_boundary_is_refused() {
    for body in [
        &b""[..],
        b"{}",
        b"--b",
        b"--b\r\n\r\n{}",
        b"--b\r\n\r\n{}\r\n--b\r\n\r\nmedia",
        b"--b\r\n\r\n{}\r\n--b\r\n\r\nmedia\r\n--b",
        b"--b\r\n\r\n{}\r\n--b\r\n\r\nmedia\r\n--b-",
        b"--b\r\n\r\n{}\r\n--b\r\n\r\nmedia--b--",
    ] {
        refused(body, &RelatedError::NoFinalBoundary);
    }
}

#[test]
fn third_part_is_refused_unless_checksums_are_accepted() {
    let body = b"--b\r\n\r\n{}\r\n--b\r\n\r\nmedia\r\n--b\r\n\r\n{}\r\n--b--";
    let boundary = boundary("multipart/related; boundary=b");
    let strict = Splitter::new(boundary, RelatedLimits::default(), ThirdPart::Refused);
    assert_eq!(split(strict, [&body[..]]), Err(RelatedError::TooManyParts));
    let four = b"--b\r\n\r\n{}\r\n--b\r\n\r\nmedia\r\n--b\r\n\r\n{}\r\n--b\r\n\r\n{}\r\n--b--";
    refused(four, &RelatedError::TooManyParts);
}

#[test]
fn malformed_part_header_is_refused() {
    refused(
        b"--b\r\nContent-Type\r\n\r\n{}\r\n--b\r\n\r\nmedia\r\n--b--",
        &RelatedError::PartHeader,
    );
    refused(
        b"--b\r\n folded: x\r\n\r\n{}\r\n--b--",
        &RelatedError::TooFewParts { found: 1 },
    );
}

#[test]
fn body_with_an_error_does_not_finish() {
    let boundary = boundary("multipart/related; boundary=b");
    let mut splitter = splitter(&boundary);
    let mut pieces = Vec::new();
    assert!(splitter.push(Bytes::from("--b--"), &mut pieces).is_err());
    assert_eq!(splitter.push(Bytes::from("--b--"), &mut pieces), Ok(()));
    assert_eq!(splitter.finish(), Err(RelatedError::NoFinalBoundary));
}

#[test]
fn everything_but_media_has_a_size_limit() {
    let limits = RelatedLimits {
        metadata: 4,
        checksums: 3,
        part_headers: 8,
        preamble: 6,
    };
    let table: [(&[u8], Result<(), RelatedError>); 7] = [
        (
            b"12345\n--b\r\n\r\n1234\r\n--b\r\n\r\nlong media\r\n--b--",
            Ok(()),
        ),
        (
            b"--b\r\nX: y\r\n\r\n{}\r\n--b\r\n\r\n\r\n--b--",
            Err(RelatedError::PartHeadersTooLarge { limit: 8 }),
        ),
        (b"--b\nX: y\n\n{}\n--b\n\n\n--b--", Ok(())),
        (
            b"123456\n--b\r\n\r\n{}",
            Err(RelatedError::PreambleTooLarge { limit: 6 }),
        ),
        (
            b"--b\r\n\r\n12345\r\n--b\r\n\r\n\r\n--b--",
            Err(RelatedError::MetadataTooLarge { limit: 4 }),
        ),
        (
            b"--b\n\n{}\n--b\nA: long header\n\n\n--b--",
            Err(RelatedError::PartHeadersTooLarge { limit: 8 }),
        ),
        (
            b"--b\n\n{}\n--b\n\n\n--b\n\n1234\n--b--",
            Err(RelatedError::MetadataTooLarge { limit: 3 }),
        ),
    ];
    for (body, expected) in table {
        for len in [1, 3, body.len()] {
            let boundary = boundary("multipart/related; boundary=b");
            let splitter = Splitter::new(boundary, limits, ThirdPart::Checksums);
            let found = split(splitter, body.chunks(len)).map(|_| ());
            assert_eq!(
                found,
                expected,
                "{} in pieces of {len}",
                body.escape_ascii()
            );
        }
    }
}
