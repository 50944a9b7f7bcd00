//! Long-running operations, which are all done when they are told of.

use http::Method as HttpMethod;
use serde_json::{Map, Value};
use windlass_discovery::Schema;
use windlass_store::Resource;

use super::fields::fields_to_bytes;
use super::place::{key, path_of_key};
use super::response_shape::{Reply, ResponseShape};
use crate::handler::{Call, first_version};

/// The type of a response that says nothing.
const EMPTY: &str = "google.protobuf.Empty";

/// Whether a schema is that of long-running operations.
pub(super) fn is_operation(schema: &Schema) -> bool {
    ["name", "done", "response", "error"]
        .iter()
        .all(|name| schema.property(name).is_some())
}

/// The operation that made the resource, or changed it. It is kept where the API's method that gets
/// operations will look for it, if there is one.
pub(super) fn operation(response_shape: &ResponseShape<'_>, schema: Option<&str>) -> Reply {
    let call = response_shape.call();
    let home = home(response_shape, schema);
    let collection = home.clone().unwrap_or_else(|| "operations".to_owned());
    let collection = key(call.api, &collection);
    let named = response_shape
        .context
        .resource_name(&collection, call.fresh_id);
    let name = named.unwrap_or_else(|| format!("operations/{}", call.fresh_id));
    let mut body = Map::new();
    body.insert("name".into(), name.into());
    body.insert("done".into(), true.into());
    body.insert("response".into(), outcome(response_shape).into());
    let operation = home.map(|_| Resource {
        collection,
        id: call.fresh_id.to_owned(),
        version: first_version(),
        body: fields_to_bytes(&body),
        media: None,
        created: call.now,
        updated: call.now,
    });
    Reply { body, operation }
}

/// The path of the collection in which the API gets operations about this resource.
fn home(response_shape: &ResponseShape<'_>, schema: Option<&str>) -> Option<String> {
    let call = response_shape.call();
    let gets: Vec<_> = call
        .api
        .methods()
        .iter()
        .filter(|method| {
            method.http_method == HttpMethod::GET && method.response.as_deref() == schema
        })
        .collect();
    let mut parent = path_of_key(&response_shape.resource.collection);
    loop {
        let collection = format!("{parent}/operations");
        let path = format!("/{collection}/{}", call.fresh_id);
        if gets
            .iter()
            .any(|method| method.template.match_path(&path).is_some())
        {
            return Some(collection);
        }
        parent = parent.rsplit_once('/')?.0;
    }
}

/// What came of the operation, with its type.
fn outcome(response_shape: &ResponseShape<'_>) -> Map<String, Value> {
    let api = response_shape.call().api;
    let name = outcome_schema(response_shape.call());
    let schema = name.as_deref().and_then(|name| api.schema(name));
    let type_name = name.as_deref().unwrap_or(EMPTY);
    let mut outcome = Map::new();
    outcome.insert(
        "@type".into(),
        format!("type.googleapis.com/{type_name}").into(),
    );
    if let Some(schema) = schema {
        outcome.extend(response_shape.wrapped(schema, &mut |_| Map::new()));
    }
    outcome
}

/// By their names, the outcome of `UploadThingRequest` is `UploadThingResponse`, and that of a `Thing` is
/// the thing.
fn outcome_schema(call: &Call<'_>) -> Option<String> {
    let request = call.method.request.as_deref()?;
    match request.strip_suffix("Request") {
        None => Some(request.to_owned()),
        Some(name) => {
            Some(format!("{name}Response")).filter(|name| call.api.schema(name).is_some())
        }
    }
}
