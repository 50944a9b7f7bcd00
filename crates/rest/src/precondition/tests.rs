use proptest::prelude::*;

use super::Verdict::{Failed, NotModified, Proceed};
use super::*;

const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

/// A version with the strong tag `"now"`, modified some milliseconds after [`MODIFIED`].
fn current() -> Validators {
    let second = httpdate::parse_http_date(MODIFIED).unwrap();
    Validators {
        etag: ETag::strong("now").unwrap(),
        modified: Some(second + Duration::from_millis(250)),
    }
}

fn weak_current() -> Validators {
    Validators {
        etag: ETag::parse(r#"W/"now""#).unwrap(),
        ..current()
    }
}

fn undated_current() -> Validators {
    Validators {
        modified: None,
        ..current()
    }
}

fn header_map(headers: &[(HeaderName, &str)]) -> HeaderMap {
    headers
        .iter()
        .map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()))
        .collect()
}

fn check(
    method: &Method,
    headers: &[(HeaderName, &str)],
    current: Option<&Validators>,
    expected: Verdict,
) {
    let verdict = evaluate(&header_map(headers), method, current);
    assert_eq!(verdict, expected, "{method} {headers:?} {current:?}");
}

#[test]
fn a_request_without_conditions_proceeds() {
    check(&Method::GET, &[], Some(&current()), Proceed);
    check(&Method::PUT, &[], None, Proceed);
}

