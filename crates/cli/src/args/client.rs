//! The commands of the client other than `upload`, and the flags that commands share.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use super::value::{Rate, Target, parse_duration, parse_url};
use crate::exit;

/// Authentication.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Reaching the server")]
pub(crate) struct TokenArgs {
    /// The source of the bearer token: `env:NAME`, `file:PATH`, `cmd:COMMAND` or `google`; also
    /// `WINDLASS_TOKEN`
    ///
    /// `env:NAME` reads an environment variable, `file:PATH` reads a file, `cmd:COMMAND` runs a
    /// command, and `google` uses Google's Application Default Credentials. An expired token is
    /// fetched again. The token is sent only to the server of the URL. A token itself is not
    /// accepted here, because other users of the machine can read command lines.
    #[arg(long, value_name = "SOURCE")]
    pub(crate) token: Option<String>,
}

/// Authentication, retries and timeout.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Reaching the server")]
pub(crate) struct ConnectionArgs {
    #[command(flatten)]
    pub(crate) token: TokenArgs,

    /// How many times in a row to wait and retry after a failure [default: 5]
    ///
    /// The waits double from 1 second to 32 seconds, so five of them take about half a minute. The
    /// count starts again when bytes have been committed.
    #[arg(long, value_name = "COUNT")]
    pub(crate) retries: Option<u32>,

    /// The time limit, for example 90s or 2h [default: none]
    ///
    /// It applies to each upload or download separately and includes waits.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
}

/// Concurrency, rate limit and verification of uploads.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct TransferArgs {
    /// The number of concurrent uploads
    #[arg(long, value_name = "COUNT", default_value = "3")]
    pub(crate) concurrency: NonZeroUsize,

    /// The limit in bytes per second for all uploads together: 256K, 10MB/s
    #[arg(long, value_name = "RATE")]
    pub(crate) max_rate: Option<Rate>,

    /// Do not compare the size and checksums that the server reports with the sent media
    #[arg(long)]
    pub(crate) no_verify: bool,
}

/// The journal of unfinished uploads.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Unfinished uploads")]
pub(crate) struct JournalArgs {
    /// The directory that records unfinished uploads; also `WINDLASS_JOURNAL` [default:
    /// ~/.local/state/windlass/uploads]
    ///
    /// The directory is created, readable only by its owner, if it does not exist: its records
    /// allow anyone to continue the uploads. The default is below `$XDG_STATE_HOME` if that is set.
    /// If the default directory cannot be used, uploads run without a journal.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) journal: Option<PathBuf>,
}

/// What is printed, and in which form.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct VerbosityArgs {
    /// Print events on standard output, one JSON object per line
    ///
    /// `progress` at each change of state and at most once a second, then `uploaded`, `downloaded`
    /// or `failed`. docs/cli.md describes the fields.
    #[arg(long)]
    pub(crate) json: bool,

    /// Print only errors to standard error
    ///
    /// Data on standard output is still printed.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Continue unfinished uploads.
///
/// Asks the server how many bytes it has and sends the rest. The file must be unchanged: its size,
/// modification time, and first and last bytes are compared. `windlass uploads` lists unfinished
/// uploads.
#[derive(Debug, clap::Args)]
#[command(after_help = RESUME_EXAMPLES, after_long_help = format!("{RESUME_EXAMPLES}\n\n{}", exit::CODES))]
pub(crate) struct ResumeArgs {
    /// The id of the upload, or the beginning of it [default: the only one]
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,

    /// Continue all unfinished uploads
    #[arg(long, conflicts_with = "id")]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) transfer: TransferArgs,

