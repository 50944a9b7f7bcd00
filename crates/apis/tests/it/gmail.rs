//! Tests of the Gmail API.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use windlass_apis::Options;

use crate::world::{ManualClock, Peer as _, Reply, World};

mod drafts;
mod history;
mod labels;
mod listing;
mod messages;
mod owners;
mod parameters;
mod refusals;
mod relay;
mod sending;
mod threads;

const ME: &str = "me@windlass.localhost";

/// A server of the Gmail API, with its calls.
pub(crate) struct Gmail(World<ManualClock>);

impl Gmail {
    fn new() -> Self {
        Self::with(&Options::default())
    }

    /// Callers are not authenticated, and everyone may open every mailbox.
    fn with(options: &Options) -> Self {
        Self(World::shared("gmail", options))
    }

    /// Returns a Gmail in which each principal has a separate mailbox.
    fn owned() -> Self {
        Self(World::timed("gmail", &Options::default()))
    }

    /// Uploads a message to a method in one request.
    async fn upload(&self, method: &str, raw: &str) -> Reply {
        let path = format!("/gmail/v1/users/{method}");
        self.0.simple(&path, "message/rfc822", raw.as_bytes()).await
    }

    /// Uploads a message with metadata.
    async fn upload_with(
        &self,
        http_method: &str,
        method: &str,
        metadata: &Value,
        raw: &str,
    ) -> Reply {
        let path = format!("/gmail/v1/users/{method}");
        let media = ("message/rfc822", raw.as_bytes());
        self.0
            .multipart_by(http_method, &path, metadata, media)
            .await
    }

    /// Puts a message into my mailbox and returns the resource.
    async fn insert(&self, labels: &[&str], raw: &str) -> Value {
        let metadata = json!({"labelIds": labels});
        let reply = self
            .upload_with("POST", "me/messages", &metadata, raw)
            .await;
        reply.resource()
    }

    async fn get(&self, path: &str) -> Value {
        self.try_get(path).await.resource()
    }

    async fn try_get(&self, path: &str) -> Reply {
        self.0.get(&format!("/gmail/v1/users/{path}")).await
    }

    async fn delete(&self, path: &str) -> Reply {
        let uri = format!("/gmail/v1/users/{path}");
        self.0.call("DELETE", &uri).await
    }

    async fn call(&self, http_method: &str, path: &str, body: &Value) -> Reply {
        let uri = format!("/gmail/v1/users/{path}");
        self.0.json(http_method, &uri, body).await
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        self.call("POST", path, body).await.resource()
    }

    /// The ids of the messages that a list shows, page after page.
    async fn list(&self, query: &str) -> Vec<String> {
        self.all("me/messages", "messages", query).await
    }

    async fn all(&self, path: &str, field: &str, query: &str) -> Vec<String> {
        let mut ids = Vec::new();
        let mut token = String::new();
        loop {
            let page = self.get(&format!("{path}?{query}&pageToken={token}")).await;
            let items = page[field].as_array().cloned().unwrap_or_default();
            ids.extend(items.iter().map(|item| text(&item["id"])));
            match page["nextPageToken"].as_str() {
                Some(next) => next.clone_into(&mut token),
                None => return ids,
            }
        }
    }

    /// The bytes of one of my messages.
    async fn raw(&self, id: &str) -> String {
        let message = self.get(&format!("me/messages/{id}?format=raw")).await;
        let raw = URL_SAFE.decode(text(&message["raw"]));
        String::from_utf8(raw.expect("base64")).expect("tests write text")
    }
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value} is no text"))
        .to_owned()
}

fn id(message: &Value) -> String {
    text(&message["id"])
}

fn labels(message: &Value) -> Vec<&str> {
    let labels = message["labelIds"].as_array().map(Vec::as_slice);
    labels
        .unwrap_or_default()
        .iter()
        .filter_map(Value::as_str)
        .collect()
}

fn header(message: &Value, name: &str) -> Option<String> {
    let headers = message["payload"]["headers"].as_array()?;
    let found = headers.iter().find(|header| header["name"] == name)?;
    Some(text(&found["value"]))
}

/// Returns a message with a subject and a text.
fn sample_message(subject: &str, body: &str) -> String {
    format!(
        "From: Ann <ann@farm.test>\r\nTo: {ME}\r\nSubject: {subject}\r\n\
         Date: Mon, 01 Apr 2024 10:00:00 +0000\r\nMessage-ID: <{}@farm.test>\r\n\r\n{body}\r\n",
        subject.replace(' ', "-")
    )
}

/// Returns an answer to a [`sample_message`].
fn answer(subject: &str, number: u32) -> String {
    let id = subject.replace(' ', "-");
    format!(
        "From: Bob <bob@barn.test>\r\nTo: {ME}\r\nSubject: Re: {subject}\r\n\
         Message-ID: <{number}.{id}@barn.test>\r\nIn-Reply-To: <{id}@farm.test>\r\n\r\nyes\r\n"
    )
}
