//! `files.list`: the files that match a query, in order, in pages.
//!
//! A call reads a bounded number of files and returns a token to continue. An order other than the
//! order of ids requires reading all candidates for each page, so the number of candidates is
//! limited.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::{Value, json};
use thiserror::Error;
use windlass_rest::handler::{Answer, Call, FETCHED_AT_ONCE, Rejection, SearchedRows};
use windlass_store::Resource;

use super::file::{flag, is_folder, show};
use super::query::Query;
use super::refusals::invalid_value;
use super::scope;
use super::tree::{FILES, Trash, children};
use crate::effort::Effort;
use crate::page_token;
use crate::record::{Fields, fields_of, text};

/// Number of files of a page by default.
const DEFAULT_PAGE: usize = 100;

/// Maximum number of files of a page.
const MAX_PAGE: usize = 1000;

/// A page ends when its files have this many bytes together.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of files that a call reads.
const MAX_LOOKED_AT: usize = 10_000;

/// Maximum number of bytes of files that a call compares. A file's bytes count once for each term
/// of the query.
const MAX_COMPARED: u64 = 64 * 1024 * 1024;

/// Number of compared bytes after which the call yields to other tasks.
const COMPARED_AT_ONCE: u64 = 1024 * 1024;

/// How many files are read from the ledger at a time.
const BATCH: usize = 64;

/// Number of characters of a text that are compared.
const COMPARED: usize = 128;

/// Maximum number of keys that are read.
const MAX_KEYS: usize = 10;

/// Answers `files.list`.
pub(super) async fn list(call: &Call<'_>) -> Result<Answer, Rejection> {
    scope::check_list(call)?;
    let mut search = Search::from_call(call)?;
    let size = page_size(call)?;
    let list = list_of(call);
    let after = position(call, &list, &search.order)?;
    let page = if search.order.is_by_id() {
        search.by_id(after, size).await?
    } else {
        search.sorted(after.as_ref(), size).await?
    };
    let mut files = Vec::new();
    for file in &page.files {
        let trashed = search.trash.holds(call, &fields_of(file)).await?;
        files.push(Value::Object(show(call, file, trashed)));
    }
    let mut body = json!({"kind": "drive#fileList", "incompleteSearch": false});
    if let Some(next) = page.next {
        body["nextPageToken"] = page_token::write(&list, next.into_texts()).into();
    }
    body["files"] = files.into();
    Ok(super::shown(body))
}

/// Files, and the position to continue after.
#[derive(Default)]
struct Page {
    files: Vec<Resource>,
    bytes: usize,
    next: Option<Position>,
}

impl Page {
    fn is_full(&self, size: usize) -> bool {
        self.files.len() >= size || self.bytes > PAGE_BYTES
    }

    fn push(&mut self, file: Resource) {
        self.bytes += file.body.len();
        self.files.push(file);
    }
}

/// A running search.
struct Search<'a> {
    call: &'a Call<'a>,
    query: Query,
    order: Order,
    trash: Trash,
    /// In bytes that are compared.
    effort: Effort,
}

impl<'a> Search<'a> {
    fn from_call(call: &'a Call<'a>) -> Result<Self, Rejection> {
        let given = |name| call.query.first(name).unwrap_or_default();
        let query = Query::parse(given("q"));
        let order = Order::parse(given("orderBy"));
        Ok(Self {
            call,
            query: query.map_err(|error| invalid_value("q", error.to_string()))?,
            order: order.map_err(|error| invalid_value("orderBy", error.to_string()))?,
            trash: Trash::default(),
            effort: Effort::new(MAX_COMPARED, COMPARED_AT_ONCE),
        })
    }

    /// Returns the next page in the order of ids. Reads no more files than the page needs.
    async fn by_id(&mut self, after: Option<Position>, size: usize) -> Result<Page, Rejection> {
        let mut page = Page::default();
        let mut looked_at = 0;
        let mut after = after;
        loop {
            let candidates = self.candidates(after.as_ref()).await?;
            let _searched = self.hold(&candidates)?;
            if candidates.is_empty() {
                return Ok(page);
            }
            for candidate in candidates {
                let is_enough = looked_at == MAX_LOOKED_AT || self.effort.is_spent();
                if page.is_full(size) || is_enough {
                    page.next = after;
                    return Ok(page);
                }
                looked_at += 1;
                after = Some(by_id(candidate.id));
                if let Some(file) = candidate.file
                    && self.matches(&file, &fields_of(&file)).await?
                {
                    self.call.reply_memory.hold_row(&file.body)?;
                    page.push(file);
                }
            }
        }
    }

