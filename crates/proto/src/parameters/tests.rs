use proptest::prelude::*;

use super::*;

fn pairs(query: &str) -> Vec<(String, String)> {
    let parameters = Parameters::parse(Some(query));
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
        (
            "bad=%zz%f&raw=%ff",
            &[("bad", "%zz%f"), ("raw", "\u{fffd}")],
        ),
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
fn the_first_of_several_values_counts() {
    let parameters = Parameters::parse(Some("fields=id&fields=name"));
    assert_eq!(parameters.first("fields"), Some("id"));
    assert_eq!(parameters.first("Fields"), None);
}

#[test]
fn no_query_has_no_parameters() {
    assert_eq!(Parameters::parse(None), Parameters::default());
}

#[test]
fn an_upload_id_addresses_a_session_even_when_it_is_empty() {
    let table = [
        ("upload_id=abc-_", Some("abc-_")),
        ("upload_id=", Some("")),
        ("upload_id", Some("")),
        ("a=b", None),
    ];
    for (query, expected) in table {
        let upload_id = Parameters::parse(Some(query)).upload_id();
        assert_eq!(
            upload_id.as_ref().map(UploadId::as_str),
            expected,
            "{query:?}"
        );
    }
}

#[test]
fn what_gives_access_is_not_shown() {
    let parameters = Parameters::parse(Some(
        "upload_id=s3cret&access_token=s3cret&key=s3cret&alt=json",
    ));
    let shown = format!("{parameters:?} {:?}", parameters.upload_id());
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(shown.contains("json"), "{shown}");
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
fn standard_parameters_are_picked_out() {
    let query = Parameters::parse(Some(
        "alt=media&prettyPrint=false&fields=id%2Cname&unknown=1",
    ));
    let expected = StandardParameters {
        alt: Alt::Media,
        fields: Some("id,name".to_owned()),
        pretty_print: false,
    };
    assert_eq!(StandardParameters::from_parameters(&query), Ok(expected));
}

#[test]
fn an_unknown_alt_is_refused() {
    for value in ["proto", "JSON", "atom"] {
        let query = Parameters::parse(Some(&format!("alt={value}")));
        let error = StandardParameters::from_parameters(&query).expect_err(value);
        assert_eq!(
            error.to_string(),
            format!("Invalid value \"{value}\" for parameter alt.")
        );
    }
}

#[test]
fn standard_parameters_survive_being_remembered() {
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
    fn any_query_is_read_without_panic(query in any::<String>()) {
        let parameters = Parameters::parse(Some(&query));
        let _ = StandardParameters::from_parameters(&parameters);
    }
}
