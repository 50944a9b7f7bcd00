//! Methods on messages and threads: reading them, changing their labels, deleting them.

use base64::Engine as _;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use windlass_rest::handler::{Answer, Rejection};
use windlass_store::Media;

use super::mailbox::Mailbox;
use super::mime::{Bodies, Part, Structure};
use super::request::{Request, body_of, check_labels, finish, texts};
use super::rows::{Content, Entry, Labels};
use super::{ids, invalid, invalid_parameter, labels};

/// Size in bytes up to which a message is read in one piece. Of larger ones only the shown parts
/// are read.
const READ_WHOLE: u64 = 1024 * 1024;

/// Number of bytes of a message that are encoded in base64 at a time. A multiple of three, so that
/// no padding is written between pieces.
const PIECE: u64 = 3 * 256 * 1024;

/// Maximum number of labels that one call adds or removes, as in Gmail.
const MAX_LABELS: usize = 100;

/// Maximum number of messages that one call changes, as in Gmail.
const MAX_MESSAGES: usize = 1000;

/// Maximum size of the texts of a shown thread, in bytes of JSON.
const MAX_REPLY: u64 = 32 * 1024 * 1024;

/// The `format` of a shown message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Format {
    /// The fields of the entry only.
    Minimal,
    /// With the tree of parts and their texts.
    Full,
    /// With the raw message.
    Raw,
    /// With these header fields, or all of them when none is named.
    Metadata(Vec<String>),
}

impl Format {
    pub(super) fn from_request(request: &Request<'_>) -> Result<Self, Rejection> {
        match request.parameter("format").unwrap_or("full") {
            "minimal" => Ok(Self::Minimal),
            "full" => Ok(Self::Full),
            "raw" => Ok(Self::Raw),
            "metadata" => {
                let names = request.parameters("metadataHeaders")?;
                Ok(Self::Metadata(
                    names.into_iter().map(str::to_owned).collect(),
                ))
            }
            _ => Err(invalid_parameter("format", "is not known")),
        }
    }
}

/// `users.messages.get`
pub(super) async fn get(request: &Request<'_>) -> Result<Answer, Rejection> {
    let format = Format::from_request(request)?;
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let id = request.message_id()?;
    let cost = cost(&mut mailbox, &id, &format).await?;
    reserve(request, cost).await?;
    Ok(body_of(show(&mut mailbox, &id, &format).await?))
}

/// `users.messages.attachments.get`
pub(super) async fn attachment(request: &Request<'_>) -> Result<Answer, Rejection> {
    let id = request.call.path.value("messageId").unwrap_or_default();
    let id = &ids::canonical(id)?;
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let content = mailbox.content(id).await?;
    let part = attached(&content.structure, id, request.id()).ok_or_else(|| {
        invalid("Invalid attachment token: the message has no attachment of this id")
    })?;
    let range = part.range();
    // The encoded body, the decoded bytes, and these as base64.
    reserve(request, 2 * (range.end - range.start)).await?;
    let media = media(&mut mailbox, id).await?;
    let lookup = mailbox.rows.lookup();
    let body = content
        .composition
        .read(lookup, media.as_ref(), range)
        .await?;
    let data = part.data(&body);
    drop(body);
    Ok(body_of(json!({
        "size": data.len(),
        "data": URL_SAFE.encode(data),
    })))
}

/// Returns the id by which clients fetch a part.
fn attachment_id(message: &str, part: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{message}/{part}"))
}

fn attached<'s>(structure: &'s Structure, message: &str, id: &str) -> Option<&'s Part> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(id).ok()?).ok()?;
    let (of, part) = text.split_once('/')?;
    structure
        .part(part)
        .filter(|part| of == message && part.is_fetched())
}

/// Estimates the size of a message as JSON, in bytes.
pub(super) async fn cost(
    mailbox: &mut Mailbox<'_, '_>,
    id: &str,
    format: &Format,
) -> Result<u64, Rejection> {
    let content = mailbox.content(id).await?;
    let bytes: u64 = match format {
        Format::Minimal | Format::Metadata(_) => 0,
        Format::Full => content.structure.inline_parts().map(Part::size).sum(),
        Format::Raw => content.composition.length(),
    };
    Ok(bytes / 3 * 4)
}

