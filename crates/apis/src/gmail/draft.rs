//! Drafts: messages that are not sent yet.

use serde_json::{Value, json};
use windlass_server::handler::{Answer, Rejection, Uploaded};

use super::letter::Letter;
use super::listing;
use super::mailbox::{Mailbox, New};
use super::message::{self, Format};
use super::records::{Draft, Labels};
use super::request::{Request, parameter, text};
use super::rows::Rows;
use super::thread::{self, finish};
use super::{body_of, delivery, invalid, no_media};

/// How many drafts are looked at to fill a page.
const BUDGET: usize = 2000;

/// `users.drafts.create`
pub(super) async fn create(
    request: &Request<'_>,
    media: Option<Uploaded>,
) -> Result<Answer, Rejection> {
    let letter = Letter::open(media.ok_or_else(no_media)?).await?;
    let mut rows = request.rows();
    // Ids ascend from the newest to the oldest, as lists show them.
    let number = u64::from_str_radix(&request.fresh_id(), 16).unwrap_or_default();
    let id = format!("r{:016x}", u64::MAX - number);
    let body = write(request, &mut rows, &id, &letter).await?;
    Ok(finish(rows, body_of(body)))
}

/// `users.drafts.update`
pub(super) async fn update(
    request: &Request<'_>,
    media: Option<Uploaded>,
) -> Result<Answer, Rejection> {
    let letter = Letter::open(media.ok_or_else(no_media)?).await?;
    let mut rows = request.rows();
    let id = request.id();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let draft = mailbox.draft(id).await?;
    mailbox.remove(&draft.message).await?;
    let body = write(request, &mut rows, id, &letter).await?;
    Ok(finish(rows, body_of(body)))
}

async fn write(
    request: &Request<'_>,
    rows: &mut Rows<'_>,
    id: &str,
    letter: &Letter,
) -> Result<Value, Rejection> {
    let mut mailbox = Mailbox::open(rows, &request.address);
    let wanted = request.wanted_thread()?;
    let thread = thread::of(&mut mailbox, wanted, &letter.summary).await?;
    let new = New {
        id: request.fresh_id(),
        thread,
        labels: Labels::from(["DRAFT".to_owned()]),
        date: request.call.now.as_millis(),
        draft: Some(id.to_owned()),
        letter,
    };
    let entry = mailbox.add(new).await?;
    mailbox.set_draft(id, &entry);
    let message = message::filed(&mut mailbox, &entry, &letter.structure).await?;
    Ok(json!({"id": id, "message": message}))
}

/// `users.drafts.send`
pub(super) async fn send(
    request: &Request<'_>,
    media: Option<Uploaded>,
) -> Result<Answer, Rejection> {
    let id = id_to_send(request)?;
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let draft = mailbox.draft(id).await?;
    let thread = mailbox.entry(&draft.message).await?.thread;
    let thread = (mailbox.thread(&thread).await?.messages.len() > 1).then_some(thread);
    let what = match media {
        Some(uploaded) => delivery::Sent::uploaded(request, uploaded).await?,
        None => delivery::Sent::draft(request, &mut mailbox, &draft.message).await?,
    };
    mailbox.remove(&draft.message).await?;
    delivery::deliver(request, rows, what, thread).await
}

/// The draft that is to be sent.
pub(super) fn id_to_send<'a>(request: &Request<'a>) -> Result<&'a str, Rejection> {
    let id = text(request.call.metadata, "id")?;
    id.ok_or_else(|| invalid("id names no draft"))
}

/// `users.drafts.get`
pub(super) async fn get(request: &Request<'_>) -> Result<Answer, Rejection> {
    let format = Format::of(request)?;
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let id = request.id();
    let draft = mailbox.draft(id).await?;
    let cost = message::cost(&mut mailbox, &draft.message, &format).await?;
    message::reserve(request, cost).await?;
    let message = message::show(&mut mailbox, &draft.message, &format).await?;
    Ok(body_of(json!({"id": id, "message": message})))
}

/// `users.drafts.delete`
pub(super) async fn delete(request: &Request<'_>) -> Result<Answer, Rejection> {
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let draft = mailbox.draft(request.id()).await?;
    mailbox.remove(&draft.message).await?;
    Ok(finish(rows, Answer::default()))
}

/// `users.drafts.list`
pub(super) async fn list(request: &Request<'_>) -> Result<Answer, Rejection> {
    let limit = request.page_size()?;
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let filter = listing::Filter::of(request, &mut mailbox).await?;
    let token = request.parameter("pageToken");
    if token.is_some_and(|token| !token.starts_with('r')) {
        return Err(parameter("pageToken", "is not a token of this list"));
    }
    let place = mailbox.collection("drafts");
    let found: Vec<(String, Draft)> = mailbox.rows.list(&place, token, BUDGET).await?;
    let mut more = (found.len() == BUDGET).then(|| found[BUDGET - 1].0.clone());
    let mut drafts = Vec::new();
    let mut last = None;
    for (id, draft) in found {
        if drafts.len() == limit {
            more = last;
            break;
        }
        let entry = mailbox.peek_entry(&draft.key).await?;
        if let Some(entry) = entry
            && filter.matches(&mailbox, &entry).await?
        {
            let message = json!({"id": entry.id, "threadId": entry.thread});
            drafts.push(json!({"id": id, "message": message}));
        }
        last = Some(id);
    }
    Ok(body_of(listing::page("drafts", drafts, more, None)))
}
