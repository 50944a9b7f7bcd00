//! The faults of a request.

use std::time::Duration;

/// A fault of a request or of its reply.
///
/// `after` counts bytes of the request's body without transfer coding. When the body is shorter,
/// the fault strikes at its end, before the reply. When the upstream answers before `after` is
/// reached, its reply passes and the fault does not strike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connections to both sides are closed in order after this number of bytes went upstream.
    CutRequest {
        /// Bytes of the body.
        after: u64,
    },
    /// The same, but the client sees a reset.
    ResetRequest {
        /// Bytes of the body.
        after: u64,
    },
    /// The request is passed on later, even if the client has given up by then.
    Delay {
        /// How much later.
        by: Duration,
    },
    /// The connection upstream is cut after this number of bytes, the one to the client stays open,
    /// and nothing is read from it or written to it any more. It ends when the client closes it, or
    /// after a minute.
    Stall {
        /// Bytes of the body.
        after: u64,
    },
    /// The proxy answers 503 with HTML; the upstream does not see the request.
    Unavailable {
        /// `Retry-After`, in seconds.
        retry_after: Option<u64>,
    },
    /// As a load balancer does when it loses its server: this number of bytes goes upstream, that
    /// connection is cut, and the proxy answers 503 with HTML.
    UnavailableAfter {
        /// Bytes of the body.
        after: u64,
    },
    /// The request goes upstream whole, the reply is read, and the client's connection is closed
    /// instead of passing it on.
    LoseReply,
    /// The same, but the beginning of the reply reaches the client.
    CutReply {
        /// Bytes of the reply on the wire, its head included.
        after: u64,
    },
    /// A 308, or the 200 that stands for one, is passed on without its `Range`.
    RangeLost,
    /// The proxy answers in place of the upstream, which does not see the request.
    Replace {
        /// The status.
        status: u16,
        /// The body: JSON if it begins with a brace, otherwise HTML.
        body: &'static str,
    },
    /// The request's body is passed on slowly.
    Throttle {
        /// How slowly.
        bytes_per_second: u64,
    },
}

impl Fault {
    /// After how many bytes of the body the request stops.
    pub(super) fn stops_request_after(self) -> Option<u64> {
        match self {
            Self::CutRequest { after }
            | Self::ResetRequest { after }
            | Self::Stall { after }
            | Self::UnavailableAfter { after } => Some(after),
            Self::Delay { .. }
            | Self::Unavailable { .. }
            | Self::LoseReply
            | Self::CutReply { .. }
            | Self::RangeLost
            | Self::Replace { .. }
            | Self::Throttle { .. } => None,
        }
    }

    /// How much of the reply is passed on.
    pub(super) fn cuts_reply_after(self) -> Option<u64> {
        match self {
            Self::LoseReply => Some(0),
            Self::CutReply { after } => Some(after),
            _ => None,
        }
    }
}
