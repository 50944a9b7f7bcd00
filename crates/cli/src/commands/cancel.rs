//! `windlass cancel`.

use windlass_client::{Client, Journal, Record, SessionUri};

use super::{Error, journal, line};
use crate::args::{CancelArgs, Target};
use crate::exit::Code;
use crate::output;

/// Gives an upload up.
pub(super) async fn run(args: CancelArgs) -> Result<Code, Error> {
    let journal = journal::open(&args.journal)?;
    if args.forget {
        return forget(&journal, &args.target);
    }
    let (client, _) = line::client(&args.token)?;
    match &args.target {
        Target::Id(id) => {
            let record = journal::named(&journal, id)?;
            cancel(&client, &journal, &record).await?;
            output::note(format_args!("{} is cancelled", record.id));
        }
        Target::Session(session) => {
            match of_session(&journal, session)? {
                Some(record) => cancel(&client, &journal, &record).await?,
                None => client.cancel(session).await?,
            }
            output::note("the session is cancelled");
        }
    }
    Ok(Code::Success)
}

/// Nobody else may work on it meanwhile, and it is forgotten only when the server has let go of it.
async fn cancel(client: &Client, journal: &Journal, record: &Record) -> Result<(), Error> {
    let held = journal.hold(&record.id)?;
    client.cancel(&record.session).await?;
    Ok(held.finish()?)
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
    let mut records = journal::records(journal)?.into_iter();
    Ok(records.find(|record| record.session == *session))
}
