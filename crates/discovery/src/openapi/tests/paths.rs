use super::*;

fn method(id: &str, http_method: &str, path: &str, pattern: Option<&str>) -> Value {
    let mut parameters = serde_json::Map::new();
    for name in &variables(path).1 {
        let name = name.trim_start_matches('+');
        let mut described = json!({"location": "path", "type": "string", "required": true, "description": "Which."});
        if let Some(pattern) = pattern {
            described["pattern"] = pattern.into();
        }
        parameters.insert(name.to_owned(), described);
    }
    json!({"id": format!("farm.{id}"), "httpMethod": http_method, "path": path, "parameters": parameters})
}

fn of_methods(methods: &[Value]) -> Value {
    let named = methods.iter().enumerate();
    let named: serde_json::Map<_, _> = named
        .map(|(at, method)| (format!("m{at}"), method.clone()))
        .collect();
    of_json(&json!({"name": "farm", "version": "v1", "methods": named}))
}

#[test]
fn variable_of_several_segments_becomes_one_for_each_free_segment() {
    for (path, pattern, expected) in [
        ("v1/{name}", None, "/v1/{name}"),
        ("v1/{+name}", Some("^barns/[^/]+$"), "/v1/barns/{barnsId}"),
        (
            "v1/{+name}",
            Some("^barns/[^/]+/animals/[^/]+$"),
            "/v1/barns/{barnsId}/animals/{animalsId}",
        ),
        (
            "v1/{+name}:feed",
            Some("^barns/[^/]+$"),
            "/v1/barns/{barnsId}:feed",
        ),
        ("v1/{+name}/animals", Some("^[^/]+$"), "/v1/{name}/animals"),
        ("v1/{+name}", Some("^[^/]+/[^/]+$"), "/v1/{name}/{name2}"),
        ("v1/{+name}:feed", None, "/v1/{name}:feed"),
    ] {
        let document = of_methods(&[method("get", "GET", path, pattern)]);
        assert_eq!(place(&document, "farm.get"), format!("get {expected}"));
    }
}

#[test]
fn parameter_says_what_it_is_a_part_of_and_how_slashes_are_sent() {
    let described = |path, pattern, name| {
        let document = of_methods(&[method("get", "GET", path, pattern)]);
        let operation = operation(&document, "farm.get");
        parameter(operation, name).unwrap()["description"].clone()
    };
    let barns = Some("^barns/[^/]+$");
    assert_eq!(
        described("{+name}", barns, "barnsId"),
        "Part of `name`. Which."
    );
    assert_eq!(
        described("{+name}", None, "name"),
        "Which. Slashes in it are sent as `%2F`."
    );
    assert_eq!(described("{name}", None, "name"), "Which.");
    // The server accepts such a path.
    let api = json!({"name": "farm", "version": "v1", "methods": {"get": method("get", "GET", "{+name}", None)}});
    let api = Api::from_json(&api.to_string()).unwrap();
    let matched = api.methods()[0].template.match_path("/a%2Fb").unwrap();
    assert_eq!(matched.value("name"), Some("a/b"));
}

#[test]
fn paths_that_differ_in_names_alone_are_one_path() {
    let document = of_methods(&[
        method("get", "GET", "barns/{barn}/animals/{animal}", None),
        method("delete", "DELETE", "barns/{id}/animals/{animalId}", None),
    ]);
    let path = "/barns/{barn}/animals/{animal}";
    assert_eq!(place(&document, "farm.get"), format!("get {path}"));
    assert_eq!(place(&document, "farm.delete"), format!("delete {path}"));
}

#[test]
fn method_whose_path_is_taken_is_named_in_the_description() {
    let document = of_methods(&[
        method("get", "GET", "v1/{id}", None),
        method("find", "GET", "v1/{+name}", None),
        method("query", "QUERY", "v1/q", None),
    ]);
    assert_eq!(ids(&document), ["farm.get"]);
    let description = document["info"]["description"].as_str().unwrap();
    assert!(
        description.ends_with(": farm.find, farm.query."),
        "{description}"
    );
}

#[test]
fn custom_verb_of_a_collection_is_a_part_of_its_path() {
    let document = of_methods(&[
        method("best", "GET", "animals:best", None),
        method("feed", "POST", "animals/{id}:feed", None),
        method("get", "GET", "animals/{id}", None),
    ]);
    for (id, expected) in [
        ("farm.best", "get /animals:best"),
        ("farm.feed", "post /animals/{id}:feed"),
        ("farm.get", "get /animals/{id}"),
    ] {
        assert_eq!(place(&document, id), expected);
    }
}

#[test]
fn query_parameters_are_converted_and_the_required_ones_come_first() {
    let mut list = method("list", "GET", "animals", None);
    list["parameters"] = json!({
        "age": {"location": "query", "type": "integer", "format": "uint32", "maximum": "500", "default": "3"},
        "legs": {"location": "query", "type": "integer", "enum": ["2", "4"], "repeated": true, "default": "4"},
        "tag": {"location": "query", "required": true, "pattern": "[a-z]+", "deprecated": true},
    });
    let document = of_methods(&[list]);
    let parameters = &operation(&document, "farm.list")["parameters"];
    let expected = json!([
        {
            "name": "tag", "in": "query", "required": true, "deprecated": true,
            "schema": {"type": "string", "pattern": "^(?:[a-z]+)$"},
        },
        {
            "name": "age", "in": "query",
            "schema": {"type": "integer", "format": "uint32", "maximum": 500, "minimum": 0, "default": 3},
        },
        {
            "name": "legs", "in": "query",
            "schema": {"type": "array", "items": {"type": "integer", "enum": [2, 4]}},
        },
    ]);
    assert_eq!(*parameters, expected);
}

#[test]
fn of_the_standard_parameters_only_fields_is_described() {
    let farm = of_toml("name = \"farm\"\nversion = \"v1\"\n[collections.animals]");
    let parameters = farm["components"]["parameters"].as_object().unwrap();
    assert_eq!(parameters.keys().collect::<Vec<_>>(), ["fields"]);
    let listed = operation(&farm, "farm.animals.list")["parameters"].to_string();
    assert!(
        listed.contains("#/components/parameters/fields"),
        "{listed}"
    );
}

#[test]
fn parameter_that_a_method_has_itself_is_described_once() {
    let mut get = method("get", "GET", "animals", None);
    get["parameters"] = json!({"fields": {"location": "query", "description": "Its own."}});
    let document = of_json(&json!({
        "name": "farm", "version": "v1", "methods": {"get": get},
        "parameters": {"fields": {"location": "query"}},
    }));
    let parameters = &operation(&document, "farm.get")["parameters"];
    let own = json!([{"name": "fields", "in": "query", "description": "Its own.", "schema": {"type": "string"}}]);
    assert_eq!(*parameters, own);
}
