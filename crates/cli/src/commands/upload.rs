//! `windlass upload` and `windlass resume`.

use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;
use url::Url;
use windlass_client::{
    Chunking, Client, Journal, JournalError, LockedRecord, RateLimit, Record, RecordId, Source,
    SourceIdentity, Upload, UploadKey, UploadType,
};

use super::hints::ResumeCommand;
use super::journal::Unfinished;
use super::transfers::{Job, Transfers, Work, with_progress};
use super::{Error, Signals, journal};
use crate::args::{ResumeArgs, UploadArgs};
use crate::display::{self, Display};
use crate::exit::Code;
use crate::output;

/// The name of standard input.
const STDIN: &str = "-";

/// Maximum size of the window, in memory, of a source that can be read only once.
pub(super) const LARGEST_WINDOW: u64 = 1 << 30;

/// Uploads all sources.
pub(super) async fn run_upload(args: UploadArgs) -> Result<Code, Error> {
    let mut signals = Signals::catch().map_err(Error::Signals)?;
    let display = Display::new(args.verbosity);
    super::print_warnings_on(&display);
    check_stdin(&args)?;
    let (client, has_token) = super::client(&args.connection.credentials)?;
    let journal = journal(&args, &display)?;
    let plan = Plan::new(&args, client.clone(), journal.clone(), display.clone())?;
    let planned = tokio::select! {
        biased;
        () = signals.next() => return Ok(Code::Unfinished),
        planned = plan.jobs(&args.positional.sources) => planned?,
    };
    let transfers = Transfers {
        client,
        display,
        journal: journal.map(|journal| (journal, ResumeCommand::new(&args.journal))),
        to_upload_url: is_upload_url(&args.positional.url),
        has_token,
    };
    let code = transfers
        .run(planned.jobs, args.transfer.concurrency, signals)
        .await;
    Ok(code.max(planned.left))
}

fn is_upload_url(url: &Url) -> bool {
    url.path().split('/').any(|segment| segment == "upload")
}

fn is_stdin(source: &Path) -> bool {
    source == Path::new(STDIN)
}

/// Refuses standard input that is named twice or whose chunks exceed the window. It can be read only
/// once, so bytes are kept until the server has committed them.
fn check_stdin(args: &UploadArgs) -> Result<(), Error> {
    let from_stdin = args
        .positional
        .sources
        .iter()
        .filter(|source| is_stdin(source));
    let from_stdin = from_stdin.count();
    if from_stdin > 1 {
        return Err(Error::StdinTwice);
    }
    match args.chunk_size {
        Some(size) if from_stdin > 0 && size.bytes() > LARGEST_WINDOW => Err(Error::ChunkOfStdin),
        _ => Ok(()),
    }
}

/// Returns the journal for the uploads. An upload in a single request, or of standard input, cannot
/// be continued and has none.
fn journal(args: &UploadArgs, display: &Display) -> Result<Option<Journal>, Error> {
    let is_one_request = args
        .upload_type
        .is_some_and(|asked| UploadType::from(asked) != UploadType::Resumable);
    if args.existing.no_journal || is_one_request {
        return Ok(None);
    }
    let is_chosen = journal::named_directory(&args.journal).is_some();
    if !is_chosen
        && args
            .positional
            .sources
            .iter()
            .all(|source| is_stdin(source))
    {
        return Ok(None);
    }
    journal::open_if_possible(&args.journal, display)
}

/// The settings that all sources of the command share.
struct Plan {
    upload: Upload,
    guess: bool,
    /// Window of a source that can be read only once; at least one chunk.
    window: Option<u64>,
    client: Client,
    display: Display,
    existing: Option<ExistingUploads>,
}

/// The outcome of all sources.
struct Planned {
    jobs: Vec<Job>,
    /// Whether the user chose to leave some of them.
    left: Code,
}

impl Plan {
    fn new(
        args: &UploadArgs,
        client: Client,
        journal: Option<Journal>,
        display: Display,
    ) -> Result<Self, Error> {
        let upload = Upload::new(args.positional.url.clone())?
            .http_method(args.method.into())
            .verify(!args.transfer.no_verify);
        let mut upload = super::with_retries(upload, &args.connection);
        if let Some(text) = &args.metadata {
            upload = upload.metadata(&read_metadata(text)?)?;
        }
        if let Some(content_type) = &args.content_type {
            upload = upload.content_type(content_type)?;
        }
        if let Some(upload_type) = args.upload_type {
            upload = upload.upload_type(upload_type.into());
        }
        if let Some(size) = args.chunk_size {
            upload = upload.chunking(Chunking::Fixed(size));
        }
        if let Some(rate) = args.transfer.max_rate {
            upload = upload.rate_limit(RateLimit::new(rate.0));
        }
        if let Some(journal) = journal.clone() {
            upload = upload.journal(journal);
        }
        Ok(Self {
            upload,
            guess: args.content_type.is_none(),
            window: args.chunk_size.map(|size| size.bytes().min(LARGEST_WINDOW)),
            existing: journal
                .map(|journal| ExistingUploads::new(client.clone(), journal, display.clone(), args))
                .transpose()?,
            client,
            display,
        })
    }

