//! Calls on two servers over one ledger. The lock that a server has for its own calls does not
//! separate them.

use std::sync::Arc;

use serde_json::json;
use windlass_server::Stores;
use windlass_store::fault::PacedLedger;
use windlass_store::memory::{MemoryLedger, MemoryVault};

use super::{FILES, file, folder, get, patch};
use crate::world::{Peer as _, World};

/// Returns two servers over one ledger that both have open, as two processes do. The first has this
/// ledger, and calls on both meet after each lookup.
fn replicas() -> (World, Arc<PacedLedger>, World) {
    let (memory, vault) = (MemoryLedger::new(), MemoryVault::new());
    let other = Arc::new(PacedLedger::new(Arc::new(memory.of_another_process())));
    let ledger = Arc::new(PacedLedger::new(Arc::new(memory)));
    let over = |ledger| Stores {
        ledger,
        vault: Arc::new(vault.clone()),
    };
    let slow = World::over("drive", over(Arc::clone(&ledger) as _));
    let quick = World::over("drive", over(other));
    (slow, ledger, quick)
}

#[tokio::test]
async fn folders_that_are_moved_into_each_other_form_no_cycle() {
    let (slow, ledger, quick) = &replicas();
    let above = folder(quick, "above", "root").await;
    let left = folder(quick, "left", &above).await;
    let right = folder(quick, "right", &above).await;
    let inner = folder(quick, "inner", &right).await;
    // The first call has found that `left` is not above `inner` when it looks `above` up.
    let stopped = ledger.stop_at(&above);
    let into = |folder: &str| format!("&addParents={folder}&removeParents={above}");
    let nothing = json!({});
    let meanwhile = async {
        patch(quick, &right, &into(&left), &nothing)
            .await
            .resource();
    };
    let into_inner = into(&inner);
    let (reply, ()) = stopped
        .during(patch(slow, &left, &into_inner, &nothing), meanwhile)
        .await;
    reply.refusal(400, "badRequest");
    assert_eq!(
        get(quick, &left).await.resource()["parents"],
        json!([above])
    );
    assert_eq!(
        get(quick, &right).await.resource()["parents"],
        json!([left])
    );
}

/// Both calls look at all folders before one of them changes any.
#[tokio::test]
async fn two_moves_at_once_make_no_cycle() {
    let (one, _, other) = &replicas();
    let above = folder(one, "above", "root").await;
    let left = folder(one, "left", &above).await;
    let right = folder(one, "right", &above).await;
    let nothing = json!({});
    let into = |folder: &str| format!("&addParents={folder}&removeParents={above}");
    let (into_left, into_right) = (into(&left), into(&right));
    let (left_moved, right_moved) = tokio::join!(
        patch(one, &left, &into_right, &nothing),
        patch(other, &right, &into_left, &nothing),
    );
    let (done, refused, moved, stayed) = match left_moved.status.as_u16() {
        200 => (left_moved, right_moved, &left, &right),
        _ => (right_moved, left_moved, &right, &left),
    };
    assert_eq!(done.resource()["parents"], json!([stayed]), "{moved}");
    refused.refusal(400, "badRequest");
    assert_eq!(get(one, stayed).await.resource()["parents"], json!([above]));
}

#[tokio::test]
async fn file_in_a_folder_that_is_deleted_meanwhile_is_refused() {
    let (slow, ledger, quick) = &replicas();
    let above = folder(quick, "above", "root").await;
    let pen = folder(quick, "pen", &above).await;
    let uri = format!("{FILES}/{pen}");
    let metadata = json!({"id": "llama", "parents": [pen]});
    // The pen has been found when the folder above it is looked up.
    let stopped = ledger.stop_at(&above);
    let meanwhile = async {
        assert_eq!(quick.call("DELETE", &uri).await.status, 204);
    };
    let (reply, ()) = stopped
        .during(slow.json("POST", FILES, &metadata), meanwhile)
        .await;
    reply.refusal(404, "notFound");
    get(quick, "llama").await.refusal(404, "notFound");
}

#[tokio::test]
async fn file_that_is_put_into_a_folder_while_it_is_deleted_goes_with_it() {
    let (slow, ledger, quick) = &replicas();
    let pen = folder(quick, "pen", "root").await;
    let uri = format!("{FILES}/{pen}");
    let stopped = ledger.stop_at(&format!("drive/children/{pen}"));
    let meanwhile = async { file(quick, &json!({"parents": [pen]})).await };
    let (reply, llama) = stopped.during(slow.call("DELETE", &uri), meanwhile).await;
    assert_eq!(reply.status, 204, "{reply:?}");
    get(quick, &llama).await.refusal(404, "notFound");
}

#[tokio::test]
async fn file_that_is_moved_out_of_a_folder_while_it_is_deleted_survives() {
    let (slow, ledger, quick) = &replicas();
    let pen = folder(quick, "pen", "root").await;
    let safe = folder(quick, "safe", "root").await;
    let cow = file(quick, &json!({"name": "cow", "parents": [pen]})).await;
    let stopped = ledger.stop_at(&cow);
    let into_safe = format!("&addParents={safe}&removeParents={pen}");
    let meanwhile = async {
        let moved = patch(quick, &cow, &into_safe, &json!({})).await;
        moved.resource();
    };
    let uri = format!("{FILES}/{pen}");
    let (reply, ()) = stopped.during(slow.call("DELETE", &uri), meanwhile).await;
    assert_eq!(reply.status, 204, "{reply:?}");
    assert_eq!(get(quick, &cow).await.resource()["parents"], json!([safe]));
    get(quick, &pen).await.refusal(404, "notFound");
}

#[tokio::test]
async fn file_that_is_restored_while_the_trash_is_emptied_survives() {
    let (slow, ledger, quick) = &replicas();
    let cow = file(quick, &json!({"name": "cow"})).await;
    patch(quick, &cow, "", &json!({"trashed": true}))
        .await
        .resource();
    let stopped = ledger.stop_at(&cow);
    let meanwhile = async {
        let restored = patch(quick, &cow, "", &json!({"trashed": false})).await;
        restored.resource();
    };
    let uri = format!("{FILES}/trash");
    let (reply, ()) = stopped.during(slow.call("DELETE", &uri), meanwhile).await;
    assert_eq!(reply.status, 204, "{reply:?}");
    get(quick, &cow).await.resource();
}

#[tokio::test]
async fn deletion_of_a_folder_keeps_no_other_change_waiting() {
    let (server, ledger, _) = &replicas();
    let pen = folder(server, "pen", "root").await;
    let cow = file(server, &json!({"name": "cow", "parents": [pen]})).await;
    let stopped = ledger.stop_at(&cow);
    // This runs on the same server: the deletion must not hold the server's lock for all files.
    let meanwhile = async {
        let llama = file(server, &json!({"name": "llama"})).await;
        patch(server, &llama, "", &json!({"starred": true})).await
    };
    let uri = format!("{FILES}/{pen}");
    let (reply, changed) = stopped.during(server.call("DELETE", &uri), meanwhile).await;
    assert_eq!(changed.resource()["starred"], true);
    assert_eq!(reply.status, 204, "{reply:?}");
    get(server, &cow).await.refusal(404, "notFound");
}
