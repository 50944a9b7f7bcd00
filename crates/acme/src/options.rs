//! The settings of an order: domains, contacts, and the directory of the authority.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use thiserror::Error;
use url::Url;

/// The directory of Let's Encrypt. Clients trust its certificates by default.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// The settings of an order.
///
/// The default lacks domains and the agreement to the terms, so [`Acme::new`](super::Acme::new)
/// refuses it.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The names in the certificate, all in one. At least one. Authorities limit their number;
    /// Let's Encrypt takes 100.
    pub domains: Vec<Domain>,
    /// Where the authority can reach the operator. Default: nowhere. Authorities may ignore it or
    /// demand it.
    pub contact: Vec<Contact>,
    /// The directory of the authority (RFC 8555, section 7.1.1). Default: Let's Encrypt.
    pub directory: DirectoryUrl,
    /// Whether the operator has agreed to the terms of the authority (RFC 8555, section 7.3).
    /// Default: false, with which nothing is ordered.
    pub agree_to_terms: bool,
}

/// Why nothing can be ordered with these [`Options`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// They name no domain.
    #[error("a certificate needs at least one domain")]
    NoDomains,
    /// The operator has not agreed to the terms of the authority.
    #[error("an authority issues certificates only to those who agree to its terms")]
    TermsNotAgreed,
}

impl Options {
    pub(super) fn check(&self) -> Result<(), OptionsError> {
        if self.domains.is_empty() {
            return Err(OptionsError::NoDomains);
        }
        if !self.agree_to_terms {
            return Err(OptionsError::TermsNotAgreed);
        }
        Ok(())
    }
}

/// A domain that a certificate can be for, in lower case and without wildcards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain(String);

/// A text that is not a [`Domain`].
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NotADomain {
    /// It is no name of DNS.
    #[error("`{text}` is not a domain such as up.example.com")]
    Name {
        /// The text.
        text: String,
    },
    /// It is an IP address.
    #[error("`{text}` is an address: a certificate is ordered for domains")]
    Address {
        /// The text.
        text: String,
    },
    /// It has a wildcard. `tls-alpn-01` cannot validate such names (RFC 8737, section 3).
    #[error("`{text}` has a wildcard, which needs validation by DNS; name each domain")]
    Wildcard {
        /// The text.
        text: String,
    },
}

impl Domain {
    /// Returns it as it is in the certificate.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Domain {
    type Err = NotADomain;

    fn from_str(text: &str) -> Result<Self, NotADomain> {
        let text = text.to_owned();
        if text.contains('*') {
            return Err(NotADomain::Wildcard { text });
        }
        if text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
            return Err(NotADomain::Address { text });
        }
        let is_label = |label: &str| {
            let is_inner = |c: char| c.is_ascii_alphanumeric() || c == '-';
            let is_bounded = !label.starts_with('-') && !label.ends_with('-');
            (1..=63).contains(&label.len()) && is_bounded && label.chars().all(is_inner)
        };
        if text.len() > 253 || !text.split('.').all(is_label) {
            return Err(NotADomain::Name { text });
        }
        Ok(Self(text.to_ascii_lowercase()))
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An email address of the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact(String);

/// A text that is not a [`Contact`].
#[derive(Debug, Error)]
#[error("`{text}` is not an email address such as ops@example.com")]
pub struct NotAContact {
    text: String,
}

impl Contact {
    /// Returns it as a URI.
    pub fn uri(&self) -> String {
        format!("mailto:{}", self.0)
    }
}

impl FromStr for Contact {
    type Err = NotAContact;

