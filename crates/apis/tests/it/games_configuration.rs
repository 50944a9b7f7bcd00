//! Images of Play Games.

use serde_json::{Value, json};
use windlass_testkit::images::{gif, jpeg, png};

use crate::world::{Peer as _, Reply, World};

const NAME: &str = "gamesConfiguration";
const ICON: &str = "/games/v1configuration/images/res-1/imageType/ACHIEVEMENT_ICON";

fn world() -> World {
    World::of(NAME)
}

fn other_type(image_type: &str) -> String {
    ICON.replace("ACHIEVEMENT_ICON", image_type)
}

/// The image that the reply's `url` serves.
async fn shown(world: &World, reply: &Reply) -> Reply {
    let url = reply.resource()["url"].as_str().expect("a URL").to_owned();
    let image = world.get(&url).await;
    assert_eq!(image.status, 200, "{image:?}");
    image
}

#[tokio::test]
async fn an_image_is_served_at_the_url_of_the_reply() {
    let world = world();
    let image = png(512, 512);
    let reply = world.simple(ICON, "image/png", &image).await;
    assert_eq!(reply.status, 200);
    let expected = json!({
        "kind": "gamesConfiguration#imageConfiguration",
        "url": format!("{}{ICON}?alt=media", crate::world::ORIGIN),
        "resourceId": "res-1",
        "imageType": "ACHIEVEMENT_ICON",
    });
    assert_eq!(reply.json(), expected);
    let served = shown(&world, &reply).await;
    assert_eq!(served.body, image);
    assert_eq!(served.headers["content-type"], "image/png");
    assert_eq!(world.get(ICON).await.json(), expected);
}

#[tokio::test]
async fn every_way_to_upload_takes_an_image() {
    let world = world();
    let image = jpeg(300, 300);
    let metadata = json!({"kind": "gamesConfiguration#imageConfiguration"});
    let multipart = world.multipart(ICON, &metadata, "image/jpeg", &image).await;
    assert_eq!(shown(&world, &multipart).await.body, image);
    let session = other_type("LEADERBOARD_ICON");
    let resumable = world
        .resumable(&session, &json!({}), "image/jpeg", &image)
        .await;
    assert_eq!(
        resumable.status, 201,
        "the protocol's status of what was created"
    );
    assert_eq!(shown(&world, &resumable).await.body, image);
}

#[tokio::test]
async fn another_image_takes_the_place_of_the_first_at_the_same_url() {
    let world = world();
    let first = world.simple(ICON, "image/png", &png(1, 1)).await;
    let before = shown(&world, &first).await;
    let second = world.simple(ICON, "image/jpeg", &jpeg(2, 2)).await;
    assert_eq!(first.json()["url"], second.json()["url"]);
    let after = shown(&world, &second).await;
    assert_eq!(after.body, jpeg(2, 2));
    assert_eq!(after.headers["content-type"], "image/jpeg");
    // Caches must therefore revalidate, and learn by the new tag that their copy is stale.
    assert_eq!(after.headers["cache-control"], "no-cache");
    assert_ne!(before.headers["etag"], after.headers["etag"]);
    // Other types and other resources keep theirs.
    let other = other_type("LEADERBOARD_ICON");
    world.get(&other).await.refusal(404, "notFound");
}

#[tokio::test]
async fn the_type_of_the_image_is_one_of_two() {
    let world = world();
    for image_type in ["IMAGE_TYPE_UNSPECIFIED", "BANNER", "achievement_icon"] {
        let path = other_type(image_type);
        let reply = world.simple(&path, "image/png", &png(1, 1)).await;
        let message = reply.refusal(400, "invalidParameter");
        assert!(message.contains("LEADERBOARD_ICON"), "{message}");
    }
}

#[tokio::test]
async fn invalid_or_wrongly_declared_image_is_refused() {
    let world = world();
    let mut damaged = png(512, 512);
    damaged[30] ^= 1;
    let bomb = png(30_000, 30_000);
    let cut_off = &png(512, 512)[..60];
    let table: [(&str, &[u8], &str); 8] = [
        ("image/png", b"", "not a PNG, JPEG or GIF"),
        ("image/png", b"not an image", "not a PNG, JPEG or GIF"),
        (
            "image/webp",
            b"RIFF\x10\0\0\0WEBPVP8 ",
            "not a PNG, JPEG or GIF",
        ),
        (
            "image/png",
            &jpeg(1, 1),
            "a JPEG image, declared as image/png",
        ),
        (
            "image/gif",
            &gif(1, 1),
            "a GIF image; an icon is a PNG or a JPEG",
        ),
        ("image/png", &damaged, "checksum"),
        ("image/png", cut_off, "cut off"),
        ("image/png", &bomb, "30000 x 30000 pixels"),
    ];
    for (content_type, image, expected) in table {
        for reply in [
            world.simple(ICON, content_type, image).await,
            world.resumable(ICON, &json!({}), content_type, image).await,
        ] {
            let message = reply.refusal(400, "invalid");
            assert!(message.contains(expected), "{message}, not {expected}");
        }
    }
    world.get(ICON).await.refusal(404, "notFound");
}

