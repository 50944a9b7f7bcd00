//! Filing, removing and relabelling of messages, and the threads that messages belong to.
//!
//! Every change of a message goes through here, so that its entry, its thread, the counters of its
//! labels and the history stay consistent.

use std::collections::{BTreeMap, BTreeSet};

use windlass_rest::handler::Rejection;

use super::invalid;
use super::mailbox::{self, Mailbox};
use super::mime::Summary;
use super::parsed_message::ParsedMessage;
use super::rows::{
    Content, Counts, Entry, EntryRef, Event, EventKind, Labels, Member, ReplyTarget, Text, Thread,
    message_id_row, words_of,
};

/// Longest `Message-ID` that is stored, in bytes.
const MAX_MESSAGE_ID_LEN: usize = 1000;

/// Latest date that is stored: the end of the year 9999, in milliseconds since the epoch.
const LATEST: u64 = 253_402_300_799_999;

/// Maximum number of messages of a thread, as in Gmail. The next one starts a new thread.
const MAX_THREAD_LEN: usize = 100;

/// Maximum number of labels of a message, without system labels. The rows that repeat the labels
/// are not counted against a quota.
const MAX_LABELS: usize = 100;

/// Maximum number of referenced messages that are looked up in one mailbox.
pub(super) const MAX_NAMED: usize = 100;

/// Prefixes of the subjects of answers and forwarded messages.
const PREFIXES: [&str; 8] = ["re", "fw", "fwd", "aw", "wg", "sv", "antw", "rv"];

/// A message to be filed.
#[derive(Debug)]
pub(super) struct NewMessage<'l> {
    pub(super) id: String,
    /// The thread that it joins; `None` for a new thread.
    pub(super) thread: Option<String>,
    pub(super) labels: Labels,
    /// Milliseconds since the epoch.
    pub(super) date: u64,
    pub(super) draft: Option<String>,
    pub(super) parsed: &'l ParsedMessage,
    /// Words by which it is found, from the beginning of `parsed`.
    pub(super) text: &'l str,
}

impl NewMessage<'_> {
    /// Number of bytes that its rows have besides the text.
    pub(super) fn length(&self) -> usize {
        let length = |row: serde_json::Result<Vec<u8>>| row.map_or(0, |row| row.len());
        length(serde_json::to_vec(&self.parsed.structure))
            + length(serde_json::to_vec(&entry_of(self)))
    }
}

impl Mailbox<'_, '_> {
    /// Files a new message.
    pub(super) async fn add(&mut self, new: NewMessage<'_>) -> Result<Entry, Rejection> {
        let mut entry = entry_of(&new);
        entry.arrival = self
            .log(EventKind::MessageAdded, &entry, Labels::new())
            .await?;
        entry.history = entry.arrival;
        let pointer = EntryRef { key: entry.key() };
        self.rows
            .write(&self.collection("messages"), &entry.id, &pointer);
        let content = Content {
            composition: new.parsed.composition.clone(),
            structure: new.parsed.structure.clone(),
        };
        let media = new.parsed.media.clone();
        self.rows
            .write_with(&self.collection("contents"), &entry.id, &content, media);
        self.write_entry(&entry);
        self.write_text(&entry.id, new.text);
        self.index_message_id(&entry).await?;
        let subject = &new.parsed.summary.subject;
        self.update_thread(&entry.thread, &[&entry], subject)
            .await?;
        let mut account = self.account().await?;
        account.messages += 1;
        self.set_account(&account);
        Ok(entry)
    }

    /// Deletes a message permanently.
    pub(super) async fn remove(&mut self, id: &str) -> Result<(), Rejection> {
        let removed = self.remove_rows(id).await?;
        self.leave_threads(&[removed]).await
    }

