//! The server's certificate by ACME (RFC 8555): ordered at the first start, stored in the data
//! directory, and renewed while the server runs.
//!
//! The authority validates the domains on the server's own port, by `tls-alpn-01` (RFC 8737): it
//! connects and expects a certificate with a digest of its challenge. No other port is needed, and
//! no HTTP request is answered.
//!
//! Nothing here stops the server. Until there is a certificate, handshakes fail. A certificate that
//! cannot be renewed stays in use. Only one process may use this: a second process would order its
//! own certificates, and the authority's challenges for it could reach the first process.

mod challenges;
mod client;
mod failure;
mod issued;
mod metrics;
mod orders;
mod renewal;
mod schedule;
mod serving;
mod state;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::server::ResolvesServerCert;
use rustls::{RootCertStore, ServerConfig};
use thiserror::Error;
use tokio_util::task::AbortOnDropHandle;
use windlass_server::outbound::Outbound;
use windlass_server::{Clock as _, SystemClock};

use super::certificate::{CertificateError, read_chain, root_store};
use super::outbound::HttpOutbound;
use crate::settings::{AcmeSettings, Settings};
use challenges::Challenges;
use orders::Orders;
use renewal::Renewal;
use serving::Serving;
use state::State;

pub(super) use metrics::AcmeMetrics;

/// A certificate that the server orders by itself.
#[derive(Debug)]
pub(super) struct Acme {
    settings: AcmeSettings,
    outbound: Arc<HttpOutbound>,
    challenges: Arc<Challenges>,
    serving: Arc<Serving>,
}

/// Why the server cannot begin to order its certificate.
#[derive(Debug, Error)]
pub(crate) enum AcmeError {
    #[error("cannot read {} (acme.root_file)", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} (acme.root_file) has no certificates in PEM", path.display())]
    NoRoots { path: PathBuf },
}

impl Acme {
    /// Reads the root certificates that the settings name for the directory. Returns `None` if the
    /// settings ask for no certificate by ACME. Requests go through `outbound` unless the settings
    /// name roots for the directory.
    pub(super) fn load(
        settings: &Settings,
        outbound: &Arc<HttpOutbound>,
    ) -> Result<Option<Self>, AcmeError> {
        if !settings.acme.is_wanted() {
            return Ok(None);
        }
        let settings = settings.acme.clone();
        let outbound = match &settings.root_file {
            None => Arc::clone(outbound),
            Some(path) => Arc::new(HttpOutbound::trusting(read_roots(path)?)),
        };
        Ok(Some(Self {
            challenges: Arc::default(),
            serving: Arc::new(Serving::new(&settings.domains)),
            outbound,
            settings,
        }))
    }

    /// Returns the current certificate for each new connection.
    pub(super) fn certificates(&self) -> Arc<dyn ResolvesServerCert> {
        Arc::clone(&self.serving) as Arc<_>
    }

    /// Returns the configuration of connections that are challenges.
    pub(super) fn challenges(&self) -> Arc<ServerConfig> {
        self.challenges.config()
    }

    /// Uses the stored certificate, if there is one, and starts the task that orders and renews. It
    /// ends when the handle is dropped. `data` is the data directory, which this process has
    /// locked.
    ///
    /// Blocks, to read the stored certificate.
    pub(super) fn start(self, data: &Path, metrics: AcmeMetrics) -> AbortOnDropHandle<()> {
        let state = State::new(data, self.settings.directory.as_str());
        let stored = state.certificate();
        let orders = Orders {
            directory: self.settings.directory,
            domains: self.settings.domains,
            contact: self.settings.contact,
            outbound: self.outbound as Arc<dyn Outbound>,
            challenges: self.challenges,
            state,
        };
        let mut renewal = Renewal::new(orders, self.serving, metrics, system_time);
        renewal.use_stored(stored);
        AbortOnDropHandle::new(tokio::spawn(async move { renewal.run().await }))
    }
}

/// The time of the system's clock.
fn system_time() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(SystemClock.now().as_millis())
}

fn read_roots(path: &Path) -> Result<RootCertStore, AcmeError> {
    let roots = read_chain(path).map_err(|error| match error {
        CertificateError::Unreadable { path, source } => AcmeError::Unreadable { path, source },
        _ => no_roots(path),
    })?;
    root_store(roots).map_err(|_| no_roots(path))
}

fn no_roots(path: &Path) -> AcmeError {
    AcmeError::NoRoots {
        path: path.to_owned(),
    }
}

impl AcmeError {
    /// Returns a hint for the user.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unreadable { source, .. } => (source.kind() == io::ErrorKind::PermissionDenied)
                .then_some("the user that the server runs as must be able to read it"),
            Self::NoRoots { .. } => Some(
                "it takes the roots that the directory's own certificate is verified by, each \
                 beginning with `-----BEGIN CERTIFICATE-----`",
            ),
        }
    }
}
