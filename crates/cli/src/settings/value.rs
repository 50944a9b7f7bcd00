//! The kinds of values that a setting can have: how each is read from text and written as TOML.

use std::fmt::{self, Display};
use std::net::{Ipv4Addr, SocketAddr};
use std::num::ParseIntError;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use http::Uri;
use thiserror::Error;
use toml::Value;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};
use windlass_acme::{Contact, DirectoryUrl, Domain, NotAContact, NotADirectoryUrl, NotADomain};
#[cfg(feature = "gmail")]
use windlass_apis::gmail::options::{NotARelay, Relay};
#[cfg(feature = "gmail")]
use windlass_apis::gmail::{Address, NotAnAddress};
use windlass_apis::{FilesPath, NotAFilesPath};
use windlass_discovery::byte_size::ByteSizeError;
use windlass_discovery::media_range::MediaTypeError;
use windlass_discovery::short_form::{NotAServiceUrl, ServiceUrl};
use windlass_discovery::{Access, ByteSize, CreatedStatus, MediaRange};
use windlass_server::config::{ChunkRule, NotAResourcePolicy, ResourcePolicy, SessionAuth};
use windlass_server::{AllowedHost, AllowedOrigin, Host, NotAHost, NotAnOrigin};
use windlass_store_local::Durability;

use super::ClientCertificates;
use super::api::{ApiEntry, ApiEntryError};
use super::cors::{ApiOrigins, ApiOriginsError};
use super::for_api::{ForApi, NotForApi};

/// The longest duration that can be set: `10y`, far below the limits of clock arithmetic.
const MAX_DURATION: Duration = Duration::from_secs(10 * 31_557_600);

