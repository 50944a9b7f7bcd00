use http::HeaderValue;
use windlass_discovery::Api;

use super::*;

fn farm() -> Api {
    Api::from_toml("name = \"farm\"\nversion = \"v1\"\n[collections.animals]\n")
        .expect("a valid one")
}

fn row(input: Input, methods: Option<&[&str]>, allowed: &[&str]) -> RefusedInput {
    let own = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    RefusedInput {
        input,
        methods: methods.map(own),
        allowed: own(allowed),
        also_empty: false,
        refused_as: RefusedAs::Invalid,
        reason: "is not supported".to_owned(),
    }
}

fn parameter(name: &str) -> Input {
    Input::Parameter(name.to_owned())
}

fn header(name: &str) -> Input {
    Input::Header(name.to_owned())
}

/// The input that a call of `farm.animals.{verb}` is refused for.
fn refused(rows: &[RefusedInput], verb: &str, query: &str, headers: &[(&str, &str)]) -> String {
    let api = farm();
    let method = api.method(&format!("farm.animals.{verb}"));
    let query = Parameters::parse(Some(query)).expect("a valid one");
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name: http::HeaderName = name.parse().expect("a name");
        map.append(name, HeaderValue::from_str(value).expect("a value"));
    }
    let inputs: RefusedInputs = rows.iter().cloned().collect();
    match inputs.check(method.expect("it is described"), &query, &map) {
        Ok(()) => "nothing".to_owned(),
        Err(Rejection::RefusedInput { input, .. }) => input.to_string(),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn call_with_refused_parameter_is_refused() {
    let rows = [
        row(parameter("glob"), Some(&["farm.animals.list"]), &[]),
        row(parameter("deleted"), None, &["false"]),
        RefusedInput {
            also_empty: true,
            ..row(parameter("acl"), None, &[])
        },
    ];
    for (verb, query, expected) in [
        ("list", "", "nothing"),
        ("list", "glob=*", "parameter glob"),
        ("list", "glob=", "nothing"),
        ("list", "glob=&glob=*", "parameter glob"),
        ("get", "glob=*", "nothing"),
        ("list", "deleted=true", "parameter deleted"),
        ("list", "deleted=FALSE", "nothing"),
        ("get", "deleted=true", "parameter deleted"),
        ("get", "acl", "parameter acl"),
    ] {
        assert_eq!(refused(&rows, verb, query, &[]), expected, "{verb} {query}");
    }
}

#[test]
fn call_with_refused_header_is_refused() {
    let rows = [
        row(header("x-goog-acl"), Some(&["farm.animals.insert"]), &[]),
        row(header("x-goog-encryption-*"), None, &[]),
    ];
    let key = [("x-goog-encryption-key", "k")];
    for (verb, headers, expected) in [
        ("insert", &[][..], "nothing"),
        ("insert", &[("x-goog-acl", "private")], "header x-goog-acl"),
        ("list", &[("x-goog-acl", "private")], "nothing"),
        ("insert", &key, "header x-goog-encryption-key"),
        ("get", &key, "header x-goog-encryption-key"),
        ("get", &[("x-goog-encryption", "k")], "nothing"),
    ] {
        assert_eq!(
            refused(&rows, verb, "", headers),
            expected,
            "{verb} {headers:?}"
        );
    }
}
