//! The hosts that a request may name.
//!
//! A page can point its own host name at the address of a server that its visitor reaches, and then
//! reads the server as its own origin (DNS rebinding). The browser names that host, so the request
//! is refused. Addresses cannot be pointed elsewhere. They, and the names of loopback (RFC 6761,
//! section 6.3), are always known.

use std::collections::BTreeSet;

use http::header::HOST;
use http::request::Parts;
use http::uri::{Authority, Scheme};
use http::{HeaderValue, Method, Version};
use windlass_rest::host::{AllowedHost, Host};
use windlass_rest::registry::Registry;

use crate::config::Settings;
use crate::context::LocalAddress;
use crate::error::Error;

/// The hosts that requests may name.
#[derive(Debug)]
pub(crate) enum KnownHosts {
    /// All of them.
    Any,
    /// These, addresses, and the names of loopback.
    Named(BTreeSet<Host>),
}

impl KnownHosts {
    /// Returns the hosts that the settings and the APIs name.
    pub(crate) fn of(settings: &Settings, registry: &Registry) -> Self {
        if settings.hosts.contains(&AllowedHost::Any) {
            return Self::Any;
        }
        let listed = settings.hosts.iter().filter_map(AllowedHost::host).cloned();
        let public = settings.public_url.as_deref().and_then(Host::of_url);
        let media = settings.downloads.host.clone();
        let of_apis = registry.hosts().cloned();
        Self::Named(listed.chain(public).chain(media).chain(of_apis).collect())
    }

    /// Checks the `Host` of a request. `host` is its parsed form, `None` if it is missing or cannot
    /// be parsed.
    ///
    /// # Errors
    /// 400 if it is missing, repeated or malformed, and 421 if it is not known.
    pub(crate) fn check(&self, head: &Parts, host: Option<&Host>) -> Result<(), Error> {
        check_form(head)?;
        match host {
            Some(host) if !self.knows(host) => Err(Error::UnknownHost { host: host.clone() }),
            _ => Ok(()),
        }
    }

    fn knows(&self, host: &Host) -> bool {
        match self {
            Self::Any => true,
            Self::Named(names) => {
                host.is_address() || host.is_loopback_name() || names.contains(host)
            }
        }
    }
}

/// Refuses a request that does not name its host as its version of HTTP demands (RFC 9112, section
/// 3.2; RFC 9113, section 8.3.1).
fn check_form(head: &Parts) -> Result<(), Error> {
    let mut lines = head.headers.get_all(HOST).into_iter();
    let line = lines.next();
    if lines.next().is_some() {
        return Err(Error::DoubledHost);
    }
    let named = match line {
        Some(line) => Some(read(line).ok_or(Error::MalformedHost)?),
        None => None,
    };
    let target = head.uri.authority();
    if target.is_some_and(|target| parse(target.as_str()).is_none()) {
        return Err(Error::MalformedHost);
    }
    // Other schemes are not served, and a proxy in front may interpret them.
    let scheme = head.uri.scheme();
    if scheme.is_some_and(|it| ![Scheme::HTTP, Scheme::HTTPS].contains(it)) {
        return Err(Error::NoTarget);
    }
    if head.version >= Version::HTTP_2 {
        return check_pseudo_headers(head, named.as_ref());
    }
    // A request that an application passes directly to the service may lack a host.
    let came_by_connection = head.extensions.get::<LocalAddress>().is_some();
    if named.is_none() && head.version == Version::HTTP_11 && came_by_connection {
        return Err(Error::MissingHost);
    }
    Ok(())
}

fn check_pseudo_headers(head: &Parts, named: Option<&Authority>) -> Result<(), Error> {
    let is_whole = head.uri.scheme().is_some() && head.uri.path_and_query().is_some();
    if head.method != Method::CONNECT && head.uri.authority().is_some() && !is_whole {
        return Err(Error::NoTarget);
    }
    match (head.uri.authority(), named) {
        (None, None) if head.extensions.get::<LocalAddress>().is_some() => Err(Error::MissingHost),
        (Some(target), Some(named)) if !is_same(target, named) => Err(Error::DoubledHost),
        _ => Ok(()),
    }
}

/// Whether two authorities name the same host and port, as far as both name a port.
fn is_same(one: &Authority, other: &Authority) -> bool {
    let (one_port, other_port) = (one.port_u16(), other.port_u16());
    let same_port = one_port == other_port || one_port.is_none() || other_port.is_none();
    Host::of(one) == Host::of(other) && same_port
}

/// Reads `Host`.
fn read(line: &HeaderValue) -> Option<Authority> {
    parse(line.to_str().ok()?)
}

