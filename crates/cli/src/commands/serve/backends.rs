//! Calls to the operator's services that descriptions and the settings name.

use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;
use windlass_outbound::HttpOutbound;
use windlass_server::outbound::OutboundAddresses;
use windlass_server::{Backends, NotAServiceSecret};

use super::{Error, read_secret};
use crate::settings::Settings;

/// The file of `backends.secret_file` has no secret.
#[derive(Debug, Error)]
#[error("the secret of backends.secret_file in {} cannot be used", path.display())]
pub(crate) struct BackendSecretError {
    path: PathBuf,
    source: NotAServiceSecret,
}

impl BackendSecretError {
    /// A hint for the user.
    pub(crate) const HINT: &'static str = "`openssl rand -base64 32` prints one";
}

/// Reads the secret; `None` if the settings name none, so that no service can be called.
pub(super) fn load(
    settings: &Settings,
    outbound: &Arc<HttpOutbound>,
) -> Result<Option<Arc<Backends>>, Error> {
    let Some(path) = &settings.backend_secret else {
        return Ok(None);
    };
    let text = read_secret("backends.secret_file", path)?;
    let secret = text.parse().map_err(|source| BackendSecretError {
        path: path.clone(),
        source,
    })?;
    let addresses = if settings.backend_private_addresses {
        OutboundAddresses::Any
    } else {
        OutboundAddresses::Public
    };
    let outbound = Arc::clone(outbound) as Arc<_>;
    let backends = Backends::new(outbound, secret, addresses);
    let backends = backends.with_timeout(settings.backend_timeout);
    let backends = match &settings.webhook_finished {
        Some(url) => backends.notify_of_all(url.clone()),
        None => backends,
    };
    Ok(Some(Arc::new(backends)))
}
