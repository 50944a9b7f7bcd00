//! The uploads that a command stands for: its sources, the outcome of earlier commands for them,
//! and the remaining jobs.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use tokio::io::AsyncReadExt as _;
use windlass_client::{
    Chunking, Client, Journal, JournalError, RateLimit, RunId, Source, Upload, UploadKey,
};

use super::super::transfers::{Job, Work, with_progress};
use super::super::{Error, with_retries, with_session_origins};
use super::existing::{Choice, Earlier, ExistingUploads, hold};
use super::files::{self, Found, SourceFile};
use super::metadata::MetadataTemplate;
use super::{MAX_WINDOW, STDIN, content_type, is_run, is_stdin};
use crate::args::UploadArgs;
use crate::display::{self, Display, Event};
use crate::exit::Code;
use crate::output;

/// The settings that all sources of the command share.
pub(super) struct Plan {
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

/// The plan for all sources.
pub(super) struct Planned {
    pub(super) jobs: Vec<Job>,
    /// Number of sources that an earlier run has uploaded.
    pub(super) skipped: usize,
    /// Keys of all sources that are files.
    pub(super) keys: Vec<UploadKey>,
    /// The worst exit code of the sources without a job: the user chose to leave the source, or it
    /// cannot be read.
    pub(super) code: Code,
}

/// A source and the facts known before its upload begins.
enum Candidate {
    Stdin,
    File(Box<FileToUpload>),
}

struct FileToUpload {
    path: PathBuf,
    size: Size,
    upload: Upload,
    earlier: Earlier,
}

impl Plan {
    pub(super) fn new(
        args: &UploadArgs,
        metadata: Option<MetadataTemplate>,
        client: Client,
        journal: Option<Journal>,
        display: &Display,
    ) -> Result<Self, Error> {
        let upload = Upload::new(args.positional.url.clone())?
            .http_method(args.method.into())
            .verify(!args.transfer.no_verify);
        let upload = with_session_origins(upload, &args.session);
        let mut upload = with_retries(upload, &args.connection);
        if let Some(metadata) = &metadata {
            upload = upload.metadata(&metadata.of_all()?)?;
        }
        if let Some(content_type) = &args.content_type {
            upload = upload.content_type(content_type)?;
        }
        if let Some(upload_type) = args.upload_type {
            upload = upload.upload_type(upload_type.into());
        }
        if let Some(protocol) = args.protocol {
            upload = upload.protocol(protocol.into());
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
        if is_run(args) {
            upload = upload.one_of_several();
        }
        Ok(Self {
            upload,
            metadata: metadata.filter(MetadataTemplate::has_placeholders),
            guess: args.content_type.is_none(),
            window: args.chunk_size.map(|size| size.bytes().min(MAX_WINDOW)),
            existing: journal
                .map(|journal| ExistingUploads::new(client.clone(), journal, display.clone(), args))
                .transpose()?,
            client,
            display: display.clone(),
        })
    }

    /// Returns the jobs of all sources.
    pub(super) async fn jobs(&self, args: &UploadArgs) -> Result<Planned, Error> {
        let mut planned = Planned {
            jobs: Vec::new(),
            skipped: 0,
            keys: Vec::new(),
            code: Code::Success,
        };
        let candidates = self.candidates(args, &mut planned).await?;
        if args.existing.again {
            self.forget_finished(&planned.keys)?;
        }
        let earlier = candidates.iter().map(|candidate| match candidate {
            Candidate::Stdin => None,
            Candidate::File(file) => Some((&*file.path, &file.earlier)),
        });
        let choices = match &self.existing {
            Some(existing) => existing.choose(earlier.collect()).await,
            None => candidates.iter().map(|_| Ok(Choice::Begin)).collect(),
        };
        let run = run_of(&candidates, &choices)?;
        for (candidate, choice) in candidates.into_iter().zip(choices) {
            match (candidate, choice) {
                (Candidate::Stdin, _) => planned.jobs.push(self.job_of_stdin()),
                (Candidate::File(_), Ok(Choice::Leave)) => {
                    planned.code = planned.code.max(Code::Unfinished);
                }
                (Candidate::File(file), Ok(Choice::Skip)) => {
                    planned.skipped += 1;
                    self.skip(&file);
                }
                (Candidate::File(mut file), choice) => {
                    if is_run(args) {
                        file.upload = file.upload.of_run(run);
                    }
                    planned.jobs.push(self.job(*file, choice));
                }
            }
        }
        if planned.skipped > 0 {
            self.display.note(&skipped(planned.skipped));
        }
        Ok(planned)
    }

    /// Forgets the finished uploads with these keys, for `--again`.
    fn forget_finished(&self, keys: &[UploadKey]) -> Result<(), Error> {
        match &self.existing {
            Some(existing) => Ok(existing.journal().forget_finished(keys)?),
            None => Ok(()),
        }
    }

    /// Forgets the finished uploads of a run that has ended whole, unless it is a part of a larger
    /// one: the next command is a new upload.
    pub(super) fn end_run(&self, keys: &[UploadKey]) -> Result<(), Error> {
        match &self.existing {
            Some(existing) => Ok(existing.journal().forget_finished_run(keys)?),
            None => Ok(()),
        }
    }

    /// Finds the sources, and looks for earlier uploads of each.
    async fn candidates(
        &self,
        args: &UploadArgs,
        planned: &mut Planned,
    ) -> Result<Vec<Candidate>, Error> {
        let mut candidates = Vec::new();
        for path in &args.positional.sources {
            if is_stdin(path) {
                candidates.push(Candidate::Stdin);
                continue;
            }
            let named = vec![SourceFile::named(path)];
            let files = if args.directories.recursive && path.is_dir() {
                self.files_in(path, args, planned).await
            } else {
                named
            };
            for file in files {
                let file = self.file_to_upload(&file, &mut planned.keys).await?;
                candidates.push(Candidate::File(Box::new(file)));
            }
        }
        Ok(candidates)
    }

    /// Returns the files in a directory.
    async fn files_in(
        &self,
        path: &Path,
        args: &UploadArgs,
        planned: &mut Planned,
    ) -> Vec<SourceFile> {
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
        let mut files = Vec::new();
        for found in found {
            match found {
                Found::File(file) => files.push(file),
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
        files
    }

    /// Describes the upload of a file, adds its key, and looks for earlier uploads of it.
    async fn file_to_upload(
        &self,
        file: &SourceFile,
        keys: &mut Vec<UploadKey>,
    ) -> Result<FileToUpload, Error> {
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
        let earlier = match &self.existing {
            Some(existing) => existing.look_up(&upload, &path, keys).await,
            None => Earlier::Nothing,
        };
        Ok(FileToUpload {
            path,
            size,
            upload,
            earlier,
        })
    }

    /// Reports a file that an earlier run has uploaded.
    fn skip(&self, file: &FileToUpload) {
        let Earlier::Finished { upload, .. } = &file.earlier else {
            return;
        };
        let source = file.path.display().to_string();
        let handle = self.display.add_progress(source, file.size.known());
        handle.event(&Event::Skipped(display::Skipped {
            source: handle.source(),
            size: upload.source.size(),
            resource_id: upload.resource_id.as_deref(),
        }));
        let id = upload.resource_id.as_ref().map(|id| format!(" as {id}"));
        let ago = upload.finished.elapsed().unwrap_or_default();
        self.display.note(&format!(
            "{}: skipped, uploaded{} {} ago",
            handle.label(),
            id.unwrap_or_default(),
            output::age(ago)
        ));
    }

    /// Returns the job of a file.
    fn job(&self, file: FileToUpload, choice: Result<Choice, windlass_client::Error>) -> Job {
        let FileToUpload {
            path, size, upload, ..
        } = file;
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
        Job { handle, work }
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

/// Returns the id of this run. A run that skips files continues the run that uploaded them, so that
/// both count as one run.
fn run_of(
    candidates: &[Candidate],
    choices: &[Result<Choice, windlass_client::Error>],
) -> Result<RunId, JournalError> {
    let skipped = candidates.iter().zip(choices);
    let mut earlier = skipped.filter_map(|(candidate, choice)| match (candidate, choice) {
        (Candidate::File(file), Ok(Choice::Skip)) => match &file.earlier {
            Earlier::Finished { upload, .. } => upload.run,
            _ => None,
        },
        _ => None,
    });
    earlier.next_back().map_or_else(RunId::random, Ok)
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
    /// The size of a file.
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

/// Says that sources are skipped, and how to upload them all the same.
fn skipped(count: usize) -> String {
    let what = if count == 1 {
        "1 source is skipped: an earlier run has uploaded it".to_owned()
    } else {
        format!("{count} sources are skipped: an earlier run has uploaded them")
    };
    format!("{what}; --again uploads the same once more")
}
