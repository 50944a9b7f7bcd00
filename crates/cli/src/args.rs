//! What can be typed, a room for each command. Their help is written here too: it is what most people
//! read.

use clap::{Parser, Subcommand};

mod backup;
mod cancel;
mod common;
mod completions;
mod discovery;
mod download;
mod man;
mod resume;
mod serve;
mod status;
mod store;
mod upload;
mod uploads;
mod value;
mod verify;

pub(crate) use backup::BackupArgs;
pub(crate) use cancel::CancelArgs;
pub(crate) use common::{ConnectionArgs, JournalArgs, TokenArgs, TransferArgs, VerbosityArgs};
pub(crate) use completions::CompletionsArgs;
pub(crate) use discovery::DiscoveryArgs;
pub(crate) use download::DownloadArgs;
pub(crate) use man::ManArgs;
pub(crate) use resume::ResumeArgs;
pub(crate) use serve::ServeArgs;
pub(crate) use status::StatusArgs;
pub(crate) use store::StoreArgs;
pub(crate) use upload::UploadArgs;
pub(crate) use uploads::UploadsArgs;
pub(crate) use value::Target;
pub(crate) use verify::VerifyArgs;

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

#[cfg(test)]
mod tests;
