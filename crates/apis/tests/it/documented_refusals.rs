//! The refusals in docs/apis that are requests: each is sent here, and its reply compared.
//!
//! An entry has the request in code spans: its method and target, then headers (`Range: bytes=9-`)
//! and a JSON body (`{"name": ""}`), if it has any. Its location is a header if the request has a
//! header of this name, otherwise a parameter.

use std::path::Path;

use serde_json::{Value, json};
use windlass_apis::Options;

use crate::refusals::{Refusal, listed};
use crate::world::{Peer as _, World};

/// An entry of a page.
#[derive(Debug)]
struct Entry {
    verb: String,
    target: String,
    headers: Vec<(String, String)>,
    body: String,
    expected: Refusal,
}

/// Reads the refusals of a page.
fn entries(page: &str) -> Vec<Entry> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/apis");
    let text = std::fs::read_to_string(docs.join(page)).expect("it is readable");
    let listed = listed(&text).into_iter();
    listed
        .map(|(request, refusal)| entry(&request, refusal))
        .collect()
}

fn entry(request: &str, mut expected: Refusal) -> Entry {
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
    if !expected.location.is_empty() {
        let is_location = |(name, _): &(String, _)| name.eq_ignore_ascii_case(&expected.location);
        let location_type = if headers.iter().any(is_location) {
            "header"
        } else {
            "parameter"
        };
        expected.location = format!("{location_type} {}", expected.location);
    }
    Entry {
        verb: verb.to_owned(),
        target: target.to_owned(),
        headers,
        body,
        expected,
    }
}

/// Sends each request of a page, with names of the page replaced, and compares the replies.
async fn check<C: windlass_server::Clock + Default>(
    world: &World<C>,
    page: &str,
    at_least: usize,
    names: &[(&str, &str)],
) where
    World<C>: crate::world::Peer,
{
    let entries = entries(page);
    let number = entries.len();
    assert!(number >= at_least, "{page} has {number} refusals");
    let mut wrong = Vec::new();
    for entry in entries {
        let replaced = |text: &str| {
            let replace = |text: String, (name, value): &(&str, &str)| text.replace(name, value);
            names.iter().fold(text.to_owned(), replace)
        };
        let headers: Vec<_> = entry
            .headers
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        let (target, body) = (replaced(&entry.target), replaced(&entry.body));
        let reply = world.send(&entry.verb, &target, &headers, body).await;
        let error = &serde_json::from_slice::<Value>(&reply.body).unwrap_or_default()["error"];
        let detail = &error["errors"][0];
        let text = |name: &str| detail[name].as_str().unwrap_or_default().to_owned();
        let location = format!("{} {}", text("locationType"), text("location"));
        let found = Refusal {
            status: reply.status.as_u16().to_string(),
            reason: text("reason"),
            location: location.trim().to_owned(),
        };
        if found != entry.expected {
            let message = &error["message"];
            let (verb, expected) = (&entry.verb, &entry.expected);
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
