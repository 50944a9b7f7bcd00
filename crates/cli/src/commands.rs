//! The commands, a room each, and what those of the client have in common.

mod advice;
mod backup;
mod cancel;
mod carry_on;
mod completions;
mod discovery;
mod download;
mod error;
#[cfg(feature = "failpoints")]
mod failpoints;
mod journal;
mod line;
mod man;
mod resume;
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
        Command::Upload(args) => line::block_on(upload::run(args)),
        Command::Resume(args) => line::block_on(resume::run(args)),
        Command::Uploads(args) => uploads::run(&args),
        Command::Status(args) => line::block_on(status::run(args)),
        Command::Cancel(args) => line::block_on(cancel::run(args)),
        Command::Download(args) => line::block_on(download::run(args)),
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
