//! The exit codes of the commands.

use std::process::ExitCode;

/// An exit code. The numbers are part of the interface; see the help of the commands and
/// docs/cli.md.
///
/// Codes are ordered by severity: the worst result of several uploads decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Code {
    /// The command is done, or the server was stopped and has drained.
    Success,
    /// The command is unfinished, and another try may succeed: `windlass resume`, or the same
    /// command.
    Unfinished,
    /// The command cannot start: the address or the data directory is in use, the file system is
    /// unsafe, media cannot be read, or the journal cannot be used.
    CannotBegin,
    /// The request makes no sense: an unknown flag, or a bad configuration. clap uses the same
    /// number.
    Usage,
    /// The command failed and would fail again: the server refuses, the file has changed, storage
    /// failed, a second signal interrupted the drain, or the result could not be printed.
    Failure,
    /// The media at the server differs from the sent or received media.
    Mismatch,
    /// A store is damaged.
    Damaged,
}

/// The codes of the client's commands, for their help.
pub(crate) const CODES: &str = "\
Exit codes:
  0  done
  1  failed, and a retry would not help: refused, the file has changed, output cannot be written
  2  the command line is wrong
  3  cannot start: a file, the journal or a record is unusable, or another process runs the upload
  4  unfinished, and can be continued or retried: retries or time used up, Ctrl-C
  5  corrupted: the media at the server differs from what was sent, or a download differs from it
With several uploads all are tried, and the worst result decides, in the order 5, 1, 2, 3, 4, 0.";

impl Code {
    /// Returns the number of the code.
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

/// Ends the process immediately.
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
