//! A message is a tree of parts, and each body lies within its parent. Decoded content has no more
//! bytes than its encoded form. Headers that a server adds are there, and headers that it removes
//! are gone.
//!
//! The input is a message.

#![no_main]

use libfuzzer_sys::fuzz_target;
use windlass_apis::gmail::mime::{
    Content, DefaultHeaders, MAX_DEPTH, MAX_FIELDS, MAX_PARTS, Part, Structure, TransferEncoding,
    decode, missing_headers, parse, without_bcc,
};

/// Most bytes of the words of a message.
const MAX_TEXT: usize = 64 * 1024;

/// Most characters of a snippet, in which an entity stands for a character.
const MAX_SNIPPET: usize = 200 * "&quot;".len();

fuzz_target!(|raw: &[u8]| {
    check_decoders(raw);
    let Ok(message) = parse(raw) else { return };
    assert_eq!(message.size(), raw.len() as u64);
    assert!((1..=MAX_PARTS).contains(&message.parts().len()));
    let fields: usize = message.parts().iter().map(|it| it.headers().len()).sum();
    assert!(fields <= MAX_FIELDS);
    for (index, part) in message.parts().iter().enumerate() {
        check_part(&message, index, part, raw);
    }
    check_stored(&message);
    let summary = message.summary(raw);
    assert!(summary.text.len() <= MAX_TEXT);
    assert!(summary.snippet.chars().count() <= MAX_SNIPPET);
    assert!(!summary.snippet.contains(['<', '>', '\n']));
    check_payload(&message, raw);
    check_headers(raw);
});

fn check_decoders(body: &[u8]) {
    for encoding in [
        TransferEncoding::Identity,
        TransferEncoding::Base64,
        TransferEncoding::QuotedPrintable,
    ] {
        assert!(decode(encoding, body).len() <= body.len());
    }
}

fn check_part(message: &Structure, index: usize, part: &Part, raw: &[u8]) {
    let range = part.range();
    assert!(range.start <= range.end && range.end <= message.size());
    assert_eq!(message.part(part.id()), Some(part), "ids are unique");
    if index > 0 {
        let outer = part.id().rsplit_once('.').map_or("", |(outer, _)| outer);
        let outer = message.part(outer).expect("a part is in another one");
        let outer = outer.range();
        assert!(outer.start <= range.start && range.end <= outer.end);
    }
    assert!(part.id().split('.').count() <= MAX_DEPTH);
    if part.content() != Content::Multipart {
        let index = |offset: u64| usize::try_from(offset).expect("it is in memory");
        let body = &raw[index(range.start)..index(range.end)];
        assert_eq!(part.data(body).len() as u64, part.size());
    }
}

/// The structure is stored as JSON.
fn check_stored(message: &Structure) {
    let stored = serde_json::to_vec(message).expect("a structure is JSON");
    let read: Structure = serde_json::from_slice(&stored).expect("it was written so");
    assert_eq!(read, *message);
}

fn check_payload(message: &Structure, raw: &[u8]) {
    let payload = message.payload(&message.bodies(raw), |part| part.id().to_owned());
    let (mut open, mut parts) = (vec![&payload], 0);
    while let Some(part) = open.pop() {
        parts += 1;
        open.extend(part["parts"].as_array().into_iter().flatten());
    }
    assert_eq!(parts, message.parts().len(), "all parts are shown");
}

fn check_headers(raw: &[u8]) {
    let sent = without_bcc(raw);
    assert!(sent.len() <= raw.len());
    assert_eq!(without_bcc(&sent), sent);
    if let Ok(sent) = parse(&sent) {
        assert_eq!(sent.header("bcc"), None);
    }
    let defaults = DefaultHeaders {
        from: "ann@example.com".to_owned(),
        message_id: "<1@example.com>".to_owned(),
        date: 1_769_817_600_000,
    };
    let mut complete = missing_headers(raw, &defaults);
    complete.extend_from_slice(raw);
    assert!(missing_headers(&complete, &defaults).is_empty());
}