    /// Deletes all rows of a message, but leaves it in its thread until [`Mailbox::leave_threads`].
    /// Returns its last entry.
    pub(super) async fn remove_rows(&mut self, id: &str) -> Result<Entry, Rejection> {
        let mut entry = self.entry(id).await?;
        entry.history = self
            .log(EventKind::MessageDeleted, &entry, Labels::new())
            .await?;
        self.content(id).await?;
        self.rows.delete(&self.collection("contents"), id);
        self.rows.delete(&self.collection("messages"), id);
        self.rows
            .delete(&self.collection("entries"), entry.key().as_str());
        let texts = self.collection("texts");
        if self.rows.read::<Text>(&texts, id).await?.is_some() {
            self.rows.delete(&texts, id);
        }
        self.unindex_message_id(&entry).await?;
        if let Some(draft) = &entry.draft {
            self.delete_draft(draft);
        }
        let mut account = self.account().await?;
        account.messages = account.messages.saturating_sub(1);
        self.set_account(&account);
        Ok(entry)
    }

    /// Adds and removes labels of messages. Logs no event for a message with unchanged labels.
    ///
    /// # Errors
    /// [`Rejection::InvalidArgument`] if a label is added to a message that would then have more
    /// than [`MAX_LABELS`].
    pub(super) async fn relabel(
        &mut self,
        ids: &[&str],
        add: &Labels,
        remove: &Labels,
    ) -> Result<Vec<Entry>, Rejection> {
        self.prefetch(ids, &[]).await?;
        let mut entries = Vec::new();
        for id in ids {
            entries.push(self.relabelled(id, add, remove).await?);
            // All rows may be in memory, so that nothing else gives way to other tasks.
            tokio::task::yield_now().await;
        }
        self.prefetch_threads(&entries).await?;
        for (thread, entries) in by_thread(&entries) {
            self.update_thread(thread, &entries, "").await?;
            tokio::task::yield_now().await;
        }
        Ok(entries)
    }

    async fn relabelled(
        &mut self,
        id: &str,
        add: &Labels,
        remove: &Labels,
    ) -> Result<Entry, Rejection> {
        let mut entry = self.entry(id).await?;
        let before = self.existing_labels(&entry.labels).await?;
        let kept = before.difference(remove).cloned();
        entry.labels = kept.chain(add.iter().cloned()).collect();
        let added: Labels = entry.labels.difference(&before).cloned().collect();
        let removed: Labels = before.difference(&entry.labels).cloned().collect();
        let own = |label: &&String| !mailbox::is_system_label(label);
        if added.iter().any(|label| own(&label))
            && entry.labels.iter().filter(own).count() > MAX_LABELS
        {
            return Err(invalid(format!(
                "message {id} has {MAX_LABELS} labels, which is the limit; remove one first"
            )));
        }
        for (what, changed) in [
            (EventKind::LabelAdded, added),
            (EventKind::LabelRemoved, removed),
        ] {
            if !changed.is_empty() {
                entry.history = self.log(what, &entry, changed).await?;
            }
        }
        self.write_entry(&entry);
        Ok(entry)
    }

    async fn log(
        &mut self,
        what: EventKind,
        entry: &Entry,
        changed: Labels,
    ) -> Result<u64, Rejection> {
        let event = Event {
            what,
            message: entry.id.clone(),
            thread: entry.thread.clone(),
            labels: entry.labels.clone(),
            changed,
            at: self.rows.now().as_millis(),
        };
        mailbox::log_event(self, &event).await
    }

    fn write_entry(&mut self, entry: &Entry) {
        let collection = self.collection("entries");
        self.rows.write(&collection, entry.key().as_str(), entry);
    }

    fn write_text(&mut self, id: &str, words: &str) {
        if !words.is_empty() {
            let collection = self.collection("texts");
            let words = padded(words);
            self.rows.write(&collection, id, &Text { words });
        }
    }

