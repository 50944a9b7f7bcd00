//! To which servers media and tokens may go.

use url::{Host, Origin, Url};

/// The domain of Google's APIs. A start at one of its hosts is answered with a session at another,
/// for instance at `storage.googleapis.com`.
const GOOGLE_APIS: &str = "googleapis.com";

/// Returns whether the server at `upload_url` may have the media sent to a session at `session`: at
/// the same host, whatever its port, at another host of Google's APIs, or at an origin that the
/// user allowed. All names and addresses of this machine count as one host.
pub(crate) fn may_receive_media(upload_url: &Url, session: &Url, allowed: &[Origin]) -> bool {
    upload_url.host() == session.host()
        || is_loopback(upload_url) && is_loopback(session)
        || is_google_api(upload_url) && is_google_api(session) && session.scheme() == "https"
        || allowed.contains(&session.origin())
}

/// Returns whether requests to a URL are private: nobody between this process and the server can
/// read them. The transport uses no proxy for this machine.
pub(crate) fn is_private(url: &Url) -> bool {
    url.scheme() == "https" || is_loopback(url)
}

/// Returns whether a URL leads to this machine. The names below `localhost` do (RFC 6761, 6.3).
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => is_in_domain(name, "localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        None => false,
    }
}

fn is_google_api(url: &Url) -> bool {
    url.port().is_none()
        && url
            .domain()
            .is_some_and(|name| is_in_domain(name, GOOGLE_APIS))
}

/// Returns whether a name is `domain` or below it. The parser of URLs writes names in lower case.
fn is_in_domain(name: &str, domain: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.strip_suffix(domain)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().expect("it is a URL")
    }

    #[test]
    fn media_goes_to_the_same_host_and_between_hosts_of_google_apis() {
        for (upload_url, session, expected) in [
            ("https://h/upload", "https://h/s", true),
            ("https://h/upload", "https://h:8443/s", true),
            ("http://h/upload", "https://h/s", true),
            ("http://h:8080/upload", "http://h:8081/s", true),
            ("https://h/upload", "https://elsewhere/s", false),
            (
                "https://h.example/upload",
                "https://media.h.example/s",
                false,
            ),
            ("http://localhost:1/upload", "http://127.0.0.1:2/s", true),
            ("http://127.0.0.2/upload", "http://[::1]/s", true),
            ("http://h/upload", "http://127.0.0.1/s", false),
            ("https://h/upload", "https://169.254.169.254/s", false),
            (
                "https://www.googleapis.com/u",
                "https://storage.googleapis.com/s",
                true,
            ),
            (
                "https://www.googleapis.com/u",
                "https://googleapis.com/s",
                true,
            ),
            (
                "https://www.googleapis.com/u",
                "https://evilgoogleapis.com/s",
                false,
            ),
            (
                "https://www.googleapis.com/u",
                "https://googleapis.com.evil/s",
                false,
            ),
            (
                "https://www.googleapis.com/u",
                "https://x.googleapis.com:1/s",
                false,
            ),
            (
                "http://www.googleapis.com/u",
                "http://x.googleapis.com/s",
                false,
            ),
            (
                "https://h/upload",
                "https://storage.googleapis.com/s",
                false,
            ),
        ] {
            let may = may_receive_media(&url(upload_url), &url(session), &[]);
            assert_eq!(may, expected, "{upload_url} {session}");
        }
    }

    #[test]
    fn an_allowed_origin_is_one_scheme_host_and_port() {
        let allowed = [url("https://media.example/ignored").origin()];
        for (session, expected) in [
            ("https://media.example/s", true),
            ("https://media.example:443/s", true),
            ("https://media.example:444/s", false),
            ("http://media.example/s", false),
            ("https://b.media.example/s", false),
        ] {
            let may = may_receive_media(&url("https://h/upload"), &url(session), &allowed);
            assert_eq!(may, expected, "{session}");
        }
    }

    #[test]
    fn only_encryption_and_loopback_are_private() {
        for (text, expected) in [
            ("https://farm.example/", true),
            ("http://farm.example/", false),
            ("http://10.0.0.1/", false),
            ("http://0.0.0.0/", false),
            ("http://localhost:8080/", true),
            ("http://LOCALHOST./", true),
            ("http://up.localhost/", true),
            ("http://notlocalhost/", false),
            ("http://localhost.example/", false),
            ("http://127.0.0.1/", true),
            ("http://127.8.9.10:99/", true),
            ("http://2130706433/", true),
            ("http://[::1]/", true),
            ("http://[::ffff:127.0.0.1]/", true),
            ("http://[::ffff:10.0.0.1]/", false),
        ] {
            assert_eq!(is_private(&url(text)), expected, "{text}");
        }
    }
}