    /// Returns the next page in another order.
    async fn sorted(&mut self, after: Option<&Position>, size: usize) -> Result<Page, Rejection> {
        let mut first = BTreeSet::new();
        let mut looked_at = 0;
        let mut last: Option<Position> = None;
        loop {
            let candidates = self.candidates(last.as_ref()).await?;
            let _searched = self.hold(&candidates)?;
            let Some(end) = candidates.last() else { break };
            last = Some(by_id(end.id.clone()));
            looked_at += candidates.len();
            if looked_at > MAX_LOOKED_AT {
                return Err(too_many_to_sort());
            }
            for candidate in candidates {
                let Some(file) = candidate.file else {
                    continue;
                };
                if self.effort.is_spent() {
                    return Err(too_many_to_sort());
                }
                let fields = fields_of(&file);
                let position = self.order.position(&file, &fields);
                let is_left = after.is_none_or(|after| position > *after);
                if self.matches(&file, &fields).await? && is_left {
                    first.insert(position);
                }
                if first.len() > size + 1 {
                    first.pop_last();
                }
            }
        }
        self.fetch(first, size).await
    }

    async fn fetch(&self, positions: BTreeSet<Position>, size: usize) -> Result<Page, Rejection> {
        let mut page = Page::default();
        let mut last = None;
        let positions: Vec<_> = positions.into_iter().collect();
        for positions in positions.chunks(FETCHED_AT_ONCE) {
            let ids: Vec<_> = positions.iter().map(|position| &position.id[..]).collect();
            let files = self.call.lookup.fetch(FILES, &ids).await?;
            for (position, file) in positions.iter().zip(files) {
                if page.is_full(size) {
                    page.next = last;
                    return Ok(page);
                }
                // The file may have been deleted since its position was read.
                if let Some(file) = file {
                    self.call.reply_memory.hold_row(&file.body)?;
                    page.push(file);
                }
                last = Some(position.clone());
            }
        }
        Ok(page)
    }

    async fn matches(&mut self, file: &Resource, fields: &Fields) -> Result<bool, Rejection> {
        let compared = file.body.len() as u64 * self.query.terms();
        self.effort.spend(compared).await;
        let trashed = self.trash.holds(self.call, fields).await?;
        Ok(self.query.matches(fields, trashed))
    }

    /// Takes memory for the candidates that are read already.
    fn hold(&self, candidates: &[Candidate]) -> Result<SearchedRows, Rejection> {
        let files = candidates
            .iter()
            .filter_map(|candidate| candidate.file.as_ref());
        let bytes = files.map(|file| file.body.len() as u64);
        self.call.reply_memory.hold_while_searched(bytes.sum())
    }

    /// Returns the next batch of files that may match, in the order of ids. The files come from the
    /// folder that the query names, or otherwise from all files.
    async fn candidates(&self, after: Option<&Position>) -> Result<Vec<Candidate>, Rejection> {
        let after = after.map(|after| after.id.as_str());
        let lookup = &self.call.lookup;
        let Some(folder) = self.query.folder() else {
            let files = lookup.resources(FILES, after, BATCH).await?;
            let candidate = |file: Resource| Candidate {
                id: file.id.clone(),
                file: Some(file),
            };
            return Ok(files.into_iter().map(candidate).collect());
        };
        let rows = lookup.resources(&children(folder), after, BATCH).await?;
        let ids: Vec<_> = rows.iter().map(|row| &row.id[..]).collect();
        let files = lookup.fetch(FILES, &ids).await?;
        let candidates = rows.into_iter().zip(files);
        Ok(candidates
            .map(|(row, file)| Candidate { id: row.id, file })
            .collect())
    }
}

/// A file that may match.
struct Candidate {
    id: String,
    /// `None` if it was deleted after the index was read.
    file: Option<Resource>,
}

fn by_id(id: String) -> Position {
    let position = Order::default().position_of(vec![id]);
    position.expect("an id alone is a position in the order of ids")
}

