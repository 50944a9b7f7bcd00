//! Messages for the relay, as events of the server's outbox; their delivery by SMTP; bounces.
//!
//! The change set that sends a message leaves an event. The outbox hands it to the relay after that
//! change set is durable and retries with growing delays. If the relay refuses the message for
//! good, or after three days, the sender gets a delivery status notification (RFC 3464). A message
//! may be sent twice: if the process ends after the relay's acceptance and before that is recorded.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lettre::address::Envelope;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::{self, authentication};
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Tokio1Executor};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use windlass_rest::handler::{
    Conclusion, Deliver, Delivery, DeliveryPolicy, Failure, OutboxEvent, Outcome, Rejection,
    with_causes,
};
use windlass_store::{Media, ResourceChange};

use super::filing::{MAX_NAMED, NewMessage};
use super::mailbox::Mailbox;
use super::mime::DefaultHeaders;
use super::options::{Address, Options, Relay, Security};
use super::parsed_message::{Composition, ParsedMessage};
use super::rows::{Labels, Rows};
use super::{filing, invalid, mime};

/// Topic of the events.
const TOPIC: &str = "gmail";

/// Collection in which versions before the server's outbox kept messages for the relay.
const FORMER_COLLECTION: &str = "gmail/outbox";

/// Longest text from elsewhere that a notification quotes, in characters.
const MAX_QUOTE_LEN: usize = 500;

/// A message for the relay. It is the payload of an event, and the media of the event is the
/// message's media.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Outbound {
    sender: String,
    recipients: BTreeSet<String>,
    composition: Composition,
    message_id: Option<String>,
    subject: String,
}

impl Outbound {
    pub(super) fn new(
        sender: &Address,
        recipients: &BTreeSet<Address>,
        parsed: &ParsedMessage,
    ) -> Self {
        let recipients = recipients.iter().map(ToString::to_string);
        let message_id = parsed.summary.message_id.as_deref();
        Self {
            sender: sender.to_string(),
            recipients: recipients.collect(),
            composition: parsed.composition.clone(),
            // Only notifications need these two, and they quote the beginnings.
            message_id: message_id.map(single_line),
            subject: single_line(&parsed.summary.subject),
        }
    }

    pub(super) fn into_event(self, media: Option<Media>) -> OutboxEvent {
        OutboxEvent {
            media,
            ..OutboxEvent::new(TOPIC, self.to_payload())
        }
    }

    fn to_payload(&self) -> Value {
        serde_json::to_value(self).expect("payloads can be written")
    }

    fn parse(payload: &Value) -> Result<Self, serde_json::Error> {
        Self::deserialize(payload)
    }

    /// Returns one message for each recipient: the relay has refused some, and does not say which.
    fn per_recipient(&self) -> impl Iterator<Item = Self> {
        self.recipients.iter().map(|recipient| Self {
            recipients: BTreeSet::from([recipient.clone()]),
            ..self.clone()
        })
    }
}

/// The delivery of messages to the relay.
#[derive(Debug)]
pub(super) struct RelayDelivery {
    options: Arc<Options>,
    relay: Relay,
}

impl RelayDelivery {
    pub(super) fn new(options: Arc<Options>, relay: Relay) -> Self {
        Self { options, relay }
    }

    async fn send(
        &self,
        delivery: &Delivery<'_>,
        outbound: &Outbound,
    ) -> Result<Result<(), Refusal>, Rejection> {
        let whole = 0..u64::MAX;
        let message = outbound
            .composition
            .read(delivery.lookup, delivery.media, whole);
        let message = message.await?;
        let recipients: Vec<_> = outbound.recipients.iter().cloned().collect();
        let (options, relay) = (&self.options, &self.relay);
        Ok(send(options, relay, &outbound.sender, &recipients, &message).await)
    }
}

#[async_trait]
impl Deliver for RelayDelivery {
    fn topic(&self) -> &str {
        TOPIC
    }

    fn policy(&self) -> DeliveryPolicy {
        let mut policy = DeliveryPolicy::default();
        // A message is in memory while it is sent.
        policy.concurrency = 1;
        policy
    }

