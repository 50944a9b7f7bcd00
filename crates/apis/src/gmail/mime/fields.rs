//! Header blocks: where their fields are, and what they say.

use std::ops::Range;

use super::{charset, encoded_words};

/// One header field, as ranges in the message.
#[derive(Debug, Clone)]
pub(super) struct Field {
    /// All of its lines, with their ends.
    pub(super) lines: Range<usize>,
    pub(super) name: Range<usize>,
    /// What follows the colon, with the line ends within.
    pub(super) value: Range<usize>,
}

impl Field {
    pub(super) fn is(&self, raw: &[u8], name: &str) -> bool {
        raw[self.name.clone()].eq_ignore_ascii_case(name.as_bytes())
    }

    pub(super) fn name(&self, raw: &[u8]) -> String {
        charset::guess(&raw[self.name.clone()])
    }

    /// The value without line ends and control characters, with encoded words as they are.
    pub(super) fn unfolded(&self, raw: &[u8]) -> String {
        let value = charset::guess(&raw[self.value.clone()]);
        printable(&value)
    }

    /// The value as text for people: unfolded, encoded words decoded.
    pub(super) fn text(&self, raw: &[u8]) -> String {
        printable(&encoded_words::decoded(&self.unfolded(raw)))
    }
}

/// The unfolded value of the first field of this name.
pub(super) fn value(raw: &[u8], fields: &[Field], name: &str) -> Option<String> {
    let field = fields.iter().find(|field| field.is(raw, name))?;
    Some(field.unfolded(raw))
}

fn printable(value: &str) -> String {
    let chars = value.chars().filter(|&c| c == '\t' || !c.is_control());
    chars.collect::<String>().trim().to_owned()
}

/// The header block at the start of a message, whole.
pub(super) fn of_message(raw: &[u8]) -> Vec<Field> {
    read(raw, 0, usize::MAX, |_| false).0
}

/// The header block at the start of `at`: its fields, and where the body begins.
///
/// The block ends with an empty line, and also before a line that cannot belong to it: one without a
/// name and a colon, or one that `is_delimiter`. Lines that begin with `From ` are of mailbox files and are skipped.
/// One field more than `limit` is read, and then no more.
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

/// A field goes on in this line. Without a field before it the line is skipped.
fn extend(field: Option<&mut Field>, line: &Range<usize>) {
    if let Some(field) = field.filter(|field| field.lines.end == line.start) {
        field.lines.end = line.end;
        field.value.end = line.end;
    }
}

/// Blanks before the colon are let pass, as RFC 5322 (4.5) asks of readers.
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

/// The line that begins at `at`, with its end.
pub(super) fn line(raw: &[u8], at: usize) -> Range<usize> {
    let end = memchr::memchr(b'\n', &raw[at..]);
    at..end.map_or(raw.len(), |end| at + end + 1)
}

/// A line without the line feed, or carriage return and line feed, at its end.
pub(super) fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
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
    fn no_more_is_read_than_shows_that_there_are_too_many() {
        let raw = b"A:\nB:\nC:\nD:\n\n";
        let (fields, at) = read(raw, 0, 2, |_| false);
        assert_eq!((fields.len(), at), (3, 9));
        assert_eq!(of_message(raw).len(), 4);
    }
}
