//! Lists of objects.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{OBJECTS, Storage, row};
use crate::world::Peer as _;

/// The contents of a page: names, prefixes, and the token of the next page.
#[derive(Debug, PartialEq)]
struct Page {
    names: Vec<String>,
    prefixes: Vec<String>,
    token: Option<String>,
}

async fn page(storage: &Storage, query: &str) -> Page {
    let page = storage
        .call("GET", &format!("{OBJECTS}?{query}"))
        .await
        .resource();
    assert_eq!(page["kind"], "storage#objects");
    let texts = |value: &Value| -> Vec<String> {
        let texts = value.as_array().into_iter().flatten();
        texts
            .map(|it| it.as_str().expect("as the list has it").to_owned())
            .collect()
    };
    Page {
        names: page["items"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|it| it["name"].as_str().expect("as the list has it").to_owned())
            .collect(),
        prefixes: texts(&page["prefixes"]),
        token: page["nextPageToken"].as_str().map(str::to_owned),
    }
}

async fn filled(names: &[&str]) -> Storage {
    let storage = Storage::new().await;
    for name in names {
        storage
            .alone(&format!("name={name}"), "moo")
            .await
            .resource();
    }
    storage
}

const NAMES: [&str; 9] = ["a", "a/", "a/1", "a/2", "a/b/1", "a0", "b/1", "c", "c/d/e"];

#[tokio::test]
async fn a_list_shows_what_was_asked_for() {
    let storage = filled(&NAMES).await;
    let table: [(&str, &[&str], &[&str]); 15] = [
        ("", &NAMES, &[]),
        ("prefix=a/", &["a/", "a/1", "a/2", "a/b/1"], &[]),
        ("prefix=a/1", &["a/1"], &[]),
        ("prefix=x", &[], &[]),
        ("delimiter=/", &["a", "a0", "c"], &["a/", "b/", "c/"]),
        ("delimiter=/&prefix=a/", &["a/", "a/1", "a/2"], &["a/b/"]),
        ("delimiter=/&prefix=a", &["a", "a0"], &["a/"]),
        (
            "delimiter=/&includeTrailingDelimiter=true",
            &["a", "a/", "a0", "c"],
            &["a/", "b/", "c/"],
        ),
        (
            "delimiter=/d/",
            &["a", "a/", "a/1", "a/2", "a/b/1", "a0", "b/1", "c"],
            &["c/d/"],
        ),
        ("startOffset=a0", &["a0", "b/1", "c", "c/d/e"], &[]),
        ("endOffset=a/1", &["a", "a/"], &[]),
        (
            "startOffset=a/2&endOffset=c",
            &["a/2", "a/b/1", "a0", "b/1"],
            &[],
        ),
        ("prefix=a&startOffset=b", &[], &[]),
        ("softDeleted=True", &[], &[]),
        ("versions=True", &NAMES, &[]),
    ];
    for (query, names, prefixes) in table {
        let page = page(&storage, query).await;
        assert_eq!(
            (page.names, page.prefixes),
            (own(names), own(prefixes)),
            "{query}"
        );
        assert_eq!(page.token, None, "{query}");
    }
}

