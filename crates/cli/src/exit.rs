//! How a command ends, for the scripts and supervisors that start it.

use std::process::ExitCode;

/// An exit code. The numbers are part of the interface; see the help of the commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// What was asked for is done; a server was asked to stop and has drained.
    Success = 0,
    /// It failed on the way: storage failed, or a second signal did not let the server drain.
    Failure = 1,
    /// It was asked for something that makes no sense: an unknown flag, a bad configuration. clap
    /// uses the same number.
    Usage = 2,
    /// It was asked well but cannot begin: the address or the data directory is taken, the file
    /// system is unsafe.
    CannotStart = 3,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// Ends the process, whatever it is doing.
pub(crate) fn at_once(code: Code) -> ! {
    std::process::exit(code as i32)
}
