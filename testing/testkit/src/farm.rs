//! The Farm API as its clients call it.

use std::net::SocketAddr;

use serde_json::Value;

use crate::media::Media;
use crate::raw::{Reply, Request, exchange};
use crate::session::Session;

/// A Farm API in the short form, with nothing in it but small media.
pub const SHORT_FORM: &str = r#"
name = "farm"
version = "v1"
[collections.animals]
schema = { name = "string" }
[collections.animals.media]
max_size = "4MB"
"#;

/// Where animals are.
pub const ANIMALS: &str = "/farm/v1/animals";

/// Where media of animals is uploaded.
pub const UPLOADS: &str = "/upload/farm/v1/animals";

/// The path of an animal.
pub fn animal(id: &str) -> String {
    format!("{ANIMALS}/{id}")
}

/// The id of the animal that a reply shows.
#[track_caller]
pub fn id(reply: &Reply) -> String {
    let id = reply.field("id");
    id.as_str()
        .unwrap_or_else(|| panic!("no id: {}", reply.text()))
        .to_owned()
}

/// A simple upload of a new animal.
pub fn simple(media: Media) -> Request {
    Request::new("POST", format!("{UPLOADS}?uploadType=media"))
        .header("Content-Type", "image/png")
        .body(media.whole())
}

/// A multipart upload of a new animal of this name.
pub fn multipart(name: &str, media: Media) -> Request {
    const BOUNDARY: &str = "farm-boundary";
    let mut body = format!(
        "--{BOUNDARY}\r\nContent-Type: application/json\r\n\r\n{}\r\n--{BOUNDARY}\r\nContent-Type: \
         image/png\r\n\r\n",
        named(name)
    )
    .into_bytes();
    body.extend(media.whole());
    body.extend(format!("\r\n--{BOUNDARY}--\r\n").into_bytes());
    Request::new("POST", format!("{UPLOADS}?uploadType=multipart"))
        .header(
            "Content-Type",
            format!("multipart/related; boundary={BOUNDARY}"),
        )
        .body(body)
}

/// A new animal from a simple upload; the reply shows it.
#[track_caller]
pub fn upload(address: SocketAddr, media: Media) -> Reply {
    exchange(address, &simple(media)).expect(200)
}

/// The start of a resumable upload of a new animal, with JSON metadata and nothing said about the
/// media's size.
pub fn start(metadata: &str) -> Request {
    Request::new("POST", format!("{UPLOADS}?uploadType=resumable"))
        .header("Content-Type", "application/json; charset=UTF-8")
        .header("X-Upload-Content-Type", "image/png")
        .body(metadata)
}

/// A session for a new animal of this name.
#[track_caller]
pub fn begin(address: SocketAddr, name: &str) -> Session {
    Session::start(address, &start(&named(name)))
}

/// Starts a session for a new animal, and declares the length of its media.
#[track_caller]
pub fn begin_declared(address: SocketAddr, length: u64) -> Session {
    let start = Request::new("POST", format!("{UPLOADS}?uploadType=resumable"))
        .header("X-Upload-Content-Type", "image/png")
        .header("X-Upload-Content-Length", length)
        .body("");
    Session::start(address, &start)
}

/// The metadata of an animal of this name.
pub fn named(name: &str) -> String {
    format!(r#"{{"name":"{name}"}}"#)
}

/// A request for the media of an animal.
pub fn download(id: &str) -> Request {
    Request::new("GET", format!("{}?alt=media", animal(id)))
}

/// A page of the list of all animals; the first one for an empty token.
pub fn list(page_token: &str) -> Request {
    Request::new(
        "GET",
        format!("{ANIMALS}?maxResults=1000&pageToken={page_token}"),
    )
}

/// How many animals have this name.
#[track_caller]
pub fn count(address: SocketAddr, name: &str) -> usize {
    let mut count = 0;
    let mut page = String::new();
    loop {
        let reply = exchange(address, &list(&page)).expect(200);
        let animals = reply.field("items");
        let animals = animals.as_array().map_or(&[][..], Vec::as_slice);
        count += animals
            .iter()
            .filter(|animal| animal["name"] == name)
            .count();
        match reply.field("nextPageToken") {
            Value::String(next) => page = next,
            _ => return count,
        }
    }
}

/// Checks that the animal which a reply shows has exactly this media: as its fields say it, and
/// byte for byte.
#[track_caller]
pub fn assert_media(address: SocketAddr, reply: &Reply, media: Media) {
    assert_eq!(reply.field("size"), media.len().to_string());
    assert_eq!(reply.field("crc32c"), media.crc32c());
    let download = exchange(address, &download(&id(reply))).expect(200);
    media
        .compare(0..media.len(), &download.body[..])
        .expect("the media is what was uploaded");
}
