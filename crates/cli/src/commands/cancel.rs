//! `windlass cancel`.

use windlass_client::{Client, Journal, Record, SessionUri, Status};

use super::{Error, connection, journal, warnings};
use crate::args::{CancelArgs, Target};
use crate::exit::Code;
use crate::output;

/// Gives an upload up.
pub(super) async fn run(args: CancelArgs) -> Result<Code, Error> {
    warnings::print_warnings();
    let journal = journal::open(&args.journal)?;
    if args.forget {
        return forget(&journal, &args.target);
    }
    let (client, _) = connection::client(&args.token)?;
    match &args.target {
        Target::Id(id) => {
            let record = journal::named(&journal, id)?;
            let status = cancel(&client, &journal, &record).await?;
            output::note(outcome(&record.id.to_string(), &status));
        }
        Target::Session(session) => {
            let status = match of_session(&journal, session)? {
                Some(record) => cancel(&client, &journal, &record).await?,
                None => client.cancel(session).await?,
            };
            output::note(outcome("the session", &status));
        }
    }
    Ok(Code::Success)
}

/// What became of it. In any case the server has nothing of it any more.
fn outcome(what: &str, status: &Status) -> String {
    match status {
        Status::Lost => format!("the server does not know {what} any more"),
        _ => format!("{what} is cancelled"),
    }
}

/// Nobody else may work on it meanwhile, and it is forgotten only when the server has let go of it.
async fn cancel(client: &Client, journal: &Journal, record: &Record) -> Result<Status, Error> {
    let held = journal.lock(&record.id)?;
    let status = client.cancel(&record.session).await?;
    held.finish()?;
    Ok(status)
}

fn forget(journal: &Journal, target: &Target) -> Result<Code, Error> {
    let id = match target {
        Target::Id(id) => journal::id_of(journal, id)?,
        Target::Session(session) => {
            let record = of_session(journal, session)?;
            let unknown = || Error::NoSuchUpload {
                text: session.to_string(),
            };
            record.ok_or_else(unknown)?.id
        }
    };
    journal.remove(&id)?;
    output::note(format_args!("{id} is forgotten"));
    Ok(Code::Success)
}

fn of_session(journal: &Journal, session: &SessionUri) -> Result<Option<Record>, Error> {
    let mut records = journal::unfinished(journal)?.records.into_iter();
    Ok(records.find(|record| record.session == *session))
}
