//! A resource in the form that a schema gives it.

use http::Method as HttpMethod;
use serde_json::{Map, Value};
use windlass_discovery::{Document, Schema};
use windlass_store::{Resource, Timestamp};

use super::fields::{
    fields_of, fields_to_bytes, is_digest, is_server_field, rfc3339, server_field,
};
use super::operation::{CallContext, key, path_of_key};
use super::schema_validation::{Purpose, SchemaValidation, resolve};
use crate::handler::{Call, first_version};

/// Maximum depth to which required fields are filled in.
const MAX_DEPTH: usize = 8;

/// The type of an empty response.
const EMPTY: &str = "google.protobuf.Empty";

/// A resource, in the form that a schema gives it.
pub(super) struct ResponseShape<'a> {
    pub(super) context: &'a CallContext<'a>,
    pub(super) resource: &'a Resource,
    fields: Map<String, Value>,
}

/// The reply to a call that changed a resource.
pub(super) struct Reply {
    pub(super) body: Map<String, Value>,
    /// The long-running operation in the body, stored so that clients can get it by its name.
    pub(super) operation: Option<Resource>,
}

impl<'a> ResponseShape<'a> {
    pub(super) fn new(context: &'a CallContext<'a>, resource: &'a Resource) -> Self {
        Self {
            context,
            resource,
            fields: fields_of(resource),
        }
    }

    /// Returns the resource under the response schema of the call; `None` if the method has no
    /// response.
    pub(super) fn resource_fields(&self) -> Map<String, Value> {
        response_schema(self.call()).map_or_else(Map::new, |schema| self.under(schema))
    }

    /// Returns the reply under the response schema of the call: the resource, a completed
    /// operation, or an object with one of them in a field.
    pub(super) fn reply(&self) -> Reply {
        let name = self.call().method.response.as_deref();
        let Some(schema) = name.and_then(|name| self.call().api.schema(name)) else {
            return Reply {
                body: Map::new(),
                operation: None,
            };
        };
        if is_long_running(schema) {
            return long_running_operation(self, name);
        }
        let mut operations = None;
        let body = self.wrapped(schema, &mut |name| {
            let reply = long_running_operation(self, name);
            operations = reply.operation;
            reply.body
        });
        Reply {
            body,
            operation: operations,
        }
    }

    /// Returns the resource under this schema, in a field if the schema wraps resources.
    pub(super) fn wrapped(
        &self,
        schema: &Schema,
        operation: &mut dyn FnMut(Option<&str>) -> Map<String, Value>,
    ) -> Map<String, Value> {
        let mut shown = self.under(schema);
        if !self.context.wraps(schema) {
            return shown;
        }
        for (name, property) in &schema.properties {
            let Some(inner) = self.context.element(property) else {
                continue;
            };
            let is_array = property.items.is_some();
            if inner.json_type.as_deref() != Some("object") {
                continue;
            }
            if is_long_running(inner) && !is_array {
                let body = operation(property.reference.as_deref());
                shown.insert(name.clone(), body.into());
            } else if is_array && self.context.names_the_collection(name) {
                shown.insert(name.clone(), vec![Value::Object(self.under(inner))].into());
            } else if !is_array && self.context.names_one_resource(name) {
                shown.insert(name.clone(), self.under(inner).into());
            }
        }
        shown
    }

    /// Returns the resource under a schema of resources: the server's fields, and the client's
    /// fields that the schema admits.
    pub(super) fn under(&self, schema: &Schema) -> Map<String, Value> {
        let mut shown = Map::new();
        if let Some(kind) = schema.kind() {
            shown.insert("kind".into(), kind.into());
        }
        for (name, property) in &schema.properties {
            if let Some(value) = self.known(name, property) {
                shown.insert(name.clone(), value);
            }
        }
        // After the server's fields, which win over a client's field of the same name.
        self.add_client_fields(schema, &mut shown);
        add_required(self.call(), schema, &mut shown, self.resource.created);
        shown
    }

