mod published;

use serde_json::{Value, json};

use super::*;
use crate::byte_size::{ByteSize, ByteSizeError};
use crate::error::Fault;
use crate::media_range::MediaTypeError;
use crate::parameter::Location;
use crate::pattern::Pattern;
use crate::settings::CreatedStatus;
use crate::template::{Template, TemplateError};

/// A document with a method for each feature that a method can have.
fn library() -> Value {
    json!({
        "name": "library",
        "version": "v1",
        "protocol": "rest",
        "servicePath": "library/v1/",
        "methods": {
            "search": {"id": "library.search", "path": "search", "httpMethod": "GET"}
        },
        "resources": {
            "shelves": {
                "methods": {
                    "list": {"id": "library.shelves.list", "path": "shelves", "httpMethod": "GET"}
                },
                "resources": {
                    "books": {"methods": {
                        "insert": {
                            "id": "library.shelves.books.insert",
                            "path": "shelves/{shelf}/books",
                            "httpMethod": "POST",
                            "parameters": {
                                "shelf": {"type": "string", "location": "path", "required": true},
                                "tag": {
                                    "type": "string", "location": "query", "repeated": true,
                                    "enum": ["a", "b"], "pattern": "[ab]", "default": "a", "format": "byte"
                                }
                            },
                            "parameterOrder": ["shelf"],
                            "request": {"$ref": "Book"},
                            "response": {"$ref": "Book"},
                            "scopes": ["https://scope.example"],
                            "supportsMediaUpload": true,
                            "mediaUpload": {
                                "accept": ["application/pdf", "text/*"],
                                "maxSize": "1GB",
                                "protocols": {"simple": {
                                    "multipart": true,
                                    "path": "/upload/library/v1/shelves/{shelf}/books"
                                }}
                            }
                        }
                    }}
                }
            }
        },
        "schemas": {"Book": {"id": "Book", "type": "object"}}
    })
}

const INSERT: &str = "/resources/shelves/resources/books/methods/insert";
const INSERT_PATH: &str = "resources.shelves.resources.books.methods.insert";

fn compile(document: Value) -> Result<Api, Error> {
    Api::from_document(serde_json::from_value(document).unwrap())
}

/// Sets one value of the library, and compiles it.
fn compile_with(pointer: &str, value: Value) -> Result<Api, Error> {
    let mut document = library();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    document.pointer_mut(parent).unwrap()[field] = value;
    compile(document)
}

/// Checks that the library with this value is refused with this fault at this position.
#[track_caller]
fn check_fault(pointer: &str, value: Value, expected_path: &str, expected: Fault) {
    match compile_with(pointer, value) {
        Err(Error::Document { path, fault }) => {
            assert_eq!((path.as_str(), fault), (expected_path, expected));
        }
        other => panic!("{pointer}: {other:?}"),
    }
}

/// As [`check_fault`], for a field of the insert method.
#[track_caller]
fn check_insert_fault(pointer: &str, value: Value, expected_place: &str, expected: Fault) {
    let path = format!("{INSERT_PATH}.{expected_place}");
    check_fault(&format!("{INSERT}/{pointer}"), value, &path, expected);
}

fn text(text: &str) -> String {
    text.to_owned()
}

#[test]
fn a_method_has_all_that_its_document_says() {
    let api = compile(library()).unwrap();
    assert_eq!((api.name(), api.version()), ("library", "v1"));
    let insert = api.method("library.shelves.books.insert").unwrap();
    assert_eq!(
        (insert.api_name.as_str(), insert.api_version.as_str()),
        ("library", "v1")
    );
    assert_eq!(
        (insert.collection(), insert.verb()),
        ("shelves.books", "insert")
    );
    assert_eq!(insert.http_method, http::Method::POST);
    assert_eq!(insert.template.as_str(), "library/v1/shelves/{shelf}/books");
    assert_eq!(insert.request.as_deref(), Some("Book"));
    assert_eq!(insert.response.as_deref(), Some("Book"));
    assert_eq!(insert.scopes, ["https://scope.example"]);
    assert_eq!(insert.parameter_order, ["shelf"]);
    assert!(!insert.supports_media_download);

    let shelf = insert.parameter("shelf").unwrap();
    assert_eq!(
        (shelf.location, shelf.required, shelf.repeated),
        (Location::Path, true, false)
    );
    let tag = insert.parameter("tag").unwrap();
    assert_eq!(
        (tag.location, tag.required, tag.repeated),
        (Location::Query, false, true)
    );
    assert_eq!(tag.allowed_values, ["a", "b"]);
    assert_eq!(tag.pattern.as_ref().map(Pattern::as_str), Some("[ab]"));
    assert_eq!(tag.default.as_deref(), Some("a"));
    assert_eq!(tag.format.as_deref(), Some("byte"));

    let upload = insert.upload.as_ref().unwrap();
    assert_eq!(upload.max_size, Some(ByteSize::from_bytes(1 << 30)));
    assert!(upload.accepts("text/plain; charset=utf-8"));
    assert!(!upload.accepts("image/png"));
    assert!(upload.simple_multipart);
    let simple = upload.simple_path.as_ref().map(Template::as_str);
    assert_eq!(simple, Some("upload/library/v1/shelves/{shelf}/books"));
    assert_eq!(upload.resumable_path, None);
}

