//! Encodings of texts and bodies: charsets, transfer encodings, encoded words (RFC 2047).

use mail_parser::decoders::charsets::map::charset_decoder;
use serde::{Deserialize, Serialize};

const MAX_CHARSET: usize = 64;

/// Transfer encoding of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransferEncoding {
    /// No encoding: `7bit`, `8bit`, `binary`, and unknown ones.
    #[default]
    Identity,
    /// RFC 2045, 6.8.
    Base64,
    /// RFC 2045, 6.7.
    QuotedPrintable,
}

impl TransferEncoding {
    /// Reads the value of `Content-Transfer-Encoding`.
    pub(super) fn named(value: &str) -> Self {
        let end = |c: char| c.is_ascii_whitespace() || c == ';' || c == '(';
        match value.trim_start().split(end).next().unwrap_or_default() {
            name if name.eq_ignore_ascii_case("base64") => Self::Base64,
            name if name.eq_ignore_ascii_case("quoted-printable") => Self::QuotedPrintable,
            _ => Self::Identity,
        }
    }
}

/// Undoes a transfer encoding. Undecodable bytes are skipped (base64) or kept unchanged
/// (quoted-printable). The output is never longer than the input.
pub fn decode(encoding: TransferEncoding, body: &[u8]) -> Vec<u8> {
    match encoding {
        TransferEncoding::Identity => body.to_vec(),
        TransferEncoding::Base64 => base64(body),
        TransferEncoding::QuotedPrintable => quoted_printable(body),
    }
}

/// Stops at the padding. Bytes after it were added in transit, e.g. by a mailing list.
fn base64(body: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(body.len() / 4 * 3 + 2);
    let (mut bits, mut held) = (0_u32, 0_u32);
    for &byte in body {
        if byte == b'=' && held > 0 {
            break;
        }
        let Some(sextet) = sextet(byte) else { continue };
        bits = (bits << 6) | u32::from(sextet);
        held += 6;
        if held >= 8 {
            held -= 8;
            decoded.push((bits >> held).to_le_bytes()[0]);
        }
    }
    decoded
}

fn sextet(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

fn quoted_printable(body: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some(at) = memchr::memchr(b'=', rest) {
        decoded.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(byte) = hex_pair(rest) {
            decoded.push(byte);
            rest = &rest[2..];
        } else if let Some(len) = line_end(rest) {
            rest = &rest[len..];
        } else {
            decoded.push(b'=');
        }
    }
    decoded.extend_from_slice(rest);
    decoded
}

/// Returns the byte that two hexadecimal digits at the start of `bytes` stand for.
pub(super) fn hex_pair(bytes: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*bytes.get(at)?).to_digit(16);
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

/// Returns the length of a line end at the start of `bytes`, with blanks before it. The end of the
/// bytes is a line end, too.
fn line_end(bytes: &[u8]) -> Option<usize> {
    let blanks = bytes.iter().take_while(|byte| matches!(byte, b' ' | b'\t'));
    let blanks = blanks.count();
    match &bytes[blanks..] {
        [b'\r', b'\n', ..] => Some(blanks + 2),
        [b'\n', ..] => Some(blanks + 1),
        [] | [b'\r'] => Some(bytes.len()),
        _ => None,
    }
}

/// Returns the text that bytes stand for in a charset, or `None` if there is no such charset.
pub(super) fn decode_charset(charset: &str, bytes: &[u8]) -> Option<String> {
    if is_unicode_charset(charset) {
        return Some(String::from_utf8_lossy(bytes).into_owned());
    }
    Some(charset_decoder(charset.as_bytes())?(bytes))
}

/// Returns the text of bytes without a charset. Valid UTF-8 is read as UTF-8, other bytes as
/// windows-1252, which most older senders used.
pub(super) fn guess_text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => decode_charset("windows-1252", bytes).unwrap_or_default(),
    }
}

/// Returns whether [`decode_charset`] knows this charset.
pub(super) fn is_known_charset(charset: &str) -> bool {
    is_unicode_charset(charset) || charset_decoder(charset.as_bytes()).is_some()
}

