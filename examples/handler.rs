//! An API of one's own: text notes, whose words are counted.
//!
//! `cargo run --bin handler -- 127.0.0.1:8080`, then in another terminal:
//!
//! ```sh
//! curl --data-binary 'sheep and goats' -H 'Content-Type: text/plain' 'http://127.0.0.1:8080/upload/notes/v1/notes?uploadType=media'
//! ```
//!
//! The description says which methods there are. The handler says what they mean: it is asked when the
//! media is durable, returns the changes to make and the reply to give, and the server commits both in one
//! transaction. This one leaves all but the counting to the default handler.

#![expect(clippy::print_stdout, reason = "an example talks to its user")]

use std::error::Error;
use std::future::pending;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::net::TcpListener;
use windlass_discovery::Api;
use windlass_server::handler::{Answer, ApiHandler, Call, Rejection, Uploaded};
use windlass_server::{DefaultHandler, Listener, Registry, ServedApi, Server, Stores};
use windlass_store::Resource;
use windlass_store::memory::{MemoryLedger, MemoryVault};

const DESCRIPTION: &str = r#"
name = "notes"
version = "v1"
title = "Notes API"

[collections.notes]
schema = { title = "string", words = "integer" }
methods = ["insert", "get", "list", "delete"]

[collections.notes.media]
accept = ["text/plain"]
max_size = "1MB"
"#;

struct Notes;

#[async_trait]
impl ApiHandler for Notes {
    async fn admit(&self, call: &Call<'_>) -> Result<(), Rejection> {
        DefaultHandler.admit(call).await
    }

    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
        let Some(note) = media else {
            return DefaultHandler.run(call, None).await;
        };
        let mut metadata = call.metadata.clone();
        metadata.insert("words".to_owned(), count_words(&note).await?.into());
        let counted = Call {
            metadata: &metadata,
            ..*call
        };
        DefaultHandler.run(&counted, Some(note)).await
    }

    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        DefaultHandler.find(call).await
    }
}

/// The description limits a note to 1 MB, so all of it may be read into memory.
async fn count_words(note: &Uploaded) -> Result<usize, Rejection> {
    let bytes = note.source.read(0..note.source.length()).await?;
    let text = str::from_utf8(&bytes).map_err(|error| Rejection::InvalidMedia {
        problem: format!("a note is UTF-8: {error}"),
    })?;
    Ok(text.split_whitespace().count())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).ok_or("usage: handler ADDRESS")?;
    let notes = ServedApi::new(Api::from_toml(DESCRIPTION)?, Arc::new(Notes));
    // In memory, to keep the example short: notes are gone when the process ends.
    let stores = Stores {
        ledger: Arc::new(MemoryLedger::new()),
        vault: Arc::new(MemoryVault::new()),
    };
    let server = Server::builder(Registry::new([notes])?, stores).build()?;
    let listener = TcpListener::bind(&address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    server.run(Listener::plain(listener), pending()).await;
    Err("the storage failed".into())
}
