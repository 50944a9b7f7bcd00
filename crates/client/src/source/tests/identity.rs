use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::*;

/// More than both ends together.
const LEN: usize = 200_000;

fn edit(path: &Path, at: u64) {
    let file = fs::File::options().write(true).open(path).unwrap();
    with_time_kept(path, || file.write_all_at(b"edited", at).unwrap());
}

/// Replaces a file by another one with the same modification time.
fn replace(path: &Path, bytes: &[u8]) {
    let other = path.with_extension("other");
    fs::write(&other, bytes).unwrap();
    with_time_kept(path, || fs::rename(&other, path).unwrap());
}

type Mutation = fn(&Path);

#[tokio::test]
async fn file_with_another_size_time_or_ends_has_changed() {
    let mutations: [(&str, Mutation, Option<Change>); 9] = [
        ("nothing", |_| {}, None),
        ("touch", touch, Some(Change::Modified)),
        (
            "cut",
            |path| with_time_kept(path, || fs::write(path, "cut").unwrap()),
            Some(Change::Resized {
                was: LEN as u64,
                is: 3,
            }),
        ),
        (
            "edit the head",
            |path| edit(path, 1000),
            Some(Change::Content),
        ),
        (
            "edit the tail",
            |path| edit(path, LEN as u64 - 1000),
            Some(Change::Content),
        ),
        // Not detected, because only the ends are read.
        ("edit the middle", |path| edit(path, LEN as u64 / 2), None),
        (
            "put a copy in place that kept its time",
            |path| replace(path, &some_media(LEN)),
            None,
        ),
        (
            "put another file in place",
            |path| replace(path, &some_media(LEN + 1)[1..]),
            Some(Change::Replaced),
        ),
        (
            "put a longer file in place",
            |path| replace(path, &some_media(LEN + 1)),
            Some(Change::Replaced),
        ),
    ];
    for (name, mutation, expected) in mutations {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("media");
        fs::write(&path, some_media(LEN)).unwrap();
        let before = SourceIdentity::of(&path).await.unwrap();
        mutation(&path);
        let now = SourceIdentity::of(&path).await.unwrap();
        assert_eq!(before.difference(&now), expected, "{name}");
    }
}

#[tokio::test]
async fn renumbered_device_is_not_a_change() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("media");
    fs::write(&path, some_media(LEN)).unwrap();
    let before = SourceIdentity::of(&path).await.unwrap();
    let mut written = serde_json::to_value(&before).unwrap();
    written["file"]["device"] = 1_234_567.into();
    let now: SourceIdentity = serde_json::from_value(written).unwrap();
    assert_ne!(before, now);
    assert_eq!(before.difference(&now), None);
}

#[tokio::test]
async fn moved_file_is_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let [path, moved] = ["media", "moved"].map(|name| directory.path().join(name));
    fs::write(&path, some_media(LEN)).unwrap();
    let before = SourceIdentity::of(&path).await.unwrap();
    fs::rename(&path, &moved).unwrap();
    let now = SourceIdentity::of(&moved).await.unwrap();
    assert_eq!(before.difference(&now), None);
}

#[tokio::test]
async fn link_has_the_identity_of_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let [path, link] = ["media", "link"].map(|name| directory.path().join(name));
    fs::write(&path, some_media(10)).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let [direct, linked] = [
        SourceIdentity::of(&path).await.unwrap(),
        SourceIdentity::of(&link).await.unwrap(),
    ];
    assert_eq!(direct, linked);
    assert_eq!(direct.path(), path.canonicalize().unwrap());
    assert_eq!(direct.size(), 10);
    let modified = path.metadata().unwrap().modified().unwrap();
    assert_eq!(direct.modified(), modified);
}

#[tokio::test]
async fn identity_round_trips_through_serde() {
    let directory = tempfile::tempdir().unwrap();
    for name in [
        &b"plain"[..],
        "Lämä 🦙".as_bytes(),
        b"not \xff\xfe utf-8 \xc3",
    ] {
        let path = directory.path().join(OsStr::from_bytes(name));
        fs::write(&path, some_media(LEN)).unwrap();
        for modified in [
            SystemTime::UNIX_EPOCH - Duration::from_millis(1500),
            SystemTime::UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789),
        ] {
            set_modified(&path, modified);
            let identity = SourceIdentity::of(&path).await.unwrap();
            let written = serde_json::to_string(&identity).unwrap();
            let read: SourceIdentity = serde_json::from_str(&written).unwrap();
            assert_eq!(read, identity);
            assert_eq!(read.path(), path);
            assert_eq!(read.modified(), modified);
        }
    }
}

#[tokio::test]
async fn opened_media_and_its_path_have_the_same_identity() {
    let directory = tempfile::tempdir().unwrap();
    for len in [0, 1, 65_536, 65_537, 131_072, LEN] {
        let path = directory.path().join("media");
        fs::write(&path, some_media(len)).unwrap();
        let media = Source::path(&path).open().await.unwrap();
        let identity = SourceIdentity::of(&path).await.unwrap();
        assert_eq!(media.identity().await.unwrap(), Some(identity));
    }
}

#[test]
fn change_text_completes_the_sentence() {
    for (change, sentence) in [
        (Change::Removed, "it is gone"),
        (Change::Replaced, "another file is in its place"),
        (
            Change::Resized { was: 10, is: 7 },
            "it had 10 bytes and has 7 now",
        ),
        (Change::Modified, "it was written to"),
        (Change::Content, "its first or last bytes are different"),
    ] {
        let path = PathBuf::from("llama.jpg");
        assert_eq!(
            SourceError::Changed { path, change }.to_string(),
            format!("llama.jpg has changed since the upload began: {sentence}")
        );
    }
}