/// Reserves memory for `cost` bytes of JSON: once as values, once as text.
pub(super) async fn reserve(request: &Request<'_>, cost: u64) -> Result<(), Rejection> {
    request.call.reply_memory.reserve(2 * cost).await
}

/// Returns a message in a format.
pub(super) async fn show(
    mailbox: &mut Mailbox<'_, '_>,
    id: &str,
    format: &Format,
) -> Result<Value, Rejection> {
    let content = mailbox.content(id).await?;
    let entry = mailbox.entry(id).await?;
    let mut shown = minimal(mailbox, &entry).await?;
    match format {
        Format::Minimal => {}
        Format::Metadata(names) => shown["payload"] = content.structure.headers_only(names),
        Format::Full => {
            let bodies = bodies(mailbox, id, &content).await?;
            shown["payload"] = payload(id, &content.structure, &bodies);
        }
        Format::Raw => shown["raw"] = raw(mailbox, id, &content).await?.into(),
    }
    Ok(shown)
}

/// Returns the fields that every format shows.
async fn minimal(mailbox: &mut Mailbox<'_, '_>, entry: &Entry) -> Result<Value, Rejection> {
    Ok(json!({
        "id": entry.id,
        "threadId": entry.thread,
        "labelIds": mailbox.existing_labels(&entry.labels).await?,
        "snippet": entry.snippet,
        "historyId": entry.history.to_string(),
        "internalDate": entry.date.to_string(),
        "sizeEstimate": entry.size,
    }))
}

/// Returns a message that has just been filed: with its tree of parts, but without their texts,
/// which the client has sent.
pub(super) async fn filed(
    mailbox: &mut Mailbox<'_, '_>,
    entry: &Entry,
    structure: &Structure,
) -> Result<Value, Rejection> {
    let mut shown = minimal(mailbox, entry).await?;
    shown["payload"] = payload(&entry.id, structure, &Bodies::new());
    Ok(shown)
}

fn payload(id: &str, structure: &Structure, bodies: &Bodies) -> Value {
    structure.payload(bodies, |part| attachment_id(id, part.id()))
}

pub(super) async fn media(
    mailbox: &mut Mailbox<'_, '_>,
    id: &str,
) -> Result<Option<Media>, Rejection> {
    let collection = mailbox.collection("contents");
    mailbox.rows.media(&collection, id).await
}

/// Reads the bodies that are shown inline.
async fn bodies(
    mailbox: &mut Mailbox<'_, '_>,
    id: &str,
    content: &Content,
) -> Result<Bodies, Rejection> {
    let media = media(mailbox, id).await?;
    let lookup = mailbox.rows.lookup();
    let Content {
        composition,
        structure,
        ..
    } = content;
    if composition.length() <= READ_WHOLE {
        let raw = composition
            .read(lookup, media.as_ref(), 0..u64::MAX)
            .await?;
        return Ok(structure.bodies(&raw));
    }
    let mut bodies = Bodies::new();
    for part in structure.inline_parts() {
        let body = composition.read(lookup, media.as_ref(), part.range());
        bodies.insert(part.id().to_owned(), body.await?);
    }
    Ok(bodies)
}

/// Returns the raw message in base64. The decoded message is never in memory as a whole.
async fn raw(
    mailbox: &mut Mailbox<'_, '_>,
    id: &str,
    content: &Content,
) -> Result<String, Rejection> {
    let media = media(mailbox, id).await?;
    let lookup = mailbox.rows.lookup();
    let mut text = String::new();
    let mut at = 0;
    while at < content.composition.length() {
        let piece = content
            .composition
            .read(lookup, media.as_ref(), at..at + PIECE);
        URL_SAFE.encode_string(piece.await?, &mut text);
        at += PIECE;
    }
    Ok(text)
}

/// Labels to be added and removed.
#[derive(Debug, Default)]
pub(super) struct LabelChange {
    add: Labels,
    remove: Labels,
}

