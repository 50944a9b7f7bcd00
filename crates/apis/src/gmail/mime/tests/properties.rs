//! Properties of all inputs.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::gmail::mime::{
    DefaultHeaders, MAX_PARTS, TransferEncoding, decode, missing_headers, without_bcc,
};

/// Returns pieces of mail, so that combinations of them are often almost a message.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "\n",
        "\r\n",
        "\r",
        "\n\n",
        " ",
        "\t",
        "\0",
        "--",
        "--b",
        "\n--b\n",
        "\n--b--\n",
        "\n--c\n",
        "\n--c--\n",
        "Content-Type: multipart/mixed; boundary=b\n\n",
        "Content-Type: multipart/digest; boundary=\"c\"\n\n",
        "Content-Type: message/rfc822\n\n",
        "Content-Type: text/html; charset=iso-2022-jp\n",
        "Content-Type: text/plain; charset=utf-7\n",
        "Content-Type: text/plain; charset=utf-16\n",
        "Content-Transfer-Encoding: base64\n",
        "Content-Transfer-Encoding: quoted-printable\n",
        "Content-Disposition: attachment; filename*0*=koi8-r''%F0; filename*2=",
        "From: ",
        "To: ",
        "Bcc: ",
        "Date: Tue, 14 Nov 2023 22:13:20 +0000\n",
        "Date: 99 99 99999 99:99:99 -9999\n",
        "References: <a> <b",
        "Subject: =?utf-8?q?=C3=A9",
        "?= =?koi8-r?b?",
        "\"",
        "(",
        "<",
        ">",
        ",",
        ";",
        ":",
        "=",
        "&#x",
        "<style>",
        "<!--",
        "é",
        "\u{1b}$B",
        "A: b\n",
        "List-ID: x <y>\n",
        "Message-ID: <1@x>\n",
    ]);
    prop_oneof![
        8 => known.prop_map(|known| known.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..8),
    ]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let pieces = vec(piece(), 0..60).prop_map(|pieces| pieces.concat());
    prop_oneof![4 => pieces, 1 => vec(any::<u8>(), 0..300)]
}

fn check_message(raw: &[u8]) {
    let Ok(message) = parse(raw) else { return };
    assert!(message.parts().len() <= MAX_PARTS);
    assert_eq!(message.size(), raw.len() as u64);
    for part in message.parts() {
        let range = part.range();
        assert!(range.start <= range.end && range.end <= message.size());
        if part.content() != Content::Multipart {
            assert_eq!(part.size(), data(&message, raw, part.id()).len() as u64);
        }
        assert_eq!(message.part(part.id()), Some(part));
    }
    let payload = message.payload(&message.bodies(raw), |part| part.id().to_owned());
    assert_eq!(count_parts(&payload), message.parts().len());
    let stored = serde_json::to_string(&message).unwrap();
    assert_eq!(serde_json::from_str::<Structure>(&stored).unwrap(), message);
    assert!(message.summary(raw).text.len() <= 64 * 1024);
}

fn count_parts(payload: &serde_json::Value) -> usize {
    let parts = payload["parts"].as_array();
    1 + parts.map_or(0, |parts| parts.iter().map(count_parts).sum())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn any_bytes_are_a_message_or_an_error(raw in bytes()) {
        check_message(&raw);
    }

    #[test]
    fn a_header_before_any_bytes_makes_a_message(raw in bytes()) {
        let raw = [b"X: y\n", raw.as_slice()].concat();
        prop_assert!(parse(&raw).is_ok());
        check_message(&raw);
    }

    #[test]
    fn decoding_is_total_and_never_grows(raw in vec(any::<u8>(), 0..300)) {
        use TransferEncoding::{Base64, Identity, QuotedPrintable};
        for encoding in [Identity, Base64, QuotedPrintable] {
            prop_assert!(decode(encoding, &raw).len() <= raw.len());
        }
    }

    #[test]
    fn no_bcc_is_left_and_every_default_header_is_found(raw in bytes()) {
        let sent = without_bcc(&raw);
        let defaults = DefaultHeaders {
            from: "a@example.com".to_owned(),
            message_id: "<1@example.com>".to_owned(),
            date: 0,
        };
        let sent = [missing_headers(&sent, &defaults), sent].concat();
        if let Ok(message) = parse(&sent) {
            prop_assert_eq!(message.header("bcc"), None);
            for name in ["from", "date", "message-id"] {
                prop_assert!(message.header(name).is_some());
            }
        }
    }
}
