//! `windlass status`.

use serde_json::{Value, json};
use windlass_client::{Client, Record, SessionUri, Status};

use super::hints::{self, HintContext};
use super::{Error, connection, journal, uploads, warnings};
use crate::args::{StatusArgs, Target};
use crate::display;
use crate::exit::Code;
use crate::output;

/// Asks servers how far uploads are.
pub(super) async fn run(args: StatusArgs) -> Result<Code, Error> {
    warnings::print_warnings();
    let (client, has_token) = connection::client(&args.token)?;
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

/// A session that is asked about, and what the journal knows of it.
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
                    output::data(display::escaped(&self.line(&status)));
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
                "lost: the server does not know the session any more, resume begins anew".to_owned()
            }
            Status::Cancelled => "cancelled".to_owned(),
        };
        format!("{}  {state}{}", self.name(), self.difference(status))
    }

    /// The server may well have more than this machine has heard of.
    fn difference(&self, status: &Status) -> String {
        match (status, &self.record) {
            (Status::Active { committed }, Some(record)) if *committed != record.committed => {
                format!(" ({} of them known here)", display::size(record.committed))
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
            value["upload"] = uploads::row(record);
        }
        value
    }
}
