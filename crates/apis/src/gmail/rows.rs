//! The rows of a mailbox, and the write buffer through which a call reads and changes them.
//!
//! A call reads rows, changes some of them and reads its own changes. At the end all changes become
//! one change set, in which each change expects the version that was read.
//!
//! | collection | id | row |
//! |---|---|---|
//! | `gmail/mailboxes` | address | [`Account`] |
//! | `gmail/{address}/entries` | [`Key`] | [`Entry`], newest first; lists and searches read it |
//! | `gmail/{address}/messages` | message | [`EntryRef`] |
//! | `gmail/{address}/contents` | message | [`Content`], with the media; may be large |
//! | `gmail/{address}/texts` | message | [`Text`] |
//! | `gmail/{address}/threads` | thread | [`Thread`] |
//! | `gmail/{address}/message-ids` | hash of a `Message-ID` | [`ReplyTarget`] |
//! | `gmail/{address}/labels` | label | [`Label`] |
//! | `gmail/{address}/label-names` | folded name | [`LabelName`] |
//! | `gmail/{address}/drafts` | draft, newest first | [`Draft`] |
//! | `gmail/{address}/history` | history id | [`Event`] |

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use windlass_rest::handler::{FETCHED_AT_ONCE, Rejection, StoreReader, first_version};
use windlass_store::{Media, Resource, ResourceChange, Timestamp};

use super::mime::{Structure, words};
use super::parsed_message::Composition;

/// Longest list of words that is stored of a header field, in bytes.
const MAX_FIELD_LEN: usize = 4096;

/// Collections with rows that are not counted against a quota, because both the sender of a message
/// and the owner of the mailbox write them. Their data is either copied from rows of `contents`,
/// which are counted, or bounded: the labels of a message, and the number of labels, of messages of
/// a thread and of events of a mailbox.
const UNCOUNTED: [&str; 4] = ["/entries", "/threads", "/labels", "/history"];

/// Whether rows of a collection count against the quota of who makes them.
pub(super) fn counts(collection: &str) -> bool {
    !UNCOUNTED.iter().any(|name| collection.ends_with(name))
}

/// Rows by collection and id, with the changes of the call.
#[derive(Debug)]
pub(super) struct Rows<'a> {
    lookup: StoreReader<'a>,
    now: Timestamp,
    cached: BTreeMap<(String, String), Row>,
}

#[derive(Debug, Default)]
struct Row {
    /// The row in the ledger; `None` if it does not exist.
    found: Option<Resource>,
    /// The change that the call makes; `None` if it has only read the row.
    pending: Option<PendingWrite>,
}

#[derive(Debug)]
enum PendingWrite {
    Written { body: Bytes, media: Option<Media> },
    Deleted,
}

impl Row {
    fn body(&self) -> Option<&[u8]> {
        match (&self.pending, &self.found) {
            (Some(PendingWrite::Written { body, .. }), _) => Some(body),
            (Some(PendingWrite::Deleted), _) => None,
            (None, found) => found.as_ref().map(|found| &found.body[..]),
        }
    }

    fn media(&self) -> Option<&Media> {
        match (&self.pending, &self.found) {
            (Some(PendingWrite::Written { media, .. }), _) => media.as_ref(),
            (Some(PendingWrite::Deleted), _) => None,
            (None, found) => found.as_ref()?.media.as_ref(),
        }
    }
}

impl<'a> Rows<'a> {
    pub(super) fn new(lookup: StoreReader<'a>, now: Timestamp) -> Self {
        Self {
            lookup,
            now,
            cached: BTreeMap::new(),
        }
    }

    pub(super) fn lookup(&self) -> StoreReader<'a> {
        self.lookup
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the row. A row that cannot be decoded is logged and treated as absent; no version of
    /// this code has written one.
    pub(super) async fn read<T: DeserializeOwned>(
        &mut self,
        collection: &str,
        id: &str,
    ) -> Result<Option<T>, Rejection> {
        let row = self.row(collection, id).await?;
        Ok(row.body().and_then(|body| parse(collection, id, body)))
    }

    /// Reads rows together, so that the next reads of them find them.
    pub(super) async fn prefetch(
        &mut self,
        collection: &str,
        ids: &[&str],
    ) -> Result<(), Rejection> {
        let is_new = |id: &&&str| {
            let key = (collection.to_owned(), (**id).to_owned());
            !self.cached.contains_key(&key)
        };
        let ids: Vec<&str> = ids.iter().filter(is_new).copied().collect();
        for ids in ids.chunks(FETCHED_AT_ONCE) {
            let found = self.lookup.fetch(collection, ids).await?;
            for (id, found) in ids.iter().zip(found) {
                let key = (collection.to_owned(), (*id).to_owned());
                let row = Row {
                    found,
                    pending: None,
                };
                self.cached.insert(key, row);
            }
        }
        Ok(())
    }

