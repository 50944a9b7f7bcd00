//! The queue of messages for the relay, the worker that sends them, and bounces.
//!
//! The change set that sends a message inserts a row here. The worker sends the message after that
//! change set is durable and retries with growing delays. If the relay refuses the message for
//! good, or after three days, the sender gets a delivery status notification (RFC 3464). Delivery
//! is at least once: a crash after the relay's acceptance and before the row is deleted sends the
//! message again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;
use windlass_server::handler::{Rejection, Worker, WorkerContext, first_version};
use windlass_store::{LedgerError, Media, Resource, ResourceChange, Timestamp};

use super::errors::invalid;
use super::filing::NewMessage;
use super::mailbox::Mailbox;
use super::mime::DefaultHeaders;
use super::options::{Address, Options, Relay};
use super::parsed_message::{Composition, ParsedMessage};
use super::rows::{Labels, Rows};
use super::smtp::{Reason, Refusal};
use super::{filing, mime, smtp};

/// Collection of the rows. Their ids ascend with time.
pub(super) const COLLECTION: &str = "gmail/outbox";

/// Delay after the first failure. It doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_secs(60);

/// Longest delay between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(4 * 60 * 60);

/// Age at which a message is given up and its sender is notified.
const GIVE_UP_AFTER: Duration = Duration::from_secs(3 * 24 * 60 * 60);

/// Sleep of the worker while no row is due, and after the ledger has failed.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// Number of rows that are read from the ledger at a time.
const BATCH: usize = 20;

/// Maximum number of attempts to commit a bounce, which conflicts with concurrent changes of the
/// sender's mailbox.
const ATTEMPTS: usize = 8;

/// Longest text from elsewhere that a notification quotes, in characters.
const LONGEST_QUOTE: usize = 500;

/// A message in the queue. The media of the row is that of the message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Outbound {
    pub(super) sender: String,
    pub(super) recipients: BTreeSet<String>,
    pub(super) composition: Composition,
    pub(super) message_id: Option<String>,
    pub(super) subject: String,
    /// Milliseconds since the epoch.
    pub(super) created: u64,
    pub(super) failures: u32,
    /// Time of the next attempt, in milliseconds since the epoch.
    pub(super) due: u64,
}

impl Outbound {
    pub(super) fn new(
        sender: &Address,
        recipients: &BTreeSet<Address>,
        parsed: &ParsedMessage,
        now: Timestamp,
    ) -> Self {
        let recipients = recipients.iter().map(ToString::to_string);
        Self {
            sender: sender.to_string(),
            recipients: recipients.collect(),
            composition: parsed.composition.clone(),
            message_id: parsed.summary.message_id.clone(),
            subject: parsed.summary.subject.clone(),
            created: now.as_millis(),
            failures: 0,
            due: now.as_millis(),
        }
    }

    /// Returns the row after another failure; `None` if the message is given up.
    fn postponed(&self, now: u64) -> Option<Self> {
        let age = Duration::from_millis(now.saturating_sub(self.created));
        (age < GIVE_UP_AFTER).then(|| Self {
            failures: self.failures + 1,
            due: now + millis(wait(self.failures)),
            ..self.clone()
        })
    }

    /// Returns one row for each recipient: the relay has refused some, and does not say which.
    fn per_recipient(&self, now: u64) -> impl Iterator<Item = Self> {
        self.recipients.iter().map(move |recipient| Self {
            recipients: BTreeSet::from([recipient.clone()]),
            due: now,
            ..self.clone()
        })
    }
}

