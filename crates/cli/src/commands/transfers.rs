//! Runs several uploads at once until all have ended or a signal stops them, and reports the result
//! of each.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use windlass_client::{Client, Error, Journal, RecordId, SessionUri, Status, Upload, Uploaded};

use super::Signals;
use super::hints::{self, HintContext, Rerun, ResumeCommand, Task};
use crate::display::{self, Display, Event, Failed, ProgressHandle, View};
use crate::exit::Code;
use crate::output;
use queue::{Queue, Queued};

mod queue;

pub(super) use queue::Concurrency;

/// Time limit for the status queries after an interrupt.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

/// An upload to run.
pub(super) struct Job {
    /// Its display.
    pub(super) handle: ProgressHandle,
    /// The upload itself.
    pub(super) work: Work,
}

/// Dropping it stops the upload.
pub(super) type Work = Pin<Box<dyn Future<Output = Result<Uploaded, Error>> + Send>>;

/// Committed bytes, by the id of the upload.
type Committed = HashMap<RecordId, u64>;

/// How many uploads have ended in which way.
#[derive(Debug, Default)]
struct Tally {
    all: usize,
    uploaded: usize,
    /// Uploaded by an earlier run.
    skipped: usize,
    failed: usize,
}

impl Tally {
    fn add(&mut self, result: &Result<Uploaded, Error>) {
        match result {
            Ok(_) => self.uploaded += 1,
            Err(_) => self.failed += 1,
        }
    }
}

impl fmt::Display for Tally {
    /// Writes `18 of 20 uploaded, 2 failed`. Uploads that have not ended were stopped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            all,
            uploaded,
            skipped,
            failed,
        } = self;
        write!(f, "{uploaded} of {all} uploaded")?;
        if *skipped > 0 {
            write!(f, ", {skipped} skipped")?;
        }
        if *failed > 0 {
            write!(f, ", {failed} failed")?;
        }
        match all - uploaded - skipped - failed {
            0 => Ok(()),
            stopped => write!(f, ", {stopped} stopped"),
        }
    }
}

/// The context for reports about uploads.
#[derive(Debug)]
pub(super) struct Transfers {
    pub(super) client: Client,
    pub(super) display: Display,
    /// The journal, if there is one, and the command that continues an upload.
    pub(super) journal: Option<(Journal, ResumeCommand)>,
    pub(super) to_upload_url: bool,
    pub(super) has_token: bool,
    /// Whether results are printed with their sources, because there may be several.
    pub(super) names_sources: bool,
    /// How the user can run the command again for the rest.
    pub(super) rerun: Rerun,
}

impl Transfers {
    /// Runs all jobs, at most as many at once as `concurrency` allows. Prints a summary if there is
    /// more than one source, including the sources that are `skipped`. Returns the worst exit code.
    pub(super) async fn run(
        &self,
        jobs: Vec<Job>,
        skipped: usize,
        concurrency: Concurrency,
        signals: Signals,
    ) -> Code {
        let mut tally = Tally {
            all: jobs.len() + skipped,
            skipped,
            ..Tally::default()
        };
        if jobs.len() > 1 {
            let handles = jobs.iter().map(|job| &job.handle);
            self.display.begin_total(handles);
        }
        let worst = self.run_all(jobs, concurrency, signals, &mut tally).await;
        if tally.all > 1 {
            self.display.end_total(&tally.to_string());
        }
        worst
    }

    async fn run_all(
        &self,
        jobs: Vec<Job>,
        concurrency: Concurrency,
        mut signals: Signals,
        tally: &mut Tally,
    ) -> Code {
        let handles: Vec<_> = jobs.iter().map(|job| job.handle.clone()).collect();
        let mut unfinished: Vec<_> = handles.iter().map(|_| true).collect();
        let mut queue = Queue::new(jobs, concurrency);
        let mut running = JoinSet::new();
        let mut worst = Code::Success;
        loop {
            while let Some(Queued { index, class, work }) = queue.next() {
                running.spawn(async move { (index, class, work.await) });
            }
            let ended = tokio::select! {
                biased;
                () = signals.next() => {
                    tokio::spawn(signals.end_process(Code::Unfinished));
                    running.shutdown().await;
                    let stopped = handles.iter().zip(unfinished).filter(|(_, stopped)| *stopped);
                    return worst.max(self.stopped(stopped.map(|(handle, _)| handle)).await);
                }
                ended = running.join_next() => ended,
            };
            match ended {
                None => return worst,
                Some(Ok((index, class, result))) => {
                    queue.ended(class);
                    unfinished[index] = false;
                    tally.add(&result);
                    worst = worst.max(self.ended(&handles[index], result));
                }
                Some(Err(panic)) => std::panic::resume_unwind(panic.into_panic()),
            }
        }
    }

