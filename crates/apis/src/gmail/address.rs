//! Addresses of mailboxes.

use std::fmt;
use std::str::FromStr;

/// The longest part before the `@` (RFC 5321, 4.5.3.1.1).
const LONGEST_LOCAL: usize = 64;

/// The longest domain (RFC 5321, 4.5.3.1.2).
const LONGEST_DOMAIN: usize = 255;

/// An address such as `someone@example.com`, in lower case. Quoted local parts are not taken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    text: String,
    /// Where the `@` is.
    at: usize,
}

/// A text that is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an address")]
pub struct NotAnAddress {
    /// Its beginning.
    text: String,
}

impl Address {
    /// The whole, e.g. `someone@example.com`.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What is before the `@`.
    pub fn local(&self) -> &str {
        &self.text[..self.at]
    }

    /// What is after it.
    pub fn domain(&self) -> &str {
        &self.text[self.at + 1..]
    }

    /// The address of the mailbox: without a tag, as in `someone+tag@example.com`.
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
            Some((local, domain)) => {
                let local = local.to_lowercase();
                Ok(Self {
                    text: format!("{local}@{}", domain.to_lowercase()),
                    at: local.len(),
                })
            }
            None => Err(NotAnAddress {
                text: text.chars().take(100).collect(),
            }),
        }
    }
}

fn is_local(local: &str) -> bool {
    let special = |c: char| c.is_control() || c.is_whitespace() || "()<>[]:;@\\,\"".contains(c);
    !local.is_empty() && local.len() <= LONGEST_LOCAL && !local.contains(special)
}

fn is_domain(domain: &str) -> bool {
    let is_label = |label: &str| {
        let inside = |c: char| c.is_alphanumeric() || c == '-';
        !label.is_empty() && !label.starts_with('-') && label.chars().all(inside)
    };
    domain.len() <= LONGEST_DOMAIN && domain.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

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
