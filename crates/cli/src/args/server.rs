//! The commands about a server and its store: `serve`, `backup`, `verify`.
//!
//! Values of flags stay text here. [`crate::settings`] parses them, so that a flag, an environment
//! variable and a key of the configuration file follow the same rules.

use std::path::PathBuf;

use crate::settings::RawValue;

/// Serve APIs whose methods take media.
///
/// Without flags the Farm API, an example, is served on 127.0.0.1:8080 with its data in
/// ./windlass-data. The first line on standard output says where the server listens; the log goes
/// to standard error. SIGTERM and SIGINT let running requests end, a second signal does not.
///
/// Everything can also be set by a variable of the environment or a key of the configuration file:
/// `--public-url` is `WINDLASS_PUBLIC_URL` and `public_url`. Flags win over the environment, the
/// environment wins over the file. There are more keys than flags; --check-config prints them all.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = SERVE_EXAMPLES, after_long_help = format!("{SERVE_EXAMPLES}\n\n{SERVE_EXIT_CODES}"))]
pub(crate) struct ServeArgs {
    /// Where to listen: an IP address and a port [default: 127.0.0.1:8080]
    ///
    /// With port 0 the system chooses a free one. The server asks nobody for a password: on any
    /// other address than a loopback one, everybody who can reach it can upload.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,

    /// The server's certificate in PEM: it speaks https, TLS 1.2 and 1.3, and nothing else
    ///
    /// The server's own certificate comes first, then those that vouch for it. SIGHUP lets it be
    /// read again, with its key. Without one the server speaks plain HTTP.
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,

    /// The key of the certificate in PEM, not encrypted
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,

    /// Where sessions, resources and media are kept [default: ./windlass-data]
    ///
    /// The directory is made if it does not exist. One server at a time can use it.
    #[arg(long, value_name = "DIRECTORY")]
    data: Option<String>,

    /// An API to serve; may be given more than once [default: farm]
    ///
    /// The name of an API that comes with Windlass (farm, gmail, dfareporting, gamesConfiguration, storage,
    /// drive, youtube), a description in the short form (*.toml), or a discovery document as Google
    /// publishes them (*.json). With @HOST behind it, it answers on this host alone; that is how APIs
    /// with the same paths are served side by side.
    #[arg(long, value_name = "NAME|FILE[@HOST]")]
    api: Vec<String>,

    /// The URL under which clients reach the server, if it is not the one they connect to
    ///
    /// Session URIs and discovery documents are built from it. Without it they follow the Host of
    /// each request, which is right unless a proxy changes it.
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,

    /// Believe what Forwarded and X-Forwarded-* say about the URL that a client used
    ///
    /// Only behind a proxy that overwrites these headers: otherwise any client can choose the URLs
    /// that it is answered with.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    trust_forwarded: Option<String>,

    /// Serve although the file system of the data directory can lose what it has synced
    ///
    /// On tmpfs, NFS, 9p, FUSE and the like an acknowledged upload may be gone after a crash, so
    /// the server refuses to start there.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    allow_unsafe_filesystem: Option<String>,

    /// What to log: off, error, warn, info, debug or trace, or a filter of tracing's
    ///
    /// By default the start, the end and whatever goes wrong. `info` adds a line for each request.
    #[arg(long, value_name = "LEVEL|FILTER")]
    log: Option<String>,

    /// A configuration file in TOML; also `WINDLASS_CONFIG`
    ///
    /// Paths in it are relative to its directory.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Print the whole configuration and where each value comes from, and stop
    ///
    /// The output is a configuration file. Everything is checked, API descriptions and the
    /// certificate too; neither the address nor the data directory is touched.
    #[arg(long)]
    pub(crate) check_config: bool,
}

const SERVE_EXAMPLES: &str = "\
Examples:
  windlass serve
  windlass serve --listen 0.0.0.0:8080 --data /var/lib/windlass --public-url https://up.example.com
  windlass serve --api farm --api ./albums.toml --api ./gmail-v1.json@gmail.example.com
  windlass serve --listen 0.0.0.0:443 --tls-cert chain.pem --tls-key key.pem
  windlass serve --config windlass.toml --check-config

