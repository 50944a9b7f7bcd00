//! Google Drive.

use bytes::Bytes;
use serde_json::{Value, json};
use windlass_store::{Resource, Timestamp};

use crate::world::{ORIGIN, Peer as _, Reply, World};

mod depth;
mod listing;
mod parameters;
mod races;
mod refusals;

const FILES: &str = "/drive/v3/files";
const FOLDER: &str = "application/vnd.google-apps.folder";

fn drive() -> World {
    World::of("drive")
}

/// A file with media.
async fn file(drive: &World, metadata: &Value) -> String {
    let made = drive.multipart_by("POST", FILES, metadata, ("text/plain", b"llama"));
    made.await.field("id")
}

async fn folder(drive: &World, name: &str, parent: &str) -> String {
    let metadata = json!({"name": name, "mimeType": FOLDER, "parents": [parent]});
    drive.json("POST", FILES, &metadata).await.field("id")
}

async fn get(drive: &World, id: &str) -> Reply {
    drive.call("GET", &format!("{FILES}/{id}?fields=*")).await
}

async fn patch(drive: &World, id: &str, query: &str, changes: &Value) -> Reply {
    let uri = format!("{FILES}/{id}?fields=*{query}");
    drive.json("PATCH", &uri, changes).await
}

/// The names of the files that a query wants.
async fn names(drive: &World, query: &str) -> Vec<String> {
    let q = percent(query);
    let listed = drive
        .call("GET", &format!("{FILES}?q={q}&orderBy=name"))
        .await;
    let listed = listed.resource();
    let files = listed["files"].as_array().expect("files").iter();
    files
        .map(|file| file["name"].as_str().expect("a name").to_owned())
        .collect()
}

fn percent(text: &str) -> String {
    let bytes = text.bytes().map(|byte| format!("%{byte:02X}"));
    bytes.collect()
}

#[tokio::test]
async fn a_file_shows_four_fields_and_what_is_asked_for() {
    let drive = drive();

    let metadata = json!({"name": "llama.tar.gz", "description": "A llama.", "kind": "none"});
    let made = drive
        .multipart_by("POST", FILES, &metadata, ("text/plain", b"llama"))
        .await;
    let made = made.resource();
    let id = made["id"].as_str().unwrap();
    let short =
        json!({"kind": "drive#file", "id": id, "name": "llama.tar.gz", "mimeType": "text/plain"});
    assert_eq!(made, short);
    let link = format!("{ORIGIN}/drive/v3/files/{id}?alt=media");
    let expected = json!({
        "kind": "drive#file", "id": id, "name": "llama.tar.gz", "description": "A llama.",
        "mimeType": "text/plain", "parents": ["root"], "size": "5", "quotaBytesUsed": "5",
        "md5Checksum": "cb16cefd41d8c728b35361f776711ead", "sha256Checksum": "fc5a1047f5919892fcdf8aa79ea5d6bb6531b5c176939ef0110906cb225941c1",
        "webContentLink": link, "trashed": false, "explicitlyTrashed": false, "starred": false,
        "spaces": ["drive"], "ownedByMe": true, "shared": false,
        "fullFileExtension": "tar.gz", "fileExtension": "gz", "originalFilename": "llama.tar.gz",
    });
    let shown = get(&drive, id).await.resource();
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&shown[name], value, "{name}");
    }
    assert_eq!(shown["createdTime"], shown["modifiedTime"]);
    let media = drive.call("GET", link.strip_prefix(ORIGIN).unwrap()).await;
    assert_eq!(media.body, "llama");
}

#[tokio::test]
async fn a_file_has_a_name_and_the_type_that_is_stated_or_that_of_its_media() {
    let drive = drive();
    let made = drive.simple(FILES, "image/png", b"x").await.resource();
    assert_eq!(
        (&made["name"], &made["mimeType"]),
        (&json!("Untitled"), &json!("image/png"))
    );
    let stated = json!({"mimeType": "image/jpeg"});
    let made = drive
        .multipart_by("POST", FILES, &stated, ("image/png", b"x"))
        .await;
    let uri = format!("{FILES}/{}?alt=media", made.field("id"));
    assert_eq!(
        drive.call("GET", &uri).await.headers["content-type"],
        "image/jpeg"
    );
    let made = drive.json("POST", FILES, &json!({})).await;
    assert_eq!(made.field("mimeType"), "application/octet-stream");
    let uri = format!("{FILES}/{}?alt=media", made.field("id"));
    drive.call("GET", &uri).await.refusal(404, "notFound");
}