    /// Other characters are possible in addresses; authorities refuse them (RFC 8555, section 7.3).
    fn from_str(text: &str) -> Result<Self, NotAContact> {
        let is_local = |c: char| c.is_ascii_alphanumeric() || "!#$&'*+-/=^_`{|}~.".contains(c);
        let is_address = |(local, domain): (&str, &str)| {
            !local.is_empty() && local.chars().all(is_local) && domain.parse::<Domain>().is_ok()
        };
        if !text.split_once('@').is_some_and(is_address) {
            return Err(NotAContact {
                text: text.to_owned(),
            });
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Contact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The URL of an authority's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryUrl(String);

/// A text that is not a [`DirectoryUrl`].
#[derive(Debug, Error)]
#[error("`{text}` is not a URL by https, such as {LETS_ENCRYPT}")]
pub struct NotADirectoryUrl {
    text: String,
}

impl DirectoryUrl {
    /// Returns it as it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the directory belongs to Let's Encrypt, which publishes its terms at a known
    /// address.
    pub fn is_lets_encrypt(&self) -> bool {
        Url::parse(&self.0).is_ok_and(|url| {
            let host = url.host_str().unwrap_or_default();
            host.ends_with(".letsencrypt.org")
        })
    }
}

impl Default for DirectoryUrl {
    fn default() -> Self {
        Self(LETS_ENCRYPT.to_owned())
    }
}

impl FromStr for DirectoryUrl {
    type Err = NotADirectoryUrl;

    fn from_str(text: &str) -> Result<Self, NotADirectoryUrl> {
        // A user and a password would be shown in logs.
        let is_good = |url: Url| {
            let has_credentials = !url.username().is_empty() || url.password().is_some();
            url.scheme() == "https" && url.has_host() && !has_credentials
        };
        if !Url::parse(text).is_ok_and(is_good) {
            return Err(NotADirectoryUrl {
                text: text.to_owned(),
            });
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for DirectoryUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_ordered_without_domains_or_agreement() {
        let domains = || vec!["up.example.com".parse().expect("a domain")];
        for (domains, agree_to_terms, expected) in [
            (Vec::new(), true, Err(OptionsError::NoDomains)),
            (domains(), false, Err(OptionsError::TermsNotAgreed)),
            (domains(), true, Ok(())),
        ] {
            let options = Options {
                domains,
                agree_to_terms,
                ..Options::default()
            };
            assert_eq!(options.check(), expected, "{options:?}");
        }
    }

    #[test]
    fn domains_are_names_without_wildcards() {
        for (text, expected) in [
            ("up.example.com", "up.example.com"),
            ("UP.Example.com", "up.example.com"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("localhost", "localhost"),
        ] {
            let domain: Domain = text.parse().expect("a domain");
            assert_eq!(domain.as_str(), expected);
        }
        for text in [
            "",
            ".",
            "a..b",
            "a.b.",
            "-a.b",
            "a-.b",
            "a_b.c",
            "ü.example",
            "a b",
            "a.b:443",
        ] {
            let error = text.parse::<Domain>().expect_err(text);
            assert!(matches!(error, NotADomain::Name { .. }), "{text}: {error}");
        }
        let long = "a.".repeat(126) + "ab";
        long.parse::<Domain>()
            .expect_err("it is longer than a name may be");
        for text in ["127.0.0.1", "::1", "[::1]"] {
            let error = text.parse::<Domain>().expect_err(text);
            assert!(
                matches!(error, NotADomain::Address { .. }),
                "{text}: {error}"
            );
        }
        let error = "*.example.com".parse::<Domain>().expect_err("a wildcard");
        assert!(matches!(error, NotADomain::Wildcard { .. }), "{error}");
    }

    #[test]
    fn contacts_are_email_addresses() {
        let contact: Contact = "ops+acme@example.com".parse().expect("an address");
        assert_eq!(contact.uri(), "mailto:ops+acme@example.com");
        for text in [
            "",
            "ops",
            "@example.com",
            "ops@",
            "a,b@example.com",
            "a?b@example.com",
            "a@b@c",
        ] {
            text.parse::<Contact>().expect_err(text);
        }
    }

    #[test]
    fn directories_are_reached_by_https_alone() {
        for text in [
            LETS_ENCRYPT,
            "https://localhost:14000/dir",
            "https://ca.example/acme/directory/",
        ] {
            let url: DirectoryUrl = text.parse().expect(text);
            assert_eq!(url.as_str(), text);
        }
        for text in [
            "",
            "ca.example",
            "http://ca.example/dir",
            "https://",
            "https://me:secret@ca.example/",
        ] {
            text.parse::<DirectoryUrl>().expect_err(text);
        }
        assert!(DirectoryUrl::default().is_lets_encrypt());
        let other: DirectoryUrl = "https://ca.example/letsencrypt.org".parse().expect("a URL");
        assert!(!other.is_lets_encrypt());
    }
}