impl LabelChange {
    /// Reads the change from the metadata.
    pub(super) async fn from_request(request: &Request<'_>) -> Result<Self, Rejection> {
        let labels = |name| {
            let labels = texts(request.call.metadata, name, MAX_LABELS)?;
            Ok::<_, Rejection>(labels.into_iter().map(str::to_owned).collect::<Labels>())
        };
        let change = Self {
            add: labels("addLabelIds")?,
            remove: labels("removeLabelIds")?,
        };
        let mut rows = request.rows();
        let mut mailbox = Mailbox::open(&mut rows, &request.address);
        check_labels(&mut mailbox, &change.add, labels::may_change).await?;
        check_labels(&mut mailbox, &change.remove, labels::may_change).await?;
        match change.add.intersection(&change.remove).next() {
            Some(both) => Err(invalid(format!(
                "label {both} is in both addLabelIds and removeLabelIds"
            ))),
            None => Ok(change),
        }
    }

    pub(super) fn trash() -> Self {
        Self {
            add: trash_label(),
            ..Self::default()
        }
    }

    pub(super) fn untrash() -> Self {
        Self {
            remove: trash_label(),
            ..Self::default()
        }
    }
}

fn trash_label() -> Labels {
    Labels::from(["TRASH".to_owned()])
}

/// Applies the change to messages.
async fn apply(
    mailbox: &mut Mailbox<'_, '_>,
    ids: &[&str],
    change: &LabelChange,
) -> Result<Vec<Entry>, Rejection> {
    mailbox.relabel(ids, &change.add, &change.remove).await
}

/// `users.messages.modify`
pub(super) async fn modify(request: &Request<'_>) -> Result<Answer, Rejection> {
    one(request, LabelChange::from_request(request).await?).await
}

/// `users.messages.trash`
pub(super) async fn trash(request: &Request<'_>) -> Result<Answer, Rejection> {
    one(request, LabelChange::trash()).await
}

/// `users.messages.untrash`
pub(super) async fn untrash(request: &Request<'_>) -> Result<Answer, Rejection> {
    one(request, LabelChange::untrash()).await
}

async fn one(request: &Request<'_>, change: LabelChange) -> Result<Answer, Rejection> {
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let id = request.message_id()?;
    apply(&mut mailbox, &[&id], &change).await?;
    let entry = mailbox.entry(&id).await?;
    let body = minimal(&mut mailbox, &entry).await?;
    Ok(finish(rows, super::request::body_of(body)))
}

/// `users.messages.delete`
pub(super) async fn delete(request: &Request<'_>) -> Result<Answer, Rejection> {
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    mailbox.remove(&request.message_id()?).await?;
    Ok(finish(rows, Answer::default()))
}

/// `users.messages.batchModify`
pub(super) async fn batch_modify(request: &Request<'_>) -> Result<Answer, Rejection> {
    let change = LabelChange::from_request(request).await?;
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let ids = named_messages(request)?;
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    apply(&mut mailbox, &ids, &change).await?;
    Ok(finish(rows, Answer::default()))
}

