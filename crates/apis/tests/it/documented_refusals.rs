//! The tables of refusals in docs/apis: each row is a request that is sent here, with its reply.
//!
//! The first cell of a row has the request in code spans: its method and target, then headers
//! (`Range: bytes=9-`) and a JSON body (`{"name": ""}`), if it has any. The next cells are the
//! status, the reason, the location (`parameter q`, `header Range`, or nothing) and the source.

use std::path::Path;

use serde_json::{Value, json};
use windlass_apis::Options;

use crate::world::{Peer as _, World};

/// A row of a table.
#[derive(Debug)]
struct Row {
    verb: String,
    target: String,
    headers: Vec<(String, String)>,
    body: String,
    expected: Refusal,
}

/// The parts of a refusal by which clients decide.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    status: u16,
    reason: String,
    /// `parameter q`; empty if the error names no part of the request.
    location: String,
}

/// Reads the table below the heading "Refusals" of a page.
fn rows(page: &str) -> Vec<Row> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/apis");
    let text = std::fs::read_to_string(docs.join(page)).expect("it is readable");
    let (_, section) = text
        .split_once("\n## Refusals\n")
        .expect("it has a section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let lines = section.lines().filter(|line| line.starts_with("| `"));
    lines.map(row).collect()
}

fn row(line: &str) -> Row {
    let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
    let [request, status, reason, location, source] = cells[..] else {
        panic!("{line} has {} cells", cells.len());
    };
    assert!(!source.is_empty(), "{line} has no source");
    let mut spans = request.split('`').skip(1).step_by(2);
    let line_of_request = spans.next().expect("it is a code span");
    let (verb, target) = line_of_request
        .split_once(' ')
        .expect("a method and a target");
    let (mut headers, mut body) = (Vec::new(), String::new());
    for span in spans {
        match span.split_once(": ") {
            _ if span.starts_with('{') => {
                headers.push(("content-type".to_owned(), "application/json".to_owned()));
                span.clone_into(&mut body);
            }
            Some((name, value)) => headers.push((name.to_lowercase(), value.to_owned())),
            None => panic!("{span} is no header and no JSON"),
        }
    }
    Row {
        verb: verb.to_owned(),
        target: target.to_owned(),
        headers,
        body,
        expected: Refusal {
            status: status.parse().expect("a status"),
            reason: reason.trim_matches('`').to_owned(),
            location: location.replace('`', ""),
        },
    }
}

/// Sends each row of a page, with names of the page replaced, and compares the replies.
async fn check<C: windlass_server::Clock + Default>(
    world: &World<C>,
    page: &str,
    at_least: usize,
    names: &[(&str, &str)],
) where
    World<C>: crate::world::Peer,
{
    let rows = rows(page);
    assert!(rows.len() >= at_least, "{page} has {} rows", rows.len());
    let mut wrong = Vec::new();
    for row in rows {
        let replaced = |text: &str| {
            let replace = |text: String, (name, value): &(&str, &str)| text.replace(name, value);
            names.iter().fold(text.to_owned(), replace)
        };
        let headers: Vec<_> = row
            .headers
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        let (target, body) = (replaced(&row.target), replaced(&row.body));
        let reply = world.send(&row.verb, &target, &headers, body).await;
        let error = &serde_json::from_slice::<Value>(&reply.body).unwrap_or_default()["error"];
        let detail = &error["errors"][0];
        let text = |name: &str| detail[name].as_str().unwrap_or_default().to_owned();
        let location = format!("{} {}", text("locationType"), text("location"));
        let found = Refusal {
            status: reply.status.as_u16(),
            reason: text("reason"),
            location: location.trim().to_owned(),
        };
        if found != row.expected {
            let message = &error["message"];
            let (verb, expected) = (&row.verb, &row.expected);
            wrong.push(format!(
                "{verb} {target}: {found:?} {message}\n  not {expected:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{page}:\n{}", wrong.join("\n"));
}

#[tokio::test]
async fn gmail_refuses_as_its_page_says() {
    let world = World::shared("gmail", &Options::default());
    let letter = "To: me@windlass.localhost\r\n\r\nhay";
    let path = "/gmail/v1/users/me/messages";
    let message = world.simple(path, "message/rfc822", letter.as_bytes());
    let id = message.await.field("id");
    let label = json!({"name": "Hay"});
    let made = world.json("POST", "/gmail/v1/users/me/labels", &label);
    made.await.resource();
    check(&world, "gmail.md", 45, &[("MESSAGE", &id)]).await;
}

#[tokio::test]
async fn storage_refuses_as_its_page_says() {
    let world = World::of("storage");
    let buckets = "/storage/v1/b?project=farm";
    for name in ["barn", "stall"] {
        let bucket = json!({"name": name});
        world.json("POST", buckets, &bucket).await.resource();
    }
    let uniform = json!({"iamConfiguration": {"uniformBucketLevelAccess": {"enabled": true}}});
    let patched = world.json("PATCH", "/storage/v1/b/stall", &uniform);
    patched.await.resource();
    let object = json!({"name": "cow"});
    let path = "/storage/v1/b/barn/o";
    let made = world.multipart(path, &object, "text/plain", b"moo");
    made.await.resource();
    check(&world, "storage.md", 45, &[]).await;
}

#[tokio::test]
async fn firebase_refuses_as_its_page_says() {
    let world = World::of("firebasestorage");
    let headers = [("x-goog-upload-protocol", "raw")];
    let made = world.send("POST", "/v0/b/barn/o?name=cow", &headers, "moo");
    made.await.resource();
    check(&world, "firebasestorage.md", 15, &[]).await;
}

#[tokio::test]
async fn any_api_refuses_as_its_page_says() {
    let world = World::of("farm");
    let path = "/farm/v1/animals";
    let made = world.simple(path, "image/png", b"moo").await;
    check(&world, "any.md", 25, &[("ANIMAL", &made.field("id"))]).await;
}
