//! Lists of resources, page by page.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use windlass_discovery::Schema;
use windlass_store::Resource;

use super::operation::{CallContext, is_query_parameter, not_implemented};
use super::relations::check_parent;
use super::response_shape::{ResponseShape, add_required, response_schema};
use crate::handler::{Answer, Call, Rejection};

/// Number of resources in a page by default.
const DEFAULT_PAGE: usize = 100;

/// Maximum number of resources in a page.
const MAX_PAGE: usize = 1000;

/// Size in bytes of the resources at which a page ends, whatever number was requested.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Number of resources that are read from the ledger at a time.
const PAGE_BATCH: usize = 16;

/// Maximum number of ids in the parameter `id`.
const MAX_IDS: usize = 100;

/// Returns one page of a collection, or the resources that the parameter `id` names if the method
/// has one and the client gives it.
pub(super) async fn list(call: &Call<'_>, collection: &str) -> Result<Answer, Rejection> {
    let schema = response_schema(call).ok_or_else(|| not_implemented(call))?;
    check_parent(call, collection).await?;
    let context = CallContext::of(call);
    let (items_field, items_schema) =
        items(&context, schema).ok_or_else(|| not_implemented(call))?;
    let Page { resources, more } = match ids(call)? {
        Some(ids) => resources_by_id(call, collection, &ids).await?,
        None => page(call, collection).await?,
    };
    let items = resources
        .iter()
        .map(|resource| Value::Object(ResponseShape::new(&context, resource).under(items_schema)));
    let mut body = Map::new();
    if let Some(kind) = schema.kind() {
        body.insert("kind".into(), kind.into());
    }
    body.insert(items_field.to_owned(), items.collect());
    if let Some(last) = resources.last().filter(|_| more) {
        let token = URL_SAFE_NO_PAD.encode(&last.id);
        body.insert("nextPageToken".into(), token.into());
    }
    add_required(call, schema, &mut body, call.now);
    Ok(Answer::of(body))
}

/// The resources in one page.
struct Page {
    resources: Vec<Resource>,
    /// Whether another page follows.
    more: bool,
}

/// Fills a page up to its limits of count and bytes. A page has at least one resource if one is
/// left.
async fn page(call: &Call<'_>, collection: &str) -> Result<Page, Rejection> {
    let limit = page_size(call)?;
    let token = page_token(call)?;
    let mut resources: Vec<Resource> = Vec::new();
    let mut bytes = 0;
    loop {
        // One more than the page holds, to know whether another page follows.
        let wanted = PAGE_BATCH.min(limit + 1 - resources.len());
        let after = resources.last().map(|last| last.id.as_str());
        let after = after.or(token.as_deref());
        let batch = call.lookup.resources(collection, after, wanted).await?;
        let more = batch.len() == wanted;
        for resource in batch {
            bytes += resource.body.len();
            let full = resources.len() == limit || bytes > PAGE_BYTES;
            if full && !resources.is_empty() {
                return Ok(Page {
                    resources,
                    more: true,
                });
            }
            call.reply_memory.hold_row(&resource.body)?;
            resources.push(resource);
        }
        if !more {
            return Ok(Page { resources, more });
        }
    }
}

/// Returns the resources with these ids, in this order. Ids without a resource are skipped.
async fn resources_by_id(
    call: &Call<'_>,
    collection: &str,
    ids: &[&str],
) -> Result<Page, Rejection> {
    let mut resources = Vec::new();
    for id in ids {
        if let Some(resource) = call.lookup.resource(collection, id).await? {
            call.reply_memory.hold_row(&resource.body)?;
            resources.push(resource);
        }
    }
    Ok(Page {
        resources,
        more: false,
    })
}

/// Returns the requested ids, which may be separated by commas or given in a parameter each.
fn ids<'a>(call: &Call<'a>) -> Result<Option<Vec<&'a str>>, Rejection> {
    if !is_query_parameter(call.method, "id") {
        return Ok(None);
    }
    let given = call.query.iter().filter(|(name, _)| *name == "id");
    let ids = given.flat_map(|(_, value)| value.split(','));
    let ids: Vec<_> = ids.filter(|id| !id.is_empty()).collect();
    if ids.len() > MAX_IDS {
        return Err(Rejection::InvalidParameter {
            parameter: "id".to_owned(),
            problem: format!("has more than {MAX_IDS} ids"),
        });
    }
    Ok((!ids.is_empty()).then_some(ids))
}

/// Returns the field of a list's response that holds the resources, with their schema: the array
/// that is named like the collection, else the first array of objects.
fn items<'a>(context: &CallContext<'a>, schema: &'a Schema) -> Option<(&'a str, &'a Schema)> {
    let array = |(name, property): (&'a String, &'a Schema)| {
        property.items.as_ref()?;
        let element = context.element(property)?;
        let is_object = element.json_type.as_deref() == Some("object");
        is_object.then_some((name.as_str(), element))
    };
    let mut arrays = schema.properties.iter().filter_map(array);
    let named = arrays
        .clone()
        .find(|(name, _)| context.names_the_collection(name));
    named.or_else(|| arrays.next())
}

fn page_size(call: &Call<'_>) -> Result<usize, Rejection> {
    let given = ["maxResults", "pageSize", "max_results", "page_size"]
        .into_iter()
        .find_map(|name| call.query.first(name).map(|text| (name, text)));
    let Some((name, text)) = given else {
        return Ok(DEFAULT_PAGE);
    };
    match text.parse::<usize>() {
        Ok(size) if size > 0 => Ok(size.min(MAX_PAGE)),
        _ => Err(Rejection::InvalidParameter {
            parameter: name.to_owned(),
            problem: "must be a positive number".to_owned(),
        }),
    }
}

fn page_token(call: &Call<'_>) -> Result<Option<String>, Rejection> {
    let Some(token) = call
        .query
        .first("pageToken")
        .filter(|token| !token.is_empty())
    else {
        return Ok(None);
    };
    let bytes = URL_SAFE_NO_PAD.decode(token).ok();
    let id = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    id.map(Some).ok_or_else(|| Rejection::InvalidParameter {
        parameter: "pageToken".to_owned(),
        problem: "is not a token of this list".to_owned(),
    })
}
