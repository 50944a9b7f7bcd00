//! Encoded words (RFC 2047) in the text of headers.

use super::charset;
use super::decode::{TransferEncoding, decode};

const MAX_CHARSET: usize = 64;

/// The text with its encoded words decoded. A word that is not one, or of an unknown charset, stays as it
/// is. Blanks between two words vanish; a character may be cut in two by the end of a word.
pub(super) fn decoded(text: &str) -> String {
    let mut decoded = Decoded::default();
    // No word begins after the last end: without it each beginning would be a search for an end in vain.
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
    /// The word at the start of `input`, which begins with `=?`.
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
        if !charset::is_known(charset) {
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

/// What has been decoded so far, and the bytes of the words just before, whose charset is the same.
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
        if let Some(text) = charset::text(self.charset, &self.bytes) {
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
    fn words_are_decoded_and_everything_else_stays() {
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
            assert_eq!(decoded(text), expected, "{text}");
        }
    }
}
