//! The data API of `YouTube`.

use serde_json::{Value, json};

use crate::world::{ORIGIN, Peer as _, Reply, World};

mod parameters;
mod refusals;

const VIDEOS: &str = "/youtube/v3/videos";

/// Images of one pixel, as far as their headers go.
const PNG: &[u8] = include_bytes!("youtube/pixel.png");
const GIF: &[u8] = b"GIF89a\x01\x00\x01\x00\x00\x00\x00;";

fn youtube() -> World {
    World::of("youtube")
}

async fn insert(youtube: &World, part: &str, metadata: &Value) -> Reply {
    let uri = format!("{VIDEOS}?part={part}");
    let media = ("video/mp4", &b"moo"[..]);
    youtube.multipart_by("POST", &uri, metadata, media).await
}

async fn video(youtube: &World) -> String {
    let metadata = json!({"snippet": {"title": "Llama"}});
    insert(youtube, "snippet", &metadata).await.field("id")
}

async fn shown(youtube: &World, id: &str, part: &str) -> Value {
    let uri = format!("{VIDEOS}?id={id}&part={part}");
    youtube.call("GET", &uri).await.resource()["items"][0].clone()
}

/// Returns the reply at a URL that the server gave.
async fn at(youtube: &World, url: &Value) -> Reply {
    let url = url.as_str().expect("a URL");
    youtube
        .call("GET", url.strip_prefix(ORIGIN).expect("it is ours"))
        .await
}

#[tokio::test]
async fn a_video_shows_the_parts_that_are_named_and_no_others() {
    let youtube = youtube();
    let metadata = json!({
        "snippet": {"title": "Llama", "tags": ["a", "b"]},
        "status": {"privacyStatus": "private"},
        "recordingDetails": {"recordingDate": "2026-11-21T00:00:00Z"},
    });
    let made = insert(&youtube, "snippet,status&part=fileDetails", &metadata).await;
    let id = made.field("id");
    assert_eq!(id.len(), 11);
    let made = made.resource();
    let names: Vec<_> = made.as_object().unwrap().keys().collect();
    assert_eq!(
        names,
        ["kind", "etag", "id", "snippet", "status", "fileDetails"]
    );
    assert_eq!(made["kind"], "youtube#video");
    assert_eq!(made["snippet"]["tags"], json!(["a", "b"]));
    assert_eq!(
        made["snippet"]["localized"],
        json!({"title": "Llama", "description": ""})
    );
    assert_eq!(made["status"]["uploadStatus"], "uploaded");
    assert_eq!(made["status"]["privacyStatus"], "private");
    assert_eq!(made["fileDetails"]["fileSize"], "3");
    let later = shown(&youtube, &id, "status,recordingDetails").await;
    assert_eq!(later["status"]["uploadStatus"], "processed");
    assert_eq!(
        later.get("recordingDetails"),
        None,
        "a part that was not named is not written"
    );
    let media = youtube.call("GET", &format!("{VIDEOS}/{id}")).await;
    assert_eq!(
        (&media.body[..], &media.headers["content-type"]),
        (&b"moo"[..], &"video/mp4".parse().unwrap())
    );
}

#[tokio::test]
async fn part_that_the_service_alone_has_is_not_implemented() {
    let youtube = youtube();
    let list = async |query: &str| youtube.call("GET", &format!("{VIDEOS}?id=x&{query}")).await;
    for part in [
        "ageGating",
        "liveStreamingDetails",
        "monetizationDetails",
        "player",
        "projectDetails",
        "statistics",
        "suggestions",
        "topicDetails",
    ] {
        let refused = list(&format!("part=snippet,{part}")).await;
        let message = refused.refusal(501, "notImplemented");
        assert!(message.contains(part), "{message}");
        // The mask names fields of the service; none is there.
        let masked = list(&format!("part=snippet&fields=items({part})")).await;
        assert_eq!(masked.status, 200, "{part}");
    }
    list("part=").await.refusal(400, "required");
}

