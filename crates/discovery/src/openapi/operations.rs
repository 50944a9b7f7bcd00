//! Parts that all operations share.

use http::Method as HttpMethod;
use serde_json::{Map, Value, json};

use super::paths::Place;
use super::schemas::Form;
use super::{Converter, Entry, SCHEME, parameters};

/// An operation as it is made.
pub(super) type Operation = Map<String, Value>;

impl Converter<'_> {
    /// Adds an operation. If another operation has its path and HTTP method, its id is added to
    /// `left_out`.
    pub(super) fn add(&mut self, place: &Place, http_method: &HttpMethod, operation: Operation) {
        let id = operation.get("operationId").cloned();
        if !self.paths.add(place, &verb(http_method), operation) {
            let id = id.and_then(|id| id.as_str().map(str::to_owned));
            self.left_out.extend(id);
        }
    }

    /// Returns a unique operation id: the method's id with a suffix.
    pub(super) fn unique_id(&mut self, entry: Entry<'_>, suffix: &str) -> String {
        let wish = format!("{}.{suffix}", entry.method.id);
        self.operation_ids.unique(&wish)
    }

    /// Returns an operation with its id, its tag, its description and its security.
    pub(super) fn operation(&self, entry: Entry<'_>, id: &str, description: &str) -> Operation {
        let tag = match entry.method.collection() {
            "" => self.api.name(),
            collection => collection,
        };
        let mut operation = Operation::new();
        operation.insert("operationId".into(), id.into());
        operation.insert("tags".into(), json!([tag]));
        if !description.is_empty() {
            operation.insert("description".into(), description.into());
        }
        if entry.described.extra.get("deprecated") == Some(&Value::Bool(true)) {
            operation.insert("deprecated".into(), true.into());
        }
        let scopes = &entry.method.scopes;
        if !scopes.is_empty() {
            // A caller needs only one of the scopes.
            let one_of: Vec<_> = scopes.iter().map(|it| json!({SCHEME: [it]})).collect();
            operation.insert("security".into(), one_of.into());
        }
        operation
    }

    /// Returns the parameters of a method in its path and its query.
    pub(super) fn parameters(&self, entry: Entry<'_>, place: &Place) -> Vec<Value> {
        let in_path = parameters::in_path(entry, place, &self.schemas);
        in_path
            .chain(parameters::in_query(entry, &self.schemas))
            .collect()
    }

    /// Adds the body of a request with the metadata of a method, if it has some.
    pub(super) fn add_metadata(&self, operation: &mut Operation, entry: Entry<'_>) {
        let Some(schema) = self.schemas.request(entry) else {
            return;
        };
        let content = json!({"application/json": {"schema": schema}});
        // In published documents the body is optional: services demand less than their documents
        // say.
        let is_required = self.api.settings().strict && self.schemas.demands_body(entry);
        let body = if is_required {
            json!({"required": true, "content": content})
        } else {
            json!({"content": content})
        };
        operation.insert("requestBody".into(), body);
    }

    /// Returns the schema of a method's reply; `None` if it has none.
    pub(super) fn reply(&self, entry: Entry<'_>) -> Option<Value> {
        let schema = entry.described.response.as_ref()?;
        Some(self.schemas.convert(schema, Form::Full))
    }
}

/// Returns a response with JSON.
pub(super) fn json_response(schema: &Value) -> Value {
    json!({"description": "Done.", "content": {"application/json": {"schema": schema}}})
}

/// Returns the responses with this one, and errors for all other statuses.
pub(super) fn with_errors(status: &str, response: &Value) -> Value {
    json!({status: response, "default": {"$ref": "#/components/responses/Error"}})
}

/// The schema of bytes.
pub(super) fn binary() -> Value {
    json!({"type": "string", "format": "binary"})
}

/// The name of an HTTP method in a path item.
fn verb(http_method: &HttpMethod) -> String {
    http_method.as_str().to_ascii_lowercase()
}
