//! The server's certificate by ACME, as the settings want it. `windlass_acme` orders it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use thiserror::Error;
use windlass_acme::Acme;
use windlass_outbound::HttpOutbound;
use windlass_server::outbound::Outbound;

use super::certificate::{CertificateError, read_chain, root_store};
use crate::settings::Settings;

/// Why the server cannot begin to order its certificate.
#[derive(Debug, Error)]
pub(crate) enum AcmeError {
    #[error("cannot read {} (acme.root_file)", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} (acme.root_file) has no certificates in PEM", path.display())]
    NoRoots { path: PathBuf },
}

/// Reads the root certificates that the settings name for the directory. Returns `None` if the
/// settings ask for no certificate by ACME. Requests go through `outbound` unless the settings name
/// roots for the directory.
pub(super) fn load(
    settings: &Settings,
    outbound: &Arc<HttpOutbound>,
) -> Result<Option<Acme>, AcmeError> {
    let settings = &settings.acme;
    if !settings.is_wanted() {
        return Ok(None);
    }
    let outbound = match &settings.root_file {
        None => Arc::clone(outbound),
        Some(path) => Arc::new(HttpOutbound::trusting(read_roots(path)?)),
    };
    let acme = Acme::new(settings.options.clone(), outbound as Arc<dyn Outbound>);
    let acme = acme.expect("settings with domains are refused without the agreement to the terms");
    Ok(Some(acme))
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