    fn ended(&self, handle: &ProgressHandle, result: Result<Uploaded, Error>) -> Code {
        match result {
            Ok(uploaded) => {
                self.uploaded(handle, &uploaded);
                Code::Success
            }
            Err(error) => self.failed(handle, &error),
        }
    }

    fn uploaded(&self, handle: &ProgressHandle, uploaded: &Uploaded) {
        handle.event(&Event::Uploaded(display::Uploaded {
            source: handle.source(),
            size: uploaded.size,
            protocol: uploaded.protocol.as_str(),
            upload_type: uploaded.upload_type.as_str(),
            verified: uploaded.verified,
            restarts: uploaded.restarts,
            resource: uploaded.resource.as_ref(),
        }));
        let size = output::size(uploaded.size);
        let checked = display::checked(uploaded.verified);
        self.display
            .note(&format!("{}: {size} uploaded, {checked}", handle.label()));
        if !self.display.has_events() {
            self.result(handle, uploaded.resource.as_ref());
        }
    }

    /// Prints the resource. Uploads end in any order, so where there may be several, each is on one
    /// line with its source.
    fn result(&self, handle: &ProgressHandle, resource: Option<&Value>) {
        if self.names_sources {
            let line = json!({"source": handle.source(), "resource": resource});
            self.display.result(&line.to_string());
        } else if let Some(resource) = resource {
            self.display.result(&format!("{resource:#}"));
        }
    }

    fn failed(&self, handle: &ProgressHandle, error: &Error) -> Code {
        let code = hints::exit_code(error);
        let message = output::with_causes(error);
        let upload = error.upload().cloned();
        let hint = hints::hint(
            error,
            HintContext {
                task: Task::Upload {
                    to_upload_url: self.to_upload_url,
                },
                has_token: self.has_token,
                resume_command: upload.as_ref().and_then(|id| self.resume_command(id)),
                is_directory: Path::new(handle.source()).is_dir(),
                rerun: self.rerun,
            },
        );
        handle.fail(&Failed {
            source: handle.source(),
            message: &message,
            kind: hints::kind_name(error.kind()),
            status: error.status().map(|status| status.as_u16()),
            reason: error.reason(),
            upload,
            hint: hint.as_deref(),
            exit_code: code,
        });
        code
    }

    fn resume_command(&self, id: &RecordId) -> Option<String> {
        let (_, resume_command) = self.journal.as_ref()?;
        Some(resume_command.command(id))
    }

    /// Reports for each upload the committed bytes and the command that continues it.
    async fn stopped(&self, handles: impl Iterator<Item = &ProgressHandle>) -> Code {
        self.display.leave();
        let mut handles: Vec<_> = handles.collect();
        // Uploads first: each has its own hint. Transfers without an upload share one hint.
        handles.sort_by_key(|handle| handle.upload().is_none());
        let committed = self.committed(&handles).await;
        for handle in &handles {
            self.interrupted(handle, &committed);
        }
        if handles.is_empty() {
            Code::Success
        } else {
            Code::Unfinished
        }
    }