#[test]
fn methods_outside_of_collections_come_first() {
    let api = compile(library()).unwrap();
    let ids: Vec<_> = api
        .methods()
        .iter()
        .map(|method| method.id.as_str())
        .collect();
    assert_eq!(
        ids,
        [
            "library.search",
            "library.shelves.list",
            "library.shelves.books.insert"
        ]
    );
    assert_eq!(
        (api.methods()[0].collection(), api.methods()[0].verb()),
        ("", "search")
    );
}

#[test]
fn sizes_are_read_in_every_spelling() {
    for (written, bytes) in [
        (json!("5GB"), 5 << 30),
        (json!("15728640"), 15_728_640),
        (json!(15_728_640), 15_728_640),
        (json!("5120GB"), 5 << 40),
    ] {
        let api = compile_with(&format!("{INSERT}/mediaUpload/maxSize"), written).unwrap();
        let upload = api
            .method("library.shelves.books.insert")
            .unwrap()
            .upload
            .clone()
            .unwrap();
        assert_eq!(upload.max_size, Some(ByteSize::from_bytes(bytes)));
    }
}

#[test]
fn the_head_of_a_document_is_checked() {
    let not_a_name = |name| Fault::NotAName { name: text(name) };
    check_fault("/name", json!(null), "name", Fault::Missing);
    check_fault("/version", json!(null), "version", Fault::Missing);
    check_fault("/name", json!(""), "name", not_a_name(""));
    check_fault("/name", json!("a/b"), "name", not_a_name("a/b"));
    check_fault("/version", json!(".."), "version", not_a_name(".."));
    check_fault(
        "/protocol",
        json!("rpc"),
        "protocol",
        Fault::NotRest {
            protocol: text("rpc"),
        },
    );
}

#[test]
fn names_of_published_apis_are_names() {
    for name in ["gmail", "adexchangebuyer2", "gamesConfiguration"] {
        assert!(compile_with("/name", json!(name)).is_ok(), "{name}");
    }
    for version in ["v1", "v1.1", "directory_v1", "v1configuration", "v1p1beta1"] {
        assert!(
            compile_with("/version", json!(version)).is_ok(),
            "{version}"
        );
    }
}

#[test]
fn an_api_without_methods_is_refused() {
    let document = json!({"name": "a", "version": "v1", "resources": {"b": {}}});
    let refused = compile(document);
    assert!(
        matches!(&refused, Err(Error::Document { path, fault: Fault::NoMethods }) if path == "resources"),
        "{refused:?}",
    );
}

#[test]
fn every_fault_of_a_method_tells_its_place() {
    let variable = Fault::UndescribedVariable { name: text("tag") };
    let segment = TemplateError::Segment {
        segment: text("{shelf"),
    };
    let range = MediaTypeError::NotTypeAndSubtype { text: text("pdf") };
    let unit = ByteSizeError::UnknownUnit { unit: text("XB") };
    let path = "mediaUpload.protocols.simple.path";
    let no_schema = || Fault::UnknownSchema { name: text("Page") };
    let verb = Fault::HttpMethod {
        http_method: text("G T"),
    };
    let order = Fault::UnknownParameter { name: text("row") };
    let location = Fault::Location {
        location: text("body"),
    };

    check_insert_fault("id", json!(null), "id", Fault::Missing);
    check_insert_fault("path", json!(null), "path", Fault::Missing);
    check_insert_fault("path", json!("{shelf"), "path", segment.into());
    check_insert_fault("path", json!("{shelf}/{tag}"), "path", variable.clone());
    check_insert_fault("httpMethod", json!(null), "httpMethod", Fault::Missing);
    check_insert_fault("httpMethod", json!("G T"), "httpMethod", verb);
    check_insert_fault(
        "request",
        json!({"$ref": "Page"}),
        "request.$ref",
        no_schema(),
    );
    check_insert_fault(
        "response",
        json!({"$ref": "Page"}),
        "response.$ref",
        no_schema(),
    );
    check_insert_fault(
        "parameterOrder",
        json!(["shelf", "row"]),
        "parameterOrder[1]",
        order,
    );
    check_insert_fault(
        "parameters/tag/location",
        json!("body"),
        "parameters.tag.location",
        location,
    );
    check_insert_fault(
        "parameters/tag/location",
        json!(null),
        "parameters.tag.location",
        Fault::Missing,
    );
    check_insert_fault(
        "mediaUpload/accept",
        json!(["*/*", "pdf"]),
        "mediaUpload.accept[1]",
        range.into(),
    );
    check_insert_fault(
        "mediaUpload/maxSize",
        json!("5XB"),
        "mediaUpload.maxSize",
        unit.into(),
    );
    check_insert_fault(
        "mediaUpload/maxSize",
        json!(1.5),
        "mediaUpload.maxSize",
        Fault::NotASize,
    );
    check_insert_fault(
        "mediaUpload/protocols/simple/path",
        json!("/upload/{tag}"),
        path,
        variable,
    );
}

