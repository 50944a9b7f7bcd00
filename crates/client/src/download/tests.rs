//! Downloads from a server in memory.

use std::fs;
use std::thread::sleep;

use http::StatusCode;
use tempfile::TempDir;
use windlass_digest::{Crc32cHasher, Md5, Md5Sha256Hasher, Wanted};

use super::*;
use server::{Fault, Seen, Server};

mod files;
mod replies;
mod server;
mod wire;

/// Number of attempts to get a lock within a minute.
const TRIES: usize = 12_000;

/// More than is buffered before a write.
const LENGTH: usize = 2_500_000;

fn media() -> Vec<u8> {
    let bytes = (0..LENGTH).map(|n| u8::try_from(n % 251).unwrap());
    bytes.collect()
}

fn crc32c(bytes: &[u8]) -> Crc32c {
    let mut hasher = Crc32cHasher::default();
    hasher.update(bytes);
    hasher.value()
}

fn md5(bytes: &[u8]) -> Md5 {
    let mut hasher = Md5Sha256Hasher::new(Wanted {
        md5: true,
        sha256: false,
    });
    hasher.update(bytes);
    hasher.finish().0.unwrap()
}

/// The MD5 of other media.
const OTHER_MD5: &str = "AAAAAAAAAAAAAAAAAAAAAA==";

fn url() -> Url {
    "http://farm/animals/17?alt=media&key=secret"
        .parse()
        .unwrap()
}

/// A directory for downloads.
struct DownloadDir(TempDir);

impl DownloadDir {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn target(&self) -> PathBuf {
        self.0.path().join("cow.jpg")
    }

    fn part(&self) -> PathBuf {
        self.0.path().join("cow.jpg.part")
    }

    fn download(&self) -> Download {
        Download::new(url(), self.target())
    }

    /// Runs the download. A process that another test has just forked holds a copy of every open
    /// file until it executes its program, and with it the lock of a released part. So a locked
    /// part is retried.
    async fn run(&self, server: &Server) -> Result<Downloaded, DownloadError> {
        for _ in 0..TRIES {
            match self.download().run(server, None, |_| {}).await {
                Err(DownloadError::InUse { .. }) => sleep(Duration::from_millis(5)),
                ended => return ended,
            }
        }
        panic!("the part stays locked")
    }

    /// Asserts that the directory contains the media and nothing else.
    fn assert_complete(&self, media: &[u8]) {
        assert!(fs::read(self.target()).unwrap() == media, "other media");
        self.assert_names(&["cow.jpg"]);
    }

    fn assert_names(&self, expected: &[&str]) {
        let names = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, expected);
    }
}

fn no_waits() -> Schedule {
    Schedule::default().with_waits(0)
}

/// Asserts the first offsets of the requests; `None` is a request without a range.
#[track_caller]
fn assert_starts<const N: usize>(server: &Server, expected: [Option<usize>; N]) {
    let expected = expected.map(|start| start.map(|start| format!("bytes={start}-")));
    let ranges: Vec<_> = server.log().into_iter().map(|seen| seen.range).collect();
    assert_eq!(ranges, expected);
}

#[tokio::test]
async fn complete_media_is_downloaded_and_verified() {
    let media = media();
    let (crc32c, md5) = (crc32c(&media), md5(&media));
    for (header, value, verified, md5_verified) in [
        ("x-goog-hash", format!("crc32c={crc32c}"), true, false),
        (
            "x-goog-hash",
            format!("crc32c={crc32c},md5={md5}"),
            true,
            true,
        ),
        ("content-md5", md5.to_string(), false, true),
        ("x-goog-hash", "md5=malformed".to_owned(), false, false),
    ] {
        let dir = DownloadDir::new();
        let server = Server::new(media.clone()).describing(&[(header, &value)]);
        let downloaded = dir.run(&server).await.unwrap();
        let expected = Downloaded {
            size: LENGTH as u64,
            crc32c,
            verified,
            md5_verified,
        };
        assert_eq!(downloaded, expected);
        dir.assert_complete(&media);
    }
}