fn too_many_to_sort() -> Rejection {
    let problem = format!(
        "takes at most {MAX_LOOKED_AT} files; search in one folder, with fewer terms, or without an order"
    );
    invalid_value("orderBy", problem)
}

/// Returns the part of a list's query that is the same on all its pages.
fn list_of(call: &Call<'_>) -> String {
    let given = |name| call.query.first(name).unwrap_or_default();
    format!("{}\n{}", given("orderBy"), given("q"))
}

fn page_size(call: &Call<'_>) -> Result<usize, Rejection> {
    let Some(text) = call.query.first("pageSize") else {
        return Ok(DEFAULT_PAGE);
    };
    let size = text.parse::<usize>().ok();
    let size = size.filter(|size| (1..=MAX_PAGE).contains(size));
    size.ok_or_else(|| Rejection::InvalidParameter {
        parameter: "pageSize".to_owned(),
        problem: format!("must be between 1 and {MAX_PAGE}"),
    })
}

fn position(call: &Call<'_>, list: &str, order: &Order) -> Result<Option<Position>, Rejection> {
    let token = call.query.first("pageToken").unwrap_or_default();
    if token.is_empty() {
        return Ok(None);
    }
    let position = page_token::read(list, token).and_then(|texts| order.position_of(texts));
    let problem = "it is not the nextPageToken of a page with the same q and orderBy";
    let refused = || invalid_value("pageToken", problem);
    position.map(Some).ok_or_else(refused)
}

/// Why an order cannot be read.
#[derive(Debug, PartialEq, Eq, Error)]
pub(super) enum OrderError {
    #[error("{name} is not a key to sort by")]
    UnknownKey { name: String },
    #[error("{word} is not desc")]
    UnknownDirection { word: String },
    #[error("there are more than {MAX_KEYS} keys")]
    TooManyKeys,
}

/// Sort keys, the most significant first. Ids decide between files that are equal otherwise.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    keys: Vec<(Key, Direction)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Created,
    Folder,
    Modified,
    Name,
    NaturalName,
    QuotaBytesUsed,
    Starred,
    Viewed,
    /// A key for which no file has a value here.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Ascending,
    Descending,
}

/// Position of a file in an [`Order`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Position {
    texts: Vec<(String, Direction)>,
    pub(super) id: String,
}

impl Order {
    /// Reads keys with commas between them; `desc` after a key reverses its order.
    pub(super) fn parse(text: &str) -> Result<Self, OrderError> {
        let keys = text.split(',').map(str::trim).filter(|it| !it.is_empty());
        let keys = keys.map(key).collect::<Result<Vec<_>, _>>()?;
        if keys.len() > MAX_KEYS {
            return Err(OrderError::TooManyKeys);
        }
        Ok(Self { keys })
    }

