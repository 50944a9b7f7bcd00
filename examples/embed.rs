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
//! The application owns the listener, the routes and the users. [`identify`] is a layer around all of
//! its routes: it finds the user of a request and inserts a [`Principal`]. [`RequirePrincipal`]
//! refuses a request without a principal, except requests to session URIs and for discovery
//! documents. The handler reads [`Call::principal`] and writes it into the field `owner` of the photo.
//!
//! [`Server::start`] begins the work that belongs to no request: it deletes expired sessions,
//! finishes uploads that a crash has interrupted, and watches the free space of the disk.

#![expect(clippy::print_stdout, reason = "an example talks to its user")]

use std::error::Error;
use std::sync::Arc;

use async_trait::async_trait;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Router};
use tokio::net::TcpListener;
use windlass_discovery::Api;
use windlass_server::handler::{Answer, ApiHandler, Call, Rejection, Uploaded};
use windlass_server::{
    DefaultHandler, Principal, Registry, RequirePrincipal, ServedApi, Server, Stores,
};
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

/// The tokens of the users. A real application has hashes of the tokens in its database.
const TOKENS: [(&str, &str); 2] = [("alice-token", "alice"), ("bob-token", "bob")];

/// Inserts the user of a request that has the token of a user. The route that answers the request
/// decides whether it needs a user.
async fn identify(mut request: Request, next: Next) -> Response {
    if let Some(user) = user(&request) {
        request.extensions_mut().insert(Principal::new(user));
    }
    next.run(request).await
}

fn user(request: &Request) -> Option<&'static str> {
    let value = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
    let token = value.strip_prefix("Bearer ")?;
    let (_, user) = TOKENS.iter().find(|(known, _)| *known == token)?;
    Some(user)
}

async fn hello(user: Option<Extension<Principal>>) -> Result<String, StatusCode> {
    let Extension(user) = user.ok_or(StatusCode::UNAUTHORIZED)?;
    Ok(format!("Hello, {user}.\n"))
}

/// Works like the default handler, and records who uploaded a photo.
struct Photos;

#[async_trait]
impl ApiHandler for Photos {
    async fn admit(&self, call: &Call<'_>) -> Result<(), Rejection> {
        DefaultHandler.admit(call).await
    }

    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
        let mut metadata = call.metadata.clone();
        // The user replaces any owner that the client claimed. In a resumable upload this is the
        // user that started the upload.
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
        .authorize(Arc::new(RequirePrincipal))
        .build()?;
    server.start().await;

    let app = Router::new()
        .route("/hello", get(hello))
        .nest_service("/media", server.service())
        .layer(from_fn(identify));

    let listener = TcpListener::bind(&address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let draining = server.clone();
    let interrupted = async move {
        tokio::signal::ctrl_c().await.ok();
        // Uploads would continue for as long as their clients send; `drain` makes them commit.
        draining.drain().await;
    };
    tokio::select! {
        ended = axum::serve(listener, app).with_graceful_shutdown(interrupted) => Ok(ended?),
        failed = server.failed() => Err(failed.into()),
    }
}
