use proptest::prelude::*;

use super::*;

#[test]
fn range_ends_at_the_last_committed_byte() {
    let table = [
        (1, "bytes=0-0"),
        (43, "bytes=0-42"),
        (262_144, "bytes=0-262143"),
        (u64::MAX, "bytes=0-18446744073709551614"),
    ];
    for (committed, expected) in table {
        let range = CommittedRange::of(committed).expect("something is committed");
        assert_eq!(HeaderValue::from(range), expected);
        assert_eq!(range.committed(), committed);
    }
}

#[test]
fn zero_committed_bytes_have_no_range() {
    assert_eq!(CommittedRange::of(0), None);
}

#[test]
fn range_is_parsed_with_or_without_unit() {
    let table = [
        ("bytes=0-42", Some(43)),
        ("bytes 0-42", Some(43)),
        ("Bytes=0-42", Some(43)),
        ("0-42", Some(43)),
        (" 0-42 ", Some(43)),
        ("0-0", Some(1)),
        ("bytes=0-18446744073709551614", Some(u64::MAX)),
        ("bytes=0-18446744073709551615", None),
        ("bytes=0-99999999999999999999", None),
        ("bytes=1-42", None),
        ("bytes=0-", None),
        ("bytes=0--1", None),
        ("bytes=0-+1", None),
        ("bytes=0-42/100", None),
        ("bytes0-42", None),
        ("byteß=0-42", None),
        ("*", None),
        ("", None),
    ];
    for (value, committed) in table {
        assert_eq!(
            CommittedRange::parse(value.as_bytes()).map(CommittedRange::committed),
            committed,
            "{value:?}"
        );
    }
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_without_panic(value in proptest::collection::vec(any::<u8>(), 0..32)) {
        let _ = CommittedRange::parse(&value);
    }

    #[test]
    fn written_range_parses_to_itself(committed in 1..=u64::MAX) {
        let value = HeaderValue::from(CommittedRange::of(committed).expect("something is committed"));
        prop_assert_eq!(CommittedRange::parse(value.as_bytes()), CommittedRange::of(committed));
    }
}
