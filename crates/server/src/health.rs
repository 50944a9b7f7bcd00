//! The answers to health probes: `/healthz` and `/readyz`.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;

use crate::error::Error;
use crate::reply::{self, Reply};
use crate::state::ServerState;

/// How long the readiness check waits for the ledger.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether a path is a health probe's.
pub(crate) fn is_probe(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz")
}

/// Liveness check: fails after a storage failure.
pub(crate) fn liveness(server: &ServerState) -> Reply {
    if server.lifecycle.has_failed() {
        plain(StatusCode::SERVICE_UNAVAILABLE, "storage failed\n")
    } else {
        plain(StatusCode::OK, "ok\n")
    }
}

/// Readiness check: succeeds while new uploads are accepted.
pub(crate) async fn readiness(server: &ServerState) -> Reply {
    let check = tokio::time::timeout(READY_TIMEOUT, server.stores.ledger.check());
    let unready = match server.engine.admit_upload() {
        _ if !server.lifecycle.is_started() => Some(Error::NotStarted.to_string()),
        Err(error) => Some(
            server
                .stores
                .disks
                .shortage()
                .unwrap_or_else(|| error.to_string()),
        ),
        Ok(()) if server.lifecycle.has_failed() => Some("storage failed".to_owned()),
        Ok(()) => match check.await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("the ledger does not answer".to_owned()),
        },
    };
    match unready {
        None => plain(StatusCode::OK, "ready\n"),
        Some(why) => plain(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("not ready: {why}\n"),
        ),
    }
}

fn plain(status: StatusCode, text: impl Into<Bytes>) -> Reply {
    reply::reply(status, reply::TEXT, text.into())
}
