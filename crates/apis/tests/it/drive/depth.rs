//! Folders nest at most 100 deep, also after a move.

use super::{FOLDER, drive, file, folder, get, json, many, patch};

#[tokio::test]
async fn folder_that_is_moved_keeps_the_depth_of_all_in_it() {
    let drive = drive();
    let mut shaft = folder(&drive, "shaft", "root").await;
    for _ in 1..97 {
        shaft = folder(&drive, "shaft", &shaft).await;
    }
    let tree = folder(&drive, "tree", "root").await;
    let branch = folder(&drive, "branch", &tree).await;
    file(&drive, &json!({"name": "leaf", "parents": [branch]})).await;
    let into = format!("&addParents={shaft}&removeParents=root");
    let moved = patch(&drive, &tree, &into, &json!({})).await.resource();
    assert_eq!(
        moved["parents"],
        json!([shaft]),
        "99 folders are above the leaf"
    );
    let back = format!("&addParents=root&removeParents={shaft}");
    patch(&drive, &tree, &back, &json!({})).await.resource();
    let twig = folder(&drive, "twig", &branch).await;
    patch(&drive, &tree, &into, &json!({})).await.resource();
    patch(&drive, &tree, &back, &json!({})).await.resource();
    folder(&drive, "bud", &twig).await;
    patch(&drive, &tree, &into, &json!({}))
        .await
        .refusal(403, "myDriveHierarchyDepthLimitExceeded");
    assert_eq!(
        get(&drive, &tree).await.resource()["parents"],
        json!(["root"])
    );
}

/// Rows of the index of a folder that earlier versions wrote do not say which files are folders.
#[tokio::test]
async fn depth_counts_folders_of_earlier_versions() {
    let drive = drive();
    let mut shaft = folder(&drive, "shaft", "root").await;
    for _ in 1..98 {
        shaft = folder(&drive, "shaft", &shaft).await;
    }
    let tree = folder(&drive, "tree", "root").await;
    let inside = |kind: &str| json!({"name": "old", "parents": [tree], "mimeType": kind});
    drive.put(many(&tree, &inside("text/plain"), 1)).await;
    let into = format!("&addParents={shaft}&removeParents=root");
    let back = format!("&addParents=root&removeParents={shaft}");
    patch(&drive, &tree, &into, &json!({})).await.resource();
    patch(&drive, &tree, &back, &json!({})).await.resource();
    drive.put(many(&tree, &inside(FOLDER), 2)).await;
    drive
        .put(many(
            "x00002",
            &json!({"name": "older", "parents": ["x00002"], "mimeType": FOLDER}),
            3,
        ))
        .await;
    patch(&drive, &tree, &into, &json!({}))
        .await
        .refusal(403, "myDriveHierarchyDepthLimitExceeded");
}
