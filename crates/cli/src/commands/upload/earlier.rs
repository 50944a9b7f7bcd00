//! What is to become of an earlier upload of the same file to the same place that was not finished.

use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Duration;

use tokio::time::timeout;
use windlass_client::{Client, Error, Journal, Record, SourceIdentity, Upload};

use crate::args::UploadArgs;
use crate::display::{self, Display};
use crate::output;

/// How long a server may take to delete what it has of an upload that begins anew.
const FAREWELL: Duration = Duration::from_secs(10);

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// Carry on what there is, or begin if there is nothing.
    Go,
    /// Begin at the first byte.
    Anew,
    /// Do nothing.
    Leave,
}

/// Looks for earlier uploads, and asks.
pub(super) struct Earlier {
    client: Client,
    journal: Journal,
    display: Display,
    manner: Manner,
}

/// What was said on the command line.
#[derive(Debug, Clone, Copy)]
enum Manner {
    Ask,
    CarryOn,
    Restart,
}

impl Earlier {
    pub(super) fn new(
        client: Client,
        journal: Journal,
        display: Display,
        args: &UploadArgs,
    ) -> Self {
        let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        let manner = match (args.earlier.restart, args.earlier.resume) {
            (true, _) => Manner::Restart,
            (_, true) => Manner::CarryOn,
            _ if is_terminal && !args.talk.quiet => Manner::Ask,
            _ => Manner::CarryOn,
        };
        Self {
            client,
            journal,
            display,
            manner,
        }
    }

    /// What to do about a file.
    pub(super) async fn choose(&self, upload: &Upload, path: &Path) -> Result<Choice, Error> {
        // What cannot be recognised, or not be read, has no earlier upload.
        let Ok(now) = SourceIdentity::of(path).await else {
            return Ok(Choice::Go);
        };
        let found = self.journal.find(&upload.key(&now))?;
        let Some(record) = found.last() else {
            return Ok(Choice::Go);
        };
        match self.manner {
            Manner::Restart => self.discard(&found).await,
            // The client says it better.
            _ if record.source.difference(&now).is_some() => Ok(Choice::Go),
            Manner::CarryOn => {
                self.display.note(&format!(
                    "{}: carrying on; {}",
                    path.display(),
                    so_far(record)
                ));
                Ok(Choice::Go)
            }
            Manner::Ask => self.ask(path, record, &found).await,
        }
    }

    async fn ask(&self, path: &Path, record: &Record, found: &[Record]) -> Result<Choice, Error> {
        let question = format!(
            "{}: {}. Carry on? [Y/n, r to restart]",
            path.display(),
            so_far(record)
        );
        loop {
            output::ask(&question);
            let answer = tokio::task::spawn_blocking(read_answer).await;
            match answer.ok().flatten().as_deref().map(read_choice) {
                Some(Some(Choice::Anew)) => return self.discard(found).await,
                Some(Some(choice)) => return Ok(choice),
                // Something else was typed.
                Some(None) => {}
                // Nobody is there.
                None => return Ok(Choice::Leave),
            }
        }
    }

    /// Cancels earlier uploads. That a server cannot be reached, or has forgotten them, does not matter:
    /// they expire.
    async fn discard(&self, found: &[Record]) -> Result<Choice, Error> {
        for record in found {
            let held = self.journal.hold(&record.id)?;
            let cancelled = timeout(FAREWELL, self.client.cancel(&record.session)).await;
            if !matches!(cancelled, Ok(Ok(()))) {
                tracing::debug!(?cancelled, "an earlier session is left to expire");
            }
            held.finish()?;
        }
        Ok(Choice::Anew)
    }
}

/// `512 MiB of 1 GiB committed, begun 5 min ago`.
fn so_far(record: &Record) -> String {
    let much = display::committed(record.committed, Some(record.total));
    match record.started.elapsed() {
        Ok(ago) => format!("{much}, begun {} ago", display::age(ago)),
        Err(_) => much,
    }
}

/// A line of standard input; `None` at its end.
fn read_answer() -> Option<String> {
    let mut answer = String::new();
    match std::io::stdin().read_line(&mut answer) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(answer),
    }
}

fn read_choice(answer: &str) -> Option<Choice> {
    match answer.trim().to_ascii_lowercase().as_str() {
        "" | "y" | "yes" => Some(Choice::Go),
        "n" | "no" => Some(Choice::Leave),
        "r" | "restart" => Some(Choice::Anew),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_answer_carries_on() {
        let cases = [
            ("\n", Some(Choice::Go)),
            ("Yes\n", Some(Choice::Go)),
            (" n \n", Some(Choice::Leave)),
            ("R", Some(Choice::Anew)),
            ("what?\n", None),
        ];
        for (answer, choice) in cases {
            assert_eq!(read_choice(answer), choice, "{answer:?}");
        }
    }
}
