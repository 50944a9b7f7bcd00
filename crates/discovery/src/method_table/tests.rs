use serde_json::{Value, json};

use super::*;

/// An API of `(verb, http method, path)`; methods with an `upload` before their verb take media,
/// those with a `download` give it.
fn api(name: &str, methods: &[(&str, &str, &str)]) -> Api {
    let method = |(verb, http_method, path): &(&str, &str, &str)| {
        let description = json!({
            "id": format!("{name}.{verb}"),
            "httpMethod": http_method,
            "path": path,
            "parameters": parameters(path),
            "mediaUpload": verb.starts_with("upload").then(|| json!({"protocols": {}})),
            "supportsMediaDownload": verb.starts_with("download"),
        });
        ((*verb).to_owned(), description)
    };
    let methods: serde_json::Map<_, _> = methods.iter().map(method).collect();
    let document = json!({"name": name, "version": "v1", "methods": methods});
    Api::from_document(serde_json::from_value(document).unwrap()).unwrap()
}

/// Every variable of the path as a parameter, some with a pattern.
fn parameters(path: &str) -> Value {
    let template = Template::parse(path).unwrap();
    let parameter = |name: &str| {
        let pattern = match name {
            "project" => Some("^projects/[^/]+$"),
            "policy" => Some("^projects/[^/]+/policy$"),
            _ => None,
        };
        (
            name.to_owned(),
            json!({"location": "path", "pattern": pattern}),
        )
    };
    Value::Object(template.variables().map(parameter).collect())
}

fn mail() -> Api {
    api(
        "mail",
        &[
            ("list", "GET", "v1/messages"),
            ("uploadInsert", "POST", "v1/messages"),
            ("uploadSend", "POST", "v1/messages/send"),
            ("get", "GET", "v1/messages/{id}"),
            ("uploadUpdate", "PUT", "v1/messages/{id}"),
            ("delete", "DELETE", "v1/messages/{id}"),
            ("uploadImport", "POST", "v1/{+parent}/messages:import"),
            ("getAny", "GET", "v1/{+name}"),
            ("getProject", "GET", "v1/{+project}"),
            ("uploadProject", "POST", "v1/{+project}:upload"),
            ("test", "POST", "v1/{+policy}:test"),
            ("listAny", "GET", "v1/{+name}/all"),
        ],
    )
}

/// Describes the match in a line: `id target name=value`, `wrong verb GET POST` or `nothing`.
fn describe(found: &Found<'_>) -> String {
    match found {
        Found::Method {
            method,
            target,
            parameters,
        } => {
            let values = parameters
                .iter()
                .map(|(name, value)| format!(" {name}={value}"));
            format!("{} {target:?}{}", method.id, values.collect::<String>())
        }
        Found::WrongHttpMethod { allowed } => {
            allowed.iter().fold("wrong verb".to_owned(), |line, verb| {
                format!("{line} {verb}")
            })
        }
        Found::Nothing => "nothing".to_owned(),
    }
}

#[track_caller]
fn check(http_method: &str, path: &str, expected: &str) {
    let table = MethodTable::new([&mail()]);
    let found = table.find(&http_method.parse().unwrap(), path);
    assert_eq!(describe(&found), expected, "{http_method} {path}");
}

#[test]
fn a_method_is_found_by_verb_and_path() {
    check("GET", "/v1/messages", "mail.list Plain");
    check("POST", "/v1/messages", "mail.uploadInsert Plain");
    check("GET", "/v1/messages/7", "mail.get Plain id=7");
    check("DELETE", "/v1/messages/a%2Fb", "mail.delete Plain id=a/b");
}

