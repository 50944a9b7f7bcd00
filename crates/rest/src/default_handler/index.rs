//! Indexes of collections: rows of the ledger with ids that sort like the values of fields.
//!
//! Each field of `filter_by` and each order of `order_by` has an index. Each pair of a field and an
//! order has one as well, so that a list filtered by equality comes in its order. An index is a
//! collection. Its rows are written with the resource, in the same change set. The id of a row
//! holds the values, cut to [`MAX_TEXT`] bytes, followed by the id of the resource, or by a part of a
//! very long id. The content of a row is the resource's id.
//!
//! Rows are hints: a list accepts a row only if the resource would have the same row now. Rows that
//! are left from an earlier description, or by a server with another one, are therefore harmless.
//! Which indexes have *all* their rows is in `index_record`.

use std::borrow::Cow;
use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::{Map, Value};
use windlass_digest::{Md5Sha256Hasher, Sha256, Wanted};
use windlass_discovery::CollectionSettings;
use windlass_discovery::settings::{IndexedField, SortOrder, ValueKind};
use windlass_store::{MAX_KEY_LEN, Resource, ResourceChange};

use super::fields::fields_of;
use super::filter::{Comparison, Condition, Scalar};
use crate::handler::{Call, Rejection};

/// Prefix of the names of collections that are indexes. No name of an API begins with a dot.
const PREFIX: &str = ".index";

/// Name of the collections with the records about indexes.
pub(super) const STATE: &str = ".index-state";

/// Version of all rows, which never change.
const VERSION: u64 = 1;

/// Number of bytes of a text by which resources are sorted. Longer texts with the same first bytes
/// are sorted by id.
const MAX_TEXT: usize = 64;

/// Maximum number of bytes of the collection and the id of a row. It leaves room for the namespace of
/// a principal. Longer ids of resources are [`shortened`]: the row is longer than its resource's key,
/// which may have the greatest length.
const MAX_ROW_KEY: usize = MAX_KEY_LEN - 512;

/// Number of hexadecimal digits of a SHA-256.
const HASH_LEN: usize = 64;

/// Follows a value in the id of a row. It sorts before all digits, so that a text comes before
/// longer texts that begin with it.
const END: char = '.';

/// Like [`END`], for indexes that sort the greatest value first.
const END_DESCENDING: char = '~';

/// Sorts after everything that can follow a value.
const LAST: char = '\u{7f}';

/// An index of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Index<'a> {
    equal: Option<&'a IndexedField>,
    order: Option<&'a SortOrder>,
}

/// The part of an index that a list reads.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Range {
    /// The ids of all rows in it are greater.
    pub(super) after: String,
    /// The ids of all rows in it are less.
    pub(super) end: String,
}

/// Whether a collection of the ledger holds index rows or records about indexes.
pub fn is_index(collection: &str) -> bool {
    // In a namespace, the name has a prefix. A client cannot choose an id that equals one of these
    // segments: the server chooses the ids of resources that contain collections.
    let mut parts = collection.split('/');
    parts.any(|part| part == PREFIX || part == STATE)
}

impl<'a> Index<'a> {
    /// The indexes of a collection.
    pub(super) fn of(settings: &'a CollectionSettings) -> Vec<Self> {
        let singles = settings.filters.iter().map(Some);
        let orders = || settings.orders.iter().map(Some).chain([None]);
        singles
            .chain([None])
            .flat_map(|equal| orders().map(move |order| Self { equal, order }))
            .filter(|index| index.equal.is_some() || index.order.is_some())
            .collect()
    }

    /// Returns the best index for a list. The index has the list's order. If the filter asks for
    /// equality, the index is limited to one value, otherwise to a range of values. `None` if the
    /// list contains all resources by id, filtered or not.
    pub(super) fn for_list(
        settings: &'a CollectionSettings,
        conditions: &[Condition],
        order: Option<&'a SortOrder>,
    ) -> Option<Self> {
        let with = |comparisons: &[Comparison]| {
            let bounds = |field: &&IndexedField| {
                let mut of_field = conditions.iter().filter(|it| it.field == **field);
                of_field.any(|it| comparisons.contains(&it.comparison))
            };
            settings.filters.iter().find(bounds)
        };
        let equal = with(&[Comparison::Equal]);
        // Rows of a range of values are not in the order of another field, so a range chooses the
        // index only without an order.
        if equal.is_some() || order.is_some() {
            return Some(Self { equal, order });
        }
        let equal = with(&[
            Comparison::Less,
            Comparison::AtMost,
            Comparison::Greater,
            Comparison::AtLeast,
        ]);
        equal.is_some().then_some(Self { equal, order })
    }

