//! The commands, a room each, and what those of the client have in common.

mod backup;
mod cancel;
mod completions;
mod connection;
mod discovery;
mod download;
mod error;
#[cfg(feature = "failpoints")]
mod failpoints;
mod hints;
mod journal;
mod man;
mod resume;
mod resume_command;
mod serve;
mod signals;
mod status;
mod store;
mod transfers;
mod upload;
mod uploads;
mod verify;
mod warnings;

use crate::args::Command;
use crate::exit::Code;

pub(crate) use error::Error;

/// Does what was asked for.
pub(crate) fn run(command: Command) -> Result<Code, Error> {
    match command {
        Command::Serve(args) => {
            serve::run(&args)?;
            Ok(Code::Success)
        }
        Command::Backup(args) => backup::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Upload(args) => connection::block_on(upload::run(args)),
        Command::Resume(args) => connection::block_on(resume::run(args)),
        Command::Uploads(args) => uploads::run(&args),
        Command::Status(args) => connection::block_on(status::run(args)),
        Command::Cancel(args) => connection::block_on(cancel::run(args)),
        Command::Download(args) => connection::block_on(download::run(args)),
        Command::Discovery(args) => Ok(discovery::run(&args)?),
        Command::Completions(args) => {
            completions::run(&args);
            Ok(Code::Success)
        }
        Command::Man(args) => man::run(&args),
        #[cfg(feature = "failpoints")]
        Command::Failpoints => {
            failpoints::run();
            Ok(Code::Success)
        }
    }
}