#[tokio::test]
async fn type_that_needs_conversion_is_refused_before_media_is_received() {
    let drive = drive();

    for media_type in [FOLDER, "application/vnd.google-apps.document"] {
        let metadata = json!({"mimeType": media_type});
        drive
            .resumable(FILES, &metadata, "text/plain", b"x")
            .await
            .refusal(400, "invalid");
    }
    let folder = folder(&drive, "farm", "root").await;
    let uri = format!("{FILES}/{folder}");
    let nothing = json!({});
    let filled = drive.multipart_by("PATCH", &uri, &nothing, ("text/plain", b"x"));
    filled.await.refusal(400, "invalid");
}

#[tokio::test]
async fn file_in_unknown_folder_is_refused() {
    let drive = drive();

    let nowhere = json!({"parents": ["nowhere"]});
    drive
        .resumable(FILES, &nowhere, "text/plain", b"x")
        .await
        .refusal(404, "notFound");
    drive
        .json("POST", FILES, &nowhere)
        .await
        .refusal(404, "notFound");
    let two = json!({"parents": ["root", "root"]});
    drive
        .json("POST", FILES, &two)
        .await
        .refusal(403, "cannotAddParent");
    let llama = file(&drive, &json!({})).await;
    let inside = json!({"parents": [llama]});
    drive
        .json("POST", FILES, &inside)
        .await
        .refusal(400, "invalid");
    assert_eq!(get(&drive, "root").await.field("mimeType"), FOLDER);
    patch(&drive, "root", "", &json!({"name": "x"}))
        .await
        .refusal(400, "failedPrecondition");
}

#[tokio::test]
async fn a_file_moves_from_one_folder_to_another() {
    let drive = drive();
    let farm = folder(&drive, "farm", "root").await;
    let llama = file(&drive, &json!({"name": "llama"})).await;
    let modified = get(&drive, &llama).await.field("modifiedTime");
    let both = format!("&addParents={farm}");
    patch(&drive, &llama, &both, &json!({}))
        .await
        .refusal(403, "cannotAddParent");
    patch(&drive, &llama, "", &json!({"parents": [farm]}))
        .await
        .refusal(403, "fieldNotWritable");
    let over = format!("&addParents={farm}&removeParents=root");
    let moved = patch(&drive, &llama, &over, &json!({})).await;
    assert_eq!(moved.resource()["parents"], json!([farm]));
    assert_eq!(
        moved.field("modifiedTime"),
        modified,
        "a move is no modification"
    );
    assert_eq!(
        names(&drive, &format!("'{farm}' in parents")).await,
        ["llama"]
    );
    assert_eq!(names(&drive, "'root' in parents").await, ["farm"]);
    let out = format!("&removeParents={farm}");
    assert_eq!(
        patch(&drive, &llama, &out, &json!({})).await.resource()["parents"],
        json!(["root"])
    );
}

#[tokio::test]
async fn a_folder_is_never_inside_of_itself_and_never_too_deep() {
    let drive = drive();
    let outer = folder(&drive, "outer", "root").await;
    let inner = folder(&drive, "inner", &outer).await;
    for into in [&outer, &inner] {
        let query = format!("&addParents={into}&removeParents=root");
        patch(&drive, &outer, &query, &json!({}))
            .await
            .refusal(400, "badRequest");
    }
    let mut deep = inner;
    for _ in 2..100 {
        deep = folder(&drive, "deep", &deep).await;
    }
    let metadata = json!({"mimeType": FOLDER, "parents": [deep]});
    drive
        .json("POST", FILES, &metadata)
        .await
        .refusal(403, "myDriveHierarchyDepthLimitExceeded");
}

