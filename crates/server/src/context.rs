//! The context of a request besides its method and its body: its id, its sender, the client's
//! address, and the URL by which it reached the server.
//!
//! Session URIs and discovery documents are built from that URL. The [`Host`] in it distinguishes
//! APIs with equal paths.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::header::{FORWARDED, HOST};
use http::uri::Authority;
use http::{Extensions, HeaderMap, Uri};
use windlass_engine::identifiers::random_number;
use windlass_rest::host::Host;
use windlass_rest::principal::Principal;

use crate::ambient_authority::AmbientAuthority;
use crate::client_certificate::ClientCertificate;
use crate::config::Settings;

/// The address of the client's end of the connection, as an extension of the request. Behind an
/// HTTP proxy it is the proxy's address, and with the PROXY protocol the client's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddress(pub SocketAddr);

/// The id of a request in logs, as an extension of the request. A layer may insert an id. Otherwise
/// the server creates one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(Id);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Id {
    /// An id from a layer.
    Given(Arc<str>),
    /// An id from the server. It becomes text only if it is logged.
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

/// Creates the ids of requests without an id: consecutive numbers from a random start, because the
/// logs of several processes may be read together.
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

/// The context of a request besides its method and its body.
pub(crate) struct RequestContext {
    /// Id of the request.
    pub(crate) id: RequestId,
    /// Address of the client's end of the connection, if it is known.
    pub(crate) peer: Option<SocketAddr>,
    /// Address of the client: the connection's, or the address that a trusted proxy states.
    pub(crate) client: Option<IpAddr>,
    /// Address by which concurrent requests are limited: the client's. `None` for requests that a
    /// trusted proxy sends by itself.
    pub(crate) limited_client: Option<IpAddr>,
    /// Certificate of the client, if it has presented one.
    pub(crate) certificate: Option<ClientCertificate>,
    /// The rights that the request has without credentials from its sender.
    pub(crate) ambient_authority: AmbientAuthority,
    /// Host that the client asked for, if it named a valid one.
    pub(crate) host: Option<Host>,
    /// URL under which the client reached the server, without a slash at its end.
    pub(crate) base_url: String,
    /// The principal that sent the request, if it is known.
    pub(crate) principal: Option<Principal>,
}

impl RequestContext {
    /// Returns the context of a request that reached `host` by `base_url`. `stated` is the client's
    /// address as stated by a trusted proxy. `None` if no proxy is trusted.
    pub(crate) fn new(
        extensions: &Extensions,
        ids: &RequestIds,
        host: Option<Host>,
        base_url: String,
        stated: Option<StatedClient>,
    ) -> Self {
        let id = extensions.get().cloned();
        let peer: Option<SocketAddr> = extensions.get().map(|PeerAddress(address)| *address);
        let peer_address = peer.map(|peer| peer.ip());
        let client = match stated {
            Some(StatedClient::Address(client)) => Some(client),
            _ => peer_address,
        };
        Self {
            id: id.unwrap_or_else(|| ids.next()),
            client,
            limited_client: client.filter(|_| stated != Some(StatedClient::Nothing)),
            peer,
            certificate: extensions.get().cloned(),
            ambient_authority: extensions.get().copied().unwrap_or_default(),
            host,
            base_url,
            principal: extensions.get().cloned(),
        }
    }
}

/// The local address of a connection, an extension of each request.
#[derive(Debug, Clone, Copy)]
pub struct LocalAddress {
    /// The address of the socket, or the destination that a header of the PROXY protocol states.
    pub address: SocketAddr,
    /// The scheme that is served there.
    pub scheme: Scheme,
}

/// The scheme of a connection's URLs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scheme {
    /// `http`: in the clear.
    #[default]
    Http,
    /// `https`: under TLS.
    Https,
}

/// The origin by which a client reached the server, as its request states it.
pub(crate) struct Origin<'a> {
    settings: &'a Settings,
    /// The path under which the application serves the server, or nothing.
    mount: &'a str,
    forwarded: Forwarded,
    /// The authority in the request itself.
    own: Option<Authority>,
    local: Option<LocalAddress>,
}

