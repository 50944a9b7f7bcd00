//! A mailbox that is open for a call: reads and writes of its rows, its labels, its history.
//!
//! Methods change messages only through `filing`, which keeps entries, threads, counters and
//! history consistent.

use std::collections::{BTreeMap, BTreeSet};

use windlass_rest::handler::Rejection;

use super::options::Address;
use super::rows::{
    Account, Content, Counts, Draft, Entry, EntryRef, Event, Key, Label, LabelName, Labels,
    ReplyTarget, Rows, Text, Thread, message_id_row,
};
use super::{ids, not_found};

/// The system labels. Their ids are their names.
pub(super) const SYSTEM_LABELS: [&str; 14] = [
    "INBOX",
    "SENT",
    "DRAFT",
    "SPAM",
    "TRASH",
    "UNREAD",
    "STARRED",
    "IMPORTANT",
    "CHAT",
    "CATEGORY_PERSONAL",
    "CATEGORY_SOCIAL",
    "CATEGORY_PROMOTIONS",
    "CATEGORY_UPDATES",
    "CATEGORY_FORUMS",
];

/// Number of events that are kept.
const MAX_EVENTS: u64 = 10_000;

/// Age up to which events are kept: 30 days, in milliseconds.
const EVENT_LIFETIME: u64 = 30 * 24 * 60 * 60 * 1000;

/// Number of old events that are checked with each new one. More than one, so that a backlog
/// shrinks.
const FORGOTTEN_AT_ONCE: usize = 2;

/// One mailbox, open for a call.
#[derive(Debug)]
pub(super) struct Mailbox<'r, 'a> {
    pub(super) rows: &'r mut Rows<'a>,
    address: String,
}

impl<'r, 'a> Mailbox<'r, 'a> {
    pub(super) fn open(rows: &'r mut Rows<'a>, address: &Address) -> Self {
        Self {
            rows,
            address: address.as_str().to_owned(),
        }
    }

