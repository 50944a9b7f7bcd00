//! How long is waited for the other side.

use std::time::Duration;

/// When a connection counts as dead.
///
/// Time that passes while the *source* of the media has nothing to send is never counted: a slow
/// pipe is no dead line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For the whole way to a connection: name, TCP, proxy, TLS. 10 s unless set.
    pub connect: Duration,
    /// For one piece of a body, of at most 64 KiB, to be taken by the connection, and for one piece
    /// of a reply to come. 60 s unless set: a line that carries some KiB in a second is alive, and
    /// a server that sleeps for a minute in the middle of a body is better asked again. On Linux a
    /// connection whose peer acknowledges nothing for so long is closed as well.
    pub idle: Duration,
    /// From the end of the request to the beginning of its reply. 120 s unless set, longer than
    /// `idle`: what the operating system has buffered still drains, and then the server finishes
    /// its work.
    pub reply: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            reply: Duration::from_secs(120),
        }
    }
}
