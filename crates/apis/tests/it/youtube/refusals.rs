//! The refusals of docs/apis/youtube.md.

use serde_json::Value;

use super::{PNG, VIDEOS, insert, json, video, youtube};
use crate::refusals::check_page;
use crate::world::{Peer as _, Reply, World};

const PAGE: &str = include_str!("../../../../../docs/apis/youtube.md");

/// The reply to a video with this snippet.
async fn with_snippet(youtube: &World, snippet: Value) -> Reply {
    insert(youtube, "snippet,status", &json!({"snippet": snippet})).await
}

async fn of_videos(youtube: &World) -> Vec<(&'static str, Reply)> {
    let title = |title: String| with_snippet(youtube, json!({"title": title}));
    let described = |text: &str| json!({"title": "t", "description": text});
    let tagged = |tags: Value| with_snippet(youtube, json!({"title": "t", "tags": tags}));
    let private = json!({"status": {"privacyStatus": "secret"}});
    let id = video(youtube).await;
    let updated = format!("{VIDEOS}?part=snippet");
    let without_title = json!({"id": id, "snippet": {"description": "x"}});
    let unknown = json!({"id": "none", "snippet": {"title": "x"}});
    vec![
        ("an empty title", title(String::new()).await),
        ("a title of 101 characters", title("x".repeat(101)).await),
        ("a title with `<`", title("a < b".into()).await),
        (
            "an update of the snippet without a title",
            youtube.json("PUT", &updated, &without_title).await,
        ),
        (
            "a description of 5001 bytes",
            with_snippet(youtube, described(&"x".repeat(5001))).await,
        ),
        (
            "a description with `>`",
            with_snippet(youtube, described("a -> b")).await,
        ),
        (
            "tags of 501 characters",
            tagged(json!(["x".repeat(501)])).await,
        ),
        ("a number as tag", tagged(json!([1])).await),
        (
            "a number as category",
            with_snippet(youtube, json!({"title": "t", "categoryId": 22})).await,
        ),
        (
            "a number as language",
            with_snippet(youtube, json!({"title": "t", "defaultLanguage": 1})).await,
        ),
        (
            "an unknown `privacyStatus`",
            insert(youtube, "status", &private).await,
        ),
        (
            "a video without media",
            youtube.json("POST", &updated, &json!({})).await,
        ),
        (
            "an update of an unknown video",
            youtube.json("PUT", &updated, &unknown).await,
        ),
        (
            "a deletion of an unknown video",
            youtube.call("DELETE", &format!("{VIDEOS}?id=none")).await,
        ),
        (
            "an update without an id",
            youtube.json("PUT", &updated, &json!({"snippet": {}})).await,
        ),
        (
            "a deletion without an id",
            youtube.call("DELETE", &format!("{VIDEOS}?id=")).await,
        ),
    ]
}

async fn of_lists(youtube: &World) -> Vec<(&'static str, Reply)> {
    let list = async |query: &str| youtube.call("GET", &format!("{VIDEOS}?{query}")).await;
    let chart = "part=id&chart=mostPopular";
    video(youtube).await;
    let token = list(&format!("{chart}&maxResults=1"))
        .await
        .field("nextPageToken");
    let images = format!("/youtube/v3/playlistImages?part=snippet&pageToken={token}");
    vec![
        ("`part` is left out", list("chart=mostPopular").await),
        (
            "a `part` that names none",
            list("part=&chart=mostPopular").await,
        ),
        (
            "`part=statistics`, and each other part of a video that this server does not keep",
            list("part=statistics&chart=mostPopular").await,
        ),
        (
            "an unknown `part`",
            list("part=feathers&chart=mostPopular").await,
        ),
        ("neither `chart` nor `id`", list("part=id").await),
        ("`chart` with `id`", list(&format!("{chart}&id=x")).await),
        (
            "51 ids",
            list(&format!("part=id&id={}", ["x"; 51].join(","))).await,
        ),
        (
            "a made-up `pageToken`",
            list(&format!("{chart}&pageToken=none")).await,
        ),
        (
            "a `pageToken` with `id`",
            list(&format!("part=id&id=x&pageToken={token}")).await,
        ),
        (
            "a `pageToken` of another list",
            youtube.call("GET", &images).await,
        ),
        (
            "`maxResults=51`",
            list(&format!("{chart}&maxResults=51")).await,
        ),
        ("`myRating`", list("part=id&myRating=like").await),
        (
            "`regionCode`",
            list(&format!("{chart}&regionCode=DE")).await,
        ),
        (
            "`videoCategoryId`",
            list(&format!("{chart}&videoCategoryId=22")).await,
        ),
        (
            "`onBehalfOfContentOwner`",
            list(&format!("{chart}&onBehalfOfContentOwner=x")).await,
        ),
    ]
}

