//! The API as described by its OpenAPI document. The requests are made from the document alone.

use std::sync::Arc;

use http::{Request, StatusCode};
use serde_json::{Value, json};
use windlass_discovery::Api;
use windlass_server::{ServedApi, Stores};
use windlass_store::memory::{MemoryLedger, MemoryVault};

use crate::world::{Body, Peer as _, Reply, World};

const ALBUM: &str = r#"
name = "album"
version = "v1"

[collections.photos]
filter_by = ["rating"]

[collections.photos.schema]
title = { type = "string", required = true }
rating = "integer"

[collections.photos.media]
accept = ["image/*"]
"#;

const DOCUMENT: &str = "/discovery/v1/apis/album/v1/openapi.json";

/// A server, and its document.
struct Described {
    world: World,
    document: Value,
}

impl Described {
    async fn album() -> Self {
        let api = Api::from_toml(ALBUM).expect("it is valid");
        let stores = Stores {
            ledger: Arc::new(MemoryLedger::new()),
            vault: Arc::new(MemoryVault::new()),
        };
        let album = ServedApi::with_default_handler(api);
        let world = World::of(album, stores, Arc::default());
        let document = world.get(DOCUMENT).await;
        assert_eq!(document.status, StatusCode::OK);
        Self {
            world,
            document: document.json(),
        }
    }

    /// Sends the request of an operation, and checks that the document has its status.
    async fn send(
        &self,
        id: &str,
        variables: &[(&str, &str)],
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Reply {
        let (mut path, verb, operation) = self.operation(id);
        let mut query = Vec::new();
        for (name, value) in variables {
            let variable = format!("{{{name}}}");
            if path.contains(&variable) {
                path = path.replace(&variable, value);
            } else {
                query.push(format!("{name}={value}"));
            }
        }
        let mut request = Request::builder()
            .method(verb.to_ascii_uppercase().as_str())
            .uri(format!("{path}?{}", query.join("&")))
            .header("Host", "album.localhost")
            .header("Content-Length", body.len());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request
            .body(Body::from(body.to_vec()))
            .expect("it is valid");
        let reply = self.world.try_exchange(request).await;
        let described = operation["responses"].get(reply.status.as_str());
        assert!(described.is_some(), "{id}: {reply:?}");
        reply
    }

    /// Returns path, HTTP method and operation.
    fn operation(&self, id: &str) -> (String, &str, &Value) {
        let paths = self.document["paths"].as_object().into_iter().flatten();
        let operations = paths.flat_map(|(path, item)| {
            let item = item.as_object().into_iter().flatten();
            item.map(move |(verb, it)| (path.clone(), verb.as_str(), it))
        });
        let mut found = operations.filter(|(_, _, it)| it["operationId"] == id);
        found.next().expect("it is described")
    }
}

/// A body of form data in the order of the document's properties.
fn form(properties: &Value, metadata: &Value, media: &str) -> String {
    let parts = properties.as_object().into_iter().flatten();
    let parts = parts.map(|(name, _)| {
        let (more, content) = match name.as_str() {
            "metadata" => ("\r\nContent-Type: application/json", metadata.to_string()),
            _ => (
                "; filename=\"a.png\"\r\nContent-Type: image/png",
                media.to_owned(),
            ),
        };
        format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"{more}\r\n\r\n{content}\r\n")
    });
    parts.collect::<String>() + "--x--\r\n"
}

