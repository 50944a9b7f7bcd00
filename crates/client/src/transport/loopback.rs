//! Names of this machine.

use std::future;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Resolves every name to the loopback addresses, without asking the network.
///
/// It is for the HTTP client that sends requests to this machine alone: a server of DNS could lead
/// `localhost` and the names below it elsewhere (RFC 6761, 6.3).
pub(super) struct LoopbackResolver;

impl Resolve for LoopbackResolver {
    fn resolve(&self, _: Name) -> Resolving {
        // Port 0 stands for the port of the URL.
        let addresses = [
            SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            SocketAddr::from((Ipv6Addr::LOCALHOST, 0)),
        ];
        let addresses: Addrs = Box::new(addresses.into_iter());
        Box::pin(future::ready(Ok(addresses)))
    }
}
