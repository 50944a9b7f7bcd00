//! What an operator sets for Gmail.

use super::address::Address;

mod relay;

pub use relay::{Credentials, NotARelay, Relay, Security};

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
}