#[tokio::test]
async fn invalid_parts_and_fields_are_refused_before_media_is_received() {
    let youtube = youtube();
    let uri = |part: &str| format!("{VIDEOS}?{part}");
    let start = async |part: &str, metadata: Value| {
        youtube
            .resumable(&uri(part), &metadata, "video/mp4", b"x")
            .await
    };
    start("", json!({})).await.refusal(400, "required");
    start("part=feathers", json!({}))
        .await
        .refusal(400, "unknownPart");
    for part in ["part=", "part=,"] {
        start(part, json!({})).await.refusal(400, "required");
    }
    start("part=snippet,player", json!({}))
        .await
        .refusal(501, "notImplemented");
    let table = [
        (json!({"snippet": []}), "invalid"),
        (json!({"snippet": {"title": ""}}), "invalidTitle"),
        (
            json!({"status": {"privacyStatus": "secret"}}),
            "invalidVideoMetadata",
        ),
        (
            json!({"snippet": {"title": "x", "more": "x".repeat(32 * 1024)}}),
            "invalid",
        ),
    ];
    for (metadata, reason) in table {
        start("part=snippet,status", metadata)
            .await
            .refusal(400, reason);
    }
}

#[tokio::test]
async fn an_update_replaces_the_parts_that_it_names() {
    let youtube = youtube();
    let metadata = json!({
        "snippet": {"title": "Llama", "description": "A llama."},
        "status": {"privacyStatus": "private"},
    });
    let id = insert(&youtube, "snippet,status", &metadata)
        .await
        .field("id");
    let update = async |part: &str, body: Value, etag: &str| {
        let uri = format!("{VIDEOS}?part={part}");
        let headers = [("content-type", "application/json"), ("if-match", etag)];
        youtube.send("PUT", &uri, &headers, body.to_string()).await
    };
    let titled = json!({"id": id, "snippet": {"title": "Alpaca"}});
    let updated = update("snippet", titled.clone(), "*").await.resource();
    assert_eq!(updated["snippet"]["title"], "Alpaca");
    assert_eq!(
        updated["snippet"]["description"], "",
        "what a part does not say is gone"
    );
    let later = shown(&youtube, &id, "snippet,status").await;
    assert_eq!(later["status"]["privacyStatus"], "private");
    assert_eq!(later["etag"], updated["etag"]);
    let stale = format!("\"v{}\"", u64::MAX);
    update("snippet", titled, &stale)
        .await
        .refusal(412, "conditionNotMet");
    update("snippet", json!({"snippet": {}}), "*")
        .await
        .refusal(400, "required");
    update("snippet", json!({"id": id}), "*")
        .await
        .refusal(400, "invalidTitle");
    let other = json!({"id": "none", "snippet": {"title": "x"}});
    update("snippet", other, "*")
        .await
        .refusal(404, "videoNotFound");
}

