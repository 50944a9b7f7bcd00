//! Queries over one file, and refused queries.

use serde_json::{Value, json};

use super::*;

fn llama() -> Fields {
    let llama = json!({
        "name": "My HelloWorld l'llama.png",
        "mimeType": "image/png",
        "createdTime": "2026-11-20T10:00:00.000Z",
        "modifiedTime": "2026-11-21T10:00:00.000Z",
        "parents": ["farm"],
        "starred": true,
        "properties": {"legs": "4"},
    });
    match llama {
        Value::Object(fields) => fields,
        _ => unreachable!("it is written as one"),
    }
}

fn matches(query: &str, trashed: bool) -> bool {
    let parsed = Query::parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    parsed.matches(&llama(), trashed)
}

#[test]
fn query_matches_by_its_terms() {
    let table = [
        ("", true),
        ("  ", true),
        ("name = 'my helloworld l\\'LLAMA.png'", true),
        ("name='My HelloWorld'", false),
        ("name != 'cow'", true),
        ("name contains 'hello'", true),
        ("name contains 'world'", false),
        ("name contains 'llama'", true),
        ("name contains 'png'", true),
        ("mimeType = 'image/png'", true),
        ("mimeType='image/PNG'", false),
        ("mimeType != 'image/png'", false),
        ("mimeType contains 'image/'", true),
        ("mimeType contains 'video/'", false),
        ("modifiedTime > '2026-11-21T09:59:59'", true),
        ("modifiedTime > '2026-11-21T10:00:00'", false),
        ("modifiedTime >= '2026-11-21T12:00:00+02:00'", true),
        ("modifiedTime = '2026-11-21T10:00:00Z'", true),
        ("modifiedTime != '2026-11-21T10:00:00Z'", false),
        ("createdTime < '2026-11-21'", true),
        ("createdTime <= '2026-11-20'", false),
        ("viewedByMeTime > '1970-01-01'", false),
        ("trashed = false", true),
        ("trashed=true", false),
        ("trashed != true", true),
        ("starred", true),
        ("not starred", false),
        ("sharedWithMe", false),
        ("'farm' in parents", true),
        ("not 'farm' in parents", false),
        ("'root' in parents", false),
        ("'me' in owners", true),
        ("'you' in writers", false),
        ("properties has { key='legs' and value='4' }", true),
        ("properties has {key='legs' and value='5'}", false),
        ("appProperties has { key='legs' and value='4' }", false),
        ("trashed=false and name contains 'my'", true),
        ("trashed=true or name contains 'my'", true),
        ("not (trashed=false and starred=true)", false),
        ("not not starred", true),
    ];
    for (query, expected) in table {
        assert_eq!(matches(query, false), expected, "{query}");
    }
    assert!(matches("trashed", true));
}

#[test]
fn and_and_or_have_equal_precedence_from_left_to_right() {
    assert!(!matches("starred or starred and trashed", false));
    assert!(matches("starred or (starred and trashed)", false));
}

#[test]
fn query_implies_folder_when_all_matches_are_in_it() {
    let table = [
        ("'a' in parents", Some("a")),
        ("trashed=false and ('a' in parents) and starred", Some("a")),
        ("'a' in parents or starred", None),
        ("not 'a' in parents", None),
        ("starred", None),
    ];
    for (query, folder) in table {
        assert_eq!(Query::parse(query).unwrap().folder(), folder, "{query}");
    }
}

#[test]
fn invalid_query_is_refused_with_the_reason() {
    let table = [
        ("name = 'a", "a quotation mark is not closed"),
        ("name = 'a\\'", "a quotation mark is not closed"),
        (
            "name = a",
            "`a` stands where a value in quotation marks is expected",
        ),
        ("name", "it ends where an operator is expected"),
        ("name < 'a'", "`<` does not go with `name`"),
        (
            "name like 'a'",
            "`like` stands where an operator is expected",
        ),
        ("size > '1'", "`size` cannot be searched by"),
        ("fullText contains 'a'", "`fullText` cannot be searched by"),
        (
            "trashed = maybe",
            "`maybe` stands where true or false is expected",
        ),
        (
            "modifiedTime > 'noon'",
            "`noon` is not a time such as 2026-11-21T10:00:00",
        ),
        (
            "modifiedTime contains '2026-11-21'",
            "`contains` stands where a comparison is expected",
        ),
        ("'a' in name", "`in` does not go with `name`"),
        ("'a' of parents", "`of` stands where in is expected"),
        ("(starred", "it ends where a closing bracket is expected"),
        (
            "starred)",
            "`)` stands where and, or, or the end is expected",
        ),
        (
            "starred trashed",
            "`trashed` stands where and, or, or the end is expected",
        ),
        ("starred and", "it ends where a term is expected"),
        ("= 'a'", "`=` stands where a term is expected"),
        ("! starred", "`!` cannot be searched by"),
        (
            "properties has {key='a'}",
            "`}` stands where and is expected",
        ),
    ];
    for (query, reason) in table {
        let refused = Query::parse(query).expect_err(query);
        assert_eq!(refused.to_string(), reason, "{query}");
    }
}

#[test]
fn deep_or_long_query_is_refused() {
    for part in ["(", "not ", "starred and "] {
        let query = part.repeat(100_000);
        assert_eq!(Query::parse(&query), Err(QueryError::TooLong), "{part}");
    }
    let deep = format!("{}starred{}", "(".repeat(290), ")".repeat(290));
    assert!(matches(&deep, false));
}
