//! The upload server with its embedded store, inside an application.
//!
//! [`Uploads::open`] names the data directory, and [`Builder::start`] opens it and starts the
//! server. [`Uploads::service`] is a `tower::Service`: mount it in axum with `nest_service`, or
//! serve it by hyper. The folder `examples` of the repository has two complete programs: `gallery`
//! (axum) and `plain` (hyper).
//!
//! ```no_run
//! use windlass_embed::{Principal, Uploads};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let uploads = Uploads::open("data")
//!     .api(r#"
//!         name = "album"
//!         version = "v1"
//!         access = "owner"
//!
//!         [collections.photos]
//!         schema = { title = "string" }
//!         media = { accept = ["image/*"], max_size = "20MB" }
//!     "#)
//!     .mounted_at("/media")
//!     .require_principal()
//!     .on_uploaded(|photo| async move {
//!         // After the commit, and again after a crash, until it succeeds.
//!         println!("make a thumbnail of {}", photo.resource["id"]);
//!         Ok::<(), std::io::Error>(())
//!     })
//!     .start()
//!     .await?;
//!
//! // Mount `uploads.service()` under `/media`, behind the application's own authentication, which inserts the
//! // user into the extensions of each request:
//! let mut request = http::Request::get("/media/album/v1/photos").body(())?;
//! request.extensions_mut().insert(Principal::new("alice"));
//!
//! // Meanwhile wait for `uploads.failed()`. At the end uploads commit what they have:
//! uploads.drain().await;
//! # Ok(())
//! # }
//! ```
//!
//! Requests that name an unknown host are refused. If the application is reached by a domain, name
//! the domain with [`Builder::public_url`].
//!
//! With the feature `acme`, `Uploads::run_https` serves by HTTPS with a certificate that the server
//! orders itself.
//!
//! The feature `openapi` is on by default. Without it the server has no OpenAPI documents. The crate
//! never compiles Google's APIs or their parsing of mail, which are in `windlass-apis`. On Linux an
//! embedder compiles 131 crates, with or without `openapi`, whose generator needs no other crate.
//! With `acme` it compiles 200.
//!
//! The feature `preserve_order` of `serde_json` is on in the whole application, because Cargo
//! unifies features: replies and documents keep the order of their fields.
//!
//! The crate only combines parts of [`windlass_server`]. Use that crate for other stores, handlers,
//! settings and kinds of authentication; [`Builder::configure`] gives access to its builder.

#[cfg(feature = "acme")]
mod https;

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error as ThisError;
use windlass_discovery::document::is_document;
use windlass_discovery::{Api, Error as DescriptionError};
use windlass_server::{
    BuildError, Conflict, Registry, RequirePrincipal, ServedApi, Server, ServerBuilder,
    StorageFailed, Stores, UploadService, UploadedResource,
};
use windlass_store_local::{LocalStore, OpenError, Options};

#[cfg(feature = "acme")]
pub use windlass_acme as acme;
#[cfg(feature = "acme")]
pub use windlass_outbound::HttpOutbound;
pub use windlass_server::{Ended, Principal, PrincipalLimits, QuotaSource};

/// A server over its own data directory. Clones share the server.
///
/// The directory is closed when the last clone is dropped and no request is running.
#[derive(Debug, Clone)]
pub struct Uploads {
    server: Server,
    /// The data directory.
    #[cfg(feature = "acme")]
    directory: Arc<Path>,
}

/// Opens a data directory and serves APIs over it; see [`Uploads::open`].
#[must_use]
pub struct Builder {
    directory: PathBuf,
    options: Options,
    descriptions: Vec<Description>,
    served: Vec<ServedApi>,
    on_uploaded: Option<Announce>,
    configure: Vec<Configure>,
}

/// Adds the callback of [`Builder::on_uploaded`] to an API.
type Announce = Box<dyn Fn(ServedApi) -> ServedApi + Send>;

type Configure = Box<dyn FnOnce(ServerBuilder) -> ServerBuilder + Send>;

