//! Searches of a message that is not in a mailbox, for a fuzz target.

use std::collections::BTreeSet;

use super::{Entry, Query, QueryError};
use crate::gmail::options::Address;
use crate::gmail::rows::words_of;

/// A search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GmailQuery(Query);

/// A message that is searched. It has system labels only, by their ids.
#[derive(Debug, Clone, Default)]
pub struct GmailMessage<'a> {
    /// Author.
    pub from: &'a str,
    /// Recipient.
    pub to: &'a str,
    /// Subject.
    pub subject: &'a str,
    /// Text; `None` while it has not been read.
    pub text: Option<&'a str>,
    /// Labels.
    pub labels: &'a [&'a str],
    /// Milliseconds since the epoch.
    pub date: u64,
    /// Size in bytes.
    pub size: u64,
}

impl GmailQuery {
    /// Parses a search; `None` if it is refused. `now` is in milliseconds since the epoch.
    pub fn parse(text: &str, now: u64) -> Option<Self> {
        Query::parse(text, now, &owner()).ok().map(Self)
    }

    /// Whether a text is no search because it is nested too deep.
    pub fn is_too_deep(text: &str) -> bool {
        Query::parse(text, 0, &owner()) == Err(QueryError::TooDeep)
    }

    /// Whether a text is no search because an operator in it does not take its value.
    pub fn is_refused_operator(text: &str) -> bool {
        matches!(
            Query::parse(text, 0, &owner()),
            Err(QueryError::Value { .. } | QueryError::Unsupported { .. } | QueryError::Around)
        )
    }

    /// Whether the search has no terms, so that each message matches.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it names spam or trash.
    pub fn includes_spam_and_trash(&self) -> bool {
        self.0.includes_spam_and_trash()
    }

    /// Whether a message matches; `None` if that depends on its text, which has not been read.
    pub fn matches(&self, message: &GmailMessage<'_>) -> Option<bool> {
        let text = message.text.map(|text| words_of([text]));
        self.0.matches(&entry(message), text.as_deref())
    }
}

fn owner() -> Address {
    "bob@example.com".parse().expect("it is an address")
}

fn entry(message: &GmailMessage<'_>) -> Entry {
    let labels: BTreeSet<_> = message.labels.iter().map(|it| (*it).to_owned()).collect();
    Entry {
        id: "1".to_owned(),
        thread: "1".to_owned(),
        labels,
        history: 1,
        arrival: 1,
        date: message.date,
        size: message.size,
        snippet: String::new(),
        draft: None,
        from: words_of([message.from]),
        to: words_of([message.to]),
        cc: String::new(),
        bcc: String::new(),
        subject: words_of([message.subject]),
        files: String::new(),
        list: String::new(),
        message_id: None,
        has_attachment: false,
    }
}
