use proptest::prelude::*;

use super::Requested::{NotSatisfiable, Part, Whole};
use super::*;

fn check(header: &str, length: u64, expected: &Requested) {
    let value = HeaderValue::from_str(header).unwrap();
    let requested = Requested::parse(Some(&value), length);
    assert_eq!(requested, *expected, "{header:?} of {length} bytes");
}

#[test]
fn no_range_asks_for_the_whole_media() {
    assert_eq!(Requested::parse(None, 100), Whole);
}

#[test]
fn a_range_within_the_media_is_taken_as_it_is() {
    for (header, expected) in [
        ("bytes=0-0", 0..1),
        ("bytes=0-99", 0..100),
        ("bytes=10-19", 10..20),
        ("bytes=99-99", 99..100),
        ("bytes=007-008", 7..9),
    ] {
        check(header, 100, &Part(expected));
    }
}

#[test]
fn a_range_is_cut_at_the_end_of_the_media() {
    for (header, expected) in [
        ("bytes=90-", 90..100),
        ("bytes=0-", 0..100),
        ("bytes=90-100", 90..100),
        ("bytes=90-18446744073709551615", 90..100),
        ("bytes=90-99999999999999999999999", 90..100),
    ] {
        check(header, 100, &Part(expected));
    }
}

#[test]
fn a_suffix_counts_from_the_end_and_has_at_most_the_whole_media() {
    for (header, expected) in [
        ("bytes=-1", 99..100),
        ("bytes=-100", 0..100),
        ("bytes=-101", 0..100),
        ("bytes=-99999999999999999999999", 0..100),
    ] {
        check(header, 100, &Part(expected));
    }
}

#[test]
fn a_range_without_a_byte_of_the_media_is_not_satisfiable() {
    for header in [
        "bytes=100-",
        "bytes=100-200",
        "bytes=99999999999999999999999-",
        "bytes=-0",
    ] {
        check(header, 100, &NotSatisfiable);
    }
}

#[test]
fn an_empty_media_satisfies_nothing_but_a_suffix() {
    check("bytes=0-", 0, &NotSatisfiable);
    check("bytes=0-0", 0, &NotSatisfiable);
    check("bytes=-0", 0, &NotSatisfiable);
    check("bytes=-5", 0, &Whole);
}

#[test]
fn the_unit_is_read_in_any_case_and_other_units_are_ignored() {
    check("Bytes=1-2", 100, &Part(1..3));
    check("items=1-2", 100, &Whole);
    check("=1-2", 100, &Whole);
}

#[test]
fn several_ranges_are_ignored_and_empty_list_elements_do_not_count() {
    check("bytes=0-1,2-3", 100, &Whole);
    check("bytes=0-1, 200-", 100, &Whole);
    check("bytes=, 1-2 ,", 100, &Part(1..3));
    check("bytes=,", 100, &Whole);
}

#[test]
fn a_malformed_range_is_ignored() {
    for header in [
        "",
        "bytes",
        "bytes=",
        "bytes=-",
        "bytes=5",
        "bytes=2-1",
        "bytes=a-b",
        "bytes=1-b",
        "bytes=+1-2",
        "bytes=--1",
        "bytes=1--2",
        "bytes=1 - 2",
        "bytes =1-2",
        "bytes 1-2/3",
        "bytes=0x1-2",
    ] {
        check(header, 100, &Whole);
    }
    let not_ascii = HeaderValue::from_bytes(b"bytes=1-\xff").unwrap();
    assert_eq!(Requested::parse(Some(&not_ascii), 100), Whole);
}

#[test]
fn content_range_names_the_first_and_the_last_byte() {
    assert_eq!(content_range(&(0..1), 1), "bytes 0-0/1");
    assert_eq!(content_range(&(90..100), 100), "bytes 90-99/100");
    assert_eq!(content_range(&(0..u64::MAX), u64::MAX), {
        "bytes 0-18446744073709551614/18446744073709551615"
    });
}

proptest! {
    #[test]
    fn a_part_has_bytes_and_ends_within_the_media(
        header in prop_oneof!["[ -~]{0,30}", "bytes=[0-9]{0,20}-[0-9]{0,20}"],
        length in prop_oneof![0_u64..200, any::<u64>()],
    ) {
        let value = HeaderValue::from_str(&header).unwrap();
        if let Part(bytes) = Requested::parse(Some(&value), length) {
            prop_assert!(bytes.start < bytes.end && bytes.end <= length);
        }
    }

    #[test]
    fn content_range_repeats_a_satisfiable_range(
        first: u64,
        more in 0_u64..1000,
        after in 1_u64..1000,
    ) {
        let last = first.saturating_add(more);
        let length = last.saturating_add(after);
        prop_assume!(last < length);
        let value = HeaderValue::from_str(&format!("bytes={first}-{last}")).unwrap();
        let Part(bytes) = Requested::parse(Some(&value), length) else {
            return Err(TestCaseError::fail("a range within the media is a part of it"));
        };
        prop_assert_eq!(content_range(&bytes, length), format!("bytes {first}-{last}/{length}"));
    }
}
