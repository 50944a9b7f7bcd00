//! Threads: which messages belong together, and the methods on them.

use std::collections::BTreeMap;

use windlass_server::handler::{Answer, Rejection};

use super::change::{self, LabelChange};
use super::mailbox::Mailbox;
use super::message::{self, Format};
use super::mime::Summary;
use super::records::{Counts, Labels, Thread};
use super::request::Request;
use super::rows::Rows;
use super::{body_of, listing, not_found};

/// The most messages of a thread, as in Gmail. The next one begins a new thread.
pub(super) const LONGEST: usize = 100;

/// The most bytes of text that a thread is shown with.
const LARGEST_REPLY: u64 = 32 * 1024 * 1024;

/// How many of the messages that a message names are looked for.
const MOST_NAMED: usize = 100;

/// What people and programs put before the subject of an answer.
const PREFIXES: [&str; 8] = ["re", "fw", "fwd", "aw", "wg", "sv", "antw", "rv"];

/// The subject without `Re:` and its like, in lower case, blanks folded. Messages of a thread have it in
/// common.
pub(super) fn base_subject(subject: &str) -> String {
    let folded: Vec<_> = subject.split_whitespace().collect();
    let mut rest = folded.join(" ").to_lowercase();
    while let Some((prefix, after)) = rest.split_once(':') {
        if !PREFIXES.contains(&prefix.trim_end()) {
            break;
        }
        rest = after.trim_start().to_owned();
    }
    rest
}

/// Where a message belongs; `None` for a thread of its own.
///
/// With a `wanted` thread it belongs there if the subject is that of the thread and it names one of its messages as
/// an answer does; without, where the newest message that it names is, if the subject is the same.
///
/// # Errors
/// [`Rejection::NotFound`] when there is no such thread.
pub(super) async fn of(
    mailbox: &mut Mailbox<'_, '_>,
    wanted: Option<&str>,
    summary: &Summary,
) -> Result<Option<String>, Rejection> {
    if let Some(wanted) = wanted {
        mailbox.thread(wanted).await?;
    }
    let subject = base_subject(&summary.subject);
    let named = summary
        .in_reply_to
        .iter()
        .chain(summary.references.iter().rev());
    for message_id in named.take(MOST_NAMED) {
        let Some(known) = mailbox.known(message_id).await? else {
            continue;
        };
        if wanted.is_some_and(|wanted| wanted != known.thread) {
            continue;
        }
        let thread = mailbox.thread(&known.thread).await?;
        if thread.subject == subject && thread.messages.len() < LONGEST {
            return Ok(Some(known.thread));
        }
    }
    Ok(None)
}

/// How many messages and threads have each label, counted over one thread.
pub(super) fn counts(thread: &Thread) -> BTreeMap<&str, Counts> {
    let mut counts: BTreeMap<&str, Counts> = BTreeMap::new();
    for member in &thread.messages {
        let unread = i64::from(member.labels.contains("UNREAD"));
        for label in &member.labels {
            let count = counts.entry(label).or_default();
            count.messages += 1;
            count.unread += unread;
            count.threads = 1;
            count.threads_unread |= unread;
        }
    }
    counts
}

/// `users.threads.get`
pub(super) async fn get(request: &Request<'_>) -> Result<Answer, Rejection> {
    let format = Format::of(request)?;
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let id = request.id();
    let thread = mailbox.thread(id).await?;
    let mut messages = Vec::new();
    let mut cost = 0;
    for member in &thread.messages {
        cost += message::cost(&mut mailbox, &member.id, &format).await?;
    }
    if cost > LARGEST_REPLY {
        let problem = format!(
            "the messages of the thread take about {cost} bytes, of which one reply has at most \
             {LARGEST_REPLY}; fetch them one by one"
        );
        return Err(Rejection::FailedPrecondition { problem });
    }
    message::reserve(request, cost).await?;
    for member in &thread.messages {
        messages.push(message::show(&mut mailbox, &member.id, &format).await?);
    }
    Ok(body_of(serde_json::json!({
        "id": id,
        "historyId": thread.history.to_string(),
        "messages": messages,
    })))
}

/// `users.threads.list`
pub(super) async fn list(request: &Request<'_>) -> Result<Answer, Rejection> {
    listing::threads(request).await
}

/// `users.threads.modify`
pub(super) async fn modify(request: &Request<'_>) -> Result<Answer, Rejection> {
    relabel(request, LabelChange::of(request).await?).await
}

/// `users.threads.trash`
pub(super) async fn trash(request: &Request<'_>) -> Result<Answer, Rejection> {
    relabel(request, LabelChange::trash()).await
}

/// `users.threads.untrash`
pub(super) async fn untrash(request: &Request<'_>) -> Result<Answer, Rejection> {
    relabel(request, LabelChange::untrash()).await
}

async fn relabel(request: &Request<'_>, change: LabelChange) -> Result<Answer, Rejection> {
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let id = request.id();
    let mut messages = Vec::new();
    for member in mailbox.thread(id).await?.messages {
        let entry = change::apply(&mut mailbox, &member.id, &change).await?;
        let labels: Labels = mailbox.living(&entry.labels).await?;
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
pub(super) async fn delete(request: &Request<'_>) -> Result<Answer, Rejection> {
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    for member in mailbox.thread(request.id()).await?.messages {
        mailbox.remove(&member.id).await?;
    }
    Ok(finish(rows, Answer::default()))
}

/// The answer with what the rows have become.
pub(super) fn finish(rows: Rows<'_>, answer: Answer) -> Answer {
    Answer {
        changes: rows.into_changes(),
        ..answer
    }
}

/// That there is no such thread.
pub(super) fn unknown(id: &str) -> Rejection {
    not_found("thread", id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gmail::records::{Key, Member};

    #[test]
    fn answers_have_the_subject_of_what_they_answer() {
        for subject in [
            "Hay  prices",
            "Re: hay prices",
            "RE: FW: Re : Hay\tprices",
            " fwd:hay prices ",
            "AW: WG: hay prices",
        ] {
            assert_eq!(base_subject(subject), "hay prices", "{subject}");
        }
        assert_eq!(base_subject("Reply: hay"), "reply: hay");
        assert_eq!(base_subject("Re:"), "");
    }

    #[test]
    fn a_thread_counts_once_for_a_label_and_is_unread_where_one_of_the_label_is() {
        let member = |id: &str, labels: &[&str]| Member {
            id: id.to_owned(),
            key: Key::new(0, 0),
            labels: labels.iter().map(|&label| label.to_owned()).collect(),
        };
        let thread = Thread {
            messages: vec![
                member("1", &["INBOX", "UNREAD"]),
                member("2", &["INBOX", "SENT"]),
            ],
            ..Thread::default()
        };
        let counts = counts(&thread);
        let all = |label: &str| {
            let Counts {
                messages,
                unread,
                threads,
                threads_unread,
            } = counts[label];
            (messages, unread, threads, threads_unread)
        };
        assert_eq!(all("INBOX"), (2, 1, 1, 1));
        assert_eq!(all("UNREAD"), (1, 1, 1, 1));
        assert_eq!(all("SENT"), (1, 0, 1, 0));
    }
}
