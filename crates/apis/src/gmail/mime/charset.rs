//! Bytes of any charset as text.

use mail_parser::decoders::charsets::map::charset_decoder;

/// The text that bytes stand for in a charset, or `None` if there is no such charset.
pub(super) fn text(charset: &str, bytes: &[u8]) -> Option<String> {
    if is_unicode(charset) {
        return Some(String::from_utf8_lossy(bytes).into_owned());
    }
    Some(charset_decoder(charset.as_bytes())?(bytes))
}

/// The text of bytes that come without a charset: UTF-8 if they can be, else what most of the older
/// senders used.
pub(super) fn guess(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => text("windows-1252", bytes).unwrap_or_default(),
    }
}

/// Whether [`text`] is something in this charset.
pub(super) fn is_known(charset: &str) -> bool {
    is_unicode(charset) || charset_decoder(charset.as_bytes()).is_some()
}

/// Whether text in this charset has to be converted to be UTF-8, and can be.
pub(super) fn is_foreign(charset: &str) -> bool {
    !is_unicode(charset) && is_known(charset)
}

/// Whether bytes in this charset are UTF-8 already.
fn is_unicode(charset: &str) -> bool {
    let names = ["utf-8", "utf8", "us-ascii", "ascii"];
    names.iter().any(|name| charset.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charsets_of_real_mail_are_known() {
        let cases: [(&str, &[u8], &str); 9] = [
            ("windows-1251", b"\xcf\xf0\xe8\xe2\xe5\xf2", "Привет"),
            ("KOI8-R", b"\xf0\xd2\xc9\xd7\xc5\xd4", "Привет"),
            ("iso-2022-jp", b"\x1b$B$3$s\x1b(B", "こん"),
            ("Shift_JIS", b"\x82\xb1\x82\xf1", "こん"),
            ("gb18030", b"\xc4\xe3\xba\xc3", "你好"),
            ("gb2312", b"\xc4\xe3\xba\xc3", "你好"),
            ("euc-kr", b"\xbe\xc8\xb3\xe7", "안녕"),
            ("iso-8859-2", b"\xb3", "ł"),
            ("utf-8", b"caf\xc3\xa9 \xff", "café \u{fffd}"),
        ];
        for (charset, bytes, expected) in cases {
            assert_eq!(text(charset, bytes).unwrap(), expected, "{charset}");
        }
        assert_eq!(text("klingon", b"x"), None);
        assert!(!is_foreign("klingon") && !is_foreign("US-ASCII") && is_foreign("latin1"));
    }

    #[test]
    fn bytes_without_a_charset_are_utf8_if_they_can_be() {
        assert_eq!(guess("café".as_bytes()), "café");
        assert_eq!(guess(b"caf\xe9"), "café");
    }
}
