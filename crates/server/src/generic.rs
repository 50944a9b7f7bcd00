//! The kind that works for any description: it keeps what the client says and adds what the
//! response schema names.
//!
//! A resource is stored as the client's own fields. Everything else (`id`, `size`, `crc32c`, ...) is
//! made from the record when the resource is shown, so it can never disagree with it.

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::Method as Verb;
use serde_json::{Map, Value};
use windlass_discovery::Schema;
use windlass_store::{Media, Resource, ResourceChange, Timestamp};

use crate::kind::{Answer, Call, Kind, Rejection, Uploaded};

/// How many resources a list shows when the client does not say.
const DEFAULT_PAGE: usize = 100;

/// The most resources that a list shows at once.
const LARGEST_PAGE: usize = 1000;

/// A page ends when its resources have this many bytes together, however many were asked for.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// How many resources are taken out of the ledger at once.
const PAGE_BATCH: usize = 16;

/// The generic kind.
#[derive(Debug, Clone, Copy, Default)]
pub struct GenericKind;

/// Which resource a path names, and where it lives.
struct Named {
    collection: String,
    id: String,
}

#[async_trait]
impl Kind for GenericKind {
    async fn admit(&self, call: &Call<'_>) -> Result<(), Rejection> {
        check_types(call)?;
        match verb_of(call) {
            What::Update | What::Patch => self.find(call).await.map(drop),
            _ => Ok(()),
        }
    }

    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
        check_types(call)?;
        let media = media.map(|uploaded| uploaded.media);
        match verb_of(call) {
            What::Insert => Ok(insert(call, media)),
            What::Update => Ok(replace(call, self.find(call).await?, media, updated_fields)),
            What::Patch => Ok(replace(call, self.find(call).await?, media, patched_fields)),
            What::Get => Ok(Answer {
                changes: Vec::new(),
                body: Some(show(call, &self.find(call).await?)),
            }),
            What::List => list(call).await,
            What::Delete => Ok(delete(self.find(call).await?)),
            What::Other => Err(Rejection::NotImplemented {
                method: call.method.id.clone(),
            }),
        }
    }

    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        let Named { collection, id } = named(call);
        let found = call.lookup.resource(&collection, &id).await?;
        let resource = found.ok_or_else(|| Rejection::NotFound {
            what: call
                .method
                .response
                .clone()
                .unwrap_or_else(|| "resource".to_owned()),
            id,
        })?;
        call.check_conditions(&etag(resource.version))?;
        Ok(resource)
    }
}

/// What a method does, told by its HTTP method and the last word of its id.
enum What {
    Insert,
    Update,
    Patch,
    Get,
    List,
    Delete,
    Other,
}

fn verb_of(call: &Call<'_>) -> What {
    match call.method.http_method {
        Verb::POST => What::Insert,
        Verb::PUT => What::Update,
        Verb::PATCH => What::Patch,
        Verb::DELETE => What::Delete,
        Verb::GET if call.method.verb() == "list" => What::List,
        Verb::GET => What::Get,
        _ => What::Other,
    }
}

fn insert(call: &Call<'_>, media: Option<Media>) -> Answer {
    let resource = Resource {
        collection: path(call),
        id: call.fresh_id.to_owned(),
        version: 1,
        body: fields_to_bytes(&own_fields(call)),
        media,
        created: call.now,
        updated: call.now,
    };
    Answer {
        body: Some(show(call, &resource)),
        changes: vec![ResourceChange::Insert(resource)],
    }
}

/// How the fields of a resource follow from the old ones and those of the client.
type Fields = fn(old: Map<String, Value>, new: Map<String, Value>) -> Map<String, Value>;

fn replace(call: &Call<'_>, old: Resource, media: Option<Media>, fields: Fields) -> Answer {
    let expected = old.version;
    // Media alone says nothing about the fields.
    let only_media = media.is_some() && call.metadata.is_empty();
    let body = if only_media {
        old.body
    } else {
        fields_to_bytes(&fields(fields_of(&old), own_fields(call)))
    };
    let resource = Resource {
        version: expected + 1,
        body,
        media: media.or(old.media),
        updated: call.now,
        ..old
    };
    Answer {
        body: Some(show(call, &resource)),
        changes: vec![ResourceChange::Replace { resource, expected }],
    }
}

fn updated_fields(_: Map<String, Value>, new: Map<String, Value>) -> Map<String, Value> {
    new
}

