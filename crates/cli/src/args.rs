//! The command line: commands, flags and their help texts.

mod client;
mod server;

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use thiserror::Error;
use url::Url;
use windlass_client::{InvalidSessionUri, SessionUri};
use windlass_discovery::ByteSize;
use windlass_discovery::byte_size::ByteSizeError;

pub(crate) use client::{
    CancelArgs, ConnectionArgs, DownloadArgs, JournalArgs, ResumeArgs, StatusArgs, TokenArgs,
    UploadArgs, UploadsArgs, VerbosityArgs,
};
pub(crate) use server::{BackupArgs, ServeArgs, StoreArgs, VerifyArgs};

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

/// Bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate(pub(crate) NonZeroU64);

/// The target of a command: an upload in the journal, or a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// An id, or its beginning.
    Id(String),
    /// A session URI.
    Session(SessionUri),
}

/// Error for a text that is not a rate.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum NotARate {
    #[error("{0}; a rate is written 256K or 10MB/s")]
    Size(ByteSizeError),
    #[error("a rate must be more than 0 bytes per second")]
    Zero,
}

/// Error for a text that is not a URL of a web server.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum NotAUrl {
    #[error("not a URL; a URL begins with http:// or https://")]
    Syntax,
    #[error("the scheme `{scheme}` is not supported; a URL begins with http:// or https://")]
    Scheme { scheme: String },
}

impl FromStr for Rate {
    type Err = NotARate;

    fn from_str(text: &str) -> Result<Self, NotARate> {
        let size = text.trim().trim_end_matches("/s");
        let bytes = parse_size(size).map_err(NotARate::Size)?;
        NonZeroU64::new(bytes).map(Self).ok_or(NotARate::Zero)
    }
}

impl FromStr for Target {
    type Err = InvalidSessionUri;

    fn from_str(text: &str) -> Result<Self, InvalidSessionUri> {
        if text.contains(':') {
            text.parse().map(Self::Session)
        } else {
            Ok(Self::Id(text.to_owned()))
        }
    }
}

/// Parses a size; `K` means `KB`.
fn parse_size(text: &str) -> Result<u64, ByteSizeError> {
    let is_short = text.ends_with(|last: char| "KMGTkmgt".contains(last));
    let text = if is_short {
        format!("{text}B")
    } else {
        text.to_owned()
    };
    text.parse().map(ByteSize::bytes)
}

/// Parses the URL of a web server.
fn parse_url(text: &str) -> Result<Url, NotAUrl> {
    let url = Url::parse(text).map_err(|_| NotAUrl::Syntax)?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        scheme => Err(NotAUrl::Scheme {
            scheme: scheme.to_owned(),
        }),
    }
}

/// Parses a duration such as `90s` or `5m`.
fn parse_duration(text: &str) -> Result<Duration, humantime::DurationError> {
    humantime::parse_duration(text)
}

#[cfg(test)]
mod tests;
