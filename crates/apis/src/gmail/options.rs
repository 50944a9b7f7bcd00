//! Operator settings of Gmail: addresses and the relay.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use http::uri::Authority;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Longest part before the `@`, in bytes (RFC 5321, 4.5.3.1.1).
const MAX_LOCAL_LEN: usize = 64;

/// Longest domain, in bytes (RFC 5321, 4.5.3.1.2).
const MAX_DOMAIN_LEN: usize = 255;

/// Settings of the Gmail API.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address of the mailbox for `userId=me` of callers without a principal's mailbox
    /// ([`mailbox_of`](Self::mailbox_of)). Default: `me@windlass.localhost`.
    pub me: Address,
    /// Domains with addresses that are mailboxes on this server, in lower case. The domain of
    /// [`me`](Self::me) is always such a domain. Mailboxes need not be created; each address has
    /// one. Default: none.
    pub domains: Vec<String>,
    /// Relay for messages to all other domains. Default: none; such messages stay with their
    /// sender, and a warning is logged.
    pub relay: Option<Relay>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            me: "me@windlass.localhost"
                .parse()
                .expect("it is written as an address"),
            domains: Vec::new(),
            relay: None,
        }
    }
}

impl Options {
    /// Returns whether an address is a mailbox on this server.
    pub fn is_local(&self, address: &Address) -> bool {
        let domain = address.domain();
        domain == self.me.domain() || self.domains.iter().any(|local| local == domain)
    }

    /// Returns the mailbox of a principal. If the principal's id is an address on this server, the
    /// mailbox has that address. Otherwise its address is the id at the domain of [`me`](Self::me).
    /// The case of ASCII letters is ignored, as in every address.
    ///
    /// Returns `None` in three cases: the result is not an address; it has a tag, so the mailbox
    /// belongs to another principal; or it is [`me`](Self::me), which has another owner.
    pub fn mailbox_of(&self, id: &str) -> Option<Address> {
        // White space around an address is ignored, but another id is another principal.
        if id.trim() != id {
            return None;
        }
        let at_home = || format!("{id}@{}", self.me.domain()).parse().ok();
        let whole = id.parse().ok().filter(|address| self.is_local(address));
        let mailbox: Address = whole.or_else(at_home)?;
        let is_own = mailbox == mailbox.without_tag() && mailbox != self.me.without_tag();
        is_own.then_some(mailbox)
    }
}

/// An SMTP server that accepts messages to any domain.
#[derive(Debug, Clone)]
pub struct Relay {
    /// Host name or IP address.
    pub host: String,
    /// Port. Usual are 587 for [`Security::StartTls`], 465 for [`Security::Tls`] and 25 for
    /// [`Security::None`].
    pub port: u16,
    /// How the connection is protected.
    pub security: Security,
    /// Credentials, if the server requires them. They are sent unencrypted with [`Security::None`].
    pub credentials: Option<Credentials>,
    /// Name in the `EHLO` command. Default: the domain of [`Options::me`](Options::me).
    pub helo: Option<String>,
}

/// How a connection to a relay is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Security {
    /// Not protected.
    None,
    /// STARTTLS. The connection fails if the relay does not offer it. Default.
    #[default]
    StartTls,
    /// TLS from the beginning.
    Tls,
}

/// A name and a password. `Debug` does not show the password.
#[derive(Clone)]
pub struct Credentials {
    /// The name.
    pub username: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

/// Why a text is not a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotARelay {
    /// Not a URL of a known scheme with a host.
    #[error(
        "it is not a URL such as smtp://mail.example.com (STARTTLS, port 587), \
         smtps://me@mail.example.com (TLS, port 465) or smtp+plain://127.0.0.1 (port 25)"
    )]
    Form,
    /// The URL has a password, which would be shown with the setting.
    #[error("a password does not belong in the URL; set gmail.relay_password_file")]
    Password,
}

impl Security {
    const ALL: [Self; 3] = [Self::StartTls, Self::Tls, Self::None];

    /// Returns the scheme of the URL.
    fn scheme(self) -> &'static str {
        match self {
            Self::StartTls => "smtp",
            Self::Tls => "smtps",
            Self::None => "smtp+plain",
        }
    }

    /// Returns the usual port.
    fn port(self) -> u16 {
        match self {
            Self::StartTls => 587,
            Self::Tls => 465,
            Self::None => 25,
        }
    }
}

