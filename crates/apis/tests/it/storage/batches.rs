//! Calls in batches. Each call has separate headers.

use super::{OBJECTS, Storage};
use crate::world::{Peer as _, Reply};

impl Storage {
    /// The reply to a batch of one call.
    async fn batch(&self, call: &str) -> Reply {
        let body = format!("--b\r\nContent-Type: application/http\r\n\r\n{call}\r\n\r\n--b--");
        let headers = [("content-type", "multipart/mixed; boundary=b")];
        self.send("POST", "/batch/storage/v1", &headers, body).await
    }
}

/// The status of the only call in a batch.
fn status(reply: &Reply) -> &str {
    let text = str::from_utf8(&reply.body).expect("it is text");
    let status = text.lines().find_map(|line| line.strip_prefix("HTTP/1.1 "));
    &status.expect("the batch has a call")[..3]
}

#[tokio::test]
async fn condition_in_a_header_of_a_call_decides() {
    let storage = Storage::new().await;
    storage.put("cow", b"moo").await;
    for condition in [
        "x-goog-if-generation-match: 1234",
        "x-goog-if-metageneration-match: 77",
        "If-Match: \"other\"",
    ] {
        let call = format!("DELETE {OBJECTS}/cow\r\n{condition}");
        assert_eq!(status(&storage.batch(&call).await), "412", "{condition}");
    }
    assert_eq!(storage.media("cow").await, "moo");
    let call = format!("DELETE {OBJECTS}/cow\r\nx-goog-if-metageneration-match: 1");
    assert_eq!(status(&storage.batch(&call).await), "204");
}

#[tokio::test]
async fn refused_header_of_a_call_is_refused() {
    let storage = Storage::new().await;
    storage.put("cow", b"moo").await;
    for (header, expected) in [
        ("x-goog-encryption-key: k", "400"),
        ("x-goog-copy-source-encryption-key: k", "400"),
        ("x-goog-acl: public-read", "501"),
        ("x-goog-meta-colour: brown", "501"),
        ("x-goog-fieldmask: name", "501"),
        ("x-goog-user-project: farm", "200"),
    ] {
        let call = format!("GET {OBJECTS}/cow\r\n{header}");
        assert_eq!(status(&storage.batch(&call).await), expected, "{header}");
    }
}
