//! The server's settings, merged from flags, the environment, the configuration file and defaults,
//! in this order of precedence.
//!
//! Every setting is listed once, in [`key`]. All sources provide text, which is parsed by the same
//! rules. The configuration file is TOML; the environment variables begin with `WINDLASS_`. The
//! module opens only the configuration file and, on demand, API descriptions.

mod acme;
mod api;
mod cors;
mod for_api;
mod idle;
mod key;
mod value;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error as ThisError;
use toml::Spanned;
use toml::de::{self, DeTable, DeValue};
use windlass_discovery::short_form::{Position, ServiceUrl};
use windlass_discovery::{Access, CreatedStatus};
use windlass_server::Backends;

pub(crate) use acme::AcmeSettings;
pub(crate) use api::{ApiAccess, ApiEntry, SettingsByName, load};
pub(crate) use api::{ApiError, ApiSource, MistakesOf, UnknownApi};
pub(crate) use cors::CorsSettings;
pub(crate) use idle::Surroundings;
pub(crate) use value::LogFilter;
pub(crate) use value::RawValue;

use for_api::ForApi;
use key::{KEYS, Key, PREFIX};
use value::ValueError;

/// The server's settings.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own"
)]
pub(crate) struct Settings {
    /// The address to listen on.
    pub(crate) listen: SocketAddr,
    /// The file with the server's certificate chain.
    pub(crate) tls_cert: Option<PathBuf>,
    /// The file with the private key.
    pub(crate) tls_key: Option<PathBuf>,
    /// The file with the authorities of client certificates.
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// Whether clients may do without a certificate.
    pub(crate) tls_client_certificates: ClientCertificates,
    /// The file with the revocation lists of those authorities.
    pub(crate) tls_client_crl: Option<PathBuf>,
    /// Whether all connections come from a proxy, which states the client's address in a header.
    pub(crate) proxy_protocol: bool,
    /// The settings for ordering a certificate.
    pub(crate) acme: AcmeSettings,
    /// The data directory.
    pub(crate) data: PathBuf,
    /// The APIs to serve.
    pub(crate) apis: Vec<ApiEntry>,
    /// The statuses that end resumable uploads, of APIs for which the default is not right.
    pub(crate) created_status: Vec<ForApi<CreatedStatus>>,
    /// The access of principals, for APIs for which the default is not right.
    pub(crate) access: Vec<ForApi<Access>>,
    /// The origins that may call the APIs.
    pub(crate) cors: CorsSettings,
    /// The options of the built-in APIs.
    pub(crate) options: windlass_apis::Options,
    /// The file with the password of the mail relay.
    #[cfg(feature = "gmail")]
    pub(crate) relay_password: Option<PathBuf>,
    /// The file with the one token that clients may send.
    pub(crate) auth_token: Option<PathBuf>,
    /// The file of credentials and of the policy.
    pub(crate) auth_file: Option<PathBuf>,
    /// The file with the secret by which requests to backends are signed.
    pub(crate) backend_secret: Option<PathBuf>,
    /// Whether the names of backends may lead to private addresses.
    pub(crate) backend_private_addresses: bool,
    /// Time in which a backend must have answered a call.
    pub(crate) backend_timeout: Duration,
    /// The service that is notified of the uploads to all APIs.
    pub(crate) webhook_finished: Option<ServiceUrl>,
    /// The file of the audit log.
    pub(crate) audit_file: Option<PathBuf>,
    /// Whether tokens for tests are given to everybody.
    pub(crate) dev_tokens: bool,
    /// Whether Landlock confines the process to the files that it needs.
    pub(crate) landlock: bool,
    /// Whether the process may leave core dumps, which have its secrets.
    pub(crate) core_dumps: bool,
    /// Whether everybody may do everything on an address that is not a loopback one.
    pub(crate) allow_unauthenticated: bool,
    /// The log filter.
    pub(crate) log: LogFilter,
    /// The address of the metrics, if they have a separate listener.
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// The options of the store.
    pub(crate) store: windlass_store_local::Options,
    /// The server's own settings.
    pub(crate) server: windlass_server::Settings,
}

/// Whether clients may do without a certificate, where the server asks for one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ClientCertificates {
    /// A client without a certificate is accepted.
    #[default]
    Optional,
    /// The handshake of a client without a certificate is refused.
    Required,
}

/// The source of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The built-in default.
    Default,
    /// A line of the configuration file.
    File { path: PathBuf, line: usize },
    /// An environment variable.
    Variable(String),
    /// A flag, without its dashes.
    Flag(&'static str),
}

/// The sources of settings.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// The configuration file given by `--config`.
    pub(crate) config: Option<PathBuf>,
    /// The values of the flags, by name.
    pub(crate) flags: Vec<(&'static str, RawValue)>,
    /// The environment variables.
    pub(crate) environment: Environment,
}

