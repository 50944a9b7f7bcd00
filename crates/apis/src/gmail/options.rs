//! What an operator sets for Gmail.

use std::fmt;

use super::address::Address;

/// How the Gmail API is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whose mailbox `userId=me` is. Default: `me@windlass.localhost`.
    pub me: Address,
    /// The domains whose addresses are mailboxes on this server, in lower case, beside that of
    /// [`me`](Self::me). A mailbox need not be made; it is there. Default: none.
    pub domains: Vec<String>,
    /// What takes messages to everybody else. Default: none; such messages stay with their sender, and
    /// the log says so.
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
    /// Whether an address is a mailbox on this server.
    pub fn is_local(&self, address: &Address) -> bool {
        let domain = address.domain();
        domain == self.me.domain() || self.domains.iter().any(|local| local == domain)
    }
}

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
    /// The name that this server greets with. Default: the domain of [`Options::me`].
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domain_of_me_is_local_and_others_as_they_are_listed() {
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
    fn a_password_is_never_shown() {
        let credentials = Credentials {
            username: "cow".to_owned(),
            password: "moo".to_owned(),
        };
        let shown = format!("{credentials:?}");
        assert!(shown.contains("cow") && !shown.contains("moo"), "{shown}");
    }
}
