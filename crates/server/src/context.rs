//! What is known of a request besides its method and its body: its id, who sent it, from where, and
//! the URL by which it reached the server.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::Extensions;

use crate::identifiers::random_number;
use crate::origin::Host;

/// Who sends a request, as an extension of the request.
///
/// A layer that authenticates inserts it. It is then in [`Call::principal`](crate::handler::Call),
/// and is stored with the upload sessions and resources that the request creates. Its text is logged.
///
/// ```
/// use windlass_server::Principal;
///
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(Principal::new("alice@example.com"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Principal(Arc<str>);

impl Principal {
    /// Returns the principal with this id. Ids are opaque to the server.
    pub fn new(id: impl AsRef<str>) -> Self {
        Self(id.as_ref().into())
    }

    /// Returns the id.
    pub fn id(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The address of the client's end of the connection, as an extension of the request. Behind a proxy
/// it is the proxy's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddress(pub SocketAddr);

/// The id of a request in logs, as an extension of the request. A layer may insert its own; else the
/// server makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(Id);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Id {
    /// Of a layer.
    Given(Arc<str>),
    /// Of the server. Written out only if it is logged.
    Made(u64),
}

impl RequestId {
    /// Returns this id.
    pub fn new(id: impl AsRef<str>) -> Self {
        Self(Id::Given(id.as_ref().into()))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Id::Given(id) => f.write_str(id),
            Id::Made(number) => write!(f, "{number:016x}"),
        }
    }
}

/// Makes the ids of requests that come without one: numbers from a random one on, since the logs of
/// several processes may be read together.
#[derive(Debug)]
pub(crate) struct RequestIds(AtomicU64);

impl RequestIds {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(random_number()))
    }

    fn next(&self) -> RequestId {
        // Relaxed: the number guards no other data.
        RequestId(Id::Made(self.0.fetch_add(1, Ordering::Relaxed)))
    }
}

/// What is known of a request besides its method and its body.
pub(crate) struct RequestContext {
    /// Id of the request.
    pub(crate) id: RequestId,
    /// Address of the client's end of the connection, if it is known.
    pub(crate) peer: Option<SocketAddr>,
    /// Host that the client asked for, if it named a valid one.
    pub(crate) host: Option<Host>,
    /// URL under which the client reached the server, without a slash at its end.
    pub(crate) base_url: String,
    /// Who sent the request, if that was established.
    pub(crate) principal: Option<Principal>,
}

impl RequestContext {
    /// Returns the context of a request that reached `host` by `base_url`.
    pub(crate) fn new(
        extensions: &Extensions,
        ids: &RequestIds,
        host: Option<Host>,
        base_url: String,
    ) -> Self {
        let id = extensions.get().cloned();
        Self {
            id: id.unwrap_or_else(|| ids.next()),
            peer: extensions.get().map(|PeerAddress(address)| *address),
            host,
            base_url,
            principal: extensions.get().cloned(),
        }
    }
}
