use super::*;

/// Returns the document of one method with this HTTP method and a `Thing` as metadata.
fn of_schemas(http_method: &str, schemas: &Value) -> Value {
    of_json(&json!({
        "name": "farm", "version": "v1", "schemas": schemas,
        "methods": {"m": {
            "id": "farm.m", "path": "m", "httpMethod": http_method,
            "request": {"$ref": "Thing"}, "response": {"$ref": "Thing"},
        }},
    }))
}

#[test]
fn schema_is_converted_to_json_schema_2020_12() {
    for (written, expected) in [
        (
            json!({"type": "any", "description": "x"}),
            json!({"description": "x"}),
        ),
        (
            json!({"type": "string", "format": "int64", "minimum": "1"}),
            json!({"type": "string", "format": "int64"}),
        ),
        (
            json!({"type": "integer", "format": "int32", "minimum": "-5", "maximum": 7}),
            json!({"type": "integer", "format": "int32", "minimum": -5, "maximum": 7}),
        ),
        (
            json!({"type": "number", "minimum": "0.5", "default": "1.5"}),
            json!({"type": "number", "minimum": 0.5, "default": 1.5}),
        ),
        (
            json!({"type": "string", "enum": ["a", "b", "a"], "enumDescriptions": ["A", "B", ""], "default": "c"}),
            json!({"type": "string", "enum": ["a", "b"], "x-enum-descriptions": ["A", "B", ""]}),
        ),
        (
            json!({"type": "boolean", "default": "true", "deprecated": true}),
            json!({"type": "boolean", "default": true, "deprecated": true}),
        ),
        (
            json!({"type": "integer", "default": "0", "readOnly": true}),
            json!({"type": "integer", "readOnly": true}),
        ),
        (
            json!({"type": "string", "pattern": "^[a-z]+$", "minLength": 1, "maxLength": 9, "default": "A"}),
            json!({"type": "string", "pattern": "^[a-z]+$", "minLength": 1, "maxLength": 9}),
        ),
        (
            json!({"type": "string", "pattern": "^a|b$"}),
            json!({"type": "string", "pattern": "^(?:^a|b$)$"}),
        ),
        (
            json!({"type": "string", "pattern": "(?=a)"}),
            json!({"type": "string"}),
        ),
        (
            json!({"type": "string", "pattern": "(?i)a"}),
            json!({"type": "string"}),
        ),
        (
            json!({"type": "array", "items": {"$ref": "Thing"}, "maxItems": 3}),
            json!({"type": "array", "items": {"$ref": "#/components/schemas/Thing"}, "maxItems": 3}),
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "any"}}),
            json!({"type": "object", "additionalProperties": {}}),
        ),
        (
            json!({"$ref": "Thing", "description": "Another."}),
            json!({"$ref": "#/components/schemas/Thing", "description": "Another."}),
        ),
    ] {
        let thing = json!({"type": "object", "properties": {"it": written}});
        let document = of_schemas("POST", &json!({"Thing": thing}));
        let converted = &document["components"]["schemas"]["Thing"]["properties"]["it"];
        assert_eq!(*converted, expected, "{written}");
    }
}

#[test]
fn kind_is_a_constant_that_no_client_has_to_send() {
    let kind = json!({"type": "string", "default": "farm#thing", "description": "Always."});
    let thing = json!({"type": "object", "properties": {"kind": kind}});
    let document = of_schemas("POST", &json!({"Thing": thing}));
    let expected = json!({
        "type": "object",
        "properties": {"kind": {"type": "string", "const": "farm#thing", "description": "Always."}},
    });
    assert_eq!(document["components"]["schemas"]["Thing"], expected);
}

#[test]
fn required_properties_are_those_of_the_object() {
    let thing = json!({"type": "object", "properties": {
        "a": {"type": "string", "required": true},
        "b": {"type": "string", "required": true, "readOnly": true},
        "c": {"type": "string"},
    }});
    let document = of_schemas("POST", &json!({"Thing": thing}));
    assert_eq!(
        document["components"]["schemas"]["Thing"]["required"],
        json!(["a"])
    );
}

#[test]
fn what_a_method_demands_is_demanded_in_its_body_alone() {
    let annotated = |id: &str| json!({"type": "string", "annotations": {"required": [id]}});
    let thing = json!({"type": "object", "properties": {"a": annotated("farm.m"), "b": annotated("farm.n")}});
    let document = of_schemas("POST", &json!({"Thing": thing}));
    let body = &operation(&document, "farm.m")["requestBody"];
    let reference = json!({"$ref": "#/components/schemas/Thing"});
    let demands = json!({"type": "object", "required": ["a"]});
    let expected = json!({"allOf": [reference, demands]});
    assert_eq!(body["content"]["application/json"]["schema"], expected);
    assert!(
        document["components"]["schemas"]["Thing"]
            .get("required")
            .is_none()
    );
}