/// `users.messages.batchDelete`. Ids of messages that do not exist are ignored: the service gives
/// no guarantee about them.
pub(super) async fn batch_delete(request: &Request<'_>) -> Result<Answer, Rejection> {
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let mut removed = Vec::new();
    let ids = named_messages(request)?;
    prefetch_whole(&mut mailbox, ids.iter().map(String::as_str)).await?;
    for id in ids {
        match mailbox.remove_rows(&id).await {
            Ok(entry) => removed.push(entry),
            Err(Rejection::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        tokio::task::yield_now().await;
    }
    mailbox.leave_threads(&removed).await?;
    Ok(finish(rows, Answer::default()))
}

/// Reads all rows of messages that are to be deleted.
async fn prefetch_whole<'i>(
    mailbox: &mut Mailbox<'_, '_>,
    ids: impl Iterator<Item = &'i str>,
) -> Result<(), Rejection> {
    let ids: Vec<_> = ids.collect();
    mailbox.prefetch(&ids, &["contents", "texts"]).await
}

fn named_messages(request: &Request<'_>) -> Result<Vec<String>, Rejection> {
    let ids = texts(request.call.metadata, "ids", MAX_MESSAGES)?;
    if ids.is_empty() {
        return Err(invalid("ids names no message"));
    }
    ids.into_iter().map(ids::canonical).collect()
}

/// `users.threads.get`
pub(super) async fn get_thread(request: &Request<'_>) -> Result<Answer, Rejection> {
    let format = Format::from_request(request)?;
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let id = &request.message_id()?;
    let thread = mailbox.thread(id).await?;
    let ids: Vec<_> = thread
        .messages
        .iter()
        .map(|member| &member.id[..])
        .collect();
    mailbox.prefetch(&ids, &["contents"]).await?;
    let mut messages = Vec::new();
    let mut total = 0;
    for member in &thread.messages {
        total += cost(&mut mailbox, &member.id, &format).await?;
    }
    if total > MAX_REPLY {
        let problem = format!(
            "the messages of the thread take about {total} bytes, more than the limit of \
             {MAX_REPLY} for one reply; fetch them one by one"
        );
        return Err(Rejection::FailedPrecondition { problem });
    }
    reserve(request, total).await?;
    for member in &thread.messages {
        messages.push(show(&mut mailbox, &member.id, &format).await?);
    }
    Ok(body_of(serde_json::json!({
        "id": id,
        "historyId": thread.history.to_string(),
        "messages": messages,
    })))
}

/// `users.threads.modify`
pub(super) async fn modify_thread(request: &Request<'_>) -> Result<Answer, Rejection> {
    relabel_thread(request, LabelChange::from_request(request).await?).await
}

/// `users.threads.trash`
pub(super) async fn trash_thread(request: &Request<'_>) -> Result<Answer, Rejection> {
    relabel_thread(request, LabelChange::trash()).await
}

/// `users.threads.untrash`
pub(super) async fn untrash_thread(request: &Request<'_>) -> Result<Answer, Rejection> {
    relabel_thread(request, LabelChange::untrash()).await
}

async fn relabel_thread(request: &Request<'_>, change: LabelChange) -> Result<Answer, Rejection> {
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let id = &request.message_id()?;
    let mut messages = Vec::new();
    let members = mailbox.thread(id).await?.messages;
    let ids: Vec<_> = members.iter().map(|member| member.id.as_str()).collect();
    for entry in apply(&mut mailbox, &ids, &change).await? {
        let labels: Labels = mailbox.existing_labels(&entry.labels).await?;
        messages.push(serde_json::json!({
            "id": entry.id, "threadId": entry.thread, "labelIds": labels,
        }));
    }
    let history = mailbox.thread(id).await?.history;
    let body = serde_json::json!({
        "id": id, "historyId": history.to_string(), "messages": messages,
    });
    Ok(finish(rows, body_of(body)))
}

/// `users.threads.delete`
pub(super) async fn delete_thread(request: &Request<'_>) -> Result<Answer, Rejection> {
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let mut removed = Vec::new();
    let members = mailbox.thread(&request.message_id()?).await?.messages;
    prefetch_whole(&mut mailbox, members.iter().map(|member| &member.id[..])).await?;
    for member in members {
        removed.push(mailbox.remove_rows(&member.id).await?);
    }
    mailbox.leave_threads(&removed).await?;
    Ok(finish(rows, Answer::default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gmail::mime;

    #[test]
    fn attachment_id_finds_only_its_part_of_its_message() {
        let raw = b"Content-Type: multipart/mixed; boundary=x\r\n\r\n\
            --x\r\n\r\ntext\r\n--x\r\nContent-Disposition: attachment; filename=a.txt\r\n\r\nfile\r\n--x--\r\n";
        let structure = mime::parse(raw).unwrap();
        let id = attachment_id("12", "1");
        assert_eq!(
            attached(&structure, "12", &id).unwrap().file_name(),
            "a.txt"
        );
        assert!(
            attached(&structure, "13", &id).is_none(),
            "of another message"
        );
        for wrong in [
            attachment_id("12", "0"),
            attachment_id("12", "7"),
            "?".into(),
        ] {
            assert!(attached(&structure, "12", &wrong).is_none(), "{wrong}");
        }
    }
}
