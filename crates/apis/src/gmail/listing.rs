//! Lists of messages and threads, newest first, through a filter.
//!
//! A call reads a bounded number of entries. If they do not fill the page, it returns a shorter
//! page and a token to continue.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use windlass_rest::handler::{Answer, FETCHED_AT_ONCE, Rejection, ReplyMemoryPermit, SearchedRows};

use super::invalid_parameter;
use super::mailbox::{self, Mailbox};
use super::query::Query;
use super::request::{Request, body_of, check_labels};
use super::rows::{Entry, Key, Labels, Thread};
use crate::effort::Effort;

/// Maximum number of entries that a call reads.
const BUDGET: u64 = 10_000;

/// Cost of reading the text of a message, in entries.
const TEXT_COST: usize = 10;

/// Number of bytes that are compared for the cost of one entry. Each test of a query may compare a
/// whole entry.
const COMPARED: usize = 16 * 1024;

/// The cost after which the call yields to other tasks.
const COST_AT_ONCE: u64 = 100;

/// Number of entries that are read from the ledger at a time.
const BATCH: usize = 100;

/// The effort of a call that lists messages or drafts.
pub(super) fn effort() -> Effort {
    Effort::new(BUDGET, COST_AT_ONCE)
}

/// Which messages are listed.
#[derive(Debug)]
pub(super) struct Filter {
    labels: Labels,
    query: Query,
    /// Whether messages in spam and trash are included.
    everywhere: bool,
}

impl Filter {
    pub(super) async fn from_request(
        request: &Request<'_>,
        mailbox: &mut Mailbox<'_, '_>,
    ) -> Result<Self, Rejection> {
        let labels = request.parameters("labelIds")?;
        let labels: Labels = labels.into_iter().map(str::to_owned).collect();
        check_labels(mailbox, &labels, |_| true).await?;
        let text = request.parameter("q").unwrap_or_default();
        let now = request.call.now.as_millis();
        let query = Query::parse(text, now, &request.address);
        let query = query.map_err(|error| invalid_parameter("q", &error.to_string()))?;
        let query = query.with_labels(mailbox).await?;
        let hidden = ["SPAM", "TRASH"];
        let everywhere = request.flag("includeSpamTrash")
            || hidden.iter().any(|&label| labels.contains(label))
            || query.includes_spam_and_trash();
        Ok(Self {
            labels,
            query,
            everywhere,
        })
    }

    /// Returns whether a message is listed, and counts the cost of that, in entries.
    pub(super) async fn matches(
        &self,
        mailbox: &Mailbox<'_, '_>,
        entry: &Entry,
        effort: &mut Effort,
    ) -> Result<bool, Rejection> {
        let verdict = self.matches_entry(entry);
        let compared = entry.text_len() * self.query.tests() / COMPARED;
        let cost = compared + verdict.map_or(TEXT_COST, |_| 1);
        effort.spend(cost as u64).await;
        if let Some(verdict) = verdict {
            return Ok(verdict);
        }
        let text = mailbox.peek_text(&entry.id).await?;
        Ok(self.query.matches(entry, Some(&text)).unwrap_or(false))
    }

    /// Returns whether a message is listed; `None` if that depends on its text.
    fn matches_entry(&self, entry: &Entry) -> Option<bool> {
        let is_hidden = !self.everywhere && (entry.has("SPAM") || entry.has("TRASH"));
        if is_hidden || !self.labels.is_subset(&entry.labels) {
            return Some(false);
        }
        self.query.matches(entry, None)
    }

    /// Returns the total number of listed messages, if a counter has it.
    async fn total(&self, mailbox: &mut Mailbox<'_, '_>) -> Result<Option<i64>, Rejection> {
        let mut labels = self.labels.iter();
        match (labels.next(), labels.next()) {
            _ if !self.query.is_empty() => Ok(None),
            (None, _) => Ok(i64::try_from(mailbox.account().await?.messages).ok()),
            (Some(label), None) => Ok(Some(mailbox::label_counts(mailbox, label).await?.messages)),
            _ => Ok(None),
        }
    }
}

/// `users.messages.list`
pub(super) async fn messages(request: &Request<'_>) -> Result<Answer, Rejection> {
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let filter = Filter::from_request(request, &mut mailbox).await?;
    let mut scan = Scan::from_request(request)?;
    let mut messages = Vec::new();
    while let Some(entry) = scan.next(&mailbox, &filter, messages.len()).await? {
        messages.push(json!({"id": entry.id, "threadId": entry.thread}));
    }
    let total = filter.total(&mut mailbox).await?;
    Ok(body_of(page("messages", messages, scan.token(), total)))
}

