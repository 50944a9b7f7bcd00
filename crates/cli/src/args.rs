//! The command line: commands, flags and their help texts. The commands of the client are in
//! [`client`].
//!
//! Values of the server's flags stay text here. [`crate::settings`] parses them, so that a flag, an
//! environment variable and a key of the configuration file follow the same rules.

mod api;
mod client;
mod sign;

use std::fmt;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use thiserror::Error;
use url::Url;
use windlass_client::{InvalidSessionUri, SessionUri};
use windlass_discovery::ByteSize;
use windlass_discovery::byte_size::ByteSizeError;

use crate::settings::RawValue;

pub(crate) use api::{ApiArgs, ApiCheckArgs, ApiCommand, ApiNewArgs, ApiShowArgs};
pub(crate) use client::{
    CancelArgs, ConnectionArgs, CredentialArgs, DirectoryArgs, DownloadArgs, JournalArgs,
    ProtocolArg, ResumeArgs, SessionArgs, StatusArgs, TransferArgs, UploadArgs, UploadsArgs,
    VerbosityArgs,
};
pub(crate) use sign::{SignArgs, SignedMethod};

/// A server and a client for Google's media upload protocol.
///
/// Media is uploaded in one request, in a multipart request, or in a resumable session that
/// survives broken connections, crashes and power cuts. `windlass serve` serves APIs with upload
/// methods. The other commands are a client for this server and for every server that implements
/// the protocol, such as Gmail, Drive and Cloud Storage.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(ServeArgs),
    Backup(BackupArgs),
    Verify(VerifyArgs),
    Upload(UploadArgs),
    Resume(ResumeArgs),
    Uploads(UploadsArgs),
    Status(StatusArgs),
    Cancel(CancelArgs),
    Download(DownloadArgs),
    Sign(SignArgs),
    Api(ApiArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
    /// Print the names that `WINDLASS_FAILPOINT` accepts
    #[cfg(feature = "failpoints")]
    #[command(hide = true)]
    Failpoints,
}

const EXAMPLES: &str = "\
Examples:
  windlass serve
  windlass upload cow.jpg http://127.0.0.1:8080/upload/farm/v1/animals
  windlass help upload";

/// Serve APIs whose methods take media.
///
/// Without flags, the server serves the Farm API, an example, on 127.0.0.1:8080 and stores its data
/// in ./windlass-data. The first line on standard output is the address of the server. The log is
/// written to standard error. SIGTERM and SIGINT let running requests end; a second signal stops
/// the server at once.
///
/// Every flag can also be set by an environment variable or a key of the configuration file:
/// `--public-url` is `WINDLASS_PUBLIC_URL` and `public_url`. Flags override the environment, and
/// the environment overrides the file. There are more keys than flags: --check-config prints them
/// all.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = SERVE_EXAMPLES, after_long_help = format!("{SERVE_EXAMPLES}\n\n{SERVE_EXIT_CODES}"))]
pub(crate) struct ServeArgs {
    /// The IP address and port to listen on [default: 127.0.0.1:8080]
    ///
    /// A port alone, such as 8080, is on 127.0.0.1, and so are `:8080` and `localhost:8080`. With
    /// port 0 the system chooses a free port. On an address other than a loopback one the server
    /// has to know who may use it: see the keys `auth.file` and `auth.token_file`, or the flag
    /// --allow-unauthenticated. On a loopback address /metrics shows the server's metrics; the key
    /// metrics.listen moves them to another one.
    #[arg(long, visible_alias = "port", value_name = "ADDRESS")]
    listen: Option<String>,

    /// The server's certificate chain in PEM; the server then speaks only HTTPS (TLS 1.2 and 1.3)
    ///
    /// The server's own certificate comes first, then the intermediate certificates. SIGHUP reloads
    /// the certificate and its key. Without a certificate the server speaks plain HTTP.
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,

    /// The private key of the certificate in PEM, not encrypted
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,

    /// The directory for sessions, resources and media [default: ./windlass-data]
    ///
    /// The directory is created if it does not exist. Only one server at a time can use it.
    #[arg(long, value_name = "DIRECTORY")]
    data: Option<String>,

