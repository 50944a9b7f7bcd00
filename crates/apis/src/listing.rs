//! Lists of a collection in the order of names: in pages, with prefixes in place of folders.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use windlass_rest::handler::{Call, Rejection, ReplyMemoryPermit, StoreReader};
use windlass_store::Resource;

/// A page ends when its items have this many bytes together in the ledger.
pub(crate) const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of rows that a call reads.
const PAGE_ROWS: usize = 10_000;

/// Maximum number of bytes of rows that a call reads, including rows that the page does not show.
const READ_BYTES: usize = 4 * PAGE_BYTES;

/// How many rows are read from the ledger at a time.
const BATCH: usize = 64;

/// Which names of a collection a list shows, and which of them as one prefix.
pub(crate) struct NameFilter<'a> {
    /// Maximum number of rows and prefixes of a page.
    pub(crate) size: usize,
    pub(crate) prefix: &'a str,
    /// Names that have it after the prefix are shown as one prefix. Empty for none.
    pub(crate) delimiter: &'a str,
    /// First name that is excluded; empty for none.
    pub(crate) end: &'a str,
    /// Whether a row with a name that ends in the delimiter is shown in addition to its prefix.
    pub(crate) trailing: bool,
    /// Returns whether a name is left out because clients cannot name it. Prefixes are also
    /// checked, without the delimiter at their end.
    pub(crate) is_left_out: fn(&str) -> bool,
}

/// A page of a list.
#[derive(Default)]
pub(crate) struct Page {
    pub(crate) rows: Vec<Resource>,
    pub(crate) prefixes: Vec<String>,
    /// Where the next page begins, if there is one.
    pub(crate) next: Option<Cursor>,
    bytes: usize,
}

impl NameFilter<'_> {
    /// Reads a page. Its rows are counted in `reply_memory`.
    pub(crate) async fn page(
        &self,
        mut rows: Rows<'_>,
        reply_memory: &ReplyMemoryPermit,
    ) -> Result<Page, Rejection> {
        let mut page = Page::default();
        let mut looked_at = 0_usize;
        loop {
            let here = rows.cursor().clone();
            let Some(row) = rows.next().await?.filter(|row| self.shows(&row.id)) else {
                return Ok(page);
            };
            let is_full = page.len() >= self.size || page.bytes > PAGE_BYTES;
            // With one at least, so that the next page begins elsewhere.
            if is_full || (looked_at > 0 && rows.is_enough()) {
                page.next = Some(here);
                return Ok(page);
            }
            looked_at += 1;
            match self.folded(&row.id).map(str::to_owned) {
                None if (self.is_left_out)(&row.id) => {}
                None => {
                    reply_memory.hold_row(&row.body)?;
                    page.take(row);
                }
                Some(prefix) => {
                    if self.trailing && row.id == prefix {
                        reply_memory.hold_row(&row.body)?;
                        page.take(row);
                    }
                    let after = Cursor::after_prefix(&prefix);
                    let folder = prefix.strip_suffix(self.delimiter);
                    if !folder.is_some_and(self.is_left_out) {
                        page.prefixes.push(prefix);
                    }
                    match after {
                        Some(cursor) => rows.skip_to(cursor),
                        None => return Ok(page),
                    }
                }
            }
        }
    }

    /// The rows begin within the prefix, so the first one without it follows all of them.
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
        self.rows.len() + self.prefixes.len()
    }

    fn take(&mut self, row: Resource) {
        self.bytes += row.body.len();
        self.rows.push(row);
    }
}

/// A position in the order of names: before the first name that is not less than this text.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cursor(String);

impl Cursor {
    /// Returns the position before this name.
    pub(crate) fn before(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// Returns the position after this name: before the least greater one.
    pub(crate) fn after(name: &str) -> Self {
        Self(format!("{name}\0"))
    }

    /// Returns the position after all names that begin with this text; `None` if no name can
    /// follow.
    pub(crate) fn after_prefix(prefix: &str) -> Option<Self> {
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
    pub(crate) fn from_token(call: &Call<'_>) -> Result<Self, Rejection> {
        let token = call.query.first("pageToken").unwrap_or_default();
        let bytes = URL_SAFE_NO_PAD.decode(token).ok();
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        text.map(Self).ok_or_else(|| Rejection::InvalidParameter {
            parameter: "pageToken".to_owned(),
            problem: "is not a token of this list".to_owned(),
        })
    }

    /// Returns the page token of this position.
    pub(crate) fn to_token(&self) -> String {
        URL_SAFE_NO_PAD.encode(&self.0)
    }
}

/// Returns the next character in the order of UTF-8 bytes.
fn following(c: char) -> Option<char> {
    (u32::from(c) + 1..=u32::from(char::MAX)).find_map(char::from_u32)
}

/// The rows of a collection from a position on, read from the ledger in batches.
pub(crate) struct Rows<'a> {
    lookup: StoreReader<'a>,
    collection: String,
    cursor: Cursor,
    batch: std::vec::IntoIter<Resource>,
    looked_at: usize,
    bytes: usize,
    ended: bool,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(call: &Call<'a>, collection: String, cursor: Cursor) -> Self {
        Self {
            lookup: call.lookup,
            collection,
            cursor,
            batch: Vec::new().into_iter(),
            looked_at: 0,
            bytes: 0,
            ended: false,
        }
    }

    /// Returns the position of the next row.
    pub(crate) fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// Whether as much was read as one call may read.
    pub(crate) fn is_enough(&self) -> bool {
        self.looked_at > PAGE_ROWS || self.bytes > READ_BYTES
    }

    /// Returns the next row.
    pub(crate) async fn next(&mut self) -> Result<Option<Resource>, Rejection> {
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
    pub(crate) fn skip_to(&mut self, cursor: Cursor) {
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
        self.bytes += rows.iter().map(|row| row.body.len()).sum::<usize>();
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
