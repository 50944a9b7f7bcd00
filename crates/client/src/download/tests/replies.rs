//! Replies that are not what they seem.

use super::*;

/// A barn with the first bytes of a JPEG.
async fn begun(media: &[u8], len: usize) -> Barn {
    let barn = Barn::new();
    let server = Server::new(media.to_vec())
        .describing(&[("etag", "\"v1\""), ("content-type", "image/jpeg")])
        .failing([Fault::BreaksAfter(len)]);
    let download = barn.download().schedule(no_waits());
    download.run(&server, None, |_| {}).await.unwrap_err();
    assert_eq!(fs::metadata(barn.part()).unwrap().len(), len as u64);
    barn
}

fn page(headers: &[(&'static str, &str)]) -> Fault {
    let headers = headers
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()));
    Fault::Reply(200, headers.collect(), "<html>Log in</html>".into())
}

fn strangers() -> Vec<Fault> {
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
async fn a_login_page_does_not_replace_what_has_come() {
    let media = media();
    for stranger in strangers() {
        let barn = begun(&media, 1_200_000).await;
        let server = Server::new(media.clone()).failing([stranger.clone(), stranger]);
        barn.run(&server).await.unwrap();
        let there = Some(1_200_000);
        assert_starts(&server, [there, there, there]);
        barn.assert_complete(&media);
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_come_outlives_a_login_page_that_stays() {
    let media = media();
    for stranger in strangers() {
        let barn = begun(&media, 1_200_000).await;
        let server = Server::new(media.clone()).failing(vec![stranger; 6]);
        let error = barn.run(&server).await.unwrap_err();
        assert!(matches!(&error, DownloadError::NotTheMedia { path } if *path == barn.part()));
        assert!(fs::read(barn.part()).unwrap() == media[..1_200_000]);
        barn.run(&Server::new(media.clone())).await.unwrap();
        barn.assert_complete(&media);
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_come_outlives_a_range_that_is_refused() {
    let media = media();
    for fault in [
        Fault::Status(416, vec![]),
        Fault::Range("bytes 5-9/2500000".to_owned(), 5),
    ] {
        let barn = begun(&media, 1_200_000).await;
        let faults = [vec![fault], vec![Fault::Unreachable; 5]].concat();
        let server = Server::new(media.clone()).failing(faults);
        barn.run(&server).await.unwrap_err();
        assert_eq!(fs::read(barn.part()).unwrap().len(), 1_200_000);
        barn.assert_names(&["cow.jpg.part", "cow.jpg.part.json"]);
    }
}

#[tokio::test]
async fn a_page_is_gone_on_with_and_replaced_as_other_media_is() {
    let barn = Barn::new();
    let describe = |etag| [("etag", etag), ("content-type", "text/html")];
    let server = Server::new(media())
        .describing(&describe("\"v1\""))
        .failing([Fault::BreaksAfter(1000)]);
    let download = barn.download().schedule(no_waits());
    download.run(&server, None, |_| {}).await.unwrap_err();
    let server = Server::new("<html>").describing(&describe("\"v2\""));
    download.run(&server, None, |_| {}).await.unwrap();
    barn.assert_complete(b"<html>");
}

/// A 206 from 1000 to `last` of 3000 bytes, with a body of `len` bytes.
fn rest(last: &str, len: usize) -> Fault {
    let range = format!("bytes 1000-{last}");
    Fault::Reply(
        206,
        vec![("content-range", range), ("etag", "\"v1\"".to_owned())],
        vec![8; len].into(),
    )
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_longer_than_announced_is_taken_back() {
    for fault in [
        rest("1499/3000", 501),
        rest("2999/3000", 3000),
        rest("2999/*", 1_500_000),
    ] {
        let media = vec![7; 3000];
        let barn = begun(&media, 1000).await;
        let server = Server::new(media.clone()).failing([fault.clone()]);
        let download = barn.download().schedule(no_waits());
        let error = download.run(&server, None, |_| {}).await.unwrap_err();
        assert!(matches!(error, DownloadError::TooLong), "{error:?}");
        assert_eq!(fs::read(barn.part()).unwrap(), media[..1000]);

        let server = server.failing([fault]);
        let downloaded = barn.run(&server).await.unwrap();
        assert_eq!(downloaded.crc32c, crc32c(&media));
        assert_starts(&server, [Some(1000), Some(1000), None]);
        barn.assert_complete(&media);
    }
}

#[tokio::test]
async fn a_range_beyond_the_media_is_not_taken() {
    let media = vec![7; 3000];
    let barn = begun(&media, 1000).await;
    let server = Server::new(media.clone()).failing([rest("3000/*", 2001)]);
    let download = barn.download().schedule(no_waits());
    let error = download.run(&server, None, |_| {}).await.unwrap_err();
    assert!(matches!(error, DownloadError::Changed), "{error:?}");
    assert_eq!(fs::read(barn.part()).unwrap(), media[..1000]);
}

#[tokio::test(start_paused = true)]
async fn whole_media_of_another_length_than_announced_is_asked_for_again() {
    for length in ["2", "4"] {
        let barn = Barn::new();
        let headers = vec![("content-length", length.to_owned())];
        let server = Server::new("moo").failing([Fault::Reply(200, headers, "cow".into())]);
        barn.run(&server).await.unwrap();
        barn.assert_complete(b"moo");
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
        let barn = begun(&media, 1000).await;
        let server = Server::new(media.clone()).failing([fault]);
        let error = barn.run(&server).await.unwrap_err();
        assert!(matches!(error, DownloadError::Encoded { .. }), "{error:?}");
        assert_eq!(server.log().len(), 1);
        assert_eq!(fs::read(barn.part()).unwrap(), media[..1000]);
    }
    let barn = Barn::new();
    let server = Server::new(media).failing([encoded(200, "Identity")]);
    barn.run(&server).await.unwrap();
    barn.assert_complete(&[8; 2000]);
}

#[tokio::test]
async fn media_that_is_stored_in_an_encoding_is_kept_as_it_is_stored() {
    let media = media();
    let hash = format!("crc32c={}", crc32c(&media));
    let describe = [
        ("etag", "\"v1\""),
        ("content-encoding", "gzip"),
        ("x-goog-stored-content-encoding", "GZIP"),
        ("x-goog-hash", &hash),
    ];
    let barn = Barn::new();
    let server = Server::new(media.clone())
        .describing(&describe)
        .failing([Fault::BreaksAfter(1000)]);
    let download = barn.download().schedule(no_waits());
    download.run(&server, None, |_| {}).await.unwrap_err();
    assert!(barn.run(&server).await.unwrap().verified);
    assert_starts(&server, [None, Some(1000)]);
    barn.assert_complete(&media);

    let barn = Barn::new();
    let server = Server::new(media).describing(&[
        ("content-encoding", "br"),
        ("x-goog-stored-content-encoding", "gzip"),
    ]);
    let error = barn.run(&server).await.unwrap_err();
    assert!(matches!(error, DownloadError::Encoded { .. }), "{error:?}");
}

#[tokio::test]
async fn the_reason_of_a_refusal_is_told() {
    let json = r#"{"error":{"code":403,"message":"no","errors":[{"reason":"forbidden"}]}}"#;
    let headers = vec![("content-type", "application/json".to_owned())];
    let server = Server::new("").failing([Fault::Reply(403, headers, json.into())]);
    let error = Barn::new().run(&server).await.unwrap_err();
    assert_eq!(error.reason(), Some("forbidden"));
    assert_eq!(DownloadError::Changed.reason(), None);
}

#[test]
fn debug_hides_what_is_secret() {
    let url = "https://user:secret@farm/animals?sig=secret#secret";
    let download = Download::new(url.parse().unwrap(), "cow.jpg");
    let shown = format!("{download:?}");
    assert!(shown.contains("https://farm/animals?.."), "{shown}");
    assert!(!shown.contains("secret"), "{shown}");
}
