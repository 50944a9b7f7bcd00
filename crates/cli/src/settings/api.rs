//! The APIs to serve: where the description of each comes from, and the host on which it answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use thiserror::Error;
use windlass_apis::Options;
use windlass_discovery::settings::{Access, CreatedStatus, Settings};
use windlass_discovery::short_form::ShortFormError;
use windlass_discovery::{Api, Error as DescriptionError};
use windlass_server::{Backends, Conflict, Host, NotAHost, Registry, ServedApi};

use super::cors::CorsSettings;
use super::for_api::ForApi;

/// The source of an API description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ApiSource {
    /// A built-in API.
    BuiltIn(&'static str),
    /// A file in the short form.
    ShortForm(PathBuf),
    /// A discovery document.
    Document(PathBuf),
}

/// A text that names no API.
#[derive(Debug, Error)]
#[error(
    "there is no built-in API `{name}` (there is {}); a file ends in .toml or .json",
    windlass_apis::names().collect::<Vec<_>>().join(", ")
)]
pub(crate) struct UnknownApi {
    name: String,
}

impl UnknownApi {
    /// Returns a hint for the user.
    pub(crate) fn hint(&self) -> Option<String> {
        let likeness = |name: &str| strsim::damerau_levenshtein(name, &self.name);
        let nearest = windlass_apis::names().min_by_key(|name| likeness(name));
        let nearest = nearest.filter(|name| likeness(name) <= 2);
        if Path::new(&self.name).is_file() {
            let forms = "call a description in the short form *.toml, a discovery document *.json";
            return Some(forms.to_owned());
        }
        Some(format!("did you mean `{}`?", nearest?))
    }
}

/// The mistakes of a file in the short form: the position and text of the first, and the number of
/// all.
#[derive(Debug, Error)]
#[error("{}:{}:{}: {error:#}", path.display(), error.first().position.line, error.first().position.column)]
pub(crate) struct MistakesOf {
    path: PathBuf,
    error: ShortFormError,
}

impl MistakesOf {
    pub(crate) fn new(path: &Path, error: ShortFormError) -> Self {
        Self {
            path: path.to_owned(),
            error,
        }
    }

    /// Returns the mistakes.
    pub(crate) fn error(&self) -> &ShortFormError {
        &self.error
    }
}

/// Reason why an API cannot be served.
#[derive(Debug, Error)]
pub(crate) enum ApiError {
    #[error("{} cannot be read", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Mistakes(MistakesOf),
    #[error("{}", path.display())]
    Description {
        path: PathBuf,
        source: DescriptionError,
    },
    #[error("{name} {version} is described twice: by {first} and by {second}")]
    Twice {
        name: String,
        version: String,
        first: Box<ApiEntry>,
        second: Box<ApiEntry>,
    },
    #[error("{key} names {name}, and no API of this name is served")]
    NotServed { key: &'static str, name: String },
    #[error(transparent)]
    Conflict(Conflict),
    #[error("{name} names services to call, but backends.secret_file is not set")]
    NoBackendSecret { name: String },
}

impl ApiError {
    /// Returns a hint for the user.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Twice { first, second, .. } if first == second => "give it once",
            Self::Twice { .. } | Self::Conflict(_) => {
                "give the APIs hosts of their own: `--api FILE@HOST`, or `FILE@HOST` in the key apis"
            }
            Self::NoBackendSecret { .. } => {
                "`openssl rand -base64 32 > backends.key` makes the secret that signs requests; backends.secret_file \
                 names its file"
            }
            Self::Unreadable { .. } => "the file must exist and be readable",
            Self::Mistakes(_) | Self::Description { .. } => {
                "`windlass api check FILE` tells all that is wrong with it"
            }
            Self::NotServed { .. } => "--api NAME serves it, or the key apis",
        }
    }
}

impl ApiSource {
    /// Parses a path relative to `base` that ends in .toml or .json, or the name of a built-in API.
    pub(crate) fn parse(text: &str, base: &Path) -> Result<Self, UnknownApi> {
        match Path::new(text)
            .extension()
            .and_then(|extension| extension.to_str())
        {
            Some("toml") => Ok(Self::ShortForm(base.join(text))),
            Some("json") => Ok(Self::Document(base.join(text))),
            _ => {
                let name = windlass_apis::names().find(|name| *name == text);
                name.map(Self::BuiltIn).ok_or_else(|| UnknownApi {
                    name: text.to_owned(),
                })
            }
        }
    }

    pub(super) fn load(&self, options: &Options) -> Result<Vec<ServedApi>, ApiError> {
        let api = match self {
            Self::BuiltIn(name) => {
                return Ok(windlass_apis::by_name(name, options).expect("a listed name"));
            }
            Self::ShortForm(path) => load_file(path, Api::from_toml)?,
            Self::Document(path) => load_file(path, Api::from_json)?,
        };
        Ok(vec![windlass_apis::from_document(api, options)])
    }
}

type Parse = fn(&str) -> Result<Api, DescriptionError>;

