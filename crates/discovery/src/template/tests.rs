use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(template: &str, path: &str, expected: Option<&[(&str, &str)]>) {
    check_shaped(template, &[], path, expected);
}

#[track_caller]
fn check_shaped(
    template: &str,
    patterns: &[(&str, &'static str)],
    path: &str,
    expected: Option<&[(&str, &str)]>,
) {
    let pattern_of = |name: &str| {
        patterns
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, it)| *it)
    };
    let parsed = Template::parse_with_patterns(template, pattern_of).unwrap();
    let found = parsed.match_path(path);
    let expected = expected.map(|pairs| pairs.iter().copied().collect::<PathParameters>());
    assert_eq!(found, expected, "{template} and {path}");
}

#[test]
fn literals_match_themselves_and_nothing_else() {
    check("farm/v1/animals", "/farm/v1/animals", Some(&[]));
    check("/farm/v1/animals", "farm/v1/animals", Some(&[]));
    check("farm/v1/animals", "/farm/v1/animal", None);
    check("farm/v1/animals", "/farm/v1/Animals", None);
    check("farm/v1/animals", "/farm/v1", None);
    check("farm/v1/animals", "/farm/v1/animals/1", None);
    check("v1/ragFiles:upload", "/v1/ragFiles:upload", Some(&[]));
    check("v1/ragFiles:upload", "/v1/ragFiles", None);
}

#[test]
fn a_trailing_slash_and_a_doubled_slash_are_other_paths() {
    check("farm/v1/animals", "/farm/v1/animals/", None);
    check("farm/v1/animals", "//farm/v1/animals", None);
    check("upload/farm/v1/animals", "/upload//farm/v1/animals", None);
    check("farm/v1/animals/{animalId}", "/farm/v1/animals/", None);
    check("farm/v1/", "/farm/v1/", Some(&[]));
    check("", "/", Some(&[]));
    check("", "", Some(&[]));
    check("{a}", "/", None);
}

#[test]
fn a_variable_is_one_segment_and_decoded() {
    check("animals/{id}", "/animals/bella", Some(&[("id", "bella")]));
    check("animals/{id}", "/animals/a%2Fb", Some(&[("id", "a/b")]));
    check(
        "animals/{id}",
        "/animals/a%2fb%20c",
        Some(&[("id", "a/b c")]),
    );
    check("animals/{id}", "/animals/a/b", None);
    check(
        "animals/{id}",
        "/animals/k%C3%BChe",
        Some(&[("id", "kühe")]),
    );
    check("animals/{id}", "/animals/100%", Some(&[("id", "100%")]));
    check("animals/{id}", "/animals/a+b", Some(&[("id", "a+b")]));
    check(
        "b/{bucket}/o/{object}",
        "/b/x/o/y%2Fz",
        Some(&[("bucket", "x"), ("object", "y/z")]),
    );
}

#[test]
fn a_value_that_is_not_utf_8_matches_nothing() {
    check("animals/{id}", "/animals/%FF", None);
}

#[test]
fn a_reserved_variable_spans_segments() {
    check("v1/{+name}", "/v1/a", Some(&[("name", "a")]));
    check("v1/{+name}", "/v1/a/b/c", Some(&[("name", "a/b/c")]));
    check("v1/{+name}", "/v1/a//b", Some(&[("name", "a//b")]));
    check("v1/{+name}", "/v1/", None);
    check("v1/{+name}", "/v1", None);
    check(
        "v1/{+parent}/files",
        "/v1/a/b/files",
        Some(&[("parent", "a/b")]),
    );
    check(
        "v1/{+parent}/files",
        "/v1/files/files/files",
        Some(&[("parent", "files/files")]),
    );
    check("v1/{+parent}/files", "/v1/files", None);
    let both: &[_] = &[("a", "1/2"), ("b", "3/invoke/4")];
    check(
        "v1/{+a}/invoke/{+b}",
        "/v1/1/2/invoke/3/invoke/4",
        Some(both),
    );
}

#[test]
fn a_custom_verb_ends_the_path() {
    check(
        "v1/{+name}:upload",
        "/v1/a/b:upload",
        Some(&[("name", "a/b")]),
    );
    check("v1/{id}:upload", "/v1/a:upload", Some(&[("id", "a")]));
    check("v1/{id}:upload", "/v1/a:uploads", None);
    check("v1/{id}:upload", "/v1/aupload", None);
    check("v1/{+name}:upload", "/v1/a/bupload", None);
    check("v1/{id}:upload", "/v1/a", None);
    check("v1/{id}:upload", "/v1/:upload", None);
    check("v1/{id}:upload", "/v1/a:b:upload", Some(&[("id", "a:b")]));
    check("v1/{id}", "/v1/a:upload", Some(&[("id", "a:upload")]));
}

#[test]
fn a_pattern_gives_a_reserved_variable_its_shape() {
    let check = |pattern: &'static str, value: &str, fits: bool| {
        let expected: &[_] = &[("name", value)];
        check_shaped(
            "v1/{+name}",
            &[("name", pattern)],
            &format!("/v1/{value}"),
            fits.then_some(expected),
        );
    };
    check(
        "^projects/[^/]+/locations/[^/]+$",
        "projects/p/locations/l",
        true,
    );
    check(
        "^projects/[^/]+/locations/[^/]+$",
        "projects/p/locations",
        false,
    );
    check(
        "^projects/[^/]+/locations/[^/]+$",
        "projects/p/regions/l",
        false,
    );
    check("^[^/]+/[^/]+/cases/[^/]+$", "projects/p/cases/1", true);
    check("^operations/.*$", "operations/a/b", true);
    check("^operations/.*$", "jobs/a", false);
    check("^.*$", "any/thing/at/all", true);
    check("^[^/]+$", "one", true);
    check("^[^/]+$", "one/two", false);
    check("organizations/[0-9]{0,20}", "organizations/7", true);
    check(
        "reservations/([a-z](?:[-a-z0-9]{0,61}[a-z0-9])?|[1-9][0-9]{0,19})",
        "reservations/r",
        true,
    );
    check(
        "[a-z](?:[-a-zA-Z0-9/]{0,255}[a-zA-Z0-9])?",
        "reservations/r/blocks/b",
        true,
    );
    check("^projects/[^/]+$|^folders/[^/]+$", "folders/f", true);
    check("^unbalanced)[^/]+$", "any/thing", true);
}