/// Reads a host, and a port if it is stated. There is no user.
fn parse(text: &str) -> Option<Authority> {
    let authority: Authority = text.parse().ok()?;
    Host::of(&authority)?;
    let port = text.strip_prefix(authority.host())?;
    let is_port = match port.strip_prefix(':') {
        // RFC 3986, section 3.2.3: the port may be empty.
        Some(digits) => {
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            is_number && (digits.is_empty() || digits.parse::<u16>().is_ok())
        }
        None => port.is_empty(),
    };
    is_port.then_some(authority)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use http::Request;

    use super::*;
    use crate::context::Scheme;

    /// Examines a request that came by a connection.
    fn check(version: Version, target: &str, hosts: &[&str]) -> Result<(), Error> {
        let mut request = Request::builder().version(version).uri(target);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        let (mut head, ()) = request.body(()).unwrap().into_parts();
        head.extensions.insert(LocalAddress {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            scheme: Scheme::Http,
        });
        check_form(&head)
    }

    #[test]
    fn header_names_one_host_and_maybe_a_port() {
        let http1 = |hosts: &[&str]| check(Version::HTTP_11, "/", hosts);
        for host in [
            "a.example",
            "a.example:80",
            "a.example:",
            "[::1]:8080",
            "127.0.0.1",
            "a_b",
        ] {
            assert!(http1(&[host]).is_ok(), "{host}");
        }
        for host in [
            "",
            " ",
            "a b",
            "a.example:x",
            "a.example:-1",
            "a.example:+1",
            "a.example:65536",
            "me@a.example",
            "http://a.example",
            "a.example/",
            "a.example,b.example",
            "a..example",
            "[::1",
            "%61.example",
        ] {
            assert!(
                matches!(http1(&[host]), Err(Error::MalformedHost)),
                "{host:?}"
            );
        }
        let doubled = http1(&["a.example", "a.example"]);
        assert!(matches!(doubled, Err(Error::DoubledHost)), "{doubled:?}");
        assert!(matches!(http1(&[]), Err(Error::MissingHost)));
        assert!(check(Version::HTTP_10, "/", &[]).is_ok());
    }

    #[test]
    fn target_in_absolute_form_needs_the_header_as_well() {
        let http1 = |hosts: &[&str]| check(Version::HTTP_11, "http://a.example/", hosts);
        assert!(http1(&["b.example"]).is_ok());
        assert!(matches!(http1(&[]), Err(Error::MissingHost)));
        assert!(matches!(http1(&["b b"]), Err(Error::MalformedHost)));
    }

    #[test]
    fn http2_has_an_authority_or_the_header_and_both_are_the_same() {
        let http2 = |target: &str, hosts: &[&str]| check(Version::HTTP_2, target, hosts);
        assert!(http2("http://a.example:80/", &[]).is_ok());
        assert!(http2("/", &["a.example"]).is_ok());
        assert!(http2("http://a.example/", &["A.example."]).is_ok());
        assert!(matches!(http2("/", &[]), Err(Error::MissingHost)));
        for other in ["b.example", "a.example:81"] {
            let doubled = http2("http://a.example:80/", &[other]);
            assert!(matches!(doubled, Err(Error::DoubledHost)), "{other}");
        }
        assert!(matches!(http2("a.example", &[]), Err(Error::NoTarget)));
        assert!(matches!(
            http2("ftp://a.example/", &[]),
            Err(Error::NoTarget)
        ));
        assert!(http2("https://a.example:/x@y", &[]).is_ok());
        for malformed in ["http://me@a.example/", "http://a.example:65536/"] {
            let refused = http2(malformed, &[]);
            assert!(matches!(refused, Err(Error::MalformedHost)), "{malformed}");
        }
    }

    #[test]
    fn known_are_the_names_of_settings_and_apis_and_all_addresses() {
        let mut settings = Settings {
            public_url: Some("https://up.example.com:8443/media".to_owned()),
            hosts: vec!["media.internal".parse().unwrap()],
            ..Settings::default()
        };
        settings.downloads.host = Some("files.example.com".parse().unwrap());
        let registry = Registry::new([]).unwrap();
        let known = KnownHosts::of(&settings, &registry);
        let answers_for = |host: &str| known.knows(&host.parse().unwrap());
        for host in [
            "up.example.com",
            "media.internal",
            "files.example.com",
            "localhost",
            "farm.localhost",
            "192.0.2.1",
            "[2001:db8::1]",
        ] {
            assert!(answers_for(host), "{host}");
        }
        for host in [
            "example.com",
            "a.up.example.com",
            "localhost.example",
            "evil.example",
        ] {
            assert!(!answers_for(host), "{host}");
        }
        settings.hosts.push(AllowedHost::Any);
        let any = KnownHosts::of(&settings, &registry);
        assert!(any.knows(&"evil.example".parse().unwrap()));
    }
}
