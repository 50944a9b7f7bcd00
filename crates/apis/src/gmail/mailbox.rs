//! A mailbox: what is in it, and how it changes.
//!
//! Every change of a message goes through here, so that its entry, its thread, the counters of its
//! labels and the history always tell the same story.

use windlass_server::handler::Rejection;

use super::address::Address;
use super::letter::Letter;
use super::mime::words;
use super::records::{
    Account, Content, Draft, Entry, Event, Key, Known, Labels, Member, Pointer, Text, Thread, What,
    message_id_row,
};
use super::rows::Rows;
use super::{history, label, not_found, thread};

/// The longest list of words that is kept of a header field, in bytes.
const LONGEST_FIELD: usize = 4096;

/// A `Message-ID` that is longer than this is not remembered.
const LONGEST_MESSAGE_ID: usize = 1000;

/// The latest date that is kept: the end of the year 9999.
const LATEST: u64 = 253_402_300_799_999;

/// One mailbox, open for a call.
#[derive(Debug)]
pub(super) struct Mailbox<'r, 'a> {
    pub(super) rows: &'r mut Rows<'a>,
    address: String,
}

/// A message about to be filed.
#[derive(Debug)]
pub(super) struct New<'l> {
    pub(super) id: String,
    /// `None` for a thread of its own.
    pub(super) thread: Option<String>,
    pub(super) labels: Labels,
    /// Milliseconds since the epoch.
    pub(super) date: u64,
    pub(super) draft: Option<String>,
    pub(super) letter: &'l Letter,
}

impl<'r, 'a> Mailbox<'r, 'a> {
    pub(super) fn open(rows: &'r mut Rows<'a>, address: &Address) -> Self {
        Self {
            rows,
            address: address.as_str().to_owned(),
        }
    }

    /// The name of one of the mailbox's collections.
    pub(super) fn collection(&self, name: &str) -> String {
        format!("gmail/{}/{name}", self.address)
    }

    pub(super) async fn account(&mut self) -> Result<Account, Rejection> {
        let account = self.rows.read("gmail/mailboxes", &self.address).await?;
        Ok(account.unwrap_or_default())
    }

    pub(super) fn set_account(&mut self, account: &Account) {
        self.rows.write("gmail/mailboxes", &self.address, account);
    }

    pub(super) async fn content(&mut self, id: &str) -> Result<Content, Rejection> {
        let place = self.collection("contents");
        let content = self.rows.read(&place, id).await?;
        content.ok_or_else(|| not_found("message", id))
    }

    pub(super) async fn entry(&mut self, id: &str) -> Result<Entry, Rejection> {
        let place = self.collection("messages");
        let pointer: Option<Pointer> = self.rows.read(&place, id).await?;
        let pointer = pointer.ok_or_else(|| not_found("message", id))?;
        let place = self.collection("entries");
        let entry = self.rows.read(&place, pointer.key.as_str()).await?;
        entry.ok_or_else(|| not_found("message", id))
    }

    /// An entry as the ledger has it.
    pub(super) async fn peek_entry(&self, key: &Key) -> Result<Option<Entry>, Rejection> {
        let place = self.collection("entries");
        self.rows.peek(&place, key.as_str()).await
    }

    /// The words of a message that its entry does not have, with a blank around each.
    pub(super) async fn peek_text(&self, id: &str) -> Result<String, Rejection> {
        let text: Option<Text> = self.rows.peek(&self.collection("texts"), id).await?;
        Ok(text.map(|text| text.words).unwrap_or_default())
    }

    /// A thread as the ledger has it.
    pub(super) async fn peek_thread(&self, id: &str) -> Result<Option<Thread>, Rejection> {
        self.rows.peek(&self.collection("threads"), id).await
    }

    pub(super) async fn thread(&mut self, id: &str) -> Result<Thread, Rejection> {
        let place = self.collection("threads");
        let thread = self.rows.read(&place, id).await?;
        thread.ok_or_else(|| thread::unknown(id))
    }