    fn former_collection(&self) -> Option<&str> {
        Some(FORMER_COLLECTION)
    }

    async fn deliver(&self, delivery: &Delivery<'_>) -> Result<Outcome, Rejection> {
        let outbound = match Outbound::parse(delivery.payload) {
            Ok(outbound) => outbound,
            Err(error) => return Ok(Outcome::Unreadable(error.to_string())),
        };
        Ok(match self.send(delivery, &outbound).await? {
            Ok(()) => Outcome::Delivered,
            Err(Refusal::Permanent(_)) if outbound.recipients.len() > 1 => Outcome::Split(
                outbound
                    .per_recipient()
                    .map(|one| one.to_payload())
                    .collect(),
            ),
            Err(Refusal::Permanent(reason)) => Outcome::GiveUp(reason),
            Err(Refusal::Transient(reason)) => Outcome::Retry(reason),
        })
    }

    /// Files a bounce for the sender of a message that is given up.
    async fn conclude(
        &self,
        delivery: &Delivery<'_>,
        conclusion: Conclusion<'_>,
    ) -> Result<Vec<ResourceChange>, Rejection> {
        let Conclusion::GivenUp(reason) = conclusion else {
            return Ok(Vec::new());
        };
        let outbound = Outbound::parse(delivery.payload);
        let outbound = outbound.map_err(|error| invalid(error.to_string()))?;
        let mut rows = Rows::new(delivery.lookup, delivery.now);
        file_bounce(&mut rows, &self.options, delivery.id, &outbound, reason).await?;
        Ok(rows.into_changes())
    }
}

/// Files a notification in the mailbox of the sender. Its ids are derived from `event`, the id of
/// the event.
async fn file_bounce(
    rows: &mut Rows<'_>,
    options: &Options,
    event: &str,
    outbound: &Outbound,
    reason: &Failure,
) -> Result<(), Rejection> {
    let sender: Address = match outbound.sender.parse() {
        Ok(sender) => sender,
        Err(error) => return Err(invalid(error.to_string())),
    };
    let id = bounce_id(event);
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
        thread: filing::find_thread(&mut mailbox, None, &parsed.summary, MAX_NAMED).await?,
        id,
        labels: ["INBOX", "UNREAD"]
            .map(str::to_owned)
            .into_iter()
            .collect::<Labels>(),
        date: now,
        draft: None,
        parsed: &parsed,
        text: &parsed.summary.text,
    };
    mailbox.add(new).await?;
    Ok(())
}

/// 16 hexadecimal digits, of a number below 2^63, as all ids of messages.
fn bounce_id(event: &str) -> String {
    let hash: [u8; 32] = Sha256::digest(event.as_bytes()).into();
    let (first, _) = hash.split_at(8);
    let first = first.try_into().expect("it was split there");
    format!("{:016x}", u64::from_be_bytes(first) >> 1)
}

fn bounce_text(options: &Options, boundary: &str, outbound: &Outbound, reason: &Failure) -> String {
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

/// Returns text from elsewhere on one line, cut at [`MAX_QUOTE_LEN`].
fn single_line(text: &str) -> String {
    let visible = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    visible.take(MAX_QUOTE_LEN).collect()
}

/// How long the relay may take to respond.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Replies that concern the credentials of this server and not the message (RFC 4954, 6).
const AUTHENTICATION_REPLIES: [u16; 5] = [454, 530, 534, 535, 538];

/// Why the relay did not accept a message: its reply, or the error of the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Refusal {
    /// It will not accept it later either.
    Permanent(Failure),
    /// It may accept it later.
    Transient(Failure),
}

/// Sends a message. On success the relay has accepted it.
async fn send(
    options: &Options,
    relay: &Relay,
    from: &str,
    to: &[String],
    message: &[u8],
) -> Result<(), Refusal> {
    let envelope = envelope(from, to)?;
    let message = with_line_ends(message);
    // lettre appends a line end in any case.
    let message = message.strip_suffix(b"\r\n").unwrap_or(&message);
    let transport = transport(options, relay).map_err(|error| refusal(&error))?;
    let sent = transport.send_raw(&envelope, message).await;
    sent.map(drop).map_err(|error| refusal(&error))
}

