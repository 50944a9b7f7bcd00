//! Lists that are filtered and ordered, in the short form.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use windlass_discovery::Api;
use windlass_server::{ServedApi, Stores};
use windlass_store::fault::{Faults, FaultyLedger, InjectedFault, Trigger};
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_store::{ChangeSet, Ledger, MAX_KEY_LEN, Resource, ResourceChange};

use crate::power::{LocalStores, PoweredStores as _};
use crate::world::{ManualClock, Peer as _, Reply, World};

mod processes;

const ALBUM: &str = r#"
name = "album"
version = "v1"

[collections.photos]
filter_by = ["album", "rating", "createdTime"]
order_by = ["rating desc", "title"]

[collections.photos.schema]
album = "string"
title = "string"
rating = { type = "integer", min = -5, max = 5 }

[collections.comments]
parent = "photos"
on_parent_delete = "cascade"
filter_by = ["likes"]
schema = { likes = { type = "string", format = "int64" } }
"#;

const PHOTOS: &str = "/album/v1/photos";

fn album_in(ledger: &Arc<MemoryLedger>, description: &str) -> World {
    let stores = Stores {
        ledger: ledger.clone(),
        vault: Arc::new(MemoryVault::new()),
    };
    album_over(stores, description)
}

fn album_over(stores: Stores, description: &str) -> World {
    let api = Api::from_toml(description).expect("it is valid");
    World::of(
        ServedApi::with_default_handler(api),
        stores,
        Arc::new(ManualClock::default()),
    )
}

fn album() -> World {
    album_in(&Arc::default(), ALBUM)
}

/// The same description, without filters and orders.
fn without_indexes() -> String {
    let lines = ALBUM.lines();
    let kept = lines.filter(|line| !line.starts_with("filter_by") && !line.starts_with("order_by"));
    kept.collect::<Vec<_>>().join("\n")
}

/// Creates a resource a moment after the previous resource, so that its id is greater.
async fn made(album: &World, collection: &str, fields: &Value) -> String {
    album.clock.advance(Duration::from_millis(1));
    let reply = album.json("POST", collection, fields).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let id = reply.json()["id"].as_str().expect("an id").to_owned();
    format!("{collection}/{id}")
}

/// A query with the characters of filters in their place.
fn query(filter: &str, order: &str, size: usize) -> String {
    let order = match order {
        "" => String::new(),
        order => format!("&orderBy={}", url(order)),
    };
    format!("{PHOTOS}?maxResults={size}&filter={}{order}", url(filter))
}

fn url(text: &str) -> String {
    let bytes = text.bytes().map(|byte| format!("%{byte:02X}"));
    bytes.collect()
}

/// All pages of a list, and the number of pages.
async fn pages(album: &World, first: &str) -> (Vec<Value>, usize) {
    let (mut items, mut pages, mut token) = (Vec::new(), 0, String::new());
    loop {
        let reply = album.get(&format!("{first}&pageToken={token}")).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let mut page = reply.json();
        items.extend(page["items"].take().as_array().expect("a list").clone());
        pages += 1;
        match page["nextPageToken"].as_str() {
            Some(next) => next.clone_into(&mut token),
            None => return (items, pages),
        }
    }
}

async fn titles(album: &World, filter: &str, order: &str, size: usize) -> Vec<String> {
    let (items, _) = pages(album, &query(filter, order, size)).await;
    let titles = items.iter().map(|item| item["title"].as_str());
    titles
        .map(|title| title.unwrap_or("-").to_owned())
        .collect()
}

/// Photos of two albums: `a1` has the rating 1, and so on; `b` has none.
async fn sample(album: &World) {
    for (name, title, rating) in [
        ("a", "a1", Some(1)),
        ("b", "b3", Some(3)),
        ("a", "a-2", Some(-2)),
        ("a", "a3", Some(3)),
        ("b", "b", None),
        ("a", "a5", Some(5)),
    ] {
        let fields = json!({"album": name, "title": title, "rating": rating});
        made(album, PHOTOS, &fields).await;
    }
}

