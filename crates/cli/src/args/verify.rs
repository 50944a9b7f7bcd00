//! `windlass verify`.

use super::StoreArgs;

/// Check all that a data directory holds, byte by byte.
///
/// Every media is read and compared with its row in the ledger, every row with the others, and the
/// database with itself. What is found is printed, a finding with what to do about it. `damage` is what
/// no crash leaves; `remains` are what a crash does leave, and mostly what the server clears away by itself.
///
/// Nothing is changed without --repair. It may run beside a server that uses the directory.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
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

const EXAMPLES: &str = "\
Examples:
  windlass verify
  windlass verify --data /var/lib/windlass --json
  windlass verify --data /var/lib/windlass --repair";

const EXIT_CODES: &str = "\
Exit codes:
  0  sound: no damage was found, or all of it is mended
  1  it could not be done to the end: the ledger or the vault cannot be read or written
  2  the command line or the configuration file is wrong
  3  it cannot begin: there is no store, or --repair and a server uses it
  6  damage was found, and is not mended";
