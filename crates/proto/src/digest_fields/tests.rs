use windlass_digest::DigestMismatch;

use super::*;

const NINE: &[u8] = b"123456789";

/// The digests of [`NINE`].
const SHA_256_FIELD: &str = "sha-256=:FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=:";
const MD5_FIELD: &str = "md5=:JfnnlDI7RTiF9RgfG2JNCw==:";
const CRC32C_FIELD: &str = "crc32c=:4waSgw==:";

const PLACE: &str = "header Repr-Digest";

fn headers(name: &'static str, lines: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        let value = HeaderValue::from_bytes(line.as_bytes());
        headers.append(name, value.expect("it is the value of a header"));
    }
    headers
}

fn repr_digest(lines: &[&str]) -> Result<ExpectedDigests, ExpectedDigestsError> {
    from_repr_digest(&headers("repr-digest", lines), ContentCoding::Identity)
}

#[test]
fn stated_digests_are_those_of_the_media() {
    let digests = Digests::of(NINE);
    let all = ExpectedDigests {
        crc32c: Some(digests.crc32c),
        md5: digests.md5,
        sha256: digests.sha256,
    };
    let on_one_line = format!("{SHA_256_FIELD}, {MD5_FIELD},{CRC32C_FIELD}");
    assert_eq!(repr_digest(&[&on_one_line]), Ok(all));
    let on_several_lines = [SHA_256_FIELD, MD5_FIELD, CRC32C_FIELD];
    assert_eq!(repr_digest(&on_several_lines), Ok(all));
    let with_others = format!("sha-512=:AAAA:, {CRC32C_FIELD};a=b, unixsum=7");
    let crc32c = ExpectedDigests {
        crc32c: all.crc32c,
        ..ExpectedDigests::default()
    };
    assert_eq!(repr_digest(&[&with_others]), Ok(crc32c));
    assert_eq!(
        repr_digest(&["md5=:AAAA:", MD5_FIELD]).map(|it| it.md5),
        Ok(all.md5),
        "of equal keys the last one counts"
    );
    for nothing in [&[][..], &[""], &[" "]] {
        assert_eq!(repr_digest(nothing), Ok(ExpectedDigests::default()));
    }
    let wrong = repr_digest(&["crc32c=:AAAAAA==:"]).unwrap().check(&digests);
    assert!(matches!(wrong, Err(DigestMismatch::Crc32c { .. })));
}

#[test]
fn field_that_cannot_be_checked_is_refused() {
    let malformed = |digest| ExpectedDigestsError::Malformed {
        digest,
        place: PLACE,
    };
    let unsupported = ExpectedDigestsError::Unsupported { place: PLACE };
    for (field, error) in [
        ("sha-256", malformed(SHA_256)),
        ("sha-256=:AAAA:", malformed(SHA_256)),
        ("sha-256=\"AAAA\"", malformed(SHA_256)),
        ("md5=(:AAAA:)", malformed(MD5)),
        ("crc32c=1", malformed(CRC32C)),
        ("sha-256=:AAAA", malformed("dictionary")),
        ("SHA-256=:AAAA:", malformed("dictionary")),
        ("sha-256=:AAAA:,", malformed("dictionary")),
        ("sha-512=:AAAA:", unsupported),
        ("adler=:AAAA:, sha=:AAAA:", unsupported),
    ] {
        assert_eq!(repr_digest(&[field]), Err(error), "{field}");
    }
}

#[test]
fn digest_of_coded_bytes_is_refused() {
    let coded = from_repr_digest(
        &headers("repr-digest", &[SHA_256_FIELD]),
        ContentCoding::Gzip,
    );
    let place = PLACE;
    assert_eq!(coded, Err(ExpectedDigestsError::OfCodedBytes { place }));
    let absent = from_repr_digest(&HeaderMap::new(), ContentCoding::Gzip);
    assert_eq!(absent, Ok(ExpectedDigests::default()));
}

#[track_caller]
fn check_preference(lines: &[&str], digests: &Digests, expected: Option<&str>) {
    let preference = DigestPreference::from_headers(&headers("want-repr-digest", lines));
    let field = preference.repr_digest(digests);
    let field = field.as_ref().map(|field| field.to_str().unwrap());
    assert_eq!(field, expected, "{lines:?}");
}

#[test]
fn client_gets_the_known_digest_that_it_prefers() {
    let all = Digests::of(NINE);
    let few = Digests {
        md5: None,
        sha256: None,
        ..all
    };
    check_preference(&["sha-256=1"], &all, Some(SHA_256_FIELD));
    check_preference(&["sha-256=1, md5=2"], &all, Some(MD5_FIELD));
    check_preference(&["sha-256=1", "crc32c=10"], &all, Some(CRC32C_FIELD));
    check_preference(&["sha-256=3, md5=3, crc32c=3"], &all, Some(SHA_256_FIELD));
    check_preference(&["md5=3, crc32c=3"], &all, Some(MD5_FIELD));
    check_preference(&["sha-512=9, md5=1"], &all, Some(MD5_FIELD));
    check_preference(&["sha-256=9, crc32c=1"], &few, Some(CRC32C_FIELD));
    check_preference(&["sha-256=9, crc32c=0"], &few, None);
    check_preference(&["sha-256=9, crc32c"], &few, None);
    for ignored in [
        "",
        "sha-256=0",
        "sha-256=11",
        "sha-256=-1",
        "sha-256=1.0",
        "sha-512=1",
        "crc32c=1,",
    ] {
        check_preference(&[ignored], &all, None);
    }
    check_preference(&[], &all, None);
}
