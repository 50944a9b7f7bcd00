use serde_json::{Value, json};

use super::*;

/// A document without findings.
fn library() -> Value {
    json!({
        "name": "library",
        "version": "v1",
        "servicePath": "library/v1/",
        "methods": {
            "insert": {
                "id": "library.insert",
                "path": "{+shelf}/books",
                "httpMethod": "POST",
                "parameters": {
                    "shelf": {
                        "type": "string", "location": "path", "required": true,
                        "pattern": "^shelves/[^/]+$"
                    },
                    "limit": {
                        "type": "integer", "location": "query", "minimum": "1", "maximum": "9"
                    },
                    "tag": {
                        "type": "string", "location": "query", "enum": ["a", "b"], "default": "a"
                    }
                },
                "request": {"$ref": "Book"},
                "response": {"$ref": "Book"},
                "supportsMediaUpload": true,
                "mediaUpload": {
                    "accept": ["application/pdf"],
                    "maxSize": "1GB",
                    "protocols": {
                        "simple": {
                            "multipart": true,
                            "path": "/upload/library/v1/{+shelf}/books"
                        },
                        "resumable": {
                            "multipart": true,
                            "path": "/resumable/upload/library/v1/{+shelf}/books"
                        }
                    }
                }
            }
        },
        "schemas": {"Book": {"id": "Book", "type": "object"}}
    })
}

/// Returns the findings for the library document with these values set. `null` removes a value.
fn findings_with(changes: &[(&str, Value)]) -> Vec<String> {
    let mut document = library();
    for (pointer, value) in changes {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        let parent = document.pointer_mut(parent).unwrap();
        match value {
            Value::Null => drop(parent.as_object_mut().unwrap().remove(field)),
            value => parent[field] = value.clone(),
        }
    }
    let document = serde_json::from_value(document).unwrap();
    lint(&document).iter().map(ToString::to_string).collect()
}

/// Checks that one change of the insert method has exactly one finding.
#[track_caller]
fn check_insert(pointer: &str, value: Value, expected: &str) {
    let found = findings_with(&[(&format!("/methods/insert{pointer}"), value)]);
    assert_eq!(found, [expected.replace(": .", ": methods.insert.")]);
}

#[test]
fn good_document_has_no_findings() {
    assert_eq!(findings_with(&[]), [""; 0]);
}

#[test]
fn uploads_are_where_clients_expect_them_and_as_they_are_announced() {
    check_insert(
        "/supportsMediaUpload",
        Value::Null,
        "warning: .mediaUpload: `supportsMediaUpload` is not set, so many clients offer no upload",
    );
    check_insert(
        "/mediaUpload",
        Value::Null,
        "warning: .supportsMediaUpload: there is no `mediaUpload`, so no media is taken",
    );
    check_insert(
        "/mediaUpload/protocols/simple/path",
        json!("/up/{+shelf}"),
        "warning: .mediaUpload.protocols.simple.path: the path is not \
         `/upload/library/v1/{+shelf}/books`, where many clients upload to",
    );
    check_insert(
        "/mediaUpload/protocols/resumable/path",
        json!("/upload/library/v1/{+shelf}/books"),
        "warning: .mediaUpload.protocols.resumable.path: the path is not \
         `/resumable/upload/library/v1/{+shelf}/books`, where many clients upload to",
    );
    check_insert(
        "/mediaUpload/protocols",
        json!({}),
        "warning: .mediaUpload.protocols: neither `simple` nor `resumable` is there, \
         so no client knows where media goes",
    );
    check_insert(
        "/mediaUpload/maxSize",
        Value::Null,
        "warning: .mediaUpload: there is no `maxSize`, so media of any size is taken",
    );
    check_insert(
        "/response",
        Value::Null,
        "warning: methods.insert: there is no `response`, \
         so clients learn nothing of what they uploaded",
    );
}

