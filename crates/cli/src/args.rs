//! The command line: commands, flags and their help texts.

mod client;
mod server;
mod upload;
mod value;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use url::Url;

pub(crate) use client::{
    CancelArgs, ConnectionArgs, DownloadArgs, JournalArgs, ResumeArgs, StatusArgs, TokenArgs,
    UploadsArgs, VerbosityArgs,
};
pub(crate) use server::{BackupArgs, ServeArgs, StoreArgs, VerifyArgs};
pub(crate) use upload::UploadArgs;
pub(crate) use value::Target;

use value::parse_url;

/// A server and a client for Google's media upload protocol.
///
/// Media goes up in one request, in a multipart request, or in resumable sessions that survive broken
/// connections, crashes and power cuts. `windlass serve` is a server of APIs that take media; the other
/// commands are a client, of this server and of every other one that speaks the protocol: Gmail, Drive,
/// Cloud Storage.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(ServeArgs),
    Backup(BackupArgs),
    Verify(VerifyArgs),
    Upload(UploadArgs),
    Resume(ResumeArgs),
    Uploads(UploadsArgs),
    Status(StatusArgs),
    Cancel(CancelArgs),
    Download(DownloadArgs),
    Discovery(DiscoveryArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
    /// Prints the names that `WINDLASS_FAILPOINT` takes
    #[cfg(feature = "failpoints")]
    #[command(hide = true)]
    Failpoints,
}

const EXAMPLES: &str = "\
Examples:
  windlass serve
  windlass upload cow.jpg http://127.0.0.1:8080/upload/farm/v1/animals
  windlass help upload";

/// Show what an API description says of uploads.
///
/// Prints the methods that take media: where, of what types, how large, and by which upload types. With
/// `--check` it tells all that is wrong with the description and what is odd about it; with `--json`
/// it prints the discovery document that clients are served.
#[derive(Debug, clap::Args)]
#[command(after_help = DISCOVERY_EXAMPLES, after_long_help = format!("{DISCOVERY_EXAMPLES}\n\n{DISCOVERY_EXIT_CODES}"))]
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

const DISCOVERY_EXAMPLES: &str = "\
Examples:
  windlass discovery farm
  windlass discovery zoo.toml --check
  windlass discovery zoo.toml --json > zoo.json";

const DISCOVERY_EXIT_CODES: &str = "\
Exit codes:
  0  done; with --check, nothing is wrong or only odd
  1  the description cannot be used, or output is full
  2  the command line is wrong
  3  the description cannot be read";

/// Print a script that completes command lines of windlass in a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  windlass completions bash > ~/.local/share/bash-completion/completions/windlass
  windlass completions zsh > ~/.zfunc/_windlass
  windlass completions fish > ~/.config/fish/completions/windlass.fish";

/// Write the manual pages.
///
/// One for each command, windlass-upload.1 and so on, and windlass.1.
#[derive(Debug, clap::Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(crate) struct ManArgs {
    /// Where to; made if it does not exist [default: windlass.1 to standard output]
    #[arg(value_name = "DIRECTORY")]
    pub(crate) directory: Option<PathBuf>,
}

const MAN_EXAMPLES: &str = "\
Examples:
  windlass man ~/.local/share/man/man1
  windlass man | man -l -";

#[cfg(test)]
mod tests;
