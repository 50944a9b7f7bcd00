//! The upload server inside an axum application.
//!
//! `cargo run --bin embed -- 127.0.0.1:8080 data`, then in another terminal:
//!
//! ```sh
//! curl http://127.0.0.1:8080/hello
//! curl --data-binary @photo.jpg -H 'Content-Type: image/jpeg' 'http://127.0.0.1:8080/upload/farm/v1/animals?uploadType=media'
//! ```
//!
//! The application owns the listener and its routes. Every other request goes to Windlass, which is a
//! `tower` service. [`Server::start`] begins the work that belongs to no request: it deletes expired sessions,
//! finishes uploads that a crash has interrupted, and watches the free space of the disk.

#![expect(clippy::print_stdout, reason = "an example talks to its user")]

use std::error::Error;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;
use windlass_apis::Options;
use windlass_server::{Registry, Server, Stores};
use windlass_store_local::LocalStore;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(address), Some(data)) = (args.next(), args.next()) else {
        return Err("usage: embed ADDRESS DATA_DIRECTORY".into());
    };

    let store = LocalStore::open(data.as_ref(), windlass_store_local::Options::default())?;
    let stores = Stores {
        ledger: Arc::new(store.ledger),
        vault: Arc::new(store.vault),
    };
    let farm = windlass_apis::by_name("farm", &Options::default()).unwrap_or_default();
    let server = Server::builder(Registry::new(farm)?, stores).build()?;
    server.start().await;

    let app = Router::new()
        .route("/hello", get(async || "Hello from the application.\n"))
        .fallback_service(server.service());

    let listener = TcpListener::bind(&address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let draining = server.clone();
    let interrupted = async move {
        tokio::signal::ctrl_c().await.ok();
        // Uploads would go on for as long as their clients send, so they are told to commit.
        draining.drain().await;
    };
    tokio::select! {
        ended = axum::serve(listener, app).with_graceful_shutdown(interrupted) => Ok(ended?),
        failed = server.failed() => Err(failed.into()),
    }
}
