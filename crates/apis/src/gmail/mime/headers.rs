//! Header fields: where they are in a message, their values and parameters (RFC 2045, RFC 2231),
//! and the fields that a server adds and removes when it sends a message.

use std::ops::Range;

use mail_parser::DateTime;

use super::encoding;

/// One header field, as ranges in the message.
#[derive(Debug, Clone)]
pub(super) struct Field {
    /// All of its lines, with their ends.
    pub(super) lines: Range<usize>,
    pub(super) name: Range<usize>,
    /// The text after the colon, with the line ends within.
    pub(super) value: Range<usize>,
}

impl Field {
    pub(super) fn is(&self, raw: &[u8], name: &str) -> bool {
        raw[self.name.clone()].eq_ignore_ascii_case(name.as_bytes())
    }

    pub(super) fn name(&self, raw: &[u8]) -> String {
        encoding::guess_text(&raw[self.name.clone()])
    }

    /// Returns the value without line ends and control characters, with encoded words as they are.
    pub(super) fn unfolded(&self, raw: &[u8]) -> String {
        let value = encoding::guess_text(&raw[self.value.clone()]);
        printable(&value)
    }

    /// Returns the value as text for people: unfolded, encoded words decoded.
    pub(super) fn text(&self, raw: &[u8]) -> String {
        printable(&encoding::decode_words(&self.unfolded(raw)))
    }
}

/// Returns the unfolded value of the first field of this name.
pub(super) fn value(raw: &[u8], fields: &[Field], name: &str) -> Option<String> {
    let field = fields.iter().find(|field| field.is(raw, name))?;
    Some(field.unfolded(raw))
}

fn printable(value: &str) -> String {
    let chars = value.chars().filter(|&c| c == '\t' || !c.is_control());
    chars.collect::<String>().trim().to_owned()
}

/// Returns the whole header block at the start of a message.
pub(super) fn of_message(raw: &[u8]) -> Vec<Field> {
    read(raw, 0, usize::MAX, |_| false).0
}

/// Returns the header block at the start of `at`: its fields, and the start of the body.
///
/// The block ends with an empty line. It also ends before a line that cannot belong to it: a line
/// without a name and a colon, or a line that `is_delimiter`. Lines that begin with `From ` are of
/// mailbox files and are skipped. At most `limit` + 1 fields are read.
pub(super) fn read(
    raw: &[u8],
    mut at: usize,
    limit: usize,
    is_delimiter: impl Fn(&[u8]) -> bool,
) -> (Vec<Field>, usize) {
    let mut fields: Vec<Field> = Vec::new();
    while at < raw.len() && fields.len() <= limit {
        let line = line(raw, at);
        let text = without_end(&raw[line.clone()]);
        if text.is_empty() {
            return (fields, line.end);
        } else if is_delimiter(text) {
            break;
        } else if matches!(text[0], b' ' | b'\t') {
            extend(fields.last_mut(), &line);
        } else if let Some(field) = field(text, &line) {
            fields.push(field);
        } else if !text.starts_with(b"From ") {
            break;
        }
        at = line.end;
    }
    (fields, at)
}

/// Continues a field in this line. Without a preceding field, the line is skipped.
fn extend(field: Option<&mut Field>, line: &Range<usize>) {
    if let Some(field) = field.filter(|field| field.lines.end == line.start) {
        field.lines.end = line.end;
        field.value.end = line.end;
    }
}

/// Reads a field. Blanks before the colon are accepted, as RFC 5322 (4.5) demands of readers.
fn field(text: &[u8], line: &Range<usize>) -> Option<Field> {
    let colon = memchr::memchr(b':', text)?;
    let name = text[..colon].trim_ascii_end();
    let is_name = !name.is_empty() && name.iter().all(u8::is_ascii_graphic);
    is_name.then(|| Field {
        lines: line.clone(),
        name: line.start..line.start + name.len(),
        value: line.start + colon + 1..line.end,
    })
}

/// Returns the line that begins at `at`, with its end.
pub(super) fn line(raw: &[u8], at: usize) -> Range<usize> {
    let end = memchr::memchr(b'\n', &raw[at..]);
    at..end.map_or(raw.len(), |end| at + end + 1)
}

/// Returns a line without the line feed, or carriage return and line feed, at its end.
pub(super) fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// A value and the parameters after it, e.g. `text/plain; charset="utf-8"`.
#[derive(Debug, Default)]
pub(super) struct Params {
    /// The text before the first semicolon, in lower case.
    pub(super) value: String,
    params: Vec<(String, String)>,
}

impl Params {
    /// Reads an unfolded value. Nothing is refused; invalid segments are left out.
    pub(super) fn parse(text: &str) -> Self {
        let mut segments = Segments { rest: text };
        let value = segments.next().unwrap_or_default();
        Self {
            value: without_comment(value).trim().to_ascii_lowercase(),
            params: segments.filter_map(parameter).collect(),
        }
    }