    /// The rows in which a list finds all resources that fulfil these conditions.
    pub(super) fn range(&self, conditions: &[Condition]) -> Range {
        let whole = Range {
            after: String::new(),
            end: LAST.to_string(),
        };
        let Some(field) = self.equal else {
            return whole.of_order(self.order, conditions);
        };
        let of_field = |it: &&Condition| it.field == *field && it.comparison == Comparison::Equal;
        let Some(equal) = conditions.iter().find(of_field) else {
            return whole.bounded(field, false, conditions);
        };
        let prefix = format!("{}{END}", digits(Some(&equal.value), false));
        let of_value = Range {
            end: format!("{prefix}{LAST}"),
            after: prefix,
        };
        of_value.of_order(self.order, conditions)
    }

    /// The name, which changes with the meaning of the rows.
    pub(super) fn name(&self) -> String {
        let mut name = String::new();
        if let Some(field) = self.equal {
            // With the kind of the values, because another kind has other digits for the same
            // value.
            let _ = write!(name, "{}:{}", field.name, letter(field.kind));
        }
        if let Some(order) = self.order {
            let _ = write!(name, ",{order}:{}", letter(order.field.kind));
        }
        name
    }

    /// The collection with the rows of the index of `collection`.
    pub(super) fn collection(&self, collection: &str) -> String {
        format!("{PREFIX}/{}/{collection}", self.name())
    }

    /// The id of a resource's row.
    pub(super) fn row_id(&self, resource: &Resource, fields: &Map<String, Value>) -> String {
        let value = |field| Scalar::of(resource, fields, field);
        let mut id = String::new();
        if let Some(field) = self.equal {
            id.push_str(&digits(value(field).as_ref(), false));
            id.push(END);
        }
        if let Some(order) = self.order {
            id.push_str(&digits(value(&order.field).as_ref(), order.descending));
            id.push(if order.descending {
                END_DESCENDING
            } else {
                END
            });
        }
        // The usual id is not measured: the name of the collection would be made for each row.
        if resource.id.len() <= HASH_LEN {
            id.push_str(&resource.id);
        } else {
            let taken = self.collection(&resource.collection).len() + id.len();
            id.push_str(&shortened(&resource.id, MAX_ROW_KEY.saturating_sub(taken)));
        }
        id
    }

    fn row(&self, (resource, fields): &Read<'_>) -> Resource {
        Resource {
            collection: self.collection(&resource.collection),
            id: self.row_id(resource, fields),
            version: VERSION,
            body: Bytes::copy_from_slice(resource.id.as_bytes()),
            media: None,
            created: resource.created,
            updated: resource.created,
            due: None,
            claimed_by: None,
            owner: None,
        }
    }

    /// The row before and after a change.
    fn rows(&self, old: Option<&Read<'_>>, new: Option<&Read<'_>>) -> Rows {
        Rows {
            before: old.map(|it| self.row(it)),
            after: new.map(|it| self.row(it)),
        }
    }
}

/// Returns an id that takes at most `room` bytes, or [`HASH_LEN`] bytes if there is less room: the id
/// itself if it fits, otherwise its beginning and its SHA-256.
fn shortened(id: &str, room: usize) -> Cow<'_, str> {
    if id.len() <= room {
        return Cow::Borrowed(id);
    }
    let mut hasher = Md5Sha256Hasher::new(Wanted {
        md5: false,
        sha256: true,
    });
    hasher.update(id.as_bytes());
    let (_, sha256) = hasher.finish();
    let hash = sha256.map(Sha256::to_hex).unwrap_or_default();
    let mut beginning = room.saturating_sub(HASH_LEN);
    while !id.is_char_boundary(beginning) {
        beginning -= 1;
    }
    Cow::Owned(format!("{}{hash}", &id[..beginning]))
}

/// The index row of a resource before and after a change.
struct Rows {
    before: Option<Resource>,
    after: Option<Resource>,
}

