//! Methods by which messages enter mailboxes: inserted, imported, sent, kept as drafts.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_rest::handler::{Answer, FETCHED_AT_ONCE, OutboxEvent, Rejection, Uploaded};

use super::filing::{MAX_NAMED, NewMessage};
use super::mailbox::Mailbox;
use super::messages::Format;
use super::mime::{DefaultHeaders, Summary};
use super::options::Address;
use super::outbox::Outbound;
use super::parsed_message::{Outgoing, ParsedMessage};
use super::request::{Request, body_of, check_labels, finish, text};
use super::rows::{Draft, Labels, Rows};
use super::{filing, invalid, invalid_parameter, labels, listing, messages, no_media, request};

/// Maximum number of recipients of a message, as in Gmail.
const MAX_RECIPIENTS: usize = 500;

/// Maximum number of bytes of headers that one message may copy into mailboxes, over all of them.
const MAX_COPIED: usize = 32 * 1024 * 1024;

/// The same of words by which it is found. A message for many is found by its first words alone.
const MAX_COPIED_TEXT: usize = 8 * 1024 * 1024;

/// Maximum number of referenced messages that are looked up for all recipients of one message,
/// while other senders wait.
const MAX_LOOKED_UP: usize = 5000;

/// Maximum number of drafts that are read to fill a page.
const DRAFT_BUDGET: usize = 2000;

/// `users.messages.insert`: files a message with the labels of the metadata, none by default.
pub(super) async fn insert(
    request: &Request<'_>,
    media: Option<Uploaded>,
) -> Result<Answer, Rejection> {
    file(request, media, &[], "receivedTime").await
}

/// `users.messages.import`: files a message as if it had been received, by default in the inbox.
pub(super) async fn import(
    request: &Request<'_>,
    media: Option<Uploaded>,
) -> Result<Answer, Rejection> {
    file(request, media, &["INBOX", "UNREAD"], "dateHeader").await
}

async fn file(
    request: &Request<'_>,
    media: Option<Uploaded>,
    labels: &[&str],
    date_source: &str,
) -> Result<Answer, Rejection> {
    let parsed = ParsedMessage::open(media.ok_or_else(no_media)?).await?;
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let labels = match request.wanted_labels()? {
        Some(wanted) => wanted,
        None => labels.iter().map(|&label| label.to_owned()).collect(),
    };
    check_labels(&mut mailbox, &labels, labels::may_come_with).await?;
    let wanted = request.wanted_thread()?;
    let new = NewMessage {
        id: request.fresh_id(),
        thread: filing::find_thread(&mut mailbox, wanted.as_deref(), &parsed.summary, MAX_NAMED)
            .await?,
        labels,
        date: date(request, &parsed.summary, date_source),
        draft: None,
        parsed: &parsed,
        text: &parsed.summary.text,
    };
    let entry = mailbox.add(new).await?;
    let body = messages::filed(&mut mailbox, &entry, &parsed.structure).await?;
    let answer = body_of(body);
    // Gmail keeps such a message for administrators (Google Vault). Here it would be visible to
    // nobody, so it is not stored.
    let is_gone_at_once = request.flag("deleted");
    Ok(if is_gone_at_once {
        answer
    } else {
        request::finish(rows, answer)
    })
}

/// Milliseconds since the epoch.
fn date(request: &Request<'_>, summary: &Summary, default: &str) -> u64 {
    let now = request.call.now.as_millis();
    match request.parameter("internalDateSource").unwrap_or(default) {
        "dateHeader" => summary
            .date
            .map_or(now, |date| u64::try_from(date).unwrap_or(0)),
        _ => now,
    }
}

/// `users.messages.send`
pub(super) async fn send(
    request: &Request<'_>,
    media: Option<Uploaded>,
) -> Result<Answer, Rejection> {
    let sent = Submission::uploaded(request, media.ok_or_else(no_media)?).await?;
    deliver(request, request.rows(), sent, None).await
}

/// A message to be sent, and its recipients.
#[derive(Debug)]
pub(super) struct Submission {
    parsed: Outgoing,
    recipients: BTreeSet<Address>,
}

impl Submission {
    pub(super) async fn uploaded(
        request: &Request<'_>,
        uploaded: Uploaded,
    ) -> Result<Self, Rejection> {
        let parsed = Outgoing::open(uploaded, defaults(request)).await?;
        let recipients = recipients(&parsed.own.summary)?;
        Ok(Self { parsed, recipients })
    }

    /// Reads the message of a draft.
    pub(super) async fn draft(
        request: &Request<'_>,
        mailbox: &mut Mailbox<'_, '_>,
        id: &str,
    ) -> Result<Self, Rejection> {
        let media = messages::media(mailbox, id).await?;
        let media = media.ok_or_else(|| invalid("the draft has no message"))?;
        let source = mailbox.rows.lookup().media(&media);
        Self::uploaded(request, Uploaded { media, source }).await
    }
}

