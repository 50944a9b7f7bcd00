//! The upload server under `/media` of an axum application, behind the application's own
//! authentication.
//!
//! `cargo run --bin embed -- 127.0.0.1:8080 data`, then in another terminal:
//!
//! ```sh
//! curl -H 'Authorization: Bearer alice-token' http://127.0.0.1:8080/hello
//! curl -H 'Authorization: Bearer alice-token' -H 'Content-Type: image/jpeg' --data-binary @photo.jpg \
//!     'http://127.0.0.1:8080/media/upload/photos/v1/photos?uploadType=media'
//! ```
//!
//! The application owns the listener, the routes and the users. [`authenticate`] is a layer around
//! all of its routes: it finds the user of each request and inserts a [`Principal`]. The handler
//! gets it in [`Call::principal`] and writes it into the field `owner` of the photo.
//!
//! [`Server::start`] begins the work that belongs to no request: it deletes expired sessions,
//! finishes uploads that a crash has interrupted, and watches the free space of the disk.

#![expect(clippy::print_stdout, reason = "an example talks to its user")]

use std::error::Error;
use std::sync::Arc;

use async_trait::async_trait;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{StatusCode, Uri};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Extension, Router};
use tokio::net::TcpListener;
use windlass_discovery::Api;
use windlass_server::handler::{Answer, ApiHandler, Call, Rejection, Uploaded};
use windlass_server::{DefaultHandler, Principal, Registry, ServedApi, Server, Stores};
use windlass_store::Resource;
use windlass_store_local::{LocalStore, Options};

const DESCRIPTION: &str = r#"
name = "photos"
version = "v1"
title = "Photos API"

[collections.photos]
methods = ["insert", "get", "list"]

[collections.photos.schema]
title = "string"
owner = { type = "string", description = "The user that uploaded the photo. Set by the server." }

[collections.photos.media]
accept = ["image/*"]
max_size = "1GB"
"#;

/// The tokens of the users. A real application has hashes of them in its database.
const TOKENS: [(&str, &str); 2] = [("alice-token", "alice"), ("bob-token", "bob")];

/// Length in bytes up to which the body of a refused request is read.
const READ_OF_REFUSED: usize = 64 * 1024;

/// Identifies the user of a request. Answers 401 if that is not possible.
async fn authenticate(mut request: Request, next: Next) -> Response {
    if let Some(user) = user(&request) {
        request.extensions_mut().insert(Principal::new(user));
    } else if !is_open(request.uri()) {
        // If a body is left unread, the connection is closed without a notice. A client that sends
        // its next request on it, as Google's Python library does, sees a broken connection.
        to_bytes(request.into_body(), READ_OF_REFUSED).await.ok();
        // The same library cannot parse a challenge without a parameter.
        let challenge = [(WWW_AUTHENTICATE, "Bearer realm=\"photos\"")];
        return (StatusCode::UNAUTHORIZED, challenge, "Who are you?\n").into_response();
    }
    next.run(request).await
}

fn user(request: &Request) -> Option<&'static str> {
    let value = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
    let token = value.strip_prefix("Bearer ")?;
    let (_, user) = TOKENS.iter().find(|(known, _)| *known == token)?;
    Some(user)
}

/// Whether a request needs no token:
///
/// * Google's Python library reads the discovery documents before it has credentials. They hold
///   nothing secret.
/// * A session URI has an `upload_id`, which only the client knows that started the upload, with a
///   token. It is a credential of its own, and some of Google's clients send no other one with the
///   media. On any other path the parameter has no meaning, so it must not open it.
fn is_open(uri: &Uri) -> bool {
    let path = uri.path();
    let is_upload =
        path.starts_with("/media/upload/") || path.starts_with("/media/resumable/upload/");
    let mut parameters = uri.query().unwrap_or_default().split('&');
    let names_session = parameters.any(|parameter| parameter.starts_with("upload_id="));
    path.starts_with("/media/discovery/") || (is_upload && names_session)
}

async fn hello(Extension(user): Extension<Principal>) -> String {
    format!("Hello, {user}.\n")
}

/// Does what the default handler does, and says who uploaded a photo.
struct Photos;

#[async_trait]
impl ApiHandler for Photos {
    async fn admit(&self, call: &Call<'_>) -> Result<(), Rejection> {
        DefaultHandler.admit(call).await
    }

    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
        let mut metadata = call.metadata.clone();
        // It replaces what a client may have claimed. In a resumable upload it is the user that
        // started the upload.
        let owner = call.principal.map(Principal::id);
        metadata.insert("owner".to_owned(), owner.into());
        let call = Call {
            metadata: &metadata,
            ..*call
        };
        DefaultHandler.run(&call, media).await
    }

    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        DefaultHandler.find(call).await
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(address), Some(data)) = (args.next(), args.next()) else {
        return Err("usage: embed ADDRESS DATA_DIRECTORY".into());
    };

    let store = LocalStore::open(data.as_ref(), Options::default())?;
    let stores = Stores {
        ledger: Arc::new(store.ledger),
        vault: Arc::new(store.vault),
    };
    let photos = ServedApi::new(Api::from_toml(DESCRIPTION)?, Arc::new(Photos));
    let server = Server::builder(Registry::new([photos])?, stores)
        // Session URIs and discovery documents contain the path at which the service is nested.
        .mounted_at("/media")
        .build()?;
    server.start().await;

    let app = Router::new()
        .route("/hello", get(hello))
        .nest_service("/media", server.service())
        .layer(from_fn(authenticate));

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
