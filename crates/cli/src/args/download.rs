//! `windlass download`.

use std::path::PathBuf;

use url::Url;

use super::value::{Rate, parse_url};
use super::{ConnectionArgs, VerbosityArgs};
use crate::exit;

/// Download the media of a resource.
///
/// It is written to FILE.part first, and gets its name when it is complete and, where the server states
/// a CRC32C, when that is the one of what has come. Run again, the command goes on with what is there of
/// the same media.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{}", exit::CODES))]
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

const EXAMPLES: &str = "\
Examples:
  windlass download http://127.0.0.1:8080/farm/v1/animals/17 -o cow.jpg
  windlass download --exact-url https://files.example.com/herd.tar";