#[test]
fn fault_message_contains_path_and_reason() {
    let refused = compile_with(&format!("{INSERT}/mediaUpload/maxSize"), json!("5XB")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "resources.shelves.resources.books.methods.insert.mediaUpload.maxSize: \
         `XB` is not a unit of size; use B, KB, MB, GB or TB"
    );
}

#[test]
fn two_methods_never_share_an_id_or_their_paths() {
    let copy = |id, path| json!({"id": id, "path": path, "httpMethod": "GET"});
    let first = || text("methods.search");
    let field_path = "resources.shelves.methods.copy";
    let check = |method, field: &str, fault| {
        check_fault(
            "/resources/shelves/methods/copy",
            method,
            &format!("{field_path}.{field}"),
            fault,
        );
    };
    check(
        copy("library.search", "elsewhere"),
        "id",
        Fault::DuplicateId { first: first() },
    );
    check(
        copy("library.find", "search"),
        "path",
        Fault::CollidingPath { first: first() },
    );
    check(
        copy("library.find", "/search"),
        "path",
        Fault::CollidingPath { first: first() },
    );
}

#[test]
fn equal_templates_are_told_apart_by_their_patterns() {
    let method = |id: &str, pattern: &str| {
        json!({
            "id": id, "path": "v1/{+name}", "httpMethod": "GET",
            "parameters": {"name": {"location": "path", "pattern": pattern}}
        })
    };
    let document = |second: &str| {
        json!({"name": "a", "version": "v1", "methods": {
            "x": method("a.x", "^projects/[^/]+$"),
            "y": method("a.y", second),
        }})
    };
    assert!(compile(document("^folders/[^/]+$")).is_ok());
    assert!(compile(document("^projects/[a-z]+$")).is_err());
}

#[test]
fn text_that_is_no_document_is_refused() {
    assert!(matches!(Api::from_json("{"), Err(Error::Json(_))));
    assert!(matches!(Api::from_json("[]"), Err(Error::Json(_))));
    assert!(matches!(Api::from_json("{} {}"), Err(Error::Json(_))));
}

#[test]
fn published_document_answers_200_and_the_short_form_201() {
    let published = compile(library()).unwrap();
    assert_eq!(published.settings().created_status, CreatedStatus::Ok);
    let short = Api::from_toml("name = \"a\"\nversion = \"v1\"\n[collections.b]\n").unwrap();
    assert_eq!(short.settings().created_status, CreatedStatus::Created);
}

#[test]
fn settings_travel_beside_the_document() {
    let settings = Settings {
        created_status: CreatedStatus::Created,
        ..Settings::default()
    };
    let api = compile(library()).unwrap();
    assert_eq!(
        api.settings().created_status.status_code(),
        http::StatusCode::OK
    );
    let document = api.document().clone();
    let api = api.with_settings(settings);
    assert_eq!(
        api.settings().created_status.status_code(),
        http::StatusCode::CREATED
    );
    assert_eq!(*api.document(), document);
}

#[test]
fn the_longest_of_what_comes_before_names_is_the_first() {
    let api = |paths: [&str; 2]| {
        let described = json!({"type": "string", "location": "path", "required": true});
        let [first, second] = paths.map(|path| {
            let variables = Template::parse(path).unwrap();
            let parameters: serde_json::Map<_, _> = variables
                .variables()
                .map(|name| (name.to_owned(), described.clone()))
                .collect();
            json!({"id": path, "path": path, "httpMethod": "GET", "parameters": parameters})
        });
        let methods = json!({"first": first, "second": second});
        let document = json!({"name": "things", "version": "v1", "methods": methods});
        Api::from_json(&document.to_string()).unwrap()
    };
    let named = api(["a/{+name}", "longer/{+name}"]);
    assert_eq!(named.name_prefixes(), ["longer/", "a/"]);
    let unnamed = api(["a/{thing}", "b/{thing}/{+name}"]);
    assert!(unnamed.name_prefixes().is_empty());
}