/// The settings with the origin of each.
#[derive(Debug, Default)]
pub(crate) struct Merged {
    pub(crate) settings: Settings,
    /// The origins of settings that are not defaults, by key.
    origins: BTreeMap<&'static str, Origin>,
}

impl Sources {
    /// Merges the sources and checks the result.
    pub(crate) fn merge(&self) -> Result<Merged, Error> {
        let mut merged = Merged::default();
        if let Some(path) = self.config.as_deref().or(self.environment.config()) {
            merged.set_from_file(path)?;
        }
        for (key, variable, text) in self.environment.settings() {
            let raw = RawValue::Text(text.to_owned());
            merged.set(
                key,
                &raw,
                Origin::Variable(variable.to_owned()),
                Path::new(""),
            )?;
        }
        for (flag, raw) in &self.flags {
            let key = Key::of_flag(flag).expect("a test looks every flag up");
            merged.set(key, raw, Origin::Flag(flag), Path::new(""))?;
        }
        merged.settings.complete();
        merged.check()?;
        Ok(merged)
    }
}

impl Settings {
    /// Whether other machines reach the server without a certificate, and no flag accepts requests
    /// without credentials.
    pub(crate) fn is_exposed(&self) -> bool {
        key::is_exposed(self)
    }

    /// Sets defaults that depend on other settings.
    fn complete(&mut self) {
        let unowned = &mut self.server.unowned_principal;
        // On a server with one token, its bearer keeps the resources that were made before.
        if unowned.is_none() && self.auth_token.is_some() {
            *unowned = Some(BEARER.to_owned());
        }
    }
}

impl Merged {
    fn set_from_file(&mut self, path: &Path) -> Result<(), Error> {
        let base = path.parent().unwrap_or(Path::new(""));
        for entry in read_file(path)? {
            let origin = Origin::File {
                path: path.to_owned(),
                line: entry.line,
            };
            self.set(entry.key, &entry.raw, origin, base)?;
        }
        Ok(())
    }

    fn set(
        &mut self,
        key: &'static Key,
        raw: &RawValue,
        origin: Origin,
        base: &Path,
    ) -> Result<(), Error> {
        match key.set(&mut self.settings, raw, base) {
            Ok(()) => {
                self.origins.insert(key.name, origin);
                Ok(())
            }
            Err(source) => Err(Error::Value {
                key: key.name,
                origin,
                source,
            }),
        }
    }

    fn check(&self) -> Result<(), Error> {
        match key::first_violated(&self.settings) {
            None => Ok(()),
            Some(rule) => Err(Error::Rule {
                key: rule.key,
                origin: self.origin(rule.key).clone(),
                requirement: rule.requirement,
            }),
        }
    }

    fn origin(&self, key: &str) -> &Origin {
        self.origins.get(key).unwrap_or(&Origin::Default)
    }

    /// Returns the settings as a configuration file with the origin of each in a comment.
    pub(crate) fn to_toml(&self) -> String {
        let mut text = String::new();
        let mut table = None;
        for key in KEYS {
            if key.table() != table {
                table = key.table();
                write!(text, "\n[{}]\n", table.unwrap_or_default()).ok();
            }
            let line = match key.show(&self.settings) {
                Some(value) => format!("{} = {value}", key.leaf()),
                None => format!("# {} is not set", key.leaf()),
            };
            writeln!(text, "{line:<39} # {}", self.origin(key.name)).ok();
        }
        text.truncate(text.trim_end().len());
        text
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            tls_cert: None,
            tls_key: None,
            tls_client_ca: None,
            tls_client_certificates: ClientCertificates::default(),
            tls_client_crl: None,
            proxy_protocol: false,
            acme: AcmeSettings::default(),
            data: PathBuf::from("./windlass-data"),
            apis: vec![ApiSource::BuiltIn("farm").into()],
            created_status: Vec::new(),
            access: Vec::new(),
            cors: CorsSettings::default(),
            options: windlass_apis::Options::default(),
            auth_token: None,
            auth_file: None,
            backend_secret: None,
            backend_private_addresses: false,
            backend_timeout: Backends::TIMEOUT,
            webhook_finished: None,
            audit_file: None,
            dev_tokens: false,
            landlock: true,
            core_dumps: false,
            allow_unauthenticated: false,
            #[cfg(feature = "gmail")]
            relay_password: None,
            log: LogFilter::default(),
            metrics_listen: None,
            store: windlass_store_local::Options::default(),
            server: windlass_server::Settings::default(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "file {}:{line}", path.display()),
            Self::Variable(variable) => write!(f, "env {variable}"),
            Self::Flag(flag) => write!(f, "flag --{flag}"),
        }
    }
}

