//! SIGHUP, by which an operator says that there is another certificate.

use std::error::Error as _;
use std::io;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};

use super::certificate::{Certificate, CertificateError};

/// Reads the certificate again whenever the process is hung up, from now on. Runs as long as the
/// process.
pub(super) fn reload_on_sighup(certificate: Arc<Certificate>) -> io::Result<()> {
    let mut hangups = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            let certificate = Arc::clone(&certificate);
            let reloaded = tokio::task::spawn_blocking(move || certificate.reload()).await;
            tell(&reloaded.expect("reading does not panic"));
        }
    });
    Ok(())
}

fn tell(reloaded: &Result<(), CertificateError>) {
    match reloaded {
        Ok(()) => tracing::info!("the certificate was read again"),
        Err(error) => {
            let cause = error.source().map(tracing::field::display);
            tracing::error!(%error, cause, "the old certificate stays");
        }
    }
}
