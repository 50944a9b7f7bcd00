//! Where clients reach the server: the absolute URL that session URIs and documents are built from.

use std::net::SocketAddr;

use http::header::{FORWARDED, HOST};
use http::uri::Authority;
use http::{HeaderMap, Uri};

use crate::config::Settings;

/// The local address of a connection, an extension of each request.
#[derive(Debug, Clone, Copy)]
pub struct LocalAddress(pub SocketAddr);

/// The base URL for a request, without a slash at its end.
///
/// In this order: the configured one; what a trusted proxy says; the request's own `Host`; the
/// address of the socket.
pub(crate) fn base_url(
    settings: &Settings,
    uri: &Uri,
    headers: &HeaderMap,
    local: Option<LocalAddress>,
) -> String {
    if let Some(url) = &settings.public_url {
        return url.trim_end_matches('/').to_owned();
    }
    let forwarded = if settings.trust_forwarded {
        forwarded(headers)
    } else {
        Forwarded::default()
    };
    let scheme = forwarded.scheme.unwrap_or_else(|| "http".to_owned());
    let authority = forwarded
        .authority
        .or_else(|| own_authority(uri, headers, local))
        .or_else(|| local.map(|local| local.0.to_string()))
        .unwrap_or_else(|| "localhost".to_owned());
    format!("{scheme}://{authority}")
}

/// What `Host` (or HTTP/2's `:authority`) says.
///
/// Some clients leave the port out of `Host` although it is not the default one. When the host is
/// the very address that the connection came in on, the port is known better.
fn own_authority(uri: &Uri, headers: &HeaderMap, local: Option<LocalAddress>) -> Option<String> {
    let host = uri.authority().map(Authority::as_str);
    let host = host.or_else(|| headers.get(HOST)?.to_str().ok())?;
    let host = host.parse::<Authority>().ok()?;
    // User information has no place in a URL that is handed out.
    let name = host.host();
    match (host.port_u16(), local) {
        (Some(port), _) => Some(format!("{name}:{port}")),
        (None, Some(LocalAddress(local))) if local.port() != 80 && is_at(name, local) => {
            Some(format!("{name}:{}", local.port()))
        }
        (None, _) => Some(name.to_owned()),
    }
}

fn is_at(name: &str, local: SocketAddr) -> bool {
    let literal = name.trim_start_matches('[').trim_end_matches(']');
    literal.parse() == Ok(local.ip()) || (name == "localhost" && local.ip().is_loopback())
}

#[derive(Default)]
struct Forwarded {
    scheme: Option<String>,
    authority: Option<String>,
}

/// `Forwarded` (RFC 7239), else `X-Forwarded-Proto` and `X-Forwarded-Host`. Of several proxies the
/// first, which the client talked to, counts.
fn forwarded(headers: &HeaderMap) -> Forwarded {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    let first = |list: &str| list.split(',').next().map(|first| first.trim().to_owned());
    let (mut scheme, mut authority) = (None, None);
    if let Some(element) = text(FORWARDED.as_str()).and_then(first) {
        for pair in element.split(';') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = value.trim().trim_matches('"').to_owned();
            match name.trim().to_ascii_lowercase().as_str() {
                "proto" => scheme = Some(value),
                "host" => authority = Some(value),
                _ => {}
            }
        }
    }
    let scheme = scheme.or_else(|| text("x-forwarded-proto").and_then(first));
    let authority = authority.or_else(|| text("x-forwarded-host").and_then(first));
    Forwarded {
        scheme: scheme.filter(|scheme| matches!(scheme.as_str(), "http" | "https")),
        authority: authority.filter(|host| host.parse::<Authority>().is_ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(settings: &Settings, headers: &[(&'static str, &'static str)], expected: &str) {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect();
        let local = LocalAddress("127.0.0.1:8080".parse().unwrap());
        let uri = Uri::from_static("/upload/farm/v1/animals");
        assert_eq!(base_url(settings, &uri, &headers, Some(local)), expected);
    }

    #[test]
    fn the_configured_url_wins() {
        let settings = Settings {
            public_url: Some("https://up.example.com/".into()),
            trust_forwarded: true,
            ..Settings::default()
        };
        let headers = [("host", "other"), ("x-forwarded-host", "proxy")];
        check(&settings, &headers, "https://up.example.com");
    }

    #[test]
    fn forwarded_headers_count_only_when_trusted() {
        let headers = [
            ("host", "inner:8080"),
            (
                "forwarded",
                "for=1.2.3.4;proto=https;host=\"up.example.com\", for=5.6.7.8;host=no",
            ),
        ];
        check(&Settings::default(), &headers, "http://inner:8080");
        let settings = Settings {
            trust_forwarded: true,
            ..Settings::default()
        };
        check(&settings, &headers, "https://up.example.com");
        let headers = [
            ("host", "inner"),
            ("x-forwarded-host", "up:99"),
            ("x-forwarded-proto", "https"),
        ];
        check(&settings, &headers, "https://up:99");
    }

    #[test]
    fn a_host_without_its_port_gets_the_port_of_the_socket() {
        check(
            &Settings::default(),
            &[("host", "127.0.0.1")],
            "http://127.0.0.1:8080",
        );
        check(
            &Settings::default(),
            &[("host", "localhost")],
            "http://localhost:8080",
        );
        check(
            &Settings::default(),
            &[("host", "up.example.com")],
            "http://up.example.com",
        );
        check(
            &Settings::default(),
            &[("host", "localhost:81")],
            "http://localhost:81",
        );
    }

    #[test]
    fn without_a_host_the_address_of_the_socket_is_used() {
        check(&Settings::default(), &[], "http://127.0.0.1:8080");
        check(
            &Settings::default(),
            &[("host", "no host at all")],
            "http://127.0.0.1:8080",
        );
    }
}
