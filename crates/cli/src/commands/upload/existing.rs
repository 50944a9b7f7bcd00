//! Earlier uploads of the files that are to be uploaded: unfinished ones, which are continued, and
//! finished ones of runs that have not ended whole, which are skipped.

use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::timeout;
use windlass_client::{
    Client, FinishedUpload, FinishedUploads, HttpMethod, Journal, JournalError, LockedRecord,
    Record, RecordId, SourceIdentity, Upload, UploadKey,
};

use super::super::{Error, journal};
use super::{is_one_request, is_run};
use crate::args::UploadArgs;
use crate::display::{self, Display};
use crate::output;

/// Time limit for the cancellation of an upload that starts again.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

/// The outcome of earlier commands for a file.
#[derive(Debug)]
pub(super) enum Earlier {
    Nothing,
    /// Its upload has begun and is unfinished; oldest first.
    Unfinished(Vec<Record>),
    /// The same, and the file has changed since.
    Changed(Vec<Record>),
    /// A run that has not ended whole has uploaded it.
    Finished {
        upload: FinishedUpload,
        /// Records of its session that a process has left when it was killed at the end of the
        /// upload.
        stale: Vec<Record>,
    },
}

/// The decision about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Choice {
    /// Begin at the first byte.
    Begin,
    /// Continue this upload.
    Resume(RecordId),
    /// Do nothing, because the user wants that.
    Leave,
    /// Do nothing, because the file is uploaded.
    Skip,
}

/// The answer to the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Resume,
    Restart,
    Leave,
}

/// Looks for earlier uploads of the same file to the same URL, and asks the user about the
/// unfinished uploads. The journal is read once for all sources.
pub(super) struct ExistingUploads {
    /// The records of the journal by the path of the file, oldest first.
    records: HashMap<PathBuf, Vec<Record>>,
    /// The finished uploads of runs that have not ended whole, by the path of the file. Each counts
    /// for one source: a command may name a file twice.
    finished: Mutex<HashMap<PathBuf, FinishedUploads>>,
    client: Client,
    journal: Journal,
    display: Display,
    policy: Policy,
    is_run: bool,
}

