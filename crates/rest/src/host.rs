//! Names of hosts, which identify virtual hosts.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use http::Uri;
use http::uri::Authority;
use serde::{Deserialize, Serialize};

/// The longest name that DNS knows.
const MAX_LEN: usize = 253;

/// The name of a host, without a port: a domain name, an IPv4 address, or an IPv6 address in
/// brackets. Names that mean the same host are equal: lower case, no dot at the end, addresses in
/// their shortest form.
///
/// ```
/// use windlass_rest::Host;
///
/// let host: Host = "Storage.Example.Com.".parse()?;
/// assert_eq!(host.to_string(), "storage.example.com");
/// assert_eq!("[::0:1]".parse::<Host>()?, "::1".parse()?);
/// # Ok::<(), windlass_rest::NotAHost>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Host(String);

/// A host that requests may name, or all of them: `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedHost {
    /// Any host.
    Any,
    /// This host.
    Named(Host),
}

/// A text that is not the name of a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not the name of a host, such as storage.example.com or [::1], without a port")]
pub struct NotAHost {
    /// The text.
    pub text: String,
}

impl Host {
    /// The host of an authority; its port and its user do not matter.
    pub fn of(authority: &Authority) -> Option<Self> {
        authority.host().parse().ok()
    }

    /// The host of a URL.
    pub fn of_url(url: &str) -> Option<Self> {
        Self::of(url.parse::<Uri>().ok()?.authority()?)
    }

    /// Whether it is an IPv4 or IPv6 address.
    pub fn is_address(&self) -> bool {
        self.0.starts_with('[') || self.0.parse::<Ipv4Addr>().is_ok()
    }

    /// Whether it is `localhost` or a name below it. Such names always refer to the local machine
    /// (RFC 6761, section 6.3).
    pub fn is_loopback_name(&self) -> bool {
        let name = self.0.strip_suffix("localhost");
        name.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }
}

impl AllowedHost {
    /// Returns the named host. `None` if any host is allowed.
    pub fn host(&self) -> Option<&Host> {
        match self {
            Self::Any => None,
            Self::Named(host) => Some(host),
        }
    }
}

impl FromStr for AllowedHost {
    type Err = NotAHost;

    fn from_str(text: &str) -> Result<Self, NotAHost> {
        if text == "*" {
            return Ok(Self::Any);
        }
        text.parse().map(Self::Named)
    }
}

impl fmt::Display for AllowedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Named(host) => host.fmt(f),
        }
    }
}

impl FromStr for Host {
    type Err = NotAHost;

    fn from_str(text: &str) -> Result<Self, NotAHost> {
        address(text)
            .or_else(|| name(text))
            .map(Self)
            .ok_or_else(|| NotAHost {
                text: text.to_owned(),
            })
    }
}

fn address(text: &str) -> Option<String> {
    let inner = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    if let Ok(address) = inner.unwrap_or(text).parse::<Ipv6Addr>() {
        return Some(format!("[{address}]"));
    }
    let address = text.parse::<Ipv4Addr>().ok()?;
    Some(address.to_string())
}

/// Domain names have no underscore, but container networks use it.
fn name(text: &str) -> Option<String> {
    let text = text.strip_suffix('.').unwrap_or(text);
    let may_be_in = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(may_be_in);
    (text.len() <= MAX_LEN && text.split('.').all(is_label)).then(|| text.to_ascii_lowercase())
}

impl TryFrom<String> for Host {
    type Error = NotAHost;

    fn try_from(text: String) -> Result<Self, NotAHost> {
        text.parse()
    }
}

impl From<Host> for String {
    fn from(host: Host) -> Self {
        host.0
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_host(text: &str, expected: Option<&str>) {
        let host = text.parse::<Host>().ok().map(String::from);
        assert_eq!(host.as_deref(), expected, "{text:?}");
    }

    #[test]
    fn names_of_one_host_are_equal() {
        check_host("storage.example.com", Some("storage.example.com"));
        check_host("Storage.EXAMPLE.com.", Some("storage.example.com"));
        check_host("localhost", Some("localhost"));
        check_host("media_server", Some("media_server"));
        check_host("127.0.0.1", Some("127.0.0.1"));
        check_host("[::1]", Some("[::1]"));
        check_host("2001:DB8::0:1", Some("[2001:db8::1]"));
    }

    #[test]
    fn a_port_a_path_or_nothing_is_no_name() {
        for text in [
            "",
            ".",
            "a..b",
            "a.com:80",
            "[::1]:80",
            "[::1",
            "::1]",
            "a/b",
            "a b",
            "a@b",
            "[127.0.0.1]",
            "bücher.example",
        ] {
            check_host(text, None);
        }
        check_host(&"a".repeat(MAX_LEN), Some(&"a".repeat(MAX_LEN)));
        check_host(&"a".repeat(MAX_LEN + 1), None);
    }

    #[test]
    fn the_host_of_an_authority_has_neither_user_nor_port() {
        for (authority, expected) in [
            ("me@A.example:8080", "a.example"),
            ("[::1]:8080", "[::1]"),
            ("127.0.0.1", "127.0.0.1"),
        ] {
            let host = Host::of(&authority.parse().unwrap());
            assert_eq!(host, expected.parse().ok(), "{authority}");
        }
    }
}
