//! Creative assets of Campaign Manager 360.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use serde_json::{Value, json};
use windlass_testkit::images::{gif, jpeg, png};
use windlass_testkit::zip::{Packed, zip};

use crate::world::{Peer as _, Reply, World};

const ASSETS: &str = "/dfareporting/v5/userprofiles/1/creativeAssets/2/creativeAssets";
const STUDIO: &str = "/dfareporting/v5/studio/creativeAssets";

const PAGE: &str = r#"<!DOCTYPE html><html><head><meta name="ad.size" content="width=300,height=250">
<script>var clickTag = "https://shop.example/sale";</script></head>
<body><canvas></canvas><img src="logo.png"></body></html>"#;

fn world() -> World {
    World::of("dfareporting")
}

fn identifier(name: &str, asset_type: &str) -> Value {
    json!({"assetIdentifier": {"name": name, "type": asset_type}})
}

fn bundle() -> Vec<u8> {
    zip(&[
        Packed::new("index.html", PAGE.as_bytes()),
        Packed::new("logo.png", &png(10, 10)),
    ])
}

fn mp4() -> Vec<u8> {
    [b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom".as_slice(), &[7; 5000]].concat()
}

#[tokio::test]
async fn an_image_is_an_asset_in_every_version_and_by_every_way_to_upload() {
    let world = world();
    let metadata = identifier("logo.png", "HTML_IMAGE");
    for version in ["v4", "v5"] {
        let path = ASSETS.replace("v5", version);
        let image = png(300, 250);
        for reply in [
            world.multipart(&path, &metadata, "image/png", &image).await,
            world.resumable(&path, &metadata, "image/png", &image).await,
        ] {
            let asset = reply.resource();
            let id = asset["id"].as_str().unwrap();
            assert!(id.parse::<i64>().unwrap() > 0);
            assert_eq!(asset["kind"], "dfareporting#creativeAssetMetadata");
            assert_eq!(asset["assetIdentifier"]["type"], "HTML_IMAGE");
            assert_eq!(asset["richMedia"], false);
            let value = &asset["idDimensionValue"];
            assert_eq!(value["kind"], "dfareporting#dimensionValue");
            assert_eq!(
                (&value["id"], &value["value"]),
                (&asset["id"], &asset["id"])
            );
            assert_eq!(value["matchType"], "EXACT");
            // Fields that only files have are missing in this reply, but the asset has them.
            assert_eq!(asset["fileSize"], Value::Null);
            let kept = world.get(&format!("{path}/{id}")).await.resource();
            assert_eq!(
                kept["size"],
                json!({"kind": "dfareporting#size", "width": 300, "height": 250})
            );
            assert_eq!(kept["fileSize"], image.len().to_string());
            assert_eq!(kept["mimeType"], "image/png");
            let media = world.get(&format!("{path}/{id}?alt=media")).await;
            assert_eq!(media.body, image);
        }
    }
}

#[tokio::test]
async fn html_bundle_is_inspected() {
    let world = world();
    let metadata = identifier("banner.zip", "HTML");
    let reply = world
        .multipart(ASSETS, &metadata, "application/zip", &bundle())
        .await;
    let asset = reply.resource();
    let url = "https://shop.example/sale";
    let expected = json!([{
        "name": "clickTag", "eventName": "clickTag",
        "clickThroughUrl": {"customClickThroughUrl": url, "computedClickThroughUrl": url},
    }]);
    assert_eq!(asset["clickTags"], expected);
    assert_eq!(asset["detectedFeatures"], json!(["CANVAS", "POST_MESSAGE"]));
    assert_eq!(asset["warnedValidationRules"], json!([]));
    let id = asset["id"].as_str().unwrap();
    let kept = world.get(&format!("{ASSETS}/{id}")).await.resource();
    assert_eq!(kept["zipFilename"], "banner.zip");
    assert_eq!(kept["zipFilesize"], bundle().len().to_string());
    assert_eq!(kept["size"]["width"], 300);
}

#[tokio::test]
async fn a_page_alone_is_read_as_well() {
    let world = world();
    let page = PAGE.replace("var clickTag", "var other");
    let metadata = identifier("page.html", "HTML");
    let reply = world
        .multipart(ASSETS, &metadata, "text/html", page.as_bytes())
        .await;
    let rules = &reply.resource()["warnedValidationRules"];
    assert_eq!(
        *rules,
        json!(["CLICK_TAG_MISSING", "LINKED_FILE_NOT_FOUND"])
    );
}

#[tokio::test]
async fn each_type_takes_its_media_and_no_other() {
    let world = world();
    let media: [(&str, &str, Vec<u8>); 7] = [
        ("HTML_IMAGE", "png", png(3, 3)),
        ("HTML_IMAGE", "jpg", jpeg(3, 3)),
        ("HTML_IMAGE", "gif", gif(3, 3)),
        ("HTML", "zip", bundle()),
        ("VIDEO", "mp4", mp4()),
        ("AUDIO", "mp3", b"ID3\x04\0\0sound".to_vec()),
        ("FLASH", "swf", b"CWS\x0amovie".to_vec()),
    ];
    for (asset_type, suffix, bytes) in &media {
        let metadata = identifier(&format!("a.{suffix}"), asset_type);
        let reply = world.multipart(ASSETS, &metadata, "a/b", bytes).await;
        reply.resource();
        for (other, _, bytes) in media.iter().filter(|(other, ..)| other != asset_type) {
            let metadata = identifier("a", asset_type);
            let reply = world.multipart(ASSETS, &metadata, "a/b", bytes).await;
            let message = reply.refusal(400, "invalid");
            let named = format!("declared as an asset of the type {asset_type}");
            assert!(message.contains(&named), "{other}: {message}");
        }
    }
}

#[tokio::test]
async fn an_upload_without_a_sound_identifier_is_refused_before_its_media() {
    let world = world();
    let reply = world.simple(ASSETS, "image/png", &png(1, 1)).await;
    let message = reply.refusal(400, "required");
    assert!(message.contains("assetIdentifier"), "{message}");
    let table = [
        (json!({}), "required"),
        (json!({"assetIdentifier": {"name": "a.png"}}), "required"),
        (identifier("a.png", "PICTURE"), "invalid"),
        (identifier("a/b.png", "HTML_IMAGE"), "invalid"),
        (identifier("a.html", "HTML_IMAGE"), "invalid"),
        (json!({"assetIdentifier": "a.png"}), "invalid"),
    ];
    for (metadata, reason) in table {
        // No session is started for it.
        let uri = format!("/upload{ASSETS}?uploadType=resumable");
        let headers = [("content-type", "application/json")];
        let reply = world
            .send("POST", &uri, &headers, metadata.to_string())
            .await;
        reply.refusal(400, reason);
    }
}

#[tokio::test]
async fn ids_in_the_path_are_numbers() {
    let world = world();
    let metadata = identifier("a.png", "HTML_IMAGE");
    for advertiser in ["two", "0", "-2", "99999999999999999999"] {
        let path = ASSETS.replace("/2/", &format!("/{advertiser}/"));
        let reply = world
            .multipart(&path, &metadata, "image/png", &png(1, 1))
            .await;
        reply.refusal(400, "invalidParameter");
    }
    let reply = world.get(&format!("{ASSETS}/12345")).await;
    reply.refusal(404, "notFound");
}

#[tokio::test]
async fn a_name_that_is_taken_gets_a_number() {
    let world = world();
    let insert = |name: &'static str, advertiser: &'static str| {
        let (world, metadata) = (&world, identifier(name, "HTML_IMAGE"));
        let path = ASSETS.replace("/2/", &format!("/{advertiser}/"));
        async move {
            let reply = world
                .multipart(&path, &metadata, "image/png", &png(1, 1))
                .await;
            let asset = reply.resource();
            asset["assetIdentifier"]["name"]
                .as_str()
                .unwrap()
                .to_owned()
        }
    };
    assert_eq!(insert("logo.png", "2").await, "logo.png");
    assert_eq!(insert("logo.png", "2").await, "logo_2.png");
    assert_eq!(insert("logo.png", "2").await, "logo_3.png");
    // A client may have chosen such a numbered name itself.
    assert_eq!(insert("logo_4.png", "2").await, "logo_4.png");
    assert_eq!(insert("logo.png", "2").await, "logo_5.png");
    // Another advertiser has separate names.
    assert_eq!(insert("logo.png", "3").await, "logo.png");
}

/// There are more uploads than numbers that are searched.
#[tokio::test]
async fn many_assets_of_one_name_at_the_same_time_all_get_a_name() {
    let world = world();
    let metadata = identifier("logo.png", "HTML_IMAGE");
    let image = png(1, 1);
    let insert = || world.multipart(ASSETS, &metadata, "image/png", &image);
    let replies = join_all((0..120).map(|_| insert())).await;
    let name = |reply: &Reply| reply.resource()["assetIdentifier"]["name"].to_string();
    let names: BTreeSet<_> = replies.iter().map(name).collect();
    assert_eq!(names.len(), 120);
    assert!(names.contains("\"logo_120.png\""));
}

#[tokio::test]
async fn bombs_and_unsafe_archives_are_refused_and_leave_nothing() {
    let world = world();
    let page = Packed::new("index.html", PAGE.as_bytes());
    let with = |file: Packed| zip(&[page.clone(), file]);
    let mut liar = Packed::new("zeros", &vec![0; 4 * 1024 * 1024]);
    liar.unpacked = 10;
    let mut encrypted = Packed::new("a.js", b"x");
    encrypted.flags = 1;
    let table = [
        (
            with(Packed::new("zeros.png", &vec![0; 4 * 1024 * 1024])),
            "unpacks to 200 times",
        ),
        (with(liar), "not as long as it is said to be"),
        (with(encrypted), "is encrypted"),
        (with(Packed::new("../up.js", b"x")), "unsafe name"),
        (
            with(Packed::new("inner.png", &bundle())),
            "is a ZIP archive itself",
        ),
        (zip(&vec![page.clone(); 1001]), "1001 files"),
        (b"PK\x03\x04 cut off".to_vec(), "no list of its files"),
    ];
    for (archive, expected) in table {
        let metadata = identifier("banner.zip", "HTML");
        let reply = world
            .multipart(ASSETS, &metadata, "application/zip", &archive)
            .await;
        let message = reply.refusal(400, "invalid");
        assert!(message.contains(expected), "{message}, not {expected}");
    }
    let metadata = identifier("huge.png", "HTML_IMAGE");
    let bomb = png(60_000, 60_000);
    let reply = world.resumable(ASSETS, &metadata, "image/png", &bomb).await;
    let message = reply.refusal(400, "invalid");
    assert!(message.contains("60000 x 60000 pixels"), "{message}");
    // Its name is still free.
    let metadata = identifier("banner.zip", "HTML");
    let reply = world
        .multipart(ASSETS, &metadata, "application/zip", &bundle())
        .await;
    assert_eq!(reply.resource()["assetIdentifier"]["name"], "banner.zip");
}

#[tokio::test]
async fn metadata_alone_makes_no_asset() {
    let world = world();
    let headers = [("content-type", "application/json")];
    let metadata = identifier("a.png", "HTML_IMAGE").to_string();
    let reply = world.send("POST", ASSETS, &headers, metadata).await;
    let message = reply.refusal(400, "invalid");
    assert!(message.contains("the upload URI"), "{message}");
}

#[tokio::test]
async fn studio_takes_any_file_of_an_advertiser() {
    let world = world();
    let table: [(Vec<u8>, &str); 4] = [
        (png(3, 3), "IMAGE"),
        (mp4(), "VIDEO"),
        (b"wOF2\0\x01\0\0".to_vec(), "FONT"),
        (b"anything".to_vec(), "UNKNOWN_TYPE"),
    ];
    for (bytes, expected) in table {
        let metadata = json!({"studioAdvertiserId": "7", "studioCreativeId": 8});
        let reply = world.multipart(STUDIO, &metadata, "a/b", &bytes).await;
        let asset = reply.resource()["assets"][0].clone();
        assert_eq!(asset["type"], expected);
        assert_eq!(asset["filesize"], bytes.len().to_string());
        assert_eq!(
            (&asset["studioAdvertiserId"], &asset["studioCreativeId"]),
            (&json!("7"), &json!("8"))
        );
        assert_eq!(asset["createInfo"], asset["lastModifiedInfo"]);
    }
    let reply = world.simple(STUDIO, "image/png", &png(3, 3)).await;
    let message = reply.refusal(400, "required");
    assert!(message.contains("studioAdvertiserId"), "{message}");
}

/// Returns a document like the published one of an older version. Its reply has no `richMedia`.
fn published(version: &str, method: &str) -> Value {
    let path = "userprofiles/{+profileId}/creativeAssets/{+advertiserId}/creativeAssets";
    let (collection, http_method) = method.split_once('.').expect("a collection and a verb");
    let id = json!({"type": "string", "format": "int64", "location": "path", "required": true, "pattern": "^[^/]+$"});
    json!({
        "name": "dfareporting", "version": version, "servicePath": format!("dfareporting/{version}/"),
        "schemas": {
            "CreativeAssetId": {"id": "CreativeAssetId", "type": "object"},
            "CreativeAssetMetadata": {"id": "CreativeAssetMetadata", "type": "object", "properties": {
                "assetIdentifier": {"$ref": "CreativeAssetId"},
                "id": {"type": "string", "format": "int64"},
                "kind": {"type": "string"},
            }},
        },
        "resources": {collection: {"methods": {http_method: {
            "id": format!("dfareporting.{method}"), "httpMethod": "POST", "path": path,
            "parameters": {"profileId": id, "advertiserId": id},
            "request": {"$ref": "CreativeAssetMetadata"},
            "response": {"$ref": "CreativeAssetMetadata"},
            "supportsMediaUpload": true,
            "mediaUpload": {
                "accept": ["*/*"], "maxSize": "1073741824",
                "protocols": {"simple": {"multipart": true, "path": format!("/upload/dfareporting/{version}/{path}")}},
            },
        }}}},
    })
}

#[tokio::test]
async fn published_documents_of_older_versions_are_served_alike() {
    for (version, method) in [("v3.3", "creativeAssets.insert"), ("v3.5", "media.upload")] {
        let world = World::adopting(&published(version, method));
        let path = ASSETS.replace("v5", version);
        let metadata = json!({
            "assetIdentifier": {"name": "logo.png", "type": "HTML_IMAGE"},
            "mediaRequestInfo": {"totalBytes": "7"},
            "mediaResponseInfo": {"requestClass": "x"},
        });
        let reply = world
            .multipart(&path, &metadata, "image/png", &png(4, 5))
            .await;
        let asset = reply.resource();
        let fields: Vec<_> = asset.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["kind", "assetIdentifier", "id"]);
        let id = asset["id"].as_str().unwrap();
        let kept = world.get(&format!("{path}/{id}")).await.resource();
        assert_eq!(kept["size"]["height"], 5);
    }
}