/// Where the description of an API comes from. Texts and files are in the
/// [short form](windlass_discovery::short_form), or discovery documents in JSON.
#[derive(Debug, Clone)]
pub enum Description {
    /// A description that has been read.
    Api(Box<Api>),
    /// Its text.
    Text(String),
    /// A file.
    File(PathBuf),
}

/// Why the server could not be started.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The file of a description cannot be read.
    #[error("{} cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A description is wrong. The message tells where.
    #[error("the description of the API{} cannot be used", in_file(.path.as_deref()))]
    Description {
        /// Its file, if it is in one.
        path: Option<PathBuf>,
        /// The problem with the description.
        source: DescriptionError,
    },
    /// Two APIs cannot both be served.
    #[error("the APIs cannot be served together")]
    Conflict(#[from] Conflict),
    /// The data directory cannot be opened, for example because another process has it open.
    #[error("the data directory cannot be opened")]
    Store(#[from] OpenError),
    /// The parts of the server do not fit together.
    #[error("the server cannot be built")]
    Build(#[from] BuildError),
}

fn in_file(path: Option<&Path>) -> String {
    path.map(|path| format!(" in {}", path.display()))
        .unwrap_or_default()
}

impl Uploads {
    /// Returns a builder of a server that keeps sessions, resources and media in this directory.
    /// The directory is created if it does not exist. Nothing is opened before [`Builder::start`].
    pub fn open(directory: impl Into<PathBuf>) -> Builder {
        Builder {
            directory: directory.into(),
            options: Options::default(),
            descriptions: Vec::new(),
            served: Vec::new(),
            on_uploaded: None,
            configure: Vec::new(),
        }
    }

    /// Returns the service that answers requests; see [`Server::service`].
    pub fn service(&self) -> UploadService {
        self.server.service()
    }

    /// Resolves at the first storage fault. From then on the service answers 503. The process must
    /// be restarted, so that recovery determines the state of the disk.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn failed(&self) -> StorageFailed {
        self.server.failed().await
    }

    /// Waits for running requests to end. Uploads commit the bytes that they have received, and new
    /// requests are answered 503. Returns when all requests have ended or the time limit is
    /// reached; see [`Server::drain`].
    pub async fn drain(&self) {
        self.server.drain().await;
    }

    /// Returns the server, for functions that this crate does not wrap.
    pub fn server(&self) -> &Server {
        &self.server
    }
}

impl Builder {
    /// Serves the API of a description, with the default handler. More than one may be given.
    ///
    /// A `&str` or [`String`] is the description itself, a [`Path`] or [`PathBuf`] its file. With
    /// `access = "owner"` in it, users see and change their own resources only.
    ///
    /// Services that a description names (`backend`, `on`) are not called: [`serve`](Self::serve)
    /// takes an API [with them](ServedApi::with_backends).
    pub fn api(mut self, description: impl Into<Description>) -> Self {
        self.descriptions.push(description.into());
        self
    }

    /// Serves an API with a handler of one's own.
    pub fn serve(mut self, api: ServedApi) -> Self {
        self.served.push(api);
        self
    }

    /// Calls the application after each upload to any of the APIs, once it is committed, until the
    /// callback succeeds: at least once, also after a crash. See [`ServedApi::on_uploaded`].
    pub fn on_uploaded<F, Done, E>(self, callback: F) -> Self
    where
        F: Fn(UploadedResource) -> Done + Send + Sync + 'static,
        Done: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>> + 'static,
    {
        let callback = Arc::new(callback);
        let announce = move |api: ServedApi| {
            let callback = Arc::clone(&callback);
            api.on_uploaded(move |uploaded| callback(uploaded))
        };
        Self {
            on_uploaded: Some(Box::new(announce)),
            ..self
        }
    }

    /// Says that the application serves the service under this path, such as `/media`; see
    /// [`ServerBuilder::mounted_at`]. Default: at the root.
    pub fn mounted_at(self, prefix: impl Into<String>) -> Self {
        let prefix = prefix.into();
        self.configure(move |server| server.mounted_at(prefix))
    }

    /// Names the URL under which clients reach the service, such as
    /// `https://app.example.com/media`, with the path of [`Builder::mounted_at`]. Session URIs and
    /// descriptions are built from it.
    ///
    /// Default: none; the URLs follow each request, which must name an address, `localhost`, or a
    /// host of [`Settings::hosts`](windlass_server::Settings::hosts): requests for other names are
    /// refused with 421.
    pub fn public_url(self, url: impl Into<String>) -> Self {
        let url = url.into();
        self.configure(move |server| {
            server.change_settings(|settings| settings.public_url = Some(url))
        })
    }

    /// Refuses requests without a [`Principal`] in their extensions with 401, but for session URIs
    /// and discovery documents; see [`RequirePrincipal`]. Default: everybody may do everything.
    pub fn require_principal(self) -> Self {
        self.configure(|server| server.authorize(Arc::new(RequirePrincipal)))
    }

    /// Sets who knows the quota of each principal; see [`ServerBuilder::quota_source`]. Default: the
    /// quotas of the settings.
    pub fn quota_source(self, source: impl QuotaSource) -> Self {
        self.configure(|server| server.quota_source(Arc::new(source)))
    }

    /// Sets how the data directory is opened. Default: [`Options::default`].
    pub fn store_options(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// Changes the builder of the server: settings, authentication, metrics, and so on. Changes are
    /// made in the order given.
    pub fn configure(
        mut self,
        change: impl FnOnce(ServerBuilder) -> ServerBuilder + Send + 'static,
    ) -> Self {
        self.configure.push(Box::new(change));
        self
    }

    /// Opens the data directory, starts the server, and begins to maintain the store: expired
    /// sessions are deleted, and uploads that a crash has interrupted are finished.
    ///
    /// # Errors
    /// [`Error`].
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    ///
    /// # Cancel safety
    /// If the future is dropped, the directory is closed again.
    pub async fn start(self) -> Result<Uploads, Error> {
        let described = self.descriptions.into_iter().map(Description::read);
        let described: Vec<_> = described.collect::<Result<_, _>>()?;
        let described = described.into_iter().map(ServedApi::with_default_handler);
        let apis = described.chain(self.served);
        let apis = apis.map(|api| match &self.on_uploaded {
            Some(announce) => announce(api),
            None => api,
        });
        let registry = Registry::new(apis)?;
        let (directory, options) = (self.directory, self.options);
        #[cfg(feature = "acme")]
        let data = directory.as_path().into();
        // It reads and syncs files.
        let opening = tokio::task::spawn_blocking(move || LocalStore::open(&directory, options));
        let store = opening.await.expect("opening does not panic")?;
        let stores = Stores {
            ledger: Arc::new(store.ledger),
            vault: Arc::new(store.vault),
        };
        let builder = Server::builder(registry, stores);
        let changes = self.configure.into_iter();
        let server = changes
            .fold(builder, |builder, change| change(builder))
            .build()?;
        server.start().await;
        Ok(Uploads {
            server,
            #[cfg(feature = "acme")]
            directory: data,
        })
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

impl Description {
    fn read(self) -> Result<Api, Error> {
        let (path, text) = match self {
            Self::Api(api) => return Ok(*api),
            Self::Text(text) => (None, text),
            Self::File(path) => match std::fs::read_to_string(&path) {
                Ok(text) => (Some(path), text),
                Err(source) => return Err(Error::Unreadable { path, source }),
            },
        };
        let api = if is_document(&text) {
            Api::from_json(&text)
        } else {
            Api::from_toml(&text)
        };
        api.map_err(|source| Error::Description { path, source })
    }
}

impl From<Api> for Description {
    fn from(api: Api) -> Self {
        Self::Api(Box::new(api))
    }
}

impl From<&str> for Description {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Description {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&Path> for Description {
    fn from(path: &Path) -> Self {
        Self::File(path.to_owned())
    }
}

impl From<PathBuf> for Description {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}
