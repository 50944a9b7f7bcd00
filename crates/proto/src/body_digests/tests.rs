use http::HeaderValue;

use super::*;

const NINE: &[u8] = b"123456789";

fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
    let fields = fields.iter().map(|(name, value)| {
        let value = HeaderValue::from_str(value).expect("it is valid");
        (HeaderName::from_static(name), value)
    });
    fields.collect()
}

/// Checks nine digits, whose head has these fields.
fn check(fields: &[(&'static str, &str)]) -> Result<(), BodyDigestError> {
    let known = [DigestField::UploadChecksum, DigestField::ContentDigest];
    let digests = BodyDigests::of(&headers(fields), &known)?;
    let mut check = digests.into_check();
    let (first, rest) = NINE.split_at(4);
    check.update(first);
    check.update(rest);
    check.end(&HeaderMap::new())
}

#[test]
fn digests_by_each_algorithm_are_checked() {
    for (field, value) in [
        ("upload-checksum", "sha1 98O8HYCOBHMq32eZZczDTKeuNEE="),
        (
            "upload-checksum",
            "sha256 FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=",
        ),
        (
            "upload-checksum",
            "sha512 2eZ2LdHI6vbWGzxhkvxAjU1tXxF20MKRabwk5xw/J0rSf81YEbMT1oH35V7ALXPUmclUVba\
             1u1A6z1dPuo/+hQ==",
        ),
        ("upload-checksum", "md5 JfnnlDI7RTiF9RgfG2JNCw=="),
        ("upload-checksum", "crc32c 4waSgw=="),
        ("content-digest", "sha=:98O8HYCOBHMq32eZZczDTKeuNEE=:"),
        (
            "content-digest",
            "sha-256=:FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=:, unixsum=:AAAA:",
        ),
        (
            "content-digest",
            "crc32c=:4waSgw==:, md5=:JfnnlDI7RTiF9RgfG2JNCw==:",
        ),
    ] {
        assert_eq!(check(&[(field, value)]), Ok(()), "{value}");
        let wrong = value
            .replace("98O", "AAA")
            .replace("FeK", "AAA")
            .replace("2eZ", "AAA");
        let wrong = wrong.replace("Jfn", "AAA").replace("4wa", "AAA");
        let checked = check(&[(field, &wrong)]);
        let is_mismatch = matches!(checked, Err(BodyDigestError::Mismatch { .. }));
        assert!(is_mismatch, "{wrong}: {checked:?}");
    }
}

#[test]
fn one_wrong_digest_of_several_suffices() {
    let field = (
        "content-digest",
        "crc32c=:4waSgw==:, md5=:AAAAAAAAAAAAAAAAAAAAAA==:",
    );
    let mismatch = BodyDigestError::Mismatch {
        field: "Content-Digest",
        algorithm: Algorithm::Md5,
    };
    assert_eq!(check(&[field]), Err(mismatch));
}

#[test]
fn field_that_cannot_be_checked_is_refused() {
    for value in [
        "",
        "sha1",
        "sha1 AAAA",
        "sha1 -",
        "crc32c  ",
        "crc32c 4waSgw== x",
    ] {
        let malformed = BodyDigestError::Malformed {
            field: "Upload-Checksum",
        };
        assert_eq!(
            check(&[("upload-checksum", value)]),
            Err(malformed),
            "{value}"
        );
    }
    for (field, value) in [
        ("upload-checksum", "sha3-512 AAAA"),
        ("content-digest", "unixsum=:AAAA:"),
    ] {
        let checked = check(&[(field, value)]);
        let is_unsupported = matches!(checked, Err(BodyDigestError::Unsupported { .. }));
        assert!(is_unsupported, "{value}: {checked:?}");
    }
    for value in [
        "crc32c=1",
        "crc32c=:AAAA:",
        "crc32c=:4waSgw==:,",
        "md5=(:AAAA:)",
    ] {
        let malformed = BodyDigestError::Malformed {
            field: "Content-Digest",
        };
        assert_eq!(
            check(&[("content-digest", value)]),
            Err(malformed),
            "{value}"
        );
    }
    let coded = ("content-encoding", "gzip");
    let of_coded = BodyDigestError::OfCodedBytes {
        field: "Content-Digest",
    };
    assert_eq!(
        check(&[coded, ("content-digest", "crc32c=:4waSgw==:")]),
        Err(of_coded)
    );
    assert_eq!(
        check(&[coded, ("trailer", "content-digest")]),
        Err(of_coded)
    );
    assert_eq!(check(&[coded]), Ok(()));
}

#[test]
fn known_algorithms_are_those_that_are_named() {
    for field in [DigestField::ContentDigest, DigestField::UploadChecksum] {
        let names: Vec<_> = field.algorithms().iter().map(|(name, _)| *name).collect();
        assert_eq!(names.join(","), field.known());
    }
}

#[test]
fn field_may_follow_in_an_announced_trailer() {
    let fields = [DigestField::UploadChecksum];
    let read = |head: &[(&'static str, &str)], trailers: &[(&'static str, &str)]| {
        let mut check = BodyDigests::of(&headers(head), &fields)?.into_check();
        check.update(NINE);
        check.end(&headers(trailers))
    };
    let announced = [("trailer", "Expires, Upload-Checksum")];
    let right = [("upload-checksum", "crc32c 4waSgw==")];
    let wrong = [("upload-checksum", "sha1 AAAAAAAAAAAAAAAAAAAAAAAAAAA=")];
    assert_eq!(read(&announced, &right), Ok(()));
    let mismatch = BodyDigestError::Mismatch {
        field: "Upload-Checksum",
        algorithm: Algorithm::Sha1,
    };
    assert_eq!(read(&announced, &wrong), Err(mismatch));
    let field = "Upload-Checksum";
    assert_eq!(
        read(&announced, &[]),
        Err(BodyDigestError::Missing { field })
    );
    assert_eq!(read(&[], &wrong), Ok(()));
    // Both count.
    assert_eq!(read(&[announced[0], wrong[0]], &right), Err(mismatch));
}