    pub(super) async fn known(&mut self, message_id: &str) -> Result<Option<Known>, Rejection> {
        let place = self.collection("message-ids");
        self.rows.read(&place, &message_id_row(message_id)).await
    }

    pub(super) async fn draft(&mut self, id: &str) -> Result<Draft, Rejection> {
        let place = self.collection("drafts");
        let draft = self.rows.read(&place, id).await?;
        draft.ok_or_else(|| not_found("draft", id))
    }

    pub(super) fn set_draft(&mut self, id: &str, entry: &Entry) {
        let draft = Draft {
            message: entry.id.clone(),
            key: entry.key(),
        };
        let place = self.collection("drafts");
        self.rows.write(&place, id, &draft);
    }

    pub(super) fn delete_draft(&mut self, id: &str) {
        let place = self.collection("drafts");
        self.rows.delete(&place, id);
    }

    /// Those of the labels that are not deleted. A label goes without a look at the messages that have
    /// it; they lose it when they are next looked at.
    pub(super) async fn living(&mut self, labels: &Labels) -> Result<Labels, Rejection> {
        let mut living = Labels::new();
        for id in labels {
            if label::exists(self, id).await? {
                living.insert(id.clone());
            }
        }
        Ok(living)
    }

    /// Files a new message.
    pub(super) async fn add(&mut self, new: New<'_>) -> Result<Entry, Rejection> {
        let mut entry = entry_of(&new);
        entry.arrival = self.log(What::MessageAdded, &entry, Labels::new()).await?;
        entry.history = entry.arrival;
        let pointer = Pointer { key: entry.key() };
        self.rows
            .write(&self.collection("messages"), &entry.id, &pointer);
        let content = Content {
            composition: new.letter.composition.clone(),
            structure: new.letter.structure.clone(),
        };
        let media = new.letter.media.clone();
        self.rows
            .write_with(&self.collection("contents"), &entry.id, &content, media);
        self.write_entry(&entry);
        self.write_text(&entry.id, &new.letter.summary.text);
        self.remember(&entry).await?;
        self.join(&entry, &new.letter.summary.subject).await?;
        let mut account = self.account().await?;
        account.messages += 1;
        self.set_account(&account);
        Ok(entry)
    }

    /// Takes a message away for good.
    pub(super) async fn remove(&mut self, id: &str) -> Result<(), Rejection> {
        let entry = self.entry(id).await?;
        self.log(What::MessageDeleted, &entry, Labels::new())
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
        self.forget(&entry).await?;
        self.leave(&entry).await?;
        if let Some(draft) = &entry.draft {
            self.delete_draft(draft);
        }
        let mut account = self.account().await?;
        account.messages = account.messages.saturating_sub(1);
        self.set_account(&account);
        Ok(())
    }

    /// Gives a message other labels. Nothing happens when it has them already.
    pub(super) async fn relabel(
        &mut self,
        id: &str,
        add: &Labels,
        remove: &Labels,
    ) -> Result<Entry, Rejection> {
        let mut entry = self.entry(id).await?;
        let before = self.living(&entry.labels).await?;
        let kept = before.difference(remove).cloned();
        entry.labels = kept.chain(add.iter().cloned()).collect();
        let added: Labels = entry.labels.difference(&before).cloned().collect();
        let removed: Labels = before.difference(&entry.labels).cloned().collect();
        for (what, changed) in [(What::LabelAdded, added), (What::LabelRemoved, removed)] {
            if !changed.is_empty() {
                entry.history = self.log(what, &entry, changed).await?;
            }
        }
        self.write_entry(&entry);
        self.join(&entry, "").await?;
        Ok(entry)
    }

    async fn log(&mut self, what: What, entry: &Entry, changed: Labels) -> Result<u64, Rejection> {
        let event = Event {
            what,
            message: entry.id.clone(),
            thread: entry.thread.clone(),
            labels: entry.labels.clone(),
            changed,
            at: self.rows.now().as_millis(),
        };
        history::log(self, &event).await
    }

