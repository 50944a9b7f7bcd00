//! The `boundary` parameter of a `Content-Type`.

use super::RelatedError;

/// What separates the parts of a multipart body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boundary(String);

impl Boundary {
    /// RFC 2046 allows 70 characters; generators that do not count are tolerated up to this length.
    pub const MAX_LEN: usize = 256;

    /// Reads the boundary of a `multipart/related` content type: bare, quoted, or in single quotes,
    /// which are not part of it although RFC 2046 would have it so (docs/protocol.md, 2.6).
    ///
    /// ```
    /// use windlass_proto::related::Boundary;
    ///
    /// let boundary = Boundary::from_content_type(b"multipart/related;boundary=\"==42==\"").unwrap();
    /// assert_eq!(boundary.as_str(), "==42==");
    /// ```
    pub fn from_content_type(value: &[u8]) -> Result<Self, RelatedError> {
        let value = std::str::from_utf8(value).map_err(|_| RelatedError::NotRelated)?;
        let (essence, parameters) = value.split_once(';').unwrap_or((value, ""));
        if !essence
            .trim_ascii()
            .eq_ignore_ascii_case("multipart/related")
        {
            return Err(RelatedError::NotRelated);
        }
        let boundary = parameter(parameters, "boundary").ok_or(RelatedError::NoBoundary)?;
        if is_valid(&boundary) {
            Ok(Self(boundary))
        } else {
            Err(RelatedError::NoBoundary)
        }
    }

    /// The boundary without quotes and without the hyphens that precede it in the body.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What every delimiter begins with: the line end, two hyphens and the boundary.
    pub(super) fn into_delimiter(self) -> String {
        format!("\n--{}", self.0)
    }
}

fn is_valid(boundary: &str) -> bool {
    let printable = boundary
        .bytes()
        .all(|byte| byte == b' ' || byte.is_ascii_graphic());
    (1..=Boundary::MAX_LEN).contains(&boundary.len()) && printable && !boundary.ends_with(' ')
}

/// The first parameter of this name in `; name=value; name="value"`.
fn parameter(parameters: &str, wanted: &str) -> Option<String> {
    let mut rest = parameters;
    loop {
        let at = rest.find(['=', ';'])?;
        let (name, tail) = (&rest[..at], &rest[at + 1..]);
        if rest[at..].starts_with(';') {
            rest = tail;
            continue;
        }
        let (value, tail) = parameter_value(tail.trim_ascii_start())?;
        if name.trim_ascii().eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = tail;
    }
}

/// The value at the start of `text`, and what follows it.
fn parameter_value(text: &str) -> Option<(String, &str)> {
    if let Some(quoted) = text.strip_prefix('"') {
        return quoted_string(quoted);
    }
    let (value, rest) = text.split_once(';').unwrap_or((text, ""));
    let value = value.trim_ascii_end();
    let inner = value
        .strip_prefix('\'')
        .and_then(|value| value.strip_suffix('\''));
    Some((inner.unwrap_or(value).to_owned(), rest))
}

/// The rest of a quoted string (RFC 9110, 5.6.4) whose first quote is read, and what follows it.
fn quoted_string(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(characters.next()?.1),
            _ => value.push(character),
        }
    }
    None
}
