//! Metadata that a request states in its head: names with values that are text.

use serde_json::{Map, Value};
use windlass_discovery::{Api, Schema};
use windlass_rest::registry::ServedMethod;

/// The field of a resource for the client's statements that are no fields themselves, as in Cloud
/// Storage.
const CUSTOM: &str = "metadata";

/// The field of a resource that holds the name of a file.
const NAME: &str = "name";

/// Returns the statements as metadata of the method's resource.
///
/// A statement with the name of a field of the resource becomes that field, if its value has the
/// field's type. All others go into the field `metadata`, if the resource has one for texts of any
/// name. The name of the file becomes the field `name`, unless that is stated as well. Statements that
/// the resource cannot hold are left out: a client states all that it knows to every server.
pub(crate) fn to_metadata(
    method: ServedMethod<'_>,
    stated: &Map<String, Value>,
    file_name: Option<&str>,
) -> Map<String, Value> {
    let api = &method.served.api;
    let request = method.method.request.as_ref();
    let Some(schema) = request.and_then(|name| api.schema(name)) else {
        return Map::new();
    };
    let settable = |name: &str| {
        let property = schema.property(name)?;
        (!property.read_only).then_some(property)
    };
    let custom = settable(CUSTOM).filter(|property| holds_texts(api, property));
    let (mut metadata, mut rest) = (Map::new(), Map::new());
    for (name, value) in stated {
        let field = settable(name).filter(|_| name != CUSTOM || custom.is_none());
        match field.and_then(|property| typed(property, value)) {
            Some(value) => metadata.insert(name.clone(), value),
            None => rest.insert(name.clone(), value.clone()),
        };
    }
    if custom.is_some() && !rest.is_empty() {
        metadata.insert(CUSTOM.to_owned(), Value::Object(rest));
    }
    if let Some(file_name) = file_name.filter(|_| !metadata.contains_key(NAME))
        && let Some(property) = settable(NAME)
        && let Some(name) = typed(property, &Value::from(file_name))
    {
        metadata.insert(NAME.to_owned(), name);
    }
    metadata
}

/// Whether a property is a map of texts.
fn holds_texts(api: &Api, property: &Schema) -> bool {
    let named = property.reference.as_ref();
    let property = named.and_then(|name| api.schema(name)).unwrap_or(property);
    let values = property.additional_properties.as_ref();
    values.is_some_and(|values| values.json_type.as_deref() == Some("string"))
}

/// Returns a text as a value of the property's type; `None` if it does not have that type.
fn typed(property: &Schema, value: &Value) -> Option<Value> {
    let text = value.as_str()?;
    match property.json_type.as_deref()? {
        "string" => Some(value.clone()),
        "boolean" => text.parse::<bool>().ok().map(Value::from),
        "integer" => text.parse::<i64>().ok().map(Value::from),
        "number" => text.parse::<f64>().ok().map(Value::from),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_rest::registry::{Registry, ServedApi};

    use super::*;

    fn shelf() -> Api {
        let text = json!({"type": "string"});
        let document = json!({
            "name": "shelf",
            "version": "v1",
            "schemas": {"Book": {"id": "Book", "type": "object", "properties": {
                "id": {"type": "string", "readOnly": true},
                "name": text,
                "pages": {"type": "integer"},
                "lent": {"type": "boolean"},
                "metadata": {"type": "object", "additionalProperties": text},
            }}},
            "methods": {"insert": {
                "id": "shelf.insert", "httpMethod": "POST", "path": "books",
                "request": {"$ref": "Book"},
            }},
        });
        let document = serde_json::from_value(document).expect("it is a document");
        Api::from_document(document).expect("it is valid")
    }

    #[test]
    fn statements_become_fields_and_custom_metadata() {
        let registry = Registry::new([ServedApi::with_default_handler(shelf())]);
        let registry = registry.expect("one API cannot clash");
        let method = registry.method(None, "shelf", "v1", "shelf.insert");
        let method = method.expect("it is served");
        let stated = json!({
            "pages": "12", "lent": "perhaps", "id": "mine", "filename": "a.pdf", "empty": ""
        });
        let stated = stated.as_object().expect("it is an object");
        assert_eq!(
            Value::Object(to_metadata(method, stated, Some("a.pdf"))),
            json!({
                "name": "a.pdf",
                "pages": 12,
                "metadata": {"lent": "perhaps", "id": "mine", "filename": "a.pdf", "empty": ""},
            })
        );
        let named = json!({"name": "stated"});
        let named = named.as_object().expect("it is an object");
        assert_eq!(
            Value::Object(to_metadata(method, named, Some("a.pdf"))),
            json!({"name": "stated"})
        );
    }
}