/// Returns whether text in this charset has to be converted to be UTF-8, and can be.
pub(super) fn is_foreign_charset(charset: &str) -> bool {
    !is_unicode_charset(charset) && is_known_charset(charset)
}

/// Returns whether bytes in this charset are UTF-8 already.
fn is_unicode_charset(charset: &str) -> bool {
    let names = ["utf-8", "utf8", "us-ascii", "ascii"];
    names.iter().any(|name| charset.eq_ignore_ascii_case(name))
}

/// Returns the text with its encoded words decoded. An invalid word, or a word in an unknown
/// charset, is kept as it is. Blanks between two words are removed. The end of a word may split a
/// character.
pub(super) fn decode_words(text: &str) -> String {
    let mut decoded = Decoded::default();
    // No word begins after the last end. Without this bound, each beginning would cause a search to
    // the end of the text.
    let last_end = text.rfind("?=").unwrap_or(0);
    let mut at = 0;
    while at < last_end
        && let Some(found) = text[at..last_end].find("=?")
    {
        let start = at + found;
        if let Some(word) = Word::parse(&text[start..]) {
            decoded.plain(&text[at..start]);
            decoded.word(&word);
            at = start + word.len;
        } else {
            decoded.plain(&text[at..start + 2]);
            at = start + 2;
        }
    }
    decoded.plain(&text[at..]);
    decoded.finish()
}

struct Word<'a> {
    charset: &'a str,
    encoding: TransferEncoding,
    text: &'a str,
    len: usize,
}

impl<'a> Word<'a> {
    /// Returns the word at the start of `input`, which begins with `=?`.
    fn parse(input: &'a str) -> Option<Self> {
        let body = &input[2..];
        let charset_len = body.bytes().take(MAX_CHARSET).position(|b| b == b'?')?;
        let (charset, body) = (&body[..charset_len], &body[charset_len + 1..]);
        let encoding = match body.as_bytes() {
            [b'b' | b'B', b'?', ..] => TransferEncoding::Base64,
            [b'q' | b'Q', b'?', ..] => TransferEncoding::QuotedPrintable,
            _ => return None,
        };
        let charset = charset.split('*').next().unwrap_or_default();
        if !is_known_charset(charset) {
            return None;
        }
        let text = &body[2..];
        let text = &text[..text.find("?=")?];
        Some(Self {
            charset,
            encoding,
            text,
            len: 2 + charset_len + 3 + text.len() + 2,
        })
    }

    fn bytes(&self) -> Vec<u8> {
        match self.encoding {
            TransferEncoding::QuotedPrintable => {
                decode(self.encoding, self.text.replace('_', " ").as_bytes())
            }
            encoding => decode(encoding, self.text.as_bytes()),
        }
    }
}

/// The text decoded so far, and the not yet decoded bytes of the preceding words with the same
/// charset.
#[derive(Default)]
struct Decoded<'a> {
    text: String,
    charset: &'a str,
    bytes: Vec<u8>,
}

impl<'a> Decoded<'a> {
    fn plain(&mut self, text: &str) {
        let between_words = !self.charset.is_empty() && text.trim().is_empty();
        if !between_words {
            self.flush();
            self.text.push_str(text);
        }
    }

    fn word(&mut self, word: &Word<'a>) {
        if !self.charset.eq_ignore_ascii_case(word.charset) {
            self.flush();
        }
        self.charset = word.charset;
        self.bytes.extend(word.bytes());
    }

    fn flush(&mut self) {
        if let Some(text) = decode_charset(self.charset, &self.bytes) {
            self.text.push_str(&text);
        }
        self.charset = "";
        self.bytes.clear();
    }

