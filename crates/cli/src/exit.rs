//! How a command ends, for the scripts and supervisors that start it.

use std::process::ExitCode;

/// An exit code. The numbers are part of the interface; see the help of the commands and docs/cli.md.
///
/// The order is how bad it is: of several uploads in one command the worst decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Code {
    /// What was asked for is done; a server was asked to stop and has drained.
    Success,
    /// It is not done, and another try may well do it: `windlass resume`, or the same command.
    Unfinished,
    /// It was asked well but cannot begin: the address or the data directory is taken, the file
    /// system is unsafe, media cannot be read, the journal cannot be used.
    CannotBegin,
    /// It was asked for something that makes no sense: an unknown flag, a bad configuration. clap
    /// uses the same number.
    Usage,
    /// It failed, and would fail again: the server refuses, the file has changed, storage failed, a
    /// second signal did not let the server drain. Or what came of it could not be printed.
    Failure,
    /// The other side has other media than was sent.
    Mismatch,
    /// A store holds other bytes than it should.
    Damaged,
}

/// The codes of the client's commands, for their help.
pub(crate) const CODES: &str = "\
Exit codes:
  0  done
  1  failed, and trying again would not help: refused, the file has changed, output is full
  2  the command line is wrong
  3  cannot begin: a file, the journal or a record is unusable, another process is at the upload
  4  not finished, and can be carried on or tried again: retries or time used up, Ctrl-C
  5  the media at the server is not what was sent, or what came is not what the server has
With several uploads all are tried, and the worst decides, in the order 5, 1, 2, 3, 4, 0.";

impl Code {
    /// Its number.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::CannotBegin => 3,
            Self::Unfinished => 4,
            Self::Mismatch => 5,
            Self::Damaged => 6,
        }
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.number())
    }
}

/// Ends the process, whatever it is doing.
pub(crate) fn at_once(code: Code) -> ! {
    std::process::exit(code.number().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_the_codes_with_the_worst_first() {
        let mut worst_first = [
            Code::Success,
            Code::Failure,
            Code::Usage,
            Code::CannotBegin,
            Code::Unfinished,
            Code::Mismatch,
        ];
        for (number, code) in worst_first.iter().enumerate() {
            assert_eq!(usize::from(code.number()), number);
            assert!(CODES.contains(&format!("\n  {number}  ")));
        }
        worst_first.sort_by(|a, b| b.cmp(a));
        let numbers = worst_first.map(|code| code.number().to_string());
        assert!(CODES.ends_with(&format!("in the order {}.", numbers.join(", "))));
    }
}