#[test]
fn a_pattern_does_not_widen_a_plain_variable() {
    check_shaped("v1/{name}", &[("name", "^.*$")], "/v1/a/b", None);
}

#[test]
fn broken_templates_are_refused() {
    let segment = |segment: &str| TemplateError::Segment {
        segment: segment.to_owned(),
    };
    let name = |name: &str| TemplateError::VariableName {
        name: name.to_owned(),
    };
    for (text, expected) in [
        ("a/{b", segment("{b")),
        ("a/b}", segment("b}")),
        ("a/x{b}", segment("x{b}")),
        ("a/{b}{c}", segment("{b}{c}")),
        ("{a}:verb/b", segment("{a}:verb")),
        ("{a}:", segment("{a}:")),
        ("{}", name("")),
        ("{+}", name("")),
        ("{a b}", name("a b")),
        (
            "{a}/{+a}",
            TemplateError::RepeatedVariable {
                name: "a".to_owned(),
            },
        ),
    ] {
        assert_eq!(Template::parse(text), Err(expected), "{text}");
    }
}

#[test]
fn expansion_encodes_what_the_variable_demands() {
    let expand = |template: &str, value: &str| {
        let values = [("v", value)].into_iter().collect();
        Template::parse(template).unwrap().expand(&values)
    };
    for (template, value, path) in [
        ("a/{v}", "bella-1._~", "/a/bella-1._~"),
        ("a/{v}", "b/c d", "/a/b%2Fc%20d"),
        ("a/{v}", "100%?#+", "/a/100%25%3F%23%2B"),
        ("a/{v}", "kühe", "/a/k%C3%BChe"),
        ("a/{+v}/b", "b/c d@e", "/a/b/c%20d@e/b"),
        ("a/{+v}", "?#[]%", "/a/%3F%23%5B%5D%25"),
        ("a/{+v}:upload", "b/c", "/a/b/c:upload"),
        ("a/b:c", "", "/a/b:c"),
    ] {
        assert_eq!(
            expand(template, value).as_deref(),
            Ok(path),
            "{template} and {value}"
        );
    }
    assert_eq!(
        expand("a/{w}", "x"),
        Err(MissingValue {
            name: "w".to_owned()
        })
    );
}

#[test]
fn a_shaped_variable_expands_like_any_other() {
    let template = Template::parse_with_patterns("v1/{+parent}/files:upload", |_| {
        Some("^projects/[^/]+/locations/[^/]+$")
    });
    let values = [("parent", "projects/p/locations/l")].into_iter().collect();
    let path = template.unwrap().expand(&values);
    assert_eq!(
        path.as_deref(),
        Ok("/v1/projects/p/locations/l/files:upload")
    );
}

#[test]
fn narrower_templates_come_first() {
    let narrowest_first = [
        "v1/{+name}:upload",
        "v1/messages/send",
        "v1/messages/{id}",
        "v1/messages/{+id}",
        "v1/{+name}/files",
        "v1/{+name}",
        "{a}/messages/send",
        "{+a}",
    ];
    let specificities =
        narrowest_first.map(|template| Template::parse(template).unwrap().specificity());
    assert!(specificities.is_sorted(), "{specificities:?}");
}

#[test]
fn templates_match_the_same_paths_when_only_names_differ() {
    let collide = |a: &str, b: &str| {
        Template::parse(a).unwrap().paths() == Template::parse(b).unwrap().paths()
    };
    assert!(collide("a/{b}", "a/{c}"));
    assert!(collide("{+a}:go", "{+b}:go"));
    assert!(!collide("a/{b}", "a/{+b}"));
    assert!(!collide("a/{b}", "a/b"));
    assert!(!collide("{a}:go", "{a}:stop"));
}

#[test]
fn hostile_paths_cost_little() {
    let template = Template::parse("{+a}/x/{+b}/x/{+c}/x/{+d}/y").unwrap();
    let path = "x/".repeat(20_000);
    assert_eq!(template.match_path(&path), None);
}

/// Values of any characters, but not empty.
fn value() -> impl Strategy<Value = String> {
    any::<String>().prop_filter("not empty", |value| !value.is_empty())
}

proptest! {
    #[test]
    fn what_is_expanded_matches_and_gives_back_the_values(a in value(), b in value(), c in value()) {
        let template = Template::parse("v1/{a}/middle/{b}/files/{+c}:upload").unwrap();
        let values: PathParameters = [("a", a), ("b", b), ("c", c)].into_iter().collect();
        let path = template.expand(&values).unwrap();
        prop_assert_eq!(template.match_path(&path), Some(values));
    }

    #[test]
    fn no_template_and_no_path_make_it_panic(text in "[{}+/:a%|()^$.*\\[\\]]{0,24}", path: String, pattern: String) {
        if let Ok(template) = Template::parse_with_patterns(&text, |_| Some(&pattern)) {
            let _ = template.match_path(&path);
            let _ = template.match_path(&text);
        }
    }
}