    /// An API to serve; may be given more than once [default: farm]
    ///
    /// The name of a built-in API (farm, files, gmail, dfareporting, gamesConfiguration, storage,
    /// drive, youtube, firebasestorage, generativelanguage, photoslibrary), a description in the
    /// short form (*.toml), or a discovery document as published by Google (*.json). With @HOST
    /// appended, the API is served on this host only, so that APIs with the same paths can be
    /// served together.
    #[arg(long, value_name = "NAME|FILE[@HOST]")]
    api: Vec<String>,

    /// The URL under which clients reach the server, if it differs from the one they connect to
    ///
    /// Session URIs and discovery documents contain this URL. Without it, they contain the Host of
    /// each request, which is correct unless a proxy changes the Host.
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,

    /// Trust the Forwarded and X-Forwarded-* headers for the URL and the address of a client
    ///
    /// Use it only behind a proxy that overwrites these headers. Otherwise any client can choose
    /// the URLs in its replies, and the address to which limits apply.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    trust_forwarded: Option<String>,

    /// Start even if the file system of the data directory can lose synced data
    ///
    /// On tmpfs, NFS, 9p, FUSE and similar file systems an acknowledged upload may be lost in a
    /// crash. By default the server refuses to start there.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    allow_unsafe_filesystem: Option<String>,

    /// Serve everybody on an address that is not a loopback one
    ///
    /// Everybody who can reach the address can then upload, read and delete. For a network that
    /// only trusted clients reach, or behind a proxy that authenticates. By default the server
    /// refuses to start there unless it demands credentials or client certificates.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    allow_unauthenticated: Option<String>,

    /// Give a token to everybody who asks for one at /token, for tests of code with credentials
    ///
    /// Other requests need a token then. Google's libraries get one with any service account whose
    /// `token_uri` is `http://127.0.0.1:8080/token`; nothing that they send is verified. Only on a
    /// loopback address.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    dev_tokens: Option<String>,

    /// The log level (off, error, warn, info, debug or trace) or a `tracing` filter
    ///
    /// By default, starts, stops and problems are logged, and a line for each request. Without the
    /// lines of requests: `warn,windlass=info,windlass_server::service=warn`.
    #[arg(long, value_name = "LEVEL|FILTER")]
    log: Option<String>,

    /// A configuration file in TOML; also `WINDLASS_CONFIG`
    ///
    /// Paths in it are relative to its directory.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Check the configuration, print it with the origin of each value, and exit
    ///
    /// The output is a valid configuration file. API descriptions and the certificate are checked
    /// too. The server neither listens nor opens the data directory.
    #[arg(long)]
    pub(crate) check_config: bool,
}

const SERVE_EXAMPLES: &str = "\
Examples:
  windlass serve
  WINDLASS_AUTH_TOKEN_FILE=token windlass serve --listen 0.0.0.0:8080 --public-url https://up.example.com
  windlass serve --api farm --api ./albums.toml --api ./gmail-v1.json@gmail.example.com
  windlass serve --tls-cert chain.pem --tls-key key.pem
  windlass serve --config windlass.toml --check-config

An upload, once the server runs:
  curl -X POST -T cow.jpg -H 'Content-Type: image/jpeg' \\
    'http://127.0.0.1:8080/upload/farm/v1/animals?uploadType=media'";

const SERVE_EXIT_CODES: &str = "\
Exit codes:
  0  the server has stopped after a signal; with --check-config, the configuration is valid
  1  the server failed while running: storage failed, or a second signal stopped it at once
  2  the command line, a configuration file, an API description or the certificate is wrong
  3  the server cannot start: the address or the data directory is in use or unusable";

impl ServeArgs {
    /// Returns the values of the given flags by flag name, not yet parsed.
    pub(crate) fn raw_values(&self) -> Vec<(&'static str, RawValue)> {
        let one = |flag, value: &Option<String>| Some((flag, RawValue::Text(value.clone()?)));
        let apis = Some(&self.api).filter(|apis| !apis.is_empty());
        let given = [
            one("listen", &self.listen),
            one("tls-cert", &self.tls_cert),
            one("tls-key", &self.tls_key),
            one("data", &self.data),
            apis.map(|apis| ("api", RawValue::List(apis.clone()))),
            one("public-url", &self.public_url),
            one("trust-forwarded", &self.trust_forwarded),
            one("allow-unsafe-filesystem", &self.allow_unsafe_filesystem),
            one("dev-tokens", &self.dev_tokens),
            one("allow-unauthenticated", &self.allow_unauthenticated),
            one("log", &self.log),
        ];
        given.into_iter().flatten().collect()
    }
}