/// The two names of a choice with their values.
type Choices<T> = [(&'static str, T); 2];

const SWITCH: Choices<bool> = [("true", true), ("false", false)];
const DURABILITIES: Choices<Durability> = [("disk", Durability::Disk), ("os", Durability::Os)];
const SESSION_AUTHS: Choices<SessionAuth> =
    [("uri", SessionAuth::Uri), ("owner", SessionAuth::Owner)];
const CLIENT_CERTIFICATES: Choices<ClientCertificates> = [
    ("optional", ClientCertificates::Optional),
    ("required", ClientCertificates::Required),
];
const CHUNK_RULES: Choices<ChunkRule> = [
    ("strict", ChunkRule::Strict),
    ("lenient", ChunkRule::Lenient),
];

/// A value as written, before it is parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RawValue {
    /// One value.
    Text(String),
    /// Several values.
    List(Vec<String>),
}

/// A reference to a value in the settings, by type.
pub(super) enum ValueRef<'a> {
    Address(&'a mut SocketAddr),
    OptionalAddress(&'a mut Option<SocketAddr>),
    Directory(&'a mut PathBuf),
    File(&'a mut Option<PathBuf>),
    AcmeDomains(&'a mut Vec<Domain>),
    AcmeContacts(&'a mut Vec<Contact>),
    AcmeDirectory(&'a mut DirectoryUrl),
    Apis(&'a mut Vec<ApiEntry>),
    CreatedStatuses(&'a mut Vec<ForApi<CreatedStatus>>),
    Accesses(&'a mut Vec<ForApi<Access>>),
    OptionalPrincipal(&'a mut Option<String>),
    Origins(&'a mut Vec<AllowedOrigin>),
    ApiOrigins(&'a mut Vec<ApiOrigins>),
    MediaRanges(&'a mut Vec<MediaRange>),
    ResourcePolicy(&'a mut ResourcePolicy),
    OptionalHost(&'a mut Option<Host>),
    Hosts(&'a mut Vec<AllowedHost>),
    Url(&'a mut Option<String>),
    ServiceUrl(&'a mut Option<ServiceUrl>),
    Switch(&'a mut bool),
    Log(&'a mut LogFilter),
    Durability(&'a mut Durability),
    Chunks(&'a mut ChunkRule),
    SessionAuth(&'a mut SessionAuth),
    ClientCertificates(&'a mut ClientCertificates),
    Span(&'a mut Duration),
    OptionalSpan(&'a mut Option<Duration>),
    Size(&'a mut u64),
    SizeInMemory(&'a mut usize),
    Ratio(&'a mut u64),
    Count(&'a mut usize),
    FilesPath(&'a mut FilesPath),
    #[cfg(feature = "gmail")]
    Mailbox(&'a mut Address),
    #[cfg(feature = "gmail")]
    Domains(&'a mut Vec<String>),
    #[cfg(feature = "gmail")]
    Relay(&'a mut Option<Relay>),
}

/// A text that is not a valid value of a setting.
#[derive(Debug, Error)]
pub(crate) enum ValueError {
    #[error(
        "`{text}` is neither an IP address and a port, such as 127.0.0.1:8080 or [::]:8080, nor a \
         port, such as 8080"
    )]
    Address { text: String },
    #[error("`{text}` is not a URL such as https://up.example.com")]
    Url { text: String },
    #[error("`{text}` is neither {} nor {}", choices[0], choices[1])]
    Word {
        text: String,
        choices: [&'static str; 2],
    },
    #[error("`{text}` is not a duration such as 30s or 7d")]
    Span {
        text: String,
        source: humantime::DurationError,
    },
    #[error("`{text}` is longer than ten years")]
    LongSpan { text: String },
    #[error("`{text}` is not a size such as 64KB or 5GB")]
    Size { text: String, source: ByteSizeError },
    #[error("`{text}` is more than this machine can address")]
    LargeSize { text: String },
    #[error("`{text}` is not a whole number")]
    Number { text: String, source: ParseIntError },
    #[error(transparent)]
    AcmeDomain(#[from] NotADomain),
    #[error(transparent)]
    AcmeContact(#[from] NotAContact),
    #[error(transparent)]
    AcmeDirectory(#[from] NotADirectoryUrl),
    #[error(transparent)]
    ServiceUrl(#[from] NotAServiceUrl),
    #[error(transparent)]
    Api(#[from] ApiEntryError),
    #[error(transparent)]
    ForApi(#[from] NotForApi),
    #[error(transparent)]
    Origin(#[from] NotAnOrigin),
    #[error(transparent)]
    ApiOrigins(#[from] ApiOriginsError),
    #[error(transparent)]
    MediaRange(#[from] MediaTypeError),
    #[error(transparent)]
    ResourcePolicy(#[from] NotAResourcePolicy),
    #[error(transparent)]
    Host(#[from] NotAHost),
    #[error(transparent)]
    Log(#[from] NotALogFilter),
    #[error(transparent)]
    FilesPath(#[from] NotAFilesPath),
    #[cfg(feature = "gmail")]
    #[error(transparent)]
    Mailbox(#[from] NotAnAddress),
    #[cfg(feature = "gmail")]
    #[error("`{text}` is not a domain such as example.com")]
    Domain { text: String },
    #[cfg(feature = "gmail")]
    #[error(transparent)]
    Relay(#[from] NotARelay),
    #[error("it takes one value, not a list")]
    List,
    #[error("it is empty")]
    Empty,
}

impl RawValue {
    fn text(&self) -> Result<&str, ValueError> {
        match self {
            Self::Text(text) if text.is_empty() => Err(ValueError::Empty),
            Self::Text(text) => Ok(text),
            Self::List(_) => Err(ValueError::List),
        }
    }

    /// Returns several values. A text may hold them separated by commas, because variables have no
    /// lists.
    fn texts(&self) -> Vec<&str> {
        match self {
            Self::Text(text) => text.split(',').map(str::trim).collect(),
            Self::List(texts) => texts.iter().map(String::as_str).collect(),
        }
    }
}

impl ValueRef<'_> {
    /// Parses and sets a value. Relative paths are resolved against `base`.
    pub(super) fn read(self, raw: &RawValue, base: &Path) -> Result<(), ValueError> {
        let text = raw.text();
        match self {
            ValueRef::AcmeDomains(domains) => *domains = parse_all(raw)?,
            ValueRef::AcmeContacts(contacts) => *contacts = parse_all(raw)?,
            ValueRef::AcmeDirectory(url) => *url = text?.parse()?,
            ValueRef::Apis(apis) => *apis = parse_apis(&raw.texts(), base)?,
            ValueRef::CreatedStatuses(statuses) => *statuses = parse_all(raw)?,
            ValueRef::Accesses(accesses) => *accesses = parse_all(raw)?,
            ValueRef::Origins(origins) => *origins = parse_all(raw)?,
            ValueRef::ApiOrigins(apis) => *apis = parse_all(raw)?,
            ValueRef::MediaRanges(ranges) => *ranges = parse_all(raw)?,
            ValueRef::ResourcePolicy(policy) => *policy = text?.parse()?,
            ValueRef::Address(address) => *address = parse_address(text?)?,
            ValueRef::OptionalAddress(address) => *address = Some(parse_address(text?)?),
            ValueRef::Directory(directory) => *directory = base.join(text?),
            ValueRef::File(file) => *file = Some(base.join(text?)),
            ValueRef::OptionalPrincipal(id) => *id = Some(text?.to_owned()),
            ValueRef::OptionalHost(host) => *host = Some(text?.parse()?),
            ValueRef::Hosts(hosts) => *hosts = parse_all(raw)?,
            ValueRef::Url(url) => *url = Some(parse_url(text?)?),
            ValueRef::ServiceUrl(url) => *url = Some(text?.parse()?),
            ValueRef::Switch(switch) => *switch = parse_choice(text?, SWITCH)?,
            ValueRef::Log(log) => *log = text?.parse()?,
            ValueRef::Durability(durability) => *durability = parse_choice(text?, DURABILITIES)?,
            ValueRef::Chunks(chunks) => *chunks = parse_choice(text?, CHUNK_RULES)?,
            ValueRef::SessionAuth(auth) => *auth = parse_choice(text?, SESSION_AUTHS)?,
            ValueRef::ClientCertificates(demand) => {
                *demand = parse_choice(text?, CLIENT_CERTIFICATES)?;
            }
            ValueRef::Span(span) => *span = parse_span(text?)?,
            ValueRef::OptionalSpan(span) => *span = Some(parse_span(text?)?),
            ValueRef::Size(size) => *size = parse_size(text?)?,
            ValueRef::SizeInMemory(size) => *size = parse_size_in_memory(text?)?,
            ValueRef::Ratio(ratio) => *ratio = parse_number(text?)?,
            ValueRef::Count(count) => *count = parse_number(text?)?,
            ValueRef::FilesPath(path) => *path = text?.parse()?,
            #[cfg(feature = "gmail")]
            ValueRef::Mailbox(address) => *address = text?.parse()?,
            #[cfg(feature = "gmail")]
            ValueRef::Domains(domains) => *domains = parse_domains(&raw.texts())?,
            #[cfg(feature = "gmail")]
            ValueRef::Relay(relay) => *relay = Some(text?.parse()?),
        }
        Ok(())
    }

    /// Returns the value as TOML, which parses to the same value; `None` if it is not set.
    pub(super) fn write(self) -> Option<String> {
        let text = |text: &dyn Display| Some(Value::String(text.to_string()).to_string());
        match self {
            ValueRef::AcmeDomains(domains) => (!domains.is_empty()).then(|| write_list(domains)),
            ValueRef::AcmeContacts(contacts) => {
                (!contacts.is_empty()).then(|| write_list(contacts))
            }
            ValueRef::AcmeDirectory(url) => text(url),
            ValueRef::Apis(apis) => Some(write_list(apis)),
            ValueRef::CreatedStatuses(statuses) => {
                (!statuses.is_empty()).then(|| write_list(statuses))
            }
            ValueRef::Accesses(accesses) => (!accesses.is_empty()).then(|| write_list(accesses)),
            ValueRef::Origins(origins) => (!origins.is_empty()).then(|| write_list(origins)),
            ValueRef::ApiOrigins(apis) => (!apis.is_empty()).then(|| write_list(apis)),
            ValueRef::MediaRanges(ranges) => Some(write_list(ranges)),
            ValueRef::ResourcePolicy(policy) => text(policy),
            ValueRef::Address(address) => text(address),
            ValueRef::OptionalAddress(address) => text(address.as_ref()?),
            ValueRef::Directory(directory) => text(&directory.display()),
            ValueRef::File(file) => text(&file.as_ref()?.display()),
            ValueRef::OptionalPrincipal(id) => text(id.as_ref()?),
            ValueRef::OptionalHost(host) => text(host.as_ref()?),
            ValueRef::Hosts(hosts) => (!hosts.is_empty()).then(|| write_list(hosts)),
            ValueRef::Url(url) => text(url.as_ref()?),
            ValueRef::ServiceUrl(url) => text(url.as_ref()?),
            ValueRef::Switch(switch) => Some(switch.to_string()),
            ValueRef::Log(log) => text(log),
            ValueRef::Durability(durability) => text(&name_of_choice(*durability, DURABILITIES)),
            ValueRef::Chunks(chunks) => text(&name_of_choice(*chunks, CHUNK_RULES)),
            ValueRef::SessionAuth(auth) => text(&name_of_choice(*auth, SESSION_AUTHS)),
            ValueRef::ClientCertificates(demand) => {
                text(&name_of_choice(*demand, CLIENT_CERTIFICATES))
            }
            ValueRef::Span(span) => text(&humantime::format_duration(*span)),
            ValueRef::OptionalSpan(span) => text(&humantime::format_duration((*span)?)),
            ValueRef::Size(size) => text(&ByteSize::from_bytes(*size)),
            ValueRef::SizeInMemory(size) => text(&ByteSize::from_bytes(*size as u64)),
            ValueRef::Ratio(ratio) => Some(ratio.to_string()),
            ValueRef::Count(count) => Some(count.to_string()),
            ValueRef::FilesPath(path) => text(path),
            #[cfg(feature = "gmail")]
            ValueRef::Mailbox(address) => text(address),
            #[cfg(feature = "gmail")]
            ValueRef::Domains(domains) => (!domains.is_empty()).then(|| write_list(domains)),
            #[cfg(feature = "gmail")]
            ValueRef::Relay(relay) => text(relay.as_ref()?),
        }
    }
}

fn parse_all<T>(raw: &RawValue) -> Result<Vec<T>, ValueError>
where
    T: FromStr,
    ValueError: From<T::Err>,
{
    let parsed = raw.texts().into_iter().map(str::parse);
    Ok(parsed.collect::<Result<_, T::Err>>()?)
}

fn parse_apis(texts: &[&str], base: &Path) -> Result<Vec<ApiEntry>, ValueError> {
    let entries = texts.iter().map(|text| ApiEntry::parse(text, base));
    Ok(entries.collect::<Result<_, _>>()?)
}

#[cfg(feature = "gmail")]
/// Parses domains that are valid in an email address.
fn parse_domains(texts: &[&str]) -> Result<Vec<String>, ValueError> {
    let domain = |text: &&str| match format!("postmaster@{text}").parse::<Address>() {
        Ok(address) => Ok(address.domain().to_owned()),
        Err(_) => Err(ValueError::Domain {
            text: (*text).to_owned(),
        }),
    };
    texts.iter().map(domain).collect()
}

fn write_list<T: Display>(values: &[T]) -> String {
    let values = values.iter().map(|value| Value::String(value.to_string()));
    Value::Array(values.collect()).to_string()
}

/// Parses an address and a port. A port alone, `:PORT` and `localhost:PORT` are on 127.0.0.1: a
/// server is opened to other machines only by an address.
fn parse_address(text: &str) -> Result<SocketAddr, ValueError> {
    let port = text
        .strip_prefix("localhost:")
        .or_else(|| text.strip_prefix(':'))
        .unwrap_or(text);
    // `parse` would also accept a sign.
    if port.bytes().all(|byte| byte.is_ascii_digit())
        && let Ok(port) = port.parse()
    {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    text.parse().map_err(|_| ValueError::Address {
        text: text.to_owned(),
    })
}

/// Parses a base URL. Paths are appended to it, so a query is not allowed.
fn parse_url(text: &str) -> Result<String, ValueError> {
    let is_base = |uri: &Uri| {
        let known_scheme = matches!(uri.scheme_str(), Some("http" | "https"));
        // Each client receives the URL, and would receive its user name or password too.
        let has_user = uri.authority().is_some_and(|it| it.as_str().contains('@'));
        let has_host = uri.host().is_some_and(|host| !host.is_empty());
        known_scheme && has_host && !has_user && uri.query().is_none()
    };
    let uri = text.parse().ok().filter(is_base);
    uri.map(|_: Uri| text.trim_end_matches('/').to_owned())
        .ok_or_else(|| ValueError::Url {
            text: text.to_owned(),
        })
}

fn parse_choice<T: Copy>(text: &str, choices: Choices<T>) -> Result<T, ValueError> {
    let found = choices.iter().find(|(word, _)| *word == text);
    found
        .map(|(_, value)| *value)
        .ok_or_else(|| ValueError::Word {
            text: text.to_owned(),
            choices: choices.map(|(word, _)| word),
        })
}

fn name_of_choice<T: Copy + PartialEq>(value: T, choices: Choices<T>) -> &'static str {
    let found = choices.iter().find(|(_, meaning)| *meaning == value);
    found
        .map(|(word, _)| *word)
        .expect("every value has its word")
}

fn parse_span(text: &str) -> Result<Duration, ValueError> {
    let span = humantime::parse_duration(text).map_err(|source| ValueError::Span {
        text: text.to_owned(),
        source,
    })?;
    if span > MAX_DURATION {
        return Err(ValueError::LongSpan {
            text: text.to_owned(),
        });
    }
    Ok(span)
}

fn parse_size(text: &str) -> Result<u64, ValueError> {
    let size: Result<ByteSize, _> = text.parse();
    size.map(ByteSize::bytes)
        .map_err(|source| ValueError::Size {
            text: text.to_owned(),
            source,
        })
}

fn parse_size_in_memory(text: &str) -> Result<usize, ValueError> {
    let too_large = |_| ValueError::LargeSize {
        text: text.to_owned(),
    };
    usize::try_from(parse_size(text)?).map_err(too_large)
}

fn parse_number<N: FromStr<Err = ParseIntError>>(text: &str) -> Result<N, ValueError> {
    text.parse().map_err(|source| ValueError::Number {
        text: text.to_owned(),
        source,
    })
}

/// The default logs starts, stops and problems, and a line for each request.
const DEFAULT: &str = "warn,windlass=info";

/// A level, or directives such as `warn,windlass_server=debug`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogFilter(String);

/// Why a text is not a [`LogFilter`].
#[derive(Debug, Error)]
pub(crate) enum NotALogFilter {
    #[error("`{word}` is not a log level: off, error, warn, info, debug or trace")]
    Level { word: String },
    #[error("`{text}` is not a log filter")]
    Filter { text: String, source: ParseError },
}

impl LogFilter {
    /// Returns the filter for `tracing`.
    pub(crate) fn env_filter(&self) -> EnvFilter {
        self.0.parse().expect("the text was parsed before")
    }
}

impl Default for LogFilter {
    fn default() -> Self {
        Self(DEFAULT.to_owned())
    }
}

impl FromStr for LogFilter {
    type Err = NotALogFilter;

    /// A single word must be a level. `tracing` would take any other word for the name of the only
    /// crate to log, so a mistyped level would silence the log.
    fn from_str(text: &str) -> Result<Self, NotALogFilter> {
        let words = text
            .split(',')
            .filter(|directive| !directive.contains(['=', '[']));
        for word in words.map(str::trim) {
            word.parse::<LevelFilter>()
                .map_err(|_| NotALogFilter::Level {
                    word: word.to_owned(),
                })?;
        }
        text.parse::<EnvFilter>()
            .map_err(|source| NotALogFilter::Filter {
                text: text.to_owned(),
                source,
            })?;
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests;