/// The choice on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
        let is_run = is_run(args);
        let finished = if is_run && !args.existing.again {
            let method = HttpMethod::from(args.method).as_str();
            journal.finished_at(args.positional.url.as_str(), method)?
        } else {
            FinishedUploads::default()
        };
        // A single request cannot continue a session.
        let records = if is_one_request(args) {
            HashMap::new()
        } else {
            by_path(found.records)
        };
        Ok(Self {
            records,
            finished: Mutex::new(finished.by_path()),
            client,
            journal,
            display,
            policy,
            is_run,
        })
    }

    /// The journal.
    pub(super) fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Looks for earlier uploads of a file, and adds its key to `keys`.
    pub(super) async fn look_up(
        &self,
        upload: &Upload,
        path: &Path,
        keys: &mut Vec<UploadKey>,
    ) -> Earlier {
        // An unreadable source, or a source without an identity, has no earlier upload.
        let Ok(now) = SourceIdentity::of(path).await else {
            return Earlier::Nothing;
        };
        let key = upload.key(&now);
        let records = self.find(&key, now.path());
        let finished = self.take_finished(&key, &now);
        keys.push(key);
        match (finished, records.last()) {
            (Some(upload), _) => Earlier::Finished {
                upload,
                stale: records.into_iter().filter(|record| record.of_run).collect(),
            },
            (None, None) => Earlier::Nothing,
            (None, Some(last)) if last.source.difference(&now).is_some() => {
                Earlier::Changed(records)
            }
            (None, Some(_)) => Earlier::Unfinished(records),
        }
    }

    fn take_finished(&self, key: &UploadKey, now: &SourceIdentity) -> Option<FinishedUpload> {
        let mut finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        finished.get_mut(now.path())?.take(key, now)
    }

    /// Decides what to do about each source. `None` stands for a source that is not a file. Asks
    /// once about all of them.
    pub(super) async fn choose(
        &self,
        sources: Vec<Option<(&Path, &Earlier)>>,
    ) -> Vec<Result<Choice, windlass_client::Error>> {
        let unfinished = sources.iter().flatten();
        let unfinished = unfinished.filter_map(|(path, earlier)| match earlier {
            Earlier::Unfinished(records) => records.last().map(|record| (*path, record)),
            _ => None,
        });
        let unfinished: Vec<_> = unfinished.collect();
        let answer = match self.policy {
            Policy::Restart => Answer::Restart,
            Policy::Ask if !unfinished.is_empty() => ask(&unfinished).await,
            Policy::Ask | Policy::Resume => Answer::Resume,
        };
        let mut choices = Vec::with_capacity(sources.len());
        for source in sources {
            choices.push(match source {
                Some((path, earlier)) => self.choose_one(path, earlier, answer).await,
                None => Ok(Choice::Begin),
            });
        }
        choices
    }

    async fn choose_one(
        &self,
        path: &Path,
        earlier: &Earlier,
        answer: Answer,
    ) -> Result<Choice, windlass_client::Error> {
        let (records, has_changed) = match earlier {
            Earlier::Nothing => return Ok(Choice::Begin),
            Earlier::Finished { stale, .. } => {
                self.forget(stale)?;
                return Ok(Choice::Skip);
            }
            Earlier::Changed(records) => (records, true),
            Earlier::Unfinished(records) => (records, false),
        };
        let Some(last) = records.last() else {
            return Ok(Choice::Begin);
        };
        let path = path.display();
        match answer {
            Answer::Restart => self.discard(records).await,
            // A run uploads each file as it is now.
            _ if has_changed && self.is_run => {
                self.display.note(&format!(
                    "{path}: starting again; it has changed since its upload began"
                ));
                self.discard(records).await
            }
            // The client reports it with more detail.
            _ if has_changed => Ok(Choice::Resume(last.id.clone())),
            Answer::Leave => Ok(Choice::Leave),
            Answer::Resume => {
                if self.policy == Policy::Resume {
                    let so_far = so_far(last);
                    self.display.note(&format!("{path}: carrying on; {so_far}"));
                }
                Ok(Choice::Resume(last.id.clone()))
            }
        }
    }

    /// Returns the earlier uploads of the same file to the same URL, oldest first.
    fn find(&self, key: &UploadKey, path: &Path) -> Vec<Record> {
        let of_file = self.records.get(path).into_iter().flatten();
        of_file
            .filter(|record| key.matches(record))
            .cloned()
            .collect()
    }

    /// Removes the records of sessions that are finished.
    fn forget(&self, stale: &[Record]) -> Result<(), JournalError> {
        for record in stale {
            match hold(&self.journal, &record.id) {
                Ok(Some(held)) => held.finish()?,
                // Another process is about to remove it.
                Ok(None) | Err(JournalError::InUse { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Cancels earlier uploads. Errors are ignored: a session that is not cancelled expires.
    async fn discard(&self, found: &[Record]) -> Result<Choice, windlass_client::Error> {
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

/// Asks about the unfinished uploads, once for all of them.
async fn ask(unfinished: &[(&Path, &Record)]) -> Answer {
    let what = match unfinished {
        [(path, record)] => format!("{}: {}", path.display(), so_far(record)),
        several => so_far_of_all(several),
    };
    let question = format!("{what}. Carry on? [Y/n, r to restart]");
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

/// `3 uploads are unfinished: 512 MiB of 1 GiB committed, the first begun 5 min ago`.
fn so_far_of_all(unfinished: &[(&Path, &Record)]) -> String {
    let sum = |bytes: fn(&Record) -> u64| {
        let all = unfinished.iter().map(|(_, record)| bytes(record));
        all.fold(0, u64::saturating_add)
    };
    let (committed, total) = (sum(|record| record.committed), sum(|record| record.total));
    let what = format!(
        "{} uploads are unfinished: {}",
        unfinished.len(),
        display::committed(committed, Some(total))
    );
    let first = unfinished.iter().map(|(_, record)| record.started).min();
    match first.and_then(|first| first.elapsed().ok()) {
        Some(ago) => format!("{what}, the first begun {} ago", output::age(ago)),
        None => what,
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
            of_run: false,
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
        let found = existing.look_up(&upload, &file, &mut Vec::new()).await;
        let choices = existing.choose(vec![Some((&file, &found)), None]).await;
        let [of_file, of_stdin] = choices.try_into().expect("one for each");
        assert_eq!(of_file.expect("nothing is read"), Choice::Resume(id));
        assert_eq!(of_stdin.expect("nothing is read"), Choice::Begin);
        let other = upload.content_type("image/jpeg").expect("a type");
        let found = existing.look_up(&other, &file, &mut Vec::new()).await;
        assert!(matches!(found, Earlier::Nothing), "{found:?}");
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