/// A patch sets what it names and removes what it sets to null (RFC 7396).
fn patched_fields(mut old: Map<String, Value>, new: Map<String, Value>) -> Map<String, Value> {
    for (name, value) in new {
        match value {
            Value::Null => {
                old.shift_remove(&name);
            }
            Value::Object(changes) => {
                let inside = match old.get_mut(&name).map(Value::take) {
                    Some(Value::Object(inside)) => inside,
                    _ => Map::new(),
                };
                old.insert(name, patched_fields(inside, changes).into());
            }
            value => {
                old.insert(name, value);
            }
        }
    }
    old
}

fn delete(resource: Resource) -> Answer {
    Answer {
        changes: vec![ResourceChange::Delete {
            collection: resource.collection,
            id: resource.id,
            expected: resource.version,
        }],
        body: None,
    }
}

async fn list(call: &Call<'_>) -> Result<Answer, Rejection> {
    let Page { resources, more } = page(call).await?;
    let items = resources
        .iter()
        .map(|resource| Value::Object(show_item(call, resource)))
        .collect();
    let mut body = Map::new();
    if let Some(kind) = response_schema(call).and_then(Schema::kind) {
        body.insert("kind".into(), kind.into());
    }
    body.insert(items_field(call), items);
    if let Some(last) = resources.last().filter(|_| more) {
        body.insert(
            "nextPageToken".into(),
            URL_SAFE_NO_PAD.encode(&last.id).into(),
        );
    }
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
async fn page(call: &Call<'_>) -> Result<Page, Rejection> {
    let limit = page_size(call)?;
    let token = page_token(call)?;
    let collection = path(call);
    let mut resources: Vec<Resource> = Vec::new();
    let mut bytes = 0;
    loop {
        // One more than is shown tells whether there is another page.
        let wanted = PAGE_BATCH.min(limit + 1 - resources.len());
        let after = resources.last().map(|last| last.id.as_str());
        let after = after.or(token.as_deref());
        let batch = call.lookup.resources(&collection, after, wanted).await?;
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
            resources.push(resource);
        }
        if !more {
            return Ok(Page { resources, more });
        }
    }
}

/// The field of a list's response that holds an array; `items` where the schema has none.
fn items_field(call: &Call<'_>) -> String {
    let properties = response_schema(call).map(|schema| &schema.properties);
    let array = properties
        .into_iter()
        .flatten()
        .find(|(_, property)| property.items.is_some());
    array.map_or_else(|| "items".to_owned(), |(name, _)| name.clone())
}