#[test]
fn parameters_allow_some_value_and_are_in_the_path_that_they_say() {
    check_insert(
        "/parameters/shelf/required",
        Value::Null,
        "warning: .parameters.shelf: a parameter in the path is always required",
    );
    check_insert(
        "/parameters/tag/location",
        json!("path"),
        "warning: .parameters.tag: the path has no variable `tag`",
    );
    check_insert(
        "/parameters/tag/default",
        json!("c"),
        "warning: .parameters.tag.default: `c` is none of the allowed values",
    );
    check_insert(
        "/parameters/limit/minimum",
        json!("10"),
        "warning: .parameters.limit: no number is between `minimum` and `maximum`",
    );
    check_insert(
        "/parameters/tag/pattern",
        json!("a(?=b)"),
        "warning: .parameters.tag.pattern: the pattern `a(?=b)` cannot be checked: \
         look-around is not supported; every value fits",
    );
}

#[test]
fn lint_reports_errors_before_warnings() {
    let found = findings_with(&[
        ("/version", json!("..")),
        ("/protocol", json!("rpc")),
        ("/methods/insert/id", Value::Null),
        ("/methods/insert/httpMethod", json!("G T")),
        ("/methods/insert/parameterOrder", json!(["x", "shelf", "y"])),
        ("/methods/insert/parameters/tag/location", json!("body")),
        ("/methods/insert/parameters/limit/minimum", json!("few")),
        ("/methods/insert/mediaUpload/maxSize", json!("5XB")),
        (
            "/methods/insert/mediaUpload/accept",
            json!(["pdf", "a/b", "html"]),
        ),
        (
            "/methods/insert/mediaUpload/protocols/simple/path",
            json!("/{x}"),
        ),
        (
            "/schemas/Book/properties",
            json!({"author": {"$ref": "Author"}}),
        ),
        (
            "/schemas/Page",
            json!({"properties": {"text": {"$ref": "Text"}}}),
        ),
    ]);
    let field_paths: Vec<_> = found
        .iter()
        .map(|it| it.rsplit_once(": ").unwrap().0)
        .collect();
    let insert = |rest: &str| format!("error: methods.insert.{rest}");
    let protocols = "methods.insert.mediaUpload.protocols";
    let expected = [
        "error: protocol".to_owned(),
        "error: version".to_owned(),
        insert("parameters.limit.minimum"),
        insert("parameters.tag.location"),
        insert("parameterOrder[0]"),
        insert("parameterOrder[2]"),
        insert("mediaUpload.maxSize"),
        insert("mediaUpload.protocols.simple.path"),
        insert("mediaUpload.accept[0]"),
        insert("mediaUpload.accept[2]"),
        insert("id"),
        insert("httpMethod"),
        "error: schemas.Book.properties.author.$ref".to_owned(),
        format!("warning: {protocols}.simple.path"),
        "warning: schemas.Page.properties.text.$ref".to_owned(),
    ];
    assert_eq!(field_paths, expected, "{found:#?}");
}

#[test]
fn methods_that_cannot_be_told_apart_are_told_of_at_the_second() {
    let second = json!({"id": "library.insert", "path": "{+shelf}/books", "httpMethod": "POST",
        "parameters": {"shelf": {"location": "path", "required": true, "pattern": "^shelves/[^/]+$"}}});
    let found = findings_with(&[("/methods/second", second)]);
    assert_eq!(
        found,
        [
            "error: methods.second.id: the method at methods.insert has the same id",
            "error: methods.second.path: the method at methods.insert matches the same paths",
        ]
    );
}

#[test]
fn pattern_without_a_maximum_length_is_told() {
    let title = "/schemas/Book/properties";
    let told = |bounds: Value| {
        let mut property = json!({"type": "string", "pattern": "^([^\n]*\n?){0,100}$"});
        property
            .as_object_mut()
            .unwrap()
            .extend(bounds.as_object().unwrap().clone());
        findings_with(&[(title, json!({"title": property}))])
    };
    let expected = "warning: schemas.Book.properties.title.pattern: no `max_length` (`maxLength`) \
                    bounds the work of the pattern, so text of more than 131072 bytes is refused";
    assert_eq!(told(json!({})), [expected]);
    assert_eq!(told(json!({"maxLength": 200_000})), [expected]);
    assert_eq!(told(json!({"maxLength": 2000})), [""; 0]);
    assert_eq!(told(json!({"pattern": "(a"})), [""; 0], "it is not checked");
}
