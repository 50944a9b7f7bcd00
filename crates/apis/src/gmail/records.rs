//! The rows of a mailbox.
//!
//! | collection | id | row |
//! |---|---|---|
//! | `gmail/mailboxes` | address | [`Account`] |
//! | `gmail/{address}/entries` | [`Key`] | [`Entry`]: what lists and searches look at, newest first |
//! | `gmail/{address}/messages` | message | [`Pointer`] |
//! | `gmail/{address}/contents` | message | [`Content`], with the media; may be large |
//! | `gmail/{address}/texts` | message | [`Text`] |
//! | `gmail/{address}/threads` | thread | [`Thread`] |
//! | `gmail/{address}/message-ids` | hash of a `Message-ID` | [`Known`] |
//! | `gmail/{address}/labels` | label | [`Label`] |
//! | `gmail/{address}/label-names` | folded name | [`Named`] |
//! | `gmail/{address}/drafts` | draft, newest first | [`Draft`] |
//! | `gmail/{address}/history` | history id | [`Event`] |
//! | `gmail/outbox` | by time | `outbox::Outbound`, with the media |

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::composition::Composition;
use super::mime::Structure;

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

/// What is shown of a message in a list and what it is found by. Texts are words with a blank around
/// each; see [`words_of`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) thread: String,
    pub(super) labels: Labels,
    /// The event that changed it last.
    pub(super) history: u64,
    /// The event that it came with.
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

    pub(super) fn key(&self) -> Key {
        Key::new(self.date, self.arrival)
    }
}

/// Where an [`Entry`] is: keys ascend from the newest message to the oldest.
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

    /// A key that a client was given in a page token.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| Self(text.to_owned()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where the entry of a message is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Pointer {
    pub(super) key: Key,
}

/// What never changes of a message.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Content {
    pub(super) composition: Composition,
    pub(super) structure: Structure,
}

/// What a search for words looks through when the entry does not have them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Text {
    pub(super) words: String,
}

/// A thread, its messages from the oldest to the newest.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Thread {
    /// What the messages have in common; see [`super::thread::base_subject`].
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

/// A message that others may answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Known {
    pub(super) message: String,
    pub(super) thread: String,
}

/// A label: of the user, or the counters of one of the system.
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

/// How many messages and threads have a label.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counts {
    pub(super) messages: i64,
    pub(super) unread: i64,
    pub(super) threads: i64,
    pub(super) threads_unread: i64,
}

/// Whose name it is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Named {
    pub(super) label: String,
}

/// A draft.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Draft {
    pub(super) message: String,
    pub(super) key: Key,
}

/// Something that happened to a message.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Event {
    pub(super) what: What,
    pub(super) message: String,
    pub(super) thread: String,
    /// The labels of the message afterwards.
    pub(super) labels: Labels,
    /// Those that came or went.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub(super) changed: Labels,
    /// Milliseconds since the epoch.
    pub(super) at: u64,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum What {
    MessageAdded,
    MessageDeleted,
    LabelAdded,
    LabelRemoved,
}

/// The row of a `Message-ID`, which may be long and hold anything.
pub(super) fn message_id_row(message_id: &str) -> String {
    let hash: [u8; 32] = Sha256::digest(message_id.as_bytes()).into();
    let (first, _) = hash.split_at(16);
    let first = first.try_into().expect("it was split there");
    format!("{:032x}", u128::from_be_bytes(first))
}
