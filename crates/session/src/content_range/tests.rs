use ContentRangeError::{Inverted, Overflow, PastTotal, Syntax, Unit};
use proptest::prelude::*;

use super::*;

fn bounded(first: u64, last: u64, total: Option<u64>) -> ContentRange {
    ContentRange::Bounded { first, last, total }
}

fn to_end(first: u64, total: Option<u64>) -> ContentRange {
    ContentRange::ToEnd { first, total }
}

fn query(total: Option<u64>) -> ContentRange {
    ContentRange::Query { total }
}

#[track_caller]
fn check(table: &[(&str, Result<ContentRange, ContentRangeError>)]) {
    for (value, expected) in table {
        assert_eq!(
            ContentRange::parse(value.as_bytes()),
            *expected,
            "{value:?}"
        );
    }
}

#[test]
fn every_form_that_clients_send_is_parsed() {
    check(&[
        (
            "bytes 0-524287/2000000",
            Ok(bounded(0, 524_287, Some(2_000_000))),
        ),
        (
            "bytes 43-1999999/2000000",
            Ok(bounded(43, 1_999_999, Some(2_000_000))),
        ),
        ("bytes 0-262143/*", Ok(bounded(0, 262_143, None))),
        ("bytes 0-0/1", Ok(bounded(0, 0, Some(1)))),
        ("bytes 0-*/*", Ok(to_end(0, None))),
        ("bytes 262144-*/*", Ok(to_end(262_144, None))),
        ("bytes 0-*/300000", Ok(to_end(0, Some(300_000)))),
        ("bytes 300000-*/300000", Ok(to_end(300_000, Some(300_000)))),
        ("bytes */2000000", Ok(query(Some(2_000_000)))),
        ("bytes */*", Ok(query(None))),
        ("bytes */0", Ok(query(Some(0)))),
    ]);
}

#[test]
fn empty_last_chunk_is_a_query_with_its_total() {
    check(&[
        ("bytes 0--1/0", Ok(query(Some(0)))),
        ("bytes 524288-524287/524288", Ok(query(Some(524_288)))),
        ("bytes 1-0/1", Ok(query(Some(1)))),
        (
            "bytes 524288-524287/600000",
            Err(Inverted {
                first: 524_288,
                last: 524_287,
            }),
        ),
        (
            "bytes 524288-524287/*",
            Err(Inverted {
                first: 524_288,
                last: 524_287,
            }),
        ),
        ("bytes 0--1/1", Err(Syntax)),
        ("bytes 0--1/*", Err(Syntax)),
    ]);
}

#[test]
fn unit_is_mandatory_and_case_insensitive() {
    check(&[
        ("Bytes 0-1/2", Ok(bounded(0, 1, Some(2)))),
        ("BYTES   */*", Ok(query(None))),
        (" bytes 0-1/2 ", Ok(bounded(0, 1, Some(2)))),
        ("*/2000000", Err(Unit)),
        ("*/*", Err(Unit)),
        ("0-1/2", Err(Unit)),
        ("", Err(Unit)),
        ("bytes", Err(Unit)),
        ("bytes=0-1/2", Err(Unit)),
        ("bytes0-1/2", Err(Unit)),
        ("bytes\t0-1/2", Err(Unit)),
        ("bits 0-1/2", Err(Unit)),
        ("octets 0-1/2", Err(Unit)),
    ]);
}

#[test]
fn range_outside_the_grammar_is_refused() {
    check(&[
        ("bytes 0-1", Err(Syntax)),
        ("bytes /2", Err(Syntax)),
        ("bytes 0/2", Err(Syntax)),
        ("bytes -1/2", Err(Syntax)),
        ("bytes 0-/2", Err(Syntax)),
        ("bytes 0-1/", Err(Syntax)),
        ("bytes 0-1/-2", Err(Syntax)),
        ("bytes +0-1/2", Err(Syntax)),
        ("bytes 0-1/2/3", Err(Syntax)),
        ("bytes 0-1-2/3", Err(Syntax)),
        ("bytes *-1/2", Err(Syntax)),
        ("bytes 0 - 1/2", Err(Syntax)),
        ("bytes 0-1 /2", Err(Syntax)),
        ("bytes 0-1,4-5/8", Err(Syntax)),
        ("bytes 0x0-1/2", Err(Syntax)),
        ("bytes **/2", Err(Syntax)),
        ("bytes", Err(Unit)),
    ]);
}

#[test]
fn inconsistent_positions_and_total_are_refused() {
    check(&[
        ("bytes 5-4/10", Err(Inverted { first: 5, last: 4 })),
        (
            "bytes 262144-37855/300000",
            Err(Inverted {
                first: 262_144,
                last: 37_855,
            }),
        ),
        ("bytes 0-10/10", Err(PastTotal { end: 11, total: 10 })),
        ("bytes 0-0/0", Err(PastTotal { end: 1, total: 0 })),
        ("bytes 11-*/10", Err(PastTotal { end: 11, total: 10 })),
    ]);
}

#[test]
fn numbers_over_64_bits_are_refused() {
    check(&[
        (
            "bytes 0-18446744073709551614/18446744073709551615",
            Ok(bounded(0, u64::MAX - 1, Some(u64::MAX))),
        ),
        ("bytes 0-18446744073709551615/0", Err(Overflow)),
        ("bytes 0-18446744073709551615/*", Err(Overflow)),
        ("bytes 0-18446744073709551616/*", Err(Overflow)),
        ("bytes */99999999999999999999999999", Err(Overflow)),
        ("bytes */000000000000000000000000000001", Ok(query(Some(1)))),
    ]);
}

#[test]
fn every_parse_error_has_the_same_text() {
    let faults = [
        Unit,
        Syntax,
        Overflow,
        Inverted { first: 1, last: 0 },
        ContentRangeError::Repeated,
    ];
    for fault in faults {
        assert_eq!(fault.to_string(), "Failed to parse Content-Range header.");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_without_panic(value in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = ContentRange::parse(&value);
    }

    #[test]
    fn parsed_range_is_consistent(value in "bytes [0-9*-]{1,21}/[0-9*]{1,20}") {
        match ContentRange::parse(value.as_bytes()) {
            Ok(ContentRange::Bounded { first, last, total }) => {
                prop_assert!(first <= last && last < u64::MAX);
                prop_assert!(total.is_none_or(|total| last < total));
            }
            Ok(ContentRange::ToEnd { first, total }) => prop_assert!(total.is_none_or(|total| first <= total)),
            Ok(ContentRange::Query { .. }) | Err(_) => {}
        }
    }
}

#[test]
fn written_range_parses_to_itself() {
    for text in [
        "bytes 0-524287/2000000",
        "bytes 0-262143/*",
        "bytes 262144-*/*",
        "bytes 0-*/300000",
        "bytes */2000000",
        "bytes */*",
    ] {
        let range = ContentRange::parse(text.as_bytes()).expect(text);
        assert_eq!(range.to_string(), text);
    }
}