#[expect(clippy::too_many_lines, reason = "a table of refusals")]
async fn of_captions_and_images(youtube: &World) -> Vec<(&'static str, Reply)> {
    let id = video(youtube).await;
    let captions = "/youtube/v3/captions?part=snippet";
    let caption = async |video: &str, language: &str, name: &str| {
        let snippet = json!({"snippet": {"videoId": video, "language": language, "name": name}});
        let text = ("text/plain", &b"0:00 moo"[..]);
        youtube.multipart_by("POST", captions, &snippet, text).await
    };
    let track = caption(&id, "en", "").await.field("id");
    let converted = format!("/youtube/v3/captions/{track}?tfmt=srt");
    let bare = json!({"snippet": {"videoId": id, "language": "fr", "name": ""}});
    let video_with =
        async |query: &str| insert(youtube, &format!("snippet&{query}"), &json!({})).await;
    let thumbnail = |video: &str| format!("/youtube/v3/thumbnails/set?videoId={video}");
    let watermark = "/youtube/v3/watermarks/set?channelId=UC1";
    let banner = "/youtube/v3/channelBanners/insert";
    let odd = "/youtube/v3/watermarks/unset?channelId=a/b";
    vec![
        (
            "a caption track of an unknown video",
            caption("none", "en", "").await,
        ),
        (
            "a second track of a language and name",
            caption(&id, "en", "").await,
        ),
        ("a malformed language", caption(&id, "?", "").await),
        (
            "a name of 151 characters",
            caption(&id, "en", &"x".repeat(151)).await,
        ),
        (
            "a track without its text",
            youtube.json("POST", captions, &bare).await,
        ),
        (
            "an unknown track",
            youtube.call("GET", "/youtube/v3/captions/none").await,
        ),
        (
            "tracks of an unknown video",
            youtube
                .call("GET", &format!("{captions}&videoId=none"))
                .await,
        ),
        ("`tfmt`", youtube.call("GET", &converted).await),
        (
            "`sync=true`",
            youtube
                .json("POST", &format!("{captions}&sync=true"), &bare)
                .await,
        ),
        ("`autoLevels=true`", video_with("autoLevels=true").await),
        ("`stabilize=true`", video_with("stabilize=true").await),
        (
            "a thumbnail of an unknown video",
            youtube.simple(&thumbnail("none"), "image/png", PNG).await,
        ),
        (
            "a text as thumbnail",
            youtube.simple(&thumbnail(&id), "image/png", b"moo").await,
        ),
        (
            "a thumbnail without media",
            youtube.json("POST", &thumbnail(&id), &json!({})).await,
        ),
        (
            "a text as watermark",
            youtube.simple(watermark, "image/png", b"moo").await,
        ),
        (
            "a text as banner",
            youtube.simple(banner, "image/png", b"moo").await,
        ),
        ("an unknown `channelId`", youtube.call("POST", odd).await),
    ]
}

#[tokio::test]
async fn refusals_are_those_of_the_table() {
    let youtube = youtube();
    let mut cases = Box::pin(of_videos(&youtube)).await;
    cases.extend(Box::pin(of_lists(&youtube)).await);
    cases.extend(Box::pin(of_captions_and_images(&youtube)).await);
    check_page(PAGE, &cases);
}

#[tokio::test]
async fn tags_count_with_their_commas_and_marks() {
    let youtube = youtube();
    let tag = |length: usize| "x".repeat(length);
    let blank = |length: usize| format!("a b{}", tag(length - 3));
    for (tags, expected) in [
        (vec![tag(500)], 200),
        (vec![tag(501)], 400),
        (vec![tag(250), tag(249)], 200),
        (vec![tag(250), tag(250)], 400),
        (vec![blank(498)], 200),
        (vec![blank(499)], 400),
        (vec![blank(200), blank(200), tag(94)], 200),
        (vec![blank(200), blank(200), tag(95)], 400),
        (vec!["\u{1f404}".repeat(500)], 200),
        (vec![], 200),
    ] {
        let lengths: Vec<_> = tags.iter().map(|tag| tag.chars().count()).collect();
        let made = with_snippet(&youtube, json!({"title": "t", "tags": tags})).await;
        assert_eq!(made.status, expected, "{lengths:?}");
    }
}

#[tokio::test]
async fn refusal_of_a_field_has_the_domain_of_the_service() {
    let youtube = youtube();
    let refused = with_snippet(&youtube, json!({"title": ""})).await.json();
    let detail = &refused["error"]["errors"][0];
    assert_eq!(detail["domain"], "youtube.video");
    assert_eq!(detail["locationType"], "other");
    let listed = youtube.call("GET", VIDEOS).await.json();
    let detail = &listed["error"]["errors"][0];
    assert_eq!(detail["domain"], "global");
    assert_eq!(detail["locationType"], "parameter");
}
