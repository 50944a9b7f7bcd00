//! The flags that commands have in common: how the server is reached, where unfinished uploads are
//! remembered, what is said.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::value::Rate;

/// What a server is told of who asks.
#[derive(Debug, Clone, Default, Args)]
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
#[derive(Debug, Clone, Default, Args)]
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
    #[arg(long, value_name = "DURATION", value_parser = super::value::parse_duration)]
    pub(crate) timeout: Option<Duration>,
}

/// How uploads are sent, and checked at their end.
#[derive(Debug, Clone, Copy, Args)]
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
#[derive(Debug, Clone, Default, Args)]
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
#[derive(Debug, Clone, Copy, Default, Args)]
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
