//! Races: another call makes a change between a call's read and its change.

use std::sync::Arc;

use futures_util::future::{join, join_all};
use serde_json::json;
use tempfile::TempDir;
use windlass_server::Stores;
use windlass_store::fault::PacedLedger;
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_store_local::{Durability, LocalStore, Options};

use super::{BUCKET, LARGE, OBJECTS, Storage};
use crate::world::{Peer as _, World};

/// Copiers of one object, many more than attempts at one copy.
const COPIERS: usize = 32;

/// A server over stores with lookups that tests can stop.
struct Paced {
    storage: Storage,
    ledger: Arc<PacedLedger>,
    /// Where the stores are, if they are on disk.
    _dir: Option<TempDir>,
}

impl Paced {
    async fn over(stores: Stores, dir: Option<TempDir>) -> Self {
        let ledger = Arc::new(PacedLedger::new(stores.ledger));
        let stores = Stores {
            ledger: Arc::clone(&ledger) as _,
            vault: stores.vault,
        };
        Self {
            storage: Storage::with(World::over("storage", stores)).await,
            ledger,
            _dir: dir,
        }
    }

    async fn in_memory() -> Self {
        let stores = Stores {
            ledger: Arc::new(MemoryLedger::new()),
            vault: Arc::new(MemoryVault::new()),
        };
        Self::over(stores, None).await
    }

    async fn on_disk() -> Self {
        let dir = TempDir::new().expect("there is room");
        let options = Options::default()
            .durability(Durability::Os)
            .allow_unsafe_filesystem(true);
        let LocalStore { ledger, vault, .. } =
            LocalStore::open(dir.path(), options).expect("it is new");
        let stores = Stores {
            ledger: Arc::new(ledger),
            vault: Arc::new(vault),
        };
        Self::over(stores, Some(dir)).await
    }

    async fn delete(&self, name: &str) -> u16 {
        let uri = format!("{OBJECTS}/{name}");
        self.storage.call("DELETE", &uri).await.status.as_u16()
    }
}

fn old(of: &[u8]) -> Vec<u8> {
    of.iter().rev().copied().collect()
}

/// Runs `http_method` from `cow`, and deletes `cow` when that has been looked up. If there is `new`
/// media, `cow` is uploaded again with it.
async fn raced(paced: &Paced, http_method: &str, before: &[u8], new: Option<&[u8]>) -> u16 {
    let Paced {
        storage, ledger, ..
    } = paced;
    storage.put("cow", before).await;
    let stopped = ledger.stop_at("calf");
    let uri = format!("{OBJECTS}/cow/{http_method}");
    let meanwhile = async {
        assert_eq!(paced.delete("cow").await, 204);
        if let Some(new) = new {
            storage.put("cow", new).await;
        }
    };
    let (reply, ()) = stopped.during(storage.call("POST", &uri), meanwhile).await;
    reply.status.as_u16()
}

#[tokio::test]
async fn a_source_that_is_uploaded_again_keeps_its_new_media() {
    for paced in [Paced::in_memory().await, Paced::on_disk().await] {
        for new in [LARGE, b"moo"] {
            for http_method in ["copyTo/b/barn/o/calf", "rewriteTo/b/barn/o/calf"] {
                assert_eq!(raced(&paced, http_method, &old(new), Some(new)).await, 200);
                assert!(paced.storage.media("cow").await == new, "{http_method}");
                assert!(paced.storage.media("calf").await == new, "{http_method}");
                assert_eq!(paced.delete("cow").await, 204);
                assert_eq!(paced.delete("calf").await, 204);
            }
            let http_method = "moveTo/o/calf";
            assert_eq!(raced(&paced, http_method, &old(new), Some(new)).await, 200);
            assert!(paced.storage.media("calf").await == new, "{http_method}");
            assert_eq!(paced.delete("calf").await, 204);
            assert_eq!(paced.delete("cow").await, 404);
        }
    }
}

/// The old media is still there, in a copy: only the version tells that the source is another
/// object now.
#[tokio::test]
async fn a_source_that_is_uploaded_again_is_another_object_although_its_old_media_is_still_in_use()
{
    let paced = Paced::in_memory().await;
    let storage = &paced.storage;
    storage.put("cow", &old(LARGE)).await;
    let uri = format!("{OBJECTS}/cow/copyTo/b/barn/o/ox");
    storage.call("POST", &uri).await.resource();
    let stopped = paced.ledger.stop_at("calf");
    let uri = format!("{OBJECTS}/cow/moveTo/o/calf");
    let meanwhile = async {
        assert_eq!(paced.delete("cow").await, 204);
        storage.put("cow", LARGE).await;
    };
    let (moved, ()) = stopped.during(storage.call("POST", &uri), meanwhile).await;
    moved.resource();
    assert!(
        storage.media("calf").await == LARGE,
        "the new media is lost"
    );
    assert_eq!(paced.delete("cow").await, 404);
}

