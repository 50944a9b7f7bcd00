//! The handler that works for any description. It stores the client's fields and adds the fields
//! that the response schema names.
//!
//! Only the client's fields are stored. All others (`id`, `size`, `crc32c`, ...) are computed from
//! the record for each reply, so they cannot disagree with it.
//!
//! The description of a method decides what it does (`operation`). Metadata is validated against
//! the request schema (`schema_validation`). A reply has the form of the response schema
//! (`response_shape`), with the fields that the server fills in (`fields`).

mod enforcement;
mod fields;
mod operation;
mod response_shape;
mod schema_validation;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use windlass_discovery::Schema;
use windlass_store::{Media, Resource, ResourceChange};

use crate::handler::{Answer, ApiHandler, Call, Rejection, Uploaded, first_version};

use enforcement::{add_defaults, check_immutable, check_required, keep_fixed};
use fields::{UpdateMask, client_fields, etag, fields_of, fields_to_bytes, patched, updated};
use operation::{
    CallContext, Operation, ResourceKey, chosen_id, is_query_parameter, not_implemented,
};
use response_shape::{Reply, ResponseShape, add_required, response_schema};

pub use fields::patched as patched_fields;
pub(crate) use fields::with_digests;

/// The handler for any description. It stores the client's fields and adds those that the response
/// schema names.
#[derive(Debug, Clone, Copy, Default)]
pub struct DefaultHandler;

#[async_trait]
impl ApiHandler for DefaultHandler {
    async fn admit(&self, call: &Call<'_>) -> Result<(), Rejection> {
        client_fields(call)?;
        UpdateMask::of(call)?;
        match Operation::of(call)? {
            Operation::Update(named) => {
                let old = find_existing(call, &[named]).await?;
                replaced(call, old, Upload::Started, Change::Replace).map(drop)
            }
            Operation::Patch(named) => {
                let old = find_existing(call, &[named]).await?;
                replaced(call, old, Upload::Started, Change::Merge).map(drop)
            }
            Operation::Insert(collection) => {
                let id = available_id(call, &collection).await?;
                inserted(call, collection, id, None).map(drop)
            }
            Operation::Attach(named) => {
                match call.lookup.resource(&named.collection, &named.id).await? {
                    None => inserted(call, named.collection, named.id, None).map(drop),
                    Some(old) => replaced(call, old, Upload::Started, Change::Merge).map(drop),
                }
            }
            Operation::Get(_) | Operation::List(_) | Operation::Delete(_) => Ok(()),
        }
    }

    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
        let media = media.map(|uploaded| uploaded.media);
        match Operation::of(call)? {
            Operation::Insert(collection) => {
                let id = available_id(call, &collection).await?;
                insert(call, collection, id, media)
            }
            Operation::Attach(named) => {
                let old = call.lookup.resource(&named.collection, &named.id).await?;
                attach(call, named, old, media)
            }
            Operation::Update(named) => {
                let old = find_existing(call, &[named]).await?;
                replace(call, old, media, Change::Replace)
            }
            Operation::Patch(named) => {
                let old = find_existing(call, &[named]).await?;
                replace(call, old, media, Change::Merge)
            }
            Operation::Get(candidates) => {
                let resource = find_existing(call, &candidates).await?;
                Ok(Answer::of(
                    ResponseShape::new(&CallContext::of(call), &resource).resource_fields(),
                ))
            }
            Operation::List(collection) => list(call, &collection).await,
            Operation::Delete(named) => Ok(delete(call, find_existing(call, &[named]).await?)),
        }
    }

    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        match Operation::of(call)? {
            Operation::Get(candidates) => find_existing(call, &candidates).await,
            Operation::Update(named)
            | Operation::Patch(named)
            | Operation::Delete(named)
            | Operation::Attach(named) => find_existing(call, &[named]).await,
            Operation::Insert(_) | Operation::List(_) => Err(operation::not_implemented(call)),
        }
    }
}

/// Returns the first of these resources that exists.
async fn find_existing(call: &Call<'_>, candidates: &[ResourceKey]) -> Result<Resource, Rejection> {
    for ResourceKey { collection, id } in candidates {
        if let Some(resource) = call.lookup.resource(collection, id).await? {
            call.check_conditions(&etag(resource.version))?;
            return Ok(resource);
        }
    }
    let what = call.method.response.clone();
    Err(Rejection::NotFound {
        what: what.unwrap_or_else(|| "resource".to_owned()),
        id: candidates
            .first()
            .map_or_else(String::new, |named| named.id.clone()),
    })
}

/// Returns the id that the client has chosen, or a new one if it has chosen none. A chosen id that
/// is taken is refused.
async fn available_id(call: &Call<'_>, collection: &str) -> Result<String, Rejection> {
    let Some(id) = chosen_id(call, collection)? else {
        return Ok(CallContext::of(call).fresh_id(collection));
    };
    match call.lookup.resource(collection, id).await? {
        None => Ok(id.to_owned()),
        Some(_) => Err(Rejection::AlreadyExists {
            what: "resource".to_owned(),
            id: id.to_owned(),
        }),
    }
}

