//! An entry of `apis`: a description, and the host on which it answers.

use std::fmt;
use std::path::Path;

use thiserror::Error;
use windlass_apis::Options;
use windlass_server::{Conflict, Host, NotAHost, Registry};

use super::api_source::{ApiError, ApiSource, UnknownApi};

/// An API to serve, written `SOURCE` or `SOURCE@HOST`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiEntry {
    pub(crate) source: ApiSource,
    /// The one host on which it answers; `None` for all of them.
    pub(crate) host: Option<Host>,
}

/// Why a text is no entry.
#[derive(Debug, Error)]
pub(crate) enum ApiEntryError {
    #[error(transparent)]
    Unknown(UnknownApi),
    #[error(transparent)]
    Host(NotAHost),
}

impl ApiEntry {
    /// Paths are relative to `base`, and may have an `@` in them: the last one begins a host only
    /// when an API is before it and a host behind.
    pub(super) fn parse(text: &str, base: &Path) -> Result<Self, ApiEntryError> {
        let whole = || ApiSource::parse(text, base).map(Self::from);
        let Some((source, host)) = text.rsplit_once('@') else {
            return whole().map_err(ApiEntryError::Unknown);
        };
        match (ApiSource::parse(source, base), host.parse()) {
            (Ok(source), Ok(host)) => Ok(Self {
                source,
                host: Some(host),
            }),
            (Err(unknown), _) => whole().map_err(|_| ApiEntryError::Unknown(unknown)),
            (_, Err(not_a_host)) => whole().map_err(|_| ApiEntryError::Host(not_a_host)),
        }
    }
}

impl From<ApiSource> for ApiEntry {
    fn from(source: ApiSource) -> Self {
        Self { source, host: None }
    }
}

/// Loads all APIs. Those that answer on the same host must have different names or versions, and
/// no requests in common.
pub(crate) fn load(entries: &[ApiEntry], options: &Options) -> Result<Registry, ApiError> {
    let mut served = Vec::new();
    // Of each API, the entry that it comes from.
    let mut sources = Vec::new();
    for entry in entries {
        for api in entry.source.load(options)? {
            sources.push(entry);
            served.push(match entry.host.clone() {
                Some(host) => api.on(host),
                None => api,
            });
        }
    }
    Registry::new(served).map_err(|conflict| match conflict {
        Conflict::SameName {
            name,
            version,
            first,
            second,
        } => ApiError::Twice {
            name,
            version,
            first: sources[first].clone().into(),
            second: sources[second].clone().into(),
        },
        conflict => ApiError::Conflict(conflict),
    })
}

impl fmt::Display for ApiEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)?;
        match &self.host {
            Some(host) => write!(f, "@{host}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