    /// Returns the rows of the ledger without caching them.
    pub(super) async fn peek_all<T: DeserializeOwned>(
        &self,
        collection: &str,
        ids: &[&str],
    ) -> Result<Vec<Option<T>>, Rejection> {
        let found = self.lookup.fetch(collection, ids).await?.into_iter();
        let parsed = ids.iter().zip(found).map(|(id, found)| {
            let found = found?;
            parse(collection, id, &found.body)
        });
        Ok(parsed.collect())
    }

    /// Returns the row of the ledger without caching it, for calls that read many rows.
    pub(super) async fn peek<T: DeserializeOwned>(
        &self,
        collection: &str,
        id: &str,
    ) -> Result<Option<T>, Rejection> {
        let found = self.lookup.resource(collection, id).await?;
        Ok(found.and_then(|found| parse(collection, id, &found.body)))
    }

    /// Returns the media of the row.
    pub(super) async fn media(
        &mut self,
        collection: &str,
        id: &str,
    ) -> Result<Option<Media>, Rejection> {
        Ok(self.row(collection, id).await?.media().cloned())
    }

    /// Returns up to `limit` rows of the ledger with ids after `after`, in the order of ids.
    pub(super) async fn list<T: DeserializeOwned>(
        &self,
        collection: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, T)>, Rejection> {
        let found = self.lookup.resources(collection, after, limit).await?;
        let rows = found.into_iter().filter_map(|resource| {
            let row = parse(collection, &resource.id, &resource.body)?;
            Some((resource.id, row))
        });
        Ok(rows.collect())
    }

    /// Writes a row and keeps its media. A row that was not read before is inserted.
    pub(super) fn write<T: Serialize>(&mut self, collection: &str, id: &str, row: &T) {
        let row_of = self.entry(collection, id);
        let media = row_of.media().cloned();
        row_of.pending = Some(PendingWrite::Written {
            body: to_bytes(row),
            media,
        });
    }

    /// Writes a row and sets its media.
    pub(super) fn write_with<T: Serialize>(
        &mut self,
        collection: &str,
        id: &str,
        row: &T,
        media: Option<Media>,
    ) {
        self.entry(collection, id).pending = Some(PendingWrite::Written {
            body: to_bytes(row),
            media,
        });
    }

    /// Deletes a row that was read.
    pub(super) fn delete(&mut self, collection: &str, id: &str) {
        self.entry(collection, id).pending = Some(PendingWrite::Deleted);
    }

    /// Returns the changes. Deletions are last, so that media that moves from one row to another
    /// always has an owner.
    pub(super) fn into_changes(self) -> Vec<ResourceChange> {
        let now = self.now;
        let rows = self.cached.into_iter();
        let mut changes: Vec<_> = rows
            .filter_map(|(key, row)| change(key, row, now))
            .collect();
        changes.sort_by_key(|change| matches!(change, ResourceChange::Delete { .. }));
        changes
    }

    fn entry(&mut self, collection: &str, id: &str) -> &mut Row {
        let key = (collection.to_owned(), id.to_owned());
        self.cached.entry(key).or_default()
    }

    async fn row(&mut self, collection: &str, id: &str) -> Result<&Row, Rejection> {
        let key = (collection.to_owned(), id.to_owned());
        if !self.cached.contains_key(&key) {
            let found = self.lookup.resource(collection, id).await?;
            self.cached.insert(
                key,
                Row {
                    found,
                    pending: None,
                },
            );
        }
        Ok(self.entry(collection, id))
    }
}

fn change(key: (String, String), row: Row, now: Timestamp) -> Option<ResourceChange> {
    let (collection, id) = key;
    match (row.pending?, row.found) {
        (PendingWrite::Deleted, None) => None,
        (PendingWrite::Deleted, Some(found)) => Some(ResourceChange::Delete {
            collection,
            id,
            expected: found.version,
        }),
        (PendingWrite::Written { body, media }, None) => Some(ResourceChange::Insert(Resource {
            collection,
            id,
            version: first_version(),
            body,
            media,
            created: now,
            updated: now,
            due: None,
            claimed_by: None,
            owner: None,
        })),
        (PendingWrite::Written { body, media }, Some(found)) => Some(ResourceChange::Replace {
            expected: found.version,
            resource: Resource {
                version: found.version + 1,
                body,
                media,
                updated: now,
                due: None,
                claimed_by: None,
                ..found
            },
        }),
    }
}

fn parse<T: DeserializeOwned>(collection: &str, id: &str, body: &[u8]) -> Option<T> {
    let parsed = serde_json::from_slice(body);
    parsed
        .inspect_err(|error| tracing::error!(collection, id, %error, "a row cannot be read"))
        .ok()
}

fn to_bytes<T: Serialize>(row: &T) -> Bytes {
    serde_json::to_vec(row).expect("rows can be written").into()
}

/// The ids of labels, ordered.
pub(super) type Labels = BTreeSet<String>;

