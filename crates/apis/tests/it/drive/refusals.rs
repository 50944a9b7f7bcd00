//! The refusals of docs/apis/drive.md.

use super::{FILES, FOLDER, drive, file, folder, json, many, patch, percent};
use crate::refusals::check_page;
use crate::world::{Peer as _, Reply, World};

const PAGE: &str = include_str!("../../../../../docs/apis/drive.md");

async fn list(drive: &World, query: &str) -> Reply {
    drive.call("GET", &format!("{FILES}?{query}")).await
}

async fn create(drive: &World, query: &str, metadata: serde_json::Value) -> Reply {
    let uri = format!("{FILES}?{query}");
    drive.json("POST", &uri, &metadata).await
}

/// Refusals of files, folders and their media.
#[expect(clippy::too_many_lines, reason = "a table of refusals")]
async fn of_files(drive: &World) -> Vec<(&'static str, Reply)> {
    let pen = folder(drive, "pen", "root").await;
    let llama = file(drive, &json!({"name": "llama", "id": "llama"})).await;
    let bare = create(drive, "", json!({"name": "bare"})).await.field("id");
    let crowd = folder(drive, "crowd", "root").await;
    let body = json!({"name": "cow", "parents": [crowd]});
    drive
        .put((0..10_000).flat_map(|nth| many(&crowd, &body, nth)))
        .await;
    let get = |path: String| async move { drive.call("GET", &format!("{FILES}/{path}")).await };
    let copied = format!("{FILES}/{pen}/copy");
    vec![
        ("an unknown `fileId`", get("none".into()).await),
        (
            "an unknown parent",
            create(drive, "", json!({"parents": ["none"]})).await,
        ),
        (
            "a file as parent",
            create(drive, "", json!({"parents": [llama]})).await,
        ),
        (
            "two parents of a new file",
            create(drive, "", json!({"parents": [pen, "root"]})).await,
        ),
        (
            "`addParents` without `removeParents`",
            patch(drive, &llama, &format!("&addParents={pen}"), &json!({})).await,
        ),
        (
            "`parents` in an update",
            patch(drive, &llama, "", &json!({"parents": [pen]})).await,
        ),
        (
            "a folder moved into itself",
            patch(
                drive,
                &pen,
                &format!("&addParents={pen}&removeParents=root"),
                &json!({}),
            )
            .await,
        ),
        (
            "an existing `id`",
            create(drive, "", json!({"id": "llama"})).await,
        ),
        (
            "an `id` of other characters",
            create(drive, "", json!({"id": "a/b"})).await,
        ),
        (
            "a copy of a folder",
            drive.json("POST", &copied, &json!({})).await,
        ),
        (
            "a change of `root`",
            patch(drive, "root", "", &json!({"name": "x"})).await,
        ),
        (
            "`alt=media` of a folder",
            get(format!("{pen}?alt=media")).await,
        ),
        (
            "`alt=media` of another file without media",
            get(format!("{bare}?alt=media")).await,
        ),
        (
            "`acknowledgeAbuse=true` without `alt=media`",
            get("llama?acknowledgeAbuse=True".into()).await,
        ),
        (
            "`export` of a file with media",
            get("llama/export?mimeType=application/pdf".into()).await,
        ),
        (
            "`export` of a folder",
            get(format!("{pen}/export?mimeType=text/html")).await,
        ),
        (
            "`export` without `mimeType`",
            get("llama/export".into()).await,
        ),
        (
            "`uploadType` at the path without `/upload`",
            patch(drive, &llama, "&uploadType=media", &json!({"name": "x"})).await,
        ),
        (
            "a folder with too many files to delete",
            drive.call("DELETE", &format!("{FILES}/{crowd}")).await,
        ),
    ]
}