#[tokio::test]
async fn refusals_are_those_of_the_table() {
    let page = include_str!("../../../../docs/apis/dfareporting.md");
    let world = world();
    let insert = async |metadata: Value, media: &[u8]| {
        world.multipart(ASSETS, &metadata, "a/b", media).await
    };
    let of_advertiser = ASSETS.replace("/2/", "/two/");
    let named = identifier("a.png", "HTML_IMAGE");
    let uploaded = format!("{ASSETS}?uploadType=media");
    let cases = [
        ("no `assetIdentifier`", insert(json!({}), b"x").await),
        (
            "an `assetIdentifier` without `type`",
            insert(json!({"assetIdentifier": {"name": "a.png"}}), b"x").await,
        ),
        (
            "a name with a slash",
            insert(identifier("a/b.png", "HTML_IMAGE"), b"x").await,
        ),
        (
            "a suffix of another type",
            insert(identifier("a.html", "HTML_IMAGE"), b"x").await,
        ),
        (
            "an unknown type",
            insert(identifier("a.png", "PICTURE"), b"x").await,
        ),
        ("bytes of another type", insert(named.clone(), b"moo").await),
        (
            "a malformed `advertiserId`",
            world.json("POST", &of_advertiser, &named).await,
        ),
        (
            "an asset without media",
            world.json("POST", ASSETS, &named).await,
        ),
        (
            "`uploadType` at the path without `/upload`",
            world.json("POST", &uploaded, &named).await,
        ),
        (
            "an unknown asset",
            world.get(&format!("{ASSETS}/12345")).await,
        ),
        (
            "a file for Studio without an advertiser",
            world.multipart(STUDIO, &json!({}), "a/b", b"x").await,
        ),
    ];
    crate::refusals::check_page(page, &cases);
}