/// The counters of a mailbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Account {
    /// The newest history id.
    pub(super) history: u64,
    /// History up to this id is forgotten.
    pub(super) forgotten: u64,
    pub(super) messages: u64,
    pub(super) threads: u64,
    /// The number in the id of the last label that was made.
    pub(super) last_label: u64,
    pub(super) user_labels: u64,
}

impl Default for Account {
    fn default() -> Self {
        Self {
            history: 1,
            forgotten: 0,
            messages: 0,
            threads: 0,
            last_label: 0,
            user_labels: 0,
        }
    }
}

/// The fields of a message that lists show and searches compare. Texts are words with a blank
/// around each; see [`words_of`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) thread: String,
    pub(super) labels: Labels,
    /// History id of the last change.
    pub(super) history: u64,
    /// History id of the event that added it.
    pub(super) arrival: u64,
    /// Milliseconds since the epoch.
    pub(super) date: u64,
    pub(super) size: u64,
    pub(super) snippet: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) draft: Option<String>,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) cc: String,
    pub(super) bcc: String,
    pub(super) subject: String,
    pub(super) files: String,
    pub(super) list: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) message_id: Option<String>,
    pub(super) has_attachment: bool,
}

impl Entry {
    pub(super) fn has(&self, label: &str) -> bool {
        self.labels.contains(label)
    }

    /// The length of its texts in bytes.
    pub(super) fn text_len(&self) -> usize {
        let labels = self.labels.iter().map(String::len).sum::<usize>();
        let id = self.message_id.as_ref().map_or(0, String::len);
        let texts = [
            &self.from,
            &self.to,
            &self.cc,
            &self.bcc,
            &self.subject,
            &self.files,
            &self.list,
            &self.snippet,
        ];
        texts.iter().map(|text| text.len()).sum::<usize>() + labels + id
    }

    pub(super) fn key(&self) -> Key {
        Key::new(self.date, self.arrival)
    }
}

/// Id of the row of an [`Entry`]. Keys ascend from the newest message to the oldest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Key(String);

impl Key {
    pub(super) fn new(date: u64, arrival: u64) -> Self {
        Self(format!(
            "{:016x}{:016x}",
            u64::MAX - date,
            u64::MAX - arrival
        ))
    }

    /// Reads a key from a page token.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| Self(text.to_owned()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Key of the entry of a message.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct EntryRef {
    pub(super) key: Key,
}

/// The immutable part of a message.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Content {
    pub(super) composition: Composition,
    pub(super) structure: Structure,
}

/// Words of the message text, which searches read if the entry does not decide.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Text {
    pub(super) words: String,
}

/// A thread, its messages from the oldest to the newest.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Thread {
    /// Subject without reply prefixes; see [`super::filing::base_subject`].
    pub(super) subject: String,
    pub(super) history: u64,
    pub(super) messages: Vec<Member>,
}

/// A message of a thread.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Member {
    pub(super) id: String,
    pub(super) key: Key,
    pub(super) labels: Labels,
}

/// A message that later messages may name as the one they answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ReplyTarget {
    pub(super) message: String,
    pub(super) thread: String,
}

/// A user label, or the counters of a system label.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Label {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) in_messages: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) in_labels: Option<String>,
    /// Background and text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) color: Option<(String, String)>,
    #[serde(default)]
    pub(super) counts: Counts,
}

/// Counters of the messages and threads with a label.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counts {
    pub(super) messages: i64,
    pub(super) unread: i64,
    pub(super) threads: i64,
    pub(super) threads_unread: i64,
}

/// The label that has a name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LabelName {
    pub(super) label: String,
}

/// A draft.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Draft {
    pub(super) message: String,
    pub(super) key: Key,
}

/// A change of a message.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Event {
    pub(super) what: EventKind,
    pub(super) message: String,
    pub(super) thread: String,
    /// The labels of the message afterwards.
    pub(super) labels: Labels,
    /// The labels that were added or removed.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub(super) changed: Labels,
    /// Milliseconds since the epoch.
    pub(super) at: u64,
}

/// Kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum EventKind {
    MessageAdded,
    MessageDeleted,
    LabelAdded,
    LabelRemoved,
}

/// Returns the row id for a `Message-ID`: a hash, since the value may be long and hold any
/// characters.
pub(super) fn message_id_row(message_id: &str) -> String {
    let hash: [u8; 32] = Sha256::digest(message_id.as_bytes()).into();
    let (first, _) = hash.split_at(16);
    let first = first.try_into().expect("it was split there");
    format!("{:032x}", u128::from_be_bytes(first))
}

/// Returns the words of texts with a blank around each, cut at [`MAX_FIELD_LEN`] bytes.
pub(super) fn words_of<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let mut all = String::new();
    for word in texts.into_iter().flat_map(words) {
        if all.len() + word.len() > MAX_FIELD_LEN {
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
