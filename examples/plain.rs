//! The upload server behind hyper, without a framework.
//!
//! `cargo run --bin plain -- 127.0.0.1:8080 data`, then in another terminal:
//!
//! ```sh
//! curl -H 'Content-Type: image/jpeg' --data-binary @photo.jpg \
//!     'http://127.0.0.1:8080/upload/album/v1/photos?uploadType=media'
//! ```
//!
//! [`Server::run`](windlass_server::Server::run) is more than this loop: it limits connections and their times.
//! Use it where the application has no listener of its own.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example talks to its user"
)]

use std::error::Error;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use windlass_embed::Uploads;

const ALBUM: &str = r#"
name = "album"
version = "v1"

[collections.photos]
schema = { title = "string" }
media = { accept = ["image/*"], max_size = "20MB" }
"#;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(address), Some(data)) = (args.next(), args.next()) else {
        return Err("usage: plain ADDRESS DATA_DIRECTORY".into());
    };
    let uploads = Uploads::open(data).api(ALBUM).start().await?;
    let listener = TcpListener::bind(&address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let accept = async {
        loop {
            let (stream, _) = listener.accept().await?;
            let service = TowerToHyperService::new(uploads.service());
            tokio::spawn(async move {
                let connection = auto::Builder::new(TokioExecutor::new());
                let served = connection.serve_connection(TokioIo::new(stream), service);
                if let Err(error) = served.await {
                    eprintln!("a connection broke: {error}");
                }
            });
        }
    };
    tokio::select! {
        ended = accept => ended,
        failed = uploads.failed() => Err(failed.into()),
        _ = tokio::signal::ctrl_c() => {
            uploads.drain().await;
            Ok(())
        }
    }
}
