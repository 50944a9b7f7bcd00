//! The contents of published documents, and the errors for wrong contents.

use super::*;

#[test]
fn a_value_of_a_wrong_json_type_is_refused_with_its_path() {
    for (pointer, value, path, message) in [
        ("/resources", json!([]), "resources", "expected a map"),
        ("/name", json!(1), "name", "integer `1`, expected a string"),
        (
            &format!("{INSERT}/mediaUpload/accept"),
            json!(["*/*", 5]),
            &format!("{INSERT_PATH}.mediaUpload.accept[1]"),
            "expected a string",
        ),
        (
            &format!("{INSERT}/parameters/tag/required"),
            json!("yes"),
            &format!("{INSERT_PATH}.parameters.tag.required"),
            "expected a boolean",
        ),
        (
            "/schemas/Book",
            json!({"properties": {"author": {"items": {"$ref": []}}}}),
            "schemas.Book.properties.author.items.$ref",
            "expected a string",
        ),
    ] {
        let mut document = library();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        document.pointer_mut(parent).unwrap()[field] = value;
        let error = Api::from_json(&document.to_string()).unwrap_err();
        assert!(matches!(error, Error::Shape { .. }), "{error:?}");
        let error = error.to_string();
        assert!(
            error.starts_with(&format!("{path}: invalid type")),
            "{error}"
        );
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn an_unknown_reference_is_found_however_deep_it_is() {
    let chapter = |inner: Value| json!({"id": "Chapter", "properties": {"pages": inner}});
    let unknown = || Fault::UnknownSchema { name: text("Page") };
    for (inner, field_path) in [
        (json!({"$ref": "Page"}), "$ref"),
        (json!({"items": {"$ref": "Page"}}), "items.$ref"),
        (
            json!({"additionalProperties": {"items": {"$ref": "Page"}}}),
            "additionalProperties.items.$ref",
        ),
    ] {
        let schemas = json!({
            "Book": {"properties": {"chapters": {"items": {"$ref": "Chapter"}}}},
            "Chapter": chapter(inner.clone()),
        });
        let path = format!("schemas.Chapter.properties.pages.{field_path}");
        check_fault("/schemas", schemas, &path, unknown());
        let unused = json!({"Book": {}, "Chapter": chapter(inner)});
        assert!(compile_with("/schemas", unused).is_ok(), "{field_path}");
    }
    let inline = json!({"properties": {"page": {"$ref": "Page"}}});
    check_insert_fault("request", inline, "request.properties.page.$ref", unknown());
}

#[test]
fn schemas_may_refer_to_themselves() {
    let schemas = json!({"Book": {"properties": {"sequel": {"$ref": "Book"}}}});
    assert!(compile_with("/schemas", schemas).is_ok());
}

#[test]
fn paths_have_custom_verbs_and_variables_with_slashes() {
    let method = |id: &str, verb: &str, path: &str| {
        json!({"id": id, "path": path, "httpMethod": verb, "useMediaDownloadService": true,
            "parameters": {"name": {"location": "path", "pattern": "^shelves/[^/]+$"}}})
    };
    let api = compile(json!({"name": "a", "version": "v1", "methods": {
        "x": method("a.x", "PATCH", "v1/{+name}"),
        "y": method("a.y", "PUT", "v1/{+name}:upload"),
    }}));
    let api = api.unwrap();
    let shelf = |id: &str, path: &str| {
        let found = api.method(id).unwrap().template.match_path(path)?;
        found.value("name").map(str::to_owned)
    };
    assert_eq!(shelf("a.x", "/v1/shelves/1"), Some(text("shelves/1")));
    assert_eq!(shelf("a.x", "/v1/shelves/1/2"), None);
    assert_eq!(
        shelf("a.y", "/v1/shelves/1:upload"),
        Some(text("shelves/1"))
    );
    assert_eq!(api.methods()[0].http_method, http::Method::PATCH);
    assert!(api.methods()[1].use_media_download_service);
}

#[test]
fn a_pattern_that_cannot_be_used_spares_the_document() {
    let pointer = format!("{INSERT}/parameters/tag/pattern");
    let api = compile_with(&pointer, json!("(?!a)b")).unwrap();
    let tag = api.method("library.shelves.books.insert").unwrap();
    let pattern = tag.parameter("tag").unwrap().pattern.clone().unwrap();
    assert!(pattern.problem().is_some() && pattern.fits("a"));
}