/// The data directory, found as `windlass serve` finds it.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct StoreArgs {
    /// The data directory [default: ./windlass-data]
    ///
    /// The directory in which `windlass serve` stores sessions, resources and media; also
    /// `WINDLASS_DATA`, and `data` in the configuration file.
    #[arg(long, value_name = "DIRECTORY")]
    data: Option<String>,

    /// The server's configuration file; also `WINDLASS_CONFIG`
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

impl StoreArgs {
    /// Returns the values that the flags set, by the names of the flags.
    pub(crate) fn raw_values(&self) -> Vec<(&'static str, RawValue)> {
        let data = self.data.clone();
        data.map(|data| ("data", RawValue::Text(data)))
            .into_iter()
            .collect()
    }
}

/// Back up a data directory while a server uses it.
///
/// The backup is a consistent copy of the store at one moment and contains everything that was
/// acknowledged before the command started. It is durable when the command ends. DEST is created if
/// it does not exist. It must be empty or hold an earlier backup of the same store; then only
/// changes are copied. The earlier backup stays intact until the new one is complete.
///
/// To restore a backup, stop the server and start it with `--data DEST`, or with a copy of DEST.
/// Unfinished uploads continue from their state at the moment of the backup; clients send again
/// what was committed later.
#[derive(Debug, clap::Args)]
#[command(after_help = BACKUP_EXAMPLES, after_long_help = format!("{BACKUP_EXAMPLES}\n\n{BACKUP_EXIT_CODES}"))]
pub(crate) struct BackupArgs {
    /// The directory of the backup
    #[arg(value_name = "DEST")]
    pub(crate) target: PathBuf,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Print one JSON object per line: damaged media, and a summary at the end
    #[arg(long)]
    pub(crate) json: bool,
}

const BACKUP_EXAMPLES: &str = "\
Examples:
  windlass backup /mnt/backup/windlass
  windlass backup --data /var/lib/windlass /mnt/backup/windlass
  windlass verify --data /mnt/backup/windlass";

const BACKUP_EXIT_CODES: &str = "\
Exit codes:
  0  the backup is complete
  1  the backup failed: the store cannot be read, or DEST cannot be written; an earlier backup in
     DEST is intact
  2  the command line or the configuration file is wrong
  3  the backup cannot start: there is no store, or DEST holds something other than its backup
  6  the backup is complete, but media in the store is damaged; run `windlass verify`";

/// Verify a data directory, byte by byte.
///
/// Reads all media and compares it with the ledger, checks the rows of the ledger against each
/// other, and checks the database itself. Each finding is printed with what to do about it.
/// `damage` cannot result from a crash. `remains` can; the server removes most of them by itself.
///
/// Without --repair nothing is changed, and a server may use the directory at the same time.
#[derive(Debug, clap::Args)]
#[command(after_help = VERIFY_EXAMPLES, after_long_help = format!("{VERIFY_EXAMPLES}\n\n{VERIFY_EXIT_CODES}"))]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Repair what can be repaired without risk; no server may use the directory
    ///
    /// Deletes media that nothing refers to. Ends unfinished uploads whose committed bytes are
    /// missing or corrupt, so that their clients start again. Resources are never deleted: their
    /// media can only be restored from a backup. Nothing is repaired while the ledger itself is
    /// damaged.
    #[arg(long)]
    pub(crate) repair: bool,

    /// Print one JSON object per line: the findings, and a summary at the end
    #[arg(long)]
    pub(crate) json: bool,
}

const VERIFY_EXAMPLES: &str = "\
Examples:
  windlass verify
  windlass verify --data /var/lib/windlass --json
  windlass verify --data /var/lib/windlass --repair";

