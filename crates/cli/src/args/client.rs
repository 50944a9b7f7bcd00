//! The commands of the client other than `upload`, and the flags that commands share.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use super::value::{Rate, Target, parse_duration, parse_url};
use crate::exit;

/// What a server is told of who asks.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Reaching the server")]
pub(crate) struct TokenArgs {
    /// Where the bearer token comes from: `env:NAME`, `file:PATH`, `cmd:COMMAND` or `google`; also
    /// `WINDLASS_TOKEN`
    ///
    /// `env:NAME` takes a variable, `file:PATH` reads a file, `cmd:COMMAND` runs a command, and `google`
    /// looks where Google's own tools look. A token that has expired is fetched again. It goes to the
    /// server of the URL and to no other. A token itself is refused here: everybody can read the command
    /// lines of others.
    #[arg(long, value_name = "SOURCE")]
    pub(crate) token: Option<String>,
}

/// How a server is reached, and how patiently.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Reaching the server")]
pub(crate) struct ConnectionArgs {
    #[command(flatten)]
    pub(crate) token: TokenArgs,

    /// How often to wait and try again when nothing gets through [default: 5]
    ///
    /// The waits double from one second up to 32, so five of them take about half a minute. Whenever
    /// something was committed, the count begins anew.
    #[arg(long, value_name = "COUNT")]
    pub(crate) retries: Option<u32>,

    /// How long it may take in all, for instance 90s or 2h [default: as long as it takes]
    ///
    /// For each upload or download of its own, waits included.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
}

/// How uploads are sent, and checked at their end.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct TransferArgs {
    /// How many uploads run at once
    #[arg(long, value_name = "COUNT", default_value = "3")]
    pub(crate) concurrency: NonZeroUsize,

    /// Send no more than this in a second, all uploads together: 256K, 10MB/s
    #[arg(long, value_name = "RATE")]
    pub(crate) max_rate: Option<Rate>,

    /// Do not compare what the server says of the media with what was sent
    #[arg(long)]
    pub(crate) no_verify: bool,
}

/// Where unfinished uploads are remembered.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Unfinished uploads")]
pub(crate) struct JournalArgs {
    /// Where unfinished uploads are remembered; also `WINDLASS_JOURNAL` [default: ~/.local/state/windlass/uploads]
    ///
    /// The directory is made if it does not exist, for its owner alone: what is in there allows to go on
    /// with uploads. By default it is in `$XDG_STATE_HOME`, if that is set; an upload goes on without the
    /// default one, if it cannot be used.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) journal: Option<PathBuf>,
}

/// What is said, and how.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct VerbosityArgs {
    /// Print events on standard output, one JSON object a line
    ///
    /// `progress` at every change of state and once a second at most, then `uploaded` or `downloaded`, or
    /// `failed`. docs/cli.md describes their fields.
    #[arg(long)]
    pub(crate) json: bool,

    /// Say nothing but what goes wrong
    ///
    /// Data on standard output stays.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Carry on with unfinished uploads.
///
/// The server is asked how much it has, and the rest is sent. The file must be the one that the upload
/// began with: size, time of modification and the bytes at both ends are compared. `windlass uploads`
/// shows what there is.
#[derive(Debug, clap::Args)]
#[command(after_help = RESUME_EXAMPLES, after_long_help = format!("{RESUME_EXAMPLES}\n\n{}", exit::CODES))]
pub(crate) struct ResumeArgs {
    /// The upload, or the beginning of its id [default: the only one]
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,

    /// All unfinished uploads
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

/// List the unfinished uploads.
///
/// What this machine remembers of them: no server is asked. `windlass status` does that.
#[derive(Debug, clap::Args)]
#[command(after_help = UPLOADS_EXAMPLES, after_long_help = format!("{UPLOADS_EXAMPLES}\n\n{}", exit::CODES))]
pub(crate) struct UploadsArgs {
    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) journal: JournalArgs,
}

const UPLOADS_EXAMPLES: &str = "\
Examples:
  windlass uploads
  windlass uploads --json | jq -r .id";

/// Ask the server how far uploads are.
///
/// The uploads are not disturbed, and the journal is left as it is. The exit code is 1 if a session is
/// lost or cancelled.
#[derive(Debug, clap::Args)]
#[command(after_help = STATUS_EXAMPLES, after_long_help = format!("{STATUS_EXAMPLES}\n\n{}", exit::CODES))]
pub(crate) struct StatusArgs {
    /// An upload of the journal, the beginning of its id, or a session URI [default: all of the journal]
    ///
    /// A session URI is a credential: whoever reads it in a list of processes or in the history of a
    /// shell can upload to it.
    #[arg(value_name = "ID|SESSION_URI")]
    pub(crate) target: Option<Target>,

    /// Print one JSON object a line
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

/// Give up an upload.
///
/// The server is asked to delete what it has, and the journal forgets the upload. A session that is
/// finished cannot be cancelled: its media has become a resource.
#[derive(Debug, clap::Args)]
#[command(after_help = CANCEL_EXAMPLES, after_long_help = format!("{CANCEL_EXAMPLES}\n\n{}", exit::CODES))]
pub(crate) struct CancelArgs {
    /// An upload of the journal, the beginning of its id, or a session URI
    ///
    /// A session URI is a credential: whoever reads it in a list of processes or in the history of a
    /// shell can upload to it.
    #[arg(value_name = "ID|SESSION_URI")]
    pub(crate) target: Target,

    /// Only forget the upload: the server is not asked, and lets the session expire
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
/// It is written to FILE.part first, and gets its name when it is complete and, where the server states
/// a CRC32C, when that is the one of what has come. Run again, the command goes on with what is there of
/// the same media.
#[derive(Debug, clap::Args)]
#[command(after_help = DOWNLOAD_EXAMPLES, after_long_help = format!("{DOWNLOAD_EXAMPLES}\n\n{}", exit::CODES))]
pub(crate) struct DownloadArgs {
    /// The URL of the resource
    ///
    /// `alt=media` is added to it unless it has an `alt`: without it an API answers with the resource and
    /// not with its media.
    #[arg(value_parser = parse_url)]
    pub(crate) url: Url,

    /// Where to [default: the last part of the URL's path, in this directory]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Replace the file if it exists
    #[arg(long)]
    pub(crate) overwrite: bool,

    /// Take the URL as it is, and add nothing to it
    #[arg(long)]
    pub(crate) exact_url: bool,

    /// Receive no more than this in a second: 256K, 10MB/s
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
