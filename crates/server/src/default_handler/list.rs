//! Lists, page by page.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use windlass_discovery::Schema;
use windlass_store::Resource;

use super::call_context::CallContext;
use super::operation::{is_query_parameter, not_implemented};
use super::response_shape::{ResponseShape, add_required, response_schema};
use crate::handler::{Answer, Call, Rejection};

/// How many resources a list shows when the client does not say.
const DEFAULT_PAGE: usize = 100;

/// The most resources that a list shows at once.
const MAX_PAGE: usize = 1000;

/// A page ends when its resources have this many bytes together, however many were asked for.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// How many resources are taken out of the ledger at once.
const PAGE_BATCH: usize = 16;

/// The most resources that can be asked for by their ids.
const MAX_IDS: usize = 100;

/// One page of a collection; those of the parameter `id`, where the method has one and the client
/// gives it.
pub(super) async fn list(call: &Call<'_>, collection: &str) -> Result<Answer, Rejection> {
    let schema = response_schema(call).ok_or_else(|| not_implemented(call))?;
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
    Ok(Answer {
        changes: Vec::new(),
        body: Some(body),
    })
}

/// What one reply of a list shows.
struct Page {
    resources: Vec<Resource>,
    /// Whether others follow.
    more: bool,
}

/// Fills a page until it is full by count or by bytes. It has at least one resource, if there is one.
async fn page(call: &Call<'_>, collection: &str) -> Result<Page, Rejection> {
    let limit = page_size(call)?;
    let token = page_token(call)?;
    let mut resources: Vec<Resource> = Vec::new();
    let mut bytes = 0;
    loop {
        // One more than is shown tells whether there is another page.
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

/// The resources with these ids, in this order; those that there are not are left out.
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

/// The ids that the client asks for, separated by commas or each in a parameter.
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

/// The field of a list's response that holds the resources, and their schema: the one that is named
/// like the collection, else the first array of objects.
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
