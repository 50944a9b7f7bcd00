//! The file that credentials and the policy are read from.

use http::HeaderName;
use ipnet::IpNet;
use serde::{Deserialize, Deserializer};
use std::sync::Arc;
use windlass_server::Principal;

use crate::authenticator::Rules;
use crate::policy::{Grant, Policy};
use crate::proxy::TrustedProxy;
use crate::secrets::{SecretHash, SecretTable};

/// A text that is no file of credentials. The message names the line and the key, and contains no
/// value of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct AuthFileError {
    /// Line, counted from 1.
    pub line: usize,
    /// Message: what is wrong.
    pub message: String,
}

/// The file of credentials and of the policy, as docs/configuration.md describes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthFile {
    /// Bearer tokens.
    #[serde(default)]
    tokens: Vec<SecretEntry>,
    /// API keys.
    #[serde(default)]
    keys: Vec<SecretEntry>,
    /// Proxies that authenticate users.
    #[serde(default)]
    proxies: Vec<ProxyEntry>,
    /// The policy.
    #[serde(default)]
    allow: Vec<Grant>,
}

/// A secret, and who has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretEntry {
    sha256: SecretHash,
    principal: PrincipalId,
    #[serde(default)]
    groups: Vec<String>,
    /// Not limited by default.
    scopes: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProxyEntry {
    from: Vec<IpNet>,
    #[serde(default = "principal_header", deserialize_with = "header_name")]
    principal_header: HeaderName,
    #[serde(default, deserialize_with = "optional_header_name")]
    groups_header: Option<HeaderName>,
}

/// An id that is not empty.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct PrincipalId(String);

impl TryFrom<String> for PrincipalId {
    type Error = &'static str;

    fn try_from(id: String) -> Result<Self, &'static str> {
        if id.is_empty() {
            return Err("the id of a principal is not empty");
        }
        Ok(Self(id))
    }
}

fn principal_header() -> HeaderName {
    HeaderName::from_static("x-forwarded-user")
}

fn header_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<HeaderName, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse()
        .map_err(|_| serde::de::Error::custom("it is not the name of a header"))
}

fn optional_header_name<'de, D>(deserializer: D) -> Result<Option<HeaderName>, D::Error>
where
    D: Deserializer<'de>,
{
    header_name(deserializer).map(Some)
}

impl AuthFile {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// [`AuthFileError`] with the line.
    pub fn parse(text: &str) -> Result<Self, AuthFileError> {
        toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let before = text.as_bytes().iter().take(at);
            AuthFileError {
                line: 1 + before.filter(|byte| **byte == b'\n').count(),
                message: error.message().replace('\n', ", "),
            }
        })
    }

    /// Returns the rules that the file describes.
    pub fn into_rules(self) -> Rules {
        let tokens = table(self.tokens);
        let proxies = self.proxies.into_iter().map(|proxy| TrustedProxy {
            from: proxy.from,
            principal_header: proxy.principal_header,
            groups_header: proxy.groups_header,
        });
        Rules {
            schemes: vec![Arc::new(tokens)],
            keys: table(self.keys),
            proxies: proxies.collect(),
            policy: Policy::new(self.allow),
        }
    }
}

fn table(entries: Vec<SecretEntry>) -> SecretTable {
    let mut table = SecretTable::default();
    for entry in entries {
        let principal = Principal::new(entry.principal.0).with_groups(entry.groups);
        let principal = match entry.scopes {
            Some(scopes) => principal.with_scopes(scopes),
            None => principal,
        };
        table.insert(entry.sha256, principal);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[track_caller]
    fn check_error(text: &str, line: usize, said: &str) {
        let error = AuthFile::parse(text).unwrap_err();
        assert_eq!(error.line, line, "{error}");
        assert!(error.message.contains(said), "{error}");
    }

    #[test]
    fn file_has_tokens_keys_proxies_and_grants() {
        let text = format!(
            "[[tokens]]\nsha256 = '{HASH}'\nprincipal = 'alice'\ngroups = ['staff']\n\
             scopes = ['read']\n\
             [[keys]]\nsha256 = '{HASH}'\nprincipal = 'web'\n\
             [[proxies]]\nfrom = ['10.0.0.0/8']\n\
             [[allow]]\nprincipals = ['alice']\n"
        );
        let rules = AuthFile::parse(&text).unwrap().into_rules();
        let key = rules.keys.find("abc").expect("it is the secret");
        assert_eq!((key.id(), key.scopes()), ("web", None));
        assert_eq!(rules.proxies[0].principal_header, "x-forwarded-user");
        assert_eq!(rules.schemes.len(), 1);
    }

    #[test]
    fn errors_name_the_line_and_no_secret() {
        check_error(
            "\n[[tokens]]\nsha256 = 's3cret'\n",
            3,
            "64 hexadecimal digits",
        );
        let principal = format!("[[tokens]]\nsha256 = '{HASH}'\nprincipal = ''\n");
        check_error(&principal, 3, "not empty");
        check_error(
            "[[tokens]]\nsecret = 's3cret'\n",
            2,
            "unknown field `secret`",
        );
        check_error("[[proxies]]\nfrom = ['10.0.0.0/33']\n", 2, "IP address");
        check_error("[[allow]]\nwho = ['alice']\n", 2, "unknown field `who`");
        let error = AuthFile::parse("[[tokens]]\nsha256 = 's3cret'\n").unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
}
