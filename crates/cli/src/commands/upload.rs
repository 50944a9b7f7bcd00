//! `windlass upload` and `windlass resume`.

use std::io::IsTerminal as _;
use std::path::Path;

use tokio::io::AsyncReadExt as _;
use url::Url;
use windlass_client::{Chunking, Client, Journal, RateLimit, Record, Source, Upload, UploadType};

use super::hints::ResumeCommand;
use super::journal::Unfinished;
use super::transfers::{Concurrency, Job, Transfers, Work, with_progress};
use super::{Error, Signals, journal};
use crate::args::{ResumeArgs, UploadArgs};
use crate::display::Display;
use crate::exit::Code;
use crate::output;
use existing::{Choice, ExistingUploads, hold};
use files::{Found, SourceFile};
use metadata::MetadataTemplate;

mod content_type;
mod existing;
mod files;
mod metadata;

pub(crate) use metadata::NotAPlaceholder;

/// The name of standard input.
const STDIN: &str = "-";

/// Maximum size of the window, in memory, of a source that can be read only once.
pub(super) const LARGEST_WINDOW: u64 = 1 << 30;

/// Uploads all sources.
pub(super) async fn run_upload(args: UploadArgs) -> Result<Code, Error> {
    let mut signals = Signals::catch().map_err(Error::Signals)?;
    let display = Display::new(args.verbosity);
    super::print_warnings_on(&display);
    let metadata = args.metadata.as_deref().map(MetadataTemplate::read);
    let metadata = metadata.transpose()?;
    check_stdin(&args, metadata.as_ref())?;
    let (client, has_token) = super::client(&args.connection.credentials)?;
    let journal = journal(&args, &display)?;
    let plan = Plan::new(&args, metadata, client.clone(), journal.clone(), &display)?;
    let planned = tokio::select! {
        biased;
        () = signals.next() => {
            output::after_interrupt();
            display.error("stopped before the first upload", None);
            return Ok(Code::Unfinished);
        }
        planned = plan.jobs(&args) => planned?,
    };
    let transfers = Transfers {
        client,
        display,
        journal: journal.map(|journal| {
            let command = ResumeCommand::new(
                &args.journal,
                &args.transfer,
                &args.connection,
                &args.session,
            );
            (journal, command)
        }),
        to_upload_url: is_upload_url(&args.positional.url),
        has_token,
        names_sources: args.positional.sources.len() > 1 || args.directories.recursive,
    };
    let code = transfers
        .run(planned.jobs, Concurrency::of(args.transfer), signals)
        .await;
    Ok(code.max(planned.code))
}

fn is_upload_url(url: &Url) -> bool {
    url.path().split('/').any(|segment| segment == "upload")
}

fn is_stdin(source: &Path) -> bool {
    source == Path::new(STDIN)
}