fn wait(failures: u32) -> Duration {
    let doubled = FIRST_WAIT.saturating_mul(2u32.saturating_pow(failures));
    doubled.min(LONGEST_WAIT)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The worker that empties the outbox.
#[derive(Debug)]
pub(super) struct OutboxWorker {
    options: Arc<Options>,
    relay: Relay,
    /// Notified when a row was added.
    outbox_changed: Arc<Notify>,
}

impl OutboxWorker {
    pub(super) fn new(options: Arc<Options>, relay: Relay, outbox_changed: Arc<Notify>) -> Self {
        Self {
            options,
            relay,
            outbox_changed,
        }
    }

    /// Tries all rows that are due, and returns the time until the next one is.
    async fn deliver_due(&self, context: &WorkerContext) -> Result<Duration, Rejection> {
        let mut sleep = LONGEST_SLEEP;
        let mut after: Option<String> = None;
        loop {
            let lookup = context.lookup();
            let rows = lookup.resources(COLLECTION, after.as_deref(), BATCH);
            let rows = rows.await?;
            let Some(last) = rows.last() else {
                return Ok(sleep);
            };
            after = Some(last.id.clone());
            for row in rows {
                // An error with one message must not delay the others.
                let due = self
                    .try_deliver(context, &row)
                    .await
                    .unwrap_or_else(|error| {
                        tracing::warn!(id = row.id, %error, "a message in the outbox cannot be processed now; it is tried again");
                        Some(context.now().as_millis() + millis(FIRST_WAIT))
                    });
                if let Some(due) = due {
                    let now = context.now().as_millis();
                    sleep = sleep.min(Duration::from_millis(due.saturating_sub(now)));
                }
            }
        }
    }

    /// Tries one row if it is due. Returns the time of the next attempt; `None` if the row is done.
    async fn try_deliver(
        &self,
        context: &WorkerContext,
        row: &Resource,
    ) -> Result<Option<u64>, Rejection> {
        let outbound: Outbound = match serde_json::from_slice(&row.body) {
            Ok(outbound) => outbound,
            Err(error) => {
                tracing::error!(id = row.id, %error, "a message in the outbox cannot be read");
                return Ok(None);
            }
        };
        if outbound.due > context.now().as_millis() {
            return Ok(Some(outbound.due));
        }
        let outcome = self.send(context, &outbound, row.media.as_ref()).await?;
        self.record_outcome(context, row, &outbound, outcome).await
    }

    async fn send(
        &self,
        context: &WorkerContext,
        outbound: &Outbound,
        media: Option<&Media>,
    ) -> Result<Result<(), Refusal>, Rejection> {
        let whole = 0..u64::MAX;
        let message = outbound.composition.read(context.lookup(), media, whole);
        let message = message.await?;
        let recipients: Vec<_> = outbound.recipients.iter().cloned().collect();
        let (options, relay) = (&self.options, &self.relay);
        Ok(smtp::send(options, relay, &outbound.sender, &recipients, &message).await)
    }

    /// Deletes, splits, postpones or gives up the row, by the outcome of the attempt. Returns the
    /// time of the next attempt, if any.
    async fn record_outcome(
        &self,
        context: &WorkerContext,
        row: &Resource,
        outbound: &Outbound,
        outcome: Result<(), Refusal>,
    ) -> Result<Option<u64>, Rejection> {
        let now = context.now().as_millis();
        let (reason, is_permanent) = match outcome {
            Ok(()) => {
                context.apply(vec![deletion(row)]).await?;
                return Ok(None);
            }
            Err(Refusal::Permanent(reason)) => (reason, true),
            Err(Refusal::Transient(reason)) => (reason, false),
        };
        if is_permanent && outbound.recipients.len() > 1 {
            split_by_recipient(context, row, outbound, now).await?;
            return Ok(Some(now));
        }
        let postponed = outbound.postponed(now).filter(|_| !is_permanent);
        let Some(postponed) = postponed else {
            tracing::warn!(id = row.id, error = %reason, "a message is given up");
            self.give_up(context, row, outbound, &reason).await?;
            return Ok(None);
        };
        let failures = postponed.failures;
        tracing::warn!(id = row.id, failures, error = %reason, "the relay did not take a message; it is tried again");
        context
            .apply(vec![replacement(row, &postponed, context.now())])
            .await?;
        Ok(Some(postponed.due))
    }

    /// Files a bounce for the sender and deletes the row, in one change set.
    async fn give_up(
        &self,
        context: &WorkerContext,
        row: &Resource,
        outbound: &Outbound,
        reason: &Reason,
    ) -> Result<(), Rejection> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let mut rows = Rows::new(context.lookup(), context.now());
            file_bounce(&mut rows, &self.options, &row.id, outbound, reason).await?;
            let mut changes = rows.into_changes();
            changes.push(deletion(row));
            match context.apply(changes).await {
                Err(Rejection::Ledger(LedgerError::Conflict)) if attempt < ATTEMPTS => {}
                outcome => return outcome,
            }
        }
    }
}

