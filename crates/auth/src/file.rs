//! The file of credentials and of the policy.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::HeaderName;
use ipnet::IpNet;
use serde::{Deserialize, Deserializer};
use windlass_server::outbound::{NoOutbound, Outbound};
use windlass_server::{Clock, Principal, SystemClock};

use crate::authenticator::Rules;
use crate::introspection::IntrospectionScheme;
use crate::jwt::JwtScheme;
use crate::jwt::key_set::KeySetError;
use crate::links::LinkKeys;
use crate::policy::{Grant, Policy};
use crate::proxy::TrustedProxy;
use crate::revoked_sessions::RevokedSession;
use crate::scheme::TokenScheme;
use crate::secrets::{SecretHash, SecretTable};
use certificates::CertificateEntry;
use issuers::{IntrospectionEntry, IssuerName, JwtEntry};
use links::LinksEntry;

mod certificates;
mod issuers;
mod links;

/// An error in the text of a file of credentials. The message names the line and the key, and
/// contains no value of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct AuthFileError {
    /// Line, counted from 1.
    pub line: usize,
    /// The problem.
    pub message: String,
}

/// The services of the surrounding program that the rules need.
#[derive(Clone)]
pub struct Services<'a> {
    /// Sends requests to issuers.
    pub outbound: Arc<dyn Outbound>,
    /// Tells the time, by which tokens expire.
    pub clock: Arc<dyn Clock>,
    /// Reads the files that the file of credentials names.
    pub read: ReadFile<'a>,
}

/// Reads a file that the file of credentials names, by its path there: a secret or a set of keys.
pub type ReadFile<'a> = &'a (dyn Fn(&Path) -> io::Result<String> + Sync);

impl Services<'static> {
    /// Returns services that send nothing and read nothing. They suffice for tokens and keys that
    /// are known by their hashes.
    pub fn none() -> Self {
        Self {
            outbound: Arc::new(NoOutbound),
            clock: Arc::new(SystemClock),
            read: &|_| Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl fmt::Debug for Services<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services").finish_non_exhaustive()
    }
}

/// A file of credentials that can be parsed but not used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RulesError {
    /// A file that it names cannot be read.
    #[error("cannot read {}, the file of {key}", path.display())]
    Unreadable {
        /// The key in the file of credentials.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// Cause of the error.
        #[source]
        source: io::Error,
    },
    /// A file that it names has no secret of a key of links.
    #[error("the secret of a link key in {} must have at least 32 bytes, written as base64 or hexadecimal", path.display())]
    LinkSecret {
        /// The file.
        path: PathBuf,
    },
    /// A file that it names has no set of keys that can be used.
    #[error("{} is not a JSON Web Key Set", path.display())]
    KeySet {
        /// The file.
        path: PathBuf,
        /// Cause of the error.
        #[source]
        source: KeySetError,
    },
    /// Two entries of `[[jwt]]` have the same issuer.
    #[error("the issuer {issuer} has two entries; give one of them all audiences")]
    IssuerTwice {
        /// The issuer.
        issuer: String,
    },
    /// Two entries of `[[certificates]]` are for the same certificates.
    #[error("the certificate {certificate} has two entries")]
    CertificateTwice {
        /// The name or the fingerprint.
        certificate: String,
    },
    /// An issuer's name is not its URL, so that its keys have to be looked for elsewhere.
    #[error("the issuer {issuer} is not a URL; say where its keys are with jwks_uri or jwks_file")]
    NoKeys {
        /// The issuer.
        issuer: String,
    },
    /// The credentials for introspection cannot be sent.
    #[error("the credentials of [introspection] cannot be sent in a header")]
    NotAHeader,
}

/// The file of credentials and of the policy, as docs/credentials.md describes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthFile {
    /// Bearer tokens.
    #[serde(default)]
    tokens: Vec<SecretEntry>,
    /// API keys.
    #[serde(default)]
    keys: Vec<SecretEntry>,
    /// Client certificates.
    #[serde(default)]
    certificates: Vec<CertificateEntry>,
    /// Whether certificates without an entry are principals by their names.
    #[serde(default)]
    certificates_as_principals: bool,
    /// Proxies that authenticate users.
    #[serde(default)]
    proxies: Vec<ProxyEntry>,
    /// Issuers of JWTs.
    #[serde(default)]
    jwt: Vec<JwtEntry>,
    /// The service that is asked about all other tokens.
    introspection: Option<IntrospectionEntry>,
    /// Keys of signed links, and revoked links.
    #[serde(default)]
    links: LinksEntry,
    /// Revoked sessions.
    #[serde(default)]
    sessions: SessionsEntry,
    /// The policy.
    #[serde(default)]
    allow: Vec<Grant>,
}

/// A secret, and the principal that has it.
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

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionsEntry {
    #[serde(default)]
    revoked: Vec<RevokedSession>,
}

/// An id that is not empty.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct PrincipalId(String);

impl TryFrom<String> for PrincipalId {
    type Error = &'static str;