#[tokio::test]
async fn clients_choose_ids_that_were_generated_for_them() {
    let drive = drive();
    let ids = drive
        .call("GET", "/drive/v3/files/generateIds?count=3")
        .await
        .resource();
    let ids = ids["ids"].as_array().unwrap();
    assert_eq!(ids.len(), 3);
    for id in ids {
        assert_eq!(file(&drive, &json!({"id": id})).await, id.as_str().unwrap());
        let again = drive.json("POST", FILES, &json!({"id": id})).await;
        again.refusal(409, "duplicate");
    }
    for id in [
        json!("a/b"),
        json!(""),
        json!("root"),
        json!(7),
        json!("x".repeat(101)),
    ] {
        let refused = drive.json("POST", FILES, &json!({"id": id})).await;
        refused.refusal(400, "invalid");
    }
    let many = drive
        .call("GET", "/drive/v3/files/generateIds?count=1001")
        .await;
    many.refusal(400, "invalidParameter");
}

#[tokio::test]
async fn an_update_changes_what_it_names_and_the_media_if_there_is_new_one() {
    let drive = drive();
    let metadata = json!({"name": "a", "description": "b", "properties": {"x": "1", "y": "2"}});
    let id = file(&drive, &metadata).await;
    let before = get(&drive, &id).await.resource();
    let changes = json!({"description": null, "properties": {"x": null, "z": "3"}, "name": null});
    let after = patch(&drive, &id, "", &changes).await.resource();
    assert_eq!(after["properties"], json!({"y": "2", "z": "3"}));
    assert_eq!(after["name"], "a", "a file never loses its name");
    assert_eq!(after.get("description"), None);
    assert!(after["modifiedTime"].as_str() > before["modifiedTime"].as_str());
    assert_eq!(after["md5Checksum"], before["md5Checksum"]);
    let uri = format!("{FILES}/{id}?fields=*");
    let times = json!({"modifiedTime": "2020-02-02T02:02:02+02:00"});
    let filled = drive
        .multipart_by("PATCH", &uri, &times, ("image/png", b"other"))
        .await
        .resource();
    assert_eq!(filled["mimeType"], "image/png");
    assert_eq!(filled["modifiedTime"], "2020-02-02T00:02:02.000Z");
    assert_ne!(filled["headRevisionId"], before["headRevisionId"]);
    let version = |file: &Value| file["version"].as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!(version(&filled), version(&before) + 2);
    let stated = json!({"mimeType": "image/gif"});
    let filled = drive
        .multipart_by("PATCH", &uri, &stated, ("image/png", b"other"))
        .await
        .resource();
    assert_eq!(filled["mimeType"], "image/gif");
    patch(&drive, &id, "", &json!({"mimeType": FOLDER}))
        .await
        .refusal(400, "invalid");
    patch(&drive, "none", "", &json!({}))
        .await
        .refusal(404, "notFound");
}

#[tokio::test]
async fn restriction_of_the_content_is_refused() {
    let drive = drive();
    let id = file(&drive, &json!({"name": "llama"})).await;
    for restriction in [
        json!({"readOnly": true}),
        json!({"readOnly": true, "reason": "done"}),
        json!({"readOnly": "true"}),
        json!({"readOnly": false, "ownerRestricted": true}),
    ] {
        let fields = json!({"contentRestrictions": [restriction]});
        let refused = patch(&drive, &id, "", &fields).await;
        refused.refusal(501, "notImplemented");
        let refused = drive.json("POST", FILES, &fields).await;
        refused.refusal(501, "notImplemented");
    }
    for harmless in [json!([]), json!([{"readOnly": false}]), Value::Null] {
        let fields = json!({"contentRestrictions": harmless});
        assert_eq!(
            patch(&drive, &id, "", &fields).await.status,
            200,
            "{fields}"
        );
    }
}