#[tokio::test]
async fn lists_are_filtered_and_ordered_page_by_page() {
    let album = album();
    sample(&album).await;
    for size in [1, 2, 3, 100] {
        for (filter, order, expected) in [
            ("", "", "a1 b3 a-2 a3 b a5"),
            ("album = a", "", "a1 a-2 a3 a5"),
            ("album = a", "rating desc", "a5 a3 a1 a-2"),
            ("album=\"a\" AND rating >= 1", "rating desc", "a5 a3 a1"),
            ("album = a AND rating < 3", "rating desc", "a1 a-2"),
            ("album = a AND rating = 3", "rating desc", "a3"),
            ("rating > -2 AND rating <= 3", "", "a1 b3 a3"),
            ("rating != 3", "", "a1 a-2 a5"),
            ("", "rating desc", "a5 b3 a3 a1 a-2 b"),
            ("", "title", "a-2 a1 a3 a5 b b3"),
            ("album = b AND rating >= 0", "title", "b3"),
            ("album = c", "title", ""),
            ("createdTime > 2000-01-01T00:00:00Z", "", ""),
            (
                "createdTime < 2000-01-01T00:00:00Z",
                "title",
                "a-2 a1 a3 a5 b b3",
            ),
        ] {
            let found = titles(&album, filter, order, size).await;
            assert_eq!(found.join(" "), expected, "{filter} / {order} / {size}");
        }
    }
}

#[tokio::test]
async fn what_a_list_cannot_be_filtered_or_ordered_by_is_refused() {
    let album = album();
    let refusal = |reply: Reply| {
        assert_eq!(reply.status, 400, "{reply:?}");
        let error = reply.json()["error"].clone();
        assert_eq!(error["errors"][0]["reason"], "invalidParameter");
        error["message"].as_str().expect("a text").to_owned()
    };
    for (filter, order, said) in [
        (
            "title = x",
            "",
            "parameter filter: needs one of the fields album, rating, createdTime at character 1",
        ),
        (
            "rating = x",
            "",
            "compares rating with \"x\", which is not a whole number",
        ),
        (
            "",
            "rating",
            "parameter orderBy: must be one of rating desc, title",
        ),
    ] {
        let message = refusal(album.get(&query(filter, order, 1)).await);
        assert!(message.contains(said), "{message}");
    }
    let comments = format!("{}/comments", made(&album, PHOTOS, &json!({})).await);
    let message = refusal(album.get(&format!("{comments}?orderBy=likes")).await);
    assert!(message.contains("unknown parameter orderBy"), "{message}");
}

#[tokio::test]
async fn writes_move_resources_in_lists() {
    let album = album();
    sample(&album).await;
    let all = || titles(&album, "album = a", "rating desc", 2);
    let (items, _) = pages(&album, &query("rating = 5", "", 1)).await;
    let best = format!("{PHOTOS}/{}", items[0]["id"].as_str().expect("an id"));
    album.json("PATCH", &best, &json!({"rating": 0})).await;
    assert_eq!(all().await.join(" "), "a3 a1 a5 a-2");
    album.json("PATCH", &best, &json!({"rating": null})).await;
    assert_eq!(all().await.join(" "), "a3 a1 a-2 a5");
    album
        .json(
            "PUT",
            &best,
            &json!({"album": "b", "title": "b5", "rating": 5}),
        )
        .await;
    assert_eq!(all().await.join(" "), "a3 a1 a-2");
    assert_eq!(titles(&album, "", "rating desc", 1).await[0], "b5");
    album.send("DELETE", &best, &[], Vec::new()).await;
    assert_eq!(
        titles(&album, "", "title", 4).await.join(" "),
        "a-2 a1 a3 b b3"
    );
}

