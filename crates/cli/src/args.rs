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
/// Media is uploaded in one request, in a multipart request, or in a resumable session that
/// survives broken connections, crashes and power cuts. `windlass serve` serves APIs with upload
/// methods. The other commands are a client for this server and for every server that implements
/// the protocol, such as Gmail, Drive and Cloud Storage.
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
    /// Print the names that `WINDLASS_FAILPOINT` accepts
    #[cfg(feature = "failpoints")]
    #[command(hide = true)]
    Failpoints,
}

const EXAMPLES: &str = "\
Examples:
  windlass serve
  windlass upload cow.jpg http://127.0.0.1:8080/upload/farm/v1/animals
  windlass help upload";

/// Show the upload methods of an API description.
///
/// Prints the methods that take media with their paths, accepted types, size limits and upload
/// types. `--check` reports all errors and warnings of the description. `--json` prints the
/// discovery document that the server would serve to clients.
#[derive(Debug, clap::Args)]
#[command(after_help = DISCOVERY_EXAMPLES, after_long_help = format!("{DISCOVERY_EXAMPLES}\n\n{DISCOVERY_EXIT_CODES}"))]
pub(crate) struct DiscoveryArgs {
    /// A discovery document (.json), a file in the short form (.toml), the name of a built-in API,
    /// or - for either form on standard input
    #[arg(value_name = "FILE|NAME")]
    pub(crate) description: String,

    /// Check the description and print one finding per line
    ///
    /// The exit code is 1 if there are errors. Warnings do not change it.
    #[arg(long)]
    pub(crate) check: bool,

    /// Print the discovery document; with --check, print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,

    /// The URL of the server in the printed document
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
  0  done; with --check, there are no errors
  1  the description cannot be used, or the output could not be written
  2  the command line is wrong
  3  the description cannot be read";

/// Print a shell completion script.
#[derive(Debug, clap::Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell to complete for
    pub(crate) shell: Shell,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  windlass completions bash > ~/.local/share/bash-completion/completions/windlass
  windlass completions zsh > ~/.zfunc/_windlass
  windlass completions fish > ~/.config/fish/completions/windlass.fish";

/// Write the manual pages.
///
/// Writes windlass.1 and a page for each command, such as windlass-upload.1.
#[derive(Debug, clap::Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(crate) struct ManArgs {
    /// The directory to write to, created if needed [default: print windlass.1]
    #[arg(value_name = "DIRECTORY")]
    pub(crate) directory: Option<PathBuf>,
}

const MAN_EXAMPLES: &str = "\
Examples:
  windlass man ~/.local/share/man/man1
  windlass man | man -l -";

#[cfg(test)]
mod tests;