#[tokio::test]
async fn empty_media_creates_an_empty_file() {
    let dir = DownloadDir::new();
    assert_eq!(dir.run(&Server::new("")).await.unwrap().size, 0);
    dir.assert_complete(b"");
}

#[tokio::test(start_paused = true)]
async fn broken_download_continues_where_it_broke() {
    let dir = DownloadDir::new();
    let server = Server::new(media()).failing([
        Fault::Unreachable,
        Fault::BreaksAfter(1_200_000),
        Fault::Status(503, vec![]),
        Fault::Status(429, vec![]),
        Fault::Status(408, vec![]),
        Fault::BreaksAfter(300_000),
    ]);
    dir.run(&server).await.unwrap();
    dir.assert_complete(&media());
    let there = Some(1_200_000);
    assert_starts(
        &server,
        [None, None, there, there, there, there, Some(1_500_000)],
    );
    assert_eq!(server.log()[6].if_range.as_deref(), Some("\"v1\""));
}

#[tokio::test(start_paused = true)]
async fn attempts_that_begin_anew_are_progress_only_beyond_the_furthest() {
    let dir = DownloadDir::new();
    let breaks = [100_000, 200_000, 150_000, 160_000, 170_000].map(Fault::BreaksAfter);
    // Media that the server unpacks for the download has a weak tag and cannot be continued.
    let server = Server::new(media())
        .describing(&[("etag", "W/\"v1\"")])
        .failing(breaks.into_iter().cycle().take(20).collect::<Vec<_>>());
    let error = dir.run(&server).await.unwrap_err();
    assert!(matches!(error, DownloadError::Connection(_)), "{error:?}");
    assert_starts(&server, [None; 7]);
}

#[tokio::test(start_paused = true)]
async fn continued_attempts_are_progress_also_after_the_media_was_replaced() {
    let dir = DownloadDir::new();
    let replaced = Fault::Reply(
        200,
        [("etag", "\"v1\""), ("content-length", "2500000")]
            .map(|(name, value)| (name, value.to_owned()))
            .to_vec(),
        media()[..1000].to_vec().into(),
    );
    let small_steps = vec![Fault::BreaksAfter(70_000); 10];
    let faults = [vec![Fault::BreaksAfter(1_200_000), replaced], small_steps].concat();
    let server = Server::new(media()).failing(faults);
    dir.run(&server).await.unwrap();
    dir.assert_complete(&media());
}

