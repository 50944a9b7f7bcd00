use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::*;
use crate::method_table::{Found, MethodTable, Target};

mod paths;
mod schemas;
mod uploads;

fn of_toml(text: &str) -> Value {
    let document = document(&Api::from_toml(text).unwrap(), "http://farm.example/");
    check(&document);
    document
}

fn of_json(written: &Value) -> Value {
    let api = Api::from_json(&written.to_string()).unwrap();
    let document = document(&api, "http://farm.example/");
    check(&document);
    document
}

/// The operations with their path and their HTTP method.
fn operations(document: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    paths.iter().flat_map(|(path, item)| {
        let item = item.as_object().unwrap();
        item.iter()
            .map(move |(verb, operation)| (path.as_str(), verb.as_str(), operation))
    })
}

fn operation<'a>(document: &'a Value, id: &str) -> &'a Value {
    let mut found = operations(document).filter(|(_, _, it)| it["operationId"] == id);
    let (_, _, operation) = found.next().unwrap_or_else(|| panic!("no operation {id}"));
    operation
}

fn ids(document: &Value) -> Vec<&str> {
    let ids = operations(document).map(|(_, _, it)| it["operationId"].as_str().unwrap());
    ids.collect()
}

/// Where an operation is, e.g. `post /farm/v1/animals`.
fn place(document: &Value, id: &str) -> String {
    let mut found = operations(document).filter(|(_, _, it)| it["operationId"] == id);
    let (path, verb, _) = found.next().unwrap_or_else(|| panic!("no operation {id}"));
    format!("{verb} {path}")
}

fn parameter<'a>(operation: &'a Value, name: &str) -> Option<&'a Value> {
    let parameters = operation["parameters"].as_array().unwrap();
    parameters.iter().find(|it| it["name"] == name)
}

/// Checks the rules of OpenAPI that its JSON schema cannot express.
fn check(document: &Value) {
    let mut references = Vec::new();
    collect_references(document, &mut references);
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(
            document.pointer(pointer).is_some(),
            "{reference} is missing"
        );
    }
    let ids = ids(document);
    let unique: BTreeSet<_> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len(), "{ids:?}");
    let paths = document["paths"].as_object().unwrap();
    let shapes: BTreeSet<_> = paths.keys().map(|path| variables(path).0).collect();
    assert_eq!(shapes.len(), paths.len(), "paths differ in names alone");
    for (path, _, operation) in operations(document) {
        check_parameters(document, path, operation);
        assert!(operation["responses"]["default"].is_object(), "{path}");
    }
    for kind in document["components"].as_object().unwrap().values() {
        for key in kind.as_object().unwrap().keys() {
            let allowed = |it: char| it.is_ascii_alphanumeric() || "._-".contains(it);
            assert!(!key.is_empty() && key.chars().all(allowed), "{key}");
        }
    }
}

/// Each variable of a path is a required parameter, and no parameter is there twice.
fn check_parameters(document: &Value, path: &str, operation: &Value) {
    let parameters = operation["parameters"].as_array().unwrap().iter();
    let resolved = parameters.map(|it| match it.get("$ref") {
        Some(reference) => document.pointer(&reference.as_str().unwrap()[1..]).unwrap(),
        None => it,
    });
    let named: Vec<_> = resolved.collect();
    let unique: BTreeSet<_> = named
        .iter()
        .map(|it| (it["name"].to_string(), it["in"].to_string()))
        .collect();
    assert_eq!(unique.len(), named.len(), "{operation}");
    let in_path = named.iter().filter(|it| it["in"] == "path");
    let in_path: Vec<_> = in_path
        .map(|it| {
            assert_eq!(it["required"], true);
            it["name"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(in_path, variables(path).1, "{path}");
}

/// A path without the names of its variables, and the names.
fn variables(path: &str) -> (String, Vec<String>) {
    let (mut shape, mut names) = (String::new(), Vec::new());
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').unwrap();
        shape.extend([before, "{}"]);
        names.push(name.to_owned());
        rest = after;
    }
    (shape + rest, names)
}

fn collect_references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str));
            for value in fields.values() {
                collect_references(value, found);
            }
        }
        Value::Array(elements) => {
            for value in elements {
                collect_references(value, found);
            }
        }
        _ => {}
    }
}

/// The descriptions of the built-in APIs and of the examples.
fn descriptions(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // These files are tables of inputs and not descriptions.
        if path.file_stem().is_some_and(|it| it == "inputs") {
            continue;
        }
        if path.is_dir() {
            descriptions(&path, found);
        } else if path.extension().is_some_and(|it| it == "toml") {
            let text = fs::read_to_string(&path).unwrap();
            // One description has its version in the code.
            let version = if text.contains("\nversion = ") {
                ""
            } else {
                "version = \"v1\"\n"
            };
            let text = format!("{version}{text}");
            found.push((path.display().to_string(), text));
        }
    }
}

