//! The files of the Gemini API.

use serde_json::{Value, json};

use crate::world::{ORIGIN, Peer as _, Reply, World};

const FILES: &str = "/v1beta/files";

fn gemini() -> World {
    World::of("generativelanguage")
}

/// Uploads a file as the libraries do: with the dialect of `X-Goog-Upload`, in two chunks.
async fn upload(gemini: &World, version: &str, file: &Value, media: &[u8]) -> Reply {
    let length = media.len().to_string();
    let start = [
        ("content-type", "application/json"),
        ("x-goog-upload-protocol", "resumable"),
        ("x-goog-upload-command", "start"),
        ("x-goog-upload-header-content-length", length.as_str()),
        ("x-goog-upload-header-content-type", "text/plain"),
    ];
    let path = format!("/upload/{version}/files");
    let body = json!({"file": file}).to_string();
    let started = gemini.send("POST", &path, &start, body).await;
    if !started.status.is_success() {
        return started;
    }
    let url = started.link("x-goog-upload-url", ORIGIN).to_owned();
    let (first, last) = media.split_at(media.len() / 2);
    let offset = first.len().to_string();
    for (command, offset, part) in [("upload", "0", first), ("upload, finalize", &offset, last)] {
        let headers = [
            ("content-type", "application/json"),
            ("x-goog-upload-command", command),
            ("x-goog-upload-offset", offset),
        ];
        let reply = gemini.send("POST", &url, &headers, part.to_vec()).await;
        if command != "upload" {
            assert_eq!(reply.header("x-goog-upload-status"), "final");
            return reply;
        }
        assert_eq!(reply.header("x-goog-upload-status"), "active");
    }
    unreachable!("the last chunk was sent");
}

#[tokio::test]
async fn uploaded_file_is_shown_listed_downloaded_and_deleted_in_both_versions() {
    for version in ["v1", "v1beta"] {
        let gemini = gemini();
        let file = json!({"displayName": "Poem"});
        let made = upload(&gemini, version, &file, b"a poem").await.resource()["file"].clone();
        let name = made["name"].as_str().expect("a name").to_owned();
        assert!(name.starts_with("files/"), "{made}");
        let expected = json!({
            "displayName": "Poem",
            "mimeType": "text/plain",
            "sizeBytes": "6",
            "state": "ACTIVE",
            "source": "UPLOADED",
            "uri": format!("{ORIGIN}/{version}/{name}"),
        });
        for (key, value) in expected.as_object().expect("an object") {
            assert_eq!(&made[key], value, "{key}");
        }
        assert_eq!(made["sha256Hash"].as_str().map(str::len), Some(44));
        let uri = format!("/v1beta/{name}");
        assert_eq!(gemini.call("GET", &uri).await.field("name"), name);
        let download = format!("{uri}:download?alt=media");
        let media = gemini.call("GET", &download).await;
        assert_eq!(&media.body[..], b"a poem");
        let list = gemini.call("GET", FILES).await.resource();
        assert_eq!(list["files"][0]["name"], name);
        let deleted = gemini.call("DELETE", &uri).await.resource();
        assert_eq!(deleted, json!({}));
        gemini.call("GET", &uri).await.refusal(404, "notFound");
    }
}

#[tokio::test]
async fn file_may_have_a_name_of_its_own_once() {
    let gemini = gemini();
    for name in ["files/poem-1", "poem-2"] {
        let file = json!({"name": name});
        let made = upload(&gemini, "v1beta", &file, b"moo").await.resource();
        let expected = format!("files/{}", name.trim_start_matches("files/"));
        assert_eq!(made["file"]["name"], expected);
        let again = upload(&gemini, "v1beta", &file, b"moo").await;
        assert_eq!(
            again.refusal(409, "duplicate"),
            format!("file {expected} exists already")
        );
    }
}

#[tokio::test]
async fn invalid_names_are_refused_before_the_media() {
    let gemini = gemini();
    let long = "x".repeat(41);
    for name in ["files/", "Poem", "a_b", "-a", "a-", "files/a/b", &long] {
        let file = json!({"name": name});
        let refused = upload(&gemini, "v1beta", &file, b"moo").await;
        refused.refusal(400, "invalid");
        assert_eq!(refused.header("x-goog-upload-status"), "final", "{name}");
    }
    let file = json!({"displayName": "x".repeat(513)});
    let refused = upload(&gemini, "v1beta", &file, b"moo").await;
    refused.refusal(400, "invalid");
}