fn own(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

/// Clients that are tested against an empty array break at the service.
#[tokio::test]
async fn empty_list_of_objects_has_no_items_and_no_prefixes() {
    let storage = Storage::new().await;
    let keys = async |query: &str| {
        let list = storage.call("GET", &format!("{OBJECTS}?{query}")).await;
        let keys = list.resource();
        let mut keys: Vec<_> = keys.as_object().unwrap().keys().cloned().collect();
        keys.sort_unstable();
        keys
    };
    assert_eq!(keys("").await, ["kind"]);
    storage.alone("name=d/x", "moo").await.resource();
    assert_eq!(keys("delimiter=nomatch").await, ["items", "kind"]);
    assert_eq!(keys("delimiter=/").await, ["kind", "prefixes"]);
    assert_eq!(keys("prefix=none").await, ["kind"]);
    assert_eq!(keys("softDeleted=true").await, ["kind"]);
}

/// With every filter and page size, all pages together show the same entries as a single page.
#[tokio::test]
async fn pages_together_show_what_one_page_shows() {
    let storage = filled(&NAMES).await;
    for query in [
        "",
        "prefix=a",
        "delimiter=/",
        "delimiter=/&prefix=a/",
        "delimiter=/&startOffset=a/2&endOffset=c0",
    ] {
        let whole = page(&storage, query).await;
        for size in 1..=NAMES.len() {
            let (mut names, mut prefixes, mut token) = (Vec::new(), Vec::new(), String::new());
            loop {
                let next = page(
                    &storage,
                    &format!("{query}&maxResults={size}&pageToken={token}"),
                )
                .await;
                assert!(next.names.len() + next.prefixes.len() <= size, "{next:?}");
                names.extend(next.names);
                prefixes.extend(next.prefixes);
                match next.token {
                    Some(next) => token = next,
                    None => break,
                }
            }
            assert_eq!(
                (&names, &prefixes),
                (&whole.names, &whole.prefixes),
                "{query}, by {size}"
            );
        }
    }
}

/// More rows than are taken out of the ledger at once, in front of a prefix and inside of it.
#[tokio::test]
async fn a_prefix_of_many_objects_is_shown_once() {
    let storage = Storage::new().await;
    let mut expected = BTreeSet::new();
    for folder in 0..3 {
        for n in 0..150 {
            storage
                .alone(&format!("name={folder}/{n}"), "moo")
                .await
                .resource();
        }
        expected.insert(format!("{folder}/"));
    }
    storage.alone("name=9", "moo").await.resource();
    let page = page(&storage, "delimiter=/").await;
    assert_eq!(page.prefixes, expected.into_iter().collect::<Vec<_>>());
    assert_eq!(page.names, ["9"]);
    let inside = self::page(&storage, "delimiter=/&prefix=1/").await;
    assert_eq!(inside.names.len(), 150);
}

/// Each prefix stands for more rows than are looked at for it, and all of them for more than one
/// request looks at.
#[tokio::test]
async fn a_request_looks_at_a_bounded_number_of_rows() {
    let storage = Storage::new().await;
    let names = (0..300).flat_map(|folder| (0..70).map(move |n| format!("{folder:03}/{n}")));
    storage.world.put(names.map(|name| row(&name, 1))).await;
    let (mut prefixes, mut token, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let next = page(&storage, &format!("delimiter=/&pageToken={token}")).await;
        prefixes.extend(next.prefixes);
        pages += 1;
        match next.token {
            Some(next) => token = next,
            None => break,
        }
    }
    assert!(pages > 1);
    let expected: Vec<_> = (0..300).map(|folder| format!("{folder:03}/")).collect();
    assert_eq!(prefixes, expected);
}

#[tokio::test]
async fn what_cannot_be_filtered_by_is_refused() {
    let storage = Storage::new().await;
    for query in ["maxResults=-1", "maxResults=x", "pageToken=%C3%A9"] {
        let reply = storage.call("GET", &format!("{OBJECTS}?{query}")).await;
        reply.refusal(400, "invalidParameter");
    }
    for query in ["matchGlob=*", "filter=x"] {
        let reply = storage.call("GET", &format!("{OBJECTS}?{query}")).await;
        reply.refusal(501, "notImplemented");
    }
    storage
        .call("GET", "/storage/v1/b/none/o")
        .await
        .refusal(404, "notFound");
}

#[tokio::test]
async fn a_page_ends_by_its_bytes_too() {
    let storage = Storage::new().await;
    let much = json!({"metadata": {"a": "x".repeat(8000)}});
    for n in 0..600 {
        let mut said = much.clone();
        said["name"] = format!("{n:03}").into();
        storage.described(&said, b"moo").await.resource();
    }
    let first = page(&storage, "").await;
    assert!(first.names.len() < 600, "{}", first.names.len());
    let rest = page(&storage, &format!("pageToken={}", first.token.unwrap())).await;
    assert_eq!(first.names.len() + rest.names.len(), 600);
}
