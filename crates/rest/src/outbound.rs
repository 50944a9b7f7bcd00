//! The contract for requests that the server itself sends: key sets, introspection of tokens,
//! webhooks.
//!
//! All of these requests use one [`Outbound`], so that the limits on time, size, addresses and
//! redirects are in one place. This crate opens no socket. The program that runs the server
//! provides an implementation.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};

/// Sends HTTP requests of the server.
///
/// Redirects are not followed: a redirect is a reply like any other. Requests are not repeated.
#[async_trait]
pub trait Outbound: Send + Sync + 'static {
    /// Sends a request to its absolute `http` or `https` URI, and returns the whole reply, whatever
    /// its status is.
    ///
    /// # Errors
    /// [`OutboundError`]. Its message contains neither the path nor the query, headers or body of
    /// the request, which may contain credentials.
    ///
    /// # Cancel safety
    /// The request is abandoned if the future is dropped. Its receiver may have received it.
    async fn send(
        &self,
        request: Request<Bytes>,
        limits: OutboundLimits,
    ) -> Result<Response<Bytes>, OutboundError>;
}

/// Limits on one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutboundLimits {
    /// Time until the last byte of the reply has arrived, including the resolution of the name.
    pub timeout: Duration,
    /// Maximum size of the reply's body in bytes. A longer reply is an error.
    pub reply: usize,
    /// The addresses to which a connection may be opened.
    pub addresses: OutboundAddresses,
}

/// The addresses that a request may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutboundAddresses {
    /// Any address. For URLs that the operator has configured.
    Any,
    /// Only addresses of the public internet, as defined by [`is_public`]. For URLs that a client
    /// can choose, which could otherwise reach services that trust the server's network. No proxy
    /// is used, because a proxy would resolve the name itself.
    Public,
}

/// Why a request has no reply.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutboundError {
    /// The URI is not an absolute `http` or `https` URI, or the server sends no requests.
    #[error("the request cannot be sent: {problem}")]
    Unsupported {
        /// Message that names the problem.
        problem: &'static str,
    },
    /// The host has no permitted address.
    #[error("{host} is not an address of the public internet, and the request may go to no other")]
    Refused {
        /// Host.
        host: String,
    },
    /// The reply was not complete within the time limit.
    #[error("{host} did not reply within {} s", timeout.as_secs_f32())]
    Timeout {
        /// Host.
        host: String,
        /// The time limit.
        timeout: Duration,
    },
    /// The reply is longer than its limit.
    #[error("the reply of {host} is longer than {limit} bytes")]
    TooLong {
        /// Host.
        host: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// The connection failed or broke.
    #[error("the exchange with {host} failed")]
    Failed {
        /// Host.
        host: String,
        /// Cause of the error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Sends nothing: each request is an error. For servers that send no requests.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoOutbound;

#[async_trait]
impl Outbound for NoOutbound {
    async fn send(
        &self,
        _: Request<Bytes>,
        _: OutboundLimits,
    ) -> Result<Response<Bytes>, OutboundError> {
        Err(OutboundError::Unsupported {
            problem: "this server sends no requests",
        })
    }
}

/// IPv4 networks outside of the public internet: IANA's registry of special-purpose addresses (RFC
/// 6890), multicast (RFC 5771), and reserved addresses (RFC 1112).
const SPECIAL_V4: [(Ipv4Addr, u32); 15] = [
    (Ipv4Addr::UNSPECIFIED, 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// IPv6 networks inside of `2000::/3` that are outside of the public internet: `2001::/23` with
/// Teredo, two networks for documentation, and 6to4, which embeds an IPv4 address in each address.
const SPECIAL_V6: [(Ipv6Addr, u32); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Whether an address is a unicast address of the public internet, and neither loopback, private,
/// link-local, unique-local, shared, for documentation, nor reserved. An IPv4 address that is
/// written as an IPv6 address is treated as the IPv4 address.
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => !SPECIAL_V4
            .iter()
            .any(|(network, length)| (address.to_bits() ^ network.to_bits()) >> (32 - length) == 0),
        IpAddr::V6(address) => {
            // All global unicast addresses that were ever assigned are in 2000::/3. Addresses
            // outside of it, such as NAT64 addresses, may contain an IPv4 address of any kind.
            let is_global = address.segments()[0] >> 13 == 0b001;
            let is_special = SPECIAL_V6.iter().any(|(network, length)| {
                (address.to_bits() ^ network.to_bits()) >> (128 - length) == 0
            });
            is_global && !is_special
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_public_internet_are_public() {
        for public in [
            "8.8.8.8",
            "1.1.1.1",
            "172.15.0.1",
            "172.32.0.1",
            "100.128.0.1",
            "192.0.1.1",
            "223.255.255.255",
            "2001:4860:4860::8888",
            "2606:4700::1111",
            "::ffff:8.8.8.8",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for other in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
        ] {
            assert!(!is_public(other.parse().unwrap()), "{other}");
        }
    }

    #[test]
    fn errors_name_the_host_and_the_limit() {
        let host = || "issuer.example".to_owned();
        let timeout = Duration::from_secs(5);
        for (error, said) in [
            (
                OutboundError::Timeout {
                    host: host(),
                    timeout,
                },
                "issuer.example did not reply within 5 s",
            ),
            (
                OutboundError::TooLong {
                    host: host(),
                    limit: 10,
                },
                "the reply of issuer.example is longer than 10 bytes",
            ),
        ] {
            assert_eq!(error.to_string(), said);
        }
    }
}