    async fn jobs(&self, sources: &[PathBuf]) -> Result<Planned, Error> {
        let mut planned = Planned {
            jobs: Vec::new(),
            left: Code::Success,
        };
        for path in sources {
            match self.job(path).await? {
                Some(job) => planned.jobs.push(job),
                None => planned.left = Code::Unfinished,
            }
        }
        Ok(planned)
    }

    /// Returns the job of one source; `None` if the user chose to leave it.
    async fn job(&self, path: &Path) -> Result<Option<Job>, Error> {
        if is_stdin(path) {
            return Ok(Some(self.job_of_stdin()));
        }
        let mut upload = self.upload.clone();
        if self.guess
            && let Some(guessed) = content_type_of_file(path).await
        {
            upload = upload.content_type(&guessed)?;
        }
        let choice = match &self.existing {
            Some(existing) => existing.choose(&upload, path).await,
            None => Ok(Choice::Begin),
        };
        if matches!(choice, Ok(Choice::Leave)) {
            return Ok(None);
        }
        let handle = self.display.add_progress(path.display().to_string());
        let upload = with_progress(upload, &handle);
        let (client, source) = (
            self.client.clone(),
            with_window(Source::path(path), self.window),
        );
        let journal = self
            .existing
            .as_ref()
            .map(ExistingUploads::journal)
            .cloned();
        let work: Work = Box::pin(async move {
            if let (Choice::Resume(id), Some(journal)) = (choice?, journal)
                && let Some(held) = hold(&journal, &id)?
            {
                return client.resume(upload, held).await;
            }
            // Earlier uploads have been looked up already.
            client.upload(upload.ignore_journal(), source).await
        });
        Ok(Some(Job { handle, work }))
    }

    /// The media type is guessed from the first bytes before they are sent.
    fn job_of_stdin(&self) -> Job {
        let handle = self.display.add_progress(STDIN);
        let mut upload = with_progress(self.upload.clone(), &handle);
        let (client, guess, window) = (self.client.clone(), self.guess, self.window);
        let work: Work = Box::pin(async move {
            let mut stdin = tokio::io::stdin();
            let mut head = Vec::new();
            if guess {
                let mut beginning = (&mut stdin).take(CONTENT_TYPE_PREFIX);
                // A source that cannot be read now will fail again at once.
                beginning.read_to_end(&mut head).await.ok();
                if let Some(guessed) = content_type_of_bytes(&head) {
                    upload = upload.content_type(guessed)?;
                }
            }
            let source = with_window(
                Source::reader(std::io::Cursor::new(head).chain(stdin)),
                window,
            );
            client.upload(upload, source).await
        });
        Job { handle, work }
    }
}

/// Sets the window of a source that can be read only once.
fn with_window(source: Source, window: Option<u64>) -> Source {
    match window {
        Some(window) => source.with_window(window),
        None => source,
    }
}

