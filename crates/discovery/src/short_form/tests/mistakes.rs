//! All mistakes of a text are reported together, each with its position and a correction.

use super::*;

/// Each mistake as `LINE:COLUMN KEY: PROBLEM; HELP`.
fn told(text: &str) -> Vec<String> {
    let error = compile(text).expect_err("the text has mistakes");
    let mistakes = error.mistakes().iter();
    let told = mistakes.map(|mistake| {
        let Position { line, column } = mistake.position;
        format!("{line}:{column} {mistake}")
    });
    told.collect()
}

#[test]
fn all_mistakes_of_a_text_are_told_in_its_order() {
    let text = r#"name = "album"
version = 3
tittle = "Album"

[collections.photos]
schema = { stars = { type = "integer", minimum = 1 }, title = "text", at = "string" }
methods = ["insert", "upsert"]
resource = "Photo"
filter_by = ["title", "star"]

[collections.photos.media]
accept = ["image/*", "jpg"]
max_size = "20XB"

[collections.comments]
parent = "foto"

[methods."photos.like"]
http = "POST"
path = "photos/{photoId}:like"
response = "Foto"

[methods.photos.hide]
http = "POST"
path = "x"
"#;
    let expected = [
        "2:11 `version`: invalid type: integer `3`, expected a string",
        "3:1 `tittle`: unknown key; did you mean `title`?",
        "6:40 `collections.photos.schema.stars.minimum`: unknown key; did you mean `min`?",
        "6:63 `collections.photos.schema.title`: `text` is not a type; use string, integer, number, boolean, \
         object, any or the name of a schema, and append [] for an array, {} for a map",
        "7:22 `collections.photos.methods[1]`: unknown variant `upsert`, expected one of `insert`, `update`, \
         `patch`, `get`, `list`, `delete`",
        "8:12 `collections.photos.resource`: the name of a resource begins with a small letter; write `photo`: \
         variables are then `photoId`, the schema `Photo`",
        "9:23 `collections.photos.filter_by`: `star` is not a field of the schema, nor one of createdTime, \
         updatedTime, size, mimeType",
        "12:10 `collections.photos.media.accept`: `jpg` is not a media type such as image/png or image/*",
        "13:12 `collections.photos.media.max_size`: `XB` is not a unit of size; use B, KB, MB, GB or TB",
        "16:10 `collections.comments.parent`: there is no collection `foto`",
        "21:12 `methods.\"photos.like\".response`: there is no schema `Foto`; did you mean `Photo`?",
        "23:17 `methods.photos.hide`: unknown key; write [methods.\"photos.hide\"] with quotes",
    ];
    assert_eq!(told(text), expected);
}

#[test]
fn what_follows_from_a_mistake_is_not_told() {
    for (text, expected) in [
        // Neither the type that `typ` was meant to be is missing, nor is the field that lists are
        // filtered by.
        (
            "[collections.a]\nfilter_by = [\"x\"]\nschema = { x = { typ = \"string\" } }",
            &["5:18 `collections.a.schema.x.typ`: unknown key; did you mean `type`?"][..],
        ),
        (
            "[collections.a]\nparent = 5\non_parent_delete = \"refuse\"",
            &["4:10 `collections.a.parent`: invalid type: integer `5`, expected a string"],
        ),
        (
            "[collections.a-b]\n[collections.c]\nparent = \"a-b\"",
            &[
                "3:14 `collections.a-b`: `a-b` is not a name: it takes a letter, then letters, digits and `_`",
                "5:10 `collections.c.parent`: `a-b` is not a name: it takes a letter, then letters, digits and `_`",
            ],
        ),
        (
            "[collections.a]\nmedia = { acept = [] }",
            &["4:11 `collections.a.media.acept`: unknown key; did you mean `accept`?"],
        ),
    ] {
        assert_eq!(told(&with_head(text)), expected, "{text}");
    }
}

#[test]
fn mistakes_of_a_text_that_is_not_toml_are_told_with_their_places() {
    let text = "name = \"a\nversion = \"v1\"\n[collections.a]\nmethods = [\"get\"\nmedia = { max_size = 5GB }\n";
    let expected = [
        "1:10 invalid basic string, expected `\"`",
        "5:1 missing comma between array elements, expected `,`",
    ];
    assert_eq!(told(text), expected);
}

#[test]
fn nesting_is_explained_where_dots_were_tried() {
    let help =
        "a collection inside of another one is [collections.photos] with parent = \"albums\"";
    for table in [
        "[collections.\"albums.photos\"]",
        "[collections.albums.photos]",
    ] {
        let told = told(&with_head(&format!("[collections.albums]\n{table}")));
        assert!(told[0].ends_with(help), "{told:?}");
    }
}

#[test]
fn a_text_with_nothing_to_call_is_told_how_to_begin() {
    for text in [
        "name = \"a\"\nversion = \"v1\"",
        "name = \"a\"\nversion = \"v1\"\n[collections]",
    ] {
        let expected = "1:1 there are neither `collections` nor `methods`; `windlass api new NAME` writes a description \
                        to begin with";
        assert_eq!(told(text), [expected]);
    }
    assert_eq!(
        told(""),
        [
            "1:1 the key `name` is missing",
            "1:1 the key `version` is missing"
        ]
    );
}

#[test]
fn text_of_thousands_of_mistakes_is_told_up_to_a_bound() {
    let lines: Vec<_> = (0..3000).map(|at| format!("x{at} = 1")).collect();
    assert_eq!(told(&with_head(&lines.join("\n"))).len(), 100);
}

#[test]
fn parts_of_a_document_are_found_in_its_text() {
    let text = with_head(
        "[collections.photos]\n[schemas.Tag]\nname = \"string\"\n[methods.\"photos.like\"]\nhttp = \"POST\"\npath = \"x\"\n\
         [methods.ping]\nhttp = \"GET\"\npath = \"x\"",
    );
    for (path, found) in [
        ("version", Some("version")),
        (
            "resources.photos.methods.like.path",
            Some("\"photos.like\""),
        ),
        ("resources.photos.methods.get.parameters.x", Some("photos")),
        ("resources.photos", Some("photos")),
        ("methods.ping.httpMethod", Some("ping")),
        ("schemas.Tag.properties.name.pattern", Some("name")),
        ("schemas.Tag", Some("Tag")),
        ("schemas.Photo", None),
        ("servicePath", None),
        ("methods", None),
    ] {
        let place = place_of(&text, path);
        assert_eq!(place.map(|span| &text[span]), found, "{path}");
    }
    assert_eq!(place_of("= 1", "name"), None);
}
