use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use windlass_digest::{Crc32cHasher, Md5Sha256Hasher, Wanted};

use super::*;

const NINE: &[u8] = b"123456789";

fn crc32c(data: &[u8]) -> Crc32c {
    let mut hasher = Crc32cHasher::default();
    hasher.update(data);
    hasher.value()
}

fn slow(data: &[u8]) -> (Md5, Sha256) {
    let mut hasher = Md5Sha256Hasher::new(Wanted {
        md5: true,
        sha256: true,
    });
    hasher.update(data);
    let (md5, sha256) = hasher.finish();
    (md5.expect("it is wanted"), sha256.expect("it is wanted"))
}

fn goog_hash(values: &[&'static str]) -> Result<ExpectedDigests, ExpectedDigestsError> {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(X_GOOG_HASH, HeaderValue::from_static(value));
    }
    from_goog_hash(&headers)
}

fn metadata(value: Value) -> Result<ExpectedDigests, ExpectedDigestsError> {
    let Value::Object(fields) = value else {
        panic!("{value} is no object")
    };
    from_metadata(&fields)
}

#[test]
fn x_goog_hash_is_a_list_in_one_or_several_headers() {
    let both = ExpectedDigests {
        crc32c: Some(crc32c(NINE)),
        md5: Some("JfnnlDI7RTiF9RgfG2JNCw==".parse().expect("a digest")),
        sha256: None,
    };
    assert_eq!(
        goog_hash(&["crc32c=4waSgw==,md5=JfnnlDI7RTiF9RgfG2JNCw=="]),
        Ok(both)
    );
    assert_eq!(
        goog_hash(&["MD5=JfnnlDI7RTiF9RgfG2JNCw==", " crc32c = 4waSgw== ,"]),
        Ok(both)
    );
    assert_eq!(
        goog_hash(&["crc32c=4waSgw==", "crc32c=4waSgw=="]).map(|digests| digests.crc32c),
        Ok(both.crc32c)
    );
    assert_eq!(
        goog_hash(&["sha1=2jmj7l5rSw0yVb"]),
        Ok(ExpectedDigests::default())
    );
    assert_eq!(goog_hash(&[]), Ok(ExpectedDigests::default()));
}

#[test]
fn malformed_and_contradicting_digests_are_refused() {
    let malformed = |digest, place| Err(ExpectedDigestsError::Malformed { digest, place });
    assert_eq!(
        goog_hash(&["crc32c"]),
        malformed("crc32c", "header X-Goog-Hash")
    );
    assert_eq!(
        goog_hash(&["md5=4waSgw=="]),
        malformed("md5", "header X-Goog-Hash")
    );
    assert_eq!(
        metadata(json!({"md5Hash": "x"})),
        malformed("md5Hash", "the metadata")
    );
    let conflict = goog_hash(&["crc32c=4waSgw==,crc32c=AAAAAA=="]);
    assert_eq!(
        conflict,
        Err(ExpectedDigestsError::Conflict { digest: "CRC32C" })
    );
    let mut headers = HeaderMap::new();
    headers.insert(
        CONTENT_MD5,
        HeaderValue::from_bytes(b"\xff").expect("a value"),
    );
    assert_eq!(
        from_content_md5(&headers),
        malformed("MD5", "header Content-MD5")
    );
}

#[test]
fn metadata_digests_are_read_in_both_notations() {
    let (md5, sha256) = slow(NINE);
    let storage = metadata(json!({"crc32c": "4waSgw==", "md5Hash": md5.to_string(), "name": "x"}));
    assert_eq!(
        storage,
        Ok(ExpectedDigests {
            crc32c: Some(crc32c(NINE)),
            md5: Some(md5),
            sha256: None
        })
    );
    let drive = metadata(json!({"md5Checksum": md5.to_hex(), "sha256Checksum": sha256.to_hex()}));
    assert_eq!(
        drive,
        Ok(ExpectedDigests {
            crc32c: None,
            md5: Some(md5),
            sha256: Some(sha256)
        })
    );
    let silent = metadata(json!({"crc32c": "", "md5Hash": null, "md5Checksum": 7}));
    assert_eq!(silent, Ok(ExpectedDigests::default()));
}
