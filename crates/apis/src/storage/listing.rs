//! `objects.list`: objects in the order of names, in pages, with prefixes instead of folders.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use windlass_server::handler::{Answer, Call, Rejection, ReplyMemoryPermit, StoreReader};
use windlass_store::Resource;

use super::bucket::Bucket;
use super::object::{Object, collection};

/// Maximum and default number of items of a page.
const LARGEST_PAGE: usize = 1000;

/// A page ends when its items have this many bytes together in the ledger.
pub(super) const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of rows that a call reads.
pub(super) const PAGE_ROWS: usize = 10_000;

/// How many rows are read from the ledger at a time.
const BATCH: usize = 64;

/// Lists a bucket.
pub(super) async fn list(call: &Call<'_>) -> Result<Answer, Rejection> {
    refuse_unknown(call)?;
    let bucket = Bucket::find(call, call.path.value("bucket").unwrap_or_default()).await?;
    let query = ListQuery::parse(call)?;
    let page = if query.only_deleted {
        Page::default()
    } else {
        let rows = Rows::new(call, collection(bucket.name()), query.start.clone());
        query.page(rows).await?
    };
    Ok(Answer {
        changes: Vec::new(),
        body: Some(page.show(call.base_url).into()),
        ..Answer::default()
    })
}

/// Refuses unsupported filters: ignoring one would list objects that it excludes.
fn refuse_unknown(call: &Call<'_>) -> Result<(), Rejection> {
    let given = |name: &&str| call.query.first(name).is_some_and(|it| !it.is_empty());
    match ["matchGlob", "filter"].into_iter().find(given) {
        None => Ok(()),
        Some(parameter) => Err(Rejection::InvalidParameter {
            parameter: parameter.to_owned(),
            problem: "is not supported by this server".to_owned(),
        }),
    }
}

/// Parameters of a list.
struct ListQuery<'a> {
    reply_memory: &'a ReplyMemoryPermit,
    size: usize,
    prefix: &'a str,
    /// Empty for none.
    delimiter: &'a str,
    /// Position of the first item.
    start: Cursor,
    /// First name that is excluded; empty for none.
    end: &'a str,
    /// Whether an object whose name ends in the delimiter is listed in addition to its prefix.
    trailing: bool,
    /// Whether only soft-deleted objects are listed, of which there are none.
    only_deleted: bool,
}

/// A page of a list.
#[derive(Default)]
struct Page {
    objects: Vec<Object>,
    prefixes: Vec<String>,
    bytes: usize,
    next: Option<Cursor>,
}

impl<'a> ListQuery<'a> {
    fn parse(call: &Call<'a>) -> Result<Self, Rejection> {
        let text = |name| call.query.first(name).unwrap_or_default();
        let flag = |name| text(name) == "1" || text(name).eq_ignore_ascii_case("true");
        let prefix = text("prefix");
        let start = Cursor::from_token(call)?
            .max(Cursor::before(prefix))
            .max(Cursor::before(text("startOffset")));
        Ok(Self {
            reply_memory: call.reply_memory,
            size: page_size(call)?,
            prefix,
            delimiter: text("delimiter"),
            start,
            end: text("endOffset"),
            trailing: flag("includeTrailingDelimiter"),
            only_deleted: flag("softDeleted"),
        })
    }

    async fn page(&self, mut rows: Rows<'_>) -> Result<Page, Rejection> {
        let mut page = Page::default();
        loop {
            let here = rows.cursor().clone();
            let Some(row) = rows.next().await?.filter(|row| self.shows(&row.id)) else {
                return Ok(page);
            };
            if page.len() >= self.size || page.bytes > PAGE_BYTES || rows.looked_at() > PAGE_ROWS {
                page.next = Some(here);
                return Ok(page);
            }
            match self.folded(&row.id).map(str::to_owned) {
                None => {
                    self.reply_memory.hold_row(&row.body)?;
                    page.take(row);
                }
                Some(prefix) => {
                    if self.trailing && row.id == prefix {
                        self.reply_memory.hold_row(&row.body)?;
                        page.take(row);
                    }
                    let after = Cursor::after_prefix(&prefix);
                    page.prefixes.push(prefix);
                    match after {
                        Some(cursor) => rows.skip_to(cursor),
                        None => return Ok(page),
                    }
                }
            }
        }
    }

    /// Returns the rows begin within the prefix, so the first one without it follows all of them.
    fn shows(&self, name: &str) -> bool {
        name.starts_with(self.prefix) && (self.end.is_empty() || name < self.end)
    }

    /// Returns the prefix that stands for the name.
    fn folded<'b>(&self, name: &'b str) -> Option<&'b str> {
        if self.delimiter.is_empty() {
            return None;
        }
        let rest = &name[self.prefix.len()..];
        let at = rest.find(self.delimiter)?;
        Some(&name[..self.prefix.len() + at + self.delimiter.len()])
    }
}

impl Page {
    fn len(&self) -> usize {
        self.objects.len() + self.prefixes.len()
    }

    fn take(&mut self, row: Resource) {
        self.bytes += row.body.len();
        self.objects.push(Object::read(row));
    }

