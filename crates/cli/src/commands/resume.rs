//! `windlass resume`.

use windlass_client::{Journal, RateLimit, Record, Upload};

use super::carry_on::CarryOn;
use super::signals::Signals;
use super::transfers::{Job, Transfers, Work};
use super::upload::watched;
use super::{Error, journal, line, uploads};
use crate::args::ResumeArgs;
use crate::display::Display;
use crate::exit::Code;
use crate::output;

/// Carries on with the uploads that are asked for.
pub(super) async fn run(args: ResumeArgs) -> Result<Code, Error> {
    let signals = Signals::catch().map_err(Error::Signals)?;
    let (client, has_token) = line::client(&args.line.token)?;
    let journal = journal::open(&args.journal)?;
    let records = wanted(&args, &journal)?;
    let display = Display::new(args.talk);
    if records.is_empty() {
        display.note("there is no unfinished upload");
    }
    let transfers = Transfers {
        client,
        display,
        journal: Some((journal.clone(), CarryOn::new(&args.journal))),
        to_upload_url: true,
        has_token,
    };
    let limit = args.max_rate.map(|rate| RateLimit::new(rate.0));
    let jobs = records
        .iter()
        .map(|record| transfers.job(&journal, record, &args, limit.clone()))
        .collect::<Result<_, _>>()?;
    Ok(transfers.run(jobs, args.concurrency, signals).await)
}

/// The upload that was named, all, or the only one.
fn wanted(args: &ResumeArgs, journal: &Journal) -> Result<Vec<Record>, Error> {
    if let Some(id) = &args.id {
        return Ok(vec![journal::named(journal, id)?]);
    }
    let records = journal::records(journal)?;
    if args.all || records.len() < 2 {
        return Ok(records);
    }
    output::note(uploads::table(&records));
    Err(Error::Several {
        count: records.len(),
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
        let track = self.display.track(journal::source_of(record));
        let upload = Upload::of_record(record)?.verify(!args.no_verify);
        let mut upload = watched(line::patient(upload, &args.line), &track);
        if let Some(limit) = limit {
            upload = upload.rate_limit(limit);
        }
        let (client, journal, id) = (self.client.clone(), journal.clone(), record.id.clone());
        let work: Work = Box::pin(async move { client.resume(upload, journal.hold(&id)?).await });
        Ok(Job { track, work })
    }
}