#[tokio::test]
async fn pages_stay_right_under_writes() {
    let album = album();
    for number in 0..60 {
        let fields = json!({"title": format!("{number:02}"), "rating": number % 6});
        made(&album, PHOTOS, &fields).await;
    }
    let first = query("", "title", 20);
    let page = album.get(&first).await.json();
    let token = page["nextPageToken"].as_str().expect("there is more");
    // Behind the position, and before it.
    made(&album, PHOTOS, &json!({"title": "40 new"})).await;
    made(&album, PHOTOS, &json!({"title": "00 new"})).await;
    let items = page["items"].as_array().expect("a list");
    let seen = items[3]["id"].as_str().expect("an id");
    album
        .send("DELETE", &format!("{PHOTOS}/{seen}"), &[], Vec::new())
        .await;
    let (rest, _) = pages(&album, &query("", "title", 20).replace("filter=", "filter")).await;
    assert_eq!(rest.len(), 61, "the list itself is right");
    let next = album
        .get(&format!("{first}&pageToken={token}"))
        .await
        .json();
    let next = next["items"].as_array().expect("a list").iter();
    let next: Vec<_> = next
        .map(|item| item["title"].as_str().expect("a title"))
        .collect();
    let expected: Vec<_> = (20..=40).map(|number| format!("{number:02}")).collect();
    assert_eq!(next, expected[..20]);
}

#[tokio::test]
async fn a_filter_that_fits_few_takes_more_pages_and_none_takes_long() {
    let local = LocalStores::new();
    let album = album_over(local.stores(), ALBUM);
    for number in 0..1_500 {
        let rating = if number == 1_400 { 5 } else { 1 };
        made(
            &album,
            PHOTOS,
            &json!({"rating": rating, "album": number.to_string()}),
        )
        .await;
    }
    let first = album.get(&query("rating != 1", "title", 10)).await.json();
    assert_eq!(first["items"], json!([]), "{first}");
    let (items, count) = pages(&album, &query("rating != 1", "title", 10)).await;
    assert_eq!((items.len(), count), (1, 2));
    // An index finds it at once.
    let (items, count) = pages(&album, &query("rating = 5", "", 10)).await;
    assert_eq!((items.len(), count), (1, 1));
}

#[tokio::test]
async fn collections_from_before_their_indexes_are_indexed_by_their_lists() {
    for count in [3_usize, 250, 2_300] {
        let ledger = Arc::new(MemoryLedger::default());
        let before = album_in(&ledger, &without_indexes());
        for number in 0..count {
            let fields =
                json!({"album": "a", "title": format!("{number:04}"), "rating": number % 5});
            made(&before, PHOTOS, &fields).await;
        }
        let album = album_in(&ledger, ALBUM);
        let (old, _) = pages(&album, &format!("{PHOTOS}?maxResults=1")).await;
        // Changed, deleted and made before the index is complete.
        let path = |at: usize| format!("{PHOTOS}/{}", old[at]["id"].as_str().expect("an id"));
        album
            .json("PATCH", &path(0), &json!({"title": "9999"}))
            .await;
        album.send("DELETE", &path(1), &[], Vec::new()).await;
        made(&album, PHOTOS, &json!({"album": "b", "title": "0000 new"})).await;
        let (items, pages) = pages(&album, &query("", "title", 1_000)).await;
        let titles: Vec<_> = items
            .iter()
            .map(|it| it["title"].as_str().expect("a title"))
            .collect();
        assert_eq!(titles.len(), count, "{titles:?}");
        assert!(titles.is_sorted(), "{titles:?}");
        assert!(titles.contains(&"0000 new"), "{titles:?}");
        assert_eq!(titles[count - 1], "9999");
        let expected = match count {
            3 | 250 => 1,
            _ => 3 + 3,
        };
        assert_eq!(pages, expected, "{count}");
        let again = self::titles(&album, "album = b", "", 10).await;
        assert_eq!(again, ["0000 new"]);
    }
}

