use proptest::prelude::*;
use serde_json::json;

use super::*;

fn parse(bytes: &[u8]) -> Result<Map<String, Value>, MetadataError> {
    parse_metadata(bytes, MetadataLimits::default())
}

#[test]
fn empty_text_and_null_are_an_empty_object() {
    for text in [
        "",
        " \r\n\t",
        "null",
        " null\n",
        "{}",
        "\u{feff}",
        "\u{feff}{}",
    ] {
        assert_eq!(parse(text.as_bytes()), Ok(Map::new()), "{text:?}");
    }
}

#[test]
fn object_keeps_its_order() {
    let metadata =
        parse("\u{feff}{\"b\": 1, \"a\": {\"c\": null}}\r\n".as_bytes()).expect("it is an object");
    assert_eq!(metadata.keys().collect::<Vec<_>>(), ["b", "a"]);
    assert_eq!(Value::Object(metadata), json!({"b": 1, "a": {"c": null}}));
}

#[test]
fn last_of_two_equal_keys_wins() {
    let metadata = parse(br#"{"name":"a","name":"b"}"#).expect("it is an object");
    assert_eq!(Value::Object(metadata), json!({"name": "b"}));
}

#[test]
fn json_other_than_an_object_is_refused() {
    for (text, found) in [
        ("[]", "an array"),
        ("\"x\"", "a string"),
        ("1.5", "a number"),
        ("true", "a boolean"),
        ("false", "a boolean"),
    ] {
        assert_eq!(
            parse(text.as_bytes()),
            Err(MetadataError::NotAnObject { found }),
            "{text:?}"
        );
    }
}

#[test]
fn invalid_json_is_refused_with_its_position() {
    assert_eq!(
        parse(b"{\n  x}"),
        Err(MetadataError::NotJson { line: 2, column: 3 })
    );
    for text in ["{", "{}{}", "nul", "name=Llama", "{'a':1}"] {
        assert!(
            matches!(parse(text.as_bytes()), Err(MetadataError::NotJson { .. })),
            "{text:?}"
        );
    }
}

#[test]
fn bytes_that_are_not_utf_8_are_refused() {
    assert_eq!(parse(b"{\"a\":\"\xff\"}"), Err(MetadataError::NotUtf8));
}

#[test]
fn deep_nesting_is_refused_before_parsing() {
    let nested = |depth: usize| {
        let objects = depth - 1;
        format!("{}[]{}", r#"{"a":"#.repeat(objects), "}".repeat(objects))
    };
    assert!(parse(nested(100).as_bytes()).is_ok());
    for text in [nested(101), "[".repeat(10_000), r#"{"a":"#.repeat(101)] {
        assert_eq!(
            parse(text.as_bytes()),
            Err(MetadataError::TooDeep { limit: 100 }),
            "{text}"
        );
    }
    let wide = format!(r#"{{"a":[{}[]]}}"#, "[{}],".repeat(1000));
    assert!(parse(wide.as_bytes()).is_ok());
}

#[test]
fn what_was_accepted_before_is_parsed_under_other_limits() {
    let limits = MetadataLimits::default().with_values(2).with_depth(1);
    let text = br#"{"a":{"b":[1,2,3]}}"#;
    assert!(parse_metadata(text, limits).is_err());
    assert!(parse_metadata(text, MetadataLimits::ACCEPTED_BEFORE).is_ok());
    let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(120), "]".repeat(120));
    assert!(parse_metadata(deep.as_bytes(), MetadataLimits::ACCEPTED_BEFORE).is_ok());
    let too_deep = "[".repeat(10_000);
    assert!(matches!(
        parse_metadata(too_deep.as_bytes(), MetadataLimits::ACCEPTED_BEFORE),
        Err(MetadataError::NotJson { .. })
    ));
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        let _ = parse(&bytes);
    }
}

#[test]
fn metadata_with_too_many_values_is_refused_before_parsing() {
    let values = |count: usize| format!("{{\"x\":[{}0]}}", "0,".repeat(count));
    assert!(parse(values(10_000).as_bytes()).is_ok());
    let refused = parse(values(30_000).as_bytes());
    assert!(matches!(refused, Err(MetadataError::TooManyValues { .. })));
    let text = format!(r#"{{"x":"{}\"[[["}}"#, "a,b:[".repeat(30_000));
    assert!(parse(text.as_bytes()).is_ok());
}