/// Locks the record of an earlier upload; `None` if it was finished in the meantime.
fn hold(journal: &Journal, id: &RecordId) -> Result<Option<LockedRecord>, JournalError> {
    match journal.lock(id) {
        Ok(held) => Ok(Some(held)),
        Err(JournalError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Parses JSON, or the JSON in the file that follows an `@`. The client checks that it is an
/// object.
fn read_metadata(text: &str) -> Result<Value, Error> {
    let json = match text.strip_prefix('@') {
        None => text.to_owned(),
        Some(path) => {
            let path = PathBuf::from(path);
            std::fs::read_to_string(&path).map_err(|source| Error::MetadataFile { path, source })?
        }
    };
    serde_json::from_str(&json).map_err(Error::MetadataNotJson)
}

/// Number of first bytes from which the media type is guessed.
const CONTENT_TYPE_PREFIX: u64 = 512;

/// Types of containers and encodings. The file name describes their content better.
const VAGUE: [&str; 5] = [
    "application/zip",
    "application/gzip",
    "text/xml",
    "text/html",
    "application/x-ole-storage",
];

/// Returns the media type of a file; `None` if it is unknown or the file is not a regular one:
/// bytes read from a pipe would be lost.
async fn content_type_of_file(path: &Path) -> Option<String> {
    let by_name = mime_guess::from_path(path).first_raw();
    let head = head_of(path).await.unwrap_or_default();
    choose(by_name, content_type_of_bytes(&head)).map(str::to_owned)
}

/// Returns the media type of content that begins with these bytes.
fn content_type_of_bytes(head: &[u8]) -> Option<&'static str> {
    infer::get(head).map(|found| found.mime_type())
}

async fn head_of(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    if tokio::fs::metadata(path).await?.is_file() {
        let file = File::open(path).await?;
        file.take(CONTENT_TYPE_PREFIX)
            .read_to_end(&mut head)
            .await?;
    }
    Ok(head)
}

/// The bytes decide, unless their type is a container or an encoding.
fn choose<'a>(by_name: Option<&'a str>, by_content: Option<&'a str>) -> Option<&'a str> {
    match (by_name, by_content) {
        (Some(name), Some(content)) if VAGUE.contains(&content) => Some(name),
        (name, content) => content.or(name),
    }
}

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

/// Continues the requested uploads.
pub(super) async fn run_resume(args: ResumeArgs) -> Result<Code, Error> {
    let signals = Signals::catch().map_err(Error::Signals)?;
    let display = Display::new(args.verbosity);
    super::print_warnings_on(&display);
    let (client, has_token) = super::client(&args.connection.credentials)?;
    let journal = journal::open(&args.journal)?;
    let found = wanted(&args, &journal)?;
    found.warn(|what, hint| output::warning(what, hint));
    if found.is_empty() {
        display.note("there is no unfinished upload");
    }
    let transfers = Transfers {
        client,
        display,
        journal: Some((journal.clone(), ResumeCommand::new(&args.journal))),
        to_upload_url: true,
        has_token,
    };
    let limit = args.transfer.max_rate.map(|rate| RateLimit::new(rate.0));
    let jobs = found
        .records
        .iter()
        .map(|record| transfers.job(&journal, record, &args, limit.clone()))
        .collect::<Result<_, _>>()?;
    let code = transfers
        .run(jobs, args.transfer.concurrency, signals)
        .await;
    Ok(code.max(found.code()))
}

/// Returns the named upload, all of them, or the only one.
fn wanted(args: &ResumeArgs, journal: &Journal) -> Result<Unfinished, Error> {
    if let Some(id) = &args.id {
        return Ok(Unfinished {
            records: vec![journal::named(journal, id)?],
            damaged: Vec::new(),
        });
    }
    let found = journal::unfinished(journal)?;
    if args.all || found.records.len() < 2 {
        return Ok(found);
    }
    found.warn(|what, hint| output::warning(what, hint));
    for line in journal::table(&found.records).lines() {
        output::note(line);
    }
    Err(Error::Several {
        count: found.records.len(),
    })
}

impl Transfers {
    fn job(
        &self,
        journal: &Journal,
        record: &Record,
        args: &ResumeArgs,
        limit: Option<RateLimit>,
    ) -> Result<Job, Error> {
        let handle = self.display.add_progress(journal::source_of(record));
        let upload = Upload::of_record(record)?.verify(!args.transfer.no_verify);
        let mut upload = with_progress(super::with_retries(upload, &args.connection), &handle);
        if let Some(limit) = limit {
            upload = upload.rate_limit(limit);
        }
        let (client, journal, id) = (self.client.clone(), journal.clone(), record.id.clone());
        let work: Work = Box::pin(async move { client.resume(upload, journal.lock(&id)?).await });
        Ok(Job { handle, work })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use windlass_client::{NewRecord, Settings};

    use super::*;
    use crate::args::{Args, Command};

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    const ZIP: &[u8] = b"PK\x03\x04\x14\0\0\0\x08\0";

    #[test]
    fn bytes_win_over_names_where_they_tell_enough() {
        let cases: [(&str, &[u8], Option<&str>); 8] = [
            ("cow.png", PNG, Some("image/png")),
            ("cow.jpg", PNG, Some("image/png")),
            ("cow", PNG, Some("image/png")),
            ("cow.jpg", b"", Some("image/jpeg")),
            (
                "herd.docx",
                ZIP,
                Some("application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
            ),
            ("herd.zip", ZIP, Some("application/zip")),
            ("herd.csv", b"name,age\n", Some("text/csv")),
            ("herd", b"name,age\n", None),
        ];
        for (name, head, expected) in cases {
            let by_name = mime_guess::from_path(name).first_raw();
            assert_eq!(
                choose(by_name, content_type_of_bytes(head)),
                expected,
                "{name}"
            );
        }
    }

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
        let client = Client::new(Settings::default()).expect("a client");
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
