//! The API of files, by its own calls and by those of tus.

use std::collections::BTreeSet;

use serde_json::Value;
use tempfile::TempDir;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{RawPeer, Reply, Request, exchange};
use windlass_testkit::session::target_in;

use crate::server::{own, scratch};

fn server() -> ServerProcess {
    own(&["--api", "files"])
}

fn upload(server: &ServerProcess, media: &str) -> Reply {
    let request = Request::new("POST", "/upload/files?uploadType=media")
        .header("Content-Type", "text/plain")
        .body(media);
    exchange(server.address(), &request).expect(200)
}

fn get(server: &ServerProcess, target: &str) -> Reply {
    exchange(server.address(), &Request::new("GET", target))
}

#[test]
fn list_shows_every_file_once_page_by_page() {
    let server = server();
    let stored: BTreeSet<_> = (0..5)
        .map(|number| upload(&server, &number.to_string()).field("id").to_string())
        .collect();
    let mut listed = BTreeSet::new();
    let mut query = "maxResults=2".to_owned();
    loop {
        let page = get(&server, &format!("/files?{query}")).expect(200);
        let files = page.field("items");
        let files = files.as_array().expect("an array of files");
        assert!(files.len() <= 2);
        for file in files {
            assert!(listed.insert(file["id"].to_string()));
        }
        let Value::String(token) = page.field("nextPageToken") else {
            break;
        };
        query = format!("maxResults=2&pageToken={token}");
    }
    assert_eq!(listed, stored);
}

#[test]
fn client_of_tus_creates_at_the_plain_path() {
    let server = server();
    let version = |request: Request| request.header("Tus-Resumable", "1.0.0");
    // `a.txt`, `text/plain`
    let creation = version(Request::new("POST", "/files"))
        .header("Upload-Length", "5")
        .header(
            "Upload-Metadata",
            "filename YS50eHQ=,filetype dGV4dC9wbGFpbg==",
        );
    let created = exchange(server.address(), &creation).expect(201);
    let target = target_in(&created, "location").expect("it is an absolute URI");
    let part = version(Request::new("PATCH", target))
        .header("Content-Type", "application/offset+octet-stream")
        .header("Upload-Offset", "0")
        .body("hello");
    let finished = exchange(server.address(), &part).expect(204);
    assert_eq!(finished.header("upload-offset"), Some("5"));
    let list = get(&server, "/files").expect(200).field("items");
    let file = &list[0];
    assert_eq!(file["name"], "a.txt");
    assert_eq!(
        (&file["mimeType"], &file["size"]),
        (&"text/plain".into(), &"5".into())
    );
    let id = file["id"].as_str().expect("it has an id");
    let media = get(&server, &format!("/files/{id}?alt=media")).expect(200);
    assert_eq!(media.body, b"hello");
}

/// An upload task of Apple's `URLSession`, which adds these fields to each.
fn task(target: &str, content_type: &str, body: &str) -> Request {
    Request::new("POST", target)
        .header("Upload-Draft-Interop-Version", 6)
        .header("Upload-Complete", "?1")
        .header("Content-Type", content_type)
        .body(body)
}

#[test]
fn client_of_the_draft_creates_at_the_plain_path() {
    let server = server();
    let send = |request: &Request| exchange(server.address(), request);
    let described = send(&Request::new("OPTIONS", "/files")).expect(204);
    let limit = described.header("upload-limit").expect("it has limits");
    assert!(limit.contains("max-size="), "{limit}");

    let creation = Request::new("POST", "/files")
        .header("Upload-Complete", "?0")
        .header("Upload-Length", 10)
        .header("Content-Disposition", "inline; filename=\"a.txt\"")
        .header("Content-Type", "text/plain");
    let created = send(&creation.clone().body("hello")).expect(201);
    assert_eq!(created.header("upload-offset"), Some("5"));
    let target = target_in(&created, "location").expect("it is an absolute URI");
    let asked = send(&Request::new("HEAD", &target)).expect(204);
    assert_eq!(asked.header("upload-offset"), Some("5"));
    let rest = Request::new("PATCH", &target)
        .header("Content-Type", "application/partial-upload")
        .header("Upload-Offset", 5)
        .header("Upload-Complete", "?1");
    let file = send(&rest.body("hello")).expect(201);
    assert_eq!(
        (file.field("name"), file.field("size")),
        ("a.txt".into(), "10".into())
    );

    let cancelled = target_in(&send(&creation.body("")).expect(201), "location");
    let cancelled = cancelled.expect("it is an absolute URI");
    send(&Request::new("DELETE", &cancelled)).expect(204);
    send(&Request::new("HEAD", &cancelled)).expect(404);
}

