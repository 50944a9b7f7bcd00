//! Earlier, unfinished uploads of the files that are to be uploaded.

use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::timeout;
use windlass_client::{
    Client, Journal, JournalError, LockedRecord, Record, RecordId, SourceIdentity, Upload,
    UploadKey,
};

use super::super::{Error, journal};
use crate::args::UploadArgs;
use crate::display::{self, Display};
use crate::output;

/// Time limit for the cancellation of an upload that starts again.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

/// The decision about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Choice {
    /// Begin at the first byte.
    Begin,
    /// Continue this upload.
    Resume(RecordId),
    /// Do nothing.
    Leave,
}

/// The answer to the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Resume,
    Restart,
    Leave,
}

/// Looks for earlier, unfinished uploads of the same file to the same URL, and asks the user. The
/// journal is read once for all sources.
pub(super) struct ExistingUploads {
    /// The records of the journal by the path of the file, oldest first.
    records: HashMap<PathBuf, Vec<Record>>,
    client: Client,
    journal: Journal,
    display: Display,
    policy: Policy,
}

/// The choice on the command line.
#[derive(Debug, Clone, Copy)]
enum Policy {
    Ask,
    Resume,
    Restart,
}

impl ExistingUploads {
    pub(super) fn new(
        client: Client,
        journal: Journal,
        display: Display,
        args: &UploadArgs,
    ) -> Result<Self, Error> {
        let found = journal::unfinished(&journal)?;
        found.warn(|what, hint| display.warning(what, hint));
        let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        let policy = match (args.existing.restart, args.existing.resume) {
            (true, _) => Policy::Restart,
            (_, true) => Policy::Resume,
            _ if is_terminal && !args.verbosity.quiet => Policy::Ask,
            _ => Policy::Resume,
        };
        Ok(Self {
            records: by_path(found.records),
            client,
            journal,
            display,
            policy,
        })
    }

    /// The journal.
    pub(super) fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Decides what to do about a file.
    pub(super) async fn choose(
        &self,
        upload: &Upload,
        path: &Path,
    ) -> Result<Choice, windlass_client::Error> {
        // A source without an identity, or one that cannot be read, has no earlier upload.
        let Ok(now) = SourceIdentity::of(path).await else {
            return Ok(Choice::Begin);
        };
        let found = self.find(&upload.key(&now), now.path());
        let Some(record) = found.last() else {
            return Ok(Choice::Begin);
        };
        let resume = Choice::Resume(record.id.clone());
        match self.policy {
            Policy::Restart => self.discard(&found).await,
            // The client reports it with more detail.
            _ if record.source.difference(&now).is_some() => Ok(resume),
            Policy::Resume => {
                self.display.note(&format!(
                    "{}: carrying on; {}",
                    path.display(),
                    so_far(record)
                ));
                Ok(resume)
            }
            Policy::Ask => match ask(path, record).await {
                Answer::Resume => Ok(resume),
                Answer::Restart => self.discard(&found).await,
                Answer::Leave => Ok(Choice::Leave),
            },
        }
    }

    /// Returns the earlier uploads of the same file to the same URL, oldest first.
    fn find(&self, key: &UploadKey, path: &Path) -> Vec<&Record> {
        let of_file = self.records.get(path).into_iter().flatten();
        of_file.filter(|record| record.key() == *key).collect()
    }

    /// Cancels earlier uploads. Errors are ignored: a session that is not cancelled expires.
    async fn discard(&self, found: &[&Record]) -> Result<Choice, windlass_client::Error> {
        for record in found {
            let Some(held) = hold(&self.journal, &record.id)? else {
                continue;
            };
            let cancelled = timeout(CANCEL_TIMEOUT, self.client.cancel(&record.session)).await;
            if !matches!(cancelled, Ok(Ok(_))) {
                tracing::debug!(?cancelled, "an earlier session is left to expire");
            }
            held.finish()?;
        }
        Ok(Choice::Begin)
    }
}

fn by_path(records: Vec<Record>) -> HashMap<PathBuf, Vec<Record>> {
    let mut by_path = HashMap::<_, Vec<_>>::new();
    for record in records {
        let path = record.source.path().to_owned();
        by_path.entry(path).or_default().push(record);
    }
    by_path
}