#[tokio::test]
async fn videos_are_listed_by_their_ids_or_page_by_page() {
    let youtube = youtube();
    let (one, two) = (video(&youtube).await, video(&youtube).await);
    let listed = async |query: String| {
        let uri = format!("{VIDEOS}?part=id&{query}");
        youtube.call("GET", &uri).await
    };
    let ids = |reply: &Reply| {
        let json = reply.resource();
        let items = json["items"].as_array().unwrap().iter();
        items
            .map(|item| item["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let both = listed(format!("id={two},none&id={one}")).await;
    assert_eq!(ids(&both), [two.clone(), one.clone()]);
    let first = listed("chart=mostPopular&maxResults=1".to_owned()).await;
    let token = first.field("nextPageToken");
    let second = listed(format!("chart=mostPopular&maxResults=1&pageToken={token}")).await;
    let mut all = [ids(&first), ids(&second)].concat();
    assert_eq!(second.resource().get("nextPageToken"), None);
    all.sort();
    let mut expected = [one, two];
    expected.sort();
    assert_eq!(all, expected);
    listed(String::new())
        .await
        .refusal(400, "missingRequiredParameter");
    for query in [
        "id=",
        "chart=mostPopular&maxResults=51",
        "chart=mostPopular&maxResults=0",
    ] {
        listed(query.to_owned())
            .await
            .refusal(400, "invalidParameter");
    }
    listed(format!("id={}", ["x"; 51].join(",")))
        .await
        .refusal(400, "invalidParameter");
}

#[tokio::test]
async fn a_thumbnail_is_served_where_the_reply_says() {
    let youtube = youtube();
    let id = video(&youtube).await;
    let uri = format!("/youtube/v3/thumbnails/set?videoId={id}");
    let set = youtube
        .simple(&uri, "application/octet-stream", PNG)
        .await
        .resource();
    assert_eq!(set["kind"], "youtube#thumbnailSetResponse");
    let thumbnails = &set["items"][0];
    let image = at(&youtube, &thumbnails["high"]["url"]).await;
    assert_eq!(image.body, PNG);
    assert_eq!(image.headers["content-type"], "image/png");
    assert_eq!(
        (
            &thumbnails["default"]["width"],
            &thumbnails["medium"]["height"]
        ),
        (&json!(1), &json!(1))
    );
    let later = shown(&youtube, &id, "snippet,contentDetails").await;
    assert_eq!(&later["snippet"]["thumbnails"], thumbnails);
    assert_eq!(later["contentDetails"]["hasCustomThumbnail"], true);
    let again = youtube.simple(&uri, "image/png", PNG).await.resource();
    assert_ne!(
        again["items"][0]["high"]["url"], thumbnails["high"]["url"],
        "caches notice"
    );
    for (media_type, media) in [
        ("image/png", &b"moo"[..]),
        ("image/png", GIF),
        ("image/png", b""),
    ] {
        youtube
            .simple(&uri, media_type, media)
            .await
            .refusal(400, "invalidImage");
    }
    youtube
        .simple(&uri, "image/webp", PNG)
        .await
        .refusal(400, "badRequest");
    let other = "/youtube/v3/thumbnails/set?videoId=none";
    youtube
        .resumable(other, &json!({}), "image/png", b"x")
        .await
        .refusal(404, "videoNotFound");
}

#[tokio::test]
async fn captions_are_stored_per_track_and_returned_unchanged() {
    let youtube = youtube();
    let id = video(&youtube).await;
    let uri = "/youtube/v3/captions?part=snippet";
    let insert = async |snippet: Value| {
        let track = ("text/plain", &b"0:00 moo"[..]);
        youtube
            .multipart_by("POST", uri, &json!({"snippet": snippet}), track)
            .await
    };
    let snippet = json!({"videoId": id, "language": "en", "name": "", "isDraft": true});
    let made = insert(snippet.clone()).await;
    let track = made.field("id");
    assert_eq!(made.resource()["snippet"]["isDraft"], true);
    insert(snippet).await.refusal(409, "captionExists");
    insert(json!({"videoId": id, "language": "de", "name": ""}))
        .await
        .resource();
    insert(json!({"videoId": "none", "language": "en", "name": ""}))
        .await
        .refusal(404, "videoNotFound");
    insert(json!({"videoId": id, "name": ""}))
        .await
        .refusal(400, "required");
    let listed = async |more: &str| {
        let uri = format!("/youtube/v3/captions?videoId={id}&part=snippet{more}");
        youtube.call("GET", &uri).await.resource()["items"].clone()
    };
    assert_eq!(listed("").await.as_array().unwrap().len(), 2);
    assert_eq!(listed(&format!("&id={track}")).await[0]["id"], track);
    let download = format!("/youtube/v3/captions/{track}");
    assert_eq!(youtube.call("GET", &download).await.body, "0:00 moo");
    let converted = youtube.call("GET", &format!("{download}?tfmt=srt")).await;
    converted.refusal(501, "notImplemented");
    let changes = json!({"id": track, "snippet": {"isDraft": false}});
    let text = ("text/plain", &b"0:00 meow"[..]);
    let updated = youtube
        .multipart_by("PUT", uri, &changes, text)
        .await
        .resource();
    assert_eq!(updated["snippet"]["isDraft"], false);
    assert_eq!(youtube.call("GET", &download).await.body, "0:00 meow");
    let plain = "/youtube/v3/captions?part=snippet";
    let wrong = json!({"id": track, "snippet": {"isDraft": "no"}});
    youtube
        .json("PUT", plain, &wrong)
        .await
        .refusal(400, "invalid");
    let gone = youtube
        .call("DELETE", &format!("/youtube/v3/captions?id={track}"))
        .await;
    assert_eq!(gone.status, 204);
    assert_eq!(listed("").await.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_video_is_deleted_with_all_that_belongs_to_it() {
    let youtube = youtube();
    let (id, other) = (video(&youtube).await, video(&youtube).await);
    for id in [&id, &other] {
        let uri = format!("/youtube/v3/thumbnails/set?videoId={id}");
        youtube.simple(&uri, "image/png", PNG).await.resource();
        let uri = "/youtube/v3/captions?part=snippet";
        let snippet = json!({"snippet": {"videoId": id, "language": "en", "name": ""}});
        youtube
            .multipart_by("POST", uri, &snippet, ("text/plain", b"moo"))
            .await
            .resource();
    }
    let uri = format!("{VIDEOS}?id={id}");
    assert_eq!(youtube.call("DELETE", &uri).await.status, 204);
    youtube
        .call("DELETE", &uri)
        .await
        .refusal(404, "videoNotFound");
    for rows in ["youtube/videos", "youtube/thumbnails", "youtube/captions"] {
        assert_eq!(youtube.count(rows).await, 1, "{rows}");
    }
}

#[tokio::test]
async fn banners_and_watermarks_are_served() {
    let youtube = youtube();
    let uri = "/youtube/v3/channelBanners/insert";
    let banner = youtube.simple(uri, "image/png", PNG).await.resource();
    assert_eq!(banner["kind"], "youtube#channelBannerResource");
    assert_eq!(at(&youtube, &banner["url"]).await.body, PNG);
    youtube
        .simple(uri, "image/png", b"moo")
        .await
        .refusal(400, "invalid");
    let large = vec![0; 6 * 1024 * 1024 + 1];
    youtube
        .simple(uri, "image/png", &large)
        .await
        .refusal(413, "uploadTooLarge");
    let uri = "/youtube/v3/watermarks/set?channelId=UC1";
    let timing = json!({"timing": {"type": "offsetFromStart"}});
    let set = youtube
        .multipart_by("POST", uri, &timing, ("image/png", PNG))
        .await;
    assert_eq!(set.resource(), json!({}));
    assert_eq!(
        youtube.call("GET", "/youtube/v3/watermarks/UC1").await.body,
        PNG
    );
    let unset = "/youtube/v3/watermarks/unset?channelId=UC1";
    assert_eq!(youtube.call("POST", unset).await.status, 204);
    youtube
        .call("GET", "/youtube/v3/watermarks/UC1")
        .await
        .refusal(404, "notFound");
    youtube.call("POST", unset).await.refusal(404, "notFound");
    let odd = "/youtube/v3/watermarks/unset?channelId=a/b";
    youtube
        .call("POST", odd)
        .await
        .refusal(400, "invalidParameter");
}

#[tokio::test]
async fn a_playlist_has_one_image_of_a_type() {
    let youtube = youtube();
    let upload = "/youtube/v3/playlistImages?part=snippet";
    let send = async |method: &str, playlist: &str, media: &[u8]| {
        let metadata = json!({"snippet": {"playlistId": playlist}});
        youtube
            .multipart_by(method, upload, &metadata, ("image/png", media))
            .await
    };
    send("PUT", "PL1", PNG).await.refusal(404, "notFound");
    let made = send("POST", "PL1", PNG).await;
    let snippet = json!({"playlistId": "PL1", "type": "hero", "width": 1, "height": 1});
    assert_eq!(made.resource()["snippet"], snippet);
    send("POST", "PL1", PNG).await.resource();
    send("POST", "a.b", PNG).await.refusal(400, "invalid");
    send("PUT", "PL1", GIF).await.refusal(400, "invalid");
    send("PUT", "PL1", PNG).await.resource();
    send("POST", "PL10", PNG).await.resource();
    let listed = async |query: &str| {
        let uri = format!("/youtube/v3/playlistImages?{query}");
        youtube.call("GET", &uri).await.resource()["items"]
            .as_array()
            .map(Vec::len)
    };
    assert_eq!(listed("parent=PL1").await, Some(1));
    assert_eq!(listed("").await, Some(2));
    let id = made.field("id");
    let image = youtube
        .call("GET", &format!("/youtube/v3/playlistImages/{id}"))
        .await;
    assert_eq!(image.body, PNG);
    let gone = youtube
        .call("DELETE", &format!("/youtube/v3/playlistImages?id={id}"))
        .await;
    assert_eq!(gone.status, 204);
    assert_eq!(listed("parent=PL1").await, Some(0));
}

#[tokio::test]
async fn a_published_document_is_completed_with_the_addresses_of_media() {
    let part = json!({"location": "query", "required": true, "repeated": true, "type": "string"});
    let insert = json!({
        "id": "youtube.videos.insert", "httpMethod": "POST", "path": "youtube/v3/videos",
        "parameters": {"part": part},
        "mediaUpload": {"protocols": {"simple": {"multipart": true, "path": "/upload/youtube/v3/videos"}}},
    });
    let rate = json!({"id": "youtube.videos.rate", "httpMethod": "POST", "path": "youtube/v3/videos/rate"});
    let youtube = World::adopting(&json!({
        "name": "youtube", "version": "v3", "servicePath": "",
        "resources": {"videos": {"methods": {"insert": insert, "rate": rate}}},
    }));
    let id = video(&youtube).await;
    assert_eq!(
        youtube.call("GET", &format!("{VIDEOS}/{id}")).await.body,
        "moo"
    );
    youtube
        .call("POST", &format!("{VIDEOS}/rate"))
        .await
        .refusal(501, "notImplemented");
}
