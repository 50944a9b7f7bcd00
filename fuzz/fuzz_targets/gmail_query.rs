//! Every text up to a length is a search of Gmail, unless it has an operator with an invalid value.
//! A result that is decided without the text of a message holds for every text. The negation of a
//! search matches exactly the messages that the search does not match.
//!
//! The input is a search, a subject and the text of a message, a line each.

#![no_main]

use libfuzzer_sys::fuzz_target;
use windlass_apis::fuzzing::{GmailMessage, GmailQuery};
use windlass_fuzz::first_text_line;

/// 31 January 2026, in milliseconds since the epoch.
const NOW: u64 = 1_769_817_600_000;

/// Longest search, in bytes.
const MAX_LEN: usize = 2048;

fuzz_target!(|input: &str| {
    let (text, message) = first_text_line(input);
    let (subject, body) = first_text_line(message);
    let Some(query) = GmailQuery::parse(text, NOW) else {
        assert!(
            text.len() > MAX_LEN
                || GmailQuery::is_too_deep(text)
                || (GmailQuery::is_refused_operator(text)
                    && (text.contains(':') || text.contains("AROUND"))),
            "{text:?}"
        );
        return;
    };
    let unread = GmailMessage {
        from: "Ann Lee <ann@example.com>",
        to: "bob@example.com",
        subject,
        labels: &["INBOX", "UNREAD"],
        date: NOW - 1,
        size: 1_000,
        text: None,
    };
    let before = query.matches(&unread);
    for text_of_message in ["", body] {
        let read = GmailMessage {
            text: Some(text_of_message),
            ..unread.clone()
        };
        let after = query.matches(&read).expect("the whole message is known");
        assert!(before.is_none_or(|before| before == after), "{text:?}");
        assert!(after || !query.is_empty());
        // Brackets and quotation marks would not end where the search does.
        if !query.is_empty() && !text.contains(['(', ')', '{', '}', '"']) {
            let Some(not) = GmailQuery::parse(&format!("-({text})"), NOW) else {
                continue;
            };
            assert_eq!(not.matches(&read), Some(!after), "{text:?}");
        }
    }
});