/// `smtp://HOST`, `smtps://NAME@HOST:PORT`, `smtp+plain://HOST`: with STARTTLS, with TLS, without
/// either. A name in it is percent-encoded and has an empty password.
impl FromStr for Relay {
    type Err = NotARelay;

    fn from_str(text: &str) -> Result<Self, NotARelay> {
        let uri: Uri = text.parse().map_err(|_| NotARelay::Form)?;
        let of_scheme = |security: &Security| uri.scheme_str() == Some(security.scheme());
        let security = Security::ALL.into_iter().find(of_scheme);
        let (Some(security), Some(authority), "" | "/", None) =
            (security, uri.authority(), uri.path(), uri.query())
        else {
            return Err(NotARelay::Form);
        };
        if authority.host().is_empty() {
            return Err(NotARelay::Form);
        }
        Ok(Self {
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(security.port()),
            security,
            credentials: credentials(authority)?,
            helo: None,
        })
    }
}

fn credentials(authority: &Authority) -> Result<Option<Credentials>, NotARelay> {
    let Some((name, _)) = authority.as_str().rsplit_once('@') else {
        return Ok(None);
    };
    if name.contains(':') {
        return Err(NotARelay::Password);
    }
    let name = percent_decode_str(name).decode_utf8();
    Ok(Some(Credentials {
        username: name.map_err(|_| NotARelay::Form)?.into_owned(),
        password: String::new(),
    }))
}

/// Writes the URL that reads back as the relay, without the password.
impl fmt::Display for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.security.scheme())?;
        if let Some(credentials) = &self.credentials {
            let name = utf8_percent_encode(&credentials.username, NON_ALPHANUMERIC);
            write!(f, "{name}@")?;
        }
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// An address such as `someone@example.com`, its ASCII letters in lower case. Quoted local parts
/// are not supported.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    text: String,
    /// Offset of the `@`.
    at: usize,
}

/// Why a text is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an address")]
pub struct NotAnAddress {
    /// The first 100 characters of the text.
    text: String,
}

impl Address {
    /// Returns the whole address, e.g. `someone@example.com`.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the part before the `@`.
    pub fn local(&self) -> &str {
        &self.text[..self.at]
    }

    /// Returns the part after the `@`.
    pub fn domain(&self) -> &str {
        &self.text[self.at + 1..]
    }

