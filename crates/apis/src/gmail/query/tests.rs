use proptest::prelude::*;

use super::*;
use crate::gmail::rows::Labels;

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

fn finds(query: &str) -> bool {
    let query = Query::parse(query, NOW).unwrap();
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
        "has:drive",
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
        ("from:", false),
    ] {
        assert_eq!(finds(query), expected, "{query}");
    }
}

#[test]
fn only_terms_on_the_text_need_the_text() {
    let matches_entry = |query: &str| Query::parse(query, NOW).unwrap().matches(&entry(), None);
    assert_eq!(matches_entry("goes"), None);
    assert_eq!(matches_entry("-goes"), None);
    assert_eq!(matches_entry("goes from:bob"), Some(false));
    assert_eq!(matches_entry("goes OR from:ann"), Some(true));
    assert_eq!(matches_entry("ann"), Some(true));
}

#[test]
fn query_for_spam_or_trash_includes_them() {
    let everywhere = |query: &str| Query::parse(query, NOW).unwrap().includes_spam_and_trash();
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
    assert_eq!(Query::parse(&deep, NOW), Err(QueryError::TooDeep));
    let deep = format!("{}hay", "-".repeat(51));
    assert_eq!(Query::parse(&deep, NOW), Err(QueryError::TooDeep));
    let long = "x".repeat(LONGEST + 1);
    assert_eq!(Query::parse(&long, NOW), Err(QueryError::TooLong));
    assert!(Query::parse(&"(hay) ".repeat(300), NOW).is_ok());
}

#[test]
fn a_label_is_read_as_one_name() {
    let named = |text: &str| Query::parse(text, NOW).unwrap();
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
        if let Ok(query) = Query::parse(&text, NOW) {
            prop_assert!(query.matches(&entry(), Some(TEXT)).is_some());
        }
    }

    #[test]
    fn any_mix_of_syntax_is_a_query_or_an_error(
        pieces in proptest::collection::vec(
            proptest::sample::select(vec!["(", ")", "{", "}", "-", "\"", " ", "OR", "from:", "hay", "|", ":", "subject:("]),
            0..40,
        )
    ) {
        if let Ok(query) = Query::parse(&pieces.concat(), NOW) {
            prop_assert!(query.matches(&entry(), Some(TEXT)).is_some());
        }
    }
}

#[test]
fn a_day_is_written_in_several_ways() {
    for text in [
        "2024/5/1",
        "2024/05/01",
        "2024-05-01",
        "05/01/2024",
        "1714521600",
    ] {
        assert_eq!(moment(text), Some(1_714_521_600_000), "{text}");
    }
    assert_eq!(moment("1950/1/1"), Some(0));
    for text in [
        "",
        "2024",
        "tomorrow",
        "2024/13/1",
        "1/2/3",
        "2024/5",
        "99999999999999999999",
    ] {
        let number = text == "2024";
        assert_eq!(moment(text).is_some(), number, "{text}");
    }
}

#[test]
fn an_age_is_a_number_of_days_weeks_months_or_years() {
    assert_eq!(age("3d"), Some(3 * DAY));
    assert_eq!(age("1w"), Some(7 * DAY));
    assert_eq!(age("2M"), Some(60 * DAY));
    assert_eq!(age("1y"), Some(365 * DAY));
    for text in ["", "d", "3", "3h", "-1d", "18446744073709551615y", "3é"] {
        assert_eq!(age(text), None, "{text}");
    }
}