    /// Indexes the `Message-ID`, which answers name. Of several messages with the same one, the
    /// newest wins.
    async fn index_message_id(&mut self, entry: &Entry) -> Result<(), Rejection> {
        if let Some(message_id) = &entry.message_id {
            self.known(message_id).await?;
            let known = ReplyTarget {
                message: entry.id.clone(),
                thread: entry.thread.clone(),
            };
            let collection = self.collection("message-ids");
            self.rows
                .write(&collection, &message_id_row(message_id), &known);
        }
        Ok(())
    }

    async fn unindex_message_id(&mut self, entry: &Entry) -> Result<(), Rejection> {
        let Some(message_id) = &entry.message_id else {
            return Ok(());
        };
        let known = self.known(message_id).await?;
        if known.is_some_and(|known| known.message == entry.id) {
            let collection = self.collection("message-ids");
            self.rows.delete(&collection, &message_id_row(message_id));
        }
        Ok(())
    }

    /// Inserts or updates messages in their thread. `subject` is used if the thread is new.
    async fn update_thread(
        &mut self,
        id: &str,
        entries: &[&Entry],
        subject: &str,
    ) -> Result<(), Rejection> {
        let collection = self.collection("threads");
        let found: Option<Thread> = self.rows.read(&collection, id).await?;
        let before = found.clone().unwrap_or_default();
        let mut after = found.unwrap_or_else(|| Thread {
            subject: base_subject(subject),
            ..Thread::default()
        });
        after.history = before.history.max(last_history(entries));
        let members = after.messages.drain(..);
        let mut members: BTreeMap<_, _> = members.map(|it| (it.id.clone(), it)).collect();
        for entry in entries {
            let member = Member {
                id: entry.id.clone(),
                key: entry.key(),
                labels: entry.labels.clone(),
            };
            members.insert(entry.id.clone(), member);
        }
        after.messages = members.into_values().collect();
        after.messages.sort_by(|one, other| other.key.cmp(&one.key));
        self.recount(&before, &after).await?;
        self.rows.write(&collection, id, &after);
        Ok(())
    }

    /// Reads the threads of these messages together, so that the next calls find them.
    async fn prefetch_threads(&mut self, entries: &[Entry]) -> Result<(), Rejection> {
        let threads: BTreeSet<_> = entries.iter().map(|entry| entry.thread.as_str()).collect();
        let threads: Vec<_> = threads.into_iter().collect();
        let collection = self.collection("threads");
        self.rows.prefetch(&collection, &threads).await
    }

