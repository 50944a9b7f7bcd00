//! An upload server. It implements Google's media upload protocol for any API with a discovery
//! document, over any store that fulfils the contracts of [`windlass_store`].
//!
//! A [`Server`] is built from its APIs and its stores. Here it serves one API over stores in
//! memory, on a free port, until `stop` resolves:
//!
//! ```
//! use std::sync::Arc;
//!
//! use tokio::net::TcpListener;
//! use windlass_discovery::Api;
//! use windlass_server::{Ended, Listener, Registry, ServedApi, Server, Stores};
//! use windlass_store::memory::{MemoryLedger, MemoryVault};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let farm = Api::from_toml(r#"
//!     name = "farm"
//!     version = "v1"
//!
//!     [collections.animals]
//!     schema = { name = "string" }
//!
//!     [collections.animals.media]
//!     accept = ["image/*"]
//!     max_size = "4MB"
//! "#)?;
//! let registry = Registry::new([ServedApi::with_default_handler(farm)])?;
//! let stores = Stores {
//!     ledger: Arc::new(MemoryLedger::new()),
//!     vault: Arc::new(MemoryVault::new()),
//! };
//! let server = Server::builder(registry, stores).build()?;
//!
//! let sockets = TcpListener::bind("127.0.0.1:0").await?;
//! println!("http://{}/upload/farm/v1/animals", sockets.local_addr()?);
//! let stop = async { /* for example, wait for a signal */ };
//! let ended = server.run(Listener::plain(sockets), stop).await;
//! assert_eq!(ended, Ended::Drained);
//! # Ok(())
//! # }
//! ```
//!
//! # In another application
//!
//! [`Server::service`] is a [`tower_service::Service`], the same service that [`Server::run`] puts
//! behind its listener. An application with its own listener starts the server, mounts the service,
//! waits for a storage fault, and drains the server at the end:
//!
//! ```
//! # use std::sync::Arc;
//! # use http::Request;
//! # use http_body_util::Empty;
//! # use tower_service::Service as _;
//! # use windlass_server::{Registry, Server, Stores};
//! # use windlass_store::memory::{MemoryLedger, MemoryVault};
//! #
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let registry = Registry::new([])?;
//! # let stores = Stores {
//! #     ledger: Arc::new(MemoryLedger::new()),
//! #     vault: Arc::new(MemoryVault::new()),
//! # };
//! let server = Server::builder(registry, stores).mounted_at("/media").build()?;
//! server.start().await;
//! let mut service = server.service();
//! // Mount `service` under `/media`. Here it answers one request:
//! let health = Request::get("/healthz").body(Empty::<bytes::Bytes>::new())?;
//! assert_eq!(service.call(health).await?.status(), 200);
//! // Wait for `server.failed()` in the meantime. At the end uploads commit their bytes:
//! server.drain().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Responsibilities
//!
//! - It routes requests by the description of an API, and checks their parameters and metadata.
//! - It carries out simple, multipart and resumable uploads, downloads, and calls without media.
//! - It asks an [`ApiHandler`](handler::ApiHandler) for the changes of a call. The
//!   [`DefaultHandler`]
//!   works for any description.
//! - It bounds the memory, the files and the time that clients can take; see [`config`].
//! - It drains when it stops, and stops when storage fails.
//! - It counts its work in the registry that the application gives to [`ServerBuilder::metrics`].
//!
//! # Features
//!
//! `openapi`, on by default, serves an OpenAPI document for each API. The crate turns on the feature
//! `preserve_order` of `serde_json`, also for the rest of the application: replies and documents
//! keep the order of their fields.
//!
//! # What is absent
//!
//! The crate opens no store, file or socket, reads no configuration, and contains no particular API
//! or store. The command `windlass` combines these. Without an [`Authorize`] the server
//! authenticates nobody.

mod accept;
mod admission;
mod ambient_authority;
mod audit;
mod auth;
mod background;
mod batch;
mod body;
mod callers;
mod calls;
mod capacity;
mod client_certificate;
pub mod config;
mod connections;
mod context;
mod cross_origin;
mod dialects;
mod download;
mod download_host;
mod error;
mod form_parameters;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod health;
mod index_page;
mod known_hosts;
mod link_uses;
mod metrics;
mod reply;
mod resources;
mod routes;
mod server;
mod service;
mod state;
mod uploads;

pub use ambient_authority::AmbientAuthority;
pub use audit::{AuditAction, AuditEntry, AuditLog, AuditOutcome};
pub use auth::{
    Access, AccessRequest, AllowAll, Authorize, BearerToken, RequirePrincipal, SessionInfo,
};
pub use capacity::{CONCATENATIONS, MEDIA_READS};
pub use client_certificate::ClientCertificate;
pub use config::Settings;
pub use connections::{Accept, Accepted, HttpService, InterimHead, InterimReplies, Listener};
pub use context::{LocalAddress, PeerAddress, RequestId, Scheme};
pub use metrics::{METRICS_CONNECTIONS, MetricsService, StoreMetrics, serve_metrics};
pub use reply::ReplyBody;
pub use server::{BuildError, Ended, Server, ServerBuilder, StorageFailed, Stores};
pub use service::UploadService;
pub use windlass_engine::CACHED_SESSIONS;
pub use windlass_engine::quotas::{PrincipalLimits, QuotaSource};
pub use windlass_engine::{Clock, Full, LimitedResource, SharePermit, Shares, SystemClock, Usage};
pub use windlass_rest::{
    AccessError, AllowedHost, AllowedOrigin, BACKEND_CALLS, Backends, Conflict, CorsPolicy,
    CredentialsForAll, DefaultHandler, Fit, Host, Input, LinkPurpose, LinkTerms, NotAHost,
    NotAServiceSecret, NotAnOrigin, Principal, RefusedAs, RefusedInput, RefusedInputs, Registry,
    ServedApi, ServiceSecret, StoredResources, TopicCounts, UploadCallback, UploadedResource,
    handler, outbound, patched_fields, unanswered_methods,
};
