use serde_json::{Value, json};
use windlass_discovery::{Api, Document};

use super::*;

/// Returns the refusal of a query (without its question mark) of a method with this parameter `x`.
fn refusal(parameter: &Value, query: &str) -> Option<String> {
    let mut parameter = parameter.clone();
    parameter["location"] = json!("query");
    call(&parameter, "a", &PathParameters::default(), query)
}

/// Returns the refusal of a value of the path variable `x`.
fn refusal_in_path(parameter: &Value, value: &str) -> Option<String> {
    let mut parameter = parameter.clone();
    parameter["location"] = json!("path");
    let path = PathParameters::from_iter([("x", value)]);
    call(&parameter, "a/{+x}", &path, "")
}

fn call(parameter: &Value, path: &str, values: &PathParameters, query: &str) -> Option<String> {
    let document = json!({"name": "zoo", "version": "v1", "methods": {"m": {
        "id": "zoo.m", "httpMethod": "GET", "path": path, "parameters": {"x": parameter},
    }}});
    let document = Document::from_json(&document.to_string()).expect("a document");
    let api = Api::from_document(document).expect("an API");
    let refused = check_parameters(
        &api.methods()[0],
        values,
        &Parameters::parse(Some(query)).unwrap(),
    )
    .err()?;
    let refused = refused.to_string();
    assert!(
        refused.contains("parameter x") || refused.ends_with(": x"),
        "{refused}"
    );
    let problem = refused.strip_prefix("invalid value for parameter x: ");
    Some(problem.unwrap_or(&refused).to_owned())
}

/// Each of the values is taken, or refused with these words.
#[track_caller]
fn check_values(parameter: &Value, taken: &[&str], refused: &[&str], problem: &str) {
    for value in taken {
        assert_eq!(refusal(parameter, &format!("x={value}")), None, "{value}");
    }
    for value in refused {
        let said = refusal(parameter, &format!("x={value}"));
        assert_eq!(said.as_deref(), Some(problem), "{value}");
    }
}

#[test]
fn a_required_parameter_is_given() {
    let required = json!({"type": "string", "required": true});
    for query in ["", "y=1", "X=1"] {
        let said = refusal(&required, query);
        assert_eq!(said.as_deref(), Some("Required parameter: x"));
    }
    assert_eq!(refusal(&required, "x=1"), None);
    assert_eq!(refusal(&required, "x="), None);
    assert_eq!(refusal(&json!({"type": "integer"}), "y=a"), None);
}

#[test]
fn a_value_is_one_of_those_that_are_allowed() {
    let list = json!({"type": "string", "enum": ["full", "minimal"]});
    let problem = "must be one of full, minimal";
    check_values(&list, &["full", "minimal"], &["Full", "", "ful"], problem);
}

#[test]
fn a_number_is_of_its_type() {
    for (described, refused, problem) in [
        (
            json!({"type": "integer"}),
            &["", "a", "1.5", "0x1", "1e3"][..],
            "integer",
        ),
        (
            json!({"type": "string", "format": "int64"}),
            &["", "x", "1.0"],
            "int64",
        ),
        (
            json!({"type": "string", "format": "uint64"}),
            &["", "x", "1.0"],
            "uint64",
        ),
        (json!({"type": "number"}), &["", "x", "1,5"], "number"),
        (
            json!({"type": "boolean"}),
            &["yes", "truer", "2"],
            "boolean",
        ),
    ] {
        let problem = format!("must be of type {problem}");
        check_values(&described, &["0", "1"], refused, &problem);
    }
    let boolean = json!({"type": "boolean"});
    check_values(&boolean, &["true", "false", "True", "FALSE", ""], &[], "");
    check_values(&json!({"type": "number"}), &["-1.5e3", ".5"], &[], "");
}

#[test]
fn a_number_fits_its_format_and_its_bounds() {
    for (json_type, format, least, greatest) in [
        ("integer", "int32", "-2147483648", "2147483647"),
        ("integer", "uint32", "0", "4294967295"),
        (
            "string",
            "int64",
            "-9223372036854775808",
            "9223372036854775807",
        ),
        ("string", "uint64", "0", "18446744073709551615"),
    ] {
        let described = json!({"type": json_type, "format": format});
        let problem = format!("must be from {least} to {greatest}");
        let beyond = |bound: &str, by: i128| (bound.parse::<i128>().unwrap() + by).to_string();
        let refused = [beyond(least, -1), beyond(greatest, 1)];
        let refused = refused.each_ref().map(String::as_str);
        check_values(&described, &[least, "7", greatest], &refused, &problem);
    }
    let page = json!({"type": "integer", "format": "uint32", "minimum": "1", "maximum": "500"});
    check_values(
        &page,
        &["1", "500"],
        &["0", "501", "-1"],
        "must be from 1 to 500",
    );
    let share = json!({"type": "number", "minimum": "0", "maximum": "0.5"});
    check_values(
        &share,
        &["0", "0.5"],
        &["0.51", "-0.1", "NaN"],
        "must be from 0 to 0.5",
    );
}

#[test]
fn a_value_matches_its_pattern_from_end_to_end() {
    let named = json!({"type": "string", "pattern": "^projects/[^/]+$"});
    let problem = "must match the pattern ^projects/[^/]+$";
    check_values(
        &named,
        &["projects/a"],
        &["a", "projects/a/b", "/projects/a"],
        problem,
    );
    assert_eq!(refusal_in_path(&named, "projects/a"), None);
    let id = json!({"type": "string", "pattern": "[a-z]+", "required": true});
    check_values(
        &id,
        &["abc"],
        &["abc1", ""],
        "must match the pattern [a-z]+",
    );
    let said = refusal_in_path(&id, "1").unwrap();
    assert_eq!(said, "must match the pattern [a-z]+");
    let look_ahead = json!({"type": "string", "pattern": "a(?=b)"});
    check_values(&look_ahead, &["anything"], &[], "");
}

#[test]
fn every_value_of_a_repeated_parameter_is_checked_and_of_others_the_first() {
    let mut integer = json!({"type": "integer"});
    assert_eq!(refusal(&integer, "x=1&x=a"), None);
    integer["repeated"] = json!(true);
    assert_eq!(refusal(&integer, "x=1&y=a&x=2"), None);
    let said = refusal(&integer, "x=1&x=2&x=a");
    assert_eq!(said.as_deref(), Some("must be of type integer"));
}
