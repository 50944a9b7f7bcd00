use super::*;

const MEDIA: Media = Media::new(3, 200_000);

#[test]
fn a_range_has_the_bytes_that_the_whole_has_there() {
    let whole = MEDIA.whole();
    for range in [
        0..0,
        0..1,
        3..5,
        7..9,
        8..16,
        5..21,
        65_535..65_537,
        199_999..200_000,
    ] {
        let place = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        assert_eq!(MEDIA.bytes(range), whole[place]);
    }
}

#[test]
fn a_reader_gives_the_bytes_of_its_range() {
    let mut read = Vec::new();
    MEDIA.reader(11..100_003).read_to_end(&mut read).unwrap();
    assert_eq!(read, MEDIA.bytes(11..100_003));
}

#[test]
fn a_comparison_sees_wrong_missing_and_surplus_bytes() {
    let good = MEDIA.whole();
    MEDIA.compare(0..MEDIA.len(), &good[..]).unwrap();
    let mut wrong = good.clone();
    wrong[123_456] ^= 1;
    let mut surplus = good.clone();
    surplus.push(0);
    let table = [
        (&wrong[..], "wrong byte at offset 123456"),
        (&good[..199_999], "ends at 199999, not at 200000"),
        (&surplus[..], "bytes behind the end at 200000"),
        (&good[8..], "wrong byte at offset 0"),
    ];
    for (download, problem) in table {
        let error = MEDIA.compare(0..MEDIA.len(), download).unwrap_err();
        assert_eq!(error.to_string(), problem);
    }
}

#[test]
fn the_digests_are_those_that_other_programs_compute() {
    let empty = Media::new(0, 0);
    assert_eq!(empty.crc32c(), "AAAAAA==");
    assert_eq!(empty.md5(), "1B2M2Y8AsgTpgAmY7PhCfg==");
    assert_eq!(
        empty.sha256(),
        "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
    );
}
