//! Listing: queries, orders and pages.

use super::{FILES, FOLDER, ORIGIN, drive, file, folder, json, many, names, percent};
use crate::world::{Peer as _, World};

/// The names on each page of a list.
async fn pages(drive: &World, query: &str) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    let mut token = String::new();
    loop {
        let uri = format!("{FILES}?{query}&pageToken={token}");
        let page = drive.call("GET", &uri).await.resource();
        let files = page["files"].as_array().expect("files").iter();
        pages.push(
            files
                .map(|file| file["name"].as_str().expect("a name").to_owned())
                .collect(),
        );
        match page["nextPageToken"].as_str() {
            Some(next) => next.clone_into(&mut token),
            None => return pages,
        }
    }
}

#[tokio::test]
async fn queries_find_files_in_folders_by_name_type_and_time() {
    let drive = drive();
    let farm = folder(&drive, "farm", "root").await;
    file(
        &drive,
        &json!({"name": "old llama", "modifiedTime": "2001-01-01T00:00:00Z"}),
    )
    .await;
    file(
        &drive,
        &json!({"name": "llama", "parents": [farm], "properties": {"legs": "4"}}),
    )
    .await;
    let table = [
        ("", &["farm", "llama", "old llama"][..]),
        ("name = 'LLAMA'", &["llama"]),
        ("name contains 'llama'", &["llama", "old llama"]),
        (
            &format!("'{farm}' in parents and trashed = false"),
            &["llama"],
        ),
        (&format!("mimeType = '{FOLDER}'"), &["farm"]),
        (
            &format!("mimeType != '{FOLDER}' and not 'root' in parents"),
            &["llama"],
        ),
        (
            "modifiedTime > '2000-01-01' and modifiedTime < '2002-01-01'",
            &["old llama"],
        ),
        ("properties has { key='legs' and value='4' }", &["llama"]),
        ("'nowhere' in parents", &[]),
    ];
    for (query, expected) in table {
        assert_eq!(names(&drive, query).await, expected, "{query}");
    }
    let uri = format!("{FILES}?q={}", percent("size > '5'"));
    drive.call("GET", &uri).await.refusal(400, "invalid");
}

#[tokio::test]
async fn pages_in_any_order_show_every_file_once() {
    let drive = drive();
    let farm = folder(&drive, "b", "root").await;
    for (name, time) in [("a10", "2003"), ("a9", "2001"), ("C", "2002")] {
        let time = format!("{time}-01-01T00:00:00Z");
        let metadata =
            json!({"name": name, "parents": [farm], "modifiedTime": time, "createdTime": time});
        file(&drive, &metadata).await;
    }
    let q = format!("q={}", percent(&format!("'{farm}' in parents")));
    let table = [
        ("orderBy=name", ["a10", "a9", "C"]),
        ("orderBy=name%20desc", ["C", "a9", "a10"]),
        ("orderBy=name_natural", ["a9", "a10", "C"]),
        ("orderBy=createdTime", ["a9", "C", "a10"]),
        ("orderBy=folder,modifiedTime%20desc", ["a10", "C", "a9"]),
        ("spaces=drive", ["a10", "a9", "C"]),
    ];
    for (order, expected) in table {
        let whole = pages(&drive, &format!("{q}&{order}")).await;
        assert_eq!(whole.concat(), expected, "{order}");
        let single = pages(&drive, &format!("{q}&{order}&pageSize=1")).await;
        assert_eq!(
            single,
            expected.map(|name| vec![name.to_owned()]),
            "{order}"
        );
    }
    let all = pages(&drive, "orderBy=folder,name").await;
    assert_eq!(all.concat(), ["b", "a10", "a9", "C"]);
}

#[tokio::test]
async fn a_call_looks_at_a_bounded_number_of_files() {
    let drive = drive();
    let body = |nth: usize| json!({"name": if nth == 10_999 { "last" } else { "other" }});
    drive
        .put((0..11_000).flat_map(|nth| many("root", &body(nth), nth)))
        .await;
    let q = format!("q={}", percent("name = 'last'"));
    assert_eq!(pages(&drive, &q).await, [vec![], vec!["last".to_owned()]]);
    let uri = format!("{FILES}?{q}&orderBy=name");
    drive.call("GET", &uri).await.refusal(400, "invalid");
}

/// Each term is compared with each file: a query for long names must not take minutes.
#[tokio::test]
async fn a_call_compares_a_bounded_number_of_bytes() {
    let drive = drive();
    let long = json!({"name": "a".repeat(30_000)});
    let last = json!({"name": "last"});
    let files = (0..20).flat_map(|nth| many("root", if nth == 19 { &last } else { &long }, nth));
    drive.put(files).await;
    let terms = ["name contains 'b'"; 140].join(" or ");
    for query in [
        format!("name = 'last' or {terms}"),
        format!("'root' in parents and (name = 'last' or {terms})"),
    ] {
        let pages = pages(&drive, &format!("q={}", percent(&query))).await;
        assert!(pages.len() > 1, "{} pages", pages.len());
        assert_eq!(pages.concat(), ["last"]);
    }
    let uri = format!("{FILES}?q={}&orderBy=name", percent(&terms));
    drive.call("GET", &uri).await.refusal(400, "invalid");
}

#[tokio::test]
async fn files_in_a_list_show_four_fields_and_what_is_asked_for() {
    let drive = drive();
    let id = file(&drive, &json!({"name": "llama"})).await;
    let listed = drive.call("GET", FILES).await.resource();
    let short = json!({"kind": "drive#file", "id": id, "name": "llama", "mimeType": "text/plain"});
    assert_eq!(listed["files"], json!([short]));
    assert_eq!(listed["kind"], "drive#fileList");
    let uri = format!("{FILES}?fields=files(size,webContentLink)");
    let listed = drive.call("GET", &uri).await.resource();
    let link = format!("{ORIGIN}/drive/v3/files/{id}?alt=media");
    assert_eq!(
        listed,
        json!({"files": [{"size": "5", "webContentLink": link}]})
    );
}
