//! The commands of the tool, and the parts that they share.

mod discovery;
mod download;
mod generate;
mod hints;
mod journal;
mod serve;
mod setup;
mod store;
mod transfers;
mod upload;

use std::io;
use std::path::PathBuf;

use thiserror::Error as ThisError;
use windlass_client::{InvalidTokenSource, JournalError, RecordId};
use windlass_store_local::backup::BackupError;
use windlass_store_local::verify::VerifyError;

use crate::args::Command;
use crate::exit::Code;
use crate::settings;

/// Runs a command and returns its exit code.
pub(crate) fn run(command: Command) -> Result<Code, Error> {
    match command {
        Command::Serve(args) => {
            serve::run(&args)?;
            Ok(Code::Success)
        }
        Command::Backup(args) => store::run_backup(&args),
        Command::Verify(args) => store::run_verify(&args),
        Command::Upload(args) => setup::block_on(upload::run_upload(args)),
        Command::Resume(args) => setup::block_on(upload::run_resume(args)),
        Command::Uploads(args) => journal::run_uploads(&args),
        Command::Status(args) => setup::block_on(journal::run_status(args)),
        Command::Cancel(args) => setup::block_on(journal::run_cancel(args)),
        Command::Download(args) => setup::block_on(download::run(args)),
        Command::Discovery(args) => Ok(discovery::run(&args)?),
        Command::Completions(args) => {
            generate::completions(&args);
            Ok(Code::Success)
        }
        Command::Man(args) => generate::man(&args),
        #[cfg(feature = "failpoints")]
        Command::Failpoints => {
            serve::list_failpoints();
            Ok(Code::Success)
        }
    }
}

/// An error that ends a command before it does anything, with a hint and an exit code. The error of
/// one of several uploads is reported where it occurs.
#[derive(Debug, ThisError)]
pub(crate) enum Error {
    #[error(transparent)]
    Serve(#[from] serve::Error),
    #[error(transparent)]
    Settings(#[from] settings::Error),
    #[error(transparent)]
    Verify(#[from] VerifyError),
    #[error(transparent)]
    Backup(#[from] BackupError),
    #[error(transparent)]
    Discovery(#[from] discovery::Error),
    #[error("cannot start threads")]
    Runtime(#[source] io::Error),
    #[error("cannot catch signals")]
    Signals(#[source] io::Error),
    #[error(transparent)]
    Client(#[from] windlass_client::Error),
    #[error(transparent)]
    Token(#[from] InvalidTokenSource),
    #[error("`{variable}` is not Unicode")]
    NotUnicode { variable: &'static str },
    #[error("there is no home directory for the journal of unfinished uploads")]
    NoHome,
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("cannot read the metadata in {}", path.display())]
    MetadataFile { path: PathBuf, source: io::Error },
    #[error("the metadata is not JSON")]
    MetadataNotJson(#[source] serde_json::Error),
    #[error("standard input can be given only once")]
    StdinTwice,
    #[error("chunks of standard input are kept in memory: --chunk-size is 1G at most for it")]
    ChunkOfStdin,
    #[error("there is no unfinished upload with the id {text}")]
    NoSuchUpload { text: String },
    #[error(
        "the ids of several unfinished uploads begin with {text}: {}",
        listed(found)
    )]
    Ambiguous { text: String, found: Vec<RecordId> },
    #[error("there are {count} unfinished uploads; which one?")]
    Several { count: usize },
    #[error("the record of {id} cannot be used")]
    Damaged {
        id: RecordId,
        source: windlass_client::Damage,
    },
    #[error("cannot write to {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("downloads to standard output are not supported")]
    ToStdout,
    #[error("the URL does not end in a file name")]
    NoName,
}

impl Error {
    /// Returns the exit code of the process.
    pub(crate) fn exit_code(&self) -> Code {
        match self {
            Self::Serve(error) => error.exit_code(),
            Self::Discovery(error) => error.exit_code(),
            Self::Verify(error) => store::verify_exit_code(error),
            Self::Backup(error) => store::backup_exit_code(error),
            Self::Client(error) => hints::exit_code(error),
            Self::Settings(_)
            | Self::Token(_)
            | Self::NotUnicode { .. }
            | Self::MetadataNotJson(_)
            | Self::StdinTwice
            | Self::ChunkOfStdin
            | Self::NoSuchUpload { .. }
            | Self::Ambiguous { .. }
            | Self::Several { .. }
            | Self::ToStdout
            | Self::NoName => Code::Usage,
            Self::Runtime(_)
            | Self::Signals(_)
            | Self::NoHome
            | Self::Journal(_)
            | Self::MetadataFile { .. }
            | Self::Damaged { .. }
            | Self::Write { .. } => Code::CannotBegin,
        }
    }

    /// Returns a hint for the user.
    pub(crate) fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Serve(error) => return error.hint(),
            Self::Discovery(error) => return error.hint(),
            Self::Settings(error) => return error.hint(),
            Self::Verify(error) => return store::verify_hint(error).map(str::to_owned),
            Self::Backup(error) => return store::backup_hint(error).map(str::to_owned),
            Self::Client(error) => return hints::hint(error, hints::HintContext::default()),
            Self::NoHome => {
                "choose a directory with --journal, or upload without a journal with --no-journal"
            }
            Self::Damaged { id, source } => return journal::damage_hint(id, source),
            Self::Journal(error) => return hints::journal_hint(error).map(str::to_owned),
            Self::MetadataNotJson(_) => {
                "metadata is a JSON object, as in --metadata '{\"name\": \"Bella\"}', or @FILE"
            }
            Self::NoSuchUpload { .. } => "`windlass uploads` lists the unfinished uploads",
            Self::Ambiguous { .. } => "give more characters of the id",
            Self::Several { .. } => "give one of the ids above, or --all to continue all of them",
            Self::ToStdout => {
                "output cannot be withdrawn when its checksum proves wrong; use -o FILE"
            }
            Self::NoName => "give a file name with -o FILE",
            Self::Runtime(_)
            | Self::Signals(_)
            | Self::Token(_)
            | Self::NotUnicode { .. }
            | Self::MetadataFile { .. }
            | Self::StdinTwice
            | Self::ChunkOfStdin
            | Self::Write { .. } => return None,
        };
        Some(hint.to_owned())
    }
}

fn listed(ids: &[RecordId]) -> String {
    let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
    ids.join(", ")
}