    /// Returns the full name of a collection of the mailbox.
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
        let collection = self.collection("contents");
        let content = self.rows.read(&collection, id).await?;
        content.ok_or_else(|| ids::unknown("message", id))
    }

    pub(super) async fn entry(&mut self, id: &str) -> Result<Entry, Rejection> {
        let collection = self.collection("messages");
        let pointer: Option<EntryRef> = self.rows.read(&collection, id).await?;
        let pointer = pointer.ok_or_else(|| ids::unknown("message", id))?;
        let collection = self.collection("entries");
        let entry = self.rows.read(&collection, pointer.key.as_str()).await?;
        entry.ok_or_else(|| ids::unknown("message", id))
    }

    /// Reads the entries of messages together, and the rows of the messages in other collections,
    /// so that the next calls find them.
    pub(super) async fn prefetch(
        &mut self,
        ids: &[&str],
        collections: &[&str],
    ) -> Result<(), Rejection> {
        let messages = self.collection("messages");
        self.rows.prefetch(&messages, ids).await?;
        let mut keys = Vec::new();
        for id in ids {
            let pointer: Option<EntryRef> = self.rows.read(&messages, id).await?;
            keys.extend(pointer.map(|pointer| pointer.key));
        }
        let keys: Vec<_> = keys.iter().map(Key::as_str).collect();
        self.rows
            .prefetch(&self.collection("entries"), &keys)
            .await?;
        for name in collections {
            let collection = self.collection(name);
            self.rows.prefetch(&collection, ids).await?;
        }
        Ok(())
    }

    /// Reads the rows of labels together, so that the next calls find them.
    async fn prefetch_labels<'i>(
        &mut self,
        ids: impl Iterator<Item = &'i str>,
    ) -> Result<(), Rejection> {
        let ids: Vec<_> = ids.collect();
        let collection = self.collection("labels");
        self.rows.prefetch(&collection, &ids).await
    }

    /// Returns entries of the ledger, without caching them. `None` for each that is gone.
    pub(super) async fn peek_entries(
        &self,
        keys: impl Iterator<Item = &Key>,
    ) -> Result<Vec<Option<Entry>>, Rejection> {
        let collection = self.collection("entries");
        let keys: Vec<_> = keys.map(Key::as_str).collect();
        self.rows.peek_all(&collection, &keys).await
    }

    /// Returns the words of a message that its entry lacks, with a blank around each.
    pub(super) async fn peek_text(&self, id: &str) -> Result<String, Rejection> {
        let text: Option<Text> = self.rows.peek(&self.collection("texts"), id).await?;
        Ok(text.map(|text| text.words).unwrap_or_default())
    }

    /// Returns a thread of the ledger, without caching it.
    pub(super) async fn peek_thread(&self, id: &str) -> Result<Option<Thread>, Rejection> {
        self.rows.peek(&self.collection("threads"), id).await
    }

    pub(super) async fn thread(&mut self, id: &str) -> Result<Thread, Rejection> {
        let collection = self.collection("threads");
        let thread = self.rows.read(&collection, id).await?;
        thread.ok_or_else(|| ids::unknown("thread", id))
    }

    pub(super) async fn known(
        &mut self,
        message_id: &str,
    ) -> Result<Option<ReplyTarget>, Rejection> {
        let collection = self.collection("message-ids");
        self.rows
            .read(&collection, &message_id_row(message_id))
            .await
    }

    pub(super) async fn draft(&mut self, id: &str) -> Result<Draft, Rejection> {
        let collection = self.collection("drafts");
        let draft = self.rows.read(&collection, id).await?;
        draft.ok_or_else(|| not_found("draft", id))
    }

    pub(super) fn set_draft(&mut self, id: &str, entry: &Entry) {
        let draft = Draft {
            message: entry.id.clone(),
            key: entry.key(),
        };
        let collection = self.collection("drafts");
        self.rows.write(&collection, id, &draft);
    }

    pub(super) fn delete_draft(&mut self, id: &str) {
        let collection = self.collection("drafts");
        self.rows.delete(&collection, id);
    }

    /// Filters out deleted labels. Deleting a label does not change its messages; they lose the
    /// label here, when they are next read.
    pub(super) async fn existing_labels(&mut self, labels: &Labels) -> Result<Labels, Rejection> {
        let own = labels.iter().map(String::as_str);
        self.prefetch_labels(own.filter(|id| !is_system_label(id)))
            .await?;
        let mut existing = Labels::new();
        for id in labels {
            if label_exists(self, id).await? {
                existing.insert(id.clone());
            }
        }
        Ok(existing)
    }
}

/// Returns whether the label exists.
pub(super) async fn label_exists(
    mailbox: &mut Mailbox<'_, '_>,
    id: &str,
) -> Result<bool, Rejection> {
    Ok(is_system_label(id) || label_row(mailbox, id).await?.is_some())
}

/// Returns the label that a name in a search refers to.
pub(super) async fn label_named(
    mailbox: &mut Mailbox<'_, '_>,
    name: &str,
) -> Result<Option<String>, Rejection> {
    let folded = folded_label_name(name);
    let system = SYSTEM_LABELS.iter().find(|id| folded == id.to_lowercase());
    if let Some(id) = system {
        return Ok(Some((*id).to_owned()));
    }
    let collection = mailbox.collection("label-names");
    let named: Option<LabelName> = mailbox.rows.read(&collection, &folded).await?;
    Ok(named.map(|named| named.label))
}

