use std::io::Cursor;

use windlass_testkit::zip::{Packed, end, zip};

use super::*;

fn open(bytes: Vec<u8>) -> Result<Archive<Cursor<Vec<u8>>>, ArchiveError> {
    Archive::open(Cursor::new(bytes))
}

/// Opens the archive and unpacks all of it.
fn unpack(files: &[Packed]) -> Result<Vec<(String, Vec<u8>)>, ArchiveError> {
    let mut archive = open(zip(files))?;
    let names: Vec<_> = archive.entries().iter().map(|it| it.name.clone()).collect();
    let unpack = |(index, name)| Ok((name, archive.unpack(index, 1000)?));
    names.into_iter().enumerate().map(unpack).collect()
}

#[test]
fn unpacked_files_equal_the_packed_ones() {
    let mut stored = Packed::new("img/a.png", b"stored");
    (stored.method, stored.data) = (0, b"stored".to_vec());
    let files = [
        Packed::new("index.html", b"<html>"),
        Packed::new("img/", b""),
        stored,
        Packed::new("empty", b""),
    ];
    let expected = [
        ("index.html".to_owned(), b"<html>".to_vec()),
        ("img/a.png".to_owned(), b"stored".to_vec()),
        ("empty".to_owned(), Vec::new()),
    ];
    assert_eq!(unpack(&files).unwrap(), expected);
}

#[test]
fn of_a_long_file_only_the_beginning_is_kept_and_all_of_it_checked() {
    let mut long = Packed::new("a", &b"0123456789".repeat(1000));
    let kept = unpack(&[long.clone()]).unwrap();
    assert_eq!(kept[0].1, b"0123456789".repeat(100));
    long.crc32 ^= 1;
    let error = unpack(&[long]).unwrap_err().to_string();
    assert!(error.contains("wrong checksum"), "{error}");
}

#[test]
fn archive_with_comment_is_read() {
    let mut bytes = zip(&[Packed::new("a", b"x")]);
    let comment_length = bytes.len() - 2;
    bytes[comment_length] = 7;
    bytes.extend(b"comment");
    assert_eq!(open(bytes).unwrap().entries().len(), 1);
}

#[test]
fn names_that_leave_the_archive_are_refused() {
    let long = "n".repeat(256);
    for name in [
        "/etc/passwd",
        "../up",
        "a/../../up",
        "a/..",
        "./a",
        "a\\b",
        "C:a",
        "a\0b",
        "",
        &long,
    ] {
        let error = unpack(&[Packed::new(name, b"x")]).unwrap_err();
        assert!(
            matches!(error, ArchiveError::UnsafeName { .. }),
            "{name:?}: {error}"
        );
    }
}

#[test]
fn unsupported_entries_are_refused() {
    let plain = Packed::new("a", b"text");
    let with = |change: fn(&mut Packed)| {
        let mut changed = plain.clone();
        change(&mut changed);
        changed
    };
    let table = [
        (with(|it| it.flags = 1), "is encrypted"),
        (with(|it| it.mode = 0o120_777), "is a link"),
        (with(|it| it.method = 12), "is packed in a way"),
        (with(|it| it.crc32 = 7), "wrong checksum"),
        (with(|it| it.unpacked = 3), "not as long"),
        (with(|it| it.unpacked = 5), "not as long"),
        (with(|it| it.data = vec![0xff; 9]), "damaged"),
        (with(|it| it.data.truncate(2)), "damaged"),
    ];
    for (file, expected) in table {
        let error = unpack(&[file]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}, not {expected}");
    }
}

#[test]
fn bomb_is_refused_by_its_directory_or_while_unpacking() {
    let zeros = vec![0; 4 * 1024 * 1024];
    let bomb = Packed::new("bomb", &zeros);
    let error = unpack(std::slice::from_ref(&bomb)).unwrap_err();
    assert!(matches!(error, ArchiveError::Bomb { .. }), "{error}");
    // An entry that states a smaller size is unpacked only up to that size.
    let mut liar = bomb;
    liar.unpacked = 1000;
    let error = unpack(&[liar]).unwrap_err().to_string();
    assert!(error.contains("not as long"), "{error}");
    let mut large = Packed::new("large", b"x");
    large.data = vec![0; 1024 * 1024];
    large.unpacked = 70 * 1024 * 1024;
    let error = unpack(&[large.clone(), large]).unwrap_err();
    assert!(matches!(error, ArchiveError::TooLarge), "{error}");
}

#[test]
fn directory_length_is_checked_before_reading() {
    let many = vec![Packed::new("a", b""); usize::from(MAX_ENTRIES) + 1];
    let error = open(zip(&many)).unwrap_err();
    assert!(
        matches!(error, ArchiveError::TooManyEntries { entries: 1001 }),
        "{error}"
    );
    let table = [
        (end(65_535, 0, 0), "in parts or in the ZIP64 format"),
        (end(1, 0xffff_ffff, 0), "ZIP64"),
        (end(1, 2 * 1024 * 1024, 0), "too long"),
        (end(1, 46, 0), "no list"),
        (end(1, 46, 0xffff_0000), "no list"),
        (end(0, 0, 0)[..21].to_vec(), "no list"),
        (b"PK\x03\x04 and nothing else".to_vec(), "no list"),
        (Vec::new(), "no list"),
    ];
    for (bytes, expected) in table {
        let error = open(bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}, not {expected}");
    }
}

#[test]
fn an_archive_cut_off_anywhere_is_refused() {
    let whole = zip(&[Packed::new("index.html", b"<html>"), Packed::new("b", b"x")]);
    for length in 0..whole.len() {
        open(whole[..length].to_vec()).unwrap_err();
    }
}

/// Entries that share their bytes would make work of many times the archive.
#[test]
fn overlapping_entries_are_refused() {
    let archive = open(zip(&[Packed::new("a", b"one"), Packed::new("b", b"two")])).unwrap();
    let packed: u64 = archive.entries().iter().map(|entry| entry.packed).sum();
    check_sizes(archive.entries(), packed).unwrap();
    let error = check_sizes(archive.entries(), packed - 1).unwrap_err();
    assert!(matches!(error, ArchiveError::TooLarge), "{error}");
}
