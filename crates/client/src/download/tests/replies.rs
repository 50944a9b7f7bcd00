//! Misleading responses.

use super::*;

/// Returns a directory with the first bytes of a JPEG.
async fn interrupted_download(media: &[u8], len: usize) -> DownloadDir {
    let dir = DownloadDir::new();
    let server = Server::new(media.to_vec())
        .describing(&[("etag", "\"v1\""), ("content-type", "image/jpeg")])
        .failing([Fault::BreaksAfter(len)]);
    let download = dir.download().schedule(no_waits());
    download.run(&server, None, |_| {}).await.unwrap_err();
    assert_eq!(fs::metadata(dir.part()).unwrap().len(), len as u64);
    dir
}

fn page(headers: &[(&'static str, &str)]) -> Fault {
    let headers = headers
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()));
    Fault::Reply(200, headers.collect(), "<html>Log in</html>".into())
}

fn other_responses() -> Vec<Fault> {
    vec![
        page(&[("content-type", "text/html")]),
        page(&[
            ("content-type", "Text/HTML; charset=utf-8"),
            ("etag", "\"page\""),
        ]),
        page(&[("content-type", "text/html"), ("content-encoding", "gzip")]),
        page(&[("content-type", "application/json")]),
        page(&[]),
    ]
}

#[tokio::test(start_paused = true)]
async fn login_page_does_not_replace_received_bytes() {
    let media = media();
    for response in other_responses() {
        let dir = interrupted_download(&media, 1_200_000).await;
        let server = Server::new(media.clone()).failing([response.clone(), response]);
        dir.run(&server).await.unwrap();
        let there = Some(1_200_000);
        assert_starts(&server, [there, there, there]);
        dir.assert_complete(&media);
    }
}

#[tokio::test(start_paused = true)]
async fn received_bytes_survive_a_persistent_login_page() {
    let media = media();
    for response in other_responses() {
        let dir = interrupted_download(&media, 1_200_000).await;
        let server = Server::new(media.clone()).failing(vec![response; 6]);
        let error = dir.run(&server).await.unwrap_err();
        assert!(matches!(&error, DownloadError::NotTheMedia { path } if *path == dir.part()));
        assert!(fs::read(dir.part()).unwrap() == media[..1_200_000]);
        dir.run(&Server::new(media.clone())).await.unwrap();
        dir.assert_complete(&media);
    }
}

#[tokio::test(start_paused = true)]
async fn received_bytes_survive_a_refused_range() {
    let media = media();
    for fault in [
        Fault::Status(416, vec![]),
        Fault::Range("bytes 5-9/2500000".to_owned(), 5),
    ] {
        let dir = interrupted_download(&media, 1_200_000).await;
        let faults = [vec![fault], vec![Fault::Unreachable; 5]].concat();
        let server = Server::new(media.clone()).failing(faults);
        dir.run(&server).await.unwrap_err();
        assert_eq!(fs::read(dir.part()).unwrap().len(), 1_200_000);
        dir.assert_names(&["cow.jpg.part", "cow.jpg.part.json"]);
    }
}

#[tokio::test]
async fn html_media_is_continued_and_replaced_like_other_media() {
    let dir = DownloadDir::new();
    let describe = |etag| [("etag", etag), ("content-type", "text/html")];
    let server = Server::new(media())
        .describing(&describe("\"v1\""))
        .failing([Fault::BreaksAfter(1000)]);
    let download = dir.download().schedule(no_waits());
    download.run(&server, None, |_| {}).await.unwrap_err();
    let server = Server::new("<html>").describing(&describe("\"v2\""));
    download.run(&server, None, |_| {}).await.unwrap();
    dir.assert_complete(b"<html>");
}

/// Returns a 206 for bytes 1000 to `last` of 3000, with a body of `len` bytes.
fn rest(last: &str, len: usize) -> Fault {
    let range = format!("bytes 1000-{last}");
    Fault::Reply(
        206,
        vec![("content-range", range), ("etag", "\"v1\"".to_owned())],
        vec![8; len].into(),
    )
}

#[tokio::test(start_paused = true)]
async fn body_longer_than_announced_is_dropped() {
    for fault in [
        rest("1499/3000", 501),
        rest("2999/3000", 3000),
        rest("2999/*", 1_500_000),
    ] {
        let media = vec![7; 3000];
        let dir = interrupted_download(&media, 1000).await;
        let server = Server::new(media.clone()).failing([fault.clone()]);
        let download = dir.download().schedule(no_waits());
        let error = download.run(&server, None, |_| {}).await.unwrap_err();
        assert!(matches!(error, DownloadError::TooLong), "{error:?}");
        assert_eq!(fs::read(dir.part()).unwrap(), media[..1000]);

        let server = server.failing([fault]);
        let downloaded = dir.run(&server).await.unwrap();
        assert_eq!(downloaded.crc32c, crc32c(&media));
        assert_starts(&server, [Some(1000), Some(1000), None]);
        dir.assert_complete(&media);
    }
}