An upload, once the server runs:
  curl -X POST -T cow.jpg -H 'Content-Type: image/jpeg' \\
    'http://127.0.0.1:8080/upload/farm/v1/animals?uploadType=media'";

const SERVE_EXIT_CODES: &str = "\
Exit codes:
  0  the server was asked to stop and has stopped; the configuration is good
  1  it failed while it ran: storage failed, or a second signal cut requests off
  2  the command line, a configuration file, an API description or the certificate is wrong
  3  it cannot start: the address or the data directory is in use or unusable";

impl ServeArgs {
    /// What the flags say about the settings, by the names of the flags.
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
    /// Where `windlass serve` keeps sessions, resources and media; also `WINDLASS_DATA`, and `data` in the
    /// configuration file.
    #[arg(long, value_name = "DIRECTORY")]
    data: Option<String>,

    /// The server's configuration file; also `WINDLASS_CONFIG`
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

impl StoreArgs {
    /// What the flags say about the settings, by the names of the flags.
    pub(crate) fn raw_values(&self) -> Vec<(&'static str, RawValue)> {
        let data = self.data.clone();
        data.map(|data| ("data", RawValue::Text(data)))
            .into_iter()
            .collect()
    }
}

/// Copy all that a data directory holds, while a server uses it.
///
/// The backup is the store of one moment: everything that was acknowledged before the command began is in
/// it. It is durable when the command ends. DEST is made if it does not exist; it is empty, or holds a
/// former backup, of which only what has changed is replaced. Until the new one is complete the former one
/// stays whole.
///
/// To restore it, stop the server and start it with `--data DEST`, or with a copy of DEST. Uploads
/// that were not finished go on from where they were at the moment of the backup, and what came later is
/// sent again.
#[derive(Debug, clap::Args)]
#[command(after_help = BACKUP_EXAMPLES, after_long_help = format!("{BACKUP_EXAMPLES}\n\n{BACKUP_EXIT_CODES}"))]
pub(crate) struct BackupArgs {
    /// The directory of the backup
    #[arg(value_name = "DEST")]
    pub(crate) target: PathBuf,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Print one JSON object a line: what is damaged, and a summary at the end
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
  1  it is not: the store cannot be read, or DEST cannot be written; a former backup is still whole
  2  the command line or the configuration file is wrong
  3  it cannot begin: there is no store, or DEST is no place for a backup
  6  the backup is complete, but media in the store is damaged; `windlass verify` tells more";

/// Check all that a data directory holds, byte by byte.
///
/// Every media is read and compared with its row in the ledger, every row with the others, and the
/// database with itself. What is found is printed, a finding with what to do about it. `damage` is what
/// no crash leaves; `remains` are what a crash does leave, and mostly what the server clears away by itself.
///
/// Nothing is changed without --repair. It may run beside a server that uses the directory.
#[derive(Debug, clap::Args)]
#[command(after_help = VERIFY_EXAMPLES, after_long_help = format!("{VERIFY_EXAMPLES}\n\n{VERIFY_EXIT_CODES}"))]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Mend what can be mended without a risk; no server may use the directory
    ///
    /// Media that nothing names is deleted. Unfinished uploads whose committed bytes are gone or rotten
    /// fail, so that their clients begin anew. Resources are never deleted: their media comes from a
    /// backup, or not at all. Nothing is mended while the ledger itself is damaged.
    #[arg(long)]
    pub(crate) repair: bool,

    /// Print one JSON object a line: the findings, and a summary at the end
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
  0  sound: no damage was found, or all of it is mended
  1  it could not be done to the end: the ledger or the vault cannot be read or written
  2  the command line or the configuration file is wrong
  3  it cannot begin: there is no store, or --repair and a server uses it
  6  damage was found, and is not mended";