#[tokio::test]
async fn document_is_served_beside_the_discovery_document() {
    let album = Described::album().await;
    assert_eq!(album.document["openapi"], "3.1.0");
    let servers = &album.document["servers"];
    let root = album.world.get("/discovery/v1/apis/album/v1/rest").await;
    let root = root.json()["rootUrl"].as_str().map(str::to_owned);
    let root = root.expect("it is there");
    assert_eq!(*servers, json!([{"url": root.trim_end_matches('/')}]));
    for path in [
        "/discovery/v1/apis/album/v2/openapi.json",
        "/discovery/v1/apis/album/v1/openapi",
        "/discovery/v1/apis/album/openapi.json",
    ] {
        let reply = album.world.get(path).await;
        assert_eq!(reply.status, StatusCode::NOT_FOUND, "{path}");
    }
    let reply = album.world.call("POST", DOCUMENT).await;
    assert_eq!(reply.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn media_is_uploaded_in_one_request_and_downloaded_as_described() {
    let album = Described::album().await;
    let insert = "album.photos.insert.upload";
    let (_, _, operation) = album.operation(insert);
    let content = &operation["requestBody"]["content"];
    let properties = &content["multipart/form-data"]["schema"]["properties"];
    let body = form(properties, &json!({"title": "A cow", "rating": 4}), "moo");
    let multipart = [("Content-Type", "multipart/form-data; boundary=x")];
    let parameters = [("uploadType", "multipart")];
    let photo = album
        .send(insert, &parameters, &multipart, body.as_bytes())
        .await;
    let photo = photo.json();
    assert_eq!(
        (&photo["title"], &photo["size"]),
        (&"A cow".into(), &"3".into())
    );
    let id = photo["id"].as_str().expect("it has an id");
    // The media alone, for a photo that has its title already.
    let parameters = [("photoId", id), ("uploadType", "media")];
    let png = [("Content-Type", "image/png")];
    let update = "album.photos.patch.upload";
    album.send(update, &parameters, &png, b"moo, moo").await;
    let media = "album.photos.get.media";
    let whole = album.send(media, &[("photoId", id)], &[], b"").await;
    assert_eq!(
        (whole.status.as_u16(), &whole.body[..]),
        (200, &b"moo, moo"[..])
    );
    let range = [("Range", "bytes=5-7")];
    let part = album.send(media, &[("photoId", id)], &range, b"").await;
    assert_eq!((part.status.as_u16(), &part.body[..]), (206, &b"moo"[..]));
    let behind = [("Range", "bytes=8-")];
    let behind = album.send(media, &[("photoId", id)], &behind, b"").await;
    assert_eq!(behind.status, StatusCode::RANGE_NOT_SATISFIABLE);
    let delete = album
        .send("album.photos.delete", &[("photoId", id)], &[], b"")
        .await;
    assert_eq!(delete.status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn session_goes_on_by_the_link_of_its_start() {
    let album = Described::album().await;
    let created = album
        .session("album.photos.insert.resumable", &[], "201")
        .await;
    let id = created["id"].as_str().expect("it has an id").to_owned();
    // PUT begins sessions there, so another HTTP method continues them.
    let of_photo = [("photoId", id.as_str())];
    let patched = album
        .session("album.photos.patch.resumable", &of_photo, "200")
        .await;
    assert_eq!(patched["id"], *id);
}

impl Described {
    /// Uploads `moo` in two requests with a query in between, and returns the resource.
    async fn session(&self, id: &str, of: &[(&str, &str)], ends_with: &str) -> Value {
        let start = [of, &[("uploadType", "resumable")]].concat();
        let headers = [
            ("Content-Type", "application/json"),
            ("X-Upload-Content-Type", "image/png"),
            ("X-Upload-Content-Length", "3"),
        ];
        let started = self
            .send(id, &start, &headers, br#"{"title": "A cow"}"#)
            .await;
        let (_, _, operation) = self.operation(id);
        let link = &operation["responses"]["200"]["links"]["append"];
        let append = link["operationId"].as_str().expect("it has an id");
        assert_eq!(
            link["parameters"]["upload_id"],
            "$response.header.X-GUploader-UploadID"
        );
        let upload_id = started.headers["x-guploader-uploadid"].to_str();
        let upload_id = upload_id.expect("it is text");
        let session = [of, &[("upload_id", upload_id)]].concat();
        let question = [("Content-Range", "bytes */3")];
        let nothing = self.send(append, &session, &question, b"").await;
        assert_eq!(nothing.status.as_u16(), 308);
        let all = [("Content-Range", "bytes 0-2/3")];
        let done = self.send(append, &session, &all, b"moo").await;
        assert_eq!(done.status.as_str(), ends_with);
        done.json()
    }
}

#[tokio::test]
async fn session_is_cancelled_as_described() {
    let album = Described::album().await;
    let start = "album.photos.insert.resumable";
    let parameters = [("uploadType", "resumable")];
    let png = [("X-Upload-Content-Type", "image/png")];
    let started = album
        .send(start, &parameters, &png, br#"{"title": "x"}"#)
        .await;
    let upload_id = started.headers["x-guploader-uploadid"].to_str();
    let session = [("upload_id", upload_id.expect("it is text"))];
    let cancelled = album
        .send("album.photos.insert.resumable.cancel", &session, &[], b"")
        .await;
    assert_eq!(cancelled.status.as_u16(), 499);
}
