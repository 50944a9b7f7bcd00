//! `windlass resume`.

use windlass_client::{Journal, RateLimit, Record, Upload};

use super::hints::ResumeCommand;
use super::journal::Unfinished;
use super::setup::Signals;
use super::transfers::{Job, Transfers, Work, with_progress};
use super::{Error, journal, setup};
use crate::args::ResumeArgs;
use crate::display::Display;
use crate::exit::Code;
use crate::output;

/// Continues the requested uploads.
pub(super) async fn run(args: ResumeArgs) -> Result<Code, Error> {
    let signals = Signals::catch().map_err(Error::Signals)?;
    let display = Display::new(args.verbosity);
    setup::print_warnings_on(&display);
    let (client, has_token) = setup::client(&args.connection.token)?;
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
        let mut upload = with_progress(setup::with_retries(upload, &args.connection), &handle);
        if let Some(limit) = limit {
            upload = upload.rate_limit(limit);
        }
        let (client, journal, id) = (self.client.clone(), journal.clone(), record.id.clone());
        let work: Work = Box::pin(async move { client.resume(upload, journal.lock(&id)?).await });
        Ok(Job { handle, work })
    }
}
