//! A query of Drive is read again as it is written, and means the same; and each text can be
//! searched for.
//!
//! The input is a query and, after a line feed, the name of a file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use windlass_apis::fuzzing::DriveQuery;
use windlass_fuzz::first_text_line;

fuzz_target!(|input: &str| {
    let (text, name) = first_text_line(input);
    check_value(name);
    let Some(query) = DriveQuery::parse(text) else {
        return;
    };
    let written = query.to_string();
    let Some(again) = DriveQuery::parse(&written) else {
        assert!(
            DriveQuery::is_too_long(&written),
            "{text:?} became {written:?}"
        );
        return;
    };
    assert_eq!(again, query, "{text:?} became {written:?}");
    let file = json!({
        "name": name, "mimeType": "text/plain", "starred": true, "parents": ["root"],
        "createdTime": "2026-01-31T12:00:00.000Z", "properties": {"a": "b"},
    });
    let file = file.as_object().expect("it is an object");
    for trashed in [false, true] {
        let matches = query.matches(file, trashed);
        assert_eq!(again.matches(file, trashed), matches);
        if matches && let Some(folder) = query.folder() {
            assert_eq!(folder, "root", "{text:?} implies another folder");
        }
        // A bracket more may be one too many.
        if let Some(not) = DriveQuery::parse(&format!("not ({text})"))
            && !text.trim().is_empty()
        {
            assert_eq!(not.matches(file, trashed), !matches, "{text:?}");
        }
    }
});

/// A file is found by its own type and properties, in quotation marks.
fn check_value(value: &str) {
    let quoted = value.replace('\\', "\\\\").replace('\'', "\\'");
    let text = format!(
        "mimeType = '{quoted}' and properties has {{ key='{quoted}' and value='{quoted}' }}"
    );
    let query = DriveQuery::parse(&text).expect("it is a query");
    let file = json!({"mimeType": value, "properties": {value: value}});
    assert!(
        query.matches(file.as_object().expect("it is an object"), false),
        "{text:?}"
    );
}