#[async_trait]
impl Worker for OutboxWorker {
    async fn run(&self, context: WorkerContext) {
        loop {
            let sleep = self.deliver_due(&context).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "the outbox cannot be read");
                LONGEST_SLEEP
            });
            tokio::select! {
                () = self.outbox_changed.notified() => {}
                () = tokio::time::sleep(sleep) => {}
            }
        }
    }
}

async fn split_by_recipient(
    context: &WorkerContext,
    row: &Resource,
    outbound: &Outbound,
    now: u64,
) -> Result<(), Rejection> {
    let one = |(number, one): (usize, Outbound)| {
        ResourceChange::Insert(Resource {
            id: format!("{}.{number:03}", row.id),
            version: first_version(),
            body: to_bytes(&one),
            created: context.now(),
            updated: context.now(),
            ..row.clone()
        })
    };
    let mut changes: Vec<_> = outbound.per_recipient(now).enumerate().map(one).collect();
    changes.push(deletion(row));
    context.apply(changes).await
}

fn replacement(row: &Resource, outbound: &Outbound, now: Timestamp) -> ResourceChange {
    ResourceChange::Replace {
        expected: row.version,
        resource: Resource {
            version: row.version + 1,
            body: to_bytes(outbound),
            updated: now,
            ..row.clone()
        },
    }
}

fn deletion(row: &Resource) -> ResourceChange {
    ResourceChange::Delete {
        collection: row.collection.clone(),
        id: row.id.clone(),
        expected: row.version,
    }
}

fn to_bytes(outbound: &Outbound) -> bytes::Bytes {
    let text = serde_json::to_vec(outbound);
    text.expect("rows can be written").into()
}

/// Files a notification in the mailbox of the sender. Its ids are derived from `row`, the id of the
/// row in the outbox.
async fn file_bounce(
    rows: &mut Rows<'_>,
    options: &Options,
    row: &str,
    outbound: &Outbound,
    reason: &Reason,
) -> Result<(), Rejection> {
    let sender: Address = match outbound.sender.parse() {
        Ok(sender) => sender,
        Err(error) => return Err(invalid(error.to_string())),
    };
    let id = bounce_id(row);
    let now = rows.now().as_millis();
    let defaults = DefaultHeaders {
        from: format!(
            "Mail Delivery Subsystem <mailer-daemon@{}>",
            options.me.domain()
        ),
        message_id: format!("<{id}@{}>", options.me.domain()),
        date: i64::try_from(now).unwrap_or(i64::MAX),
    };
    let body = bounce_text(options, &id, outbound, reason);
    let text = [
        mime::missing_headers(body.as_bytes(), &defaults),
        body.into(),
    ]
    .concat();
    let parsed = ParsedMessage::written(text).map_err(|error| invalid(error.to_string()))?;
    let mut mailbox = Mailbox::open(rows, &sender);
    let new = NewMessage {
        thread: filing::find_thread(&mut mailbox, None, &parsed.summary).await?,
        id,
        labels: ["INBOX", "UNREAD"]
            .map(str::to_owned)
            .into_iter()
            .collect::<Labels>(),
        date: now,
        draft: None,
        parsed: &parsed,
    };
    mailbox.add(new).await?;
    Ok(())
}

/// 16 hexadecimal digits.
fn bounce_id(row: &str) -> String {
    let hash: [u8; 32] = Sha256::digest(row.as_bytes()).into();
    let (first, _) = hash.split_at(8);
    let first = first.try_into().expect("it was split there");
    format!("{:016x}", u64::from_be_bytes(first))
}

