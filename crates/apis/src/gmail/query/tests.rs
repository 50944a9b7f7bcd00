use proptest::prelude::*;

use super::*;
use crate::gmail::rows::{Labels, words_of};

const NOW: u64 = 1_714_521_600_000;

const TEXT: &str = " the price of hay goes up ";

fn entry() -> Entry {
    Entry {
        id: "1".into(),
        thread: "1".into(),
        labels: ["INBOX", "UNREAD", "Label_7"].map(str::to_owned).into(),
        history: 1,
        arrival: 1,
        date: NOW,
        size: 2_000_000,
        snippet: String::new(),
        draft: None,
        from: words_of(["Ann Lee", "ann@farm.test"]),
        to: words_of(["bob@barn.test"]),
        cc: words_of(["Carl", "carl@barn.test"]),
        bcc: words_of(["dora@barn.test"]),
        subject: words_of(["Re: Hay prices, 2024"]),
        files: words_of(["offer.pdf"]),
        list: words_of(["farmers.farm.test"]),
        message_id: Some("a.b-c@farm.test".into()),
        has_attachment: true,
    }
}

/// Reads a query of the owner of the mailbox, Bob.
fn parse(query: &str) -> Result<Query, QueryError> {
    Query::parse(query, NOW, &"bob@barn.test".parse().unwrap())
}

fn finds(query: &str) -> bool {
    let query = parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    query.matches(&entry(), Some(TEXT)).unwrap()
}

#[test]
fn operators_match_their_field() {
    for query in [
        "",
        "from:ann",
        "from:Lee",
        "from:ann@farm.test",
        "FROM: ann",
        "from:\"ann lee\"",
        "from:(ann lee)",
        "from:(ann OR bob)",
        "from:{zoe ann}",
        "to:bob@barn.test",
        "to:carl",
        "cc:carl",
        "bcc:dora",
        "subject:hay",
        "subject:(hay prices)",
        "subject:\"hay prices\"",
        "filename:pdf",
        "filename:offer.pdf",
        "list:farmers.farm.test",
        "has:attachment",
        "has:userlabels",
        "is:unread",
        "larger:1M",
        "size:1999999",
        "smaller:2M",
        "after:2024/5/1",
        "before:2024/5/2",
        "newer_than:1d",
        "newer:1714521600",
        "rfc822msgid:a.b-c@farm.test",
        "rfc822msgid:<a.b-c@farm.test>",
        "in:anywhere",
        "hay",
        "PRICE",
        "\"price of hay\"",
        "goes ann",
        "offer",
        "to:me",
        "TO:Me",
        "-from:me",
        "{from:me to:me}",
        "to:(me OR zoe)",
        "has:nouserlabels OR has:userlabels",
        "-has:yellow-star",
        "-is:muted",
        "-in:snoozed",
        "-category:purchases",
        "price AROUND 2 hay",
        "hay AROUND 2 price",
        "hay AROUND 1 goes",
        "\"price AROUND 2 hay\"",
        "lee AROUND 1 ann",
        "12:30 OR hay",
        "+hay",
    ] {
        assert!(finds(query), "{query}");
    }
}

#[test]
fn operators_do_not_match_other_fields() {
    for query in [
        "from:an",
        "from:anna",
        "from:bob",
        "from:\"lee bob\"",
        "from:(ann zoe)",
        "to:ann",
        "cc:bob",
        "bcc:carl",
        "subject:straw",
        "subject:\"prices hay\"",
        "filename:doc",
        "list:others",
        "is:read",
        "is:starred",
        "larger:2M",
        "smaller:1K",
        "after:2024/5/2",
        "before:2024/5/1",
        "older_than:1d",
        "older:2024-05-01",
        "rfc822msgid:b-c@farm.test",
        "category:social",
        "straw",
        "\"hay price\"",
        "nosuch:hay",
        "from:me",
        "cc:me",
        "bcc:me",
        "-to:me",
        "to:\"me\"",
        "has:nouserlabels",
        "has:yellow-star",
        "has:red-bang",
        "is:muted",
        "is:snoozed",
        "category:reservations",
        "price AROUND 1 hay",
        "\"hay AROUND 2 price\"",
        "hay AROUND 9 straw",
        "goes AROUND 9 ann",
        "in:archive",
    ] {
        assert!(!finds(query), "{query}");
    }
}

