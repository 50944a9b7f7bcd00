//! The policy for pages of other origins (Fetch standard, "CORS protocol"): which origins may read
//! the replies of an API.
//!
//! The HTTP front applies a policy to requests and replies.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::time::Duration;

use http::HeaderValue;

/// The longest origin that is compared, in bytes: a scheme, a name in DNS, and a port. The reply to
/// a request holds its origin for as long as the request lasts.
pub const MAX_ORIGIN_LEN: usize = 320;

/// The origins with pages that may call an API from a browser and read its replies.
///
/// ```
/// use std::time::Duration;
/// use windlass_rest::CorsPolicy;
///
/// let origins = ["https://app.example".parse()?, "https://*.example.com".parse()?];
/// let policy = CorsPolicy::new(origins)
///     .with_max_age(Duration::from_secs(60))
///     .with_credentials()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorsPolicy {
    origins: Vec<AllowedOrigin>,
    credentials: bool,
    max_age: Duration,
}

/// A policy cannot allow credentials for every origin. Browsers refuse the combination, and any
/// page could act in the name of each of its visitors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("credentials cannot be allowed to the origin *; name the origins")]
pub struct CredentialsForAll;

impl CorsPolicy {
    /// How long browsers may keep the answer to a preflight, unless a policy says otherwise.
    // A preflight per URL and 10 min costs little. An origin that is removed from the list keeps
    // the right to send for no longer than that.
    pub const MAX_AGE: Duration = Duration::from_secs(600);

    /// Returns a policy that allows these origins, without credentials. Without origins it allows
    /// none: preflights are refused.
    pub fn new(origins: impl IntoIterator<Item = AllowedOrigin>) -> Self {
        Self {
            origins: origins.into_iter().collect(),
            credentials: false,
            max_age: Self::MAX_AGE,
        }
    }

    /// Lets pages send cookies, HTTP authentication and client certificates. A token that a page
    /// puts into `Authorization` itself does not need it.
    ///
    /// # Errors
    /// [`CredentialsForAll`] if the policy allows the origin `*`.
    pub fn with_credentials(self) -> Result<Self, CredentialsForAll> {
        if self.allows_all() {
            return Err(CredentialsForAll);
        }
        Ok(Self {
            credentials: true,
            ..self
        })
    }

    /// Sets how long browsers may keep the answer to a preflight. Browsers have their own limits,
    /// such as two hours. Default: [`CorsPolicy::MAX_AGE`]. Fractions of a second are dropped.
    #[must_use]
    pub fn with_max_age(self, max_age: Duration) -> Self {
        Self { max_age, ..self }
    }

    /// Whether it allows every origin.
    pub fn allows_all(&self) -> bool {
        let mut origins = self.origins.iter();
        origins.any(|origin| origin.0 == Pattern::Any)
    }

    /// Whether pages may send credentials.
    pub fn credentials(&self) -> bool {
        self.credentials
    }

    /// How long browsers may keep the answer to a preflight.
    pub fn max_age(&self) -> Duration {
        self.max_age
    }

    /// Returns the value of `Access-Control-Allow-Origin` for a request from `origin`; `None` if it
    /// is not allowed.
    pub fn allow_origin(&self, origin: &HeaderValue) -> Option<HeaderValue> {
        if self.allows_all() {
            return Some(HeaderValue::from_static("*"));
        }
        let text = origin.to_str().ok()?;
        let is_allowed = self.origins.iter().any(|allowed| allowed.is(text));
        (is_allowed && text.len() <= MAX_ORIGIN_LEN).then(|| copied(origin))?
    }
}

/// Returns a copy of an origin for the reply. The value itself is a part of the buffer with the
/// head of the request.
pub fn copied(origin: &HeaderValue) -> Option<HeaderValue> {
    HeaderValue::from_bytes(origin.as_bytes()).ok()
}

/// An origin, or a pattern of origins, that a [`CorsPolicy`] allows.
///
/// | text | allows |
/// |---|---|
/// | `https://app.example` | this origin: scheme, host and port are the same |
/// | `https://*.example.com` | all subdomains of `example.com`, at any depth, with this scheme and port; not `https://example.com` |
/// | `*` | every origin, including opaque origins, which call themselves `null` |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedOrigin(Pattern);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Any,
    Exact(String),
    Subdomains {
        /// Such as `https://`.
        scheme: String,
        /// Such as `.example.com` or `.example.com:8443`.
        rest: String,
    },
}

/// A text that is no [`AllowedOrigin`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not an origin such as https://app.example or http://127.0.0.1:3000, without a path, nor \
     https://*.example.com for subdomains, nor *"
)]
pub struct NotAnOrigin {
    /// The text.
    pub text: String,
}

impl AllowedOrigin {
    /// Whether it allows an origin as browsers write it: in lower case, without a default port.
    fn is(&self, origin: &str) -> bool {
        match &self.0 {
            Pattern::Any => true,
            Pattern::Exact(exact) => exact == origin,
            Pattern::Subdomains { scheme, rest } => {
                let subdomain = origin.strip_prefix(scheme.as_str());
                let subdomain = subdomain.and_then(|host| host.strip_suffix(rest.as_str()));
                // Checked as a name, so that no `/`, `@` or `:` turns the origin into another host.
                subdomain.is_some_and(is_name)
            }
        }
    }
}

impl FromStr for AllowedOrigin {
    type Err = NotAnOrigin;

