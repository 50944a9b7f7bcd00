//! The API of files, by its own calls and by those of tus.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{Reply, Request, exchange};

use crate::server::own;

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
    let location = created.header("location").expect("it names the session");
    let (_, target) = location.split_once("://").expect("it is absolute");
    let target = &target[target.find('/').expect("it has a path")..];
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