#[test]
fn terms_are_bound_by_and_or_minus_and_parentheses() {
    for (query, expected) in [
        ("hay straw", false),
        ("hay OR straw", true),
        ("straw OR hay", true),
        ("straw | hay", true),
        ("straw OR oats OR hay", true),
        ("straw hay OR ann", false),
        ("ann straw OR hay", true),
        ("hay AND ann", true),
        ("-straw", true),
        ("-hay", false),
        ("--hay", true),
        ("-(straw hay)", true),
        ("-{straw hay}", false),
        ("{straw hay}", true),
        ("(straw OR hay) (oats OR ann)", true),
        ("(straw OR oats) OR (hay ann)", true),
        ("-from:bob hay", true),
        ("from:(-bob)", true),
        // Whatever is not closed or not opened.
        ("(hay", true),
        ("hay)", true),
        (") hay (", true),
        ("\"price of", true),
        ("OR", true),
        ("hay OR", true),
        ("OR straw", false),
        ("()", true),
        ("-", true),
        ("hay AND (ann OR straw)", true),
        ("from:(ann AND lee)", true),
        // Marks that are no words are ignored, as the service does.
        ("€", true),
        ("hay & ann", true),
    ] {
        assert_eq!(finds(query), expected, "{query}");
    }
}

/// As words they would find other messages, and without them too many.
#[test]
fn operator_with_a_value_that_it_does_not_take_is_refused() {
    let table = [
        ("from:", "from:"),
        ("hay from:()", "from:"),
        ("from:\"\"", "from:"),
        ("subject:€", "subject:"),
        ("label:", "label:"),
        ("rfc822msgid:<>", "rfc822msgid:"),
        ("has:nosuch", "has:nosuch"),
        ("-is:nosuch", "is:nosuch"),
        ("category:nosuch", "category:nosuch"),
        ("larger:much", "larger:much"),
        ("smaller:-1", "smaller:-1"),
        ("after:yesterday", "after:yesterday"),
        ("older:2024/13/1", "older:2024/13/1"),
        ("newer_than:3h", "newer_than:3h"),
        ("has:drive", "has:drive is not supported"),
        ("{hay HAS:YouTube}", "has:youtube is not supported"),
        ("hay AROUND price", "AROUND"),
        ("hay AROUND 5", "AROUND"),
        ("hay AROUND 5 up-down", "AROUND"),
        ("\"hay AROUND price\"", "AROUND"),
    ];
    for (query, says) in table {
        let error = parse(query).expect_err(query).to_string();
        assert!(error.starts_with(says), "{query}: {error}");
    }
}

#[test]
fn only_terms_on_the_text_need_the_text() {
    let matches_entry = |query: &str| parse(query).unwrap().matches(&entry(), None);
    assert_eq!(matches_entry("goes"), None);
    assert_eq!(matches_entry("-goes"), None);
    assert_eq!(matches_entry("goes from:bob"), Some(false));
    assert_eq!(matches_entry("goes OR from:ann"), Some(true));
    assert_eq!(matches_entry("ann"), Some(true));
    assert_eq!(matches_entry("goes AROUND 3 up"), None);
    assert_eq!(matches_entry("ann AROUND 3 lee"), Some(true));
}

#[test]
fn query_for_spam_or_trash_includes_them() {
    let everywhere = |query: &str| parse(query).unwrap().includes_spam_and_trash();
    assert!(everywhere("in:anywhere"));
    assert!(everywhere("hay OR in:anywhere"));
    assert!(!everywhere("-in:anywhere"));
    assert!(!everywhere("hay"));
    let trash = Query(vec![Term::Test(Test::Label("TRASH".into()))]);
    assert!(trash.includes_spam_and_trash());
}

#[test]
fn query_length_and_depth_are_bounded() {
    let deep = format!("{}hay", "(".repeat(51));
    assert_eq!(parse(&deep), Err(QueryError::TooDeep));
    let deep = format!("{}hay", "-".repeat(51));
    assert_eq!(parse(&deep), Err(QueryError::TooDeep));
    let long = "x".repeat(MAX_LEN + 1);
    assert_eq!(parse(&long), Err(QueryError::TooLong));
    assert!(parse(&"(hay) ".repeat(300)).is_ok());
}

#[test]
fn a_label_is_read_as_one_name() {
    let named = |text: &str| parse(text).unwrap();
    let label = Query(vec![Term::Test(Test::LabelNamed("my-hay/2024".into()))]);
    assert_eq!(named("label:my-hay/2024"), label);
    assert_eq!(named("label:\"my-hay/2024\""), label);
    assert!(
        !named("label:x").matches(&entry(), None).unwrap(),
        "unknown"
    );
    let own = Labels::from(["Label_7".to_owned()]);
    assert!(own.is_subset(&entry().labels));
}

proptest! {
    #[test]
    fn any_text_is_a_query_or_an_error(text in "[ -~\\PC]{0,60}") {
        if let Ok(query) = parse(&text) {
            prop_assert!(query.matches(&entry(), Some(TEXT)).is_some());
        }
    }

    #[test]
    fn any_mix_of_syntax_is_a_query_or_an_error(
        pieces in proptest::collection::vec(
            proptest::sample::select(vec![
                "(", ")", "{", "}", "-", "\"", " ", "OR", "from:", "hay", "|", ":", "subject:(",
                "AROUND", "3",
            ]),
            0..40,
        )
    ) {
        if let Ok(query) = parse(&pieces.concat()) {
            prop_assert!(query.matches(&entry(), Some(TEXT)).is_some());
        }
    }
}