impl Rows {
    /// The rows that differ, and the row after the change in any case: rows from the time before
    /// the index may be missing, and others may be left.
    fn written(self) -> impl Iterator<Item = (Resource, bool)> {
        let Self { before, after } = self;
        let stays = before.as_ref().map(|row| &row.id) == after.as_ref().map(|row| &row.id);
        let before = before.filter(|_| !stays).map(|row| (row, false));
        before.into_iter().chain(after.map(|row| (row, true)))
    }
}

impl Range {
    fn of_order(self, order: Option<&SortOrder>, conditions: &[Condition]) -> Self {
        match order {
            Some(order) => self.bounded(&order.field, order.descending, conditions),
            None => self,
        }
    }

    /// Returns the part of the rows with a next value that may fulfil the conditions on a field.
    /// Bounds are cut like values, so the part may contain other rows as well.
    fn bounded(self, field: &IndexedField, descending: bool, conditions: &[Condition]) -> Self {
        let Self { after: prefix, end } = self;
        let mut bounded = Self {
            after: prefix.clone(),
            end,
        };
        for condition in conditions.iter().filter(|it| it.field == *field) {
            let bound = format!("{prefix}{}", digits(Some(&condition.value), descending));
            let (from_below, from_above) = match condition.comparison {
                Comparison::Equal => (true, true),
                Comparison::Greater | Comparison::AtLeast => (true, false),
                Comparison::Less | Comparison::AtMost => (false, true),
                Comparison::NotEqual => (false, false),
            };
            let (is_start, is_end) = if descending {
                (from_above, from_below)
            } else {
                (from_below, from_above)
            };
            if is_end {
                bounded.end = bounded.end.min(format!("{bound}{LAST}"));
            }
            if is_start {
                bounded.after = bounded.after.max(bound);
            }
        }
        bounded
    }
}

/// A resource with its fields, which are read once for all indexes.
type Read<'a> = (&'a Resource, Map<String, Value>);

fn read(resource: &Resource) -> Read<'_> {
    (resource, fields_of(resource))
}

/// Returns the changes to a collection's indexes when one of its resources is created, changed or
/// deleted.
pub(super) async fn changes(
    call: &Call<'_>,
    settings: Option<&CollectionSettings>,
    old: Option<&Resource>,
    new: Option<&Resource>,
) -> Result<Vec<ResourceChange>, Rejection> {
    let indexes = settings.map(Index::of).unwrap_or_default();
    let mut changes = Vec::new();
    if indexes.is_empty() {
        return Ok(changes);
    }
    // The parsed fields may take much memory and are dropped before the ledger is asked.
    let rows: Vec<_> = {
        let (old, new) = (old.map(read), new.map(read));
        let indexes = indexes.iter();
        indexes
            .map(|index| index.rows(old.as_ref(), new.as_ref()))
            .collect()
    };
    let rows: Vec<_> = rows.into_iter().flat_map(Rows::written).collect();
    let keys = rows.iter().map(|(row, _)| (&*row.collection, &*row.id));
    let keys: Vec<_> = keys.collect();
    let found = call.lookup.fetch_keys(&keys).await?;
    for ((row, is_after), found) in rows.into_iter().zip(found) {
        match (is_after, found) {
            (true, None) => changes.push(ResourceChange::Insert(row)),
            (false, Some(_)) => changes.push(ResourceChange::Delete {
                collection: row.collection,
                id: row.id,
                expected: VERSION,
            }),
            (true, Some(_)) | (false, None) => {}
        }
    }
    Ok(changes)
}

/// Returns the insertions of the missing rows of `resources`.
pub(super) async fn missing(
    call: &Call<'_>,
    index: &Index<'_>,
    resources: &[Resource],
) -> Result<Vec<ResourceChange>, Rejection> {
    let rows: Vec<_> = resources.iter().map(|it| index.row(&read(it))).collect();
    let keys = rows.iter().map(|row| (&*row.collection, &*row.id));
    let keys: Vec<_> = keys.collect();
    let found = call.lookup.fetch_keys(&keys).await?;
    let missing = rows.into_iter().zip(found);
    let missing = missing.filter(|(_, found)| found.is_none());
    Ok(missing
        .map(|(row, _)| ResourceChange::Insert(row))
        .collect())
}

fn letter(kind: ValueKind) -> char {
    match kind {
        ValueKind::Integer => 'i',
        ValueKind::Number => 'n',
        ValueKind::Boolean => 'b',
        ValueKind::Text => 't',
        ValueKind::Time => 'z',
    }
}

