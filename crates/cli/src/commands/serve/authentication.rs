//! Who may send requests: the files of credentials, read at the start and again on SIGHUP.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use thiserror::Error;
use windlass_auth::{
    AuthFile, AuthFileError, Authenticator, DevTokens, LinkKeys, Rules, RulesError, SecretHash,
    SecretTable, Services,
};
use windlass_outbound::HttpOutbound;
use windlass_server::{Principal, SystemClock};
use zeroize::Zeroizing;

use super::regular_file;
use crate::settings::{BEARER, Settings};

/// Credentials that can be replaced while the server runs.
#[derive(Debug)]
pub(super) struct Authentication {
    sources: Sources,
    authenticator: Arc<Authenticator>,
    /// The summary of the files at the start.
    summary: Summary,
}

/// The content of the files of credentials besides the rules.
#[derive(Debug, Clone, Default)]
struct Summary {
    /// The files of credentials, and the files that the file of `auth.file` names.
    files: Vec<PathBuf>,
    has_principals: bool,
    has_certificates: bool,
    has_scopes: bool,
}

/// Where credentials come from: one of these at least.
#[derive(Debug, Clone)]
struct Sources {
    /// The file with the one token of `auth.token_file`.
    token: Option<PathBuf>,
    /// The file of `auth.file`.
    auth: Option<PathBuf>,
    /// Whether a policy that lets everybody do everything is refused.
    is_exposed: bool,
    /// The tokens of `dev_tokens`, which outlive a reload.
    dev_tokens: Option<Arc<DevTokens>>,
    /// Sends requests to issuers of tokens.
    outbound: Arc<HttpOutbound>,
}

/// Errors of the files of credentials. No message contains credentials.
#[derive(Debug, Error)]
pub(crate) enum AuthenticationError {
    #[error("cannot read {}, the file of {key}", path.display())]
    Unreadable {
        key: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("the token in {} is empty or has characters that no token has", path.display())]
    Token { path: PathBuf },
    #[error("{}", path.display())]
    File {
        path: PathBuf,
        source: AuthFileError,
    },
    #[error("{}", path.display())]
    Rules { path: PathBuf, source: RulesError },
    #[error("{} no longer has an [[allow]]; without one, everybody with valid credentials may do everything", path.display())]
    PolicyGone { path: PathBuf },
    #[error("{} lets everybody do everything: an [[allow]] has `anonymous` without `apis`, `collections` and `methods`; the address in `listen` is not a loopback address", path.display())]
    Open { path: PathBuf },
}

impl Authentication {
    /// Reads the credentials. Returns `None` if the settings name no credentials, so that the
    /// server asks for none.
    pub(super) fn load(
        settings: &Settings,
        outbound: Arc<HttpOutbound>,
    ) -> Result<Option<Self>, AuthenticationError> {
        let dev_tokens = || Arc::new(DevTokens::new(Arc::new(SystemClock)));
        let sources = Sources {
            token: settings.auth_token.clone(),
            auth: settings.auth_file.clone(),
            is_exposed: settings.is_exposed(),
            dev_tokens: settings.dev_tokens.then(dev_tokens),
            outbound,
        };
        if sources.token.is_none() && sources.auth.is_none() && sources.dev_tokens.is_none() {
            return Ok(None);
        }
        let (rules, summary) = sources.read()?;
        Ok(Some(Self {
            sources,
            authenticator: Arc::new(Authenticator::new(rules)),
            summary,
        }))
    }

    /// Returns the authenticator that the server asks about requests.
    pub(super) fn authenticator(&self) -> Arc<Authenticator> {
        Arc::clone(&self.authenticator)
    }

    /// Returns the tokens for tests, if they are given out.
    pub(super) fn dev_tokens(&self) -> Option<Arc<DevTokens>> {
        self.sources.dev_tokens.clone()
    }

    /// Returns the files that are read again.
    pub(super) fn files(&self) -> &[PathBuf] {
        &self.summary.files
    }

    /// Whether some credentials lead to a principal.
    pub(super) fn has_principals(&self) -> bool {
        self.summary.has_principals
    }

    /// Whether client certificates lead to a principal.
    pub(super) fn has_certificates(&self) -> bool {
        self.summary.has_certificates
    }

    /// Whether some credentials are limited to scopes.
    pub(super) fn has_scopes(&self) -> bool {
        self.summary.has_scopes
    }

    /// Reads the files again. After an error the old credentials stay. A policy is never replaced
    /// by an empty policy: a file that was cut off, or is being written, would allow everything.
    pub(super) fn reload(&self) -> Result<(), AuthenticationError> {
        let (rules, _) = self.sources.read()?;
        if let Some(path) = &self.sources.auth
            && rules.policy.is_empty()
            && self.authenticator.has_policy()
        {
            return Err(AuthenticationError::PolicyGone { path: path.clone() });
        }
        self.authenticator.replace(rules);
        Ok(())
    }
}

