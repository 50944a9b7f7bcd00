//! The file that credentials and the policy are read from.

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
use crate::certificates::{CertificateName, CertificateTable, Fingerprint};
use crate::introspection::IntrospectionScheme;
use crate::jwt::JwtScheme;
use crate::jwt::key_set::KeySetError;
use crate::links::{LinkKeys, LinkSecret, Revocation, is_key_id};
use crate::policy::{Grant, Policy};
use crate::proxy::TrustedProxy;
use crate::revoked_sessions::RevokedSession;
use crate::scheme::TokenScheme;
use crate::secrets::{SecretHash, SecretTable};
use issuers::{IntrospectionEntry, IssuerName, JwtEntry};

mod issuers;

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

/// What the rules need of the program around them.
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

/// A file of credentials that cannot be used, although it is one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RulesError {
    /// A file that it names cannot be read.
    #[error("{} cannot be read, which {key} names", path.display())]
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
    #[error("the secret of links in {} is not 32 bytes or more as base64 or hexadecimal digits", path.display())]
    LinkSecret {
        /// The file.
        path: PathBuf,
    },
    /// A file that it names has no set of keys that can be used.
    #[error("{} is no set of keys", path.display())]
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
    /// Client certificates.
    #[serde(default)]
    certificates: Vec<CertificateEntry>,
    /// Whether other certificates are principals by their names.
    #[serde(default)]
    certificates_as_principals: bool,
    /// Proxies that authenticate users.
    #[serde(default)]
    proxies: Vec<ProxyEntry>,
    /// Issuers of JWTs.
    #[serde(default)]
    jwt: Vec<JwtEntry>,
    /// The service that is asked about other tokens.
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

/// Certificates, and the principal that has them.
#[derive(Debug, Deserialize)]
#[serde(try_from = "CertificateFields")]
struct CertificateEntry {
    certificate: CertificateKey,
    principal: Principal,
}

#[derive(Debug)]
enum CertificateKey {
    Fingerprint(Fingerprint),
    Name(CertificateName),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CertificateFields {
    name: Option<CertificateName>,
    sha256: Option<Fingerprint>,
    principal: PrincipalId,
    #[serde(default)]
    groups: Vec<String>,
    scopes: Option<Vec<String>>,
}

impl TryFrom<CertificateFields> for CertificateEntry {
    type Error = &'static str;

    fn try_from(fields: CertificateFields) -> Result<Self, &'static str> {
        let certificate = match (fields.sha256, fields.name) {
            (Some(fingerprint), None) => CertificateKey::Fingerprint(fingerprint),
            (None, Some(name)) => CertificateKey::Name(name),
            _ => return Err("a certificate has either name or sha256"),
        };
        Ok(Self {
            certificate,
            principal: principal(fields.principal, fields.groups, fields.scopes),
        })
    }
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
struct LinksEntry {
    #[serde(default)]
    keys: Vec<LinkKeyEntry>,
    #[serde(default)]
    revoked: Vec<Revocation>,
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "LinkKeyFields")]
struct LinkKeyEntry {
    id: String,
    secret: LinkSecretSource,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionsEntry {
    #[serde(default)]
    revoked: Vec<RevokedSession>,
}

#[derive(Debug)]
enum LinkSecretSource {
    Text(LinkSecret),
    File(PathBuf),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkKeyFields {
    id: String,
    secret: Option<LinkSecret>,
    secret_file: Option<PathBuf>,
}

impl TryFrom<LinkKeyFields> for LinkKeyEntry {
    type Error = &'static str;

