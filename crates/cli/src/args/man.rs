//! `windlass man`.

use std::path::PathBuf;

/// Write the manual pages.
///
/// One for each command, windlass-upload.1 and so on, and windlass.1.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ManArgs {
    /// Where to; made if it does not exist [default: windlass.1 to standard output]
    #[arg(value_name = "DIRECTORY")]
    pub(crate) directory: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  windlass man ~/.local/share/man/man1
  windlass man | man -l -";
