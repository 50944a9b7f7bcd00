//! `windlass cancel`.

use super::value::Target;
use super::{JournalArgs, TokenArgs};
use crate::exit;

/// Give up an upload.
///
/// The server is asked to delete what it has, and the journal forgets the upload. A session that is
/// finished cannot be cancelled: its media has become a resource.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{}", exit::CODES))]
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

const EXAMPLES: &str = "\
Examples:
  windlass cancel mzxw6ytb
  windlass cancel mzxw6ytb --forget";