/// Refusals of lists, and of other calls that say where they look.
#[expect(clippy::too_many_lines, reason = "a table of refusals")]
async fn of_lists(drive: &World) -> Vec<(&'static str, Reply)> {
    for name in ["a", "b"] {
        file(drive, &json!({"name": name})).await;
    }
    let token = list(drive, "pageSize=1&orderBy=name").await.resource()["nextPageToken"].clone();
    let token = token.as_str().expect("there is another page");
    let ids = |query: &'static str| async move {
        drive
            .call("GET", &format!("{FILES}/generateIds?{query}"))
            .await
    };
    let other_q = format!(
        "pageToken={token}&orderBy=name&q={}",
        percent("trashed = false")
    );
    let emptied = format!("{FILES}/trash?driveId=0ANone");
    let both = "includeItemsFromAllDrives=true&supportsAllDrives=true";
    vec![
        (
            "`about.get` without `fields`",
            drive.call("GET", "/drive/v3/about").await,
        ),
        ("a malformed `q`", list(drive, "q=name").await),
        (
            "an unknown key in `orderBy`",
            list(drive, "orderBy=size").await,
        ),
        ("a made-up `pageToken`", list(drive, "pageToken=none").await),
        ("a `pageToken` of another `q`", list(drive, &other_q).await),
        (
            "a `pageToken` of another `orderBy`",
            list(drive, &format!("pageToken={token}&orderBy=createdTime")).await,
        ),
        ("`pageSize=0`", list(drive, "pageSize=0").await),
        ("`pageSize=NOPE`", list(drive, "pageSize=NOPE").await),
        ("`count=1001`", ids("count=1001").await),
        ("`space=appDataFolder`", ids("space=appDataFolder").await),
        ("an unknown `type`", ids("type=animals").await),
        (
            "`spaces=appDataFolder`",
            list(drive, "spaces=drive,appDataFolder").await,
        ),
        (
            "`spaces` with an unknown one",
            list(drive, "spaces=drive,attic").await,
        ),
        (
            "a file in `appDataFolder`",
            create(drive, "", json!({"parents": ["appDataFolder"]})).await,
        ),
        (
            "`driveId`",
            list(drive, &format!("corpora=drive&driveId=0ANone&{both}")).await,
        ),
        ("`teamDriveId`", list(drive, "teamDriveId=0ANone").await),
        (
            "`driveId` of `emptyTrash`",
            drive.call("DELETE", &emptied).await,
        ),
        ("`corpora=domain`", list(drive, "corpora=domain").await),
        (
            "an unknown `corpora`",
            list(drive, "corpora=everything").await,
        ),
        (
            "`corpora=allDrives` alone",
            list(drive, "corpora=allDrives").await,
        ),
        (
            "`corpora=drive` without `driveId`",
            list(drive, &format!("corpora=drive&{both}")).await,
        ),
        (
            "`includeItemsFromAllDrives` alone",
            list(drive, "includeItemsFromAllDrives=True").await,
        ),
    ]
}

/// Refusals of parameters that no call may have.
async fn of_parameters(drive: &World) -> Vec<(&'static str, Reply)> {
    let cow = file(drive, &json!({"name": "cow"})).await;
    let copied = format!("{FILES}/{cow}/copy?copyComments=true");
    vec![
        ("`includeLabels`", list(drive, "includeLabels=x").await),
        (
            "`includePermissionsForView`",
            list(drive, "includePermissionsForView=published").await,
        ),
        (
            "`keepRevisionForever=true`",
            create(drive, "keepRevisionForever=true", json!({})).await,
        ),
        (
            "`useContentAsIndexableText=true`",
            create(drive, "useContentAsIndexableText=true", json!({})).await,
        ),
        (
            "`copyComments=true`",
            drive.json("POST", &copied, &json!({})).await,
        ),
    ]
}

#[tokio::test]
async fn refusals_are_those_of_the_table() {
    let drive = drive();
    let mut deep = "root".to_owned();
    for _ in 0..100 {
        deep = folder(&drive, "deep", &deep).await;
    }
    let too_deep = create(&drive, "", json!({"mimeType": FOLDER, "parents": [deep]})).await;
    let mut cases = vec![("a folder below 100 others", too_deep)];
    cases.extend(Box::pin(of_files(&drive)).await);
    // These cases need a separate Drive, because the first one has too many files to be sorted.
    let drive = self::drive();
    cases.extend(Box::pin(of_lists(&drive)).await);
    cases.extend(of_parameters(&drive).await);
    check_page(PAGE, &cases);
}
