//! Transfer encodings undone, whatever is wrong with the bytes.

use serde::{Deserialize, Serialize};

/// How the bytes of a body were made fit for transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransferEncoding {
    /// The body is as it is: `7bit`, `8bit`, `binary`, and whatever is not known.
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

/// Undoes a transfer encoding. What cannot be decoded is skipped (base64) or kept as it stands
/// (quoted-printable); there are never more bytes out than in.
pub fn decode(encoding: TransferEncoding, body: &[u8]) -> Vec<u8> {
    match encoding {
        TransferEncoding::Identity => body.to_vec(),
        TransferEncoding::Base64 => base64(body),
        TransferEncoding::QuotedPrintable => quoted_printable(body),
    }
}

/// Stops at the padding: what follows it was added on the way, e.g. by a mailing list.
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

/// The byte that two hexadecimal digits at the start of `bytes` stand for.
pub(super) fn hex_pair(bytes: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*bytes.get(at)?).to_digit(16);
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

/// The length of a line end at the start of `bytes`, with blanks before it; nothing at all ends a line too.
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
}