#[test]
fn upload_task_of_urlsession_is_an_upload_at_the_plain_path() {
    let server = server();
    let mut peer = RawPeer::connect(server.address());
    peer.send(task("/files", "text/plain", "hello").to_bytes());
    let interim = peer.next_reply().expect("its upload is announced");
    assert_eq!(interim.status, 104);
    let file = peer.next_reply().expect("it is stored").expect(201);
    assert_eq!(file.header("upload-complete"), Some("?1"));
    let id = file.field("id").as_str().map(str::to_owned);
    let target = format!("/files/{}?alt=media", id.expect("it has an id"));
    assert_eq!(get(&server, &target).expect(200).body, b"hello");
}

#[test]
fn flag_of_urlsession_changes_no_call_that_takes_json() {
    let server = own(&[
        "--api", "drive", "--api", "files", "--api", "farm", "--api", "storage",
    ]);
    let json = r#"{"name": "a.txt"}"#;
    for (target, content_type) in [
        ("/drive/v3/files", "application/json; charset=utf-8"),
        ("/drive/v3/files", "application/x-www-form-urlencoded"),
        ("/farm/v1/animals", "application/json"),
        ("/files", "application/json"),
    ] {
        let made = exchange(server.address(), &task(target, content_type, json)).expect(200);
        assert_eq!(made.field("name"), "a.txt", "{target} {content_type}");
        assert_eq!(made.header("upload-complete"), None);
        assert_eq!(made.header("upload-draft-interop-version"), None);
    }
    // At a method without media the type of the body says nothing.
    let bucket = task(
        "/storage/v1/b?project=p",
        "text/plain",
        r#"{"name": "barn"}"#,
    );
    let made = exchange(server.address(), &bucket).expect(200);
    assert_eq!(made.field("name"), "barn");
}

#[test]
fn path_of_files_is_no_bucket_and_can_be_moved() {
    let directory = TempDir::new_in(scratch()).expect("it is writable");
    let config = directory.path().join("windlass.toml");
    let set_path = |path: &str| {
        let settings = format!("apis = ['storage', 'files']\n[files]\npath = '{path}'\n");
        std::fs::write(&config, settings).expect("it is writable");
    };
    set_path("/media/up");
    let mut server = own(&["--config", config.to_str().expect("it is UTF-8")]);
    let send = |server: &ServerProcess, request: Request, body: &str| {
        exchange(server.address(), &request.body(body))
    };
    for bucket in ["files", "media"] {
        let text = format!(r#"{{"name": "{bucket}"}}"#);
        let made = Request::new("POST", "/storage/v1/b?project=p");
        send(
            &server,
            made.header("Content-Type", "application/json"),
            &text,
        )
        .expect(200);
        let object = format!("/upload/storage/v1/b/{bucket}/o?uploadType=media&name=a/b");
        send(&server, Request::new("POST", object), "object").expect(200);
    }
    let creation = Request::new("POST", "/media/up").header("Upload-Complete", "?1");
    let creation = creation.header("Content-Type", "text/plain");
    let file = send(&server, creation, "hello").expect(201);
    let id = file.field("id").as_str().expect("it has an id").to_owned();
    let link = file.field("selfLink").as_str().map(str::to_owned);
    assert!(
        link.expect("it has a link")
            .ends_with(&format!("/media/up/{id}"))
    );
    let media = |server: &ServerProcess, path: &str| {
        get(server, &format!("{path}/{id}?alt=media"))
            .expect(200)
            .body
    };
    assert_eq!(media(&server, "/media/up"), b"hello");
    assert_eq!(get(&server, "/files/a/b").expect(200).body, b"object");
    get(&server, "/media/a/b").expect(404);

    // The files stay when their path changes.
    set_path("/files");
    server.terminate();
    server.start_again();
    assert_eq!(media(&server, "/files"), b"hello");
    assert_eq!(
        get(&server, "/files").expect(200).field("items")[0]["id"],
        id
    );
    get(&server, "/files/a/b").expect(404);
    assert_eq!(get(&server, "/media/a/b").expect(200).body, b"object");
}