#[tokio::test]
async fn a_source_that_is_deleted_meanwhile_is_not_found() {
    for paced in [Paced::in_memory().await, Paced::on_disk().await] {
        for media in [LARGE, b"moo"] {
            for http_method in ["copyTo/b/barn/o/calf", "moveTo/o/calf"] {
                assert_eq!(
                    raced(&paced, http_method, media, None).await,
                    404,
                    "{http_method}"
                );
                assert_eq!(paced.delete("calf").await, 404, "{http_method}");
            }
        }
    }
}

/// The media is composed of the first versions of the sources, and the object is about to be made.
#[tokio::test]
async fn object_is_composed_of_what_its_sources_are_at_the_end() {
    for paced in [Paced::in_memory().await, Paced::on_disk().await] {
        let storage = &paced.storage;
        let compose = async || {
            let uri = format!("{OBJECTS}/herd/compose");
            let body = json!({"sourceObjects": [{"name": "cow"}, {"name": "calf"}]});
            storage.json("POST", &uri, &body).await
        };
        storage.put("cow", &old(LARGE)).await;
        storage.put("calf", LARGE).await;
        let stopped = paced.ledger.stop_after(1, "calf");
        let meanwhile = async {
            storage.put("cow", LARGE).await;
        };
        let (composed, ()) = stopped.during(compose(), meanwhile).await;
        composed.resource();
        assert!(storage.media("herd").await == LARGE.repeat(2));

        let stopped = paced.ledger.stop_after(1, "calf");
        let meanwhile = async {
            assert_eq!(paced.delete("cow").await, 204);
        };
        let (composed, ()) = stopped.during(compose(), meanwhile).await;
        composed.refusal(404, "notFound");
        assert!(storage.media("herd").await == LARGE.repeat(2));
    }
}

#[tokio::test]
async fn copies_of_one_object_do_not_stand_in_each_others_way() {
    let paced = Paced::in_memory().await;
    let storage = &paced.storage;
    storage.put("cow", LARGE).await;
    let copy = |n: usize| async move {
        let uri = format!("{OBJECTS}/cow/copyTo/b/barn/o/calf-{n}");
        storage.call("POST", &uri).await.status.as_u16()
    };
    assert_eq!(join_all((0..COPIERS).map(copy)).await, [200; COPIERS]);

    let copies = join_all((0..COPIERS).map(copy));
    let (copies, deleted) = join(copies, paced.delete("cow")).await;
    assert_eq!(deleted, 204);
    let is_answer = |status: &u16| [200, 404].contains(status);
    assert!(copies.iter().all(is_answer), "{copies:?}");
}

#[tokio::test]
async fn upload_into_a_bucket_that_is_deleted_meanwhile_is_refused() {
    for paced in [Paced::in_memory().await, Paced::on_disk().await] {
        // The object is looked up after the bucket: before the media is taken, and again when it is
        // there.
        let stopped = paced.ledger.stop_after(1, "cow");
        let meanwhile = async {
            assert_eq!(paced.storage.call("DELETE", BUCKET).await.status, 204);
        };
        let upload = paced.storage.alone("name=cow", "moo");
        let (reply, ()) = stopped.during(upload, meanwhile).await;
        reply.refusal(404, "notFound");
        paced.storage.bucket("barn").await.resource();
        assert_eq!(paced.storage.object("cow").await.status, 404);
    }
}

#[tokio::test]
async fn copy_into_a_bucket_that_is_deleted_meanwhile_is_refused() {
    let paced = Paced::in_memory().await;
    let storage = &paced.storage;
    storage.bucket("shed").await.resource();
    storage.put("cow", LARGE).await;
    for method in ["copyTo", "rewriteTo"] {
        let stopped = paced.ledger.stop_at("calf");
        let meanwhile = async {
            let deleted = storage.call("DELETE", "/storage/v1/b/shed").await;
            assert_eq!(deleted.status, 204);
        };
        let uri = format!("{OBJECTS}/cow/{method}/b/shed/o/calf");
        let (reply, ()) = stopped.during(storage.call("POST", &uri), meanwhile).await;
        reply.refusal(404, "notFound");
        storage.bucket("shed").await.resource();
        let calf = storage.call("GET", "/storage/v1/b/shed/o/calf").await;
        assert_eq!(calf.status, 404, "{method}");
    }
}

#[tokio::test]
async fn bucket_into_which_an_object_is_uploaded_meanwhile_is_not_deleted() {
    for paced in [Paced::in_memory().await, Paced::on_disk().await] {
        let stopped = paced.ledger.stop_at("storage/b/barn");
        let meanwhile = async {
            paced.storage.put("cow", LARGE).await;
        };
        let (reply, ()) = stopped
            .during(paced.storage.call("DELETE", BUCKET), meanwhile)
            .await;
        reply.refusal(409, "conflict");
        assert!(paced.storage.media("cow").await == LARGE);
    }
}
