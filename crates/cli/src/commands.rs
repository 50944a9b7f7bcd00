//! The commands of the tool, and the parts that they share.

mod discovery;
mod download;
mod error;
mod generate;
mod hints;
mod journal;
mod resume;
mod serve;
mod session;
mod setup;
mod store;
mod transfers;
mod upload;

use crate::args::Command;
use crate::exit::Code;

pub(crate) use error::Error;

/// Runs a command and returns its exit code.
pub(crate) fn run(command: Command) -> Result<Code, Error> {
    match command {
        Command::Serve(args) => {
            serve::run(&args)?;
            Ok(Code::Success)
        }
        Command::Backup(args) => store::run_backup(&args),
        Command::Verify(args) => store::run_verify(&args),
        Command::Upload(args) => setup::block_on(upload::run(args)),
        Command::Resume(args) => setup::block_on(resume::run(args)),
        Command::Uploads(args) => journal::run_uploads(&args),
        Command::Status(args) => setup::block_on(session::run_status(args)),
        Command::Cancel(args) => setup::block_on(session::run_cancel(args)),
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