/// Returns the message with CRLF as the only line end. Some relays accept a bare LF or CR as a line
/// end, so that an unescaped `.` between two of them would end the message and smuggle in commands
/// (RFC 5321, 2.3.8).
fn with_line_ends(message: &[u8]) -> Vec<u8> {
    let mut lines = Vec::with_capacity(message.len() + message.len() / 64);
    let mut before = 0;
    for &byte in message {
        match (before, byte) {
            (b'\r', b'\n') => {}
            (_, b'\r' | b'\n') => lines.extend_from_slice(b"\r\n"),
            _ => lines.push(byte),
        }
        before = byte;
    }
    lines
}

fn envelope(from: &str, to: &[String]) -> Result<Envelope, Refusal> {
    let address = |text: &str| text.parse::<lettre::Address>().map_err(not_sendable);
    let to: Result<Vec<_>, _> = to.iter().map(|to| address(to)).collect();
    Envelope::new(Some(address(from)?), to?).map_err(not_sendable)
}

fn not_sendable(error: impl std::fmt::Display) -> Refusal {
    Refusal::Permanent(Failure::new(error.to_string()))
}

fn transport(
    options: &Options,
    relay: &Relay,
) -> Result<AsyncSmtpTransport<Tokio1Executor>, smtp::Error> {
    let helo = relay.helo.as_deref().unwrap_or(options.me.domain());
    let tls = match relay.security {
        Security::None => Tls::None,
        Security::StartTls => Tls::Required(TlsParameters::new(relay.host.clone())?),
        Security::Tls => Tls::Wrapper(TlsParameters::new(relay.host.clone())?),
    };
    let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&relay.host)
        .port(relay.port)
        .hello_name(ClientId::Domain(helo.to_owned()))
        .timeout(Some(TIMEOUT))
        .tls(tls);
    if let Some(credentials) = &relay.credentials {
        builder = builder.credentials(authentication::Credentials::new(
            credentials.username.clone(),
            credentials.password.clone(),
        ));
    }
    Ok(builder.build())
}

fn refusal(error: &smtp::Error) -> Refusal {
    let status = error.status().map(u16::from);
    let is_about_us = status.is_some_and(|status| AUTHENTICATION_REPLIES.contains(&status));
    // A client error of lettre means that the relay cannot accept such a message.
    let is_permanent = (error.is_permanent() || error.is_client()) && !is_about_us;
    let reason = Failure {
        status,
        text: with_causes(error),
    };
    if is_permanent {
        Refusal::Permanent(reason)
    } else {
        Refusal::Transient(reason)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn outbound() -> Outbound {
        Outbound {
            sender: "ann@farm.test".to_owned(),
            recipients: ["bob@barn.test", "zoe@zoo.test"].map(str::to_owned).into(),
            composition: Composition::default(),
            message_id: None,
            subject: String::new(),
        }
    }

    #[test]
    fn partly_refused_message_is_split_by_recipient() {
        let each: Vec<_> = outbound().per_recipient().collect();
        assert_eq!(each.len(), 2);
        assert!(each.iter().all(|one| one.recipients.len() == 1));
    }

    #[test]
    fn row_of_the_former_collection_is_a_payload() {
        let mut row = outbound().to_payload();
        for (name, value) in [("created", 1000), ("failures", 3), ("due", 2000)] {
            row[name] = json!(value);
        }
        assert_eq!(Outbound::parse(&row).unwrap(), outbound());
    }

    #[test]
    fn line_ends_are_converted_to_crlf() {
        let table: [(&[u8], &[u8]); 6] = [
            (b"", b""),
            (b"a\r\nb\r\n", b"a\r\nb\r\n"),
            (b"a\nb", b"a\r\nb"),
            (b"a\n.\r\nQUIT\r\n", b"a\r\n.\r\nQUIT\r\n"),
            (b"a\r.\rb", b"a\r\n.\r\nb"),
            (b"\r\r\n\n", b"\r\n\r\n\r\n"),
        ];
        for (message, expected) in table {
            assert_eq!(with_line_ends(message), expected, "{message:?}");
        }
    }
}