    fn finish(mut self) -> String {
        self.flush();
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn encodings_are_known_by_their_first_token_in_any_case() {
        use TransferEncoding::{Base64, Identity, QuotedPrintable};
        let cases = [
            (" BASE64 ", Base64),
            ("base64; x=y", Base64),
            ("Quoted-Printable (sort of)", QuotedPrintable),
            ("8bit", Identity),
            ("base64url", Identity),
            ("", Identity),
        ];
        for (value, encoding) in cases {
            assert_eq!(TransferEncoding::named(value), encoding, "{value}");
        }
    }

    #[test]
    fn base64_survives_junk_and_ends_at_its_padding() {
        let cases: [(&[u8], &[u8]); 8] = [
            (b"", b""),
            (b"aGVsbG8=", b"hello"),
            (b"aGVs\r\nbG8=\r\n", b"hello"),
            (b"aGVsbG8", b"hello"),
            (b"a!G@V\0s*bG8=", b"hello"),
            (b"aGVsbG8=\r\n-- \r\nfooter of a list", b"hello"),
            (b"====aGVsbG8=", b"hello"),
            (b"aGVsbG8gd29ybGQhx", b"hello world!"),
        ];
        for (body, expected) in cases {
            let decoded = decode(TransferEncoding::Base64, body);
            assert_eq!(decoded, expected, "{}", body.escape_ascii());
        }
    }

    #[test]
    fn quoted_printable_keeps_what_it_cannot_decode() {
        let cases: [(&[u8], &[u8]); 9] = [
            (b"caf=C3=A9", "café".as_bytes()),
            (b"caf=c3=a9", "café".as_bytes()),
            (b"a =\r\nb=\nc", b"a bc"),
            (b"a= \t\r\nb", b"ab"),
            (b"1=1 =ZZ =", b"1=1 =ZZ "),
            (b"end=\r", b"end"),
            (b"=3D=\r\n=3D", b"=="),
            (b"keeps its blanks  \r\n", b"keeps its blanks  \r\n"),
            (b"", b""),
        ];
        for (body, expected) in cases {
            let decoded = decode(TransferEncoding::QuotedPrintable, body);
            assert_eq!(decoded, expected, "{}", body.escape_ascii());
        }
    }

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
            assert_eq!(
                decode_charset(charset, bytes).unwrap(),
                expected,
                "{charset}"
            );
        }
        assert_eq!(decode_charset("klingon", b"x"), None);
        assert!(
            !is_foreign_charset("klingon")
                && !is_foreign_charset("US-ASCII")
                && is_foreign_charset("latin1")
        );
    }

    #[test]
    fn bytes_without_a_charset_are_utf8_if_they_can_be() {
        assert_eq!(guess_text("café".as_bytes()), "café");
        assert_eq!(guess_text(b"caf\xe9"), "café");
    }

    #[test]
    fn encoded_words_are_decoded_and_other_text_is_kept() {
        let cases = [
            ("plain", "plain"),
            ("=?utf-8?q?caf=C3=A9?=", "café"),
            ("=?UTF-8?B?Y2Fmw6k=?= noir", "café noir"),
            ("a =?utf-8?q?b?= c", "a b c"),
            ("=?utf-8?q?a_b?= =?utf-8?q?_c?=", "a b c"),
            ("=?utf-8?q?a?=\t =?koi8-r?b?8NLJ18XU?=", "aПривет"),
            ("=?utf-8?b?w?= =?utf-8?b?qQ==?=", "\u{fffd}"),
            ("=?utf-8?q?=C3?= =?utf-8?q?=A9?=", "é"),
            ("=?utf-8*en?q?hi?=", "hi"),
            ("=?klingon?q?a?=", "=?klingon?q?a?="),
            ("=?utf-8?x?a?= =?utf-8?q?b?=", "=?utf-8?x?a?= b"),
            ("=?utf-8?q?never ends", "=?utf-8?q?never ends"),
            ("=?=?=?", "=?=?=?"),
            ("=?utf-8?q??=", ""),
            ("2 =? 3 ?= 4", "2 =? 3 ?= 4"),
        ];
        for (text, expected) in cases {
            assert_eq!(decode_words(text), expected, "{text}");
        }
    }
}