/// How a call changes the fields of a resource.
#[derive(Clone, Copy)]
enum Change {
    /// The client's fields take the place of the old ones.
    Replace,
    /// The client's fields are added; null removes one.
    Merge,
}

fn insert(
    call: &Call<'_>,
    collection: String,
    id: String,
    media: Option<Media>,
) -> Result<Answer, Rejection> {
    let resource = inserted(call, collection, id, media)?;
    Ok(changed(call, ResourceChange::Insert(resource)))
}

/// Returns the new resource of an insertion.
fn inserted(
    call: &Call<'_>,
    collection: String,
    id: String,
    media: Option<Media>,
) -> Result<Resource, Rejection> {
    let mut own = updated(Map::new(), client_fields(call)?);
    add_defaults(call, &mut own);
    let resource = Resource {
        collection,
        id,
        version: first_version(),
        body: fields_to_bytes(&own),
        media,
        created: call.now,
        updated: call.now,
        owner: None,
    };
    check_required(call, &resource, &own)?;
    Ok(resource)
}

/// Attaches media to a resource, and creates the resource if it does not exist.
fn attach(
    call: &Call<'_>,
    named: ResourceKey,
    old: Option<Resource>,
    media: Option<Media>,
) -> Result<Answer, Rejection> {
    match old {
        None => insert(call, named.collection, named.id, media),
        Some(old) => {
            call.check_conditions(&etag(old.version))?;
            replace(call, old, media, Change::Merge)
        }
    }
}

fn replace(
    call: &Call<'_>,
    old: Resource,
    media: Option<Media>,
    change: Change,
) -> Result<Answer, Rejection> {
    let expected = old.version;
    let upload = media.map_or(Upload::None, Upload::Finished);
    let resource = replaced(call, old, upload, change)?;
    Ok(changed(
        call,
        ResourceChange::Replace { resource, expected },
    ))
}

/// The media of a change.
enum Upload {
    /// The change has none.
    None,
    /// It is still to come.
    Started,
    Finished(Media),
}

/// Returns the resource after a change of its fields, its media, or both.
fn replaced(
    call: &Call<'_>,
    old: Resource,
    upload: Upload,
    change: Change,
) -> Result<Resource, Rejection> {
    let mask = UpdateMask::of(call)?;
    // Media alone says nothing about the fields.
    let only_media = !matches!(upload, Upload::None) && call.metadata.is_empty();
    let fields = match mask {
        Some(mask) => Some(mask.apply(fields_of(&old), client_fields(call)?)),
        None if only_media => None,
        None => Some(changed_fields(call, &old, change)?),
    };
    if let Some(fields) = &fields {
        check_immutable(call, &fields_of(&old), fields)?;
        check_required(call, &old, fields)?;
    }
    let media = match upload {
        Upload::Finished(media) => Some(media),
        Upload::None | Upload::Started => old.media,
    };
    Ok(Resource {
        version: old.version + 1,
        body: fields.map_or(old.body, |fields| fields_to_bytes(&fields)),
        media,
        updated: call.now,
        ..old
    })
}

/// Returns the fields of a resource after the client's have changed them.
fn changed_fields(
    call: &Call<'_>,
    old: &Resource,
    change: Change,
) -> Result<Map<String, Value>, Rejection> {
    let (old, new) = (fields_of(old), client_fields(call)?);
    Ok(match change {
        Change::Merge => patched(old, new),
        Change::Replace => {
            let mut fields = updated(Map::new(), new);
            keep_fixed(call, &old, &mut fields);
            add_defaults(call, &mut fields);
            fields
        }
    })
}

fn delete(call: &Call<'_>, resource: Resource) -> Answer {
    let reply = call.method.response.as_ref().map(|_| {
        let context = CallContext::of(call);
        ResponseShape::new(&context, &resource).reply()
    });
    let delete = ResourceChange::Delete {
        collection: resource.collection,
        id: resource.id,
        expected: resource.version,
    };
    match reply {
        Some(reply) => answer(delete, reply),
        None => Answer {
            changes: vec![delete],
            body: None,
            ..Answer::default()
        },
    }
}

fn changed(call: &Call<'_>, change: ResourceChange) -> Answer {
    let (ResourceChange::Insert(resource) | ResourceChange::Replace { resource, .. }) = &change
    else {
        return Answer::default();
    };
    let reply = ResponseShape::new(&CallContext::of(call), resource).reply();
    answer(change, reply)
}

fn answer(change: ResourceChange, reply: Reply) -> Answer {
    let operation = reply.operation.map(ResourceChange::Insert);
    Answer {
        changes: [change].into_iter().chain(operation).collect(),
        body: Some(reply.body.into()),
        ..Answer::default()
    }
}

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
async fn list(call: &Call<'_>, collection: &str) -> Result<Answer, Rejection> {
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