#[tokio::test]
async fn files_are_listed_in_pages() {
    let gemini = gemini();
    let nothing = gemini.call("GET", "/v1/files").await;
    assert_eq!(nothing.resource(), json!({}));
    for name in ["c", "a", "b"] {
        let file = json!({"name": name});
        upload(&gemini, "v1", &file, b"moo").await.resource();
    }
    let names = |page: &Value| -> Vec<String> {
        let files = page["files"].as_array().expect("a list");
        let names = files.iter().filter_map(|file| file["name"].as_str());
        names.map(str::to_owned).collect()
    };
    let page = gemini.call("GET", &format!("{FILES}?pageSize=2")).await;
    let page = page.resource();
    assert_eq!(names(&page), ["files/a", "files/b"]);
    let token = page["nextPageToken"].as_str().expect("there is more");
    let uri = format!("{FILES}?pageSize=2&pageToken={token}");
    let page = gemini.call("GET", &uri).await.resource();
    assert_eq!(names(&page), ["files/c"]);
    assert_eq!(page.get("nextPageToken"), None);
    for size in ["0", "101", "many"] {
        let refused = gemini
            .call("GET", &format!("{FILES}?pageSize={size}"))
            .await;
        assert_eq!(refused.status, 400, "{size}");
    }
}

#[tokio::test]
async fn metadata_without_media_is_refused() {
    let gemini = gemini();
    let refused = gemini.json("POST", FILES, &json!({"file": {}})).await;
    refused.refusal(400, "invalidArgument");
}

#[tokio::test]
async fn parameters_of_a_list_have_an_effect() {
    let gemini = gemini();
    for name in ["a", "b", "c"] {
        let file = json!({"name": name});
        upload(&gemini, "v1", &file, b"moo").await.resource();
    }
    let list = async |query: &str| {
        gemini
            .call("GET", &format!("{FILES}?{query}"))
            .await
            .resource()
    };
    let count = |page: &Value| page["files"].as_array().map(Vec::len);
    assert_eq!(count(&list("pageSize=1").await), Some(1));
    let page = list("pageSize=2").await;
    assert_eq!(count(&page), Some(2));
    let token = page["nextPageToken"].as_str().expect("there is more");
    let next = list(&format!("pageToken={token}")).await;
    assert_eq!(count(&next), Some(1));
}

#[tokio::test]
async fn refusals_are_those_of_the_table() {
    let page = include_str!("../../../../docs/apis/generativelanguage.md");
    let gemini = gemini();
    upload(&gemini, "v1", &json!({"name": "taken"}), b"moo")
        .await
        .resource();
    let new = async |file: Value| upload(&gemini, "v1", &file, b"moo").await;
    let list = async |query: &str| gemini.call("GET", &format!("{FILES}?{query}")).await;
    let uploaded = format!("{FILES}?uploadType=media");
    let cases = [
        (
            "an existing name",
            new(json!({"name": "files/taken"})).await,
        ),
        (
            "a name of other characters",
            new(json!({"name": "Poem"})).await,
        ),
        (
            "a name of 41 characters",
            new(json!({"name": "x".repeat(41)})).await,
        ),
        (
            "a `displayName` of 513 characters",
            new(json!({"displayName": "x".repeat(513)})).await,
        ),
        (
            "a file without media",
            gemini.json("POST", FILES, &json!({"file": {}})).await,
        ),
        (
            "`uploadType` at the path without `/upload`",
            gemini.json("POST", &uploaded, &json!({"file": {}})).await,
        ),
        (
            "an unknown file",
            gemini.call("GET", "/v1beta/files/none").await,
        ),
        (
            "a deletion of an unknown file",
            gemini.call("DELETE", "/v1beta/files/none").await,
        ),
        ("`pageSize=0`", list("pageSize=0").await),
        ("`pageSize=101`", list("pageSize=101").await),
        ("a made-up `pageToken`", list("pageToken=taken").await),
    ];
    crate::refusals::check_page(page, &cases);
}
