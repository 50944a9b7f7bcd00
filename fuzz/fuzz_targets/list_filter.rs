//! A list with a filter and an order finds by its index all resources that belong to it, in its
//! order; and the parts of a filter hold where the whole does.
//!
//! The input is a filter, an order, and two resources as JSON, a line each.

#![no_main]

use std::cmp::Ordering;
use std::sync::LazyLock;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};
use windlass_discovery::{Api, CollectionSettings};
use windlass_fuzz::first_text_line;
use windlass_server::fuzzing::ListQuery;
use windlass_store::{Resource, Timestamp};

/// Number of bytes by which texts are sorted.
const SORTED: usize = 64;

/// Most comparisons in a filter.
const MAX_COMPARISONS: usize = 16;

static API: LazyLock<Api> = LazyLock::new(|| {
    let text = r#"
        name = "album"
        version = "v1"
        [collections.photos]
        filter_by = ["title", "rating", "score", "tame"]
        order_by = ["title", "rating desc"]
        schema = { title = "string", rating = "integer", score = "number", tame = "boolean" }
    "#;
    Api::from_toml(text).expect("it is a description")
});

fuzz_target!(|input: &str| {
    let (filter, rest) = first_text_line(input);
    let (order, rest) = first_text_line(rest);
    let (first, second) = first_text_line(rest);
    let settings = &API.settings().collections["photos"];
    let order = Some(order).filter(|order| !order.is_empty());
    let whole = Some(filter).filter(|filter| !filter.trim().is_empty());
    let Ok(list) = ListQuery::parse(settings, whole, order) else {
        return;
    };
    assert!(list.comparisons() <= MAX_COMPARISONS);
    let (Some(first), Some(second)) = (resource("1", first), resource("2", second)) else {
        return;
    };
    for resource in [&first, &second] {
        let holds = list.holds(resource);
        if holds && let Some((row, is_read)) = list.row(resource) {
            assert!(
                is_read,
                "{list:?} holds for {resource:?}, and does not read {row}"
            );
        }
        check_parts(settings, filter, holds, resource);
        check_value(settings, resource);
    }
    if list.holds(&first) && list.holds(&second) {
        check_order(&list, order, &first, &second);
    }
});

fn resource(id: &str, text: &str) -> Option<Resource> {
    let fields: Map<String, Value> = serde_json::from_str(text).ok()?;
    Some(Resource {
        collection: "album/v1/photos".to_owned(),
        id: id.to_owned(),
        version: 1,
        body: Bytes::from(serde_json::to_vec(&fields).ok()?),
        media: None,
        created: Timestamp::from_millis(0),
        updated: Timestamp::from_millis(0),
        due: None,
        claimed_by: None,
        owner: None,
    })
}

/// The texts before and after an `AND` are filters themselves, unless the `AND` is in quotation
/// marks.
fn check_parts(settings: &CollectionSettings, filter: &str, holds: bool, resource: &Resource) {
    for (at, _) in filter.match_indices("AND") {
        let parse = |part| ListQuery::parse(settings, Some(part), None);
        let (before, after) = (parse(&filter[..at]), parse(&filter[at + 3..]));
        if let (Ok(before), Ok(after)) = (before, after) {
            let both = before.holds(resource) && after.holds(resource);
            assert_eq!(both, holds, "{filter:?} for {resource:?}");
        }
    }
}

/// A resource is found by its own text, in quotation marks.
fn check_value(settings: &CollectionSettings, resource: &Resource) {
    let fields = fields(resource);
    let Some(title) = fields.get("title").and_then(Value::as_str) else {
        return;
    };
    let quoted = title.replace('\\', "\\\\").replace('"', "\\\"");
    let filter = format!("title = \"{quoted}\"");
    let list = ListQuery::parse(settings, Some(&filter), None).expect("it is a filter");
    assert!(list.holds(resource), "{filter:?} for {resource:?}");
}

fn check_order(list: &ListQuery<'_>, order: Option<&str>, first: &Resource, second: &Resource) {
    let (Some((first_row, _)), Some((second_row, _))) = (list.row(first), list.row(second)) else {
        return;
    };
    let expected = match order {
        Some("title") => text(first).cmp(&text(second)),
        Some("rating desc") => rating(second).cmp(&rating(first)),
        _ => Ordering::Equal,
    };
    if expected.is_ne() {
        assert_eq!(first_row.cmp(&second_row), expected, "{first:?} {second:?}");
    }
}

fn fields(resource: &Resource) -> Map<String, Value> {
    serde_json::from_slice(&resource.body).expect("it was written here")
}

fn text(resource: &Resource) -> Option<Vec<u8>> {
    let title = fields(resource).get("title")?.as_str()?.to_owned();
    Some(title.bytes().take(SORTED).collect())
}

fn rating(resource: &Resource) -> Option<i128> {
    match fields(resource).get("rating")? {
        Value::Number(number) => number.as_i128(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}
