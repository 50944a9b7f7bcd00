//! `windlass status` and `windlass cancel`: questions about one session.

use serde_json::{Value, json};
use windlass_client::{Client, Journal, Record, SessionUri, Status};

use super::hints::{self, HintContext};
use super::{Error, journal, setup};
use crate::args::{CancelArgs, StatusArgs, Target};
use crate::exit::Code;
use crate::{display, output, text};

/// Prints the committed offsets of uploads, which it asks their servers for.
pub(super) async fn run_status(args: StatusArgs) -> Result<Code, Error> {
    setup::print_warnings();
    let (client, has_token) = setup::client(&args.token)?;
    let mut worst = Code::Success;
    let asked = match &args.target {
        Some(Target::Session(session)) => vec![StatusQuery::of_session(session)],
        Some(Target::Id(id)) => {
            let journal = journal::open(&args.journal)?;
            vec![StatusQuery::of_record(journal::named(&journal, id)?)]
        }
        None => {
            let journal = journal::open(&args.journal)?;
            let found = journal::unfinished(&journal)?;
            found.warn(|what, hint| output::warning(what, hint));
            if found.is_empty() {
                output::note("there is no unfinished upload");
            }
            worst = found.code();
            found
                .records
                .into_iter()
                .map(StatusQuery::of_record)
                .collect()
        }
    };
    for asked in &asked {
        worst = worst.max(asked.ask(&client, has_token, args.json).await);
    }
    Ok(worst)
}

/// A session, with its record in the journal if it has one.
struct StatusQuery {
    session: SessionUri,
    record: Option<Record>,
}

impl StatusQuery {
    fn of_session(session: &SessionUri) -> Self {
        Self {
            session: session.clone(),
            record: None,
        }
    }

    fn of_record(record: Record) -> Self {
        Self {
            session: record.session.clone(),
            record: Some(record),
        }
    }

    async fn ask(&self, client: &Client, has_token: bool, json: bool) -> Code {
        match client.status(&self.session).await {
            Ok(status) => {
                if json {
                    output::json(self.to_json(&status));
                } else {
                    output::data(text::escaped(&self.line(&status)));
                }
                match status {
                    Status::Active { .. } | Status::Finished { .. } => Code::Success,
                    Status::Lost | Status::Cancelled => Code::Failure,
                }
            }
            Err(error) => {
                let context = HintContext {
                    has_token,
                    ..HintContext::default()
                };
                let message = format!("{}: {}", self.name(), output::with_causes(&error));
                output::failure(&message, hints::hint(&error, context).as_deref());
                hints::exit_code(&error)
            }
        }
    }

    fn name(&self) -> String {
        match &self.record {
            Some(record) => format!("{}  {}", record.id, journal::source_of(record)),
            None => "session".to_owned(),
        }
    }

    fn line(&self, status: &Status) -> String {
        let total = self.record.as_ref().map(|record| record.total);
        let state = match status {
            Status::Active { committed } => display::committed(*committed, total),
            Status::Finished { .. } => "finished".to_owned(),
            Status::Lost => {
                "lost: the server no longer knows the session, resume starts again".to_owned()
            }
            Status::Cancelled => "cancelled".to_owned(),
        };
        format!("{}  {state}{}", self.name(), self.difference(status))
    }

    /// The server may have committed more than the journal knows.
    fn difference(&self, status: &Status) -> String {
        match (status, &self.record) {
            (Status::Active { committed }, Some(record)) if *committed != record.committed => {
                format!(" ({} of them known here)", text::size(record.committed))
            }
            _ => String::new(),
        }
    }

    fn to_json(&self, status: &Status) -> Value {
        let (state, committed, resource) = match status {
            Status::Active { committed } => ("active", Some(*committed), None),
            Status::Finished { resource } => ("finished", None, resource.as_ref()),
            Status::Lost => ("lost", None, None),
            Status::Cancelled => ("cancelled", None, None),
        };
        let mut value = json!({"state": state, "committed": committed, "resource": resource});
        if let Some(record) = &self.record {
            value["upload"] = journal::row(record);
        }
        value
    }
}

/// Cancels an upload.
pub(super) async fn run_cancel(args: CancelArgs) -> Result<Code, Error> {
    setup::print_warnings();
    let journal = journal::open(&args.journal)?;
    if args.forget {
        return forget(&journal, &args.target);
    }
    let (client, _) = setup::client(&args.token)?;
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

/// Describes the outcome. In each case the server no longer has the upload.
fn outcome(what: &str, status: &Status) -> String {
    match status {
        Status::Lost => format!("the server no longer knows {what}"),
        _ => format!("{what} is cancelled"),
    }
}

/// Cancels a session while its record is locked. The record is removed only after the server has
/// deleted the session.
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
