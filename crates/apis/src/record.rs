//! Resources of the ledger with a JSON object as body: reading, writing, timestamps.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};
use windlass_rest::handler::{Call, Rejection, first_version};
use windlass_store::{Media, Resource, ResourceChange, Timestamp};

use crate::page_token;

/// The fields of a resource.
pub(crate) type Fields = Map<String, Value>;

/// Returns the fields that a resource was stored with.
pub(crate) fn fields_of(resource: &Resource) -> Fields {
    serde_json::from_slice(&resource.body).unwrap_or_default()
}

/// Returns a field that is a string.
pub(crate) fn text<'a>(fields: &'a Fields, name: &str) -> Option<&'a str> {
    fields.get(name).and_then(Value::as_str)
}

/// Returns an existing resource.
pub(crate) async fn found(
    call: &Call<'_>,
    what: &str,
    collection: &str,
    id: &str,
) -> Result<Resource, Rejection> {
    let found = call.lookup.resource(collection, id).await?;
    found.ok_or_else(|| Rejection::NotFound {
        what: what.to_owned(),
        id: id.to_owned(),
    })
}

/// Writes the items of a list. An empty list has no field, as in the JSON of Protocol Buffers and
/// in the replies of Cloud Storage: clients that are tested against an empty array break at the
/// services. Drive and YouTube do write one.
pub(crate) fn set_list(body: &mut Fields, field: &str, items: Vec<Value>) {
    if !items.is_empty() {
        body.insert(field.to_owned(), items.into());
    }
}

/// Rows of a collection, and the token of the next page.
pub(crate) struct Page {
    pub(crate) rows: Vec<Resource>,
    pub(crate) next: Option<String>,
}

/// Maximum number of rows on a page of [`page`].
const MAX_ROWS: usize = 100;

/// Returns the page of a collection, in the order of ids, that `pageSize` and `pageToken` ask for.
pub(crate) async fn page(
    call: &Call<'_>,
    collection: &str,
    default_size: usize,
) -> Result<Page, Rejection> {
    let size = match call.query.first("pageSize") {
        None => Some(default_size),
        Some(size) => size.parse().ok(),
    };
    let size = size.filter(|size| (1..=MAX_ROWS).contains(size));
    let size = size.ok_or_else(|| Rejection::InvalidParameter {
        parameter: "pageSize".to_owned(),
        problem: format!("must be between 1 and {MAX_ROWS}"),
    })?;
    let token = call.query.first("pageToken").filter(|it| !it.is_empty());
    let after = token.map(|token| {
        let position = page_token::read(collection, token);
        let refused = || Rejection::InvalidParameter {
            parameter: "pageToken".to_owned(),
            problem: "is not the nextPageToken of a page of this list".to_owned(),
        };
        position.and_then(|mut it| it.pop()).ok_or_else(refused)
    });
    let after = after.transpose()?;
    let mut rows = call
        .lookup
        .resources(collection, after.as_deref(), size + 1)
        .await?;
    let is_last = rows.len() <= size;
    rows.truncate(size);
    for row in &rows {
        call.reply_memory.hold_row(&row.body)?;
    }
    let last = rows.last().filter(|_| !is_last);
    Ok(Page {
        next: last.map(|last| page_token::write(collection, [last.id.clone()])),
        rows,
    })
}

/// Fields that a download shows in a header.
pub(crate) const HEADER_FIELDS: [(&str, HeaderName); 4] = [
    ("cacheControl", CACHE_CONTROL),
    ("contentDisposition", CONTENT_DISPOSITION),
    ("contentEncoding", CONTENT_ENCODING),
    ("contentLanguage", CONTENT_LANGUAGE),
];

/// Returns the headers of a download that show fields. Invalid header values were refused when they
/// were written.
pub(crate) fn header_fields(fields: &Fields) -> HeaderMap {
    let shown = HEADER_FIELDS.into_iter().filter_map(|(field, header)| {
        let value = text(fields, field).filter(|value| !value.is_empty())?;
        Some((header, HeaderValue::from_str(value).ok()?))
    });
    shown.collect()
}