/// Files a message for its sender and its local recipients, and queues it for all others.
/// `draft_thread` is the thread of the draft that it was.
async fn deliver(
    request: &Request<'_>,
    mut rows: Rows<'_>,
    sent: Submission,
    draft_thread: Option<String>,
) -> Result<Answer, Rejection> {
    let Submission { parsed, recipients } = sent;
    let (local, remote): (BTreeSet<_>, BTreeSet<_>) = recipients
        .into_iter()
        .partition(|address| request.options.is_local(address));
    let local: BTreeSet<_> = local.iter().map(Address::without_tag).collect();
    let received = parsed.for_others();
    check_copies(request, received, local.len())?;
    let named = (MAX_LOOKED_UP / local.len().max(1)).min(MAX_NAMED);
    let text = beginning(&received.summary.text, MAX_COPIED_TEXT / local.len().max(1));
    let to_oneself = local.contains(&request.address);
    let labels: &[&str] = if to_oneself {
        &["SENT", "INBOX", "UNREAD"]
    } else {
        &["SENT"]
    };
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let wanted = request.wanted_thread()?;
    let own = &parsed.own.summary;
    let thread = match filing::find_thread(&mut mailbox, wanted.as_deref(), own, MAX_NAMED).await? {
        None => draft_thread,
        found => found,
    };
    let new = new_message(request, &parsed.own, thread, labels);
    let entry = mailbox.add(new).await?;
    let body = messages::filed(&mut mailbox, &entry, &parsed.own.structure).await?;
    for address in local.iter().filter(|address| **address != request.address) {
        let mut mailbox = Mailbox::open(&mut rows, address);
        let thread = filing::find_thread(&mut mailbox, None, &received.summary, named).await?;
        let new = new_message(request, received, thread, RECEIVED);
        mailbox.add(NewMessage { text, ..new }).await?;
    }
    let answer = Answer {
        events: relay_event(request, &parsed, &remote).into_iter().collect(),
        ..body_of(body)
    };
    Ok(request::finish(rows, answer))
}

/// Labels of a message in the mailbox of a recipient.
const RECEIVED: &[&str] = &["INBOX", "UNREAD"];

/// Refuses a message with headers that would be copied into very many mailboxes. Before the message
/// is accepted, only its own bytes are counted against the sender's quota.
fn check_copies(
    request: &Request<'_>,
    message: &ParsedMessage,
    mailboxes: usize,
) -> Result<(), Rejection> {
    let copy = new_message(request, message, None, RECEIVED).length();
    if copy.saturating_mul(mailboxes) <= MAX_COPIED {
        return Ok(());
    }
    Err(invalid(format!(
        "the headers of the message are too long for {mailboxes} recipients"
    )))
}

/// Returns the first words of a text, up to a number of bytes.
fn beginning(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let ends = (0..=most).rev();
    let end = ends.into_iter().find(|&end| text.is_char_boundary(end));
    let text = &text[..end.unwrap_or_default()];
    text.rsplit_once(' ').map_or(text, |(words, _)| words)
}

fn new_message<'l>(
    request: &Request<'_>,
    parsed: &'l ParsedMessage,
    thread: Option<String>,
    labels: &[&str],
) -> NewMessage<'l> {
    NewMessage {
        id: request.fresh_id(),
        thread,
        labels: labels
            .iter()
            .map(|&label| label.to_owned())
            .collect::<Labels>(),
        date: request.call.now.as_millis(),
        draft: None,
        parsed,
        text: &parsed.summary.text,
    }
}

/// Returns the event that sends the message to the relay, if one is configured.
fn relay_event(
    request: &Request<'_>,
    parsed: &Outgoing,
    remote: &BTreeSet<Address>,
) -> Option<OutboxEvent> {
    if remote.is_empty() {
        return None;
    }
    if request.options.relay.is_none() {
        let recipients = remote.len();
        tracing::warn!(
            recipients,
            "no relay is set: the message is not sent to other domains"
        );
        return None;
    }
    let parsed = parsed.for_others();
    let outbound = Outbound::new(&request.address, remote, parsed);
    Some(outbound.into_event(parsed.media.clone()))
}

fn defaults(request: &Request<'_>) -> DefaultHeaders {
    let Request { call, address, .. } = request;
    DefaultHeaders {
        from: address.to_string(),
        message_id: format!("<{}@{}>", call.fresh_id, address.domain()),
        date: i64::try_from(call.now.as_millis()).unwrap_or(i64::MAX),
    }
}

/// Returns all recipients of a message.
///
/// # Errors
/// [`Rejection::InvalidArgument`] if there are none or more than [`MAX_RECIPIENTS`], or if one is
/// not an address.
fn recipients(summary: &Summary) -> Result<BTreeSet<Address>, Rejection> {
    let mut recipients = BTreeSet::new();
    let fields = [
        ("To", &summary.to),
        ("Cc", &summary.cc),
        ("Bcc", &summary.bcc),
    ];
    for (name, people) in fields {
        for person in people {
            let address = person.address.parse::<Address>();
            let address =
                address.map_err(|error| invalid(format!("invalid {name} header: {error}")))?;
            recipients.insert(address);
        }
    }
    match recipients.len() {
        0 => Err(invalid("recipient address required")),
        1..=MAX_RECIPIENTS => Ok(recipients),
        count => Err(invalid(format!(
            "the message has {count} recipients; the limit is {MAX_RECIPIENTS}"
        ))),
    }
}

