use proptest::prelude::*;
use serde_json::json;

use super::*;

fn farm() -> Value {
    json!({
        "kind": "farm#animals",
        "etag": "\"7\"",
        "items": [
            {"id": "1", "name": "Llama", "owner": {"name": "Ada", "farm": {"name": "North"}}},
            {"id": "2", "name": "Yak", "tags": ["big", "calm"]},
        ],
        "next": null,
    })
}

/// Compares texts, because two JSON objects are equal in whatever order their fields are.
fn check(mask: &str, expected: &Value) {
    let selected = FieldMask::parse(mask)
        .unwrap_or_else(|error| panic!("{mask:?}: {error}"))
        .apply(farm());
    assert_eq!(selected.to_string(), expected.to_string(), "{mask:?}");
}

fn check_refused(mask: &str, expected: FieldMaskError) {
    assert_eq!(FieldMask::parse(mask), Err(expected), "{mask:?}");
}

#[test]
fn an_empty_mask_selects_everything() {
    for mask in ["", "  ", "*"] {
        check(mask, &farm());
    }
}

#[test]
fn a_name_selects_a_whole_field() {
    check("kind", &json!({"kind": "farm#animals"}));
    check("next", &json!({"next": null}));
    check("items", &json!({"items": farm()["items"]}));
}

#[test]
fn the_order_is_that_of_the_resource() {
    let both = json!({"kind": "farm#animals", "etag": "\"7\""});
    check("kind,etag", &both);
    check("etag,kind", &both);
}

#[test]
fn paths_and_sub_selectors_look_through_arrays() {
    let names = json!({"items": [{"name": "Llama"}, {"name": "Yak"}]});
    check("items/name", &names);
    check("items(name)", &names);
    check(
        "items(id,owner/name)",
        &json!({"items": [{"id": "1", "owner": {"name": "Ada"}}, {"id": "2"}]}),
    );
    check(
        "items/owner(name,farm(name))",
        &json!({"items": [{"owner": {"name": "Ada", "farm": {"name": "North"}}}, {}]}),
    );
}

#[test]
fn a_wildcard_stands_for_every_field_of_its_level() {
    check("items/*", &json!({"items": farm()["items"]}));
    check("items(*)", &json!({"items": farm()["items"]}));
    check(
        "items/*/name",
        &json!({"items": [{"owner": {"name": "Ada"}}, {"tags": []}]}),
    );
    check(
        "*/owner/*/name",
        &json!({"items": [{"owner": {"farm": {"name": "North"}}}, {}]}),
    );
}

#[test]
fn a_field_that_is_called_like_the_wildcard_is_selected_once() {
    let mask = FieldMask::parse("*/*/a").unwrap();
    assert_eq!(mask.root.below("*").count(), 1);
    assert_eq!(
        mask.apply(json!({"*": {"*": {"a": 1, "*": 2}}})),
        json!({"*": {"*": {"a": 1}}})
    );
}

#[test]
fn selectors_of_one_field_merge() {
    let both = json!({"items": [{"id": "1", "name": "Llama"}, {"id": "2", "name": "Yak"}]});
    check("items/id,items/name", &both);
    check("items(name),items(id)", &both);
    check("*/id,items/name", &both);
    check("items,items/id", &json!({"items": farm()["items"]}));
    check("items/id,items", &json!({"items": farm()["items"]}));
    check("items/id,*", &farm());
}

#[test]
fn what_does_not_exist_selects_nothing() {
    check("wings", &json!({}));
    check("kind/length", &json!({}));
    check("next/page", &json!({}));
    check("wings,kind", &json!({"kind": "farm#animals"}));
    check("items/wings", &json!({"items": [{}, {}]}));
    check("items/tags/size", &json!({"items": [{}, {"tags": []}]}));
}