    fn interrupted(&self, handle: &ProgressHandle, committed: &Committed) {
        let upload = handle.upload();
        let it = if self.names_sources { "the rest" } else { "it" };
        let uploads_it = format!("the same command, run {}, uploads {it}", self.rerun);
        let (message, hint) = match (handle.last(), &upload) {
            (None, _) => ("stopped before it began".to_owned(), Some(uploads_it)),
            (Some(view), Some(id)) => {
                let committed = committed.get(id).copied();
                let committed = committed.or((view.committed > 0).then_some(view.committed));
                let hint = self
                    .resume_command(id)
                    .map(|command| format!("`{command}` carries on"));
                (stopped_at(committed, view.total), hint)
            }
            // Its session was not recorded yet, and media is sent only afterwards.
            (Some(view), None) if self.journal.is_some() && view.sent == 0 => {
                ("stopped before it began".to_owned(), Some(uploads_it))
            }
            (Some(_), None) => (
                "stopped; this upload cannot be continued".to_owned(),
                Some(format!(
                    "the same command, run {}, uploads it from its beginning",
                    self.rerun
                )),
            ),
        };
        handle.fail(&Failed {
            source: handle.source(),
            message: &message,
            kind: "interrupted",
            status: None,
            reason: None,
            upload,
            hint: hint.as_deref(),
            exit_code: Code::Unfinished,
        });
    }

    /// Returns the committed bytes of these uploads, as far as the servers reply within the time
    /// limit, and writes them into the journal. Servers also commit bytes that arrived before the
    /// connections were cut. All are queried at once.
    async fn committed(&self, handles: &[&ProgressHandle]) -> Committed {
        let mut asked = JoinSet::new();
        for (id, session) in self.sessions(handles) {
            let client = self.client.clone();
            asked.spawn(async move { (id, client.status(&session).await) });
        }
        let deadline = Instant::now() + STATUS_TIMEOUT;
        let mut committed = Committed::new();
        while let Ok(Some(answer)) = timeout_at(deadline, asked.join_next()).await {
            if let Ok((id, Ok(Status::Active { committed: bytes }))) = answer {
                self.record(&id, bytes);
                committed.insert(id, bytes);
            }
        }
        committed
    }

    /// Writes the committed bytes of an upload into the journal, so that later commands show the
    /// same number as this one. They are for display, so an error is only logged.
    fn record(&self, id: &RecordId, committed: u64) {
        let Some((journal, _)) = &self.journal else {
            return;
        };
        let written = journal
            .lock(id)
            .and_then(|mut locked| locked.set_committed(committed));
        if let Err(error) = written {
            tracing::debug!(%id, %error, "the committed bytes are not in the journal");
        }
    }

    /// Returns the sessions of these uploads.
    fn sessions(&self, handles: &[&ProgressHandle]) -> Vec<(RecordId, SessionUri)> {
        let ids: HashSet<_> = handles
            .iter()
            .filter_map(|handle| handle.upload())
            .collect();
        let Some((journal, _)) = self.journal.as_ref().filter(|_| !ids.is_empty()) else {
            return Vec::new();
        };
        let found = super::journal::unfinished(journal).unwrap_or_default();
        let records = found.records.into_iter();
        let records = records.filter(|record| ids.contains(&record.id));
        records.map(|record| (record.id, record.session)).collect()
    }
}

/// Returns the message about a stopped upload. The count of 0 bytes from before the server's first
/// answer may be too low, so `None` prints no count.
fn stopped_at(committed: Option<u64>, total: Option<u64>) -> String {
    match committed {
        Some(committed) => format!("stopped; {} so far", display::committed(committed, total)),
        None => "stopped; the server does not say how much it has".to_owned(),
    }
}

/// Connects an upload to its display.
pub(super) fn with_progress(upload: Upload, handle: &ProgressHandle) -> Upload {
    let handle = handle.clone();
    upload.on_progress(move |progress| handle.show(&View::from(progress)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tally_names_what_has_failed_and_what_was_stopped() {
        for (all, uploaded, skipped, failed, expected) in [
            (2, 2, 0, 0, "2 of 2 uploaded"),
            (20, 18, 0, 2, "18 of 20 uploaded, 2 failed"),
            (20, 3, 0, 1, "3 of 20 uploaded, 1 failed, 16 stopped"),
            (2, 1, 0, 0, "1 of 2 uploaded, 1 stopped"),
            (40, 23, 17, 0, "23 of 40 uploaded, 17 skipped"),
        ] {
            let tally = Tally {
                all,
                uploaded,
                skipped,
                failed,
            };
            assert_eq!(tally.to_string(), expected);
        }
    }
}
