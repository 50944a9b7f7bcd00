//! Each parameter has the effect that its description promises: two values, two outcomes.

use super::{FILES, drive, file, json, patch, percent};
use crate::world::{Peer as _, World};

/// The names of the listed files, or the status of a refusal.
async fn list(drive: &World, query: &str) -> Result<Vec<String>, u16> {
    let reply = drive.call("GET", &format!("{FILES}?{query}")).await;
    if !reply.status.is_success() {
        return Err(reply.status.as_u16());
    }
    let listed = reply.resource();
    let files = listed["files"].as_array().expect("files").iter();
    let names = files.map(|file| file["name"].as_str().expect("a name").to_owned());
    Ok(names.collect())
}

#[tokio::test]
async fn parameters_of_a_list_select_and_sort() {
    let drive = drive();
    for name in ["b", "c", "a"] {
        file(&drive, &json!({"name": name})).await;
    }
    for (query, expected) in [
        ("orderBy=name", &["a", "b", "c"][..]),
        ("orderBy=name%20desc", &["c", "b", "a"]),
        ("orderBy=name&pageSize=1", &["a"]),
        ("orderBy=name&pageSize=2", &["a", "b"]),
        (&format!("q={}", percent("name = 'a'")), &["a"]),
        (&format!("q={}", percent("name = 'b'")), &["b"]),
    ] {
        let listed = list(&drive, query).await.expect("a list");
        assert_eq!(listed, expected, "{query}");
    }
    let uri = format!("{FILES}?orderBy=name&pageSize=2");
    let token = drive.call("GET", &uri).await.field("nextPageToken");
    let next = format!("orderBy=name&pageToken={token}");
    assert_eq!(list(&drive, &next).await.expect("a list"), ["c"]);
}

#[tokio::test]
async fn list_looks_at_the_users_drive_alone() {
    let drive = drive();
    file(&drive, &json!({"name": "mine"})).await;
    let flags = "includeItemsFromAllDrives=true&supportsAllDrives=true";
    let old_flags = "includeTeamDriveItems=TRUE&supportsTeamDrives=true";
    for (query, expected) in [
        ("", None),
        ("spaces=", None),
        ("spaces=drive", None),
        ("spaces=appDataFolder", Some(501)),
        ("spaces=appDataFolder,drive", Some(501)),
        ("spaces=photos", Some(400)),
        ("corpora=user", None),
        ("corpora=domain", Some(501)),
        ("corpora=none", Some(400)),
        ("corpus=user", None),
        ("corpus=domain", Some(501)),
        ("corpora=allDrives", Some(403)),
        (&format!("corpora=allDrives&{flags}"), None),
        (&format!("corpora=user,allTeamDrives&{flags}"), None),
        ("corpora=user,domain", Some(501)),
        (&format!("corpora=drive&{flags}"), Some(403)),
        (&format!("corpora=drive&driveId=x&{flags}"), Some(404)),
        (
            &format!("corpora=drive&teamDriveId=x&{old_flags}"),
            Some(404),
        ),
        ("driveId=x", Some(404)),
        ("driveId=", None),
        ("teamDriveId=x", Some(404)),
        ("includeItemsFromAllDrives=true", Some(403)),
        ("includeItemsFromAllDrives=false", None),
        ("includeTeamDriveItems=true", Some(403)),
        ("includeTeamDriveItems=false", None),
        ("supportsAllDrives=true", None),
        ("supportsTeamDrives=true", None),
        (flags, None),
        (old_flags, None),
    ] {
        let listed = list(&drive, query).await;
        let expected = expected.map_or_else(|| Ok(vec!["mine".to_owned()]), Err);
        assert_eq!(listed, expected, "{query}");
    }
}

#[tokio::test]
async fn parameters_of_other_calls_have_an_effect() {
    let drive = drive();
    let llama = file(&drive, &json!({"name": "llama"})).await;
    for (method, path, expected) in [
        ("GET", "generateIds?count=1", 200),
        ("GET", "generateIds?count=0", 400),
        ("GET", "generateIds?space=drive", 200),
        ("GET", "generateIds?space=appDataFolder", 501),
        ("GET", &format!("{llama}?acknowledgeAbuse=false"), 200),
        ("GET", &format!("{llama}?acknowledgeAbuse=true"), 403),
        (
            "GET",
            &format!("{llama}?acknowledgeAbuse=true&alt=media"),
            200,
        ),
        ("DELETE", "trash?driveId=x", 404),
        ("DELETE", "trash?driveId=", 204),
    ] {
        let reply = drive.call(method, &format!("{FILES}/{path}")).await;
        assert_eq!(reply.status, expected, "{method} {path}");
    }
    for count in [2, 7] {
        let uri = format!("{FILES}/generateIds?count={count}");
        let ids = drive.call("GET", &uri).await.resource()["ids"].clone();
        assert_eq!(ids.as_array().map(Vec::len), Some(count));
    }
}

#[tokio::test]
async fn trash_of_a_shared_drive_is_not_that_of_the_user() {
    let drive = drive();
    let llama = file(&drive, &json!({"name": "llama"})).await;
    patch(&drive, &llama, "", &json!({"trashed": true}))
        .await
        .resource();
    let emptied = drive
        .call("DELETE", &format!("{FILES}/trash?driveId=x"))
        .await;
    emptied.refusal(404, "notFound");
    assert_eq!(list(&drive, "").await, Ok(vec!["llama".to_owned()]));
}
