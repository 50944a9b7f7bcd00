//! Each parameter has the effect that its description promises: two values, two outcomes.

use super::{PNG, VIDEOS, insert, json, shown, video, youtube};
use crate::world::{Peer as _, Reply, World};

/// The ids of the resources in a list.
fn ids(reply: &Reply) -> Vec<String> {
    let listed = reply.resource();
    let items = listed["items"].as_array().expect("items").iter();
    let ids = items.map(|item| item["id"].as_str().expect("an id").to_owned());
    ids.collect()
}

async fn list(youtube: &World, resources: &str, query: &str) -> Reply {
    let uri = format!("/youtube/v3/{resources}?part=snippet&{query}");
    youtube.call("GET", &uri).await
}

/// A caption track of a video.
async fn track(youtube: &World, video: &str, language: &str) -> String {
    let snippet = json!({"snippet": {"videoId": video, "language": language, "name": ""}});
    let uri = "/youtube/v3/captions?part=snippet";
    let text = ("text/plain", &b"0:00 moo"[..]);
    let made = youtube.multipart_by("POST", uri, &snippet, text);
    made.await.field("id")
}

#[tokio::test]
async fn parts_select_what_is_written_and_shown() {
    let youtube = youtube();
    let metadata = json!({"snippet": {"title": "Llama"}, "status": {"privacyStatus": "private"}});
    for (part, title, privacy) in [
        ("snippet", "Llama", "public"),
        ("status", "unknown", "private"),
    ] {
        let made = insert(&youtube, part, &metadata).await;
        let names: Vec<_> = made
            .resource()
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        assert_eq!(names, ["kind", "etag", "id", part]);
        let all = shown(&youtube, &made.field("id"), "snippet,status").await;
        assert_eq!(all["snippet"]["title"], title, "{part}");
        assert_eq!(all["status"]["privacyStatus"], privacy, "{part}");
    }
}

#[tokio::test]
async fn parameters_of_videos_have_an_effect() {
    let youtube = youtube();
    let localizations = json!({"de": {"title": "Lama", "description": "Ein Lama."}});
    let metadata = json!({"snippet": {"title": "Llama"}, "localizations": localizations});
    let made = insert(&youtube, "snippet,localizations", &metadata).await;
    let (one, two) = (made.field("id"), video(&youtube).await);
    for id in [&one, &two] {
        let listed = list(&youtube, "videos", &format!("id={id}")).await;
        assert_eq!(ids(&listed), [id.as_str()]);
    }
    for (hl, title) in [("de", "Lama"), ("fr", "Llama"), ("", "Llama")] {
        let listed = list(&youtube, "videos", &format!("id={one}&hl={hl}")).await;
        let title_shown = &listed.resource()["items"][0]["snippet"]["localized"]["title"];
        assert_eq!(title_shown, title, "{hl}");
    }
    let chart = "chart=mostPopular";
    let whole = ids(&list(&youtube, "videos", chart).await);
    assert_eq!(whole.len(), 2);
    let first = list(&youtube, "videos", &format!("{chart}&maxResults=1")).await;
    let token = first.field("nextPageToken");
    let second = format!("{chart}&maxResults=1&pageToken={token}");
    let second = list(&youtube, "videos", &second).await;
    assert_eq!([ids(&first), ids(&second)].concat(), whole);
    let gone = youtube.call("DELETE", &format!("{VIDEOS}?id={one}")).await;
    assert_eq!(gone.status, 204);
    assert_eq!(ids(&list(&youtube, "videos", chart).await), [two]);
}

#[tokio::test]
async fn parameters_of_tracks_and_images_have_an_effect() {
    let youtube = youtube();
    let (one, two) = (video(&youtube).await, video(&youtube).await);
    let set = format!("/youtube/v3/thumbnails/set?videoId={one}");
    youtube.simple(&set, "image/png", PNG).await.resource();
    for (id, expected) in [(&one, 200), (&two, 404)] {
        let image = youtube
            .call("GET", &format!("/youtube/v3/thumbnails/{id}"))
            .await;
        assert_eq!(image.status, expected);
    }
    let (en, de) = (
        track(&youtube, &one, "en").await,
        track(&youtube, &one, "de").await,
    );
    let of = |video: &str| format!("videoId={video}");
    assert_eq!(ids(&list(&youtube, "captions", &of(&two)).await), [""; 0]);
    assert_eq!(ids(&list(&youtube, "captions", &of(&one)).await).len(), 2);
    let by_id = format!("{}&id={en}", of(&one));
    let listed = list(&youtube, "captions", &by_id).await;
    assert_eq!(ids(&listed), [en.as_str()]);
    youtube
        .call("DELETE", &format!("/youtube/v3/captions?id={en}"))
        .await;
    assert_eq!(ids(&list(&youtube, "captions", &of(&one)).await), [de]);
    for playlist in ["PL1", "PL2"] {
        let metadata = json!({"snippet": {"playlistId": playlist}});
        let uri = "/youtube/v3/playlistImages?part=snippet";
        let made = youtube.multipart_by("POST", uri, &metadata, ("image/png", PNG));
        made.await.resource();
    }
    let images = async |query: &str| list(&youtube, "playlistImages", query).await;
    assert_eq!(ids(&images("parent=PL2").await), ["PL2.hero"]);
    let first = images("maxResults=1").await;
    let second = format!("maxResults=1&pageToken={}", first.field("nextPageToken"));
    let both = [ids(&first), ids(&images(&second).await)].concat();
    assert_eq!(both, ["PL1.hero", "PL2.hero"]);
    youtube
        .call("DELETE", "/youtube/v3/playlistImages?id=PL1.hero")
        .await;
    assert_eq!(ids(&images("").await), ["PL2.hero"]);
    for channel in ["UC1", "UC2"] {
        let set = format!("/youtube/v3/watermarks/set?channelId={channel}");
        youtube.simple(&set, "image/png", PNG).await;
    }
    youtube
        .call("POST", "/youtube/v3/watermarks/unset?channelId=UC1")
        .await;
    for (channel, expected) in [("UC1", 404), ("UC2", 200)] {
        let image = youtube
            .call("GET", &format!("/youtube/v3/watermarks/{channel}"))
            .await;
        assert_eq!(image.status, expected);
    }
}
