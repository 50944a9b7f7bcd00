//! How messages get into mailboxes: inserted, imported, sent.

use std::collections::BTreeSet;

use windlass_server::handler::{Answer, Rejection, Uploaded};

use super::address::Address;
use super::letter::{Letter, Outgoing};
use super::mailbox::{Mailbox, New};
use super::mime::{Stamp, Summary};
use super::outbox::{self, Outbound};
use super::records::Labels;
use super::request::{Request, check_labels};
use super::rows::Rows;
use super::{body_of, invalid, label, message, no_media, thread};

/// The most recipients of a message, as in Gmail.
const MOST_RECIPIENTS: usize = 500;

/// `users.messages.insert`: into the mailbox with the labels that the client says, none by default.
pub(super) async fn insert(
    request: &Request<'_>,
    media: Option<Uploaded>,
) -> Result<Answer, Rejection> {
    file(request, media, &[], "receivedTime").await
}

/// `users.messages.import`: as if it had been received, into the inbox by default.
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
    let letter = Letter::open(media.ok_or_else(no_media)?).await?;
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let labels = match request.wanted_labels()? {
        Some(wanted) => wanted,
        None => labels.iter().map(|&label| label.to_owned()).collect(),
    };
    check_labels(&mut mailbox, &labels, label::may_come_with).await?;
    let wanted = request.wanted_thread()?;
    let new = New {
        id: request.fresh_id(),
        thread: thread::of(&mut mailbox, wanted, &letter.summary).await?,
        labels,
        date: date(request, &letter.summary, date_source),
        draft: None,
        letter: &letter,
    };
    let entry = mailbox.add(new).await?;
    let body = message::filed(&mut mailbox, &entry, &letter.structure).await?;
    let answer = body_of(body);
    // There is no archive in which only an administrator would see it.
    let is_gone_at_once = request.flag("deleted");
    Ok(if is_gone_at_once {
        answer
    } else {
        thread::finish(rows, answer)
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
    let sent = Sent::uploaded(request, media.ok_or_else(no_media)?).await?;
    deliver(request, request.rows(), sent, None).await
}

/// A message on its way, and to whom.
#[derive(Debug)]
pub(super) struct Sent {
    letter: Outgoing,
    recipients: BTreeSet<Address>,
}

impl Sent {
    pub(super) async fn uploaded(
        request: &Request<'_>,
        uploaded: Uploaded,
    ) -> Result<Self, Rejection> {
        // Header fields may be put in front of the message, which makes a copy of it.
        let length = uploaded.source.length();
        request.call.reply_memory.reserve(length).await?;
        let letter = Outgoing::open(uploaded, stamp(request)).await?;
        let recipients = recipients(&letter.own.summary)?;
        Ok(Self { letter, recipients })
    }

    /// The message of a draft.
    pub(super) async fn draft(
        request: &Request<'_>,
        mailbox: &mut Mailbox<'_, '_>,
        id: &str,
    ) -> Result<Self, Rejection> {
        let media = message::media(mailbox, id).await?;
        let media = media.ok_or_else(|| invalid("the draft has no message"))?;
        let source = mailbox.rows.lookup().media(&media);
        Self::uploaded(request, Uploaded { media, source }).await
    }
}

/// Puts a message into the mailboxes of its sender and its recipients. `thread` is that of the draft
/// it was.
pub(super) async fn deliver(
    request: &Request<'_>,
    mut rows: Rows<'_>,
    sent: Sent,
    draft_thread: Option<String>,
) -> Result<Answer, Rejection> {
    let Sent { letter, recipients } = sent;
    let (local, remote): (BTreeSet<_>, BTreeSet<_>) = recipients
        .into_iter()
        .partition(|address| request.options.is_local(address));
    let local: BTreeSet<_> = local.iter().map(Address::without_tag).collect();
    let to_oneself = local.contains(&request.address);
    let labels: &[&str] = if to_oneself {
        &["SENT", "INBOX", "UNREAD"]
    } else {
        &["SENT"]
    };
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let wanted = request.wanted_thread()?;
    let thread = match thread::of(&mut mailbox, wanted, &letter.own.summary).await? {
        None => draft_thread,
        found => found,
    };
    let new = new(request, &letter.own, thread, labels);
    let entry = mailbox.add(new).await?;
    let body = message::filed(&mut mailbox, &entry, &letter.own.structure).await?;
    for address in local.iter().filter(|address| **address != request.address) {
        let mut mailbox = Mailbox::open(&mut rows, address);
        let received = letter.for_others();
        let thread = thread::of(&mut mailbox, None, &received.summary).await?;
        let new = self::new(request, received, thread, &["INBOX", "UNREAD"]);
        mailbox.add(new).await?;
    }
    hand_over(request, &mut rows, &letter, &remote);
    Ok(thread::finish(rows, body_of(body)))
}

fn new<'l>(
    request: &Request<'_>,
    letter: &'l Letter,
    thread: Option<String>,
    labels: &[&str],
) -> New<'l> {
    New {
        id: request.fresh_id(),
        thread,
        labels: labels
            .iter()
            .map(|&label| label.to_owned())
            .collect::<Labels>(),
        date: request.call.now.as_millis(),
        draft: None,
        letter,
    }
}

/// Leaves the message for the relay, if there is one.
fn hand_over(
    request: &Request<'_>,
    rows: &mut Rows<'_>,
    letter: &Outgoing,
    remote: &BTreeSet<Address>,
) {
    if remote.is_empty() {
        return;
    }
    if request.options.relay.is_none() {
        let recipients = remote.len();
        tracing::warn!(
            recipients,
            "no relay is set: a message to other domains stays with its sender"
        );
        return;
    }
    let letter = letter.for_others();
    let outbound = Outbound::new(&request.address, remote, letter, request.call.now);
    rows.write_with(
        outbox::COLLECTION,
        request.call.fresh_id,
        &outbound,
        letter.media.clone(),
    );
}

fn stamp(request: &Request<'_>) -> Stamp {
    let Request { call, address, .. } = request;
    Stamp {
        from: address.to_string(),
        message_id: format!("<{}@{}>", call.fresh_id, address.domain()),
        date: i64::try_from(call.now.as_millis()).unwrap_or(i64::MAX),
    }
}

/// Everybody whom a message is for.
///
/// # Errors
/// [`Rejection::InvalidArgument`] when that is nobody, or too many, or one is no address.
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
        1..=MOST_RECIPIENTS => Ok(recipients),
        count => Err(invalid(format!(
            "the message has {count} recipients; at most {MOST_RECIPIENTS} are taken"
        ))),
    }
}