async fn ask(path: &Path, record: &Record) -> Answer {
    let question = format!(
        "{}: {}. Carry on? [Y/n, r to restart]",
        path.display(),
        so_far(record)
    );
    loop {
        output::ask(&question);
        let answer = tokio::task::spawn_blocking(read_line).await;
        match answer.ok().flatten().as_deref().map(read_answer) {
            Some(Some(answer)) => return answer,
            // Another answer: ask again.
            Some(None) => {}
            // Standard input has ended.
            None => return Answer::Leave,
        }
    }
}

/// `512 MiB of 1 GiB committed, begun 5 min ago`.
fn so_far(record: &Record) -> String {
    let much = display::committed(record.committed, Some(record.total));
    match record.started.elapsed() {
        Ok(ago) => format!("{much}, begun {} ago", output::age(ago)),
        Err(_) => much,
    }
}

/// A line of standard input; `None` at its end.
fn read_line() -> Option<String> {
    let mut answer = String::new();
    match std::io::stdin().read_line(&mut answer) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(answer),
    }
}

fn read_answer(answer: &str) -> Option<Answer> {
    match answer.trim().to_ascii_lowercase().as_str() {
        "" | "y" | "yes" => Some(Answer::Resume),
        "n" | "no" => Some(Answer::Leave),
        "r" | "restart" => Some(Answer::Restart),
        _ => None,
    }
}

/// Locks the record of an earlier upload; `None` if it was finished in the meantime.
pub(super) fn hold(journal: &Journal, id: &RecordId) -> Result<Option<LockedRecord>, JournalError> {
    match journal.lock(id) {
        Ok(held) => Ok(Some(held)),
        Err(JournalError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use windlass_client::NewRecord;

    use super::*;
    use crate::args::{Args, Command};

    #[tokio::test]
    async fn the_journal_is_read_once_for_all_sources() {
        let desk = tempfile::tempdir().expect("there is room");
        let file = desk.path().join("cow.jpg");
        std::fs::write(&file, "a cow").expect("there is room");
        let source = SourceIdentity::of(&file).await.expect("a file");
        let journal = Journal::open(desk.path().join("journal")).expect("there is room");
        let url = "http://127.0.0.1:1/upload/farm/v1/animals";
        let session = format!("{url}?upload_id=x");
        let new = NewRecord {
            url: url.to_owned(),
            session: session.parse().expect("a session URI"),
            http_method: "POST".to_owned(),
            content_type: None,
            metadata: None,
            total: source.size(),
            chunk_size: None,
            source,
        };
        let id = journal
            .create(new)
            .expect("there is room")
            .record()
            .id
            .clone();
        let words = ["windlass", "upload", "cow.jpg", url];
        let args = match Args::try_parse_from(words).expect("they are right").command {
            Command::Upload(args) => args,
            other => panic!("{other:?}"),
        };
        let client = Client::builder().build().expect("a client");
        let existing = ExistingUploads::new(client, journal, Display::new(args.verbosity), &args);
        let existing = existing.expect("the journal can be read");
        std::fs::remove_dir_all(desk.path().join("journal")).expect("it is ours");
        let upload = Upload::new(url.parse().expect("a URL")).expect("it is of the web");
        let found = existing.choose(&upload, &file).await;
        assert_eq!(found.expect("nothing is read"), Choice::Resume(id));
        let other = upload.content_type("image/jpeg").expect("a type");
        let found = existing.choose(&other, &file).await;
        assert_eq!(found.expect("nothing is read"), Choice::Begin);
    }

    #[test]
    fn an_empty_answer_carries_on() {
        let cases = [
            ("\n", Some(Answer::Resume)),
            ("Yes\n", Some(Answer::Resume)),
            (" n \n", Some(Answer::Leave)),
            ("R", Some(Answer::Restart)),
            ("what?\n", None),
        ];
        for (answer, choice) in cases {
            assert_eq!(read_answer(answer), choice, "{answer:?}");
        }
    }
}
