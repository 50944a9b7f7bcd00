//! Properties of media of every kind.

use std::io::Cursor;

use super::*;

fn every_kind(directory: &Path, bytes: &[u8]) -> [Source; 4] {
    let path = directory.join("media");
    std::fs::write(&path, bytes).unwrap();
    let reader = || Source::reader(Cursor::new(bytes.to_vec()));
    [
        Source::path(path),
        Source::bytes(bytes.to_vec()),
        reader(),
        reader().spilled_to(directory),
    ]
}

#[tokio::test]
async fn all_bytes_are_read_from_any_kind_of_source() {
    let directory = tempfile::tempdir().unwrap();
    for len in [0, 1, 511, 512, 513, 400_000] {
        let bytes = some_media(len);
        for source in every_kind(directory.path(), &bytes) {
            let mut media = source.open().await.unwrap();
            assert!(media.collect().await.unwrap() == bytes);
            assert_eq!(media.total(), Some(len as u64), "{media:?}");
        }
    }
}

#[tokio::test]
async fn read_past_the_end_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    for source in every_kind(directory.path(), &some_media(1000)) {
        let mut media = source.open().await.unwrap();
        media.fill(u64::MAX).await.unwrap();
        for range in [0..1001, 1000..1001, 5000..6000, 0..u64::from(u32::MAX)] {
            let error = read(&media, range).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{media:?}");
        }
        assert_eq!(read(&media, 1000..1000).await.unwrap(), b"");
    }
}

#[tokio::test]
async fn length_that_disagrees_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    for (stated, wrong, text) in [
        (1000, false, ""),
        (
            1001,
            true,
            "the stated length of the media is 1001 bytes, but it ended after 1000",
        ),
        (
            999,
            true,
            "the stated length of the media is 999 bytes, but it continues",
        ),
        (
            0,
            true,
            "the stated length of the media is 0 bytes, but it continues",
        ),
    ] {
        for source in every_kind(directory.path(), &some_media(1000)) {
            let result = match source.with_length(stated).open().await {
                Ok(mut media) => media.collect().await.map(drop),
                Err(error) => Err(error),
            };
            assert_eq!(result.is_err(), wrong, "{stated}");
            if let Err(error) = result {
                assert_eq!(error.to_string(), text);
            }
        }
    }
}

#[tokio::test]
async fn only_released_bytes_of_a_window_cannot_be_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = some_media(1000);
    for (index, source) in every_kind(directory.path(), &bytes).into_iter().enumerate() {
        let mut media = source.open().await.unwrap();
        media.fill(1000).await.unwrap();
        media.release(600);
        let again = read(&media, 0..1000).await;
        if index == 2 {
            assert_eq!(media.window(), Some(DEFAULT_WINDOW));
            assert_eq!(
                again.unwrap_err().to_string(),
                "the media is needed again from byte 0, but it is buffered only from byte 600"
            );
            let error = media.collect().await.unwrap_err();
            assert!(
                matches!(error, SourceError::NoLongerBuffered { .. }),
                "{error}"
            );
        } else {
            assert_eq!(media.window(), None);
            assert_eq!(again.unwrap(), bytes);
        }
        assert_eq!(read(&media, 600..1000).await.unwrap(), bytes[600..]);
    }
}

#[test]
fn media_is_send_and_sync() {
    fn is_sync<T: Send + Sync>() {}
    is_sync::<Media>();
}
