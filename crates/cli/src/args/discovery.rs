//! `windlass discovery`.

use url::Url;

use super::value::parse_url;

/// Show what an API description says of uploads.
///
/// Prints the methods that take media: where, of what types, how large, and by which upload types. With
/// `--check` it tells all that is wrong with the description and what is odd about it; with `--json`
/// it prints the discovery document that clients are served.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{CODES}"))]
pub(crate) struct DiscoveryArgs {
    /// A discovery document (.json), a file in the short form (.toml), the name of a built-in API, or - for
    /// either form on standard input
    #[arg(value_name = "FILE|NAME")]
    pub(crate) description: String,

    /// Check the description: one finding a line
    ///
    /// An error makes the description unusable; the exit code is 1 then. A warning does not.
    #[arg(long)]
    pub(crate) check: bool,

    /// Print the discovery document; with --check, one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,

    /// Where clients of the printed document find the server
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080", value_parser = parse_url)]
    pub(crate) root_url: Url,
}

const EXAMPLES: &str = "\
Examples:
  windlass discovery farm
  windlass discovery zoo.toml --check
  windlass discovery zoo.toml --json > zoo.json";

const CODES: &str = "\
Exit codes:
  0  done; with --check, nothing is wrong or only odd
  1  the description cannot be used, or output is full
  2  the command line is wrong
  3  the description cannot be read";
