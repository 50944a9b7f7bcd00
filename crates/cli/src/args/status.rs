//! `windlass status`.

use super::value::Target;
use super::{JournalArgs, TokenArgs};
use crate::exit;

/// Ask the server how far uploads are.
///
/// The uploads are not disturbed, and the journal is left as it is. The exit code is 1 if a session is
/// lost or cancelled.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{}", exit::CODES))]
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

const EXAMPLES: &str = "\
Examples:
  windlass status
  windlass status mzxw";