    fn try_from(fields: LinkKeyFields) -> Result<Self, &'static str> {
        if !is_key_id(&fields.id) {
            return Err("the id of a key has 1 to 64 letters, digits, - and _");
        }
        let secret = match (fields.secret, fields.secret_file) {
            (Some(secret), None) => LinkSecretSource::Text(secret),
            (None, Some(path)) => LinkSecretSource::File(path),
            _ => return Err("a key has either secret or secret_file"),
        };
        Ok(Self {
            id: fields.id,
            secret,
        })
    }
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
                message: without_value(error.message()).replace('\n', ", "),
            }
        })
    }

    /// Returns the keys of links and the revoked links alone, for programs that make links.
    ///
    /// # Errors
    /// [`RulesError`] if a file with the secret of a key is not usable.
    pub fn into_link_keys(self, read: ReadFile<'_>) -> Result<LinkKeys, RulesError> {
        link_keys(self.links, read)
    }

    /// Returns the rules that the file describes.
    ///
    /// Tokens that they need not check again, and keys of issuers, are remembered by the rules: new
    /// ones begin with none.
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
        // The last: it asks about whatever it is given.
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
            certificates: certificates(self.certificates, self.certificates_as_principals)?,
            proxies: proxies.collect(),
            links: link_keys(self.links, services.read)?,
            revoked_sessions: self.sessions.revoked.into_iter().collect(),
            policy,
        })
    }
}

/// The message of a value that is of another type or form, without the value: serde repeats it, and a
/// secret at a wrong place is a secret. Other messages have names of keys alone.
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

