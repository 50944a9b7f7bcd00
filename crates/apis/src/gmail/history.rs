//! `users.history.list`: the events of a mailbox after an event that the client knows.

use serde_json::{Map, Value, json};
use windlass_rest::handler::{Answer, Rejection};

use super::mailbox::{Mailbox, event_row_id};
use super::request::{Request, body_of};
use super::rows::{Account, Event, EventKind};
use super::{invalid, invalid_parameter, not_found};

/// Maximum number of events that a call reads.
const BUDGET: usize = 10_000;

/// Number of events that are read from the ledger at a time.
const BATCH: usize = 100;

/// `users.history.list`
pub(super) async fn list(request: &Request<'_>) -> Result<Answer, Rejection> {
    let filter = EventFilter::from_request(request)?;
    let limit = request.page_size()?;
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let account = mailbox.account().await?;
    let start = start(request, &account)?;
    let collection = mailbox.collection("history");
    let mut shown = Vec::new();
    let (mut at, mut looked, mut more) = (start, 0, true);
    while more && shown.len() < limit && looked < BUDGET {
        let batch: Vec<(String, Event)> = mailbox
            .rows
            .list(&collection, Some(&event_row_id(at)), BATCH)
            .await?;
        more = batch.len() == BATCH;
        looked += batch.len();
        for (row, event) in batch {
            if shown.len() == limit {
                more = true;
                break;
            }
            at = id_of(&row);
            if filter.includes(&event) {
                shown.push(show(at, &event));
            }
        }
    }
    let mut body = json!({"historyId": account.history.to_string()});
    if !shown.is_empty() {
        body["history"] = shown.into();
    }
    if more {
        body["nextPageToken"] = at.to_string().into();
    }
    Ok(body_of(body))
}

/// Returns the id after which to continue: the id of the last event that the client knows.
fn start(request: &Request<'_>, account: &Account) -> Result<u64, Rejection> {
    let given = request.parameter("startHistoryId");
    let given = given.ok_or_else(|| invalid("startHistoryId is required"))?;
    let number = |name, text: &str| {
        let number = text.parse::<u64>();
        number.map_err(|_| invalid_parameter(name, "must be a history id"))
    };
    let start = number("startHistoryId", given)?;
    let known = account.forgotten..=account.history;
    if !known.contains(&start) {
        return Err(not_found("history", given));
    }
    match request.parameter("pageToken") {
        Some(token) => Ok(number("pageToken", token)?.max(start)),
        None => Ok(start),
    }
}

/// Filter of the events that a client asks for.
struct EventFilter<'a> {
    /// Types to be shown; all if empty.
    types: Vec<&'a str>,
    label: Option<&'a str>,
}

impl<'a> EventFilter<'a> {
    fn from_request(request: &Request<'a>) -> Result<Self, Rejection> {
        Ok(Self {
            types: request.parameters("historyTypes")?,
            label: request.parameter("labelId"),
        })
    }

    fn includes(&self, event: &Event) -> bool {
        let label_fits = self
            .label
            .is_none_or(|label| event.labels.contains(label) || event.changed.contains(label));
        label_fits && (self.types.is_empty() || self.types.contains(&event.what.history_type()))
    }
}

impl EventKind {
    /// Returns the value of `historyTypes`.
    fn history_type(self) -> &'static str {
        match self {
            Self::MessageAdded => "messageAdded",
            Self::MessageDeleted => "messageDeleted",
            Self::LabelAdded => "labelAdded",
            Self::LabelRemoved => "labelRemoved",
        }
    }

    /// Returns the field of a history record.
    fn field(self) -> &'static str {
        match self {
            Self::MessageAdded => "messagesAdded",
            Self::MessageDeleted => "messagesDeleted",
            Self::LabelAdded => "labelsAdded",
            Self::LabelRemoved => "labelsRemoved",
        }
    }
}

fn show(id: u64, event: &Event) -> Value {
    let mut change = json!({"message": {
        "id": event.message, "threadId": event.thread, "labelIds": event.labels,
    }});
    if !event.changed.is_empty() {
        change["labelIds"] = json!(event.changed);
    }
    let message = json!({"id": event.message, "threadId": event.thread});
    let mut record = Map::new();
    record.insert("id".into(), id.to_string().into());
    record.insert("messages".into(), json!([message]));
    record.insert(event.what.field().into(), json!([change]));
    record.into()
}

fn id_of(row: &str) -> u64 {
    u64::from_str_radix(row, 16).unwrap_or_default()
}