#[test]
fn body_of_a_patch_has_schemas_of_its_own_outside_of_arrays() {
    let schemas = json!({
        "Thing": {"type": "object", "properties": {
            "inner": {"$ref": "Inner"},
            "list": {"type": "array", "items": {"$ref": "Inner"}},
            "map": {"type": "object", "additionalProperties": {"$ref": "Inner"}},
            "self": {"$ref": "Thing", "required": true},
        }},
        "Inner": {"type": "object", "properties": {"a": {"type": "string", "required": true}}},
        "Other": {"type": "object"},
    });
    let document = of_schemas("PATCH", &schemas);
    let patch = operation(&document, "farm.m");
    let body = &patch["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(*body, json!({"$ref": "#/components/schemas/ThingPatch"}));
    let response = &patch["responses"]["200"]["content"]["application/json"]["schema"];
    assert_eq!(*response, json!({"$ref": "#/components/schemas/Thing"}));
    let components = &document["components"]["schemas"];
    let thing = &components["ThingPatch"]["properties"];
    let to = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let or_null = |name: &str| json!({"anyOf": [to(name), {"type": "null"}]});
    assert_eq!(thing["inner"], or_null("InnerPatch"));
    assert_eq!(thing["list"]["items"], to("Inner"));
    assert_eq!(thing["map"]["additionalProperties"], or_null("InnerPatch"));
    assert_eq!(thing["self"], to("ThingPatch"));
    assert!(components["InnerPatch"].get("required").is_none());
    assert_eq!(components["Inner"]["required"], json!(["a"]));
    assert!(components.get("OtherPatch").is_none());
    let document = of_schemas("PUT", &schemas);
    assert!(
        document["components"]["schemas"]
            .get("ThingPatch")
            .is_none()
    );
}

#[test]
fn patch_removes_with_null_what_is_neither_required_nor_set_by_the_server() {
    for (written, expected) in [
        (
            json!({"type": "string", "enum": ["a"], "default": "a"}),
            json!({"type": ["string", "null"], "enum": ["a", null]}),
        ),
        (
            json!({"type": "integer", "required": true, "default": "1"}),
            json!({"type": "integer"}),
        ),
        (
            json!({"type": "string", "readOnly": true}),
            json!({"type": "string", "readOnly": true}),
        ),
        (json!({"type": "any"}), json!({})),
    ] {
        let thing = json!({"type": "object", "properties": {"it": written}});
        let document = of_schemas("PATCH", &json!({"Thing": thing}));
        let converted = &document["components"]["schemas"]["ThingPatch"]["properties"]["it"];
        assert_eq!(*converted, expected, "{written}");
    }
}

#[test]
fn body_is_required_where_the_short_form_requires_a_field() {
    let farm = |field: &str| {
        of_toml(&format!(
            "name = \"farm\"\nversion = \"v1\"\n[collections.animals.schema]\nname = {field}"
        ))
    };
    for (field, required) in [
        ("\"string\"", false),
        ("{ type = \"string\", required = true }", true),
    ] {
        let document = farm(field);
        for (id, expected) in [
            ("farm.animals.insert", required),
            ("farm.animals.update", required),
            ("farm.animals.patch", false),
        ] {
            let body = &operation(&document, id)["requestBody"];
            assert_eq!(body["required"] == true, expected, "{id}, {field}");
        }
    }
}

#[test]
fn keys_of_components_are_made_of_the_characters_that_they_may_have() {
    let document = of_schemas(
        "POST",
        &json!({"Thing": {"$ref": "a/b"}, "a/b": {"type": "string"}, "a_b": {"type": "integer"}}),
    );
    let components = &document["components"]["schemas"];
    assert_eq!(
        components["Thing"],
        json!({"$ref": "#/components/schemas/a_b"})
    );
    assert_eq!(components["a_b"]["type"], "string");
    assert_eq!(components["a_b2"]["type"], "integer");
}

#[test]
fn error_has_a_name_of_its_own_and_is_the_reply_of_every_other_status() {
    let error = json!({"type": "object", "description": "The API's own."});
    let document = of_schemas(
        "POST",
        &json!({"Thing": {"type": "object"}, "Error": error}),
    );
    let components = &document["components"];
    assert_eq!(
        components["schemas"]["Error"]["description"],
        "The API's own."
    );
    let schema = &components["responses"]["Error"]["content"]["application/json"]["schema"];
    assert_eq!(*schema, json!({"$ref": "#/components/schemas/Error2"}));
    let default = &operation(&document, "farm.m")["responses"]["default"];
    assert_eq!(*default, json!({"$ref": "#/components/responses/Error"}));
}

#[test]
fn schema_that_no_method_uses_may_lead_nowhere() {
    let document = of_schemas(
        "POST",
        &json!({"Thing": {"type": "object"}, "Lost": {"$ref": "Nowhere", "description": "x"}}),
    );
    let lost = &document["components"]["schemas"]["Lost"];
    assert_eq!(*lost, json!({"description": "x"}));
}