/// Why the settings cannot be used.
#[derive(Debug, ThisError)]
pub(crate) enum Error {
    #[error("the configuration file {} cannot be read", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Toml(TomlError),
    #[error("{}:{line}: there is no setting `{name}`", path.display())]
    UnknownKey {
        name: String,
        path: PathBuf,
        line: usize,
        nearest: Option<&'static str>,
    },
    #[error("{}:{line}: `{table}` is a table, not a setting", path.display())]
    Table {
        table: &'static str,
        path: PathBuf,
        line: usize,
    },
    #[error("{}:{line}: this build of windlass is without `{table}`, so [{table}] cannot be set", path.display())]
    Excluded {
        table: &'static str,
        path: PathBuf,
        line: usize,
    },
    #[error("{}:{line}: `{key}` takes text, a number, true or false", path.display())]
    Kind {
        key: &'static str,
        path: PathBuf,
        line: usize,
    },
    #[error("{variable} is not UTF-8")]
    NotUnicode { variable: String },
    #[error("{key} ({origin})")]
    Value {
        key: &'static str,
        origin: Origin,
        source: ValueError,
    },
    #[error("{key} ({origin}): {requirement}")]
    Rule {
        key: &'static str,
        origin: Origin,
        requirement: &'static str,
    },
}

impl Error {
    /// Returns a hint for the user.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownKey {
                nearest: Some(nearest),
                ..
            } => Some(format!("did you mean `{nearest}`?")),
            Self::Table { table, .. } => Some(format!(
                "write its settings below a line [{table}]; `windlass serve --check-config` prints all settings"
            )),
            Self::UnknownKey { nearest: None, .. } => {
                Some("`windlass serve --check-config` prints all settings".to_owned())
            }
            Self::Excluded { table, .. } => Some(format!(
                "remove the section, or build windlass with the feature `{table}`"
            )),
            Self::Unreadable { .. } => Some("the file must exist and be readable".to_owned()),
            Self::Toml(_) | Self::Kind { .. } => Some(
                "`windlass serve --check-config` without the file prints one with all settings"
                    .to_owned(),
            ),
            Self::Value {
                source: ValueError::Api(error),
                ..
            } => error.hint(),
            Self::NotUnicode { .. } | Self::Value { .. } | Self::Rule { .. } => None,
        }
    }
}

/// An error in a TOML file, on one line: the message and its line.
#[derive(Debug, ThisError)]
#[error("{}:{line}: {message}, in `{source_line}`", path.display())]
pub(crate) struct TomlError {
    path: PathBuf,
    line: usize,
    message: String,
    source_line: String,
}

impl TomlError {
    pub(crate) fn new(path: &Path, text: &str, error: &de::Error) -> Self {
        let at = error.span().map_or(0, |span| span.start);
        let line = Position::of(text, at).line;
        Self {
            path: path.to_owned(),
            line,
            message: error.message().replace('\n', ", "),
            source_line: text
                .lines()
                .nth(line - 1)
                .unwrap_or_default()
                .trim()
                .to_owned(),
        }
    }
}

/// One setting in the file.
#[derive(Debug)]
struct Entry {
    key: &'static Key,
    raw: RawValue,
    line: usize,
}

/// Reads a configuration file. An unknown key is an error.
fn read_file(path: &Path) -> Result<Vec<Entry>, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    let table =
        DeTable::parse(&text).map_err(|error| Error::Toml(TomlError::new(path, &text, &error)))?;
    let mut reader = Reader {
        path,
        text: &text,
        entries: Vec::new(),
    };
    reader.read_table(table.get_ref(), "")?;
    Ok(reader.entries)
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    entries: Vec<Entry>,
}

impl Reader<'_> {
    fn read_table(&mut self, table: &DeTable<'_>, prefix: &str) -> Result<(), Error> {
        table.iter().try_for_each(|(name, value)| {
            let line = Position::of(self.text, name.span().start).line;
            self.read_value(&format!("{prefix}{}", name.get_ref()), value, line)
        })
    }

    fn read_value(
        &mut self,
        name: &str,
        value: &Spanned<DeValue<'_>>,
        line: usize,
    ) -> Result<(), Error> {
        match (Key::named(name), value.get_ref()) {
            (Some(key), value) => {
                let raw = raw_value(value).ok_or_else(|| Error::Kind {
                    key: key.name,
                    path: self.path.to_owned(),
                    line,
                })?;
                self.entries.push(Entry { key, raw, line });
                Ok(())
            }
            (None, DeValue::Table(table)) if table_named(name).is_some() => {
                self.read_table(table, &format!("{name}."))
            }
            (None, _) => Err(self.unknown(name, line)),
        }
    }

    fn unknown(&self, name: &str, line: usize) -> Error {
        let path = self.path.to_owned();
        if let Some(table) = Key::excluded_table(name) {
            return Error::Excluded { table, path, line };
        }
        if let Some(table) = table_named(name) {
            return Error::Table { table, path, line };
        }
        Error::UnknownKey {
            name: name.to_owned(),
            path,
            line,
            nearest: Key::nearest_name(name),
        }
    }
}

