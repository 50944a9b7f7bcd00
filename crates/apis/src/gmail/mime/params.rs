//! Values with parameters: `Content-Type` and `Content-Disposition` (RFC 2045, RFC 2231).

use super::{charset, decode, encoded_words};

/// A value and the parameters after it, e.g. `text/plain; charset="utf-8"`.
#[derive(Debug, Default)]
pub(super) struct Params {
    /// What stands before the first semicolon, in lower case.
    pub(super) value: String,
    params: Vec<(String, String)>,
}

impl Params {
    /// Reads an unfolded value. Nothing is refused; what makes no sense is left out.
    pub(super) fn parse(text: &str) -> Self {
        let mut segments = Segments { rest: text };
        let value = segments.next().unwrap_or_default();
        Self {
            value: without_comment(value).trim().to_ascii_lowercase(),
            params: segments.filter_map(parameter).collect(),
        }
    }

    /// A parameter as text. The extended form of RFC 2231, in one piece or in many, goes before the plain
    /// one; encoded words do not belong into the plain one but are decoded, since many senders write them.
    pub(super) fn param(&self, name: &str) -> Option<String> {
        self.extended(name).or_else(|| {
            let (_, value) = self.params.iter().find(|(param, _)| param == name)?;
            Some(encoded_words::decoded(value))
        })
    }

    fn extended(&self, name: &str) -> Option<String> {
        let mut pieces = self.pieces(name);
        pieces.sort_by_key(|(piece, _)| piece.index);
        let (first, value) = pieces.first().filter(|(piece, _)| piece.index == 0)?;
        let (charset, value) = declared_charset(first, value);
        let mut bytes = first.bytes(value);
        let following = (1..).zip(&pieces[1..]);
        for (_, (piece, value)) in following.take_while(|(index, (piece, _))| piece.index == *index)
        {
            bytes.extend(piece.bytes(value));
        }
        let decoded = charset.and_then(|charset| charset::text(charset, &bytes));
        Some(decoded.unwrap_or_else(|| charset::guess(&bytes)))
    }

    fn pieces(&self, name: &str) -> Vec<(Piece, &str)> {
        let piece = |param: &String| Piece::parse(param.strip_prefix(name)?);
        let params = self.params.iter();
        params
            .filter_map(|(param, value)| Some((piece(param)?, value.as_str())))
            .collect()
    }
}

/// What the name of a parameter of RFC 2231 says: `*`, `*0` or `*0*` after the name proper.
struct Piece {
    index: u32,
    percent: bool,
}

impl Piece {
    fn parse(suffix: &str) -> Option<Self> {
        let suffix = suffix.strip_prefix('*')?;
        let (number, percent) = match suffix.strip_suffix('*') {
            Some(number) => (number, true),
            None => (suffix, suffix.is_empty()),
        };
        let index = if number.is_empty() {
            0
        } else {
            number.parse().ok()?
        };
        Some(Self { index, percent })
    }

    fn bytes(&self, value: &str) -> Vec<u8> {
        if self.percent {
            percent_decoded(value.as_bytes())
        } else {
            value.as_bytes().to_vec()
        }
    }
}

/// Takes `charset'language'` off the front of a first piece.
fn declared_charset<'a>(piece: &Piece, value: &'a str) -> (Option<&'a str>, &'a str) {
    let mut split = value.splitn(3, '\'');
    match (piece.percent, split.next(), split.next(), split.next()) {
        (true, Some(charset), Some(_), Some(rest)) => (Some(charset), rest),
        _ => (None, value),
    }
}

fn percent_decoded(mut rest: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(rest.len());
    while let [first, after @ ..] = rest {
        let byte = (*first == b'%').then(|| decode::hex_pair(after)).flatten();
        decoded.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    decoded
}

/// Splits at semicolons that are not within quotes.
struct Segments<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Segments<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        let (mut quoted, mut escaped) = (false, false);
        let end = self.rest.bytes().position(|byte| {
            let literal = std::mem::take(&mut escaped);
            match byte {
                b'\\' if quoted && !literal => escaped = true,
                b'"' if !literal => quoted = !quoted,
                _ => {}
            }
            byte == b';' && !quoted
        });
        let end = end.unwrap_or(self.rest.len());
        let segment = &self.rest[..end];
        self.rest = self.rest.get(end + 1..).unwrap_or_default();
        Some(segment)
    }
}

fn parameter(segment: &str) -> Option<(String, String)> {
    let (name, value) = segment.split_once('=')?;
    let name: String = name.split_ascii_whitespace().collect();
    let value = value.trim();
    let value = match value.strip_prefix('"') {
        Some(quoted) => unquoted(quoted),
        None => without_comment(value).trim().to_owned(),
    };
    (!name.is_empty()).then(|| (name.to_ascii_lowercase(), value))
}

/// Only quotes and backslashes can be escaped, so that paths of Windows survive.
fn unquoted(quoted: &str) -> String {
    let mut value = String::with_capacity(quoted.len());
    let mut chars = quoted.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '"' => break,
            '\\' => value.push(chars.next_if(|&c| c == '"' || c == '\\').unwrap_or('\\')),
            _ => value.push(char),
        }
    }
    value
}

/// A comment is told from a file name such as `a(1).txt` by the blank before it.
fn without_comment(value: &str) -> &str {
    value.split_once(" (").map_or(value, |(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_what_stands_before_the_parameters() {
        let cases = [
            ("Text/Plain", "text/plain"),
            (" text/plain ; charset=x", "text/plain"),
            ("text/plain (a comment)", "text/plain"),
            ("", ""),
            (";a=b", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(Params::parse(text).value, expected, "{text}");
        }
    }

    #[test]
    fn names_of_files_are_read_as_senders_write_them() {
        let cases = [
            ("a; name=report.pdf", "report.pdf"),
            ("a; NAME = \"my report.pdf\"", "my report.pdf"),
            ("a; name=my report.pdf", "my report.pdf"),
            ("a; name=a(1).txt (a comment)", "a(1).txt"),
            (r#"a; name="a;b\"c.txt"; x=y"#, "a;b\"c.txt"),
            (r#"a; name="a\";b.txt""#, "a\";b.txt"),
            (r#"a; name="C:\temp\x.doc""#, r"C:\temp\x.doc"),
            ("a; name=\"never ends", "never ends"),
            ("a; name=\"=?utf-8?q?=C3=A9t=C3=A9.txt?=\"", "été.txt"),
            ("a; name=plain.txt; name*=utf-8''%C3%A9.txt", "é.txt"),
            ("a; name*=koi8-r'ru'%F0%D2.txt", "Пр.txt"),
            (
                "a; name*0*=koi8-r''%F0; name*1*=%D2%C9; name*2=.txt",
                "При.txt",
            ),
            ("a; name*1=b.txt; name*0=\"long \"", "long b.txt"),
            ("a; name*0*=utf-8''%C3; name*1*=%A9; name*3=lost", "é"),
            ("a; name*=klingon''%C3%A9", "é"),
            ("a; name*=no%20charset", "no charset"),
            ("a; name*=utf-8''100%", "100%"),
            ("a; name*1=no-first; name=plain", "plain"),
            ("a; name=été.txt", "été.txt"),
        ];
        for (text, expected) in cases {
            let name = Params::parse(text).param("name");
            assert_eq!(name.as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_parameter_is_left_out() {
        for text in [
            "a",
            "a; name",
            "a; =x",
            "a; filename=x",
            "a; name*x=y",
            "a; name*99999999999=y",
        ] {
            assert_eq!(Params::parse(text).param("name"), None, "{text}");
        }
    }
}