    fn try_from(id: String) -> Result<Self, &'static str> {
        if id.is_empty() {
            return Err("the id of a principal must not be empty");
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
                message: without_value(error.message()).replace('\n', ", "),
            }
        })
    }

    /// Whether some credentials lead to a principal.
    pub fn has_principals(&self) -> bool {
        !(self.tokens.is_empty()
            && self.keys.is_empty()
            && !self.has_certificates()
            && self.proxies.is_empty()
            && self.jwt.is_empty()
            && self.introspection.is_none()
            && self.links.is_empty())
    }

    /// Whether client certificates lead to a principal.
    pub fn has_certificates(&self) -> bool {
        !self.certificates.is_empty() || self.certificates_as_principals
    }

    /// Whether some credentials are limited to scopes. Tokens of issuers may have scopes. They are
    /// considered only without a policy, because then nothing else limits these tokens.
    pub fn has_scopes(&self) -> bool {
        let mut secrets = self.tokens.iter().chain(&self.keys);
        let has_issuers = !self.jwt.is_empty() || self.introspection.is_some();
        secrets.any(|secret| secret.scopes.is_some())
            || self.certificates.iter().any(CertificateEntry::has_scopes)
            || (has_issuers && self.allow.is_empty())
    }

    /// Returns the keys of links and the revoked links alone, for programs that make links.
    ///
    /// # Errors
    /// [`RulesError`] if a file with the secret of a key is not usable.
    pub fn into_link_keys(self, read: ReadFile<'_>) -> Result<LinkKeys, RulesError> {
        self.links.into_keys(read)
    }

    /// Returns the rules that the file describes.
    ///
    /// The rules cache checked tokens and the keys of issuers. New rules begin with empty caches.
    ///
    /// # Errors
    /// [`RulesError`] if a file that it names is not usable, or entries contradict each other.
    pub fn into_rules(self, services: &Services<'_>) -> Result<Rules, RulesError> {
        let policy = Policy::new(self.allow);
        let mut schemes: Vec<Arc<dyn TokenScheme>> = vec![Arc::new(table(self.tokens))];
        if let Some(twice) = first_twice(self.jwt.iter().map(JwtEntry::issuer)) {
            let issuer = twice.to_string();
            return Err(RulesError::IssuerTwice { issuer });
        }
        if !self.jwt.is_empty() {
            let entries = self.jwt.into_iter();
            let issuers = entries.map(|entry| entry.into_issuer(&policy, services));
            let issuers = issuers.collect::<Result<_, _>>()?;
            let clock = Arc::clone(&services.clock);
            schemes.push(Arc::new(JwtScheme::new(issuers, clock)));
        }
        // Introspection comes last, because it sends every token to its service.
        if let Some(entry) = self.introspection {
            let service = entry.into_service(&policy, services)?;
            schemes.push(Arc::new(IntrospectionScheme::new(service)));
        }
        let proxies = self.proxies.into_iter().map(|proxy| TrustedProxy {
            from: proxy.from,
            principal_header: proxy.principal_header,
            groups_header: proxy.groups_header,
        });
        Ok(Rules {
            schemes,
            keys: table(self.keys),
            certificates: certificates::table(self.certificates, self.certificates_as_principals)?,
            proxies: proxies.collect(),
            links: self.links.into_keys(services.read)?,
            revoked_sessions: self.sessions.revoked.into_iter().collect(),
            policy,
        })
    }
}

/// The message of a value with a wrong type or form, without the value. Serde repeats the value,
/// which may be a misplaced secret. Other messages contain only names of keys.
fn without_value(message: &str) -> Cow<'_, str> {
    let is_about_value = ["invalid type: ", "invalid value: "]
        .iter()
        .any(|beginning| message.starts_with(beginning));
    let value = message.find(['"', '`']);
    match (value, message.rfind(", expected ")) {
        (Some(from), Some(to)) if is_about_value && from < to => {
            Cow::Owned(format!("{}{}", message[..from].trim_end(), &message[to..]))
        }
        _ => Cow::Borrowed(message),
    }
}

/// Reads the file that a key of the file of credentials names.
fn read_named(key: &'static str, path: &Path, read: ReadFile<'_>) -> Result<String, RulesError> {
    read(path).map_err(|source| RulesError::Unreadable {
        key,
        path: path.to_owned(),
        source,
    })
}

fn first_twice<'a>(mut names: impl Iterator<Item = &'a IssuerName>) -> Option<&'a IssuerName> {
    let mut seen = Vec::new();
    names.find(|name| {
        let is_twice = seen.contains(name);
        seen.push(name);
        is_twice
    })
}

fn table(entries: Vec<SecretEntry>) -> SecretTable {
    let mut table = SecretTable::default();
    for entry in entries {
        let principal = principal(entry.principal, entry.groups, entry.scopes);
        table.insert(entry.sha256, principal);
    }
    table
}

fn principal(id: PrincipalId, groups: Vec<String>, scopes: Option<Vec<String>>) -> Principal {
    let principal = Principal::new(id.0).with_groups(groups);
    match scopes {
        Some(scopes) => principal.with_scopes(scopes),
        None => principal,
    }
}

#[cfg(test)]
mod tests;
