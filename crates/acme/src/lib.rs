//! Certificates by ACME (RFC 8555) for [`windlass_server`]: ordered at the first start, stored in
//! the data directory, and renewed while the server runs.
//!
//! ```no_run
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! use windlass_acme::{Acme, Options};
//! use windlass_server::outbound::Outbound;
//! use windlass_server::{Ended, Server};
//!
//! # async fn example(
//! #     server: Server,
//! #     outbound: Arc<dyn Outbound>,
//! #     stop: impl Future<Output = ()>,
//! # ) -> Result<Ended, Box<dyn std::error::Error>> {
//! let options = Options {
//!     domains: vec!["up.example.com".parse()?],
//!     contact: vec!["ops@example.com".parse()?],
//!     agree_to_terms: true,
//!     ..Options::default()
//! };
//! let acme = Acme::new(options, outbound)?;
//! let socket = tokio::net::TcpListener::bind("[::]:443").await?;
//! let listener = acme.listener(socket);
//! let renewal = acme.start(Path::new("data"));
//! let ended = server.run(listener, stop).await;
//! drop(renewal);
//! # Ok(ended)
//! # }
//! ```
//!
//! The authority validates the domains on the server's own port, by `tls-alpn-01` (RFC 8737): it
//! connects to port 443 and expects a certificate with a digest of its challenge. No other port is
//! needed, and no HTTP request is answered. A certificate is renewed when the authority suggests it
//! (RFC 9773), otherwise when a third of its lifetime is left.
//!
//! Nothing here stops the server. Until there is a certificate, handshakes fail. A certificate that
//! cannot be renewed stays in use. Failures are logged with the next step for the operator, and
//! repeated after 10 s to 4 hours. Only one process may use this: a second process would order its
//! own certificates, and the authority's challenges for it could reach the first process.
//!
//! | module | duty |
//! |---|---|
//! | `options` | the settings of an order: domains, contacts, the directory of the authority |
//! | `renewal` | the task: when a certificate is ordered, and what happens after a failure |
//! | `schedule` | the times of renewals and of repeated attempts, as pure functions |
//! | `orders` | the exchange of RFC 8555 with the authority, by `instant-acme` |
//! | `client` | the requests of that exchange, by the server's [`Outbound`] |
//! | `failure` | why an attempt has failed, with a hint |
//! | `challenges` | the certificates that answer challenges |
//! | `issued` | a certificate with its key |
//! | `serving` | the certificate of handshakes |
//! | `state` | the files of account, certificate and key |
//! | `metrics` | counts, and the time until the certificate expires |
//! | [`tls`] | configurations of rustls |
//!
//! The crate opens no socket: the caller passes an [`Outbound`], which sends the requests. Keys are
//! in no log and in no error message.

mod challenges;
mod client;
mod failure;
mod issued;
mod metrics;
mod options;
mod orders;
mod renewal;
mod schedule;
mod serving;
mod state;
pub mod tls;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::ServerConfig;
use rustls::server::{ResolvesServerCert, WebPkiClientVerifier};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;
use windlass_server::outbound::Outbound;
use windlass_server::{Clock as _, Listener, SystemClock};

use challenges::Challenges;
use orders::Orders;
use renewal::Renewal;
use serving::Serving;
use state::State;

pub use metrics::AcmeMetrics;
pub use options::{
    Contact, DirectoryUrl, Domain, NotAContact, NotADirectoryUrl, NotADomain, Options, OptionsError,
};

/// A certificate that the server orders by itself.
///
/// It has no certificate and sends nothing before [`Acme::start`].
pub struct Acme {
    options: Options,
    outbound: Arc<dyn Outbound>,
    challenges: Arc<Challenges>,
    serving: Arc<Serving>,
    metrics: AcmeMetrics,
}

/// The task that orders and renews a certificate. It ends when this is dropped. An order that it
/// has begun is then abandoned, and the certificate stays in use.
#[derive(Debug)]
#[must_use = "the certificate is neither ordered nor renewed after this is dropped"]
pub struct RenewalTask {
    _task: AbortOnDropHandle<()>,
}

impl Acme {
    /// Requests to the authority go through `outbound`, at most 30 s and 256 KiB of reply each. It
    /// must verify the certificate of the authority's directory, which may need the roots of a
    /// private authority.
    ///
    /// # Errors
    /// [`OptionsError`] if the options name no domain or lack the agreement to the terms.
    pub fn new(options: Options, outbound: Arc<dyn Outbound>) -> Result<Self, OptionsError> {
        options.check()?;
        Ok(Self {
            challenges: Arc::default(),
            serving: Arc::new(Serving::new(&options.domains)),
            metrics: AcmeMetrics::default(),
            outbound,
            options,
        })
    }

    /// Sets the handles of the metrics, which the caller has registered. Default: handles in no
    /// registry.
    #[must_use]
    pub fn metrics(self, metrics: AcmeMetrics) -> Self {
        Self { metrics, ..self }
    }

    /// Returns the names in the certificate.
    pub fn domains(&self) -> &[Domain] {
        &self.options.domains
    }

    /// Returns a listener for connections by TLS with the certificate. It answers challenges, and
    /// asks no client for a certificate.
    ///
    /// For other listeners there are [`Acme::certificates`] and [`Acme::challenges`].
    pub fn listener(&self, listener: TcpListener) -> Listener {
        let nobody = WebPkiClientVerifier::no_client_auth();
        let config = tls::server_config(self.certificates(), nobody);
        Listener::tls(listener, Arc::new(config)).answer_challenges(self.challenges())
    }

    /// Returns the current certificate for each new connection: for clients that ask for one of the
    /// domains or for no name. Other clients get none.
    pub fn certificates(&self) -> Arc<dyn ResolvesServerCert> {
        Arc::clone(&self.serving) as Arc<_>
    }

    /// Returns the configuration of connections that are challenges, for
    /// [`Listener::answer_challenges`] (RFC 8737, section 3).
    pub fn challenges(&self) -> Arc<ServerConfig> {
        self.challenges.config()
    }

    /// Uses the stored certificate, if there is one, and starts the task that orders and renews.
    /// Account, key and certificate are in the folder `acme` of the directory `data`, readable by
    /// their owner only. The caller has locked `data` against other processes.
    ///
    /// Blocks, to read the stored certificate.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn start(self, data: &Path) -> RenewalTask {
        let state = State::new(data, self.options.directory.as_str());
        let stored = state.certificate();
        let orders = Orders {
            directory: self.options.directory,
            domains: self.options.domains,
            contact: self.options.contact,
            outbound: self.outbound,
            challenges: self.challenges,
            state,
        };
        let mut renewal = Renewal::new(orders, self.serving, self.metrics, system_time);
        renewal.use_stored(stored);
        RenewalTask {
            _task: AbortOnDropHandle::new(tokio::spawn(async move { renewal.run().await })),
        }
    }
}

impl fmt::Debug for Acme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acme")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// The time of the system's clock.
fn system_time() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(SystemClock.now().as_millis())
}
