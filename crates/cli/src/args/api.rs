//! `windlass api` and its commands.

use std::path::PathBuf;

use clap::Subcommand;
use url::Url;

use super::parse_url;

/// Begin, check and show descriptions of APIs.
///
/// A description is a discovery document as published by Google (*.json), or the short form
/// (*.toml).
#[derive(Debug, clap::Args)]
pub(crate) struct ApiArgs {
    #[command(subcommand)]
    pub(crate) command: ApiCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApiCommand {
    New(ApiNewArgs),
    Check(ApiCheckArgs),
    Show(ApiShowArgs),
}

/// Write a description in the short form to begin with.
///
/// The file has a comment for each key, and works as it is.
#[derive(Debug, clap::Args)]
#[command(after_help = NEW_EXAMPLES, after_long_help = format!("{NEW_EXAMPLES}\n\n{NEW_EXIT_CODES}"))]
pub(crate) struct ApiNewArgs {
    /// The name of the API, for example album
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// The file to write, or - for standard output [default: NAME.toml]
    ///
    /// A file that is there already is not changed.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

const NEW_EXAMPLES: &str = "\
Examples:
  windlass api new album
  windlass serve --api album.toml";

const NEW_EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  the output could not be written
  2  the command line is wrong
  3  the file is there already, or cannot be written";

/// Tell all that is wrong with a description.
///
/// Prints every error and warning with its line, its column, and what to write instead where that
/// is known.
#[derive(Debug, clap::Args)]
#[command(after_help = CHECK_EXAMPLES, after_long_help = format!("{CHECK_EXAMPLES}\n\n{CHECK_EXIT_CODES}"))]
pub(crate) struct ApiCheckArgs {
    /// A discovery document (.json), a file in the short form (.toml), the name of a built-in API,
    /// or - for either form on standard input
    #[arg(value_name = "FILE|NAME")]
    pub(crate) description: String,

    /// Compare the resources in this data directory with the description, too
    ///
    /// Each rule that some of them do not fit is an error. A server may use the directory
    /// meanwhile. For descriptions in the short form.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) data: Option<PathBuf>,

    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

const CHECK_EXAMPLES: &str = "\
Examples:
  windlass api check album.toml
  windlass api check album.toml --data windlass-data
  windlass api check drive.json --json";

const CHECK_EXIT_CODES: &str = "\
Exit codes:
  0  there are no errors; there may be warnings
  1  there are errors, or the output could not be written
  2  the command line is wrong
  3  the description or the data directory cannot be read";

/// Show the methods of a description.
///
/// Prints the methods that take media with their paths, accepted types, size limits and upload
/// types, the other methods, and a command line that uploads a file. `--json` prints the discovery
/// document that the server would serve to clients, `--openapi` its OpenAPI document.
#[derive(Debug, clap::Args)]
#[command(after_help = SHOW_EXAMPLES, after_long_help = format!("{SHOW_EXAMPLES}\n\n{SHOW_EXIT_CODES}"))]
pub(crate) struct ApiShowArgs {
    /// A discovery document (.json), a file in the short form (.toml), the name of a built-in API,
    /// or - for either form on standard input
    #[arg(value_name = "FILE|NAME")]
    pub(crate) description: String,

    /// Print the discovery document
    #[arg(long, conflicts_with = "openapi")]
    pub(crate) json: bool,

    /// Print the API as an OpenAPI 3.1 document
    #[arg(long)]
    pub(crate) openapi: bool,

    /// The URL of the server, for the document and the command line
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080", value_parser = parse_url)]
    pub(crate) root_url: Url,
}

const SHOW_EXAMPLES: &str = "\
Examples:
  windlass api show farm
  windlass api show album.toml --json > album.json
  windlass api show album.toml --openapi > openapi.json";

const SHOW_EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  the description cannot be used, or the output could not be written
  2  the command line is wrong
  3  the description cannot be read";
