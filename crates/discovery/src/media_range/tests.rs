use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(accept: &[&str], content_type: &str, expected: bool) {
    let ranges: Vec<MediaRange> = accept.iter().map(|range| range.parse().unwrap()).collect();
    assert_eq!(
        accepts(&ranges, content_type),
        expected,
        "{accept:?} and {content_type:?}"
    );
}

#[test]
fn an_exact_range_accepts_its_type_in_any_case_and_with_any_parameters() {
    check(&["image/png"], "image/png", true);
    check(&["Image/PNG"], "iMAGE/png", true);
    check(&["text/xml"], "text/xml; charset=utf-8", true);
    check(&["text/xml; charset=utf-8"], "text/xml", true);
    check(&["image/png"], "image/jpeg", false);
    check(&["image/png"], "image/pngx", false);
    check(&["message/rfc822"], "message/rfc822", true);
}

#[test]
fn a_type_range_accepts_every_subtype() {
    check(&["image/*"], "image/svg+xml", true);
    check(&["image/*"], "IMAGE/gif", true);
    check(&["image/*"], "imagery/gif", false);
    check(&["message/*"], "text/plain", false);
}

#[test]
fn one_range_of_the_list_is_enough() {
    let accept = ["application/pdf", "image/jpeg", "image/png"];
    check(&accept, "image/png", true);
    check(&accept, "application/pdf", true);
    check(&accept, "application/zip", false);
}

#[test]
fn the_full_range_and_the_empty_list_accept_everything() {
    check(&["*/*"], "application/octet-stream", true);
    check(&["text/xml", "*/*"], "no media type", true);
    check(&[], "no media type", true);
    check(&["image/*"], "no media type", false);
    check(&["image/*"], "image/", false);
}

#[test]
fn malformed_ranges_are_refused() {
    for text in [
        "",
        "*",
        "image",
        "/",
        "image/",
        "/png",
        "*/png",
        "a b/c",
        "image/png/x",
        "im@ge/*",
    ] {
        let refused = MediaTypeError::NotTypeAndSubtype {
            text: text.to_owned(),
        };
        assert_eq!(text.parse::<MediaRange>(), Err(refused), "{text:?}");
    }
}

#[test]
fn ranges_are_written_as_they_are_read() {
    for text in ["*/*", "image/*", "application/vnd.android.package-archive"] {
        assert_eq!(text.parse::<MediaRange>().unwrap().to_string(), text);
    }
}

#[test]
fn parameters_of_a_media_type_are_kept() {
    let cases: [(&str, &[(&str, &str)]); 6] = [
        ("text/plain", &[]),
        ("text/plain;", &[]),
        ("text/plain; charset=UTF-8", &[("charset", "UTF-8")]),
        ("a/b;x=1;;Y=2 ", &[("x", "1"), ("y", "2")]),
        (
            "multipart/related; boundary=\"a;b=\\\"c\"",
            &[("boundary", "a;b=\"c")],
        ),
        ("a/b; x=\"\" ; y=1", &[("x", ""), ("y", "1")]),
    ];
    for (text, expected) in cases {
        let parsed: MediaType = text.parse().unwrap();
        let parameters: Vec<_> = parsed
            .parameters
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(parameters, expected, "{text:?}");
    }
}

#[test]
fn broken_parameters_are_refused() {
    for text in [
        "a/b; x",
        "a/b; x=",
        "a/b; =1",
        "a/b; x=\"1",
        "a/b; x=\"1\"2",
        "a/b; x y=1",
    ] {
        let refused = text.parse::<MediaType>();
        assert!(
            matches!(refused, Err(MediaTypeError::Parameter { .. })),
            "{text:?}: {refused:?}"
        );
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text: String) {
        let _ = text.parse::<MediaType>();
        let _ = text.parse::<MediaRange>();
    }
}
