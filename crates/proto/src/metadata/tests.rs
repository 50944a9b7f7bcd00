use proptest::prelude::*;
use serde_json::json;

use super::*;

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
        assert_eq!(parse_metadata(text.as_bytes()), Ok(Map::new()), "{text:?}");
    }
}

#[test]
fn object_keeps_its_order() {
    let metadata = parse_metadata("\u{feff}{\"b\": 1, \"a\": {\"c\": null}}\r\n".as_bytes())
        .expect("it is an object");
    assert_eq!(metadata.keys().collect::<Vec<_>>(), ["b", "a"]);
    assert_eq!(Value::Object(metadata), json!({"b": 1, "a": {"c": null}}));
}

#[test]
fn last_of_two_equal_keys_wins() {
    let metadata = parse_metadata(br#"{"name":"a","name":"b"}"#).expect("it is an object");
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
            parse_metadata(text.as_bytes()),
            Err(MetadataError::NotAnObject { found }),
            "{text:?}"
        );
    }
}

#[test]
fn invalid_json_is_refused_with_its_position() {
    assert_eq!(
        parse_metadata(b"{\n  x}"),
        Err(MetadataError::NotJson { line: 2, column: 3 })
    );
    for text in ["{", "{}{}", "nul", "name=Llama", "{'a':1}"] {
        assert!(
            matches!(
                parse_metadata(text.as_bytes()),
                Err(MetadataError::NotJson { .. })
            ),
            "{text:?}"
        );
    }
}

#[test]
fn bytes_that_are_not_utf_8_are_refused() {
    assert_eq!(
        parse_metadata(b"{\"a\":\"\xff\"}"),
        Err(MetadataError::NotUtf8)
    );
}

#[test]
fn deep_nesting_is_refused() {
    let text = "[".repeat(10_000);
    assert!(matches!(
        parse_metadata(text.as_bytes()),
        Err(MetadataError::NotJson { .. })
    ));
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        let _ = parse_metadata(&bytes);
    }
}

#[test]
fn metadata_with_too_many_values_is_refused_before_parsing() {
    let values = |count: usize| format!("{{\"x\":[{}0]}}", "0,".repeat(count));
    assert!(parse_metadata(values(10_000).as_bytes()).is_ok());
    let refused = parse_metadata(values(30_000).as_bytes());
    assert!(matches!(refused, Err(MetadataError::TooManyValues { .. })));
    let text = format!(r#"{{"x":"{}\"[[["}}"#, "a,b:[".repeat(30_000));
    assert!(parse_metadata(text.as_bytes()).is_ok());
}