#[test]
fn every_method_of_every_description_in_the_repository_is_described() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    descriptions(&root.join("crates/apis/src"), &mut found);
    descriptions(&root.join("examples/album"), &mut found);
    assert!(found.len() > 9, "{}", found.len());
    for (path, text) in found {
        let api = Api::from_toml(&text).unwrap();
        let document = of_toml(&text);
        let ids: BTreeSet<_> = ids(&document).into_iter().collect();
        for method in api.methods() {
            let id = method.id.as_str();
            assert!(ids.contains(id), "{path}: {id}");
            let more = |suffix: &str| ids.contains(format!("{id}.{suffix}").as_str());
            let takes_media = method.upload.is_some();
            assert_eq!(more("upload"), takes_media, "{path}: {id}");
            assert_eq!(more("resumable"), takes_media, "{path}: {id}");
        }
        let info = document["info"].to_string();
        assert!(!info.contains("Not described"), "{path}");
        check_routes(&api, &document);
    }
}

/// Each operation is where requests find its method.
fn check_routes(api: &Api, document: &Value) {
    let table = MethodTable::new([api]);
    for (path, verb, operation) in operations(document) {
        let (shape, _) = variables(path);
        let path = shape.replace("{}", "x");
        let id = operation["operationId"].as_str().unwrap();
        if id.ends_with(".resumable.append") || id.ends_with(".resumable.cancel") {
            // A session is found by its id, not by its method.
            assert!(table.methods_at(&path).next().is_some(), "{path}");
            continue;
        }
        let http_method = verb.to_ascii_uppercase().parse().unwrap();
        let Found::Method { method, target, .. } = table.find(&http_method, &path) else {
            panic!("{id} is not found at {path}");
        };
        let expected = match id.strip_prefix(method.id.as_str()) {
            Some("") => Target::Plain,
            Some(".upload" | ".resumable") => Target::Upload,
            Some(".media") => Target::Download,
            _ => panic!("{id} is that of {}", method.id),
        };
        assert_eq!(target, expected, "{id}");
    }
}

#[test]
fn head_of_the_document_is_that_of_the_description() {
    let mut written = serde_json::json!({
        "name": "farm", "version": "v1", "servicePath": "farm/v1/",
        "methods": {"ping": {"id": "farm.ping", "path": "ping", "httpMethod": "GET"}},
    });
    let document = of_json(&written);
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["servers"], json!([{"url": "http://farm.example"}]));
    assert_eq!(document["info"], json!({"title": "farm", "version": "v1"}));
    assert_eq!(place(&document, "farm.ping"), "get /farm/v1/ping");
    assert_eq!(operation(&document, "farm.ping")["tags"], json!(["farm"]));
    written["title"] = "Farm API".into();
    written["description"] = "Animals.".into();
    written["documentationLink"] = "https://farm.example/help".into();
    let document = of_json(&written);
    let info = json!({"title": "Farm API", "description": "Animals.", "version": "v1"});
    assert_eq!(document["info"], info);
    let link = json!({"url": "https://farm.example/help"});
    assert_eq!(document["externalDocs"], link);
}

#[test]
fn each_scope_of_a_method_is_enough_and_a_session_needs_none() {
    let document = of_json(&json!({
        "name": "farm", "version": "v1",
        "auth": {"oauth2": {"scopes": {"https://s/a": {"description": "All."}}}},
        "methods": {
            "put": {
                "id": "farm.put", "path": "put", "httpMethod": "POST",
                "scopes": ["https://s/a", "https://s/b"],
                "mediaUpload": {"accept": ["*/*"]},
            },
            "ping": {"id": "farm.ping", "path": "ping", "httpMethod": "GET"},
        },
    }));
    let either = json!([{"bearer": ["https://s/a"]}, {"bearer": ["https://s/b"]}]);
    for id in ["farm.put", "farm.put.upload", "farm.put.resumable"] {
        assert_eq!(operation(&document, id)["security"], either, "{id}");
    }
    for id in ["farm.put.resumable.append", "farm.put.resumable.cancel"] {
        let optional = json!([{}, {"bearer": []}]);
        assert_eq!(operation(&document, id)["security"], optional, "{id}");
    }
    assert!(operation(&document, "farm.ping").get("security").is_none());
    let scheme = &document["components"]["securitySchemes"]["bearer"];
    assert_eq!(
        (&scheme["type"], &scheme["scheme"]),
        (&"http".into(), &"bearer".into())
    );
    assert!(
        scheme["description"]
            .as_str()
            .unwrap()
            .contains("- `https://s/a`: All.")
    );
    let farm = of_toml("name = \"farm\"\nversion = \"v1\"\n[collections.animals]");
    assert!(farm["components"].get("securitySchemes").is_none());
}

#[test]
fn names_that_are_taken_get_a_number() {
    let mut names = UniqueNames::default();
    let given = ["a", "a2", "a", "a"].map(|wish| names.unique(wish));
    assert_eq!(given, ["a", "a2", "a3", "a4"]);
}