#[test]
fn if_match_wants_the_current_tag_in_its_list() {
    for (list, expected) in [
        (r#""now""#, Proceed),
        (r#""old", "now""#, Proceed),
        (r#""old","now""#, Proceed),
        (r#", "old" ,, "now" ,"#, Proceed),
        (r#""with,comma", "now""#, Proceed),
        ("*", Proceed),
        (" * ", Proceed),
        (r#""old""#, Failed),
        (r#""NOW""#, Failed),
        (r#""""#, Failed),
        ("", Failed),
    ] {
        let headers = [(IF_MATCH, list)];
        check(&Method::PUT, &headers, Some(&current()), expected);
        check(&Method::GET, &headers, Some(&current()), expected);
    }
}

#[test]
fn a_list_ends_where_it_cannot_be_read() {
    for (list, expected) in [
        (r#""now", oops"#, Proceed),
        (r#"oops, "now""#, Failed),
        ("now", Failed),
        (r#""now"#, Failed),
        (r#"w/"now""#, Failed),
        (r#""a b", "now""#, Failed),
        (r#"*, "now""#, Failed),
    ] {
        check(
            &Method::PUT,
            &[(IF_MATCH, list)],
            Some(&current()),
            expected,
        );
    }
}

#[test]
fn the_lines_of_a_list_count_together() {
    let lines = [(IF_MATCH, r#""old""#), (IF_MATCH, r#""now""#)];
    check(&Method::PUT, &lines, Some(&current()), Proceed);
}

#[test]
fn if_match_compares_strongly_and_if_none_match_weakly() {
    let (strong, weak) = (r#""now""#, r#"W/"now""#);
    for (tag, current, matches_strongly) in [
        (strong, current(), true),
        (weak, current(), false),
        (strong, weak_current(), false),
        (weak, weak_current(), false),
    ] {
        let if_match = if matches_strongly { Proceed } else { Failed };
        check(&Method::GET, &[(IF_MATCH, tag)], Some(&current), if_match);
        check(
            &Method::GET,
            &[(IF_NONE_MATCH, tag)],
            Some(&current),
            NotModified,
        );
    }
}

#[test]
fn if_none_match_answers_readers_304_and_others_412() {
    for (list, matches) in [
        (r#""now""#, true),
        (r#""old", W/"now""#, true),
        ("*", true),
        (r#""old""#, false),
        ("", false),
    ] {
        for (method, refusal) in [
            (Method::GET, NotModified),
            (Method::HEAD, NotModified),
            (Method::PUT, Failed),
            (Method::DELETE, Failed),
        ] {
            let expected = if matches { refusal } else { Proceed };
            check(
                &method,
                &[(IF_NONE_MATCH, list)],
                Some(&current()),
                expected,
            );
        }
    }
}

#[test]
fn what_does_not_exist_matches_nothing() {
    for list in ["*", r#""now""#] {
        check(&Method::PUT, &[(IF_MATCH, list)], None, Failed);
        check(&Method::PUT, &[(IF_NONE_MATCH, list)], None, Proceed);
    }
}

#[test]
fn dates_are_compared_in_whole_seconds() {
    for (date, unmodified_since, modified_since) in [
        (BEFORE, Failed, Proceed),
        (MODIFIED, Proceed, NotModified),
        (AFTER, Proceed, NotModified),
    ] {
        let current = current();
        check(
            &Method::GET,
            &[(IF_UNMODIFIED_SINCE, date)],
            Some(&current),
            unmodified_since,
        );
        check(
            &Method::PUT,
            &[(IF_UNMODIFIED_SINCE, date)],
            Some(&current),
            unmodified_since,
        );
        check(
            &Method::GET,
            &[(IF_MODIFIED_SINCE, date)],
            Some(&current),
            modified_since,
        );
        check(
            &Method::HEAD,
            &[(IF_MODIFIED_SINCE, date)],
            Some(&current),
            modified_since,
        );
    }
}

#[test]
fn if_modified_since_concerns_readers_alone() {
    check(
        &Method::PUT,
        &[(IF_MODIFIED_SINCE, AFTER)],
        Some(&current()),
        Proceed,
    );
}

#[test]
fn dates_that_cannot_be_compared_are_ignored() {
    let undated = undated_current();
    let doubled = [(IF_MODIFIED_SINCE, AFTER), (IF_MODIFIED_SINCE, AFTER)];
    check(&Method::GET, &doubled, Some(&current()), Proceed);
    for (name, date, current) in [
        (IF_UNMODIFIED_SINCE, "yesterday", Some(&current())),
        (IF_MODIFIED_SINCE, "tomorrow", Some(&current())),
        (IF_UNMODIFIED_SINCE, BEFORE, Some(&undated)),
        (IF_MODIFIED_SINCE, AFTER, Some(&undated)),
        (IF_UNMODIFIED_SINCE, BEFORE, None),
        (IF_MODIFIED_SINCE, AFTER, None),
    ] {
        check(&Method::GET, &[(name, date)], current, Proceed);
    }
}

#[test]
fn a_tag_takes_the_place_of_a_date() {
    for (headers, expected) in [
        (
            [(IF_MATCH, r#""now""#), (IF_UNMODIFIED_SINCE, BEFORE)],
            Proceed,
        ),
        (
            [(IF_MATCH, r#""old""#), (IF_UNMODIFIED_SINCE, AFTER)],
            Failed,
        ),
        (
            [(IF_NONE_MATCH, r#""old""#), (IF_MODIFIED_SINCE, AFTER)],
            Proceed,
        ),
        (
            [(IF_NONE_MATCH, r#""now""#), (IF_MODIFIED_SINCE, BEFORE)],
            NotModified,
        ),
    ] {
        check(&Method::GET, &headers, Some(&current()), expected);
    }
}

#[test]
fn what_fails_a_request_is_asked_before_what_spares_the_reply() {
    for (headers, expected) in [
        (
            [(IF_MATCH, r#""old""#), (IF_NONE_MATCH, r#""now""#)],
            Failed,
        ),
        (
            [(IF_MATCH, r#""now""#), (IF_NONE_MATCH, r#""now""#)],
            NotModified,
        ),
        (
            [(IF_UNMODIFIED_SINCE, BEFORE), (IF_NONE_MATCH, r#""now""#)],
            Failed,
        ),
        (
            [(IF_UNMODIFIED_SINCE, AFTER), (IF_MODIFIED_SINCE, AFTER)],
            NotModified,
        ),
    ] {
        check(&Method::GET, &headers, Some(&current()), expected);
    }
}

#[test]
fn a_range_applies_to_the_strongly_equal_tag_alone() {
    for (if_range, current, expected) in [
        (None, current(), true),
        (Some(r#""now""#), current(), true),
        (Some(r#""old""#), current(), false),
        (Some(r#"W/"now""#), current(), false),
        (Some(r#""now""#), weak_current(), false),
        (Some(r#""old", "now""#), current(), false),
        (Some("*"), current(), false),
        (Some(""), current(), false),
        (Some(MODIFIED), current(), false),
    ] {
        let headers: Vec<_> = if_range
            .map(|value| (IF_RANGE, value))
            .into_iter()
            .collect();
        let applies = range_applies(&header_map(&headers), &current);
        assert_eq!(applies, expected, "{if_range:?} {current:?}");
    }
}

#[test]
fn a_tag_is_written_as_it_was_read() {
    for text in [r#""""#, r#""now""#, r#"W/"now""#, r#""!#~""#, r#""größe""#] {
        let tag = ETag::parse(text).unwrap_or_else(|| panic!("{text} is a tag"));
        assert_eq!(tag.to_string(), text);
        assert_eq!(HeaderValue::from(&tag).as_bytes(), text.as_bytes());
    }
}

#[test]
fn what_is_no_tag_is_not_read() {
    for text in [
        "",
        "now",
        "\"",
        "\"now",
        "now\"",
        "\"a b\"",
        "\"a\"b\"",
        "w/\"now\"",
        "\"\x7f\"",
    ] {
        assert_eq!(ETag::parse(text), None, "{text}");
    }
    for opaque in ["a b", "a\"b", "a\nb", "\x7f"] {
        assert_eq!(ETag::strong(opaque), None, "{opaque}");
    }
}

#[test]
fn a_foreign_tag_does_not_hide_the_tags_behind_it() {
    let mut headers = HeaderMap::new();
    headers.insert(
        IF_MATCH,
        HeaderValue::from_bytes(b"\"\xff\xfe\", \"now\"").unwrap(),
    );
    assert_eq!(evaluate(&headers, &Method::PUT, Some(&current())), Proceed);
}

proptest! {
    #[test]
    fn every_tag_can_be_sent_and_read_back(weak: bool, opaque in r"[!#-~\u{80}-\u{ffff}]{0,20}") {
        let text = format!("{}\"{opaque}\"", if weak { "W/" } else { "" });
        let tag = ETag::parse(&text).unwrap();
        let value = HeaderValue::from(&tag);
        prop_assert_eq!(ETag::parse(&value_text(&value)), Some(tag));
    }

    #[test]
    fn the_current_tag_is_found_wherever_it_stands_in_a_list(
        before in prop::collection::vec(r#"(W/)?"[!#-~]{0,6}""#, 0..5),
        after in prop::collection::vec(r#"(W/)?"[!#-~]{0,6}""#, 0..5),
    ) {
        let now = vec![r#""now""#.to_owned()];
        let list = [before, now, after].concat().join(", ");
        check(&Method::PUT, &[(IF_MATCH, &list)], Some(&current()), Proceed);
    }

    #[test]
    fn no_header_value_makes_an_evaluation_panic(
        value in prop::collection::vec(any::<u8>(), 0..40),
        name in prop::sample::select(vec![
            IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, IF_RANGE,
        ]),
    ) {
        if let Ok(value) = HeaderValue::from_bytes(&value) {
            let headers = HeaderMap::from_iter([(name, value)]);
            let _ = evaluate(&headers, &Method::GET, Some(&current()));
            let _ = range_applies(&headers, &current());
        }
    }
}
