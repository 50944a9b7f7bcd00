//! Cloud Storage.

mod access_controls;
mod batches;
mod buckets;
mod compose;
mod copies;
mod downloads;
mod headers;
mod listing;
mod metadata;
mod names;
mod parameters;
mod preconditions;
mod races;
mod uploads;

use bytes::Bytes;
use serde_json::{Value, json};

use windlass_store::{Resource, Timestamp};

use crate::world::{Body, Peer as _, Reply, World};

const BUCKET: &str = "/storage/v1/b/barn";
const OBJECTS: &str = "/storage/v1/b/barn/o";
const UPLOAD: &str = "/upload/storage/v1/b/barn/o";

/// Media that is in the vault.
const LARGE: &[u8] = &LETTERS;

const LETTERS: [u8; 600] = {
    let (mut letters, mut at) = ([b'a'; 600], 1);
    while at < letters.len() {
        letters[at] = b'a' + (letters[at - 1] - b'a' + 1) % 23;
        at += 1;
    }
    letters
};

/// A server with the bucket `barn`.
struct Storage {
    world: World,
}

impl std::ops::Deref for Storage {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl Storage {
    async fn new() -> Self {
        Self::with(World::of("storage")).await
    }

    async fn with(world: World) -> Self {
        let storage = Self { world };
        storage.bucket("barn").await.resource();
        storage
    }

    async fn bucket(&self, name: &str) -> Reply {
        let uri = "/storage/v1/b?project=farm";
        self.json("POST", uri, &json!({"name": name})).await
    }

    /// An upload of media alone; `query` begins with `name=...`.
    async fn alone(&self, query: &str, media: impl Into<Body>) -> Reply {
        let uri = format!("{UPLOAD}?uploadType=media&{query}");
        self.send("POST", &uri, &[("content-type", "text/plain")], media)
            .await
    }

    /// A multipart upload.
    async fn described(&self, metadata: &Value, media: &[u8]) -> Reply {
        self.multipart(OBJECTS, metadata, "text/plain", media).await
    }

    /// A multipart upload with checksums behind the media.
    async fn summed(&self, name: &str, media: &[u8], checksums: &str) -> Reply {
        let uri = format!("{UPLOAD}?uploadType=multipart&name={name}");
        let json = "--b\r\ncontent-type: application/json\r\n\r\n";
        let head = format!("{json}{{}}\r\n--b\r\n\r\n");
        let tail = format!("\r\n{json}{checksums}\r\n--b--");
        let body = [head.as_bytes(), media, tail.as_bytes()].concat();
        let headers = [("content-type", "multipart/related; boundary=b")];
        self.send("POST", &uri, &headers, body).await
    }

    /// Puts an object and gives its resource.
    async fn put(&self, name: &str, media: &[u8]) -> Value {
        self.described(&json!({"name": name}), media)
            .await
            .resource()
    }

    /// Puts the row of an object into the ledger, past the server.
    async fn row(&self, name: &str, generation: u64) {
        self.world.put([row(name, generation)]).await;
    }

    /// The reply to a read of an object; `rest` is its name as in a path, and the query.
    async fn object(&self, rest: &str) -> Reply {
        self.call("GET", &format!("{OBJECTS}/{rest}")).await
    }

    /// The media of an object.
    async fn media(&self, name: &str) -> Bytes {
        let reply = self.object(&format!("{name}?alt=media")).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.body
    }
}

/// An object without media, as the ledger has it.
fn row(name: &str, generation: u64) -> Resource {
    let body = json!({"generation": generation, "metageneration": 1, "fields": {}});
    Resource {
        collection: "storage/b/barn".to_owned(),
        id: name.to_owned(),
        version: 1,
        body: body.to_string().into(),
        media: None,
        created: Timestamp::from_millis(0),
        updated: Timestamp::from_millis(0),
        due: None,
        claimed_by: None,
        owner: None,
    }
}