/// Returns hexadecimal digits that sort like the values, with absent values first.
fn digits(value: Option<&Scalar>, descending: bool) -> String {
    let mut bytes = vec![u8::from(value.is_some())];
    match value {
        Some(Scalar::Integer(number) | Scalar::Time(number)) => {
            // Inverting the sign bit sorts negative numbers first.
            let shifted = number.cast_unsigned() ^ (1 << 127);
            bytes.extend(shifted.to_be_bytes());
        }
        Some(Scalar::Number(number)) => bytes.extend(sortable(*number).to_be_bytes()),
        Some(Scalar::Boolean(flag)) => bytes.push(u8::from(*flag)),
        Some(Scalar::Text(text)) => bytes.extend(text.bytes().take(MAX_TEXT)),
        None => {}
    }
    let mut digits = String::new();
    for byte in bytes {
        let byte = if descending { !byte } else { byte };
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

/// Converts a float to bits that sort like the numbers. Both zeros have the same bits.
fn sortable(number: f64) -> u64 {
    let bits = if number == 0.0 { 0 } else { number.to_bits() };
    // The bits of negative numbers grow with their magnitude, so they are inverted.
    if bits >> 63 == 1 {
        !bits
    } else {
        bits | 1 << 63
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::ApiHandler;

    fn row(value: Option<&Scalar>, descending: bool) -> String {
        let end = if descending { END_DESCENDING } else { END };
        format!("{}{end}", digits(value, descending))
    }

    /// Any caller may cause them, also for the resources of others.
    #[test]
    fn rows_count_to_nobody() {
        let index = Index {
            equal: None,
            order: None,
        };
        let handler = crate::default_handler::DefaultHandler;
        assert!(!ApiHandler::counts(
            &handler,
            &index.collection("farm/animals")
        ));
        assert!(ApiHandler::counts(&handler, "farm/animals"));
    }

    #[test]
    fn row_of_a_long_id_has_a_part_of_it_and_its_hash() {
        assert_eq!(shortened("cow", 3), "cow");
        let long = "é".repeat(900);
        let cut = shortened(&long, 1_000);
        assert!((999..=1_000).contains(&cut.len()), "{}", cut.len());
        assert!(cut.starts_with(&"é".repeat(468)));
        let other = format!("{}e", "é".repeat(899));
        assert_ne!(cut, shortened(&other, 1_000), "the ends differ");
        assert_eq!(shortened(&long, 0).len(), HASH_LEN);
    }

    #[test]
    fn rows_sort_as_values_do_in_both_directions() {
        let text = |text: &str| Some(Scalar::Text(text.to_owned()));
        let number = |number| Some(Scalar::Number(number));
        let integer = |number| Some(Scalar::Integer(number));
        let flag = |flag| Some(Scalar::Boolean(flag));
        for values in [
            vec![
                None,
                text(""),
                text("a"),
                text("a "),
                text("ab"),
                text("b"),
                text("\u{e4}"),
            ],
            vec![
                None,
                number(-1e9),
                number(-0.5),
                number(0.0),
                number(1e-9),
                number(7.0),
            ],
            vec![
                None,
                integer(i128::from(i64::MIN)),
                integer(-1),
                integer(0),
                integer(256),
            ],
            vec![None, flag(false), flag(true)],
        ] {
            let ascending: Vec<_> = values.iter().map(|it| row(it.as_ref(), false)).collect();
            assert!(
                ascending.is_sorted_by(|a, b| a < b),
                "{values:?} {ascending:?}"
            );
            let descending: Vec<_> = values.iter().map(|it| row(it.as_ref(), true)).collect();
            assert!(
                descending.is_sorted_by(|a, b| a > b),
                "{values:?} {descending:?}"
            );
        }
        assert_eq!(
            digits(number(-0.0).as_ref(), false),
            digits(number(0.0).as_ref(), false)
        );
    }

    #[test]
    fn rows_are_told_from_resources() {
        for (collection, expected) in [
            ("album/album/v1/photos", false),
            (".owner/alice/album/album/v1/photos", false),
            (".index/rating:i/album/album/v1/photos", true),
            (".owner/alice/.index/rating:i/album/album/v1/photos", true),
            (".index-state/album/album/v1/photos", true),
            ("album/album/v1/photos/a.index/comments", false),
        ] {
            assert_eq!(is_index(collection), expected, "{collection}");
        }
    }
}