    fn write_entry(&mut self, entry: &Entry) {
        let place = self.collection("entries");
        self.rows.write(&place, entry.key().as_str(), entry);
    }

    fn write_text(&mut self, id: &str, words: &str) {
        if !words.is_empty() {
            let place = self.collection("texts");
            let words = padded(words);
            self.rows.write(&place, id, &Text { words });
        }
    }

    /// Keeps what answers to the message will name. Of several with the same `Message-ID` the newest
    /// counts.
    async fn remember(&mut self, entry: &Entry) -> Result<(), Rejection> {
        if let Some(message_id) = &entry.message_id {
            self.known(message_id).await?;
            let known = Known {
                message: entry.id.clone(),
                thread: entry.thread.clone(),
            };
            let place = self.collection("message-ids");
            self.rows.write(&place, &message_id_row(message_id), &known);
        }
        Ok(())
    }

    async fn forget(&mut self, entry: &Entry) -> Result<(), Rejection> {
        let Some(message_id) = &entry.message_id else {
            return Ok(());
        };
        let known = self.known(message_id).await?;
        if known.is_some_and(|known| known.message == entry.id) {
            let place = self.collection("message-ids");
            self.rows.delete(&place, &message_id_row(message_id));
        }
        Ok(())
    }

    /// Puts the message into its thread as it is now; `subject` is that of a thread's first message.
    async fn join(&mut self, entry: &Entry, subject: &str) -> Result<(), Rejection> {
        let place = self.collection("threads");
        let found: Option<Thread> = self.rows.read(&place, &entry.thread).await?;
        let before = found.clone().unwrap_or_default();
        let mut after = found.unwrap_or_else(|| Thread {
            subject: thread::base_subject(subject),
            ..Thread::default()
        });
        after.history = entry.history;
        after.messages.retain(|member| member.id != entry.id);
        after.messages.push(Member {
            id: entry.id.clone(),
            key: entry.key(),
            labels: entry.labels.clone(),
        });
        after.messages.sort_by(|one, other| other.key.cmp(&one.key));
        self.recount(&before, &after).await?;
        self.rows.write(&place, &entry.thread, &after);
        Ok(())
    }

    async fn leave(&mut self, entry: &Entry) -> Result<(), Rejection> {
        let before = self.thread(&entry.thread).await?;
        let mut after = before.clone();
        after.history = self.account().await?.history;
        after.messages.retain(|member| member.id != entry.id);
        self.recount(&before, &after).await?;
        let place = self.collection("threads");
        if after.messages.is_empty() {
            self.rows.delete(&place, &entry.thread);
        } else {
            self.rows.write(&place, &entry.thread, &after);
        }
        Ok(())
    }

    /// Brings counters from one state of a thread to the next.
    async fn recount(&mut self, before: &Thread, after: &Thread) -> Result<(), Rejection> {
        label::recount(self, &thread::counts(before), &thread::counts(after)).await?;
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

fn entry_of(new: &New<'_>) -> Entry {
    let summary = &new.letter.summary;
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
        size: new.letter.composition.length(),
        snippet: summary.snippet.clone(),
        draft: new.draft.clone(),
        from: people(&summary.from),
        to: people(&summary.to),
        cc: people(&summary.cc),
        bcc: people(&summary.bcc),
        subject: words_of([summary.subject.as_str()]),
        files: words_of(summary.filenames.iter().map(String::as_str)),
        list: words_of(summary.list_id.as_deref()),
        message_id: message_id.filter(|id| id.len() <= LONGEST_MESSAGE_ID),
        has_attachment: summary.has_attachment,
    }
}

/// The words of texts with a blank around each, cut at [`LONGEST_FIELD`] bytes.
pub(super) fn words_of<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let mut all = String::new();
    for word in texts.into_iter().flat_map(words) {
        if all.len() + word.len() > LONGEST_FIELD {
            break;
        }
        all.push(' ');
        all.push_str(&word);
    }
    if !all.is_empty() {
        all.push(' ');
    }
    all
}

fn padded(words: &str) -> String {
    format!(" {words} ")
}
