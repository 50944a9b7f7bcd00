//! `windlass upload` and `windlass resume`.

use std::path::Path;

use url::Url;
use windlass_client::{Journal, RateLimit, Record, Upload, UploadType};

use super::hints::{Rerun, ResumeCommand};
use super::journal::Unfinished;
use super::transfers::{Concurrency, Job, Transfers, Work, with_progress};
use super::{Error, Signals, journal};
use crate::args::{ResumeArgs, UploadArgs};
use crate::display::Display;
use crate::exit::Code;
use crate::output;
use metadata::MetadataTemplate;
use plan::Plan;

mod content_type;
mod existing;
mod files;
mod metadata;
mod plan;

pub(crate) use metadata::NotAPlaceholder;

/// The name of standard input.
const STDIN: &str = "-";

/// Maximum size of the window, in memory, of a source that can be read only once.
pub(super) const MAX_WINDOW: u64 = 1 << 30;

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
    let rerun = Rerun::of(is_run(&args), journal.is_some(), args.existing.again);
    let transfers = Transfers {
        client,
        display,
        rerun,
        journal: journal.map(|journal| {
            let command = ResumeCommand::new(
                &args.journal,
                &args.transfer,
                &args.connection,
                &args.session,
            );
            (journal, command)
        }),
        // Only Google's protocol asks for such a URL.
        to_upload_url: args.protocol.is_some() || is_upload_url(&args.positional.url),
        has_token,
        names_sources: is_run(&args),
    };
    let concurrency = Concurrency::of(args.transfer);
    let code = transfers
        .run(planned.jobs, planned.skipped, concurrency, signals)
        .await
        .max(planned.code);
    // Results that could not be printed are not known to anybody: the run has not ended whole.
    if code == Code::Success && output::lost().is_none() {
        plan.end_run(&planned.keys)?;
    }
    Ok(code)
}

/// Whether the command may upload several sources. Its finished uploads are recorded until all of
/// them are finished.
fn is_run(args: &UploadArgs) -> bool {
    args.positional.sources.len() > 1 || args.directories.recursive
}

/// Whether the media goes in a single request, because the user has chosen so.
fn is_one_request(args: &UploadArgs) -> bool {
    args.upload_type
        .is_some_and(|asked| UploadType::from(asked) != UploadType::Resumable)
}

fn is_upload_url(url: &Url) -> bool {
    url.path().split('/').any(|segment| segment == "upload")
}

fn is_stdin(source: &Path) -> bool {
    source == Path::new(STDIN)
}

/// Refuses standard input that is named twice or has chunks that exceed the window. It can be read
/// only once, so bytes are kept until the server has committed them.
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
        Some(size) if from_stdin > 0 && size.bytes() > MAX_WINDOW => Err(Error::ChunkOfStdin),
        _ => Ok(()),
    }
}

/// Returns the journal for the uploads. An upload in a single request, or of standard input, cannot
/// be continued and has none. Only a run records that it is finished.
fn journal(args: &UploadArgs, display: &Display) -> Result<Option<Journal>, Error> {
    if args.existing.no_journal || (is_one_request(args) && !is_run(args)) {
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
        rerun: Rerun::default(),
    };
    let limit = args.transfer.max_rate.map(|rate| RateLimit::new(rate.0));
    let jobs = found
        .records
        .iter()
        .map(|record| transfers.job(&journal, record, &args, limit.clone()))
        .collect::<Result<_, _>>()?;
    let code = transfers
        .run(jobs, 0, Concurrency::of(args.transfer), signals)
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