#[test]
fn a_value_without_fields_has_nothing_to_select() {
    let mask = FieldMask::parse("kind").unwrap();
    assert_eq!(mask.apply(json!("text")), json!({}));
    assert_eq!(mask.apply(json!([{"kind": 1}, 2])), json!([{"kind": 1}]));
}

/// An API whose method `f.x.get` replies with something like [`farm`].
fn described() -> windlass_discovery::Api {
    windlass_discovery::Api::from_toml(
        "name = 'f'\nversion = 'v1'\n\
         [schemas.List]\nkind = 'string'\nitems = 'Item[]'\nopen = 'object'\n\
         [schemas.Item]\nid = 'string'\nowner = 'Owner'\nlabels = 'string{}'\n\
         [schemas.Owner]\nname = 'string'\nfarm = 'Owner'\n\
         [methods.'x.get']\nhttp = 'GET'\npath = 'x'\nresponse = 'List'\n\
         [methods.'x.cut']\nhttp = 'POST'\npath = 'x'\n",
    )
    .expect("it is valid")
}

#[test]
fn name_that_the_reply_cannot_have_is_refused() {
    let api = described();
    let check = |method: &str, mask: &str| {
        let method = api.method(method).expect("it is described");
        let mask = FieldMask::parse(mask).expect("it can be read");
        mask.check(&ResponseFields::of(&api, method)).err()
    };
    for (mask, refused) in [
        ("kind,items(id,owner/farm/name)", None),
        ("*", None),
        ("items/*", None),
        ("items/*/name", None),
        ("items/labels/any", None),
        ("open/a/b/c", None),
        ("*/a", None),
        ("wings", Some("wings")),
        ("kind,wings", Some("wings")),
        ("kind/length", Some("length")),
        ("kind/*", Some("*")),
        ("items(id,wings)", Some("wings")),
        ("items/owner/wings", Some("wings")),
        ("items/*/wings", None),
        ("items/owner/*/wings", Some("wings")),
        ("items/labels/any/x", Some("x")),
        ("items,items/wings", Some("wings")),
        ("KIND", Some("KIND")),
    ] {
        let expected = refused.map(|name| NoSuchField {
            name: name.to_owned(),
        });
        assert_eq!(check("f.x.get", mask), expected, "{mask}");
    }
    assert_eq!(check("f.x.cut", "anything/at/all"), None);
}

#[test]
fn white_space_around_names_is_tolerated() {
    let both = json!({"kind": "farm#animals", "items": [{"id": "1"}, {"id": "2"}]});
    check("kind, items(id)", &both);
    check(" kind ,\titems ( id ) ", &both);
    check("items / id,kind", &both);
}

#[test]
fn a_name_is_made_of_whatever_does_not_delimit_names() {
    let resource = json!({"$ref": 1, "@type": 2, "a.b-c_9": 3, "größe": 4, "other": 5});
    let mask = FieldMask::parse("$ref,@type,a.b-c_9,größe").unwrap();
    assert_eq!(
        mask.apply(resource),
        json!({"$ref": 1, "@type": 2, "a.b-c_9": 3, "größe": 4})
    );
}

#[test]
fn a_missing_name_is_refused_where_it_is_missing() {
    for (mask, at) in [
        (",", 0),
        ("/a", 0),
        ("(a)", 0),
        ("a,", 2),
        ("a,,b", 2),
        ("a, ", 3),
        ("a/", 2),
        ("a//b", 2),
        ("a()", 2),
        ("a(b,)", 4),
        ("a(", 2),
        ("((((", 0),
    ] {
        check_refused(mask, FieldMaskError::NameExpected { at });
    }
}

#[test]
fn what_cannot_follow_a_selector_is_refused() {
    for (mask, at, found) in [
        ("a)", 1, ')'),
        ("a b", 2, 'b'),
        ("a(b)c", 4, 'c'),
        ("a(b)/c", 4, '/'),
        ("a(b c)", 4, 'c'),
        ("a(b))", 4, ')'),
        ("na*", 2, '*'),
        ("*a", 1, 'a'),
        ("ä ö", 3, 'ö'),
    ] {
        check_refused(mask, FieldMaskError::Unexpected { at, found });
    }
}

