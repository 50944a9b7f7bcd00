use crc_fast::CrcAlgorithm::Crc32Iscsi;
use proptest::prelude::*;
use serde_json::json;

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

#[test]
fn digests_have_their_published_values() {
    assert_eq!(crc32c(NINE), Crc32c(0xe306_9283));
    assert_eq!(crc32c(b""), Crc32c(0));
    let (md5, sha256) = slow(NINE);
    assert_eq!(md5.to_hex(), "25f9e794323b453885f5181f1b624d0b");
    assert_eq!(
        sha256.to_hex(),
        "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"
    );
}

#[test]
fn digests_round_trip_through_base64() {
    let (md5, sha256) = slow(NINE);
    assert_eq!(crc32c(NINE).to_string(), "4waSgw==");
    assert_eq!(md5.to_string(), "JfnnlDI7RTiF9RgfG2JNCw==");
    assert_eq!("4waSgw==".parse(), Ok(crc32c(NINE)));
    assert_eq!(md5.to_string().parse(), Ok(md5));
    assert_eq!(sha256.to_string().parse(), Ok(sha256));
    assert_eq!(Md5::from_hex(&md5.to_hex().to_uppercase()), Ok(md5));
    assert_eq!(Sha256::from_hex(&sha256.to_hex()), Ok(sha256));
}

#[test]
fn malformed_digest_texts_are_refused() {
    for text in [
        "",
        "AAAA",
        "AAAAAA",
        "AAAAAA=",
        "AAAAAAA=",
        "AAAAAB==",
        "!!!!!!==",
        "AAAAAA==\n",
        "ÄÄÄÄ",
    ] {
        assert_eq!(text.parse::<Crc32c>(), Err(InvalidDigest), "{text:?}");
    }
    for text in [
        "",
        "25f9",
        "25f9e794323b453885f5181f1b624d0",
        "25f9e794323b453885f5181f1b624d0g",
        "+5f9e794323b453885f5181f1b624d0b",
    ] {
        assert_eq!(Md5::from_hex(text), Err(InvalidDigest), "{text:?}");
    }
    assert_eq!(
        InvalidDigest::<4>.to_string(),
        "not a digest: 4 bytes in base64 or hexadecimal digits were expected"
    );
}