    fn from_str(text: &str) -> Result<Self, NotAnOrigin> {
        parse(text).map(Self).ok_or_else(|| NotAnOrigin {
            text: text.to_owned(),
        })
    }
}

fn parse(text: &str) -> Option<Pattern> {
    if text == "*" {
        return Some(Pattern::Any);
    }
    // Browsers write origins in lower case.
    let text = text.to_ascii_lowercase();
    let (scheme, authority) = text.split_once("://").filter(|(it, _)| is_scheme(it))?;
    let (host, port) = match authority.rsplit_once(':') {
        // Not the colon inside of an IPv6 address.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse::<u16>().ok()?)),
        _ => (authority, None),
    };
    let default = match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    };
    let port = port.filter(|port| Some(*port) != default);
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    if let Some(domain) = host.strip_prefix("*.") {
        // An address has no subdomains.
        let has_subdomains = is_name(domain) && domain.parse::<Ipv4Addr>().is_err();
        return has_subdomains.then(|| Pattern::Subdomains {
            scheme: format!("{scheme}://"),
            rest: format!(".{domain}{port}"),
        });
    }
    let host = normal_host(host)?;
    Some(Pattern::Exact(format!("{scheme}://{host}{port}")))
}

/// Whether a text is a scheme (RFC 3986, section 3.1), such as the scheme of a browser extension's
/// or an application's pages.
fn is_scheme(text: &str) -> bool {
    let may_be_in = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.bytes().all(may_be_in)
}

fn normal_host(host: &str) -> Option<String> {
    match host.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
        Some(address) => {
            let address: Ipv6Addr = address.parse().ok()?;
            Some(format!("[{address}]"))
        }
        None => is_name(host).then(|| host.to_owned()),
    }
}

/// Whether the text is a domain name in lower case, or an IPv4 address.
fn is_name(text: &str) -> bool {
    let may_be_in = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(may_be_in);
    text.split('.').all(is_label)
}

impl fmt::Display for AllowedOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Pattern::Any => f.write_str("*"),
            Pattern::Exact(exact) => f.write_str(exact),
            Pattern::Subdomains { scheme, rest } => write!(f, "{scheme}*{rest}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(pattern: &str, origin: &str) -> bool {
        let allowed = pattern.parse().expect(pattern);
        let origin = HeaderValue::from_str(origin).expect(origin);
        CorsPolicy::new([allowed]).allow_origin(&origin).is_some()
    }

    #[test]
    fn origin_is_compared_with_scheme_host_and_port() {
        let cases = [
            ("https://app.example", "https://app.example", true),
            ("https://App.Example:443", "https://app.example", true),
            ("http://[0::1]:3000", "http://[::1]:3000", true),
            ("chrome-extension://abc", "chrome-extension://abc", true),
            ("https://app.example", "http://app.example", false),
            ("https://app.example", "https://app.example:8443", false),
            ("https://app.example", "https://app.example.evil", false),
            ("https://app.example", "https://evilapp.example", false),
            ("https://app.example", "https://app.example/", false),
            ("https://app.example", "null", false),
            ("https://app.example", "", false),
            ("*", "https://app.example", true),
            ("*", "null", true),
        ];
        for (pattern, origin, expected) in cases {
            assert_eq!(allows(pattern, origin), expected, "{pattern} {origin}");
        }
    }

    #[test]
    fn wildcard_stands_for_subdomains_alone() {
        let cases = [
            ("https://a.example.com", true),
            ("https://b.a.example.com", true),
            ("https://example.com", false),
            ("https://.example.com", false),
            ("https://a..example.com", false),
            ("https://evilexample.com", false),
            ("https://example.com.evil", false),
            ("https://a.example.com.evil", false),
            ("https://evil.test/.example.com", false),
            ("https://evil.test:1.example.com", false),
            ("https://evil.test@a.example.com", false),
            ("https://evil.test#.example.com", false),
            ("http://a.example.com", false),
            ("https://a.example.com:8443", false),
            ("null", false),
        ];
        for (origin, expected) in cases {
            assert_eq!(
                allows("https://*.example.com", origin),
                expected,
                "{origin}"
            );
        }
        assert!(allows("http://*.localhost:3000", "http://a.localhost:3000"));
        let long = format!("https://{}.example.com", "a".repeat(MAX_ORIGIN_LEN));
        assert!(!allows("https://*.example.com", &long));
    }

    #[test]
    fn text_that_is_no_origin_is_refused() {
        for text in [
            "",
            "null",
            "app.example",
            "https://",
            "https://*",
            "https://*.",
            "https://*.*.example",
            "https://a.*.example",
            "https://*example.com",
            "https://*.127.0.0.1",
            "https://app.example/",
            "https://app.example/path",
            "https://me@app.example",
            "https://app.example:port",
            "https://[::1",
            "https://bücher.example",
            "1http://app.example",
        ] {
            assert!(text.parse::<AllowedOrigin>().is_err(), "{text}");
        }
    }

    #[test]
    fn written_pattern_reads_back_as_the_same() {
        for text in ["*", "https://app.example:8443", "http://*.localhost:3000"] {
            assert_eq!(text.parse::<AllowedOrigin>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn credentials_for_every_origin_are_refused() {
        let one = || CorsPolicy::new(["https://app.example".parse().unwrap()]);
        assert!(one().with_credentials().unwrap().credentials());
        let all = CorsPolicy::new(["*".parse().unwrap()]);
        assert_eq!(all.with_credentials(), Err(CredentialsForAll));
    }
}