/// Updates the counters of labels for a thread that changes from `before` to `after`.
pub(super) async fn recount_labels(
    mailbox: &mut Mailbox<'_, '_>,
    before: &BTreeMap<&str, Counts>,
    after: &BTreeMap<&str, Counts>,
) -> Result<(), Rejection> {
    let labels: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
    let counts = |id: &str| {
        let [old, new] = [before, after].map(|counts| counts.get(id).copied().unwrap_or_default());
        (old, new)
    };
    let changed = labels.into_iter().filter(|id| {
        let (old, new) = counts(id);
        old != new
    });
    let changed: Vec<_> = changed.collect();
    mailbox.prefetch_labels(changed.iter().copied()).await?;
    for id in changed {
        let (old, new) = counts(id);
        // A deleted label has no counters any more.
        let Some(mut label) = label_row_or_default(mailbox, id).await? else {
            continue;
        };
        label.counts = Counts {
            messages: label.counts.messages + new.messages - old.messages,
            unread: label.counts.unread + new.unread - old.unread,
            threads: label.counts.threads + new.threads - old.threads,
            threads_unread: label.counts.threads_unread + new.threads_unread - old.threads_unread,
        };
        write_label(mailbox, id, &label);
    }
    Ok(())
}

/// Returns the counters of a label.
pub(super) async fn label_counts(
    mailbox: &mut Mailbox<'_, '_>,
    id: &str,
) -> Result<Counts, Rejection> {
    let label = label_row(mailbox, id).await?;
    Ok(label.unwrap_or_default().counts)
}

pub(super) async fn label_row(
    mailbox: &mut Mailbox<'_, '_>,
    id: &str,
) -> Result<Option<Label>, Rejection> {
    let collection = mailbox.collection("labels");
    mailbox.rows.read(&collection, id).await
}

pub(super) async fn label_row_or_default(
    mailbox: &mut Mailbox<'_, '_>,
    id: &str,
) -> Result<Option<Label>, Rejection> {
    let label = label_row(mailbox, id).await?;
    Ok(label.or_else(|| is_system_label(id).then(Label::default)))
}

pub(super) fn write_label(mailbox: &mut Mailbox<'_, '_>, id: &str, label: &Label) {
    let collection = mailbox.collection("labels");
    mailbox.rows.write(&collection, id, label);
}

pub(super) fn is_system_label(id: &str) -> bool {
    SYSTEM_LABELS.contains(&id)
}

/// Returns a label name as searches write it. Names that differ only in case, blanks and slashes
/// would be equal there, so only one of them can exist.
pub(super) fn folded_label_name(name: &str) -> String {
    let dash = |c: char| if matches!(c, ' ' | '/') { '-' } else { c };
    name.to_lowercase().chars().map(dash).collect()
}

/// Appends an event to the history and returns its id.
pub(super) async fn log_event(
    mailbox: &mut Mailbox<'_, '_>,
    event: &Event,
) -> Result<u64, Rejection> {
    let mut account = mailbox.account().await?;
    account.history += 1;
    let collection = mailbox.collection("history");
    mailbox
        .rows
        .write(&collection, &event_row_id(account.history), event);
    forget_events(mailbox, &mut account, event.at).await?;
    mailbox.set_account(&account);
    Ok(account.history)
}

/// Deletes up to [`FORGOTTEN_AT_ONCE`] events that exceed the limits of age or number.
async fn forget_events(
    mailbox: &mut Mailbox<'_, '_>,
    account: &mut Account,
    now: u64,
) -> Result<(), Rejection> {
    let collection = mailbox.collection("history");
    for _ in 0..FORGOTTEN_AT_ONCE {
        let next = account.forgotten.max(1) + 1;
        if next >= account.history {
            return Ok(());
        }
        let oldest: Option<Event> = mailbox.rows.read(&collection, &event_row_id(next)).await?;
        let is_old = oldest
            .as_ref()
            .is_some_and(|event| event.at + EVENT_LIFETIME < now);
        if !is_old && account.history - next < MAX_EVENTS {
            return Ok(());
        }
        if oldest.is_some() {
            mailbox.rows.delete(&collection, &event_row_id(next));
        }
        account.forgotten = next;
    }
    Ok(())
}

pub(super) fn event_row_id(id: u64) -> String {
    format!("{id:016x}")
}
