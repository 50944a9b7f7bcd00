//! Photos of users under `/media` of an axum application, in a few lines: the embedded store, users who see
//! their own photos only, and work after each upload.
//!
//! `cargo run --bin gallery -- 127.0.0.1:8080 data`, then in another terminal:
//!
//! ```sh
//! curl -H 'Authorization: Bearer alice-token' -H 'Content-Type: image/jpeg' --data-binary @photo.jpg \
//!     'http://127.0.0.1:8080/media/upload/album/v1/photos?uploadType=media'
//! curl -H 'Authorization: Bearer bob-token' http://127.0.0.1:8080/media/album/v1/photos
//! cat data/thumbnails-to-make
//! ```
//!
//! The file `thumbnails-to-make` has a line for each photo. It is written after the photo is committed; if the
//! process dies in between, it is written after the next start.

#![expect(clippy::print_stdout, reason = "an example talks to its user")]

use std::error::Error;
use std::path::Path;

use axum::Router;
use axum::extract::Request;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use tokio::fs::OpenOptions;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use windlass_embed::{Principal, Uploads};

const ALBUM: &str = r#"
name = "album"
version = "v1"
access = "owner"

[collections.photos]
schema = { title = "string" }
media = { accept = ["image/*"], max_size = "20MB" }
"#;

/// The application's own authentication: it finds the user of a request. The URI of a session needs none.
async fn identify(mut request: Request, next: Next) -> Result<Response, StatusCode> {
    let token = request.headers().get(AUTHORIZATION);
    let user = match token.map(HeaderValue::as_bytes) {
        None => return Ok(next.run(request).await),
        Some(b"Bearer alice-token") => "alice",
        Some(b"Bearer bob-token") => "bob",
        Some(_) => return Err(StatusCode::UNAUTHORIZED),
    };
    request.extensions_mut().insert(Principal::new(user));
    Ok(next.run(request).await)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(address), Some(data)) = (args.next(), args.next()) else {
        return Err("usage: gallery ADDRESS DATA_DIRECTORY".into());
    };
    let list = Path::new(&data).join("thumbnails-to-make");
    let uploads = Uploads::open(&data)
        .api(ALBUM)
        .mounted_at("/media")
        .require_principal()
        .on_uploaded(move |photo| {
            let (list, line) = (list.clone(), format!("{}\n", photo.resource["id"]));
            async move {
                let options = OpenOptions::new().append(true).create(true).clone();
                let mut list = options.open(list).await?;
                list.write_all(line.as_bytes()).await?;
                list.sync_all().await
            }
        })
        .start()
        .await?;
    let app = Router::new()
        .nest_service("/media", uploads.service())
        .layer(from_fn(identify));
    let listener = TcpListener::bind(&address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let draining = uploads.clone();
    let stop = async move {
        tokio::signal::ctrl_c().await.ok();
        draining.drain().await;
    };
    tokio::select! {
        ended = axum::serve(listener, app).with_graceful_shutdown(stop) => Ok(ended?),
        failed = uploads.failed() => Err(failed.into()),
    }
}
