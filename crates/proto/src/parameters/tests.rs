use proptest::prelude::*;

use super::*;

fn pairs(query: &str) -> Vec<(String, String)> {
    let parameters = Parameters::parse(Some(query)).expect("it is UTF-8");
    parameters
        .iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[test]
fn parameters_are_decoded_and_keep_their_order() {
    let table: [(&str, &[(&str, &str)]); 8] = [
        ("", &[]),
        ("&&", &[]),
        (
            "alt=json&uploadType=media",
            &[("alt", "json"), ("uploadType", "media")],
        ),
        ("a=1&a=2", &[("a", "1"), ("a", "2")]),
        ("name=my+file%2B1%2f2", &[("name", "my file+1/2")]),
        ("flag&empty=", &[("flag", ""), ("empty", "")]),
        ("%24.xgafv=2&x=a=b", &[("$.xgafv", "2"), ("x", "a=b")]),
        ("bad=%zz%f&raw=%c3%bf", &[("bad", "%zz%f"), ("raw", "ÿ")]),
    ];
    for (query, expected) in table {
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        assert_eq!(pairs(query), expected, "{query:?}");
    }
}

#[test]
fn parameter_that_is_not_utf_8_is_refused() {
    let table = [
        ("name=caf%E9&alt=json", "name"),
        ("alt=json&name=caf%E8", "name"),
        ("caf%C3%A9=%ff", "café"),
        ("%ff=1", "\u{fffd}"),
        ("flag%80", "flag\u{fffd}"),
        // A surrogate, and an overlong encoding.
        ("a=%ED%A0%80", "a"),
        ("a=%C0%AF", "a"),
    ];
    for (query, name) in table {
        let name = name.to_owned();
        assert_eq!(
            Parameters::parse(Some(query)),
            Err(QueryError::NotUtf8 { name }),
            "{query}"
        );
    }
}

#[test]
fn first_of_several_values_wins() {
    let parameters = Parameters::parse(Some("fields=id&fields=name")).unwrap();
    assert_eq!(parameters.first("fields"), Some("id"));
    assert_eq!(parameters.first("Fields"), None);
}

#[test]
fn missing_query_has_no_parameters() {
    assert_eq!(Parameters::parse(None), Ok(Parameters::default()));
}

#[test]
fn empty_upload_id_addresses_a_session() {
    let table = [
        ("upload_id=abc-_", Some("abc-_")),
        ("upload_id=", Some("")),
        ("upload_id", Some("")),
        ("a=b", None),
    ];
    for (query, expected) in table {
        let upload_id = Parameters::parse(Some(query)).unwrap().upload_id();
        assert_eq!(
            upload_id.as_ref().map(UploadId::as_str),
            expected,
            "{query:?}"
        );
    }
}

#[test]
fn credentials_are_hidden_in_debug_output() {
    for name in [
        "upload_id",
        "access_token",
        "oauth_token",
        "key",
        "X-Windlass-Link",
    ] {
        let query = format!("{name}=s3cret&alt=json");
        let parameters = Parameters::parse(Some(&query)).unwrap();
        let shown = format!("{parameters:?} {:?}", parameters.upload_id());
        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(shown.contains("json"), "{shown}");
    }
}

#[test]
fn standard_parameters_have_defaults() {
    let standard = StandardParameters::from_parameters(&Parameters::default());
    assert_eq!(
        standard,
        Ok(StandardParameters {
            alt: Alt::Json,
            fields: None,
            pretty_print: true
        })
    );
}

#[test]
fn standard_parameters_are_read_from_the_query() {
    let query = Parameters::parse(Some(
        "alt=media&prettyPrint=false&fields=id%2Cname&unknown=1",
    ))
    .unwrap();
    let expected = StandardParameters {
        alt: Alt::Media,
        fields: Some("id,name".to_owned()),
        pretty_print: false,
    };
    assert_eq!(StandardParameters::from_parameters(&query), Ok(expected));
}

#[test]
fn unknown_alt_is_refused() {
    for value in ["proto", "JSON", "atom"] {
        let query = Parameters::parse(Some(&format!("alt={value}"))).unwrap();
        let error = StandardParameters::from_parameters(&query).expect_err(value);
        assert_eq!(
            error.to_string(),
            format!("Invalid value \"{value}\" for parameter alt.")
        );
    }
}

#[test]
fn standard_parameters_round_trip_through_serde() {
    let standard = StandardParameters {
        alt: Alt::Json,
        fields: Some("id".to_owned()),
        pretty_print: false,
    };
    let text = serde_json::to_string(&standard).expect("it is plain data");
    assert_eq!(text, r#"{"alt":"json","fields":"id","prettyPrint":false}"#);
    assert_eq!(
        serde_json::from_str::<StandardParameters>(&text).expect("it was just written"),
        standard
    );
}

proptest! {
    #[test]
    fn any_query_is_parsed_without_panic(query in any::<String>()) {
        if let Ok(parameters) = Parameters::parse(Some(&query)) {
            let _ = StandardParameters::from_parameters(&parameters);
        }
    }
}

#[test]
fn number_of_parameters_is_bounded() {
    let parse = |count| Parameters::parse(Some(&"a&".repeat(count)));
    assert_eq!(
        parse(MAX_PARAMETERS).unwrap().iter().count(),
        MAX_PARAMETERS
    );
    assert_eq!(parse(MAX_PARAMETERS + 1), Err(QueryError::TooMany));
}