/// Type of media of unknown type.
pub(crate) const OCTET_STREAM: &str = "application/octet-stream";

/// Returns the media with another type; an empty one means unknown.
pub(crate) fn retyped(media: Media, content_type: Option<String>) -> Media {
    match content_type {
        None => media,
        Some(none) if none.is_empty() => Media {
            content_type: OCTET_STREAM.to_owned(),
            ..media
        },
        Some(content_type) => Media {
            content_type,
            ..media
        },
    }
}

/// Returns a new resource.
pub(crate) fn new(
    call: &Call<'_>,
    collection: impl Into<String>,
    id: impl Into<String>,
    fields: &Fields,
    media: Option<Media>,
) -> Resource {
    Resource {
        collection: collection.into(),
        id: id.into(),
        version: first_version(),
        body: to_bytes(fields),
        media,
        created: call.now,
        updated: call.now,
        due: None,
        claimed_by: None,
        owner: None,
    }
}

/// Returns the next version of a resource. Without `media` it keeps its media.
pub(crate) fn next(
    call: &Call<'_>,
    old: Resource,
    fields: &Fields,
    media: Option<Media>,
) -> Resource {
    Resource {
        version: old.version + 1,
        body: to_bytes(fields),
        media: media.or(old.media),
        updated: call.now,
        due: None,
        claimed_by: None,
        ..old
    }
}

/// Returns the change that replaces the previous version by this one.
pub(crate) fn replacing(resource: Resource) -> ResourceChange {
    ResourceChange::Replace {
        expected: resource.version - 1,
        resource,
    }
}

/// Returns the change that deletes a resource.
pub(crate) fn removing(resource: &Resource) -> ResourceChange {
    ResourceChange::Delete {
        collection: resource.collection.clone(),
        id: resource.id.clone(),
        expected: resource.version,
    }
}

/// Returns the entity tag of a version of a resource, quotes included.
pub(crate) fn etag(resource: &Resource) -> String {
    format!("\"v{}\"", resource.version)
}

/// Formats a timestamp in UTC, with milliseconds.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX);
    written(time)
}

/// Normalizes a client's timestamp to the form of [`rfc3339`], in which timestamps compare as
/// texts. One without an offset is in UTC.
pub(crate) fn normal_time(text: &str) -> Option<String> {
    let absolute = text.parse::<jiff::Timestamp>().ok();
    let time = absolute.or_else(|| {
        let civil: jiff::civil::DateTime = text.parse().ok()?;
        let zoned = civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
        Some(zoned.timestamp())
    })?;
    // Earlier years are written with a sign, which would break the order of texts.
    (time.as_millisecond() >= EPOCH_OF_YEAR_0).then(|| written(time))
}

/// Midnight of 1 January of the year 0, in milliseconds.
const EPOCH_OF_YEAR_0: i64 = -62_167_219_200_000;

fn written(time: jiff::Timestamp) -> String {
    format!("{time:.3}")
}

fn to_bytes(fields: &Fields) -> Bytes {
    serde_json::to_vec(fields)
        .expect("JSON can be written")
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_normalized_to_utc() {
        let table = [
            ("2026-11-21T10:00:00Z", Some("2026-11-21T10:00:00.000Z")),
            (
                "2026-11-21T10:00:00.5+02:00",
                Some("2026-11-21T08:00:00.500Z"),
            ),
            ("2026-11-21T10:00:00", Some("2026-11-21T10:00:00.000Z")),
            ("2026-11-21", Some("2026-11-21T00:00:00.000Z")),
            ("0000-01-01T00:00:00Z", Some("0000-01-01T00:00:00.000Z")),
            ("-000001-01-01T00:00:00Z", None),
            ("yesterday", None),
            ("", None),
        ];
        for (given, expected) in table {
            assert_eq!(normal_time(given).as_deref(), expected, "{given}");
        }
        assert_eq!(
            rfc3339(Timestamp::from_millis(1)),
            "1970-01-01T00:00:00.001Z"
        );
    }
}
