//! `windlass resume`.

use super::{ConnectionArgs, JournalArgs, TransferArgs, VerbosityArgs};
use crate::exit;

/// Carry on with unfinished uploads.
///
/// The server is asked how much it has, and the rest is sent. The file must be the one that the upload
/// began with: size, time of modification and the bytes at both ends are compared. `windlass uploads`
/// shows what there is.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{}", exit::CODES))]
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

const EXAMPLES: &str = "\
Examples:
  windlass resume
  windlass resume mzxw
  windlass resume --all --max-rate 1M";