    /// Takes removed messages out of their threads.
    pub(super) async fn leave_threads(&mut self, removed: &[Entry]) -> Result<(), Rejection> {
        self.prefetch_threads(removed).await?;
        let collection = self.collection("threads");
        for (id, entries) in by_thread(removed) {
            let Some(before) = self.rows.read::<Thread>(&collection, id).await? else {
                continue;
            };
            let mut after = before.clone();
            after.history = last_history(&entries);
            let removed: BTreeSet<_> = entries.iter().map(|entry| &entry.id).collect();
            after
                .messages
                .retain(|member| !removed.contains(&member.id));
            self.recount(&before, &after).await?;
            if after.messages.is_empty() {
                self.rows.delete(&collection, id);
            } else {
                self.rows.write(&collection, id, &after);
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Updates all counters for a thread that changes from `before` to `after`.
    async fn recount(&mut self, before: &Thread, after: &Thread) -> Result<(), Rejection> {
        mailbox::recount_labels(self, &counts_by_label(before), &counts_by_label(after)).await?;
        let mut account = self.account().await?;
        match (before.messages.is_empty(), after.messages.is_empty()) {
            (true, false) => account.threads += 1,
            (false, true) => account.threads = account.threads.saturating_sub(1),
            _ => return Ok(()),
        }
        self.set_account(&account);
        Ok(())
    }
}

/// Groups entries by thread: each may have a hundred messages, and its row is long.
fn by_thread(entries: &[Entry]) -> BTreeMap<&str, Vec<&Entry>> {
    let mut threads: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        threads.entry(&entry.thread).or_default().push(entry);
    }
    threads
}

/// Id of the last change of these entries.
fn last_history(entries: &[&Entry]) -> u64 {
    let all = entries.iter().map(|entry| entry.history);
    all.max().unwrap_or_default()
}

fn entry_of(new: &NewMessage<'_>) -> Entry {
    let summary = &new.parsed.summary;
    let people = |people: &[super::mime::Address]| {
        let texts = people.iter().flat_map(|it| [&it.name, &it.address]);
        words_of(texts.map(String::as_str))
    };
    let message_id = summary.message_id.clone();
    Entry {
        id: new.id.clone(),
        thread: new.thread.clone().unwrap_or_else(|| new.id.clone()),
        labels: new.labels.clone(),
        history: 0,
        arrival: 0,
        date: new.date.min(LATEST),
        size: new.parsed.composition.length(),
        snippet: summary.snippet.clone(),
        draft: new.draft.clone(),
        from: people(&summary.from),
        to: people(&summary.to),
        cc: people(&summary.cc),
        bcc: people(&summary.bcc),
        subject: words_of([summary.subject.as_str()]),
        files: words_of(summary.filenames.iter().map(String::as_str)),
        list: words_of(summary.list_id.as_deref()),
        message_id: message_id.filter(|id| id.len() <= MAX_MESSAGE_ID_LEN),
        has_attachment: summary.has_attachment,
    }
}

fn padded(words: &str) -> String {
    format!(" {words} ")
}

/// Returns the subject without prefixes such as `Re:`, in lower case, with blanks folded. All
/// messages of a thread share it.
pub(super) fn base_subject(subject: &str) -> String {
    let folded: Vec<_> = subject.split_whitespace().collect();
    let subject = folded.join(" ").to_lowercase();
    // By slices: a subject may consist of a hundred thousand prefixes.
    let mut rest = &*subject;
    while let Some((prefix, after)) = rest.split_once(':') {
        if !PREFIXES.contains(&prefix.trim_end()) {
            break;
        }
        rest = after.trim_start();
    }
    rest.to_owned()
}

/// Returns the thread that a message belongs to; `None` for a new thread.
///
/// A message belongs to a thread if it has the subject of the thread and references one of its
/// messages. With `wanted`, only that thread is considered. Without it, only the thread of the
/// newest referenced message is considered. Only the last `most` referenced messages are looked up.
///
/// # Errors
/// [`Rejection::NotFound`] if the `wanted` thread does not exist.
pub(super) async fn find_thread(
    mailbox: &mut Mailbox<'_, '_>,
    wanted: Option<&str>,
    summary: &Summary,
    most: usize,
) -> Result<Option<String>, Rejection> {
    if let Some(wanted) = wanted {
        mailbox.thread(wanted).await?;
    }
    let subject = base_subject(&summary.subject);
    let named = summary
        .in_reply_to
        .iter()
        .chain(summary.references.iter().rev());
    for message_id in named.take(most) {
        let Some(known) = mailbox.known(message_id).await? else {
            continue;
        };
        if wanted.is_some_and(|wanted| wanted != known.thread) {
            continue;
        }
        let thread = mailbox.thread(&known.thread).await?;
        if thread.subject == subject && thread.messages.len() < MAX_THREAD_LEN {
            return Ok(Some(known.thread));
        }
    }
    Ok(None)
}

/// Returns the counters of each label over one thread.
fn counts_by_label(thread: &Thread) -> BTreeMap<&str, Counts> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gmail::rows::{Key, Member};

    #[test]
    fn base_subject_of_answer_equals_that_of_the_original() {
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
        // Copying the rest of the text for each prefix would copy 30 GB.
        assert_eq!(
            base_subject(&format!("{}hay", "re: ".repeat(100_000))),
            "hay"
        );
        assert_eq!(base_subject("Re:"), "");
    }

    #[test]
    fn thread_counts_once_per_label_and_is_unread_if_one_of_its_messages_is() {
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
        let counts = counts_by_label(&thread);
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