/// `users.threads.list`: a thread is listed at the position of its newest message that passes the
/// filter.
pub(super) async fn threads(request: &Request<'_>) -> Result<Answer, Rejection> {
    let mut rows = request.rows();
    let mut mailbox = Mailbox::open(&mut rows, &request.address);
    let filter = Filter::from_request(request, &mut mailbox).await?;
    let mut scan = Scan::from_request(request)?;
    let start = scan.at.clone();
    let mut seen = HashSet::new();
    let mut threads = Vec::new();
    while let Some(entry) = scan.next(&mailbox, &filter, threads.len()).await? {
        if !seen.insert(entry.thread.clone()) {
            continue;
        }
        let Some(thread) = mailbox.peek_thread(&entry.thread).await? else {
            continue;
        };
        let effort = &mut scan.effort;
        if !was_shown(&mailbox, &filter, &thread, start.as_ref(), effort).await? {
            threads.push(json!({
                "id": entry.thread,
                "snippet": entry.snippet,
                "historyId": thread.history.to_string(),
            }));
        }
    }
    Ok(body_of(page("threads", threads, scan.token(), None)))
}

/// Returns whether a thread was on an earlier page, which ended at `start`.
async fn was_shown(
    mailbox: &Mailbox<'_, '_>,
    filter: &Filter,
    thread: &Thread,
    start: Option<&Key>,
    effort: &mut Effort,
) -> Result<bool, Rejection> {
    let Some(start) = start else {
        return Ok(false);
    };
    let earlier = thread.messages.iter().map(|it| &it.key);
    let earlier: Vec<_> = earlier.filter(|key| *key <= start).collect();
    for keys in earlier.chunks(FETCHED_AT_ONCE) {
        let entries = mailbox.peek_entries(keys.iter().copied()).await?;
        for entry in entries.into_iter().flatten() {
            if filter.matches(mailbox, &entry, effort).await? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// A scan over the entries.
#[derive(Debug)]
struct Scan<'a> {
    reply_memory: &'a ReplyMemoryPermit,
    /// Key of the last entry that was read.
    at: Option<Key>,
    limit: usize,
    effort: Effort,
    /// Entries that are still to be checked, the next one last.
    batch: Vec<Entry>,
    /// Their memory.
    searched: Option<SearchedRows>,
    /// Whether the ledger may have more entries after the batch.
    more: bool,
    /// Whether the page was full or the budget used up before the last entry.
    cut: bool,
}

impl<'a> Scan<'a> {
    fn from_request(request: &Request<'a>) -> Result<Self, Rejection> {
        let token = request.parameter("pageToken").map(|token| {
            Key::parse(token)
                .ok_or_else(|| invalid_parameter("pageToken", "is not a token of this list"))
        });
        Ok(Self {
            reply_memory: request.call.reply_memory,
            at: token.transpose()?,
            limit: request.page_size()?,
            effort: effort(),
            batch: Vec::new(),
            searched: None,
            more: true,
            cut: false,
        })
    }

    /// Returns the next entry that passes the filter, unless the page is full with `listed` items.
    async fn next(
        &mut self,
        mailbox: &Mailbox<'_, '_>,
        filter: &Filter,
        listed: usize,
    ) -> Result<Option<Entry>, Rejection> {
        loop {
            if self.batch.is_empty() {
                self.fill(mailbox).await?;
            }
            self.cut = !self.batch.is_empty() && (listed == self.limit || self.effort.is_spent());
            if self.cut {
                return Ok(None);
            }
            let Some(entry) = self.batch.pop() else {
                return Ok(None);
            };
            self.at = Some(entry.key());
            if filter.matches(mailbox, &entry, &mut self.effort).await? {
                return Ok(Some(entry));
            }
        }
    }

    async fn fill(&mut self, mailbox: &Mailbox<'_, '_>) -> Result<(), Rejection> {
        if !self.more {
            return Ok(());
        }
        let collection = mailbox.collection("entries");
        let after = self.at.as_ref().map(Key::as_str);
        let found: Vec<(String, Entry)> = mailbox.rows.list(&collection, after, BATCH).await?;
        self.more = found.len() == BATCH;
        let bytes = found.iter().map(|(_, entry)| entry.text_len() as u64).sum();
        self.searched = Some(self.reply_memory.hold_while_searched(bytes)?);
        self.batch = found.into_iter().rev().map(|(_, entry)| entry).collect();
        Ok(())
    }

    /// Returns the token to continue with.
    fn token(&self) -> Option<String> {
        let at = self.at.as_ref().filter(|_| self.cut)?;
        Some(at.as_str().to_owned())
    }
}

/// Returns the JSON of a page.
pub(super) fn page(
    field: &str,
    items: Vec<Value>,
    token: Option<String>,
    total: Option<i64>,
) -> Value {
    let mut body = Map::new();
    let listed = items.len() + usize::from(token.is_some());
    if !items.is_empty() {
        body.insert(field.to_owned(), items.into());
    }
    let total = total.map_or_else(|| listed.into(), Value::from);
    if let Some(token) = token {
        body.insert("nextPageToken".to_owned(), token.into());
    }
    body.insert("resultSizeEstimate".to_owned(), total);
    body.into()
}
