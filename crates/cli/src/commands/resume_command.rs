//! The command that carries an upload on, for people to copy.

use std::path::{Path, PathBuf};

use windlass_client::RecordId;

use crate::args::JournalArgs;

/// Knows which journal the command was told to use.
#[derive(Debug, Clone)]
pub(super) struct ResumeCommand {
    journal: Option<PathBuf>,
}

impl ResumeCommand {
    /// For the journal of these arguments.
    pub(super) fn new(args: &JournalArgs) -> Self {
        Self {
            journal: args.journal.clone(),
        }
    }

    /// The command.
    pub(super) fn command(&self, id: &RecordId) -> String {
        match &self.journal {
            None => format!("windlass resume {id}"),
            Some(journal) => format!("windlass resume {id} --journal {}", quoted(journal)),
        }
    }
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,".contains(c);
    if !path.is_empty() && path.chars().all(is_plain) {
        return path;
    }
    format!("'{}'", path.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_can_be_copied_into_a_shell() {
        let id = "mzxw6ytb".parse().expect("an id");
        let cases = [
            (None, "windlass resume mzxw6ytb"),
            (Some("./j"), "windlass resume mzxw6ytb --journal ./j"),
            (
                Some("my j'l"),
                r"windlass resume mzxw6ytb --journal 'my j'\''l'",
            ),
        ];
        for (journal, command) in cases {
            let journal = journal.map(PathBuf::from);
            assert_eq!(ResumeCommand { journal }.command(&id), command);
        }
    }
}
