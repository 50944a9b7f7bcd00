//! The server as an application embeds it.

#[cfg(feature = "acme")]
mod https;

use std::path::Path;
use std::process::{Command, Stdio};

use http::Request;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::mpsc;
use windlass_embed::{Builder, Error, Principal, Uploads};
use windlass_store_local::Options;
use windlass_testkit::in_process::{Body, Reply, exchange, request};

const ALBUM: &str = include_str!("../../example.toml");

/// Variable with the data directory for a second process, which runs a test of this file.
const DATA: &str = "WINDLASS_TEST_DATA";

const UPLOADS: &str = "/upload/album/v1/photos?uploadType=media";

fn directory() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("the target directory is writable")
}

fn open(data: &Path) -> Builder {
    // Whatever file system the target directory is on.
    let options = Options::default().allow_unsafe_filesystem(true);
    Uploads::open(data).store_options(options)
}

fn of(user: &str, mut request: Request<Body>) -> Request<Body> {
    request.extensions_mut().insert(Principal::new(user));
    request
}

async fn upload(uploads: &Uploads, user: &str) -> Reply {
    let request = request("POST", UPLOADS, &[("content-type", "image/jpeg")], "a cow");
    exchange(uploads.service(), of(user, request)).await
}

async fn get(uploads: &Uploads, user: &str, path: &str) -> Reply {
    exchange(uploads.service(), of(user, request("GET", path, &[], ""))).await
}

#[tokio::test]
async fn users_see_their_own_resources_only() {
    let directory = directory();
    let uploads = open(directory.path())
        .api(ALBUM)
        .mounted_at("/media")
        .require_principal()
        .start()
        .await
        .expect("it starts");
    let anonymous = request("GET", "/album/v1/photos", &[], "");
    assert_eq!(exchange(uploads.service(), anonymous).await.status, 401);
    let photo = upload(&uploads, "alice").await;
    assert_eq!(photo.status, 200, "{photo:?}");
    let link = photo.json()["selfLink"].as_str().map(str::to_owned);
    let link = link.expect("it has a link");
    assert!(link.contains("/media/album/v1/photos/"), "{link}");
    let path = link.split_once("/media").expect("it is mounted there").1;
    for (user, status, count) in [("alice", 200, 1), ("bob", 404, 0)] {
        assert_eq!(get(&uploads, user, path).await.status, status);
        let list = get(&uploads, user, "/album/v1/photos").await.json();
        assert_eq!(list["items"].as_array().map(Vec::len), Some(count));
    }
    uploads.drain().await;
}

#[tokio::test]
async fn callback_sees_an_upload_also_when_the_process_dies_before_it_has_succeeded() {
    if let Some(data) = std::env::var_os(DATA) {
        // The second process aborts as soon as it is notified of its upload.
        let uploads = open(Path::new(&data))
            .api(ALBUM)
            .on_uploaded(|_| async {
                std::process::abort();
                #[expect(unreachable_code, reason = "it tells the type")]
                Ok::<(), std::io::Error>(())
            })
            .start()
            .await
            .expect("it starts");
        upload(&uploads, "alice").await;
        return std::future::pending().await;
    }
    let directory = directory();
    let test = "callback_sees_an_upload_also_when_the_process_dies_before_it_has_succeeded";
    let died = Command::new(std::env::current_exe().expect("it runs"))
        .args(["--exact", test])
        .env(DATA, directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("the test can be started");
    assert_eq!(died.code(), None, "a signal has ended it");

    let (tell, mut told) = mpsc::unbounded_channel();
    let uploads = open(directory.path())
        .api(ALBUM)
        .on_uploaded(move |photo| {
            let told = tell.send((photo.method, photo.principal, photo.resource));
            async { told.map_err(|_| "the test has ended") }
        })
        .start()
        .await
        .expect("it starts");
    let (method, principal, photo) = told.recv().await.expect("the callback lives");
    assert_eq!(
        (&*method, principal.as_deref()),
        ("album.photos.insert", Some("alice"))
    );
    let id = photo["id"].as_str().expect("it is text");
    let path = format!("/album/v1/photos/{id}?alt=media");
    let media = get(&uploads, "alice", &path).await;
    assert_eq!(&media.body[..], b"a cow");
    uploads.drain().await;
}

#[tokio::test]
async fn host_of_the_public_url_is_known_and_in_session_uris() {
    let directory = directory();
    let uploads = open(directory.path())
        .api(ALBUM)
        .mounted_at("/media")
        .public_url("https://photos.example/media")
        .start()
        .await
        .expect("it starts");
    let start = |host| {
        let target = "/upload/album/v1/photos?uploadType=resumable";
        let headers = [("host", host), ("x-upload-content-type", "image/png")];
        request("POST", target, &headers, "")
    };
    let started = exchange(uploads.service(), start("photos.example")).await;
    assert_eq!(started.status, 200, "{started:?}");
    let location = started.headers["location"].to_str().expect("it is a URL");
    assert!(
        location.starts_with("https://photos.example/media/upload/"),
        "{location}"
    );
    let elsewhere = exchange(uploads.service(), start("evil.example")).await;
    assert_eq!(elsewhere.status, 421);
}

#[tokio::test]
async fn descriptions_are_texts_or_files_in_both_forms() {
    let directory = directory();
    let toml = directory.path().join("album.toml");
    std::fs::write(&toml, ALBUM).expect("it is writable");
    let json = json!({"name": "b", "version": "v1", "methods": {
        "ping": {"id": "b.ping", "path": "ping", "httpMethod": "GET"}
    }});
    let uploads = open(&directory.path().join("data"))
        .api(toml)
        .api(json.to_string())
        .configure(|server| server.mounted_at("/later"))
        .start()
        .await
        .expect("it starts");
    let listed = get(&uploads, "alice", "/discovery/v1/apis").await.json();
    let names = listed["items"].as_array().expect("there are some").iter();
    let names: Vec<_> = names.map(|api| api["name"].clone()).collect();
    assert_eq!(names, ["album", "b"]);
}

#[tokio::test]
async fn what_cannot_be_served_is_an_error() {
    let directory = directory();
    let data = directory.path().join("data");
    let none = open(&data)
        .api(directory.path().join("none.toml"))
        .start()
        .await;
    assert!(matches!(none, Err(Error::Unreadable { .. })), "{none:?}");
    let wrong = open(&data).api("name = 'a'").start().await;
    assert!(matches!(wrong, Err(Error::Description { .. })), "{wrong:?}");
    let twice = open(&data).api(ALBUM).api(ALBUM).start().await;
    assert!(matches!(twice, Err(Error::Conflict(_))), "{twice:?}");
    let mount = open(&data).api(ALBUM).mounted_at("media").start().await;
    assert!(matches!(mount, Err(Error::Build(_))), "{mount:?}");
    let first = open(&data).api(ALBUM).start().await.expect("it starts");
    let second = open(&data).api(ALBUM).start().await;
    assert!(matches!(second, Err(Error::Store(_))), "{second:?}");
    drop(first);
}