impl Sources {
    /// Returns the rules and the summary of the files.
    fn read(&self) -> Result<(Rules, Summary), AuthenticationError> {
        let (mut rules, mut summary) = match &self.auth {
            Some(path) => self.read_auth_file(path)?,
            None => Default::default(),
        };
        if let Some(path) = &self.auth
            && self.is_exposed
            && rules.policy.is_open()
        {
            return Err(AuthenticationError::Open { path: path.clone() });
        }
        let own = self.auth.iter().chain(&self.token).cloned();
        summary.files.extend(own);
        summary.has_principals |= self.token.is_some() || self.dev_tokens.is_some();
        if let Some(path) = &self.token {
            let mut table = SecretTable::default();
            table.insert(read_token(path)?, Principal::new(BEARER));
            rules.schemes.insert(0, Arc::new(table));
        }
        if let Some(tokens) = &self.dev_tokens {
            // Before introspection, because introspection receives every token that no earlier
            // scheme knows.
            rules.schemes.insert(0, Arc::clone(tokens) as Arc<_>);
        }
        Ok((rules, summary))
    }

    /// Returns the rules and the summary of the file of credentials.
    fn read_auth_file(&self, path: &Path) -> Result<(Rules, Summary), AuthenticationError> {
        let files = Mutex::<Vec<_>>::default();
        let services = Services {
            outbound: Arc::clone(&self.outbound) as Arc<_>,
            clock: Arc::new(SystemClock),
            read: &|named| {
                let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
                files.push(resolved(path, named));
                drop(files);
                read_beside(path, named)
            },
        };
        let file = read_auth_file("auth.file", path)?;
        let mut summary = Summary {
            files: Vec::new(),
            has_principals: file.has_principals(),
            has_certificates: file.has_certificates(),
            has_scopes: file.has_scopes(),
        };
        let rules = file.into_rules(&services);
        let rules = rules.map_err(|source| AuthenticationError::Rules {
            path: path.to_owned(),
            source,
        })?;
        summary.files = files.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((rules, summary))
    }
}

/// Returns the path of a file that the file of credentials at `path` names.
fn resolved(path: &Path, named: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).join(named)
}

/// Reads a file that the file of credentials at `path` names.
fn read_beside(path: &Path, named: &Path) -> io::Result<String> {
    let text = regular_file::read_text(&resolved(path, named))?;
    Ok(text.to_string())
}

fn read_auth_file(key: &'static str, path: &Path) -> Result<AuthFile, AuthenticationError> {
    let text = read(key, path)?;
    AuthFile::parse(&text).map_err(|source| AuthenticationError::File {
        path: path.to_owned(),
        source,
    })
}

/// Reads the keys of links in a file of credentials, which the setting or the flag `key` names.
pub(in crate::commands) fn read_link_keys(
    key: &'static str,
    path: &Path,
) -> Result<LinkKeys, AuthenticationError> {
    let keys = read_auth_file(key, path)?.into_link_keys(&|named| read_beside(path, named));
    keys.map_err(|source| AuthenticationError::Rules {
        path: path.to_owned(),
        source,
    })
}

fn read_token(path: &Path) -> Result<SecretHash, AuthenticationError> {
    let text = read("auth.token_file", path)?;
    let token = text.trim_end_matches(['\r', '\n']);
    // RFC 6750, section 2.1. Another token could never be sent.
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    if token.is_empty() || !token.bytes().all(is_token) {
        return Err(AuthenticationError::Token {
            path: path.to_owned(),
        });
    }
    Ok(SecretHash::of(token))
}

/// Reads a file with secrets.
fn read(key: &'static str, path: &Path) -> Result<Zeroizing<String>, AuthenticationError> {
    regular_file::read_text(path).map_err(|source| AuthenticationError::Unreadable {
        key,
        path: path.to_owned(),
        source,
    })
}

impl AuthenticationError {
    /// Returns a hint for the user.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Token { .. } => Some(
                "write letters, digits and -._~+/= on one line, for example the output of \
                 `openssl rand -hex 32`",
            ),
            Self::Rules {
                source: RulesError::LinkSecret { .. },
                ..
            } => Some("write the output of `openssl rand -base64 32` on one line"),
            Self::File { .. } | Self::Rules { .. } => Some("docs/credentials.md has an example"),
            Self::PolicyGone { .. } => Some(
                "write [[allow]] with nothing below it if that is meant, or start the server again",
            ),
            Self::Open { .. } => Some(
                "name the methods that are for everybody, or accept it with --allow-unauthenticated",
            ),
            Self::Unreadable { source, .. } => (source.kind() == io::ErrorKind::PermissionDenied)
                .then_some("the user that the server runs as must be able to read it"),
        }
    }
}
