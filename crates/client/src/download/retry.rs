//! What may pass if it is tried again, and what will not.

use std::time::Duration;

use http::StatusCode;
use windlass_proto::transfer::Refusal;

use super::DownloadError;
use crate::transport::TransportError;

/// Why a try was not the last.
pub(super) enum RetryDecision {
    /// Trying again will not help.
    GiveUp(DownloadError),
    /// It may, after a while.
    Retry {
        error: DownloadError,
        retry_after: Option<Duration>,
    },
}

impl<E: Into<DownloadError>> From<E> for RetryDecision {
    fn from(error: E) -> Self {
        Self::GiveUp(error.into())
    }
}

impl From<TransportError> for RetryDecision {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::Connect { .. }
            | TransportError::Broken { .. }
            | TransportError::Silent { .. } => Self::retry(DownloadError::connection(error)),
            TransportError::SetUp(_)
            | TransportError::Untrusted { .. }
            | TransportError::Media(_)
            | TransportError::ReplyTooLong { .. } => Self::GiveUp(DownloadError::connection(error)),
        }
    }
}

impl RetryDecision {
    pub(super) fn retry(error: DownloadError) -> Self {
        Self::Retry {
            error,
            retry_after: None,
        }
    }
}

/// Whether a refusal is one of the moment.
pub(super) fn is_transient(refusal: &Refusal) -> bool {
    let is_rate_limit = matches!(
        refusal.reason.as_deref(),
        Some("rateLimitExceeded" | "userRateLimitExceeded")
    );
    let status = refusal.status;
    status.is_server_error()
        || matches!(
            status,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS
        )
        || status == StatusCode::FORBIDDEN && is_rate_limit
}
