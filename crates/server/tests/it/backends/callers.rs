//! Callers of backends: owners, batches, and calls that authorization refuses.

use http::Request;
use windlass_server::Principal;

use super::*;
use crate::world::Body;

/// The requests of one principal.
struct Caller<'a>(&'a World, &'static str);

impl crate::world::Peer for Caller<'_> {
    const ORIGIN: &'static str = World::ORIGIN;

    async fn try_exchange(&self, mut request: Request<Body>) -> Reply {
        request.extensions_mut().insert(Principal::new(self.1));
        self.0.try_exchange(request).await
    }
}

fn owned(services: &Arc<Services>, ledger: &Arc<MemoryLedger>) -> World {
    let text = ALBUM.replacen("version", "access = \"owner\"\nversion", 1);
    album_of(&text, services, ledger)
}

#[tokio::test]
async fn backend_sees_and_changes_only_what_its_caller_owns() {
    let services = services(|_, got| Ok(likes_plus_one(got)));
    let album = owned(&services, &Arc::default());
    let (ann, bob) = (Caller(&album, "ann"), Caller(&album, "bob"));
    let made = ann.json("POST", PHOTOS, &json!({"title": "cow"})).await;
    let photo = format!("{PHOTOS}/{}", made.field("id"));
    let (like, nothing) = (format!("{photo}:like"), json!({}));
    let refusal = bob.json("POST", &like, &nothing).await;
    refused(&refusal, 404, "notFound", "was not found");
    let liked = ann.json("POST", &like, &nothing).await;
    assert_eq!(
        (liked.status.as_u16(), &liked.json()["likes"]),
        (200, &json!(1))
    );
    assert_eq!(ann.get(&photo).await.json()["likes"], 1);
    let got = services.got.lock().expect("no panic");
    assert_eq!(got.len(), 1, "bob's call is forwarded to nobody");
    assert_eq!(got[0].body["principal"], "ann");
}

#[tokio::test]
async fn event_of_an_owner_names_it() {
    let ledger = Arc::new(MemoryLedger::default());
    let album = owned(&services(|_, _| Ok((204, String::new()))), &ledger);
    let ann = Caller(&album, "ann");
    let made = ann.simple(PHOTOS, "image/png", b"a cow").await;
    assert_eq!(made.status, 200, "{made:?}");
    let rows = ledger.resources(EVENTS, None, 10).await.expect("it reads");
    let row: Value = serde_json::from_slice(&rows[0].body).expect("JSON");
    assert_eq!(row["payload"]["event"]["data"]["principal"], "ann");
}

#[tokio::test]
async fn calls_in_a_batch_are_forwarded_one_after_the_other() {
    let services = services(|_, got| Ok(likes_plus_one(got)));
    let album = album(&services, &Arc::default());
    let photo = photo(&album).await;
    let call =
        format!("--b\r\nContent-Type: application/http\r\n\r\nPOST {photo}:like HTTP/1.1\r\n\r\n");
    let body = format!("{call}{call}--b--");
    let headers = [("content-type", "multipart/mixed; boundary=b")];
    let reply = album.send("POST", "/batch/album/v1", &headers, body).await;
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    assert_eq!(text.matches("HTTP/1.1 200").count(), 2, "{text}");
    assert_eq!(album.get(&photo).await.json()["likes"], 2);
    let got = services.got.lock().expect("no panic");
    assert_ne!(got[0].id, got[1].id, "they are two calls");
}

#[tokio::test]
async fn condition_that_is_not_met_is_refused_before_the_service_is_asked() {
    let services = services(|_, got| Ok(likes_plus_one(got)));
    let album = album(&services, &Arc::default());
    let photo = photo(&album).await;
    let etag = album.get(&photo).await.field("etag");
    let like = format!("{photo}:like");
    for (etag, status) in [("\"other\"", 412), (&*etag, 200), (&*etag, 412)] {
        let headers = [("if-match", etag)];
        let reply = album.send("POST", &like, &headers, "").await;
        assert_eq!(reply.status, status, "{etag}: {reply:?}");
    }
    assert_eq!(services.got.lock().expect("no panic").len(), 1);
}