fn link_keys(entries: LinksEntry, read: ReadFile<'_>) -> Result<LinkKeys, RulesError> {
    let mut links = LinkKeys::default();
    for key in entries.keys {
        let secret = match key.secret {
            LinkSecretSource::Text(secret) => secret,
            LinkSecretSource::File(path) => {
                let text = read_named("links.keys.secret_file", &path, read)?;
                text.parse().map_err(|_| RulesError::LinkSecret { path })?
            }
        };
        links.insert(key.id, &secret);
    }
    for revocation in entries.revoked {
        links.revoke(revocation);
    }
    Ok(links)
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

fn certificates(
    entries: Vec<CertificateEntry>,
    names_are_principals: bool,
) -> Result<CertificateTable, RulesError> {
    let mut table = CertificateTable::default().with_names_as_principals(names_are_principals);
    for CertificateEntry {
        certificate,
        principal,
    } in entries
    {
        let (shown, replaced) = match certificate {
            CertificateKey::Fingerprint(fingerprint) => (
                fingerprint.to_string(),
                table.insert_fingerprint(fingerprint, principal),
            ),
            CertificateKey::Name(name) => (name.to_string(), table.insert_name(name, principal)),
        };
        if replaced.is_some() {
            return Err(RulesError::CertificateTwice { certificate: shown });
        }
    }
    Ok(table)
}

fn principal(id: PrincipalId, groups: Vec<String>, scopes: Option<Vec<String>>) -> Principal {
    let principal = Principal::new(id.0).with_groups(groups);
    match scopes {
        Some(scopes) => principal.with_scopes(scopes),
        None => principal,
    }
}

#[cfg(test)]
mod tests {
    use windlass_server::ClientCertificate;

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
        let rules = AuthFile::parse(&text).unwrap();
        let rules = rules.into_rules(&Services::none()).unwrap();
        let key = rules.keys.find("abc").expect("it is the secret");
        assert_eq!((key.id(), key.scopes()), ("web", None));
        assert_eq!(rules.proxies[0].principal_header, "x-forwarded-user");
        assert_eq!(rules.schemes.len(), 1);
    }

    #[test]
    fn keys_of_links_have_their_secrets_in_the_file_or_in_one_of_their_own() {
        let text = format!(
            "[[links.keys]]\nid = 'new'\nsecret_file = 'new.key'\n\
             [[links.keys]]\nid = 'old'\nsecret = '{HASH}'\n\
             [[links.revoked]]\nid = 'a'\n[[links.revoked]]\nid = 'b'\nexpires = 9\n"
        );
        let keys = |read: ReadFile<'_>| AuthFile::parse(&text).unwrap().into_link_keys(read);
        let read = |path: &Path| {
            assert_eq!(path, Path::new("new.key"));
            Ok(format!("{HASH}\n"))
        };
        let shown = format!("{:?}", keys(&read).unwrap());
        assert!(!shown.contains(&HASH[..4]), "{shown}");
        let at = |id: &str| shown.find(id).expect("it has both keys");
        assert!(at("\"new\"") < at("\"old\""), "{shown}");
        for (read, said) in [
            (
                &(|_: &Path| Err(io::ErrorKind::NotFound.into())) as ReadFile<'_>,
                "which links.keys.secret_file names",
            ),
            (&|_| Ok("s3cret".to_owned()), "new.key is not 32 bytes"),
        ] {
            let error = keys(read).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn keys_of_links_that_cannot_be_used_are_errors_without_their_secret() {
        let key = |rest: &str| format!("[[links.keys]]\n{rest}");
        let short = key("id = 'a'\nsecret = 's3cret'\n");
        check_error(&short, 3, "32 bytes or more");
        let error = AuthFile::parse(&short).unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
        for rest in [
            "id = 'a'\n".to_owned(),
            format!("id = 'a'\nsecret = '{HASH}'\nsecret_file = 'b'\n"),
        ] {
            check_error(&key(&rest), 1, "either secret or secret_file");
        }
        for id in ["", "a.b", "a b"] {
            let rest = format!("id = '{id}'\nsecret_file = 'b'\n");
            check_error(&key(&rest), 1, "letters, digits");
        }
        check_error("[links]\nkey = 1\n", 2, "unknown field `key`");
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
        for empty in [
            "principals = []",
            "groups = []",
            "claims = {}",
            "apis = []",
            "collections = []",
            "methods = []",
        ] {
            check_error(&format!("[[allow]]\n{empty}\n"), 2, "it is empty");
        }
        for (entry, said) in [
            ("issuer = 'https://a.example'\n", "missing field `audience`"),
            ("issuer = ''\naudience = ['b']\n", "not empty"),
            ("issuer = 'a'\naudience = []\n", "at least one audience"),
            ("issuer = 'a'\naudience = ['']\n", "at least one audience"),
            ("algorithms = ['HS256']\n", "shared secret"),
            ("algorithms = ['none']\n", "known algorithms"),
            ("jwks_uri = 'http://a.example/keys'\n", "must be https"),
            ("skew = '11m'\n", "at most 10 minutes"),
            ("skew = 60\n", "expected a string"),
            ("secret = 's3cret'\n", "unknown field `secret`"),
        ] {
            let error = AuthFile::parse(&format!("[[jwt]]\n{entry}")).unwrap_err();
            assert!(error.message.contains(said), "{entry}: {error}");
        }
        let error = AuthFile::parse("[[tokens]]\nsha256 = 's3cret'\n").unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }

    #[test]
    fn value_of_another_type_is_not_repeated() {
        for (text, line, said) in [
            (
                "tokens = 's3cret'\n",
                1,
                "invalid type: string, expected a sequence",
            ),
            (
                "\ntokens = ['s3cret']\n",
                2,
                "invalid type: string, expected struct SecretEntry",
            ),
            (
                "[links]\nkeys = ['s3\"cret, expected ']\n",
                2,
                "invalid type: string, expected",
            ),
            (
                "[[tokens]]\nsha256 = 53\n",
                2,
                "invalid type: integer, expected a",
            ),
            (
                "introspection = 's3cret'\n",
                1,
                "invalid type: string, expected struct",
            ),
        ] {
            check_error(text, line, said);
            let message = AuthFile::parse(text).unwrap_err().to_string();
            assert!(
                !message.contains("s3") && !message.contains("53"),
                "{message}"
            );
        }
    }

    /// Makes the rules of a text. The file `keys` has an empty set, `text` and `lines` have
    /// none.
    fn rules(text: &str) -> Result<Rules, RulesError> {
        let services = Services {
            read: &|path| match path.to_str() {
                Some("keys") => Ok("{\"keys\": []}".to_owned()),
                Some("text") => Ok("s3cret\n".to_owned()),
                Some("lines") => Ok("s3cret\r\n\r\n".to_owned()),
                _ => Err(io::ErrorKind::NotFound.into()),
            },
            ..Services::none()
        };
        AuthFile::parse(text).unwrap().into_rules(&services)
    }

    #[test]
    fn certificates_have_principals_by_name_or_fingerprint() {
        let text = format!(
            "certificates_as_principals = true\n\
             [[certificates]]\nname = 'A.example'\nprincipal = 'alice'\nscopes = ['read']\n\
             [[certificates]]\nsha256 = '{}'\nprincipal = 'bob'\ngroups = ['staff']\n",
            vec!["0B"; 32].join(":"),
        );
        let certificates = rules(&text).unwrap().certificates;
        let find = |name: &str, byte| {
            let certificate = ClientCertificate::new([name.to_owned()], [byte; 32]);
            certificates.find(&certificate).expect("there is one")
        };
        let alice = find("a.example", 0);
        let scopes = alice.scopes().map(<[_]>::to_vec);
        assert_eq!(
            (alice.id(), scopes),
            ("alice", Some(vec!["read".to_owned()]))
        );
        let bob = find("a.example", 11);
        assert_eq!((bob.id(), bob.groups()), ("bob", &["staff".to_owned()][..]));
        assert_eq!(find("b.example", 0).id(), "b.example");
        let other = ClientCertificate::new(["b.example".to_owned()], [0; 32]);
        assert_eq!(rules("").unwrap().certificates.find(&other), None);
    }

    #[test]
    fn certificates_that_cannot_be_told_apart_are_refused() {
        let entry = |rest: &str| format!("[[certificates]]\n{rest}principal = 'a'\n");
        check_error(&entry(""), 1, "either name or sha256");
        let both = format!("name = 'a.example'\nsha256 = '{HASH}'\n");
        check_error(&entry(&both), 1, "either name or sha256");
        check_error(&entry("name = '*.example'\n"), 2, "without a wildcard");
        check_error(&entry("sha256 = 'abc'\n"), 2, "64 hexadecimal digits");
        check_error(&entry("cn = 'a'\n"), 2, "unknown field `cn`");
        for twice in [
            [entry("name = 'a.example'\n"), entry("name = 'A.Example'\n")],
            [
                entry(&format!("sha256 = '{HASH}'\n")),
                entry(&format!("sha256 = '{HASH}'\n")),
            ],
        ] {
            let error = rules(&twice.concat()).unwrap_err().to_string();
            assert!(error.contains("has two entries"), "{error}");
        }
    }

    #[test]
    fn schemes_are_asked_in_the_order_of_what_they_cost() {
        let issuer = "[[jwt]]\nissuer = 'https://a.example'\naudience = ['b']\n";
        let asked = "[introspection]\nurl = 'https://a.example/introspect'\nclient_id = 'c'\n";
        let all = format!("{issuer}{asked}client_secret_file = 'lines'\n");
        assert_eq!(rules(&all).unwrap().schemes.len(), 3);
        assert_eq!(rules(issuer).unwrap().schemes.len(), 2);
        assert_eq!(rules("").unwrap().schemes.len(), 1);
    }

    #[test]
    fn entries_that_cannot_be_used_are_refused_with_the_reason() {
        let issuer = |name: &str, more: &str| {
            format!("[[jwt]]\nissuer = '{name}'\naudience = ['b']\n{more}")
        };
        let asked = "[introspection]\nurl = 'https://a.example/introspect'\nclient_id = 'c'\n";
        for (text, said) in [
            (issuer("a", ""), "is not a URL"),
            (issuer("http://a.example", ""), "is not a URL"),
            (issuer("a", "jwks_file = 'missing'"), "jwks_file names"),
            (issuer("a", "jwks_file = 'text'"), "text is no set of keys"),
            (issuer("https://a", "").repeat(2), "two entries"),
            (
                format!("{asked}client_secret_file = 'missing'"),
                "client_secret_file names",
            ),
        ] {
            let error = rules(&text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
        assert!(rules(&issuer("a", "jwks_file = 'keys'")).is_ok());
    }
}