    #[command(flatten)]
    pub(crate) journal: JournalArgs,

    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

const RESUME_EXAMPLES: &str = "\
Examples:
  windlass resume
  windlass resume mzxw
  windlass resume --all --max-rate 1M";

/// List unfinished uploads.
///
/// Lists the records of the local journal without asking any server. `windlass status` asks the
/// servers.
#[derive(Debug, clap::Args)]
#[command(after_help = UPLOADS_EXAMPLES, after_long_help = format!("{UPLOADS_EXAMPLES}\n\n{}", exit::CODES))]
pub(crate) struct UploadsArgs {
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) journal: JournalArgs,
}

const UPLOADS_EXAMPLES: &str = "\
Examples:
  windlass uploads
  windlass uploads --json | jq -r .id";

/// Ask the server for the state of uploads.
///
/// Neither the uploads nor the journal are changed. The exit code is 1 if a session is lost or
/// cancelled.
#[derive(Debug, clap::Args)]
#[command(after_help = STATUS_EXAMPLES, after_long_help = format!("{STATUS_EXAMPLES}\n\n{}", exit::CODES))]
pub(crate) struct StatusArgs {
    /// The id of an upload in the journal, the beginning of it, or a session URI [default: all of
    /// the journal]
    ///
    /// A session URI is a credential: anyone who reads it in a list of processes or in a shell
    /// history can upload to it.
    #[arg(value_name = "ID|SESSION_URI")]
    pub(crate) target: Option<Target>,

    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) journal: JournalArgs,

    #[command(flatten)]
    pub(crate) token: TokenArgs,
}

const STATUS_EXAMPLES: &str = "\
Examples:
  windlass status
  windlass status mzxw";

/// Cancel an upload.
///
/// The server is asked to delete the session, and the record is removed from the journal. A
/// finished session cannot be cancelled: its media belongs to a resource.
#[derive(Debug, clap::Args)]
#[command(after_help = CANCEL_EXAMPLES, after_long_help = format!("{CANCEL_EXAMPLES}\n\n{}", exit::CODES))]
pub(crate) struct CancelArgs {
    /// The id of an upload in the journal, the beginning of it, or a session URI
    ///
    /// A session URI is a credential: anyone who reads it in a list of processes or in a shell
    /// history can upload to it.
    #[arg(value_name = "ID|SESSION_URI")]
    pub(crate) target: Target,

    /// Only remove the record from the journal; the session stays at the server until it expires
    #[arg(long)]
    pub(crate) forget: bool,

    #[command(flatten)]
    pub(crate) journal: JournalArgs,

    #[command(flatten)]
    pub(crate) token: TokenArgs,
}

const CANCEL_EXAMPLES: &str = "\
Examples:
  windlass cancel mzxw6ytb
  windlass cancel mzxw6ytb --forget";

/// Download the media of a resource.
///
/// The media is written to FILE.part and renamed when it is complete. If the server reports a
/// CRC32C, the file is renamed only if the checksum matches. The same command, run again, continues
/// a partial download of the same media.
#[derive(Debug, clap::Args)]
#[command(after_help = DOWNLOAD_EXAMPLES, after_long_help = format!("{DOWNLOAD_EXAMPLES}\n\n{}", exit::CODES))]
pub(crate) struct DownloadArgs {
    /// The URL of the resource
    ///
    /// `alt=media` is added unless the URL has an `alt` parameter: without it, an API returns the
    /// resource instead of its media.
    #[arg(value_parser = parse_url)]
    pub(crate) url: Url,

    /// The file to write [default: the last segment of the URL's path, in the current directory]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Replace the file if it exists
    #[arg(long)]
    pub(crate) overwrite: bool,

    /// Use the URL as given, without adding `alt=media`
    #[arg(long)]
    pub(crate) exact_url: bool,

    /// The limit in bytes per second: 256K, 10MB/s
    #[arg(long, value_name = "RATE")]
    pub(crate) max_rate: Option<Rate>,

    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

const DOWNLOAD_EXAMPLES: &str = "\
Examples:
  windlass download http://127.0.0.1:8080/farm/v1/animals/17 -o cow.jpg
  windlass download --exact-url https://files.example.com/herd.tar";