    fn known(&self, name: &str, property: &Schema) -> Option<Value> {
        if self.fields.contains_key(name) && is_shared_field(name) {
            return None;
        }
        match server_field(self.context, self.resource, name) {
            Some(server_field) => server_field.under(property),
            None => self.digests(property),
        }
    }

    /// Returns the digests of the media, for schemas with an object for them.
    fn digests(&self, property: &Schema) -> Option<Value> {
        property.reference.as_ref()?;
        let inner = resolve(self.call().api.document(), property)?;
        let digest = |(name, property): (&String, &Schema)| {
            let server_field =
                server_field(self.context, self.resource, name).filter(|_| is_digest(name));
            Some((name.clone(), server_field?.under(property)?))
        };
        let digests: Map<_, _> = inner.properties.iter().filter_map(digest).collect();
        (!digests.is_empty()).then(|| digests.into())
    }

    fn add_client_fields(&self, schema: &Schema, shown: &mut Map<String, Value>) {
        let validation = SchemaValidation {
            document: self.call().api.document(),
            patterns: None,
            purpose: Purpose::Output,
            closed: false,
            enforced: false,
        };
        let others = schema.additional_properties.as_deref();
        for (name, value) in &self.fields {
            let property = schema.property(name).or(others);
            let Some(property) = property.filter(|_| !shown.contains_key(name)) else {
                continue;
            };
            // A value stored under an earlier description may not fit, and a reply has the form of
            // its schema.
            if let Ok(value) = validation.value(property, value) {
                shown.insert(name.clone(), value);
            }
        }
    }

    pub(super) fn call(&self) -> &'a Call<'a> {
        self.context.call
    }
}

/// Whether a schema describes long-running operations.
fn is_long_running(schema: &Schema) -> bool {
    ["name", "done", "response", "error"]
        .iter()
        .all(|name| schema.property(name).is_some())
}

/// Returns the operation that created or changed the resource. If the API has a method that gets
/// operations, the operation is stored where that method reads it.
fn long_running_operation(response_shape: &ResponseShape<'_>, schema: Option<&str>) -> Reply {
    let call = response_shape.call();
    let operations_collection = operations_collection(response_shape, schema);
    let collection = operations_collection
        .clone()
        .unwrap_or_else(|| "operations".to_owned());
    let collection = key(call.api, &collection);
    let named = response_shape
        .context
        .resource_name(&collection, call.fresh_id);
    let name = named.unwrap_or_else(|| format!("operations/{}", call.fresh_id));
    let mut body = Map::new();
    body.insert("name".into(), name.into());
    body.insert("done".into(), true.into());
    body.insert("response".into(), operation_response(response_shape).into());
    let operation = operations_collection.map(|_| Resource {
        collection,
        id: call.fresh_id.to_owned(),
        version: first_version(),
        body: fields_to_bytes(&body),
        media: None,
        created: call.now,
        updated: call.now,
        due: None,
        claimed_by: None,
        owner: None,
    });
    Reply { body, operation }
}