    /// Returns a parameter as text. The extended form of RFC 2231, in one piece or in many, takes
    /// precedence over the plain form. Encoded words are not allowed in the plain form, but they
    /// are decoded, since many senders write them.
    pub(super) fn param(&self, name: &str) -> Option<String> {
        self.extended(name).or_else(|| {
            let (_, value) = self.params.iter().find(|(param, _)| param == name)?;
            Some(encoding::decode_words(value))
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
        let decoded = charset.and_then(|charset| encoding::decode_charset(charset, &bytes));
        Some(decoded.unwrap_or_else(|| encoding::guess_text(&bytes)))
    }

    fn pieces(&self, name: &str) -> Vec<(Piece, &str)> {
        let piece = |param: &String| Piece::parse(param.strip_prefix(name)?);
        let params = self.params.iter();
        params
            .filter_map(|(param, value)| Some((piece(param)?, value.as_str())))
            .collect()
    }
}

/// The suffix of the name of a parameter of RFC 2231: `*`, `*0` or `*0*` after the name proper.
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
        let byte = (*first == b'%')
            .then(|| encoding::hex_pair(after))
            .flatten();
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

/// Unescapes quotes and backslashes only, so that Windows paths are kept.
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

/// Returns the text before a comment. A blank precedes a comment, unlike the parenthesis in a file
/// name such as `a(1).txt`.
fn without_comment(value: &str) -> &str {
    value.split_once(" (").map_or(value, |(value, _)| value)
}

/// Values for header fields that the author of a sent message left out.
#[derive(Debug, Clone)]
pub struct DefaultHeaders {
    /// The value of `From`.
    pub from: String,
    /// The value of `Message-ID`, with angle brackets.
    pub message_id: String,
    /// The value of `Date`, in milliseconds since the epoch.
    pub date: i64,
}

/// Returns the message without `Bcc` and `Resent-Bcc` in its header, as recipients receive it.
/// Nothing else is changed.
pub fn without_bcc(raw: &[u8]) -> Vec<u8> {
    let fields = of_message(raw);
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

/// Returns the header fields to put before a message so that it has `From`, `Date` and
/// `Message-ID`. Existing fields are left alone. The new lines end as the first line of the message
/// does.
pub fn missing_headers(raw: &[u8], defaults: &DefaultHeaders) -> Vec<u8> {
    let fields = of_message(raw);
    let end = match raw[line(raw, 0)] {
        [.., b'\r', b'\n'] => "\r\n",
        [.., b'\n'] => "\n",
        _ => "\r\n",
    };
    let date = DateTime::from_timestamp(defaults.date.div_euclid(1000)).to_rfc822();
    let wanted = [
        ("From", defaults.from.as_str()),
        ("Date", &date),
        ("Message-ID", &defaults.message_id),
    ];
    let mut missing = Vec::new();
    for (name, value) in wanted {
        if !fields.iter().any(|field| field.is(raw, name)) {
            // A line end in a value would end the field and inject another one.
            let value = value.chars().filter(|c| !c.is_control());
            missing.extend(format!("{name}: {}{end}", value.collect::<String>()).bytes());
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    fn check(raw: &[u8], expected: &[(&str, &str)], body: &[u8]) {
        let (fields, at) = read(raw, 0, 9, |line| line == b"--b");
        let found: Vec<_> = fields
            .iter()
            .map(|field| (field.name(raw), field.text(raw)))
            .collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        assert_eq!(found, expected, "{}", raw.escape_ascii());
        assert_eq!(&raw[at..], body, "{}", raw.escape_ascii());
    }

    #[test]
    fn a_header_ends_at_an_empty_line_or_where_it_cannot_go_on() {
        check(b"A: b\r\n\r\nbody", &[("A", "b")], b"body");
        check(b"A: b\n\nbody", &[("A", "b")], b"body");
        check(b"A: b", &[("A", "b")], b"");
        check(b"A: b\nno colon\nC: d", &[("A", "b")], b"no colon\nC: d");
        check(b"A: b\n--b\nC: d", &[("A", "b")], b"--b\nC: d");
        check(b"\nA: b", &[], b"A: b");
        check(b": x\n", &[], b": x\n");
    }

    #[test]
    fn a_value_is_unfolded_and_decoded() {
        check(b"A: b\r\n c\r\n\td\r\n\r\n", &[("A", "b c\td")], b"");
        check(b"A:\r\n b\r\n\r\n", &[("A", "b")], b"");
        check(
            b"A: =?utf-8?q?=C3=A9?=\r\n =?utf-8?q?!?=\r\n",
            &[("A", "é!")],
            b"",
        );
        check(
            b"A: caf\xe9\nB: caf\xc3\xa9\n",
            &[("A", "café"), ("B", "café")],
            b"",
        );
        check(b"A: \0x\x1b\n", &[("A", "x")], b"");
        check(b"A: =?utf-8?q?x=0D=0ABcc:_y?=\n", &[("A", "xBcc: y")], b"");
    }

    #[test]
    fn odd_lines_do_not_lose_the_fields_around_them() {
        check(b"From x Mon Jan 1\nA: b\n\n", &[("A", "b")], b"");
        check(b" lost\nA : b\n\n", &[("A", "b")], b"");
        check(
            b"A: b\nFrom x\n lost\nC: d\n",
            &[("A", "b"), ("C", "d")],
            b"",
        );
    }

    #[test]
    fn header_fields_are_read_up_to_one_above_the_limit() {
        let raw = b"A:\nB:\nC:\nD:\n\n";
        let (fields, at) = read(raw, 0, 2, |_| false);
        assert_eq!((fields.len(), at), (3, 9));
        assert_eq!(of_message(raw).len(), 4);
    }

    #[test]
    fn value_is_the_text_before_the_parameters() {
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
    fn file_names_are_read_in_all_common_encodings() {
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
    fn invalid_parameters_are_ignored() {
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

    #[test]
    fn without_bcc_removes_only_bcc_fields() {
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
    fn missing_headers_are_prepended() {
        let defaults = DefaultHeaders {
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
            let missing = missing_headers(raw, &defaults);
            assert_eq!(missing, expected.as_bytes(), "{}", raw.escape_ascii());
        }
    }
}