const VERIFY_EXIT_CODES: &str = "\
Exit codes:
  0  sound: no damage was found, or all damage was repaired
  1  the verification failed: the ledger or the vault cannot be read or written
  2  the command line or the configuration file is wrong
  3  the verification cannot start: there is no store, or --repair was given and a server uses it
  6  damage was found and not repaired";

/// Print a shell completion script.
#[derive(Debug, clap::Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell to complete for
    pub(crate) shell: Shell,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  windlass completions bash > ~/.local/share/bash-completion/completions/windlass
  windlass completions zsh > ~/.zfunc/_windlass
  windlass completions fish > ~/.config/fish/completions/windlass.fish";

/// Write the manual pages.
///
/// Writes windlass.1 and a page for each command, such as windlass-upload.1.
#[derive(Debug, clap::Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(crate) struct ManArgs {
    /// The directory to write to, created if needed [default: print windlass.1]
    #[arg(value_name = "DIRECTORY")]
    pub(crate) directory: Option<PathBuf>,
}

const MAN_EXAMPLES: &str = "\
Examples:
  windlass man ~/.local/share/man/man1
  windlass man | man -l -";

/// Bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate(pub(crate) NonZeroU64);

/// The target of a command: an upload in the journal, or a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// An id, or its beginning.
    Id(String),
    /// A session URI.
    Session(SessionUri),
}

/// Error for a text that is not a rate.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum NotARate {
    #[error("{0}; a rate is written 256K or 10MB/s")]
    Size(ByteSizeError),
    #[error("a rate must be more than 0 bytes per second")]
    Zero,
}

/// Error for a text that is not a URL of a web server.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum NotAUrl {
    #[error("not a URL; a URL begins with http:// or https://")]
    Syntax,
    #[error("the scheme `{scheme}` is not supported; a URL begins with http:// or https://")]
    Scheme { scheme: String },
}

impl fmt::Display for Rate {
    /// Writes it as it is given: `256K`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.get();
        let units = [('G', 1 << 30), ('M', 1 << 20), ('K', 1 << 10)];
        match units
            .into_iter()
            .find(|(_, unit)| bytes.is_multiple_of(*unit))
        {
            Some((letter, unit)) => write!(f, "{}{letter}", bytes / unit),
            None => write!(f, "{bytes}B"),
        }
    }
}

impl FromStr for Rate {
    type Err = NotARate;

    fn from_str(text: &str) -> Result<Self, NotARate> {
        let size = text.trim().trim_end_matches("/s");
        let bytes = parse_size(size).map_err(NotARate::Size)?;
        NonZeroU64::new(bytes).map(Self).ok_or(NotARate::Zero)
    }
}

impl FromStr for Target {
    type Err = InvalidSessionUri;

    fn from_str(text: &str) -> Result<Self, InvalidSessionUri> {
        if text.contains(':') {
            text.parse().map(Self::Session)
        } else {
            Ok(Self::Id(text.to_owned()))
        }
    }
}

/// Parses a size; `K` means `KB`.
fn parse_size(text: &str) -> Result<u64, ByteSizeError> {
    let is_short = text.ends_with(|last: char| "KMGTkmgt".contains(last));
    let text = if is_short {
        format!("{text}B")
    } else {
        text.to_owned()
    };
    text.parse().map(ByteSize::bytes)
}

/// Parses the URL of a web server.
fn parse_url(text: &str) -> Result<Url, NotAUrl> {
    let url = Url::parse(text).map_err(|_| NotAUrl::Syntax)?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        scheme => Err(NotAUrl::Scheme {
            scheme: scheme.to_owned(),
        }),
    }
}

/// Error for a text that is not a duration.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("a duration is written 90s, 10m or 2h")]
pub(crate) struct NotADuration;

/// Error for a text that is not a number from 1.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("a whole number is needed, at least 1")]
pub(crate) struct NotACount;

/// Parses a duration such as `90s` or `5m`.
fn parse_duration(text: &str) -> Result<Duration, NotADuration> {
    humantime::parse_duration(text).map_err(|_| NotADuration)
}

/// Parses a number from 1.
fn parse_count(text: &str) -> Result<NonZeroUsize, NotACount> {
    text.parse().map_err(|_| NotACount)
}

#[cfg(test)]
mod tests;