/// Returns the path of the collection from which the API reads operations on this resource.
fn operations_collection(
    response_shape: &ResponseShape<'_>,
    schema: Option<&str>,
) -> Option<String> {
    let call = response_shape.call();
    let gets: Vec<_> = call
        .api
        .methods()
        .iter()
        .filter(|method| {
            method.http_method == HttpMethod::GET && method.response.as_deref() == schema
        })
        .collect();
    // Google's APIs keep operations below a project or a location, so every parent is tried.
    let path = path_of_key(call.api, &response_shape.resource.collection);
    let mut parent = &*path;
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

/// Returns the result of the operation, with its type.
fn operation_response(response_shape: &ResponseShape<'_>) -> Map<String, Value> {
    let api = response_shape.call().api;
    let name = operation_response_schema(response_shape.call());
    let schema = name.as_deref().and_then(|name| api.schema(name));
    let type_name = name.as_deref().unwrap_or(EMPTY);
    let mut operation_response = Map::new();
    operation_response.insert(
        // An `Any` of protocol buffers: clients find the type of the result by this field.
        "@type".into(),
        format!("type.googleapis.com/{type_name}").into(),
    );
    if let Some(schema) = schema {
        operation_response.extend(response_shape.wrapped(schema, &mut |_| Map::new()));
    }
    operation_response
}

/// The names decide: `UploadThingRequest` results in `UploadThingResponse`, and `Thing` results in
/// the thing.
fn operation_response_schema(call: &Call<'_>) -> Option<String> {
    let request = call.method.request.as_deref()?;
    match request.strip_suffix("Request") {
        None => Some(request.to_owned()),
        Some(name) => {
            Some(format!("{name}Response")).filter(|name| call.api.schema(name).is_some())
        }
    }
}

/// Whether the client may set the field of this name although the server can fill it in.
fn is_shared_field(name: &str) -> bool {
    let is_known =
        matches!(name, "mediaId" | "sha256") || name.contains("ime") || name.ends_with("Date");
    is_known && !is_server_field(name)
}

pub(super) fn response_schema<'a>(call: &Call<'a>) -> Option<&'a Schema> {
    call.api.schema(call.method.response.as_deref()?)
}

/// Fills in required fields that have no value, for APIs whose writes may omit them. Typed clients
/// of published APIs fail on a reply without these fields. If writes must contain them, no value is
/// invented.
///
/// Fields of a time get `now`.
pub(super) fn add_required(
    call: &Call<'_>,
    schema: &Schema,
    shown: &mut Map<String, Value>,
    now: Timestamp,
) {
    if call.api.settings().strict {
        return;
    }
    for (name, property) in required(call, schema) {
        if !shown.contains_key(name) {
            let value = Placeholder { call, now }.value(property, 0);
            shown.insert(name.clone(), value);
        }
    }
}

fn required<'a>(
    call: &Call<'_>,
    schema: &'a Schema,
) -> impl Iterator<Item = (&'a String, &'a Schema)> {
    let method = &call.method.id;
    let properties = schema.properties.iter();
    properties.filter(move |(_, property)| property.is_required_for(method))
}

/// Returns the simplest value that a schema admits.
struct Placeholder<'a> {
    call: &'a Call<'a>,
    now: Timestamp,
}

impl Placeholder<'_> {
    fn value(&self, property: &Schema, depth: usize) -> Value {
        let document: &Document = self.call.api.document();
        let Some(schema) = resolve(document, property).filter(|_| depth < MAX_DEPTH) else {
            return Map::new().into();
        };
        match schema.json_type.as_deref() {
            Some("object") => {
                let fields = required(self.call, schema);
                let filled = fields.map(|(name, it)| (name.clone(), self.value(it, depth + 1)));
                let kind = schema.kind().map(|kind| ("kind".to_owned(), kind.into()));
                Value::Object(kind.into_iter().chain(filled).collect())
            }
            Some("array") => Vec::<Value>::new().into(),
            Some("integer" | "number") => schema.default_value().unwrap_or_else(|| 0.into()),
            Some("boolean") => schema.default_value().unwrap_or_else(|| false.into()),
            Some("string") => self.text(schema).into(),
            _ => Map::new().into(),
        }
    }

    fn text(&self, schema: &Schema) -> String {
        if let Some(Value::String(default)) = &schema.default {
            return default.clone();
        }
        if let Some(first) = schema.allowed_values.first() {
            return first.clone();
        }
        match schema.format.as_deref() {
            Some("date-time" | "google-datetime") => rfc3339(self.now),
            Some("date") => rfc3339(self.now)[..10].to_owned(),
            Some("google-duration") => "0s".to_owned(),
            Some("int64" | "uint64") => "0".to_owned(),
            _ => String::new(),
        }
    }
}
