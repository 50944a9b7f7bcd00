use std::path::Path;

use super::*;

const ROUNDS: u64 = 200;

/// A disk with `a/b`, all of it synced, that holds `old`.
fn with_file() -> (Disk, Inode) {
    let mut disk = Disk::new();
    let directory = disk.make_directory(Path::new("a")).unwrap();
    let file = disk.create(Path::new("a/b")).unwrap();
    disk.write(file, 0, b"old".to_vec());
    for inode in [file, directory, ROOT] {
        disk.sync(inode);
    }
    (disk, file)
}

fn content(disk: &Disk, path: &str) -> Option<Vec<u8>> {
    let inode = disk.find(Path::new(path))?;
    disk.cached(inode).map(<[u8]>::to_vec)
}

/// Everything that a file may be after a power cut.
fn possible(disk: &Disk, path: &str, keeps: Keeps) -> BTreeMap<Option<Vec<u8>>, u64> {
    let mut rng = Rng::for_purpose(1, 1);
    let mut seen = BTreeMap::new();
    for _ in 0..ROUNDS {
        let left = disk.after_power_cut(keeps, &mut rng);
        *seen.entry(content(&left, path)).or_insert(0) += 1;
    }
    seen
}

#[test]
fn what_was_synced_survives_whatever_the_rest_does() {
    let (disk, _) = with_file();
    for keeps in Keeps::ALL {
        let seen = possible(&disk, "a/b", keeps);
        assert_eq!(
            seen.into_keys().collect::<Vec<_>>(),
            [Some(b"old".to_vec())]
        );
    }
}

#[test]
fn a_write_without_a_sync_is_seen_and_may_be_lost() {
    let (mut disk, file) = with_file();
    disk.write(file, 1, b"new".to_vec());
    assert_eq!(content(&disk, "a/b").unwrap(), b"onew");
    assert_eq!(possible(&disk, "a/b", Keeps::Nothing).len(), 1);
    assert!(possible(&disk, "a/b", Keeps::Nothing).contains_key(&Some(b"old".to_vec())));
    assert!(possible(&disk, "a/b", Keeps::Everything).contains_key(&Some(b"onew".to_vec())));
    assert_eq!(possible(&disk, "a/b", Keeps::Some).len(), 2);
}

#[test]
fn a_later_write_may_survive_an_earlier_one_but_not_among_prefixes() {
    let (mut disk, file) = with_file();
    disk.write(file, 0, b"1".to_vec());
    disk.write(file, 1, b"2".to_vec());
    let later_alone = Some(b"o2d".to_vec());
    assert!(possible(&disk, "a/b", Keeps::Some).contains_key(&later_alone));
    assert!(!possible(&disk, "a/b", Keeps::Prefixes).contains_key(&later_alone));
}

#[test]
fn a_write_is_torn_at_sectors_only() {
    let (mut disk, file) = with_file();
    disk.write(file, SECTOR - 1, vec![7; SECTOR]);
    for left in possible(&disk, "a/b", Keeps::Sectors).into_keys().flatten() {
        let mut second = left.iter().skip(SECTOR);
        assert!(
            second.all(|byte| *byte == 7),
            "its second part came whole or not at all"
        );
    }
    assert_eq!(possible(&disk, "a/b", Keeps::Sectors).len(), 4);
}

#[test]
fn a_name_is_durable_when_its_directory_was_synced_not_its_file() {
    let (mut disk, _) = with_file();
    let file = disk.create(Path::new("a/c")).unwrap();
    disk.sync(file);
    assert!(possible(&disk, "a/c", Keeps::Nothing).contains_key(&None));
    disk.sync(disk.find(Path::new("a")).unwrap());
    assert!(possible(&disk, "a/c", Keeps::Nothing).contains_key(&Some(Vec::new())));
}

#[test]
fn a_removed_name_may_come_back() {
    let (mut disk, _) = with_file();
    disk.unlink(Path::new("a/b")).unwrap();
    assert_eq!(content(&disk, "a/b"), None);
    assert_eq!(possible(&disk, "a/b", Keeps::Some).len(), 2);
}

#[test]
fn after_a_failed_sync_the_bytes_are_seen_and_no_later_sync_saves_them() {
    let (mut disk, file) = with_file();
    disk.write(file, 0, b"new".to_vec());
    disk.fail_sync(file);
    disk.sync(file);
    assert_eq!(content(&disk, "a/b").unwrap(), b"new");
    assert!(possible(&disk, "a/b", Keeps::Everything).contains_key(&Some(b"old".to_vec())));
    disk.write(file, 0, b"new".to_vec());
    disk.sync(file);
    assert!(possible(&disk, "a/b", Keeps::Nothing).contains_key(&Some(b"new".to_vec())));
}
