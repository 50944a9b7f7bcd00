//! Faults of requests.

/// The fault of one request. Numbers are chosen so that smaller ones are simpler cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No fault.
    Fine,
    /// The request does not reach the server.
    Lost,
    /// The connection breaks when this many thousandths of the body have arrived.
    Torn {
        after: u16,
        keep: Keep,
        /// Number of requests after which the kept bytes become visible; 0 for immediately.
        late: u8,
    },
    /// The request takes effect, this many requests later; the reply is lost.
    ReplyLost { late: u8 },
    /// The server is overloaded, or reports it after processing the request.
    Overload {
        status: u16,
        effect: bool,
        retry_after: Option<u64>,
        page: bool,
    },
    /// A rate limit.
    RateLimit,
    /// The session is lost: 404 or 410.
    SessionDies { status: u16 },
    /// Another client cancels the session.
    Cancel,
    /// The server's reply lacks the committed bytes.
    NoRange,
    /// The server's reply has a malformed range.
    OddRange,
    /// A proxy replies with an HTML page, or with a status outside the protocol.
    Unexpected { status: u16, effect: bool },
    /// The server restarts. This many thousandths of the bytes in unfinished sessions are left, in
    /// multiples of 256 KiB.
    Restart { left: u16 },
    /// The token is no longer valid.
    Unauthorized,
    /// The client is killed while the request is in flight, and restarted.
    Kill { effect: bool },
}

/// The part of a broken body that a server keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    All,
    /// Multiples of 256 KiB of the media.
    Floor,
    Nothing,
}

impl Fault {
    /// Returns whether the client may have to resend committed bytes.
    pub(crate) fn goes_back(self) -> bool {
        matches!(
            self,
            Self::NoRange | Self::Restart { .. } | Self::SessionDies { .. }
        )
    }
}