    /// Returns whether files are in the order of their ids.
    pub(super) fn is_by_id(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the position of a file.
    fn position(&self, file: &Resource, fields: &Fields) -> Position {
        let texts = self.keys.iter();
        let texts = texts.map(|(key, direction)| (key.text(file, fields), *direction));
        Position {
            texts: texts.collect(),
            id: file.id.clone(),
        }
    }

    /// Reads the position of a page token; `None` if the token belongs to another order.
    pub(super) fn position_of(&self, mut texts: Vec<String>) -> Option<Position> {
        let id = texts.pop()?;
        if texts.len() != self.keys.len() {
            return None;
        }
        let directions = self.keys.iter().map(|(_, direction)| *direction);
        Some(Position {
            texts: texts.into_iter().zip(directions).collect(),
            id,
        })
    }
}

impl Position {
    /// Returns the texts of a page token.
    pub(super) fn into_texts(self) -> Vec<String> {
        let texts = self.texts.into_iter().map(|(text, _)| text);
        texts.chain([self.id]).collect()
    }
}

impl Ord for Position {
    fn cmp(&self, other: &Self) -> Ordering {
        let pairs = self.texts.iter().zip(&other.texts);
        let compared = pairs.map(|((one, direction), (other, _))| match direction {
            Direction::Ascending => one.cmp(other),
            Direction::Descending => other.cmp(one),
        });
        compared
            .fold(Ordering::Equal, Ordering::then)
            .then_with(|| self.id.cmp(&other.id))
    }
}

impl PartialOrd for Position {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Key {
    fn text(self, file: &Resource, fields: &Fields) -> String {
        let field = |name| text(fields, name).unwrap_or_default().to_owned();
        // The first value in ascending order must be the smaller text.
        let first = |is_first: bool| if is_first { "0" } else { "1" }.to_owned();
        match self {
            Self::Created => field("createdTime"),
            Self::Modified => field("modifiedTime"),
            Self::Viewed => field("viewedByMeTime"),
            Self::Folder => first(is_folder(fields)),
            Self::Starred => first(flag(fields, "starred")),
            Self::Name => comparable(&field("name")),
            Self::NaturalName => natural(&comparable(&field("name"))),
            Self::QuotaBytesUsed => {
                let length = file.media.as_ref().map_or(0, |media| media.length);
                format!("{length:020}")
            }
            Self::Nothing => String::new(),
        }
    }
}

fn key(to_token: &str) -> Result<(Key, Direction), OrderError> {
    let (name, word) = to_token.split_once(' ').unwrap_or((to_token, "asc"));
    let direction = match word.trim() {
        "asc" => Direction::Ascending,
        "desc" => Direction::Descending,
        word => {
            let word = word.to_owned();
            return Err(OrderError::UnknownDirection { word });
        }
    };
    let key = match name {
        "createdTime" => Key::Created,
        "folder" => Key::Folder,
        // There is one user, so changes by me are all changes.
        "modifiedTime" | "modifiedByMeTime" | "recency" => Key::Modified,
        "name" => Key::Name,
        "name_natural" => Key::NaturalName,
        "quotaBytesUsed" => Key::QuotaBytesUsed,
        "starred" => Key::Starred,
        "viewedByMeTime" => Key::Viewed,
        "sharedWithMeTime" => Key::Nothing,
        name => {
            let name = name.to_owned();
            return Err(OrderError::UnknownKey { name });
        }
    };
    Ok((key, direction))
}

fn comparable(name: &str) -> String {
    name.to_lowercase().chars().take(COMPARED).collect()
}

/// Numbers as wide as the widest that fits, so that 9 comes before 10.
fn natural(name: &str) -> String {
    let mut text = String::new();
    let mut digits = String::new();
    for char in name.chars().chain(['\0']) {
        if char.is_ascii_digit() {
            digits.push(char);
            continue;
        }
        if !digits.is_empty() {
            let number = std::mem::take(&mut digits);
            text.extend([format!("{number:0>20}")]);
        }
        text.push(char);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sort_keys_are_separated_by_commas_and_followed_by_desc() {
        let order = Order::parse("folder, modifiedTime desc,name").unwrap();
        let keys = [
            (Key::Folder, Direction::Ascending),
            (Key::Modified, Direction::Descending),
            (Key::Name, Direction::Ascending),
        ];
        assert_eq!(order.keys, keys);
        assert!(Order::parse("").unwrap().is_by_id());
        let size = OrderError::UnknownKey {
            name: "size".into(),
        };
        assert_eq!(Order::parse("size"), Err(size));
        let down = OrderError::UnknownDirection {
            word: "down".into(),
        };
        assert_eq!(Order::parse("name down"), Err(down));
        let many = "name,".repeat(MAX_KEYS + 1);
        assert_eq!(Order::parse(&many), Err(OrderError::TooManyKeys));
    }

    #[test]
    fn natural_names_compare_numbers_and_plain_names_compare_characters() {
        let mut names = ["a10", "a9", "b1", "a", "a9b"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["a", "a9", "a9b", "a10", "b1"]);
        names.sort_by_key(|name| comparable(name));
        assert_eq!(names, ["a", "a10", "a9", "a9b", "b1"]);
    }

    #[test]
    fn position_round_trips_in_its_own_order_only() {
        let order = Order::parse("name desc,folder").unwrap();
        let texts = ["zoo", "0", "1abc"].map(str::to_owned).to_vec();
        let position = order.position_of(texts.clone()).unwrap();
        assert_eq!(position.clone().into_texts(), texts);
        let earlier = order.position_of(["zoos", "1", "1abc"].map(str::to_owned).to_vec());
        assert!(earlier.unwrap() < position);
        assert_eq!(Order::default().position_of(texts), None);
        assert_eq!(Order::default().position_of(vec![]), None);
    }
}
