//! Reads files again on SIGHUP: the certificate, the trusted client authorities, and the
//! credentials.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use windlass_auth::DevTokens;
use windlass_server::{AllowAll, Authorize};

use super::audit::AuditFile;
use super::authentication::Authentication;
use super::certificate::Certificate;
use super::client_trust::ClientTrust;
use crate::output;

/// The parts of the configuration that can be replaced while the server runs.
#[derive(Debug, Clone, Default)]
pub(super) struct Reloadable {
    pub(super) certificate: Option<Arc<Certificate>>,
    /// Only with a certificate.
    pub(super) client_trust: Option<Arc<ClientTrust>>,
    pub(super) authentication: Option<Arc<Authentication>>,
    pub(super) audit: Option<Arc<AuditFile>>,
    /// Whether the server orders its certificate by ACME, so that no operator replaces it.
    pub(super) orders_certificate: bool,
}

impl Reloadable {
    /// Returns who may send requests: everybody, unless credentials are configured.
    pub(super) fn authorize(&self) -> Arc<dyn Authorize> {
        match &self.authentication {
            Some(authentication) => authentication.authenticator(),
            None => Arc::new(AllowAll),
        }
    }

    /// Returns the tokens for tests, if they are given out.
    pub(super) fn dev_tokens(&self) -> Option<Arc<DevTokens>> {
        self.authentication.as_ref()?.dev_tokens()
    }

    /// Returns the files that are read again.
    pub(super) fn files(&self) -> Vec<&Path> {
        let mut files = Vec::new();
        if let Some(certificate) = &self.certificate {
            files.extend(certificate.files());
        }
        if let Some(trust) = &self.client_trust {
            files.extend(trust.files());
        }
        if let Some(authentication) = &self.authentication {
            files.extend(authentication.files().iter().map(PathBuf::as_path));
        }
        files
    }

    /// Starts a task that reads the files again at each SIGHUP, as long as the process runs. With
    /// nothing to read again, a SIGHUP ends the process as usual, because its terminal has been
    /// closed. A server that orders its own certificate keeps running even then, because scripts
    /// that renew certificates send a SIGHUP.
    pub(super) fn reload_on_sighup(self) -> io::Result<()> {
        let has_parts =
            self.certificate.is_some() || self.authentication.is_some() || self.audit.is_some();
        if !has_parts && !self.orders_certificate {
            return Ok(());
        }
        let mut hangups = signal(SignalKind::hangup())?;
        tokio::spawn(async move {
            while hangups.recv().await.is_some() {
                let parts = self.clone();
                let reloaded = tokio::task::spawn_blocking(move || parts.reload()).await;
                reloaded.expect("reading does not panic");
            }
        });
        Ok(())
    }

    fn reload(&self) {
        // First, so that the entries of the following reloads are in the new file.
        if let Some(audit) = &self.audit {
            self.tell("the audit log", audit.reopen());
        }
        if let Some(certificate) = &self.certificate {
            self.tell("the certificate", certificate.reload());
        }
        if let Some(trust) = &self.client_trust {
            self.tell("the trust in client certificates", trust.reload());
        }
        if let Some(authentication) = &self.authentication {
            self.tell("the file of credentials", authentication.reload());
        }
    }

    fn tell(&self, what: &str, reloaded: Result<(), impl Error>) {
        if let Some(audit) = &self.audit {
            audit.write_reload(what, reloaded.is_ok());
        }
        log(what, reloaded);
    }
}

fn log(what: &str, reloaded: Result<(), impl Error>) {
    match reloaded {
        Ok(()) => tracing::info!("{what} was read again"),
        Err(error) => {
            let cause = error.source().map(output::with_causes);
            let cause = cause.map(tracing::field::display);
            tracing::error!(%error, cause, "{what} cannot be used; the old one stays in use");
        }
    }
}
