//! `windlass upload`.

use std::path::{Path, PathBuf};

use tokio::io::AsyncReadExt as _;
use url::Url;
use windlass_client::{Chunking, Client, Journal, RateLimit, Source, Upload, UploadType};

use super::carry_on::CarryOn;
use super::signals::Signals;
use super::transfers::{Job, Transfers, Work};
use super::{Error, journal, line};
use crate::args::UploadArgs;
use crate::display::{Display, Track, View};
use crate::exit::Code;

mod content_type;
mod earlier;
mod metadata;

use earlier::{Choice, Earlier};

/// The name of standard input.
const STDIN: &str = "-";

/// Uploads all sources.
pub(super) async fn run(args: UploadArgs) -> Result<Code, Error> {
    let mut signals = Signals::catch().map_err(Error::Signals)?;
    let from_stdin = args.places.sources.iter().filter(|source| is_stdin(source));
    if from_stdin.count() > 1 {
        return Err(Error::StdinTwice);
    }
    let (client, has_token) = line::client(&args.line.token)?;
    let journal = journal(&args)?;
    let display = Display::new(args.talk);
    let plan = Plan::new(&args, client.clone(), journal.clone(), display.clone())?;
    let planned = tokio::select! {
        biased;
        () = signals.next() => return Ok(Code::Unfinished),
        planned = plan.jobs(&args.places.sources) => planned?,
    };
    let transfers = Transfers {
        client,
        display,
        journal: journal.map(|journal| (journal, CarryOn::new(&args.journal))),
        to_upload_url: is_upload_url(&args.places.url),
        has_token,
    };
    let code = transfers.run(planned.jobs, args.concurrency, signals).await;
    Ok(code.max(planned.left))
}

fn is_upload_url(url: &Url) -> bool {
    url.path().split('/').any(|segment| segment == "upload")
}

fn is_stdin(source: &Path) -> bool {
    source == Path::new(STDIN)
}

/// What remembers the uploads. One in a single request cannot be carried on.
fn journal(args: &UploadArgs) -> Result<Option<Journal>, Error> {
    let is_one_request = args
        .upload_type
        .is_some_and(|asked| UploadType::from(asked) != UploadType::Resumable);
    if args.earlier.no_journal || is_one_request {
        return Ok(None);
    }
    journal::open(&args.journal).map(Some)
}

/// What all sources of the command have in common.
struct Plan {
    upload: Upload,
    guess: bool,
    client: Client,
    display: Display,
    earlier: Option<Earlier>,
}

/// What came of the sources.
struct Planned {
    jobs: Vec<Job>,
    /// Whether somebody chose to leave some of them.
    left: Code,
}

impl Plan {
    fn new(
        args: &UploadArgs,
        client: Client,
        journal: Option<Journal>,
        display: Display,
    ) -> Result<Self, Error> {
        let upload = Upload::new(args.places.url.clone())?
            .verb(args.method.into())
            .verify(!args.no_verify);
        let mut upload = line::patient(upload, &args.line);
        if let Some(text) = &args.metadata {
            upload = upload.metadata(&metadata::read(text)?)?;
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
        if let Some(rate) = args.max_rate {
            upload = upload.rate_limit(RateLimit::new(rate.0));
        }
        if let Some(journal) = journal.clone() {
            upload = upload.journal(journal);
        }
        Ok(Self {
            upload,
            guess: args.content_type.is_none(),
            earlier: journal
                .map(|journal| Earlier::new(client.clone(), journal, display.clone(), args)),
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

    /// The job of one source, unless it is to be left as it is.
    async fn job(&self, path: &Path) -> Result<Option<Job>, Error> {
        if is_stdin(path) {
            return Ok(Some(self.job_of_stdin()));
        }
        let mut upload = self.upload.clone();
        if self.guess
            && let Some(guessed) = content_type::of_file(path).await
        {
            upload = upload.content_type(&guessed)?;
        }
        let choice = match &self.earlier {
            Some(earlier) => earlier.choose(&upload, path).await,
            None => Ok(Choice::Go),
        };
        if matches!(choice, Ok(Choice::Leave)) {
            return Ok(None);
        }
        let track = self.display.track(path.display().to_string());
        let upload = watched(upload, &track);
        let (client, source) = (self.client.clone(), Source::path(path));
        let work: Work = Box::pin(async move {
            let upload = if choice? == Choice::Anew {
                upload.anew()
            } else {
                upload
            };
            client.upload(upload, source).await
        });
        Ok(Some(Job { track, work }))
    }

    /// Its first bytes are looked at before they go on their way.
    fn job_of_stdin(&self) -> Job {
        let track = self.display.track(STDIN);
        let mut upload = watched(self.upload.clone(), &track);
        let (client, guess) = (self.client.clone(), self.guess);
        let work: Work = Box::pin(async move {
            let mut stdin = tokio::io::stdin();
            let mut head = Vec::new();
            if guess {
                let mut beginning = (&mut stdin).take(content_type::ENOUGH);
                // What cannot be read now cannot be read a moment later either.
                beginning.read_to_end(&mut head).await.ok();
                if let Some(guessed) = content_type::of_content(&head) {
                    upload = upload.content_type(guessed)?;
                }
            }
            let source = Source::reader(std::io::Cursor::new(head).chain(stdin));
            client.upload(upload, source).await
        });
        Job { track, work }
    }
}

/// An upload that shows itself.
pub(super) fn watched(upload: Upload, track: &Track) -> Upload {
    let track = track.clone();
    upload.on_progress(move |progress| track.show(&View::from(progress)))
}