impl<'a> Origin<'a> {
    pub(crate) fn of(
        settings: &'a Settings,
        mount: &'a str,
        uri: &Uri,
        headers: &HeaderMap,
        local: Option<LocalAddress>,
    ) -> Self {
        let forwarded = if settings.trust_forwarded {
            forwarded(headers)
        } else {
            Forwarded::default()
        };
        Self {
            settings,
            mount,
            forwarded,
            own: own_authority(uri, headers),
            local,
        }
    }

    /// Returns the host that the client asked for. A trusted proxy states it. Otherwise it is the
    /// request's own host.
    pub(crate) fn host(&self) -> Option<Host> {
        Host::of(self.forwarded.authority.as_ref().or(self.own.as_ref())?)
    }

    /// Returns the client's address as stated by a trusted proxy. `None` if no proxy is trusted.
    pub(crate) fn stated_client(&self) -> Option<StatedClient> {
        self.settings
            .trust_forwarded
            .then_some(self.forwarded.client)
    }

    /// Returns the base URL for the request, without a slash at its end. `virtual_host` is the
    /// requested host if an API names it.
    ///
    /// The URL comes from the first of these sources: the configured URL, with the virtual host;
    /// the origin that a trusted proxy states; the request's `Host`; the address of the socket. The
    /// path under which the server is mounted is appended, except to the configured URL.
    pub(crate) fn base_url(&self, virtual_host: Option<&Host>) -> String {
        if let Some(url) = &self.settings.public_url {
            return at_site(url, virtual_host).trim_end_matches('/').to_owned();
        }
        let scheme = self.forwarded.scheme.or(self.local.map(|it| it.scheme));
        let forwarded = self.forwarded.authority.as_ref().map(Authority::to_string);
        let authority = forwarded
            .or_else(|| Some(with_port(self.own.as_ref()?, self.local)))
            .or_else(|| self.local.map(|local| local.address.to_string()))
            .unwrap_or_else(|| "localhost".to_owned());
        let mount = self.mount;
        format!("{}://{authority}{mount}", scheme.unwrap_or_default())
    }
}

/// Returns the path under which an application serves the server, with a slash at its beginning and
/// none at its end. It is empty without segments. `None` if the text is not a path.
pub(crate) fn mount_path(text: &str) -> Option<String> {
    let path = text.trim_end_matches('/');
    if path.is_empty() {
        return Some(String::new());
    }
    let uri: Uri = path.parse().ok()?;
    let is_path = path.starts_with('/') && uri.path() == path && !path.contains("//");
    is_path.then(|| path.to_owned())
}

/// Replaces the host of the configured URL by the virtual host, because one URL cannot name several
/// hosts.
pub(crate) fn at_site(url: &str, virtual_host: Option<&Host>) -> String {
    let (Some(virtual_host), Ok(uri)) = (virtual_host, url.parse::<Uri>()) else {
        return url.to_owned();
    };
    let scheme = uri.scheme_str().unwrap_or("http");
    let port = uri.port().map(|port| format!(":{port}"));
    format!(
        "{scheme}://{virtual_host}{}{}",
        port.unwrap_or_default(),
        uri.path()
    )
}

/// Returns the authority of the absolute target, of HTTP/2's `:authority`, or of `Host`.
pub(crate) fn own_authority(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    uri.authority()
        .cloned()
        .or_else(|| headers.get(HOST)?.to_str().ok()?.parse().ok())
}

/// Returns the authority without its user information, which must not appear in URLs of replies.
///
/// Some clients omit the port from `Host` although it is not the default port. If the host is the
/// address of the socket, the port of the socket is used.
fn with_port(authority: &Authority, local: Option<LocalAddress>) -> String {
    let name = authority.host();
    match (authority.port_u16(), local) {
        (Some(port), _) => format!("{name}:{port}"),
        (None, Some(local)) if local.is_at(name) => {
            format!("{name}:{}", local.address.port())
        }
        (None, _) => name.to_owned(),
    }
}

