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
//! `tower` service. [`Server::run`] does the work that belongs to no request: it deletes expired sessions,
//! finishes uploads that a crash has interrupted, and watches the free space of the disk.

#![expect(clippy::print_stdout, reason = "an example talks to its user")]

use std::error::Error;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use windlass_apis::Options;
use windlass_server::{Accept, Ended, Listener, Registry, Server, Settings, Stores, SystemClock};
use windlass_store_local::LocalStore;

/// A source of connections that never has one: they come through axum.
struct NoConnections;

impl Accept for NoConnections {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, Option<SocketAddr>)> {
        pending().await
    }
}

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
    let server = Server::new(
        Settings::default(),
        Registry::new(farm)?,
        stores,
        Arc::new(SystemClock),
    );

    let app = Router::new()
        .route("/hello", get(async || "Hello from the application.\n"))
        .fallback_service(server.clone());

    let stop = Arc::new(Notify::new());
    let background = tokio::spawn({
        let stop = Arc::clone(&stop);
        async move {
            let idle = Listener::plain(NoConnections);
            server.run(idle, stop.notified()).await
        }
    });

    let listener = TcpListener::bind(&address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let interrupted = async {
        tokio::signal::ctrl_c().await.ok();
    };
    // First the requests end, then the work behind them.
    axum::serve(listener, app)
        .with_graceful_shutdown(interrupted)
        .await?;
    stop.notify_one();
    match background.await? {
        Ended::Drained => Ok(()),
        Ended::StorageFailed => Err("the storage failed; start again to recover".into()),
    }
}
