//! What can go wrong with a request.

/// What becomes of one request. Numbers are chosen so that a smaller one is simpler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// All is well.
    Fine,
    /// The server never sees it.
    Lost,
    /// The connection breaks when so many thousandths of the body have arrived.
    Torn {
        after: u16,
        keep: Keep,
        /// So many requests later is visible what was kept; 0: at once.
        late: u8,
    },
    /// It has its effect, so many requests later; the reply is lost.
    ReplyLost { late: u8 },
    /// The server is overloaded, or says so when it has done its work.
    Overload {
        status: u16,
        effect: bool,
        retry_after: Option<u64>,
        page: bool,
    },
    /// Not so fast.
    RateLimit,
    /// The session is no more: 404 or 410.
    SessionDies { status: u16 },
    /// Somebody cancels the session.
    Cancel,
    /// The server forgets to say what is committed.
    NoRange,
    /// The server says it so that it cannot be read.
    OddRange,
    /// Something on the way answers with a page, or with a status that has no place here.
    Unexpected { status: u16, effect: bool },
    /// The server restarts. So many thousandths of what it had in unfinished sessions are left, in
    /// multiples of 256 KiB.
    Restart { left: u16 },
    /// The token is no longer good.
    Unauthorized,
    /// The client is killed while the request is on its way, and started again.
    Kill { effect: bool },
}

/// What a server keeps of a body that breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    All,
    /// Multiples of 256 KiB of the media.
    Floor,
    Nothing,
}

impl Fault {
    /// Whether the client may be asked for media that was committed.
    pub(crate) fn goes_back(self) -> bool {
        matches!(
            self,
            Self::NoRange | Self::Restart { .. } | Self::SessionDies { .. }
        )
    }
}