/// A server of the album with fewer filters and orders than [`ALBUM`].
fn with_fewer_indexes(ledger: &Arc<MemoryLedger>) -> World {
    let fewer = ALBUM.replace(r#"["rating desc", "title"]"#, r#"["rating desc"]"#);
    let fewer = fewer.replace(r#""album", "#, "");
    assert_ne!(fewer, ALBUM);
    album_in(ledger, &fewer)
}

#[tokio::test]
async fn index_misses_nothing_that_another_description_wrote() {
    for is_without in [false, true] {
        let ledger = Arc::new(MemoryLedger::default());
        let album = album_in(&ledger, ALBUM);
        sample(&album).await;
        let other = if is_without {
            album_in(&ledger, &without_indexes())
        } else {
            with_fewer_indexes(&ledger)
        };
        made(
            &other,
            PHOTOS,
            &json!({"album": "a", "title": "a4", "rating": 4}),
        )
        .await;
        let (old, _) = pages(&album, &format!("{PHOTOS}?maxResults=10")).await;
        let moved = old.iter().find(|photo| photo["title"] == "a1");
        let id = moved
            .and_then(|photo| photo["id"].as_str())
            .expect("it is there");
        let path = format!("{PHOTOS}/{id}");
        other
            .json("PATCH", &path, &json!({"album": "b", "title": "b1"}))
            .await;
        for _ in 0..2 {
            assert_eq!(
                titles(&album, "album = a", "title", 10).await,
                ["a-2", "a3", "a4", "a5"]
            );
            assert_eq!(
                titles(&album, "album = b", "title", 10).await,
                ["b", "b1", "b3"]
            );
            let best = titles(&album, "rating > 3", "rating desc", 10).await;
            assert_eq!(best, ["a5", "a4"]);
        }
    }
}

#[tokio::test]
async fn index_that_was_half_built_misses_nothing_either() {
    let ledger = Arc::new(MemoryLedger::default());
    let other = album_in(&ledger, &without_indexes());
    for number in 0..1_500 {
        made(&other, PHOTOS, &json!({"title": format!("{number:04}")})).await;
    }
    let album = album_in(&ledger, ALBUM);
    let first = album.get(&query("", "title", 10)).await.json();
    assert_eq!(first["items"], json!([]), "the first page builds a part");
    let (old, _) = pages(&album, &format!("{PHOTOS}?maxResults=1")).await;
    let path = format!("{PHOTOS}/{}", old[0]["id"].as_str().expect("an id"));
    let other = album_in(&ledger, &without_indexes());
    other.json("PATCH", &path, &json!({"title": "9999"})).await;
    let all = titles(&album, "", "title", 1_000).await;
    assert_eq!((all.len(), all[0].as_str()), (1_500, "0001"));
    assert_eq!(all[1_499], "9999");
}

#[tokio::test]
async fn writes_of_a_process_read_the_records_of_a_collection_once() {
    let faults = Arc::new(Faults::new(Trigger::Never, InjectedFault::Fault));
    let local = LocalStores::new();
    let Stores { ledger, vault } = local.stores();
    let ledger = Arc::new(FaultyLedger::new(ledger, Arc::clone(&faults)));
    let album = album_over(Stores { ledger, vault }, &without_indexes());
    for _ in 0..5 {
        made(&album, PHOTOS, &json!({"title": "a"})).await;
    }
    assert_eq!(faults.calls_of("resource"), 1);
}

#[tokio::test]
async fn holes_of_earlier_releases_are_mended_once() {
    let ledger = Arc::new(MemoryLedger::default());
    let album = album_in(&ledger, ALBUM);
    sample(&album).await;
    let state = format!(".index-state/album{PHOTOS}");
    let read = |collection: String| {
        let ledger = Arc::clone(&ledger);
        async move {
            ledger
                .resources(&collection, None, 100)
                .await
                .expect("it can be read")
        }
    };
    // The state that an earlier release leaves: a record for each index says that all rows are
    // there, and one row is missing.
    let mut changes = Vec::new();
    for row in read(state).await {
        changes.push(ResourceChange::Delete {
            collection: row.collection.clone(),
            id: row.id.clone(),
            expected: row.version,
        });
        changes.push(ResourceChange::Insert(Resource {
            id: ",title:t".to_owned(),
            body: Bytes::from_static(&[2]),
            ..row
        }));
    }
    assert_eq!(changes.len(), 2, "there is a record");
    let rows = read(format!(".index/,title:t/album{PHOTOS}")).await;
    let lost = rows.first().expect("there are rows").clone();
    changes.push(ResourceChange::Delete {
        collection: lost.collection,
        id: lost.id,
        expected: lost.version,
    });
    let changes = ChangeSet {
        resources: changes,
        ..ChangeSet::default()
    };
    ledger.apply(changes).await.expect("it can be changed");

    let by_title = query("", "title", 10);
    for _ in 0..4 {
        let (items, count) = pages(&album, &by_title).await;
        assert_eq!((items.len(), count), (6, 1));
    }
    let rows = read(format!(".index/,title:t/album{PHOTOS}")).await;
    assert_eq!(rows.len(), 6, "the lost row is there again");
}

/// The row of an index is longer than the key of its resource.
#[tokio::test]
async fn resource_with_the_longest_id_is_listed_by_an_index() {
    let ledger = Arc::new(MemoryLedger::default());
    let album = album_in(&ledger, ALBUM);
    made(&album, PHOTOS, &json!({"title": "b"})).await;
    let collection = format!("album{PHOTOS}");
    let id = "a".repeat(MAX_KEY_LEN - collection.len());
    let resource = Resource {
        collection,
        id: id.clone(),
        version: 1,
        body: Bytes::from(json!({"id": id, "title": "a"}).to_string()),
        media: None,
        created: album.now(),
        updated: album.now(),
        due: None,
        claimed_by: None,
        owner: None,
    };
    let changes = ChangeSet {
        resources: vec![ResourceChange::Insert(resource)],
        ..ChangeSet::default()
    };
    ledger
        .apply(changes)
        .await
        .expect("its key is not too long");
    // Its row is missing, as if the index came later.
    for record in ledger
        .resources(&format!(".index-state/album{PHOTOS}"), None, 100)
        .await
        .expect("it can be read")
    {
        let changes = ChangeSet {
            resources: vec![ResourceChange::Delete {
                collection: record.collection,
                id: record.id,
                expected: record.version,
            }],
            ..ChangeSet::default()
        };
        ledger.apply(changes).await.expect("it can be changed");
    }
    assert_eq!(titles(&album, "", "title", 10).await, ["a", "b"]);
    let patched = album
        .json("PATCH", &format!("{PHOTOS}/{id}"), &json!({"title": "c"}))
        .await;
    assert_eq!(patched.status, 200, "{patched:?}");
    assert_eq!(titles(&album, "", "title", 10).await, ["b", "c"]);
}

#[tokio::test]
async fn nothing_is_left_of_indexes_of_what_is_deleted() {
    let ledger = Arc::new(MemoryLedger::default());
    let album = album_in(&ledger, ALBUM);
    let photo = made(&album, PHOTOS, &json!({"album": "a", "rating": 1})).await;
    let comments = format!("{photo}/comments");
    for likes in ["3", "20", "-7"] {
        made(&album, &comments, &json!({"likes": likes})).await;
    }
    let filter = format!("{comments}?filter={}&maxResults=1", url("likes > -7"));
    let (items, _) = pages(&album, &filter).await;
    let likes: Vec<_> = items.iter().map(|item| &item["likes"]).collect();
    assert_eq!(likes, ["3", "20"], "as numbers");
    pages(&album, &query("album = a", "title", 1)).await;
    assert_eq!(
        album.send("DELETE", &photo, &[], Vec::new()).await.status,
        204
    );
    let collection = format!("album{comments}");
    for name in [
        collection.clone(),
        format!(".index/likes:i/{collection}"),
        format!(".index-state/{collection}"),
        format!("album{PHOTOS}"),
        format!(".index/album:t/album{PHOTOS}"),
        format!(".index/album:t,title:t/album{PHOTOS}"),
    ] {
        let rows = ledger
            .resources(&name, None, 10)
            .await
            .expect("it can be read");
        assert!(rows.is_empty(), "{name}: {rows:?}");
    }
}