fn load_file(path: &Path, parse: Parse) -> Result<Api, ApiError> {
    let text = std::fs::read_to_string(path).map_err(|source| ApiError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    parse(&text).map_err(|error| match error {
        DescriptionError::ShortForm(mistakes) => {
            ApiError::Mistakes(MistakesOf::new(path, mistakes))
        }
        source => ApiError::Description {
            path: path.to_owned(),
            source,
        },
    })
}

impl fmt::Display for ApiSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(name) => f.write_str(name),
            Self::ShortForm(path) | Self::Document(path) => path.display().fmt(f),
        }
    }
}

/// An API to serve, written `SOURCE` or `SOURCE@HOST`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiEntry {
    pub(crate) source: ApiSource,
    /// The only host on which the API answers; `None` for all hosts.
    pub(crate) host: Option<Host>,
}

/// Reason why a text is not an entry.
#[derive(Debug, Error)]
pub(crate) enum ApiEntryError {
    #[error(transparent)]
    Unknown(UnknownApi),
    #[error(transparent)]
    Host(NotAHost),
}

impl ApiEntryError {
    /// Returns a hint for the user.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown(unknown) => unknown.hint(),
            Self::Host(_) => None,
        }
    }
}

impl ApiEntry {
    /// Parses an entry. Paths are relative to `base`, and may contain an `@`. The last `@` begins a
    /// host only if an API precedes it and a host follows it.
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

/// The access of principals to resources.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ApiAccess<'a> {
    /// The values of the configuration.
    pub(crate) configured: &'a [ForApi<Access>],
    /// Whether requests have principals.
    pub(crate) has_principals: bool,
}

impl ApiAccess<'_> {
    /// Returns the access to the APIs of this name. `described` is the access in the API's
    /// description.
    fn to(self, name: &str, described: Access) -> Access {
        // On a server that asks for no credentials, every caller owns everything, including all
        // mailboxes.
        if !self.has_principals {
            return Access::Shared;
        }
        ForApi::find(self.configured, name)
            .copied()
            .unwrap_or(described)
    }
}

/// The settings for single APIs, by API name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SettingsByName<'a> {
    pub(crate) created_status: &'a [ForApi<CreatedStatus>],
    pub(crate) access: ApiAccess<'a>,
    pub(crate) cors: &'a CorsSettings,
    /// How the services that descriptions name are called; `None` if they cannot be.
    pub(crate) backends: Option<&'a Arc<Backends>>,
}

/// Loads all APIs. APIs on the same host must differ in name or version and must not match the same
/// requests. Each setting for a single API must name a served API.
pub(crate) fn load(
    entries: &[ApiEntry],
    options: &Options,
    by_name: &SettingsByName<'_>,
) -> Result<Registry, ApiError> {
    let mut served = Vec::new();
    // The entry of each API, in the same order.
    let mut sources = Vec::new();
    for entry in entries {
        for api in entry.source.load(options)? {
            let api = by_name.apply_to(api);
            let api = with_backends(api, by_name.backends)?;
            sources.push(entry);
            served.push(match entry.host.clone() {
                Some(host) => api.on(host),
                None => api,
            });
        }
    }
    let is_served = |name: &str| served.iter().any(|served| served.api.name() == name);
    if let Some((key, name)) = by_name.names().find(|(_, name)| !is_served(name)) {
        return Err(ApiError::NotServed {
            key,
            name: name.clone(),
        });
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

/// Lets an API call the services that its description names, and the service that is notified of
/// the uploads to all APIs.
fn with_backends(
    served: ServedApi,
    backends: Option<&Arc<Backends>>,
) -> Result<ServedApi, ApiError> {
    let has_services = served.api.settings().services().next().is_some();
    if !has_services && !backends.is_some_and(|it| it.notifies_of_all()) {
        return Ok(served);
    }
    match backends {
        Some(backends) => Ok(served.with_backends(Arc::clone(backends))),
        None => Err(ApiError::NoBackendSecret {
            name: served.api.name().to_owned(),
        }),
    }
}

impl SettingsByName<'_> {
    /// The names, each with its key.
    fn names(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let statuses = self.created_status.iter();
        let statuses = statuses.map(|it| ("created_status", &it.name));
        let accesses = self.access.configured.iter();
        let accesses = accesses.map(|it| ("access", &it.name));
        let origins = self.cors.apis.iter().map(|it| ("cors.apis", &it.name));
        statuses.chain(accesses).chain(origins)
    }

    /// Applies the configuration's values for an API. They replace the values of its description.
    fn apply_to(&self, served: ServedApi) -> ServedApi {
        let name = served.api.name().to_owned();
        let change = |settings: &mut Settings| {
            if let Some(status) = ForApi::find(self.created_status, &name) {
                settings.created_status = *status;
            }
            settings.access = self.access.to(&name, settings.access);
        };
        let served = ServedApi {
            api: served.api.map_settings(change),
            ..served
        };
        // The rules of the settings have refused an invalid policy already.
        match self.cors.policy_of(&name) {
            Ok(Some(policy)) => served.with_cors(policy),
            Ok(None) | Err(_) => served,
        }
    }
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