#[tokio::test(start_paused = true)]
async fn attempts_that_bring_a_few_bytes_at_once_are_no_progress() {
    let dir = DownloadDir::new();
    let server = Server::new(media()).failing(vec![Fault::BreaksAfter(1000); 100]);
    dir.run(&server).await.unwrap_err();
    assert_eq!(server.log().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn attempts_with_next_to_nothing_are_no_progress() {
    let dir = DownloadDir::new();
    let server = Server::new(media()).failing(vec![Fault::DripsAfter(100); 20]);
    let error = dir.run(&server).await.unwrap_err();
    assert!(matches!(error, DownloadError::Connection(_)), "{error:?}");
    let starts = [None, Some(100), Some(200), Some(300), Some(400), Some(500)];
    assert_starts(&server, starts);
}

#[tokio::test(start_paused = true)]
async fn attempts_below_the_least_rate_are_no_progress() {
    // More than 64 KiB each, but only a minute or two later: less than 1 KiB a second.
    let dir = DownloadDir::new();
    let server = Server::new(media()).failing(vec![Fault::DripsAfter(70_000); 20]);
    let error = dir.run(&server).await.unwrap_err();
    assert!(matches!(error, DownloadError::Connection(_)), "{error:?}");
    assert_eq!(server.log().len(), 6);
    // As many bytes at once are progress.
    let dir = DownloadDir::new();
    let server = Server::new(media()).failing(vec![Fault::BreaksAfter(70_000); 20]);
    dir.run(&server).await.unwrap();
    dir.assert_complete(&media());
}

#[tokio::test]
async fn another_run_continues_the_same_media() {
    let dir = DownloadDir::new();
    let server = Server::new(media()).failing([Fault::BreaksAfter(1_200_000)]);
    let download = dir.download().schedule(no_waits());
    let error = download.run(&server, None, |_| {}).await.unwrap_err();
    assert!(matches!(error, DownloadError::Connection(_)), "{error:?}");
    dir.assert_names(&["cow.jpg.part", "cow.jpg.part.json"]);
    assert_eq!(fs::metadata(dir.part()).unwrap().len(), 1_200_000);
    let sidecar = fs::read_to_string(with_suffix(&dir.target(), ".part.json")).unwrap();
    assert!(!sidecar.contains("secret"), "{sidecar}");

    let downloaded = dir.run(&server).await.unwrap();
    assert_eq!(downloaded.crc32c, crc32c(&media()));
    assert_starts(&server, [None, Some(1_200_000)]);
    dir.assert_complete(&media());
}

#[cfg(unix)]
#[tokio::test]
async fn sidecar_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;

    let dir = DownloadDir::new();
    let server = Server::new(media()).failing([Fault::BreaksAfter(1000)]);
    let download = dir.download().schedule(no_waits());
    download.run(&server, None, |_| {}).await.unwrap_err();
    let sidecar = fs::metadata(with_suffix(&dir.target(), ".part.json")).unwrap();
    assert_eq!(sidecar.permissions().mode() & 0o777, 0o600);
}

#[tokio::test(start_paused = true)]
async fn media_without_a_strong_etag_restarts() {
    for tag in [None, Some("W/\"v1\"")] {
        let headers: Vec<_> = tag.map(|tag| ("etag", tag)).into_iter().collect();
        let dir = DownloadDir::new();
        let server = Server::new(media())
            .describing(&headers)
            .failing([Fault::BreaksAfter(1_200_000)]);
        dir.run(&server).await.unwrap();
        assert_starts(&server, [None, None]);
        dir.assert_complete(&media());
    }
}

#[tokio::test(start_paused = true)]
async fn replaced_media_restarts() {
    let dir = DownloadDir::new();
    let server = Server::new(media()).failing([Fault::BreaksAfter(1_200_000)]);
    let download = dir.download().schedule(no_waits());
    download.run(&server, None, |_| {}).await.unwrap_err();

    let other = vec![7; 2_000_000];
    for (fault, requests) in [
        // `If-Range` detects the change. So do replies from servers that ignore the range or do not
        // know `If-Range`.
        (Fault::None, 1),
        (Fault::IgnoresRange, 1),
        (
            Fault::Range("bytes 1200000-1999999/2000000".to_owned(), 800_000),
            2,
        ),
        (Fault::Range("bytes 5-9/2500000".to_owned(), 5), 2),
        (
            Fault::Status(416, vec![("content-range", "bytes */5".to_owned())]),
            2,
        ),
    ] {
        let next = DownloadDir::new();
        for name in ["cow.jpg.part", "cow.jpg.part.json"] {
            fs::copy(dir.0.path().join(name), next.0.path().join(name)).unwrap();
        }
        let server = Server::new(other.clone())
            .describing(&[("etag", "\"v2\"")])
            .failing([fault]);
        next.run(&server).await.unwrap();
        assert_eq!(server.log().len(), requests);
        assert_eq!(server.log()[0].range.as_deref(), Some("bytes=1200000-"));
        next.assert_complete(&other);
    }
}

#[tokio::test]
async fn complete_part_is_renamed_to_the_target() {
    let dir = DownloadDir::new();
    let hash = format!("crc32c={}", crc32c(&media()));
    let server = Server::new(media())
        .describing(&[("etag", "\"v1\""), ("x-goog-hash", &hash)])
        .failing([Fault::BreaksAfter(LENGTH)]);
    let download = dir.download().schedule(no_waits());
    download.run(&server, None, |_| {}).await.unwrap_err();
    let downloaded = dir.run(&server).await.unwrap();
    assert!(downloaded.verified);
    assert_starts(&server, [None, Some(LENGTH)]);
    dir.assert_complete(&media());
}

#[tokio::test(start_paused = true)]
async fn response_with_less_than_the_rest_is_continued() {
    let dir = DownloadDir::new();
    let server = Server::new(vec![7; 3000]).failing([
        Fault::BreaksAfter(1000),
        Fault::Range("bytes 1000-1499/3000".to_owned(), 500),
    ]);
    dir.run(&server).await.unwrap();
    assert_starts(&server, [None, Some(1000), Some(1500)]);
    dir.assert_complete(&[7; 3000]);
}

#[tokio::test]
async fn media_with_another_digest_is_removed() {
    let stated = Crc32c(5).to_string();
    for (hash, expected) in [
        (format!("crc32c={stated}"), None),
        (format!("crc32c={}", crc32c(&media())), Some(Crc32c(5))),
        (format!("md5={OTHER_MD5}"), Some(Crc32c(5))),
    ] {
        let dir = DownloadDir::new();
        let server = Server::new(media()).describing(&[("x-goog-hash", &hash)]);
        let mut download = dir.download();
        if let Some(expected) = expected {
            download = download.expect_crc32c(expected);
        }
        let error = download.run(&server, None, |_| {}).await.unwrap_err();
        assert!(matches!(error, DownloadError::Crc32c { expected, .. } if expected == Crc32c(5)));
        dir.assert_names(&[]);
    }
}

#[tokio::test]
async fn media_with_another_md5_is_removed() {
    let goog_hash = format!("crc32c={},md5={OTHER_MD5}", crc32c(&media()));
    for header in [("x-goog-hash", &*goog_hash), ("content-md5", OTHER_MD5)] {
        let dir = DownloadDir::new();
        let server = Server::new(media()).describing(&[header]);
        let error = dir.run(&server).await.unwrap_err();
        assert!(matches!(error, DownloadError::Md5 { .. }), "{error:?}");
        assert_eq!(crate::Error::from(error).kind(), crate::Kind::Mismatch);
        dir.assert_names(&[]);
    }
}

#[tokio::test(start_paused = true)]
async fn md5_covers_the_bytes_of_all_requests_and_runs() {
    for stated in [md5(&media()).to_string(), OTHER_MD5.to_owned()] {
        let dir = DownloadDir::new();
        let hash = format!("md5={stated}");
        let server = Server::new(media())
            .describing(&[("etag", "\"v1\""), ("x-goog-hash", &hash)])
            .failing([Fault::BreaksAfter(1_200_000)]);
        let download = dir.download().schedule(no_waits());
        download.run(&server, None, |_| {}).await.unwrap_err();
        let server = server.failing([Fault::BreaksAfter(300_000)]);
        match dir.run(&server).await {
            Ok(downloaded) => assert!(downloaded.md5_verified && stated != OTHER_MD5),
            Err(error) => {
                assert!(matches!(error, DownloadError::Md5 { .. }), "{error:?}");
                assert_eq!(stated, OTHER_MD5);
            }
        }
        assert_starts(&server, [None, Some(1_200_000), Some(1_500_000)]);
    }
}

#[tokio::test]
async fn digests_of_stored_gzip_are_ignored_for_decoded_media() {
    let dir = DownloadDir::new();
    let hash = format!("crc32c={},md5={OTHER_MD5}", Crc32c(5));
    let server = Server::new(media()).describing(&[
        ("x-goog-hash", &hash),
        ("content-md5", OTHER_MD5),
        ("x-goog-stored-content-encoding", "gzip"),
    ]);
    let downloaded = dir.run(&server).await.unwrap();
    assert!(!downloaded.verified && !downloaded.md5_verified);
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured_and_progress_is_reported() {
    let dir = DownloadDir::new();
    let after = |seconds: &str| vec![("retry-after", seconds.to_owned())];
    let server = Server::new(vec![7; 1500]).failing([Fault::Status(503, after("40"))]);
    let told = std::sync::Mutex::new(Vec::new());
    let report = |progress| told.lock().unwrap().push(progress);
    dir.download().run(&server, None, report).await.unwrap();
    let told = told.into_inner().unwrap();
    assert_eq!(told[0].waiting, Some(Duration::from_secs(40)));
    let progress = DownloadProgress {
        received: 1500,
        total: Some(1500),
        waiting: None,
        cause: None,
    };
    assert_eq!(told.last(), Some(&progress));

    let next = DownloadDir::new();
    let server = Server::new("").failing([Fault::Status(503, after("4000"))]);
    let error = next.run(&server).await.unwrap_err();
    assert_eq!(error.status(), Some(StatusCode::SERVICE_UNAVAILABLE));
}

#[tokio::test(start_paused = true)]
async fn download_without_progress_fails_and_leaves_no_files() {
    let dir = DownloadDir::new();
    let server = Server::new(media()).failing(vec![Fault::Unreachable; 10]);
    let error = dir.run(&server).await.unwrap_err();
    assert!(matches!(error, DownloadError::Connection(_)), "{error:?}");
    assert_eq!(server.log().len(), 6);
    dir.assert_names(&[]);
}

#[tokio::test]
async fn refusal_is_not_retried() {
    for status in [400, 403, 404, 410, 416] {
        let dir = DownloadDir::new();
        let server = Server::new(media()).failing([Fault::Status(status, vec![])]);
        let error = dir.run(&server).await.unwrap_err();
        assert_eq!(error.status().unwrap().as_u16(), status);
        assert_eq!(server.log().len(), 1);
        dir.assert_names(&[]);
    }
}

fn to(location: &str) -> Fault {
    Fault::Status(302, vec![("location", location.to_owned())])
}

#[tokio::test]
async fn redirections_to_another_origin_are_followed_without_the_token() {
    let dir = DownloadDir::new();
    let server = Server::new(media()).failing([to("/b"), to("https://store/c?d=e")]);
    let token = TokenSource::fixed("secret").unwrap();
    let download = dir.download();
    download.run(&server, Some(&token), |_| {}).await.unwrap();
    let bearer = Some("Bearer secret".to_owned());
    let seen = |url: &str, authorization: &Option<String>| Seen {
        url: url.to_owned(),
        authorization: authorization.clone(),
        ..Seen::default()
    };
    assert_eq!(
        server.log(),
        [
            seen(url().as_str(), &bearer),
            seen("http://farm/b", &bearer),
            seen("https://store/c?d=e", &None),
        ]
    );
}

#[tokio::test]
async fn circular_and_invalid_redirections_are_refused() {
    let circle = vec![to("/again"); 10];
    for (faults, requests) in [
        (circle, 6),
        (vec![to("https://farm/"), to("http://farm/")], 2),
        (vec![to("file:///etc/passwd")], 1),
        (vec![Fault::Status(302, vec![])], 1),
    ] {
        let dir = DownloadDir::new();
        let server = Server::new(media()).failing(faults);
        let error = dir.run(&server).await.unwrap_err();
        let expected = matches!(
            error,
            DownloadError::TooManyRedirections | DownloadError::BadRedirection
        );
        assert!(expected, "{error:?}");
        assert_eq!(server.log().len(), requests);
    }
}

#[tokio::test]
async fn refused_token_is_refreshed_once() {
    let dir = DownloadDir::new();
    let directory = tempfile::tempdir().unwrap();
    let count = directory.path().join("count");
    let count = count.display();
    let token = TokenSource::command(format!(
        "echo . >> '{count}'; echo $(($(wc -l < '{count}')))"
    ));
    let unauthorized = Fault::Status(401, vec![]);

    let server = Server::new(media()).failing([unauthorized.clone()]);
    let download = dir.download().overwrite(true);
    download.run(&server, Some(&token), |_| {}).await.unwrap();
    let tokens: Vec<_> = server
        .log()
        .into_iter()
        .filter_map(|seen| seen.authorization)
        .collect();
    assert_eq!(tokens, ["Bearer 1", "Bearer 2"]);

    let server = Server::new(media()).failing([unauthorized.clone(), unauthorized]);
    let error = download
        .run(&server, Some(&token), |_| {})
        .await
        .unwrap_err();
    assert_eq!(error.status(), Some(StatusCode::UNAUTHORIZED));
}