fn bounce_text(options: &Options, boundary: &str, outbound: &Outbound, reason: &Reason) -> String {
    let recipients = outbound.recipients.iter().map(String::as_str);
    let to = recipients.collect::<Vec<_>>().join(", ");
    let reason_text = single_line(&reason.text);
    let status = match reason.status {
        Some(status) => format!("{}.0.0", status / 100),
        None => "4.4.7".to_owned(),
    };
    let answers = outbound
        .message_id
        .as_deref()
        .map_or_else(String::new, |id| {
            let id = single_line(id);
            format!("In-Reply-To: <{id}>\r\nReferences: <{id}>\r\n")
        });
    let original = outbound
        .message_id
        .as_deref()
        .map_or_else(String::new, |id| {
            format!("Message-ID: <{}>\r\n", single_line(id))
        });
    let subject = single_line(&outbound.subject);
    let each: Vec<_> = outbound
        .recipients
        .iter()
        .map(|recipient| {
            format!(
                "Final-Recipient: rfc822; {recipient}\r\nAction: failed\r\nStatus: {status}\r\n\
                 Diagnostic-Code: smtp; {reason_text}\r\n\r\n"
            )
        })
        .collect();
    let per_recipient = each.concat();
    let (sender, domain) = (&outbound.sender, options.me.domain());
    format!(
        "To: {sender}\r\n\
         Subject: Delivery Status Notification (Failure)\r\n\
         Auto-Submitted: auto-replied\r\n\
         {answers}\
         MIME-Version: 1.0\r\n\
         Content-Type: multipart/report; report-type=delivery-status; boundary=\"{boundary}\"\r\n\
         \r\n\
         --{boundary}\r\n\
         Content-Type: text/plain; charset=utf-8\r\n\
         \r\n\
         Your message could not be delivered to {to}.\r\n\
         \r\n\
         {reason_text}\r\n\
         \r\n\
         --{boundary}\r\n\
         Content-Type: message/delivery-status\r\n\
         \r\n\
         Reporting-MTA: dns; {domain}\r\n\
         \r\n\
         {per_recipient}\
         --{boundary}\r\n\
         Content-Type: text/rfc822-headers; charset=utf-8\r\n\
         \r\n\
         From: {sender}\r\n\
         To: {to}\r\n\
         Subject: {subject}\r\n\
         {original}\r\n\
         --{boundary}--\r\n"
    )
}

/// Returns text from elsewhere on one line, cut at [`LONGEST_QUOTE`].
fn single_line(text: &str) -> String {
    let visible = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    visible.take(LONGEST_QUOTE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outbound(created: u64, failures: u32) -> Outbound {
        Outbound {
            sender: "ann@farm.test".to_owned(),
            recipients: ["bob@barn.test", "zoe@zoo.test"].map(str::to_owned).into(),
            composition: Composition::default(),
            message_id: None,
            subject: String::new(),
            created,
            failures,
            due: created,
        }
    }

    #[test]
    fn waits_double_up_to_four_hours_and_end_after_three_days() {
        let waits: Vec<_> = (0..10)
            .map(|failures| wait(failures).as_secs() / 60)
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 240, 240]);
        assert_eq!(wait(u32::MAX), LONGEST_WAIT);
        let once = outbound(1000, 0).postponed(2000).unwrap();
        assert_eq!((once.failures, once.due), (1, 62_000));
        let days = millis(GIVE_UP_AFTER);
        assert!(outbound(1000, 30).postponed(999 + days).is_some());
        assert!(outbound(1000, 30).postponed(1000 + days).is_none());
    }

    #[test]
    fn partly_refused_message_is_split_by_recipient() {
        let each: Vec<_> = outbound(1000, 3).per_recipient(5000).collect();
        assert_eq!(each.len(), 2);
        assert!(
            each.iter()
                .all(|one| one.recipients.len() == 1 && one.due == 5000)
        );
    }
}
