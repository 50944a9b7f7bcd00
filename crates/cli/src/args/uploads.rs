//! `windlass uploads`.

use super::JournalArgs;
use crate::exit;

/// List the unfinished uploads.
///
/// What this machine remembers of them: no server is asked. `windlass status` does that.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{}", exit::CODES))]
pub(crate) struct UploadsArgs {
    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) journal: JournalArgs,
}

const EXAMPLES: &str = "\
Examples:
  windlass uploads
  windlass uploads --json | jq -r .id";