fn page_size(call: &Call<'_>) -> Result<usize, Rejection> {
    let given = ["maxResults", "pageSize"]
        .into_iter()
        .find_map(|name| call.query.first(name).map(|text| (name, text)));
    let Some((name, text)) = given else {
        return Ok(DEFAULT_PAGE);
    };
    match text.parse::<usize>() {
        Ok(size) if size > 0 => Ok(size.min(LARGEST_PAGE)),
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

/// The path of the call without its leading slash. It names a collection or a resource.
fn path(call: &Call<'_>) -> String {
    let path = call.method.template.expand(call.path);
    let path = path.expect("the path was matched by the template");
    path.trim_start_matches('/').to_owned()
}

fn named(call: &Call<'_>) -> Named {
    let path = path(call);
    let (collection, id) = path.rsplit_once('/').unwrap_or(("", &path));
    Named {
        collection: collection.to_owned(),
        id: id.to_owned(),
    }
}

/// The client's fields without those that the server fills in.
fn own_fields(call: &Call<'_>) -> Map<String, Value> {
    let fields = call.metadata.iter();
    let own = fields.filter(|(name, _)| !OUTPUT_FIELDS.contains(&name.as_str()));
    own.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn fields_of(resource: &Resource) -> Map<String, Value> {
    serde_json::from_slice(&resource.body).unwrap_or_default()
}

fn fields_to_bytes(fields: &Map<String, Value>) -> Bytes {
    serde_json::to_vec(fields)
        .expect("JSON can be written")
        .into()
}

/// The fields that the server fills in, where the schema has them.
const OUTPUT_FIELDS: [&str; 16] = [
    "contentType",
    "crc32c",
    "createTime",
    "createdTime",
    "etag",
    "id",
    "kind",
    "md5Hash",
    "mimeType",
    "selfLink",
    "sha256Hash",
    "size",
    "timeCreated",
    "updateTime",
    "updated",
    "updatedTime",
];

/// The resource as the reply to the call shows it.
fn show(call: &Call<'_>, resource: &Resource) -> Map<String, Value> {
    shown(call, response_schema(call), resource)
}

/// The resource as an item of a list shows it.
fn show_item(call: &Call<'_>, resource: &Resource) -> Map<String, Value> {
    let array = response_schema(call).and_then(|schema| schema.property(&items_field(call)));
    let item = array.and_then(|array| array.items.as_deref());
    shown(
        call,
        item.and_then(|item| call.api.document().resolve(item)),
        resource,
    )
}

fn shown(call: &Call<'_>, schema: Option<&Schema>, resource: &Resource) -> Map<String, Value> {
    let mut shown = Map::new();
    if let Some(kind) = schema.and_then(Schema::kind) {
        shown.insert("kind".into(), kind.into());
    }
    for name in OUTPUT_FIELDS {
        let wanted = schema.is_none_or(|schema| schema.property(name).is_some());
        if let Some(value) = output_field(call, resource, name).filter(|_| wanted) {
            shown.insert(name.into(), value);
        }
    }
    shown.extend(fields_of(resource));
    shown
}

fn output_field(call: &Call<'_>, resource: &Resource, name: &str) -> Option<Value> {
    let media = resource.media.as_ref();
    let text = match name {
        "id" => resource.id.clone(),
        "etag" => etag(resource.version),
        "selfLink" => format!("{}/{}/{}", call.base_url, resource.collection, resource.id),
        "createdTime" | "createTime" | "timeCreated" => rfc3339(resource.created),
        "updatedTime" | "updateTime" | "updated" => rfc3339(resource.updated),
        "mimeType" | "contentType" => media?.content_type.clone(),
        // A number of 64 bits is written as a string: JSON readers may not hold it otherwise.
        "size" => media?.length.to_string(),
        "crc32c" => media?.digests.crc32c.to_string(),
        "md5Hash" => media?.digests.md5?.to_string(),
        "sha256Hash" => media?.digests.sha256?.to_string(),
        _ => return None,
    };
    Some(text.into())
}

/// The entity tag of a version of a resource, quotes included.
fn etag(version: u64) -> String {
    format!("\"v{version}\"")
}

fn rfc3339(time: Timestamp) -> String {
    let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX);
    format!("{time:.3}")
}

fn response_schema<'a>(call: &Call<'a>) -> Option<&'a Schema> {
    call.api.schema(call.method.response.as_deref()?)
}

/// Refuses fields whose JSON type is not the one that the request schema states.
fn check_types(call: &Call<'_>) -> Result<(), Rejection> {
    let Some(schema) = call
        .method
        .request
        .as_deref()
        .and_then(|name| call.api.schema(name))
    else {
        return Ok(());
    };
    for (name, value) in call.metadata {
        let Some(expected) = schema.property(name).and_then(|it| it.json_type.as_deref()) else {
            continue;
        };
        if !value.is_null() && !has_type(value, expected) {
            return Err(Rejection::InvalidField {
                field: name.clone(),
                problem: format!("must be of type {expected}"),
            });
        }
    }
    Ok(())
}

fn has_type(value: &Value, expected: &str) -> bool {
    match expected {
        "string" => value.is_string() || value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || numeric(value),
        "number" => value.is_number() || numeric(value),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

/// Numbers may come as strings, as Google's APIs write those of 64 bits.
fn numeric(value: &Value) -> bool {
    value
        .as_str()
        .is_some_and(|text| text.parse::<f64>().is_ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The rows are those of RFC 7396, appendix A, whose target and patch are both objects.
    #[test]
    fn a_patch_merges_as_rfc_7396_says() {
        let table = [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b"}), json!({"a":null}), json!({})),
            (
                json!({"a":"b","b":"c"}),
                json!({"a":null}),
                json!({"b":"c"}),
            ),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"c"}), json!({"a":["b"]}), json!({"a":["b"]})),
            (
                json!({"a":{"b":"c"}}),
                json!({"a":{"b":"d","c":null}}),
                json!({"a":{"b":"d"}}),
            ),
            (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
            (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
            (
                json!({}),
                json!({"a":{"bb":{"ccc":null}}}),
                json!({"a":{"bb":{}}}),
            ),
            (
                json!({"a":"b"}),
                json!({"a":{"b":null,"c":1}}),
                json!({"a":{"c":1}}),
            ),
        ];
        for (target, patch, expected) in table {
            let patched = patched_fields(fields(&target), fields(&patch));
            assert_eq!(Value::Object(patched), expected, "{target} and {patch}");
        }
    }

    fn fields(value: &Value) -> Map<String, Value> {
        value.as_object().expect("an object").clone()
    }
}
