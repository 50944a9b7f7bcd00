use std::fs;
use std::os::unix::fs::FileExt;
use std::process::Command;

use super::super::positioned::UNCACHED_READ;
use super::*;

#[tokio::test]
async fn range_of_a_file_is_read_exactly() {
    let bytes = some_media(3 * usize::try_from(UNCACHED_READ).unwrap() + 17);
    let end = bytes.len() as u64;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("media");
    fs::write(&path, &bytes).unwrap();
    let media = Source::path(&path).open().await.unwrap();
    for range in [
        0..0,
        end..end,
        0..1,
        0..end,
        end - 1..end,
        5..UNCACHED_READ,
        5..UNCACHED_READ + 5,
        UNCACHED_READ..2 * UNCACHED_READ,
        UNCACHED_READ - 1..2 * UNCACHED_READ + 1,
    ] {
        let wanted =
            &bytes[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()];
        assert!(
            read(&media, range.clone()).await.unwrap() == wanted,
            "{range:?}"
        );
    }
}

#[tokio::test]
async fn file_that_ends_early_is_an_error_and_not_a_short_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("media");
    fs::write(&path, some_media(2 << 20)).unwrap();
    let media = Source::path(&path).open().await.unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len((1 << 20) + 1).unwrap();

    let mut pieces = media.read(0..2 << 20);
    let mut came = 0;
    let error = loop {
        match pieces.try_next().await {
            Ok(piece) => came += piece.expect("the end is an error").len(),
            Err(error) => break error,
        }
    };
    assert!(came <= (1 << 20) + 1, "{came}");
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    assert!(pieces.try_next().await.unwrap().is_none());
}

#[tokio::test]
async fn path_that_cannot_be_uploaded_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let error = Source::path(directory.path()).open().await.unwrap_err();
    assert!(matches!(error, SourceError::IsDirectory { .. }), "{error}");

    let missing = directory.path().join("missing");
    let error = Source::path(&missing).open().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot open {}", missing.display())
    );
}

fn fifo_in(directory: &Path) -> PathBuf {
    let path = directory.join("fifo");
    let made = Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    path
}

#[tokio::test]
async fn fifo_is_a_stream() {
    let directory = tempfile::tempdir().unwrap();
    let path = fifo_in(directory.path());
    let bytes = some_media(300_000);
    let (other_end, sent) = (path.clone(), bytes.clone());
    let writer = std::thread::spawn(move || fs::write(other_end, sent));

    let mut media = Source::path(&path).open().await.unwrap();
    assert!(media.is_stream());
    assert_eq!(media.total(), None);
    assert!(media.collect().await.unwrap() == bytes);
    assert_eq!(media.total(), Some(300_000));
    assert_eq!(media.identity().await.unwrap(), None);
    writer.join().unwrap().unwrap();
}

#[tokio::test]
async fn identity_does_not_open_special_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = fifo_in(directory.path());
    let limit = Duration::from_secs(60);
    let looked = tokio::time::timeout(limit, SourceIdentity::of(&path)).await;
    // Unblocks an opener that waits for the FIFO's second end.
    fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let error = looked.expect("nothing is waited for").unwrap_err();
    assert!(matches!(error, SourceError::NotAFile { .. }), "{error}");

    let error = SourceIdentity::of("/dev/null").await.unwrap_err();
    assert!(matches!(error, SourceError::NotAFile { .. }), "{error}");
    let error = SourceIdentity::of(directory.path()).await.unwrap_err();
    assert!(matches!(error, SourceError::IsDirectory { .. }), "{error}");
}

#[tokio::test]
async fn identity_of_a_fifo_leaves_its_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let path = fifo_in(directory.path());
    let bytes = some_media(300_000);
    let (other_end, sent) = (path.clone(), bytes.clone());
    let writer = std::thread::spawn(move || fs::write(other_end, sent));

    SourceIdentity::of(&path).await.unwrap_err();
    let mut media = Source::path(&path).open().await.unwrap();
    assert!(media.collect().await.unwrap() == bytes);
    writer.join().unwrap().unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn file_with_content_and_reported_size_zero_is_a_stream() {
    let mut media = Source::path("/proc/version").open().await.unwrap();
    assert!(media.is_stream());
    assert_eq!(
        media.collect().await.unwrap(),
        fs::read("/proc/version").unwrap()
    );
}

type Mutation = fn(&Path);

#[tokio::test]
async fn change_of_the_open_file_or_its_name_is_detected() {
    let mutations: [(Mutation, Option<Change>); 7] = [
        (|_| {}, None),
        (
            |path| fs::write(path.with_extension("other"), "").unwrap(),
            None,
        ),
        (touch, Some(Change::Modified)),
        (
            |path| {
                let file = fs::File::options().write(true).open(path).unwrap();
                file.write_all_at(b"edited", 100).unwrap();
                touch(path);
            },
            Some(Change::Modified),
        ),
        (
            |path| fs::write(path, "cut").unwrap(),
            Some(Change::Resized { was: 1000, is: 3 }),
        ),
        (
            |path| {
                let other = path.with_extension("other");
                fs::write(&other, some_media(1000)).unwrap();
                with_time_kept(path, || fs::rename(&other, path).unwrap());
            },
            Some(Change::Replaced),
        ),
        (|path| fs::remove_file(path).unwrap(), Some(Change::Removed)),
    ];
    for (index, (mutation, expected)) in mutations.into_iter().enumerate() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("media");
        fs::write(&path, some_media(1000)).unwrap();
        let media = Source::path(&path).open().await.unwrap();
        mutation(&path);
        let found = match media.check_unchanged().await {
            Err(SourceError::Changed { change, .. }) => Some(change),
            other => {
                other.unwrap();
                None
            }
        };
        assert_eq!(found, expected, "mutation {index}");
    }
}

#[tokio::test]
async fn deleted_open_file_is_still_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("media");
    fs::write(&path, some_media(1000)).unwrap();
    let media = Source::path(&path).open().await.unwrap();
    fs::remove_file(&path).unwrap();
    assert!(read(&media, 0..1000).await.unwrap() == some_media(1000));
}