#[tokio::test]
async fn other_media_and_more_than_15_mib_are_refused_before_they_are_taken() {
    let world = world();
    let reply = world.simple(ICON, "text/plain", b"x").await;
    reply.refusal(400, "badRequest");
    let large = vec![0; 15_728_641];
    let reply = world.simple(ICON, "image/png", &large).await;
    reply.refusal(413, "uploadTooLarge");
    // Media of exactly the limit passes this check. It fails later, because zeros are not an image.
    let reply = world.simple(ICON, "image/png", &large[1..]).await;
    reply.refusal(400, "invalid");
}

#[tokio::test]
async fn the_plain_uri_takes_no_media() {
    let world = world();
    let headers = [("content-type", "image/png")];
    let reply = world.send("POST", ICON, &headers, png(1, 1)).await;
    reply.refusal(400, "wrongUrlForUpload");
    let headers = [("content-type", "application/json")];
    let reply = world.send("POST", ICON, &headers, "{}").await;
    let message = reply.refusal(400, "invalid");
    assert!(message.contains("the upload URI"), "{message}");
}

/// The document with images, as it was published, and the current document.
fn published(with_images: bool) -> Value {
    let mut document = json!({
        "name": NAME, "version": "v1configuration", "servicePath": "",
        "schemas": {
            "AchievementConfiguration": {"id": "AchievementConfiguration", "type": "object", "properties": {
                "id": {"type": "string"}, "token": {"type": "string"},
            }},
        },
        "resources": {"achievementConfigurations": {"methods": {
            "insert": {
                "id": "gamesConfiguration.achievementConfigurations.insert", "httpMethod": "POST",
                "path": "games/v1configuration/applications/{applicationId}/achievements",
                "parameters": {"applicationId": {"type": "string", "location": "path", "required": true}},
                "request": {"$ref": "AchievementConfiguration"},
                "response": {"$ref": "AchievementConfiguration"},
            },
        }}},
    });
    if with_images {
        document["schemas"]["ImageConfiguration"] =
            json!({"id": "ImageConfiguration", "type": "object"});
        let path = "games/v1configuration/images/{resourceId}/imageType/{imageType}";
        document["resources"]["imageConfigurations"] = json!({"methods": {"upload": {
            "id": "gamesConfiguration.imageConfigurations.upload", "httpMethod": "POST", "path": path,
            "parameters": {
                "resourceId": {"type": "string", "location": "path", "required": true},
                "imageType": {"type": "string", "location": "path", "required": true, "enum": [
                    "IMAGE_TYPE_UNSPECIFIED", "ACHIEVEMENT_ICON", "LEADERBOARD_ICON",
                ]},
            },
            "response": {"$ref": "ImageConfiguration"},
            "supportsMediaUpload": true,
            "mediaUpload": {
                "accept": ["image/*"], "maxSize": "15728640",
                "protocols": {"simple": {"multipart": true, "path": format!("/upload/{path}")}},
            },
        }}});
    }
    document
}

#[tokio::test]
async fn a_published_document_is_served_alike_and_gets_what_it_lacks() {
    for with_images in [true, false] {
        let world = World::adopting(&published(with_images));
        let reply = world.simple(ICON, "image/png", &png(5, 5)).await;
        assert_eq!(shown(&world, &reply).await.body, png(5, 5));
        let unspecified = other_type("IMAGE_TYPE_UNSPECIFIED");
        let reply = world.simple(&unspecified, "image/png", &png(5, 5)).await;
        reply.refusal(400, "invalidParameter");
        // The default handler serves all further methods of the document.
        let path = "/games/v1configuration/applications/7/achievements";
        let headers = [("content-type", "application/json")];
        let reply = world
            .send("POST", path, &headers, r#"{"token": "t"}"#)
            .await;
        assert_eq!(reply.resource()["token"], "t");
    }
}

#[tokio::test]
async fn refusals_are_those_of_the_table() {
    let page = include_str!("../../../../docs/apis/games_configuration.md");
    let world = world();
    let simple = async |path: &str, kind: &str, media: &[u8]| world.simple(path, kind, media).await;
    let image = png(1, 1);
    let uploaded = format!("{ICON}?uploadType=media");
    let cases = [
        (
            "an unknown `imageType`",
            simple(&other_type("BANNER"), "image/png", &image).await,
        ),
        ("a text as image", simple(ICON, "image/png", b"moo").await),
        ("a GIF", simple(ICON, "image/gif", &gif(1, 1)).await),
        (
            "a PNG declared as JPEG",
            simple(ICON, "image/jpeg", &image).await,
        ),
        (
            "an image with the type of a text",
            simple(ICON, "text/plain", &image).await,
        ),
        (
            "media of more than 15 MiB",
            simple(ICON, "image/png", &vec![0; 15_728_641]).await,
        ),
        (
            "a call without media",
            world.json("POST", ICON, &json!({})).await,
        ),
        (
            "`uploadType` at the path without `/upload`",
            world.json("POST", &uploaded, &json!({})).await,
        ),
        (
            "media at the path without `/upload`",
            world
                .send(
                    "POST",
                    ICON,
                    &[("content-type", "image/png")],
                    image.clone(),
                )
                .await,
        ),
        ("an unknown image", world.get(ICON).await),
    ];
    crate::refusals::check_page(page, &cases);
}