#[tokio::test]
async fn fields_of_the_wrong_shape_are_refused_by_name() {
    let drive = drive();
    let table = [
        ("name", json!(7)),
        ("starred", json!("yes")),
        ("modifiedTime", json!("noon")),
        ("parents", json!("root")),
        ("properties", json!({"x": 1})),
        ("properties", json!({"x": "y".repeat(124)})),
        ("description", json!("x".repeat(32 * 1024))),
    ];
    for (field, value) in table {
        let refused = drive.json("POST", FILES, &json!({field: value})).await;
        refused.refusal(400, "invalid");
        let text = String::from_utf8_lossy(&refused.body).into_owned();
        assert!(text.contains(&format!("field {field}:")), "{text}");
    }
}

#[tokio::test]
async fn what_is_in_a_trashed_folder_is_in_the_trash() {
    let drive = drive();
    let farm = folder(&drive, "farm", "root").await;
    let stable = folder(&drive, "stable", &farm).await;
    let llama = file(&drive, &json!({"name": "llama", "parents": [stable]})).await;
    file(&drive, &json!({"name": "stray"})).await;
    patch(&drive, &farm, "", &json!({"trashed": true}))
        .await
        .resource();
    let shown = get(&drive, &llama).await.resource();
    assert_eq!(
        (&shown["trashed"], &shown["explicitlyTrashed"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(names(&drive, "trashed = false").await, ["stray"]);
    assert_eq!(
        names(&drive, "trashed = true").await,
        ["farm", "llama", "stable"]
    );
    patch(&drive, &farm, "", &json!({"trashed": false}))
        .await
        .resource();
    assert_eq!(names(&drive, "trashed").await, [""; 0]);
    assert_eq!(
        drive.call("DELETE", "/drive/v3/files/trash").await.status,
        204
    );
    assert_eq!(
        names(&drive, "").await.len(),
        4,
        "what was taken out again stays"
    );
    patch(&drive, &farm, "", &json!({"trashed": true}))
        .await
        .resource();
    patch(&drive, &llama, "", &json!({"trashed": true}))
        .await
        .resource();
    assert_eq!(
        drive.call("DELETE", "/drive/v3/files/trash").await.status,
        204
    );
    assert_eq!(names(&drive, "").await, ["stray"]);
    for rows in ["drive/trash", &format!("drive/children/{farm}")] {
        assert_eq!(drive.count(rows).await, 0, "{rows}");
    }
}

#[tokio::test]
async fn a_folder_is_deleted_with_all_that_is_in_it() {
    let drive = drive();
    let farm = folder(&drive, "farm", "root").await;
    let stable = folder(&drive, "stable", &farm).await;
    let llama = file(&drive, &json!({"parents": [stable]})).await;
    let gone = drive.call("DELETE", &format!("{FILES}/{farm}")).await;
    assert_eq!((gone.status.as_u16(), gone.body), (204, Bytes::new()));
    for id in [&farm, &stable, &llama] {
        get(&drive, id).await.refusal(404, "notFound");
    }
    for rows in [
        "drive/files",
        "drive/children/root",
        &format!("drive/children/{stable}"),
    ] {
        assert_eq!(drive.count(rows).await, 0, "{rows}");
    }
    drive
        .call("DELETE", &format!("{FILES}/root"))
        .await
        .refusal(400, "failedPrecondition");
}

#[tokio::test]
async fn deletion_above_the_limit_deletes_nothing() {
    let drive = drive();
    let farm = folder(&drive, "farm", "root").await;
    let body = json!({"name": "llama", "parents": [farm]});
    drive
        .put((0..10_000).flat_map(|nth| many(&farm, &body, nth)))
        .await;
    let uri = format!("{FILES}/{farm}");
    drive
        .call("DELETE", &uri)
        .await
        .refusal(400, "failedPrecondition");
    get(&drive, "x00000").await.resource();
    assert_eq!(
        drive
            .call("DELETE", &format!("{FILES}/x00000"))
            .await
            .status,
        204
    );
    assert_eq!(drive.call("DELETE", &uri).await.status, 204);
    assert_eq!(drive.count("drive/files").await, 0);
}

/// A file and the row of the folder that it is in.
fn many(folder: &str, body: &Value, nth: usize) -> [Resource; 2] {
    let resource = |collection: String, body: &Value| Resource {
        collection,
        id: format!("x{nth:05}"),
        version: 1,
        body: body.to_string().into(),
        media: None,
        created: Timestamp::from_millis(0),
        updated: Timestamp::from_millis(0),
        due: None,
        claimed_by: None,
        owner: None,
    };
    let row = resource(format!("drive/children/{folder}"), &json!({}));
    [resource("drive/files".to_owned(), body), row]
}

#[tokio::test]
async fn a_copy_shares_the_media_and_outlives_its_source() {
    let drive = drive();
    let farm = folder(&drive, "farm", "root").await;
    let metadata =
        json!({"name": "llama", "starred": true, "description": "A llama.", "parents": [farm]});
    let source = file(&drive, &metadata).await;
    let copy = drive
        .json(
            "POST",
            &format!("{FILES}/{source}/copy?fields=*"),
            &json!({}),
        )
        .await;
    let shown = copy.resource();
    assert_eq!(shown["name"], "Copy of llama");
    assert_eq!(shown["parents"], json!([farm]));
    assert_eq!(shown["description"], "A llama.");
    assert_eq!(shown["starred"], false);
    assert_eq!(
        drive
            .call("DELETE", &format!("{FILES}/{source}"))
            .await
            .status,
        204
    );
    let uri = format!("{FILES}/{}?alt=media", copy.field("id"));
    assert_eq!(drive.call("GET", &uri).await.body, "llama");
    let folder = drive
        .json("POST", &format!("{FILES}/{farm}/copy"), &json!({}))
        .await;
    folder.refusal(403, "cannotCopyFile");
}

#[tokio::test]
async fn about_shows_the_upload_limit() {
    let about = drive()
        .call("GET", "/drive/v3/about?fields=*")
        .await
        .resource();
    assert_eq!(about["maxUploadSize"], "5497558138880");
    assert_eq!(about["user"]["me"], true);
}

#[tokio::test]
async fn a_published_document_gets_checksums_and_what_is_kept_with_files() {
    let method = |id: &str, http: &str, path: &str| {
        let variables = path
            .split('{')
            .skip(1)
            .map(|rest| rest.split('}').next().unwrap());
        let parameters = variables.map(|name| {
            let described = json!({"location": "path", "required": true, "type": "string"});
            (name.to_owned(), described)
        });
        let parameters: Value = parameters.collect::<serde_json::Map<_, _>>().into();
        json!({"id": id, "httpMethod": http, "path": path, "parameters": parameters})
    };
    let mut create = method("drive.files.create", "POST", "files");
    create["mediaUpload"] = json!({"accept": ["*/*"], "protocols": {
        "simple": {"multipart": true, "path": "/upload/drive/v3/files"},
    }});
    let mut share = method(
        "drive.permissions.create",
        "POST",
        "files/{fileId}/permissions",
    );
    share["request"] = json!({"$ref": "Permission"});
    share["response"] = json!({"$ref": "Permission"});
    let export = method("drive.files.export", "GET", "files/{fileId}/export");
    let drive = World::adopting(&json!({
        "name": "drive", "version": "v3", "servicePath": "drive/v3/",
        "schemas": {"Permission": {"type": "object", "properties": {"role": {"type": "string"}}}},
        "resources": {
            "files": {"methods": {"create": create, "export": export}},
            "permissions": {"methods": {"create": share}},
        },
    }));
    let uri = format!("{FILES}?fields=id,md5Checksum");
    let made = drive.simple(&uri, "text/plain", b"").await;
    assert_eq!(
        made.field("md5Checksum"),
        "d41d8cd98f00b204e9800998ecf8427e"
    );
    let id = made.field("id");
    let reader = json!({"role": "reader"});
    let shared = drive
        .json("POST", &format!("{FILES}/{id}/permissions"), &reader)
        .await;
    assert_eq!(shared.field("role"), "reader");
    let shared = drive
        .json("POST", &format!("{FILES}/none/permissions"), &reader)
        .await;
    shared.refusal(404, "notFound");
    let export = drive.call("GET", &format!("{FILES}/{id}/export")).await;
    export.refusal(501, "notImplemented");
}
