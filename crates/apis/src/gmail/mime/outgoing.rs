//! What a server changes in a message that it sends.

use mail_parser::DateTime;

use super::fields;

/// What a message is given on sending if its author left it out.
#[derive(Debug, Clone)]
pub struct Stamp {
    /// The value of `From`.
    pub from: String,
    /// The value of `Message-ID`, with angle brackets.
    pub message_id: String,
    /// When it is sent, in milliseconds since the epoch.
    pub date: i64,
}

/// The message as others get it: without `Bcc` and `Resent-Bcc` in its header. Nothing else is changed.
pub fn without_bcc(raw: &[u8]) -> Vec<u8> {
    let fields = fields::of_message(raw);
    let mut kept = Vec::with_capacity(raw.len());
    let mut at = 0;
    for field in &fields {
        if field.is(raw, "bcc") || field.is(raw, "resent-bcc") {
            kept.extend_from_slice(&raw[at..field.lines.start]);
            at = field.lines.end;
        }
    }
    kept.extend_from_slice(&raw[at..]);
    kept
}

/// The header fields to put before a message so that it has `From`, `Date` and `Message-ID`. Those that it
/// has are left alone. Lines end as the first of the message does.
pub fn missing_headers(raw: &[u8], stamp: &Stamp) -> Vec<u8> {
    let fields = fields::of_message(raw);
    let end = match raw[fields::line(raw, 0)] {
        [.., b'\r', b'\n'] => "\r\n",
        [.., b'\n'] => "\n",
        _ => "\r\n",
    };
    let date = DateTime::from_timestamp(stamp.date.div_euclid(1000)).to_rfc822();
    let wanted = [
        ("From", stamp.from.as_str()),
        ("Date", &date),
        ("Message-ID", &stamp.message_id),
    ];
    let mut missing = Vec::new();
    for (name, value) in wanted {
        if !fields.iter().any(|field| field.is(raw, name)) {
            // A line end in a value would be the end of the field.
            let value = value.chars().filter(|c| !c.is_control());
            missing.extend(format!("{name}: {}{end}", value.collect::<String>()).bytes());
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blind_copies_are_dropped_and_nothing_else() {
        let cases: [(&[u8], &[u8]); 6] = [
            (
                b"To: a\r\nBcc: b,\r\n c\r\nSubject: s\r\n\r\nBcc: stays\r\n",
                b"To: a\r\nSubject: s\r\n\r\nBcc: stays\r\n",
            ),
            (b"bcc: a\nBCC : b\nTo: c\n\n\0\xff", b"To: c\n\n\0\xff"),
            (b"To: a\nResent-Bcc: b\n", b"To: a\n"),
            (b"Bcc: a", b""),
            (
                b"To: a\r\nBcc-Not: b\r\n\r\n",
                b"To: a\r\nBcc-Not: b\r\n\r\n",
            ),
            (b"", b""),
        ];
        for (raw, expected) in cases {
            assert_eq!(without_bcc(raw), expected, "{}", raw.escape_ascii());
        }
    }

    #[test]
    fn what_is_missing_is_put_in_front() {
        let stamp = Stamp {
            from: "Ann <ann@example.com>\r\nBcc: x".to_owned(),
            message_id: "<1@example.com>".to_owned(),
            date: 1_700_000_000_123,
        };
        let all = "From: Ann <ann@example.com>Bcc: x\r\nDate: Tue, 14 Nov 2023 22:13:20 +0000\r\n\
                   Message-ID: <1@example.com>\r\n";
        let cases: [(&[u8], &str); 4] = [
            (b"To: a\r\n\r\n", all),
            (b"from: a\r\ndate: b\r\nmessage-id: c\r\n\r\n", ""),
            (
                b"From: a\nDate: b\n\nMessage-ID: c\n",
                "Message-ID: <1@example.com>\n",
            ),
            (b"", all),
        ];
        for (raw, expected) in cases {
            let missing = missing_headers(raw, &stamp);
            assert_eq!(missing, expected.as_bytes(), "{}", raw.escape_ascii());
        }
    }
}
