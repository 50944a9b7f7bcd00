//! Media that a handler makes, such as a thumbnail.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Map;
use windlass_discovery::Api;
use windlass_server::handler::{Answer, ApiHandler, Call, Rejection, Uploaded};
use windlass_server::{Registry, ServedApi, Stores};
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_store::{Ledger as _, Media as MediaRecord, MediaId, Resource, ResourceChange};
use windlass_testkit::media::Media;

use crate::world::{Peer as _, Reply, World};

const GALLERY: &str = r#"
name = "gallery"
version = "v1"
methods."pictures.insert" = { http = "POST", path = "pictures/{id}", response = "Picture", media = {} }
methods."previews.get" = { http = "GET", path = "previews/{id}", response = "Picture", download = true }
methods."previews.delete" = { http = "DELETE", path = "previews/{id}" }
methods."previews.insert" = { http = "POST", path = "previews/{id}", response = "Picture" }
schemas.Picture.id = "string"
"#;

/// Bytes of a picture that its preview shows.
const SHOWN: u64 = 100;

/// Pictures, and a preview of each.
struct Gallery {
    /// Number of previews that are made of a picture, and their length in bytes.
    previews: usize,
    length: usize,
}

impl Gallery {
    fn usual() -> Self {
        Self {
            previews: 1,
            length: 100,
        }
    }
}

#[async_trait]
impl ApiHandler for Gallery {
    async fn admit(&self, _: &Call<'_>) -> Result<(), Rejection> {
        Ok(())
    }

    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
        let id = call.path.value("id").unwrap_or_default();
        let mut answer = Answer::of(Map::from_iter([("id".to_owned(), id.into())]));
        if call.method.http_method == http::Method::DELETE {
            let preview = self.find(call).await?;
            answer.changes.push(ResourceChange::Delete {
                collection: preview.collection,
                id: preview.id,
                expected: preview.version,
            });
            return Ok(answer);
        }
        let mut shown = match &media {
            Some(picture) => picture.source.read(0..SHOWN).await?.to_vec(),
            None => Vec::new(),
        };
        shown.resize(self.length, 0);
        if let Some(Uploaded { media, .. }) = media {
            answer.changes.push(inserted(call, "pictures", media));
        }
        let mut last = None;
        for _ in 0..self.previews {
            last = Some(answer.add_media(call, "image/x-preview", shown.clone()));
        }
        let preview = last.expect("each picture has one");
        answer.changes.push(inserted(call, "previews", preview));
        Ok(answer)
    }

    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        let id = call.path.value("id").unwrap_or_default();
        let found = call.lookup.resource("previews", id).await?;
        found.ok_or_else(|| Rejection::NotFound {
            what: "preview".to_owned(),
            id: id.to_owned(),
        })
    }
}

fn inserted(call: &Call<'_>, collection: &str, media: MediaRecord) -> ResourceChange {
    ResourceChange::Insert(Resource {
        collection: collection.to_owned(),
        id: call.path.value("id").unwrap_or_default().to_owned(),
        version: 1,
        body: Bytes::from_static(b"{}"),
        media: Some(media),
        created: call.now,
        updated: call.now,
        due: None,
        claimed_by: None,
        owner: None,
    })
}

/// A server of a gallery, and its ledger.
struct Opened {
    world: World,
    ledger: Arc<MemoryLedger>,
}

impl Opened {
    fn new(gallery: Gallery) -> Self {
        let ledger = Arc::new(MemoryLedger::new());
        let stores = Stores {
            ledger: Arc::<MemoryLedger>::clone(&ledger),
            vault: Arc::new(MemoryVault::new()),
        };
        let api = Api::from_toml(GALLERY).expect("it is valid");
        let registry = Registry::new([ServedApi::new(api, Arc::new(gallery))]);
        let registry = registry.expect("there is one API");
        Self {
            world: World::of_registry(registry, stores, Arc::default(), |_| ()),
            ledger,
        }
    }

    async fn upload(&self, media: Media) -> Reply {
        let uri = "/upload/gallery/v1/pictures/a?uploadType=media";
        self.world.send("POST", uri, &[], media).await
    }

    async fn preview(&self) -> Reply {
        self.world.get("/gallery/v1/previews/a?alt=media").await
    }

    /// Id of the media of the preview, if there is one.
    async fn preview_media(&self) -> Option<MediaId> {
        let row = self.ledger.resource("previews", "a").await;
        Some(row.expect("it is in memory")?.media?.at.id)
    }
}

/// Media that is in the vault, and media that is in the ledger.
const PICTURES: [Media; 2] = [Media::new(1, 100_000), Media::new(2, 150)];

#[tokio::test(start_paused = true)]
async fn thumbnail_is_committed_with_its_picture() {
    for picture in PICTURES {
        let opened = Opened::new(Gallery::usual());
        assert_eq!(opened.upload(picture).await.status, 200);
        let preview = opened.preview().await;
        assert_eq!(preview.status, 200, "{preview:?}");
        assert_eq!(preview.headers["content-type"], "image/x-preview");
        assert_eq!(preview.body, picture.whole()[..100]);
        let mut crc32c = windlass_digest::Crc32cHasher::default();
        crc32c.update(&preview.body);
        let stated = preview.headers["x-goog-hash"].to_str().expect("it is text");
        assert!(stated.contains(&crc32c.value().to_string()), "{stated}");
    }
}

#[tokio::test(start_paused = true)]
async fn call_without_an_upload_may_add_media_too() {
    let opened = Opened::new(Gallery::usual());
    let made = opened.world.call("POST", "/gallery/v1/previews/a").await;
    assert_eq!(made.status, 200, "{made:?}");
    assert_eq!(opened.preview().await.body, vec![0; 100]);
}

#[tokio::test(start_paused = true)]
async fn thumbnail_goes_with_its_resource() {
    let opened = Opened::new(Gallery::usual());
    opened.upload(PICTURES[0]).await;
    let id = opened.preview_media().await.expect("there is a preview");
    let kept = opened.ledger.small_media(id).await;
    assert!(kept.expect("it is in memory").is_some());
    let deleted = opened.world.call("DELETE", "/gallery/v1/previews/a").await;
    assert_eq!(deleted.status, 200, "{deleted:?}");
    let kept = opened.ledger.small_media(id).await;
    assert!(kept.expect("it is in memory").is_none());
}

#[tokio::test(start_paused = true)]
async fn too_long_or_too_many_thumbnails_are_refused() {
    let cases = [(1, 64 * 1024, 200), (1, 64 * 1024 + 1, 400)];
    for (previews, length, status) in cases.into_iter().chain([(16, 10, 200), (17, 10, 400)]) {
        let opened = Opened::new(Gallery { previews, length });
        let reply = opened.upload(PICTURES[0]).await;
        let is_there = opened.preview_media().await.is_some();
        let found = (reply.status.as_u16(), is_there);
        assert_eq!(found, (status, status == 200), "{previews} of {length}");
    }
}