/// `users.drafts.create`
pub(super) async fn create_draft(
    request: &Request<'_>,
    media: Option<Uploaded>,
) -> Result<Answer, Rejection> {
    let parsed = ParsedMessage::open(media.ok_or_else(no_media)?).await?;
    let mut rows = request.rows();
    // Ids ascend from the newest draft to the oldest, which is the order of lists.
    let number = u64::from_str_radix(&request.fresh_id(), 16).unwrap_or_default();
    let id = format!("r{:016x}", u64::MAX - number);
    let body = write_draft(request, &mut rows, &id, &parsed).await?;
    Ok(finish(rows, body_of(body)))
}

/// `users.drafts.update`
pub(super) async fn update_draft(
    request: &Request<'_>,
    media: Option<Uploaded>,
) -> Result<Answer, Rejection> {
    let parsed = ParsedMessage::open(media.ok_or_else(no_media)?).await?;
    let mut rows = request.rows();
    let id = request.id();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let draft = mailbox.draft(id).await?;
    mailbox.remove(&draft.message).await?;
    let body = write_draft(request, &mut rows, id, &parsed).await?;
    Ok(finish(rows, body_of(body)))
}

async fn write_draft(
    request: &Request<'_>,
    rows: &mut Rows<'_>,
    id: &str,
    parsed: &ParsedMessage,
) -> Result<Value, Rejection> {
    let mut mailbox = Mailbox::open(rows, &request.address);
    let wanted = request.wanted_thread()?;
    let thread =
        filing::find_thread(&mut mailbox, wanted.as_deref(), &parsed.summary, MAX_NAMED).await?;
    let new = NewMessage {
        id: request.fresh_id(),
        thread,
        labels: Labels::from(["DRAFT".to_owned()]),
        date: request.call.now.as_millis(),
        draft: Some(id.to_owned()),
        parsed,
        text: &parsed.summary.text,
    };
    let entry = mailbox.add(new).await?;
    mailbox.set_draft(id, &entry);
    let message = messages::filed(&mut mailbox, &entry, &parsed.structure).await?;
    Ok(json!({"id": id, "message": message}))
}

/// `users.drafts.send`
pub(super) async fn send_draft(
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
        Some(uploaded) => Submission::uploaded(request, uploaded).await?,
        None => Submission::draft(request, &mut mailbox, &draft.message).await?,
    };
    mailbox.remove(&draft.message).await?;
    deliver(request, rows, what, thread).await
}

/// Returns the id of the draft to be sent.
pub(super) fn id_to_send<'a>(request: &Request<'a>) -> Result<&'a str, Rejection> {
    let id = text(request.call.metadata, "id")?;
    id.ok_or_else(|| invalid("id names no draft"))
}

/// `users.drafts.get`
pub(super) async fn get_draft(request: &Request<'_>) -> Result<Answer, Rejection> {
    let format = Format::from_request(request)?;
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let id = request.id();
    let draft = mailbox.draft(id).await?;
    let cost = messages::cost(&mut mailbox, &draft.message, &format).await?;
    messages::reserve(request, cost).await?;
    let message = messages::show(&mut mailbox, &draft.message, &format).await?;
    Ok(body_of(json!({"id": id, "message": message})))
}

/// `users.drafts.delete`
pub(super) async fn delete_draft(request: &Request<'_>) -> Result<Answer, Rejection> {
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let draft = mailbox.draft(request.id()).await?;
    mailbox.remove(&draft.message).await?;
    Ok(finish(rows, Answer::default()))
}

/// `users.drafts.list`
pub(super) async fn list_drafts(request: &Request<'_>) -> Result<Answer, Rejection> {
    let limit = request.page_size()?;
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let filter = listing::Filter::from_request(request, &mut mailbox).await?;
    let token = request.parameter("pageToken");
    if token.is_some_and(|token| !token.starts_with('r')) {
        return Err(invalid_parameter(
            "pageToken",
            "is not a token of this list",
        ));
    }
    let collection = mailbox.collection("drafts");
    let found: Vec<(String, Draft)> = mailbox.rows.list(&collection, token, DRAFT_BUDGET).await?;
    let mut more = (found.len() == DRAFT_BUDGET).then(|| found[DRAFT_BUDGET - 1].0.clone());
    let mut effort = listing::effort();
    let mut drafts = Vec::new();
    let mut last = None;
    'pages: for found in found.chunks(FETCHED_AT_ONCE) {
        let keys = found.iter().map(|(_, draft)| &draft.key);
        let entries = mailbox.peek_entries(keys).await?;
        for ((id, _), entry) in found.iter().zip(entries) {
            if drafts.len() == limit || effort.is_spent() {
                more = last;
                break 'pages;
            }
            if let Some(entry) = entry
                && filter.matches(&mailbox, &entry, &mut effort).await?
            {
                let message = json!({"id": entry.id, "threadId": entry.thread});
                drafts.push(json!({"id": id, "message": message}));
            }
            last = Some(id.clone());
        }
    }
    Ok(body_of(listing::page("drafts", drafts, more, None)))
}