    /// Returns the address of the mailbox: without the tag of `someone+tag@example.com`.
    #[must_use]
    pub fn without_tag(&self) -> Self {
        match self.local().split_once('+') {
            Some((local, _)) if !local.is_empty() => Self {
                text: format!("{local}@{}", self.domain()),
                at: local.len(),
            },
            _ => self.clone(),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Address {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        let found = text.trim().rsplit_once('@');
        match found.filter(|(local, domain)| is_local(local) && is_domain(domain)) {
            // Of ASCII alone: of all of Unicode, a Kelvin sign would become a `k`, and another
            // principal have its mailbox.
            Some((local, domain)) => Ok(Self {
                text: format!("{local}@{domain}").to_ascii_lowercase(),
                at: local.len(),
            }),
            None => Err(NotAnAddress {
                text: text.chars().take(100).collect(),
            }),
        }
    }
}

fn is_local(local: &str) -> bool {
    let special = |c: char| c.is_control() || c.is_whitespace() || "()<>[]:;@\\,\"".contains(c);
    !local.is_empty() && local.len() <= MAX_LOCAL_LEN && !local.contains(special)
}

fn is_domain(domain: &str) -> bool {
    let is_label = |label: &str| {
        let inside = |c: char| c.is_alphanumeric() || c == '-';
        !label.is_empty() && !label.starts_with('-') && label.chars().all(inside)
    };
    domain.len() <= MAX_DOMAIN_LEN && domain.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn domain_of_me_and_listed_domains_are_local() {
        let options = Options {
            domains: vec!["farm.test".to_owned()],
            ..Options::default()
        };
        let is_local = |text: &str| options.is_local(&text.parse().unwrap());
        assert!(is_local("anybody@windlass.localhost"));
        assert!(is_local("cow@FARM.test"));
        assert!(!is_local("cow@sub.farm.test"));
    }

    #[test]
    fn mailbox_of_a_principal_is_its_id_or_its_id_at_the_domain_of_me() {
        let options = Options {
            domains: vec!["farm.test".to_owned()],
            ..Options::default()
        };
        let table = [
            ("alice", Some("alice@windlass.localhost")),
            ("Alice@Farm.Test", Some("alice@farm.test")),
            ("alice@windlass.localhost", Some("alice@windlass.localhost")),
            ("alice@other.test", None),
            ("alice+news", None),
            ("alice+news@farm.test", None),
            (" alice", None),
            ("alice ", None),
            ("a lice", None),
            ("\u{212A}ate", Some("\u{212A}ate@windlass.localhost")),
            ("kate@\u{212A}.test", None),
            ("", None),
            ("me", None),
            ("ME@windlass.localhost", None),
            ("me@farm.test", Some("me@farm.test")),
        ];
        for (id, expected) in table {
            let mailbox = options.mailbox_of(id);
            assert_eq!(mailbox.as_ref().map(Address::as_str), expected, "{id:?}");
        }
    }

    #[test]
    fn relay_url_gives_host_port_and_security() {
        let table = [
            ("smtp://mail.test", Security::StartTls, 587, None),
            ("smtps://mail.test/", Security::Tls, 465, None),
            (
                "smtps://cow%40mail.test@mail.test:4650",
                Security::Tls,
                4650,
                Some("cow@mail.test"),
            ),
            ("smtp+plain://mail.test", Security::None, 25, None),
            ("smtp+plain://[::1]:2525", Security::None, 2525, None),
        ];
        for (text, security, port, name) in table {
            let relay: Relay = text.parse().unwrap();
            assert_eq!((relay.security, relay.port), (security, port), "{text}");
            assert!(
                ["mail.test", "::1"].contains(&relay.host.as_str()),
                "{text}"
            );
            let username = relay.credentials.as_ref().map(|it| it.username.as_str());
            assert_eq!(username, name, "{text}");
            let again: Relay = relay.to_string().parse().unwrap();
            assert_eq!(format!("{again:?}"), format!("{relay:?}"), "{text}");
        }
    }

    #[test]
    fn invalid_relay_url_is_not_repeated_in_the_error() {
        let table = [
            ("", NotARelay::Form),
            ("mail.test", NotARelay::Form),
            ("http://mail.test", NotARelay::Form),
            ("smtp://mail.test/inbox", NotARelay::Form),
            ("smtp://mail.test?x", NotARelay::Form),
            ("smtp://cow:moo@mail.test", NotARelay::Password),
        ];
        for (text, expected) in table {
            assert_eq!(text.parse::<Relay>().unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn password_is_not_in_debug_output() {
        let credentials = Credentials {
            username: "cow".to_owned(),
            password: "moo".to_owned(),
        };
        let shown = format!("{credentials:?}");
        assert!(shown.contains("cow") && !shown.contains("moo"), "{shown}");
    }

    #[test]
    fn an_address_is_a_name_at_a_domain_in_lower_case() {
        for (text, expected) in [
            (" Ann@Example.COM ", "ann@example.com"),
            ("a.b+c_d=e@x-y.z", "a.b+c_d=e@x-y.z"),
            ("me@localhost", "me@localhost"),
            ("почта@пример.рф", "почта@пример.рф"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().as_str(), expected);
        }
        let too_long = format!("{}@x", "a".repeat(65));
        for text in [
            "",
            "@",
            "a@",
            "@b",
            "a",
            "a b@c",
            "a@b c",
            "a@b..c",
            "a@.b",
            "a@-b",
            "a@b/c",
            "<a@b>",
            "a\r\n@b",
            "a@b@c",
            "\"a b\"@c",
            &too_long,
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_tag_names_the_same_mailbox() {
        let mailbox = |text: &str| text.parse::<Address>().unwrap().without_tag().to_string();
        assert_eq!(mailbox("ann+news@x.y"), "ann@x.y");
        assert_eq!(mailbox("ann@x.y"), "ann@x.y");
        assert_eq!(mailbox("+news@x.y"), "+news@x.y");
    }
}
