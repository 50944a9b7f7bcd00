//! `windlass backup`.

use std::path::PathBuf;

use super::StoreArgs;

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
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
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

const EXAMPLES: &str = "\
Examples:
  windlass backup /mnt/backup/windlass
  windlass backup --data /var/lib/windlass /mnt/backup/windlass
  windlass verify --data /mnt/backup/windlass";

const EXIT_CODES: &str = "\
Exit codes:
  0  the backup is complete
  1  it is not: the store cannot be read, or DEST cannot be written; a former backup is still whole
  2  the command line or the configuration file is wrong
  3  it cannot begin: there is no store, or DEST is no place for a backup
  6  the backup is complete, but media in the store is damaged; `windlass verify` tells more";