impl LocalAddress {
    /// Whether the host is the address of the socket, on a port that is not the default.
    fn is_at(self, name: &str) -> bool {
        let literal = name.trim_start_matches('[').trim_end_matches(']');
        let ip = self.address.ip();
        let is_here = literal.parse() == Ok(ip) || (name == "localhost" && ip.is_loopback());
        is_here && self.address.port() != self.scheme.default_port()
    }
}

impl Scheme {
    fn named(name: &str) -> Option<Self> {
        let all = [Self::Http, Self::Https];
        all.into_iter().find(|scheme| scheme.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Default)]
struct Forwarded {
    scheme: Option<Scheme>,
    authority: Option<Authority>,
    client: StatedClient,
}

/// The statement of a trusted proxy about the client's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum StatedClient {
    /// No statement: the request may be the proxy's own.
    #[default]
    Nothing,
    /// A value that is not an address, or two different addresses.
    Unclear,
    /// This address.
    Address(IpAddr),
}

/// Reads `Forwarded` (RFC 7239), or otherwise `X-Forwarded-Proto`, `-Host` and `-For`. The last
/// element is used, because the trusted proxy has added it and earlier elements may come from the
/// client. If both headers name different clients, one of the names comes from the client, and
/// neither is used.
fn forwarded(headers: &HeaderMap) -> Forwarded {
    let last = |name: &str| {
        let value = headers.get_all(name).into_iter().next_back()?.as_bytes();
        let element = outside_quotes(value, b',').next().unwrap_or_default();
        let text = std::str::from_utf8(element).unwrap_or_default();
        Some(text.trim().to_owned())
    };
    let (mut scheme, mut authority, mut client) = (None, None, None);
    if let Some(element) = last(FORWARDED.as_str()) {
        for pair in outside_quotes(element.as_bytes(), b';') {
            let pair = std::str::from_utf8(pair).unwrap_or_default();
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = value.trim().trim_matches('"').to_owned();
            match name.trim().to_ascii_lowercase().as_str() {
                "proto" => scheme = Some(value),
                "host" => authority = Some(value),
                "for" => client = Some(value),
                _ => {}
            }
        }
    }
    let scheme = scheme.or_else(|| last("x-forwarded-proto"));
    let authority = authority.or_else(|| last("x-forwarded-host"));
    let stated = [client, last("x-forwarded-for")];
    let mut clients = stated.iter().flatten().map(|client| address_of(client));
    Forwarded {
        scheme: scheme.and_then(|scheme| Scheme::named(&scheme)),
        authority: authority.and_then(|host| host.parse().ok()),
        client: match (clients.next(), clients.next()) {
            (None, _) => StatedClient::Nothing,
            (Some(Some(client)), other) if other.is_none_or(|it| it == Some(client)) => {
                StatedClient::Address(client)
            }
            _ => StatedClient::Unclear,
        },
    }
}

/// Splits at a character outside of quoted strings, from the end. A client may send an unclosed
/// quotation mark before the part that the proxy adds. The last element is unaffected by it.
fn outside_quotes(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut is_quoted = false;
        let at = (0..text.len()).rev().find(|&at| {
            let is_escaped = at > 0 && text[at - 1] == b'\\';
            if text[at] == b'"' && !is_escaped {
                is_quoted = !is_quoted;
            }
            text[at] == separator && !is_quoted
        });
        rest = at.map(|at| &text[..at]);
        Some(&text[at.map_or(0, |at| at + 1)..])
    })
}

/// An address with or without a port: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`,
/// `[2001:db8::1]:80`.
fn address_of(text: &str) -> Option<IpAddr> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let with_port = || text.parse().ok().map(|address: SocketAddr| address.ip());
    bare.parse().ok().or_else(with_port)
}

#[cfg(test)]
mod tests;