#[test]
fn an_upload_method_is_found_at_both_upload_paths() {
    check("POST", "/upload/v1/messages", "mail.uploadInsert Upload");
    check(
        "POST",
        "/resumable/upload/v1/messages",
        "mail.uploadInsert Upload",
    );
    check(
        "PUT",
        "/upload/v1/messages/7",
        "mail.uploadUpdate Upload id=7",
    );
    check(
        "PUT",
        "/resumable/upload/v1/messages/a%2Fb",
        "mail.uploadUpdate Upload id=a/b",
    );
    check(
        "POST",
        "/upload/v1/projects/p:upload",
        "mail.uploadProject Upload project=projects/p",
    );
    check(
        "POST",
        "/upload/v1/x/y/messages:import",
        "mail.uploadImport Upload parent=x/y",
    );
}

#[test]
fn a_custom_verb_may_follow_the_last_word_of_a_pattern() {
    check(
        "POST",
        "/v1/projects/p/policy:test",
        "mail.test Plain policy=projects/p/policy",
    );
}

#[test]
fn a_method_without_media_has_no_upload_path() {
    check("DELETE", "/upload/v1/messages/7", "wrong verb PUT");
    check("GET", "/resumable/v1/messages", "nothing");
}

#[test]
fn the_narrowest_template_wins() {
    check("POST", "/v1/messages/send", "mail.uploadSend Plain");
    check(
        "GET",
        "/v1/projects/p",
        "mail.getProject Plain project=projects/p",
    );
    check(
        "GET",
        "/v1/projects/p/q",
        "mail.getAny Plain name=projects/p/q",
    );
    check("GET", "/v1/x", "mail.getAny Plain name=x");
    check("GET", "/v1/x/y/all", "mail.listAny Plain name=x/y");
}

#[test]
fn a_wider_template_with_the_right_verb_beats_a_narrower_one_without() {
    check("GET", "/v1/messages/send", "mail.get Plain id=send");
}

#[test]
fn a_wrong_verb_tells_the_right_ones_once() {
    check("PUT", "/v1/messages", "wrong verb GET POST");
    check("GET", "/upload/v1/messages", "wrong verb POST");
    check("PATCH", "/v1/messages/7", "wrong verb DELETE GET PUT");
}

#[test]
fn other_paths_are_nothing() {
    for path in [
        "",
        "/",
        "//",
        "/v1",
        "/v1/",
        "/v2/messages",
        "/upload",
        "/upload/",
        "/upload//v1/messages",
        "//v1/messages",
        "/upload/upload/v1/messages",
        "/v1/messages/%FF",
        "/upload/v1/messages/",
    ] {
        check("POST", path, "nothing");
    }
}

#[test]
fn all_methods_at_a_path_are_listed() {
    let table = MethodTable::new([&mail()]);
    let ids: Vec<_> = table
        .methods_at("/v1/messages/send")
        .map(|method| method.verb())
        .collect();
    assert_eq!(
        ids,
        ["uploadSend", "delete", "get", "uploadUpdate", "getAny"]
    );
}

#[test]
fn between_apis_the_narrower_template_wins_and_then_the_first_api() {
    let first = api(
        "first",
        &[("get", "GET", "v1/{+name}"), ("list", "GET", "v1/all")],
    );
    let second = api(
        "second",
        &[("get", "GET", "v1/{+name}"), ("one", "GET", "v1/{id}")],
    );
    let table = MethodTable::new([&first, &second]);
    let found = |path| describe(&table.find(&HttpMethod::GET, path));
    assert_eq!(found("/v1/a/b"), "first.get Plain name=a/b");
    assert_eq!(found("/v1/a"), "second.one Plain id=a");
    assert_eq!(found("/v1/all"), "first.list Plain");
}

#[test]
fn an_earlier_group_wins_over_a_narrower_template_of_a_later_one() {
    let first = api("first", &[("get", "GET", "v1/{+name}")]);
    let second = api(
        "second",
        &[("list", "GET", "v1/all"), ("delete", "DELETE", "v1/all")],
    );
    let table = MethodTable::of_groups([[&first], [&second]]);
    let found = |verb| describe(&table.find(&verb, "/v1/all"));
    assert_eq!(found(HttpMethod::GET), "first.get Plain name=all");
    assert_eq!(found(HttpMethod::DELETE), "second.delete Plain");
    assert_eq!(found(HttpMethod::PUT), "wrong verb GET DELETE");
}

