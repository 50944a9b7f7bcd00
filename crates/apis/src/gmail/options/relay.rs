//! The SMTP server that takes messages to everybody else.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use http::uri::Authority;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// An SMTP server that takes messages for anybody.
#[derive(Debug, Clone)]
pub struct Relay {
    /// Its name or address.
    pub host: String,
    /// Its port. Usual are 587 for [`Security::StartTls`], 465 for [`Security::Tls`] and 25 for
    /// [`Security::None`].
    pub port: u16,
    /// How the connection is protected.
    pub security: Security,
    /// What the server is told before it takes anything, if it wants to be told. Without
    /// [`Security::StartTls`] or [`Security::Tls`] it goes in the clear.
    pub credentials: Option<Credentials>,
    /// The name that this server greets with. Default: the domain of [`Options::me`](super::Options::me).
    pub helo: Option<String>,
}

/// How a connection to a relay is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Security {
    /// Not at all.
    None,
    /// By TLS after a greeting in the clear. The relay has to offer it. Default.
    #[default]
    StartTls,
    /// By TLS from the beginning.
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

/// A text that names no relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotARelay {
    /// It is no URL of a known scheme with a host.
    #[error(
        "it is not a URL such as smtp://mail.example.com (STARTTLS, port 587), \
         smtps://me@mail.example.com (TLS, port 465) or smtp+plain://127.0.0.1 (port 25)"
    )]
    Form,
    /// It has a password in it, which would be shown wherever the setting is.
    #[error("a password does not belong into the URL")]
    Password,
}

impl Security {
    const ALL: [Self; 3] = [Self::StartTls, Self::Tls, Self::None];

    /// The scheme of the URL of such a relay.
    fn scheme(self) -> &'static str {
        match self {
            Self::StartTls => "smtp",
            Self::Tls => "smtps",
            Self::None => "smtp+plain",
        }
    }

    /// The usual port.
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

/// As it is read; without the password.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_a_relay_is_and_how_it_is_protected() {
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
    fn what_is_no_relay_is_told_without_repeating_it() {
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
    fn a_password_is_never_shown() {
        let credentials = Credentials {
            username: "cow".to_owned(),
            password: "moo".to_owned(),
        };
        let shown = format!("{credentials:?}");
        assert!(shown.contains("cow") && !shown.contains("moo"), "{shown}");
    }
}