#[tokio::test(start_paused = true)]
async fn body_shorter_than_its_range_is_continued_although_the_total_is_unknown() {
    let media = vec![8; 3000];
    let dir = DownloadDir::new();
    let server =
        Server::new(media.clone()).failing([Fault::BreaksWithoutLength(1000), rest("2999/*", 500)]);
    dir.run(&server).await.unwrap();
    assert_starts(&server, [None, Some(1000), Some(1500)]);
    dir.assert_complete(&media);
}

#[tokio::test]
async fn range_beyond_the_media_is_not_accepted() {
    let media = vec![7; 3000];
    let dir = interrupted_download(&media, 1000).await;
    let server = Server::new(media.clone()).failing([rest("3000/*", 2001)]);
    let download = dir.download().schedule(no_waits());
    let error = download.run(&server, None, |_| {}).await.unwrap_err();
    assert!(matches!(error, DownloadError::Changed), "{error:?}");
    assert_eq!(fs::read(dir.part()).unwrap(), media[..1000]);
}

#[tokio::test(start_paused = true)]
async fn media_of_another_length_than_announced_is_requested_again() {
    for length in ["2", "4"] {
        let dir = DownloadDir::new();
        let headers = vec![("content-length", length.to_owned())];
        let server = Server::new("moo").failing([Fault::Reply(200, headers, "cow".into())]);
        dir.run(&server).await.unwrap();
        dir.assert_complete(b"moo");
    }
}

#[tokio::test]
async fn encoded_media_is_refused() {
    let encoded = |status, encoding: &str| {
        let headers = [
            ("content-encoding", encoding),
            ("content-range", "bytes 1000-2999/3000"),
            ("etag", "\"v1\""),
        ];
        let headers = headers.map(|(name, value)| (name, value.to_owned()));
        Fault::Reply(status, headers.to_vec(), vec![8; 2000].into())
    };
    let media = vec![7; 3000];
    for fault in [encoded(200, "gzip"), encoded(206, "x-zstd")] {
        let dir = interrupted_download(&media, 1000).await;
        let server = Server::new(media.clone()).failing([fault]);
        let error = dir.run(&server).await.unwrap_err();
        assert!(matches!(error, DownloadError::Encoded { .. }), "{error:?}");
        assert_eq!(server.log().len(), 1);
        assert_eq!(fs::read(dir.part()).unwrap(), media[..1000]);
    }
    let dir = DownloadDir::new();
    let server = Server::new(media).failing([encoded(200, "Identity")]);
    dir.run(&server).await.unwrap();
    dir.assert_complete(&[8; 2000]);
}

#[tokio::test]
async fn media_stored_in_an_encoding_is_kept_as_stored() {
    let media = media();
    let hash = format!("crc32c={}", crc32c(&media));
    let describe = [
        ("etag", "\"v1\""),
        ("content-encoding", "gzip"),
        ("x-goog-stored-content-encoding", "GZIP"),
        ("x-goog-hash", &hash),
    ];
    let dir = DownloadDir::new();
    let server = Server::new(media.clone())
        .describing(&describe)
        .failing([Fault::BreaksAfter(1000)]);
    let download = dir.download().schedule(no_waits());
    download.run(&server, None, |_| {}).await.unwrap_err();
    assert!(dir.run(&server).await.unwrap().verified);
    assert_starts(&server, [None, Some(1000)]);
    dir.assert_complete(&media);

    let dir = DownloadDir::new();
    let server = Server::new(media).describing(&[
        ("content-encoding", "br"),
        ("x-goog-stored-content-encoding", "gzip"),
    ]);
    let error = dir.run(&server).await.unwrap_err();
    assert!(matches!(error, DownloadError::Encoded { .. }), "{error:?}");
}

#[tokio::test]
async fn reason_of_a_refusal_is_reported() {
    let json = r#"{"error":{"code":403,"message":"no","errors":[{"reason":"forbidden"}]}}"#;
    let headers = vec![("content-type", "application/json".to_owned())];
    let server = Server::new("").failing([Fault::Reply(403, headers, json.into())]);
    let error = DownloadDir::new().run(&server).await.unwrap_err();
    assert_eq!(error.reason(), Some("forbidden"));
    assert_eq!(DownloadError::Changed.reason(), None);
}

#[test]
fn debug_hides_secrets() {
    let url = "https://user:secret@farm/animals?sig=secret#secret";
    let download = Download::new(url.parse().unwrap(), "cow.jpg");
    let shown = format!("{download:?}");
    assert!(shown.contains("https://farm/animals?.."), "{shown}");
    assert!(!shown.contains("secret"), "{shown}");
}

#[tokio::test]
async fn part_of_a_server_with_huge_headers_is_recognised_later() {
    let huge = format!("\"{}\"", "e".repeat(100_000));
    let dir = DownloadDir::new();
    let server = Server::new(media())
        .describing(&[("etag", &huge), ("content-type", &huge)])
        .failing([Fault::BreaksAfter(1000)]);
    let download = dir.download().schedule(no_waits());
    download.run(&server, None, |_| {}).await.unwrap_err();
    dir.run(&server).await.unwrap();
    dir.assert_complete(&media());
}