#[test]
fn a_method_that_gives_media_is_found_at_its_download_path() {
    let api = api(
        "disk",
        &[
            ("downloadFile", "GET", "v1/files/{id}"),
            ("list", "GET", "v1/files"),
        ],
    );
    let table = MethodTable::new([&api]);
    let found = |verb, path| describe(&table.find(&verb, path));
    assert_eq!(
        found(HttpMethod::GET, "/download/v1/files/a%2Fb"),
        "disk.downloadFile Download id=a/b"
    );
    assert_eq!(
        found(HttpMethod::PUT, "/download/v1/files/a"),
        "wrong verb GET"
    );
    assert_eq!(found(HttpMethod::GET, "/download/v1/files"), "nothing");
}

/// Returns the collision between an API with these methods and a second API, which has `GET
/// v1/{name}` and the upload `POST v1/all`.
fn collision(methods: &[(&str, &str, &str)]) -> Option<String> {
    let first = api(
        "first",
        &[
            ("get", "GET", "v1/{name}"),
            ("uploadAll", "POST", "v1/all"),
            ("downloadOne", "GET", "v1/one/{id}"),
        ],
    );
    let table = MethodTable::new([&first, &api("second", methods)]);
    table.collision().map(|collision| collision.to_string())
}

#[test]
fn methods_of_two_apis_with_the_same_verb_and_paths_collide() {
    let expected = "first.get of first:v1 and second.find of second:v1 both answer GET /v1/{id}";
    assert_eq!(
        collision(&[("find", "GET", "v1/{id}")]).as_deref(),
        Some(expected)
    );
    let expected =
        "first.uploadAll of first:v1 and second.uploadIt of second:v1 both answer POST /v1/all";
    assert_eq!(
        collision(&[("uploadIt", "POST", "v1/all")]).as_deref(),
        Some(expected)
    );
    for (verb, path) in [
        ("POST", "upload/v1/all"),
        ("POST", "resumable/upload/v1/all"),
        ("GET", "download/v1/one/{x}"),
    ] {
        assert!(collision(&[("it", verb, path)]).is_some(), "{verb} {path}");
    }
}

#[test]
fn methods_that_can_be_told_apart_do_not_collide() {
    let methods = [
        ("other", "PUT", "v1/{name}"),
        ("wider", "GET", "v1/{+name}"),
        ("narrower", "GET", "v1/all"),
        ("longer", "GET", "v1/{name}/all"),
        ("again", "GET", "v1/{+name}/every"),
    ];
    assert_eq!(collision(&methods), None);
    assert!(MethodTable::new([&mail()]).collision().is_none());
}

#[test]
fn the_documents_own_upload_path_is_routed_too() {
    let document = json!({"name": "a", "version": "v1", "servicePath": "a/v1/", "methods": {"insert": {
        "id": "a.insert", "path": "things", "httpMethod": "POST",
        "mediaUpload": {"protocols": {
            "simple": {"multipart": true, "path": "/upload/a/v1/things"},
            "resumable": {"multipart": true, "path": "/media/things"}
        }}
    }}});
    let api = Api::from_document(serde_json::from_value(document).unwrap()).unwrap();
    let table = MethodTable::new([&api]);
    for path in [
        "/upload/a/v1/things",
        "/resumable/upload/a/v1/things",
        "/media/things",
    ] {
        assert_eq!(
            describe(&table.find(&HttpMethod::POST, path)),
            "a.insert Upload",
            "{path}"
        );
    }
}

#[test]
fn an_empty_table_finds_nothing() {
    assert!(matches!(
        MethodTable::default().find(&HttpMethod::GET, "/"),
        Found::Nothing
    ));
}