#[test]
fn digests_round_trip_through_serde() {
    let (md5, sha256) = slow(NINE);
    let all = Digests {
        crc32c: crc32c(NINE),
        md5: Some(md5),
        sha256: Some(sha256),
    };
    let text = serde_json::to_string(&all).expect("it is plain data");
    assert_eq!(
        serde_json::from_str::<Digests>(&text).expect("it was just written"),
        all
    );
    let one = Digests {
        md5: None,
        sha256: None,
        ..all
    };
    assert_eq!(
        serde_json::to_value(one).expect("it is plain data"),
        json!({"crc32c": "4waSgw=="})
    );
    assert!(serde_json::from_str::<Digests>(r#"{"crc32c":"4waSgw"}"#).is_err());
}

#[test]
fn only_wanted_digests_are_computed() {
    for (md5, sha256) in [(false, false), (true, false), (false, true)] {
        let wanted = Wanted { md5, sha256 };
        let mut hasher = Md5Sha256Hasher::restore(&Md5Sha256Hasher::new(wanted).save())
            .expect("it was just saved");
        assert_eq!(hasher.wanted(), wanted);
        hasher.update(NINE);
        let (found_md5, found_sha256) = hasher.finish();
        assert_eq!((found_md5.is_some(), found_sha256.is_some()), (md5, sha256));
    }
}

#[test]
fn damaged_state_is_not_restored() {
    let saved = Md5Sha256Hasher::new(Wanted {
        md5: true,
        sha256: true,
    })
    .save();
    for len in 0..saved.len() {
        assert!(
            matches!(Md5Sha256Hasher::restore(&saved[..len]), Err(RestoreError)),
            "{len}"
        );
    }
    let longer = [saved.as_slice(), &[0]].concat();
    assert!(Md5Sha256Hasher::restore(&longer).is_err());
    assert!(Md5Sha256Hasher::restore(&[4]).is_err());
}

/// The states before they had a version continue; those of a later format do not.
#[test]
fn state_of_another_format_is_restored_only_if_it_is_known() {
    let mut hasher = Md5Sha256Hasher::new(Wanted {
        md5: true,
        sha256: true,
    });
    hasher.update(NINE);
    let mut saved = hasher.save();
    assert_eq!(saved[0] >> 4, 1);
    saved[0] &= 0x0F;
    let earlier = Md5Sha256Hasher::restore(&saved).expect("its format is known");
    assert_eq!(earlier.finish(), hasher.finish());
    saved[0] |= 0x20;
    assert!(Md5Sha256Hasher::restore(&saved).is_err());
}

/// If a new version of `md-5` or `sha2` makes this fail, the format needs a new version.
#[test]
fn states_have_the_known_format() {
    let mut hasher = Md5Sha256Hasher::new(Wanted {
        md5: true,
        sha256: true,
    });
    hasher.update(NINE);
    let (md5, _) = slow(&hasher.save());
    assert_eq!(md5.to_hex(), "5a1b53cf6dcaed1c541a72a3bd39930f");
}

#[test]
fn check_names_the_differing_digest() {
    let (md5, sha256) = slow(NINE);
    let actual = Digests {
        crc32c: crc32c(NINE),
        md5: Some(md5),
        sha256: Some(sha256),
    };
    let all = ExpectedDigests {
        crc32c: Some(actual.crc32c),
        md5: Some(md5),
        sha256: Some(sha256),
    };
    assert_eq!(ExpectedDigests::default().check(&actual), Ok(()));
    assert_eq!(all.check(&actual), Ok(()));
    assert_eq!(
        all.wanted(),
        Wanted {
            md5: true,
            sha256: true
        }
    );
    let (other_md5, other_sha256) = slow(b"other");
    let wrong_crc32c = ExpectedDigests {
        crc32c: Some(Crc32c(0)),
        ..all
    }
    .check(&actual)
    .expect_err("it differs");
    assert_eq!(
        wrong_crc32c.to_string(),
        "Provided CRC32C \"AAAAAA==\" doesn't match calculated CRC32C \"4waSgw==\"."
    );
    let wrong_md5 = ExpectedDigests {
        md5: Some(other_md5),
        ..all
    }
    .check(&actual);
    assert_eq!(
        wrong_md5,
        Err(DigestMismatch::Md5 {
            expected: other_md5,
            actual: md5
        })
    );
    let wrong_sha256 = ExpectedDigests {
        sha256: Some(other_sha256),
        ..all
    }
    .check(&actual);
    assert_eq!(
        wrong_sha256,
        Err(DigestMismatch::Sha256 {
            expected: other_sha256,
            actual: sha256
        })
    );
}

proptest! {
    #[test]
    fn restored_hasher_continues_where_it_was_saved(
        data in proptest::collection::vec(any::<u8>(), 0..400),
        at in 0..400usize,
    ) {
        let (head, tail) = data.split_at(at.min(data.len()));
        let mut hasher = Md5Sha256Hasher::new(Wanted { md5: true, sha256: true });
        hasher.update(head);
        let mut restored = Md5Sha256Hasher::restore(&hasher.save()).expect("it was just saved");
        restored.update(tail);
        let (md5, sha256) = slow(&data);
        prop_assert_eq!(restored.finish(), (Some(md5), Some(sha256)));
    }

    #[test]
    fn crc32c_continues_combines_and_loses_a_prefix(
        data in proptest::collection::vec(any::<u8>(), 0..600),
        at in 0..600usize,
    ) {
        let (head, tail) = data.split_at(at.min(data.len()));
        let mut hasher = Crc32cHasher::continue_from(crc32c(head));
        hasher.update(tail);
        prop_assert_eq!(hasher.value(), crc32c(&data));
        let tail_len = tail.len() as u64;
        prop_assert_eq!(crc32c(head).combine(crc32c(tail), tail_len), crc32c(&data));
        prop_assert_eq!(crc32c(&data).without_prefix(crc32c(head), tail_len), crc32c(tail));
    }

    #[test]
    fn crc32c_combines_at_any_length(first: u32, next: u32, len: u64) {
        let theirs = crc_fast::checksum_combine(Crc32Iscsi, first.into(), next.into(), len);
        let ours = Crc32c(first).combine(Crc32c(next), len);
        prop_assert_eq!(u64::from(ours.0), theirs);
    }

    #[test]
    fn any_text_is_parsed_without_panic(
        text in any::<String>(),
        bytes in proptest::collection::vec(any::<u8>(), 0..256),
    ) {
        let _ = text.parse::<Crc32c>();
        let _ = Md5::from_hex(&text);
        let _ = Sha256::from_hex(&text);
        let _ = Md5Sha256Hasher::restore(&bytes);
    }
}
