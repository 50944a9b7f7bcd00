use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(text: &str, bytes: u64) {
    assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text:?}");
}

#[track_caller]
fn check_refused(text: &str, expected: ByteSizeError) {
    assert_eq!(text.parse::<ByteSize>(), Err(expected), "{text:?}");
}

fn unknown(unit: &str) -> ByteSizeError {
    ByteSizeError::UnknownUnit {
        unit: unit.to_owned(),
    }
}

#[test]
fn plain_digits_are_bytes() {
    check("0", 0);
    check("15728640", 15_728_640);
    check("5497558138880", 5_497_558_138_880);
    check("18446744073709551615", u64::MAX);
}

#[test]
fn units_are_powers_of_1024_in_any_spelling() {
    check("7B", 7);
    check("1KB", 1024);
    check("35MB", 36_700_160);
    check("1GB", 1_073_741_824);
    check("5120GB", 5_497_558_138_880);
    check("2TB", 2_199_023_255_552);
    check("1kb", 1024);
    check("1KiB", 1024);
    check("3gib", 3 << 30);
    check(" 10 MB ", 10 << 20);
}

#[test]
fn anything_else_is_refused_with_its_reason() {
    check_refused("", ByteSizeError::NoNumber);
    check_refused("GB", ByteSizeError::NoNumber);
    check_refused("-1", ByteSizeError::NoNumber);
    check_refused("1.5GB", unknown(".5GB"));
    check_refused("5XB", unknown("XB"));
    check_refused("5iB", unknown("iB"));
    check_refused("5 MB per day", unknown("MB per day"));
    check_refused("18446744073709551616", ByteSizeError::TooLarge);
    check_refused("16777216TB", ByteSizeError::TooLarge);
}

#[test]
fn size_is_written_in_the_largest_exact_unit() {
    for (bytes, written) in [
        (0, "0B"),
        (1000, "1000B"),
        (1024, "1KB"),
        (15_728_640, "15MB"),
        (5_497_558_138_880, "5TB"),
    ] {
        assert_eq!(ByteSize::from_bytes(bytes).to_string(), written);
    }
}

#[test]
fn serde_reads_text_and_numbers_and_writes_text() {
    let read = |json: &str| {
        serde_json::from_str::<ByteSize>(json)
            .ok()
            .map(ByteSize::bytes)
    };
    assert_eq!(read("\"1GB\""), Some(1 << 30));
    assert_eq!(read("1024"), Some(1024));
    assert_eq!(read("-1"), None);
    assert_eq!(read("1.5"), None);
    assert_eq!(read("true"), None);
    let written = serde_json::to_string(&ByteSize::from_bytes(1 << 30)).unwrap();
    assert_eq!(written, "\"1GB\"");
}

proptest! {
    #[test]
    fn what_is_written_reads_back(bytes: u64) {
        let size = ByteSize::from_bytes(bytes);
        prop_assert_eq!(size.to_string().parse(), Ok(size));
        prop_assert_eq!(bytes.to_string().parse(), Ok(size));
    }

    #[test]
    fn no_text_makes_it_panic(text: String) {
        let _ = text.parse::<ByteSize>();
    }
}