/// Returns the table of this name.
fn table_named(name: &str) -> Option<&'static str> {
    let mut tables = KEYS.iter().filter_map(Key::table);
    tables.find(|table| *table == name)
}

/// Turns values of all kinds into text, which the setting parses. Returns `None` for tables, for
/// dates, and for lists with an entry that is not text.
fn raw_value(value: &DeValue<'_>) -> Option<RawValue> {
    match value {
        DeValue::String(text) => Some(RawValue::Text(text.to_string())),
        DeValue::Integer(number) => Some(RawValue::Text(number.to_string())),
        DeValue::Float(number) => Some(RawValue::Text(number.to_string())),
        DeValue::Boolean(switch) => Some(RawValue::Text(switch.to_string())),
        DeValue::Array(values) => {
            let texts = values
                .iter()
                .map(|value| value.get_ref().as_str().map(str::to_owned));
            texts.collect::<Option<_>>().map(RawValue::List)
        }
        DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}

/// The principal of requests with the token of `auth.token_file`.
pub(crate) const BEARER: &str = "token";

/// The variable with the path of the configuration file.
const CONFIG_VARIABLE: &str = "WINDLASS_CONFIG";

/// The variable with the source of the client's bearer token, as `--token`.
pub(crate) const TOKEN_VARIABLE: &str = "WINDLASS_TOKEN";

/// The variable with the file of the client's certificate, as `--client-cert`.
pub(crate) const CLIENT_CERT_VARIABLE: &str = "WINDLASS_CLIENT_CERT";

/// The variable with the file of the certificate's key, as `--client-key`.
pub(crate) const CLIENT_KEY_VARIABLE: &str = "WINDLASS_CLIENT_KEY";

/// The variable with the directory of the client's journal, as `--journal`.
pub(crate) const JOURNAL_VARIABLE: &str = "WINDLASS_JOURNAL";

/// The variable that names the failpoint at which the server dies.
#[cfg(feature = "failpoints")]
pub(crate) const FAILPOINT_VARIABLE: &str = "WINDLASS_FAILPOINT";

/// The variables that are not settings of the server.
const OTHERS: &[&str] = &[
    CONFIG_VARIABLE,
    TOKEN_VARIABLE,
    CLIENT_CERT_VARIABLE,
    CLIENT_KEY_VARIABLE,
    JOURNAL_VARIABLE,
    #[cfg(feature = "failpoints")]
    FAILPOINT_VARIABLE,
];

/// Returns a variable of the client. An empty value counts as not set.
pub(crate) fn client_variable(name: &'static str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The variables with names that begin with `WINDLASS_`. Empty variables count as not set.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    variables: BTreeMap<String, String>,
}

/// A variable with the prefix of settings that names no setting.
///
/// It is no error because a container's surroundings may well set it: Kubernetes makes variables
/// such as `WINDLASS_SERVICE_HOST` for a service that is called windlass.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ignored {
    /// Its name.
    pub(crate) variable: String,
    /// The variable that may have been meant.
    pub(crate) nearest: Option<String>,
}

impl Environment {
    /// Keeps only the variables with the prefix of Windlass.
    pub(crate) fn new(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, Error> {
        let ours = variables.into_iter().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            (name.starts_with(PREFIX) && !value.is_empty()).then_some((name, value))
        });
        let texts = ours.map(|(name, value)| match value.into_string() {
            Ok(value) => Ok((name, value)),
            Err(_) => Err(Error::NotUnicode { variable: name }),
        });
        Ok(Self {
            variables: texts.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the path of the configuration file.
    fn config(&self) -> Option<&Path> {
        self.variables.get(CONFIG_VARIABLE).map(Path::new)
    }

    /// The settings among the variables, with their names and values.
    fn settings(&self) -> impl Iterator<Item = (&'static Key, &str, &str)> {
        self.variables.iter().filter_map(|(name, value)| {
            Some((Key::of_variable(name)?, name.as_str(), value.as_str()))
        })
    }

    /// Returns the variables that name no setting.
    pub(crate) fn ignored(&self) -> impl Iterator<Item = Ignored> {
        let names = self.variables.keys();
        let others = names
            .filter(|name| !OTHERS.contains(&name.as_str()) && Key::of_variable(name).is_none());
        others.map(|name| {
            let key = name.trim_start_matches(PREFIX).to_lowercase();
            Ignored {
                variable: name.clone(),
                nearest: Key::nearest(&key).map(Key::variable),
            }
        })
    }
}

#[cfg(test)]
mod tests;