#[test]
fn an_open_parenthesis_is_refused_where_it_opens() {
    check_refused("a(b", FieldMaskError::Unclosed { at: 1 });
    check_refused("a(b(c)", FieldMaskError::Unclosed { at: 1 });
    check_refused("a(b(c,d", FieldMaskError::Unclosed { at: 3 });
}

#[test]
fn a_mask_has_limits() {
    let long = "a".repeat(MAX_LEN);
    assert!(FieldMask::parse(&long).is_ok());
    check_refused(&(long + "a"), FieldMaskError::TooLong { len: MAX_LEN + 1 });

    let many = vec!["a"; MAX_NAMES].join(",");
    assert!(FieldMask::parse(&many).is_ok());
    check_refused(
        &(many + ",a"),
        FieldMaskError::TooManyNames { at: 2 * MAX_NAMES },
    );

    let deep = vec!["a"; MAX_LEVELS].join("/");
    let too_deep = FieldMaskError::TooDeep { at: 2 * MAX_LEVELS };
    assert!(FieldMask::parse(&deep).is_ok());
    check_refused(&(deep + "/a"), too_deep);
    check_refused(&"a(".repeat(MAX_LEN / 2), too_deep);
}

#[test]
fn errors_say_what_is_wrong_and_where() {
    for (mask, expected) in [
        (
            "a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a",
            "a field mask has at most 16 levels, one more is at byte 32",
        ),
        ("id,", "the field mask lacks a field name at byte 3"),
        ("a(b)c", "the field mask has an unexpected 'c' at byte 4"),
        (
            "a(b",
            "the field mask does not close the parenthesis at byte 1",
        ),
    ] {
        assert_eq!(FieldMask::parse(mask).unwrap_err().to_string(), expected);
    }
}

fn any_resource() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(Value::Null), any::<i64>().prop_map(Value::from)];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            any_object("[a-c]", inner),
        ]
    })
}

fn any_object(
    name: &'static str,
    value: impl Strategy<Value = Value>,
) -> impl Strategy<Value = Value> {
    prop::collection::vec((name, value), 0..6).prop_map(|fields| fields.into_iter().collect())
}

proptest! {
    #[test]
    fn parsing_never_panics(mask in prop_oneof![any::<String>(), "[ab*,/() ]{0,40}"]) {
        let _ = FieldMask::parse(&mask);
    }

    #[test]
    fn the_mask_of_all_top_level_fields_changes_nothing(
        resource in any_object("[A-Za-z0-9_$.@-]{1,8}", any_resource())
    ) {
        let names: Vec<_> = resource.as_object().unwrap().keys().map(String::as_str).collect();
        let mask = FieldMask::parse(&names.join(",")).unwrap();
        prop_assert_eq!(mask.apply(resource.clone()).to_string(), resource.to_string());
    }

    #[test]
    fn mask_that_selects_something_leaves_something(
        mask in "[a-c*]([,/][a-c*]){0,6}",
        resource in any_object("[a-c]", any_resource()),
    ) {
        let mask = FieldMask::parse(&mask).unwrap();
        let selects = mask.selects_of(resource.as_object().unwrap());
        let left = mask.apply(resource);
        prop_assert_eq!(selects, left != json!({}), "{}", left);
    }

    #[test]
    fn applying_a_mask_twice_is_applying_it_once(
        mask in "[a-c*]([,/][a-c*]){0,6}",
        resource in any_object("[a-c]", any_resource()),
    ) {
        let mask = FieldMask::parse(&mask).unwrap();
        let once = mask.apply(resource);
        prop_assert_eq!(mask.apply(once.clone()).to_string(), once.to_string());
    }
}
