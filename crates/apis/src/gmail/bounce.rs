//! Telling a sender that a message did not get through: a delivery status notification (RFC 3464).

use sha2::{Digest as _, Sha256};
use windlass_server::handler::Rejection;

use super::address::Address;
use super::letter::Letter;
use super::mailbox::{Mailbox, New};
use super::mime::{self, Stamp};
use super::options::Options;
use super::outbox::Outbound;
use super::records::Labels;
use super::relay::Reason;
use super::rows::Rows;
use super::{invalid, thread};

/// The longest piece of somebody else's text in a notification, in characters.
const LONGEST: usize = 500;

/// Files a notification into the mailbox of the sender. `row` is the id of the outbox' row, from which
/// the ids of the notification follow.
pub(super) async fn file(
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
    let id = id(row);
    let now = rows.now().as_millis();
    let stamp = Stamp {
        from: format!(
            "Mail Delivery Subsystem <mailer-daemon@{}>",
            options.me.domain()
        ),
        message_id: format!("<{id}@{}>", options.me.domain()),
        date: i64::try_from(now).unwrap_or(i64::MAX),
    };
    let body = text(options, &id, outbound, reason);
    let text = [mime::missing_headers(body.as_bytes(), &stamp), body.into()].concat();
    let letter = Letter::written(text).map_err(|error| invalid(error.to_string()))?;
    let mut mailbox = Mailbox::open(rows, &sender);
    let new = New {
        thread: thread::of(&mut mailbox, None, &letter.summary).await?,
        id,
        labels: ["INBOX", "UNREAD"]
            .map(str::to_owned)
            .into_iter()
            .collect::<Labels>(),
        date: now,
        draft: None,
        letter: &letter,
    };
    mailbox.add(new).await?;
    Ok(())
}

/// 16 hexadecimal digits.
fn id(row: &str) -> String {
    let hash: [u8; 32] = Sha256::digest(row.as_bytes()).into();
    let (first, _) = hash.split_at(8);
    let first = first.try_into().expect("it was split there");
    format!("{:016x}", u64::from_be_bytes(first))
}

fn text(options: &Options, boundary: &str, outbound: &Outbound, reason: &Reason) -> String {
    let recipients = outbound.recipients.iter().map(String::as_str);
    let to = recipients.collect::<Vec<_>>().join(", ");
    let reason_text = line(&reason.text);
    let status = match reason.status {
        Some(status) => format!("{}.0.0", status / 100),
        None => "4.4.7".to_owned(),
    };
    let answers = outbound
        .message_id
        .as_deref()
        .map_or_else(String::new, |id| {
            let id = line(id);
            format!("In-Reply-To: <{id}>\r\nReferences: <{id}>\r\n")
        });
    let original = outbound
        .message_id
        .as_deref()
        .map_or_else(String::new, |id| format!("Message-ID: <{}>\r\n", line(id)));
    let subject = line(&outbound.subject);
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

/// Somebody else's text on one line.
fn line(text: &str) -> String {
    let visible = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    visible.take(LONGEST).collect()
}