/// Refuses standard input that is named twice or whose chunks exceed the window. It can be read only
/// once, so bytes are kept until the server has committed them.
fn check_stdin(args: &UploadArgs, metadata: Option<&MetadataTemplate>) -> Result<(), Error> {
    let from_stdin = args
        .positional
        .sources
        .iter()
        .filter(|source| is_stdin(source));
    let from_stdin = from_stdin.count();
    if from_stdin > 1 {
        return Err(Error::StdinTwice);
    }
    if from_stdin > 0 && metadata.is_some_and(MetadataTemplate::has_placeholders) {
        return Err(Error::PlaceholderOfStdin);
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
    /// The metadata, if it differs from file to file.
    metadata: Option<MetadataTemplate>,
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
    /// The worst of those without a job: the user chose to leave it, or it cannot be read.
    code: Code,
}

impl Planned {
    fn add(&mut self, job: Option<Job>) {
        match job {
            Some(job) => self.jobs.push(job),
            None => self.code = self.code.max(Code::Unfinished),
        }
    }
}

impl Plan {
    fn new(
        args: &UploadArgs,
        metadata: Option<MetadataTemplate>,
        client: Client,
        journal: Option<Journal>,
        display: &Display,
    ) -> Result<Self, Error> {
        let upload = Upload::new(args.positional.url.clone())?
            .http_method(args.method.into())
            .verify(!args.transfer.no_verify);
        let upload = super::with_session_origins(upload, &args.session);
        let mut upload = super::with_retries(upload, &args.connection);
        if let Some(metadata) = &metadata {
            upload = upload.metadata(&metadata.of_all()?)?;
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
            metadata: metadata.filter(MetadataTemplate::has_placeholders),
            guess: args.content_type.is_none(),
            window: args.chunk_size.map(|size| size.bytes().min(LARGEST_WINDOW)),
            existing: journal
                .map(|journal| ExistingUploads::new(client.clone(), journal, display.clone(), args))
                .transpose()?,
            client,
            display: display.clone(),
        })
    }

    async fn jobs(&self, args: &UploadArgs) -> Result<Planned, Error> {
        let mut planned = Planned {
            jobs: Vec::new(),
            code: Code::Success,
        };
        for path in &args.positional.sources {
            if is_stdin(path) {
                planned.jobs.push(self.job_of_stdin());
            } else if args.directories.recursive && path.is_dir() {
                self.add_directory(path, args, &mut planned).await?;
            } else {
                planned.add(self.job(&SourceFile::named(path)).await?);
            }
        }
        Ok(planned)
    }

    /// Adds the jobs of the files in a directory.
    async fn add_directory(
        &self,
        path: &Path,
        args: &UploadArgs,
        planned: &mut Planned,
    ) -> Result<(), Error> {
        let (directory, filter) = (path.to_owned(), args.directories.clone());
        let found = tokio::task::spawn_blocking(move || files::in_directory(&directory, &filter));
        let found = found
            .await
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        if !found
            .iter()
            .any(|found| matches!(found, Found::File(_) | Found::Unreadable(..)))
        {
            let what = format!("there is no file to upload in {}", path.display());
            self.display.warning(&what, nothing_found(args));
        }
        for found in found {
            match found {
                Found::File(file) => planned.add(self.job(&file).await?),
                Found::Special(path) => {
                    let what = format!("{} is left out: it is not a file", path.display());
                    self.display.warning(&what, None);
                }
                Found::Unreadable(path, error) => {
                    let what = format!("cannot read the directory {}: {error}", path.display());
                    self.display
                        .error(&what, Some("the files in it are not uploaded"));
                    planned.code = planned.code.max(Code::CannotBegin);
                }
            }
        }
        Ok(())
    }

    /// Returns the job of one file; `None` if the user chose to leave it.
    async fn job(&self, file: &SourceFile) -> Result<Option<Job>, Error> {
        let path = file.path.clone();
        let size = size_of(&path).await;
        let mut upload = self.upload.clone();
        if let Some(metadata) = &self.metadata {
            if size == Size::Unknown && metadata.has_size() {
                return Err(Error::NoSize { path });
            }
            let metadata = metadata.of_file(file, size.known().unwrap_or_default())?;
            upload = upload.metadata(&metadata)?;
        }
        if self.guess
            && let Some(guessed) = content_type::of_file(&path).await
        {
            upload = upload.content_type(&guessed)?;
        }
        let choice = match &self.existing {
            Some(existing) => existing.choose(&upload, &path).await,
            None => Ok(Choice::Begin),
        };
        if matches!(choice, Ok(Choice::Leave)) {
            return Ok(None);
        }
        let handle = self
            .display
            .add_progress(path.display().to_string(), size.known());
        let upload = with_progress(upload, &handle);
        let (client, source) = (
            self.client.clone(),
            with_window(Source::path(&path), self.window),
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
        let handle = self.display.add_progress(STDIN, None);
        if std::io::stdin().is_terminal() {
            self.display
                .note("standard input is the terminal: Ctrl-D on a line of its own ends the media");
        }
        let mut upload = with_progress(self.upload.clone(), &handle);
        let (client, guess, window) = (self.client.clone(), self.guess, self.window);
        let work: Work = Box::pin(async move {
            let mut stdin = tokio::io::stdin();
            let mut head = Vec::new();
            let mut has_ended = false;
            if guess {
                let mut beginning = (&mut stdin).take(content_type::PREFIX);
                // A source that cannot be read now will fail again at once.
                let read = beginning.read_to_end(&mut head).await;
                has_ended = read.is_ok_and(|len| (len as u64) < content_type::PREFIX);
                if let Some(guessed) = content_type::of_bytes(&head) {
                    upload = upload.content_type(guessed)?;
                }
            }
            let head = std::io::Cursor::new(head);
            // A terminal that is read after its end waits for more.
            let source = if has_ended {
                Source::reader(head)
            } else {
                Source::reader(head.chain(stdin))
            };
            let source = with_window(source, window);
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

/// The size of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    /// That of a file.
    Known(u64),
    /// It is a pipe or a device.
    Unknown,
    /// It cannot be examined. The upload will fail and say why.
    Unreadable,
}

impl Size {
    fn known(self) -> Option<u64> {
        match self {
            Self::Known(size) => Some(size),
            Self::Unknown => None,
            Self::Unreadable => Some(0),
        }
    }
}

async fn size_of(path: &Path) -> Size {
    match tokio::fs::metadata(path).await {
        Ok(metadata) if metadata.is_file() => Size::Known(metadata.len()),
        Ok(metadata) if metadata.is_dir() => Size::Unreadable,
        Ok(_) => Size::Unknown,
        Err(_) => Size::Unreadable,
    }
}

fn nothing_found(args: &UploadArgs) -> Option<&'static str> {
    let directories = &args.directories;
    let is_filtered = !directories.include.is_empty()
        || !directories.exclude.is_empty()
        || directories.max_depth.is_some();
    is_filtered.then_some("--include, --exclude and --max-depth choose among the files")
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
        journal: Some((
            journal.clone(),
            ResumeCommand::new(
                &args.journal,
                &args.transfer,
                &args.connection,
                &args.session,
            ),
        )),
        to_upload_url: true,
        has_token,
        names_sources: found.records.len() > 1 || args.all,
    };
    let limit = args.transfer.max_rate.map(|rate| RateLimit::new(rate.0));
    let jobs = found
        .records
        .iter()
        .map(|record| transfers.job(&journal, record, &args, limit.clone()))
        .collect::<Result<_, _>>()?;
    let code = transfers
        .run(jobs, Concurrency::of(args.transfer), signals)
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
    journal::list(&found);
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
        let handle = self
            .display
            .add_progress(journal::source_of(record), Some(record.total));
        let upload = Upload::of_record(record)?.verify(!args.transfer.no_verify);
        let upload = super::with_session_origins(upload, &args.session);
        let mut upload = with_progress(super::with_retries(upload, &args.connection), &handle);
        if let Some(limit) = limit {
            upload = upload.rate_limit(limit);
        }
        let (client, journal, id) = (self.client.clone(), journal.clone(), record.id.clone());
        let work: Work = Box::pin(async move { client.resume(upload, journal.lock(&id)?).await });
        Ok(Job { handle, work })
    }
}
