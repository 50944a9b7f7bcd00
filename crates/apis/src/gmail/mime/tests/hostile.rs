//! Hostile messages: memory and time are bounded.

use super::*;
use crate::gmail::mime::{
    MAX_ADDRESSES, MAX_DEPTH, MAX_FIELDS, MAX_HEADER_BYTES, MAX_INLINE_BYTES, MAX_PARTS, Malformed,
};

fn with_parts(parts: usize) -> String {
    let head = "Content-Type: multipart/mixed; boundary=b\n\n";
    head.to_owned() + &"--b\n\n".repeat(parts)
}

#[test]
fn parts_are_counted() {
    assert_eq!(
        parse(with_parts(MAX_PARTS - 1).as_bytes())
            .unwrap()
            .parts()
            .len(),
        MAX_PARTS
    );
    assert_eq!(
        parse(with_parts(MAX_PARTS).as_bytes()),
        Err(Malformed::TooManyParts)
    );
    assert_eq!(
        parse(with_parts(1_000_000).as_bytes()),
        Err(Malformed::TooManyParts)
    );
}

#[test]
fn depth_is_counted_in_multiparts_and_in_messages() {
    let messages = |depth: usize| "Content-Type: message/rfc822\n\n".repeat(depth - 1) + "A: b\n\n";
    let multiparts = |depth: usize| {
        let head =
            |level| format!("Content-Type: multipart/mixed; boundary=b{level}\n\n--b{level}\n");
        (1..depth).map(head).collect::<String>()
    };
    for raw in [messages(MAX_DEPTH), multiparts(MAX_DEPTH)] {
        assert_eq!(parse(raw.as_bytes()).unwrap().parts().len(), MAX_DEPTH);
    }
    for raw in [
        messages(MAX_DEPTH + 1),
        messages(100_000),
        multiparts(MAX_DEPTH + 1),
    ] {
        assert_eq!(parse(raw.as_bytes()), Err(Malformed::TooDeep));
    }
}

#[test]
fn the_deepest_message_is_json_that_can_be_read_again() {
    let raw = "Content-Type: message/rfc822\n\n".repeat(MAX_DEPTH - 1) + "A: b\n\n";
    let message = parse(raw.as_bytes()).unwrap();
    let payload = message.payload(&message.bodies(raw.as_bytes()), |_| String::new());
    let thread = serde_json::json!({ "messages": [{ "payload": payload }] }).to_string();
    serde_json::from_str::<serde_json::Value>(&thread).unwrap();
}

#[test]
fn headers_are_counted_over_all_parts() {
    let half = format!("X: {}\n", "x".repeat(MAX_HEADER_BYTES / 2));
    assert!(parse(half.as_bytes()).is_ok());
    let nested = format!("{half}Content-Type: message/rfc822\n\n{half}");
    for raw in [
        nested,
        half.repeat(2),
        format!("X: {}", "x".repeat(1024 * 1024)),
    ] {
        assert_eq!(parse(raw.as_bytes()), Err(Malformed::HeadersTooLarge));
    }
    let fields = |count: usize| "X:\n".repeat(count);
    assert!(parse(fields(MAX_FIELDS).as_bytes()).is_ok());
    assert_eq!(
        parse(fields(MAX_FIELDS + 1).as_bytes()),
        Err(Malformed::TooManyFields)
    );
}

#[test]
fn addresses_are_counted_over_all_address_fields() {
    let list = |count: usize| vec!["a@b"; count].join(",");
    let fits = format!(
        "To: {}\nCc: {}\n",
        list(MAX_ADDRESSES / 2),
        list(MAX_ADDRESSES / 2)
    );
    assert!(parse(fits.as_bytes()).is_ok());
    assert_eq!(
        parse(format!("{fits}Bcc: a@b\n").as_bytes()),
        Err(Malformed::TooManyAddresses)
    );
    assert!(parse(format!("{fits}X-Other: a@b,c@d\n").as_bytes()).is_ok());
}

#[test]
fn large_text_is_fetched_and_keeps_its_bytes() {
    let len = usize::try_from(MAX_INLINE_BYTES).unwrap();
    let raw = |len: usize| {
        [
            "Content-Type: text/plain; charset=koi8-r\n\n",
            &"x".repeat(len),
        ]
        .concat()
    };
    check_tree(raw(len), &[&format!("- text/plain inline {len}")]);
    check_tree(raw(len + 1), &[&format!("- text/plain large {}", len + 1)]);
    let grows = [
        b"Content-Type: text/plain; charset=koi8-r\n\n".as_slice(),
        &b"\xf0".repeat(len),
    ];
    let message = check_tree(grows.concat(), &[&format!("- text/plain large {len}")]);
    assert_eq!(data(&message, &grows.concat(), "").len(), len);
    assert!(message.summary(&grows.concat()).snippet.starts_with("ППП"));
    assert!(!message.summary(&grows.concat()).has_attachment);
}

#[test]
fn texts_are_inline_up_to_the_total_limit() {
    let part = format!("--b\n\n{}\n", "x".repeat(1_000_000));
    let raw = "Content-Type: multipart/mixed; boundary=b\n\n".to_owned() + &part.repeat(9);
    let message = parse(raw.as_bytes()).unwrap();
    assert_eq!(message.inline_parts().count(), 8);
    assert_eq!(message.part("8").unwrap().content(), Content::Large);
}

#[test]
fn the_text_that_is_searched_is_bounded() {
    let raw = "A: b\n\n".to_owned() + &"word ".repeat(100_000);
    let message = parse(raw.as_bytes()).unwrap();
    let text = message.summary(raw.as_bytes()).text;
    assert!(text.len() <= 64 * 1024 && text.len() > 60 * 1024);
}

#[test]
fn no_more_than_a_megabyte_is_searched_for_text() {
    let html = |len: usize| format!("--b\nContent-Type: text/html\n\n{}\n", "<".repeat(len));
    let text = |html: String| {
        let head = "Content-Type: multipart/mixed; boundary=b\n\n";
        let raw = format!("{head}{html}--b\n\nword\n--b--");
        parse(raw.as_bytes()).unwrap().summary(raw.as_bytes()).text
    };
    assert_eq!(text(html(1000)), "word");
    assert_eq!(text(html(600_000).repeat(2)), "");
}