    fn show(self, base_url: &str) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("kind".into(), "storage#objects".into());
        if let Some(next) = self.next {
            body.insert("nextPageToken".into(), next.to_token().into());
        }
        if !self.prefixes.is_empty() {
            body.insert("prefixes".into(), self.prefixes.into());
        }
        let items = self
            .objects
            .iter()
            .map(|object| Value::Object(object.show(base_url)));
        body.insert("items".into(), items.collect());
        body
    }
}

/// Returns the number of items of a page.
pub(super) fn page_size(call: &Call<'_>) -> Result<usize, Rejection> {
    let Some(text) = call.query.first("maxResults").filter(|it| !it.is_empty()) else {
        return Ok(LARGEST_PAGE);
    };
    match text.parse::<usize>() {
        // In the service 0 means the default.
        Ok(0) => Ok(LARGEST_PAGE),
        Ok(size) => Ok(size.min(LARGEST_PAGE)),
        Err(_) => Err(Rejection::InvalidParameter {
            parameter: "maxResults".to_owned(),
            problem: "must be a number that is not negative".to_owned(),
        }),
    }
}

/// A position in the order of names: before the first name that is not less than this text.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cursor(String);

impl Cursor {
    /// Returns the position before this name.
    pub(super) fn before(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// Returns the position after this name: before the least greater one.
    pub(super) fn after(name: &str) -> Self {
        Self(format!("{name}\0"))
    }

    /// Returns the position after all names that begin with this text; `None` if no name can
    /// follow.
    pub(super) fn after_prefix(prefix: &str) -> Option<Self> {
        let mut start = prefix.to_owned();
        while let Some(last) = start.pop() {
            if let Some(next) = following(last) {
                start.push(next);
                return Some(Self(start));
            }
        }
        None
    }

    /// Reads the position of the page token.
    pub(super) fn from_token(call: &Call<'_>) -> Result<Self, Rejection> {
        let token = call.query.first("pageToken").unwrap_or_default();
        let bytes = URL_SAFE_NO_PAD.decode(token).ok();
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        text.map(Self).ok_or_else(|| Rejection::InvalidParameter {
            parameter: "pageToken".to_owned(),
            problem: "is not a token of this list".to_owned(),
        })
    }

    /// Returns the page token of this position.
    pub(super) fn to_token(&self) -> String {
        URL_SAFE_NO_PAD.encode(&self.0)
    }
}

/// Returns the next character in the order of UTF-8 bytes.
fn following(c: char) -> Option<char> {
    (u32::from(c) + 1..=u32::from(char::MAX)).find_map(char::from_u32)
}

/// The rows of a collection from a position on, read from the ledger in batches.
pub(super) struct Rows<'a> {
    lookup: StoreReader<'a>,
    collection: String,
    cursor: Cursor,
    batch: std::vec::IntoIter<Resource>,
    looked_at: usize,
    ended: bool,
}

impl<'a> Rows<'a> {
    pub(super) fn new(call: &Call<'a>, collection: String, cursor: Cursor) -> Self {
        Self {
            lookup: call.lookup,
            collection,
            cursor,
            batch: Vec::new().into_iter(),
            looked_at: 0,
            ended: false,
        }
    }

    /// Returns the position of the next row.
    pub(super) fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// Returns the number of rows that were read.
    pub(super) fn looked_at(&self) -> usize {
        self.looked_at
    }

    /// Returns the next row.
    pub(super) async fn next(&mut self) -> Result<Option<Resource>, Rejection> {
        if self.batch.as_slice().is_empty() {
            self.fetch().await?;
        }
        let row = self.batch.next();
        if let Some(row) = &row {
            self.cursor = Cursor::after(&row.id);
        }
        Ok(row)
    }

    /// Continues at a later position.
    pub(super) fn skip_to(&mut self, cursor: Cursor) {
        let before = |row: &Resource| row.id < cursor.0;
        while self.batch.as_slice().first().is_some_and(before) {
            self.batch.next();
        }
        self.cursor = cursor;
    }

    async fn fetch(&mut self) -> Result<(), Rejection> {
        if self.ended {
            return Ok(());
        }
        let start = self.cursor.0.as_str();
        // The ledger lists rows after an id, so the row with the id itself is read separately.
        let (first, after) = match start.strip_suffix('\0') {
            Some(after) => (None, Some(after)),
            None if start.is_empty() => (None, None),
            None => {
                let first = self.lookup.resource(&self.collection, start).await?;
                (first, Some(start))
            }
        };
        let batch = self.lookup.resources(&self.collection, after, BATCH);
        let batch = batch.await?;
        self.ended = batch.len() < BATCH;
        let rows: Vec<_> = first.into_iter().chain(batch).collect();
        self.looked_at += rows.len();
        self.batch = rows.into_iter();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_after_prefix_is_before_the_first_name_without_it() {
        let table = [
            ("a/", Some("a0")),
            ("a", Some("b")),
            ("é", Some("ê")),
            ("\u{d7ff}", Some("\u{e000}")),
            ("a\u{10ffff}", Some("b")),
            ("\u{10ffff}", None),
            ("", None),
        ];
        for (prefix, expected) in table {
            assert_eq!(
                Cursor::after_prefix(prefix),
                expected.map(Cursor::before),
                "{prefix:?}"
            );
        }
    }
}
