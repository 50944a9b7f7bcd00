//! Conditions of a list: the smallest subset of the filters of AIP-160
//! (<https://google.aip.dev/160>).
//!
//! A filter is one comparison, or several with `AND` between them. A comparison is the name of a
//! field, one of `=`, `!=`, `<`, `<=`, `>`, `>=`, and a value: a text in double or single quotes,
//! or a word without blanks. A field that is absent fulfils none of them.

use std::cmp::Ordering;

use serde_json::Value;
use windlass_discovery::settings::{IndexedField, ValueKind};
use windlass_store::Resource;

/// Maximum number of comparisons in a filter.
const MAX_COMPARISONS: usize = 16;

/// A value of a field. Values of the same kind can be compared.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Integer(i128),
    Number(f64),
    Boolean(bool),
    Text(String),
    /// Nanoseconds since the epoch.
    Time(i128),
}

/// The comparison of a field with a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Condition {
    pub(super) field: IndexedField,
    pub(super) comparison: Comparison,
    pub(super) value: Scalar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

/// The operators. Each operator stands before its own prefixes, so that the longest match comes
/// first.
const OPERATORS: [(&str, Comparison); 6] = [
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("=", Comparison::Equal),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

/// Parses a filter over these fields.
///
/// # Errors
/// A description of the problem and the position of its character.
pub(super) fn parse(text: &str, fields: &[IndexedField]) -> Result<Vec<Condition>, String> {
    let mut rest = Rest { text, at: text };
    let mut conditions = vec![rest.condition(fields)?];
    while !rest.at.is_empty() {
        rest.and()?;
        conditions.push(rest.condition(fields)?);
        if conditions.len() > MAX_COMPARISONS {
            return Err(format!("has more than {MAX_COMPARISONS} comparisons"));
        }
    }
    Ok(conditions)
}

/// The rest of a filter while it is parsed.
struct Rest<'a> {
    text: &'a str,
    at: &'a str,
}

impl Rest<'_> {
    fn condition(&mut self, fields: &[IndexedField]) -> Result<Condition, String> {
        self.skip_blanks();
        let field = self.field(fields)?;
        self.skip_blanks();
        let comparison = self.comparison()?;
        self.skip_blanks();
        let written = self.value()?;
        self.skip_blanks();
        let value = Scalar::parse(&written, field.kind).ok_or_else(|| {
            let kind = name_of(field.kind);
            format!(
                "compares {} with {written:?}, which is not {kind}",
                field.name
            )
        })?;
        Ok(Condition {
            field: field.clone(),
            comparison,
            value,
        })
    }

    fn field<'f>(&mut self, fields: &'f [IndexedField]) -> Result<&'f IndexedField, String> {
        let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
        let end = self.at.find(|char| !is_name(char));
        let name = &self.at[..end.unwrap_or(self.at.len())];
        let found = fields.iter().find(|field| field.name == name);
        let found = found.ok_or_else(|| {
            let names: Vec<_> = fields.iter().map(|field| &*field.name).collect();
            self.expected(&format!("one of the fields {}", names.join(", ")))
        })?;
        self.at = &self.at[name.len()..];
        Ok(found)
    }

    fn comparison(&mut self) -> Result<Comparison, String> {
        let mut operators = OPERATORS.into_iter();
        let found = operators.find(|(operator, _)| self.at.starts_with(operator));
        let (operator, comparison) =
            found.ok_or_else(|| self.expected("one of =, !=, <, <=, >, >="))?;
        self.at = &self.at[operator.len()..];
        Ok(comparison)
    }

    fn value(&mut self) -> Result<String, String> {
        let quote = self
            .at
            .chars()
            .next()
            .filter(|first| "\"'".contains(*first));
        if let Some(quote) = quote {
            return self.quoted(quote);
        }
        let end = self.at.find(|char: char| char.is_whitespace());
        let word = &self.at[..end.unwrap_or(self.at.len())];
        // AIP-160 gives these characters a meaning. Taken as text they would be another filter.
        if word.is_empty() || word.contains(['"', '\'', '(', ')', '=', '<', '>', '*']) {
            return Err(self.expected("a value, in quotes if it is more than a word"));
        }
        self.at = &self.at[word.len()..];
        Ok(word.to_owned())
    }

    /// Reads a quoted text. A backslash makes the next character part of the text.
    fn quoted(&mut self, quote: char) -> Result<String, String> {
        let mut text = String::new();
        let mut chars = self.at.char_indices().skip(1);
        while let Some((at, char)) = chars.next() {
            match char {
                '\\' => text.extend(chars.next().map(|(_, char)| char)),
                _ if char == quote => {
                    self.at = &self.at[at + char.len_utf8()..];
                    return Ok(text);
                }
                _ => text.push(char),
            }
        }
        Err(self.expected("a text with its closing quote"))
    }

    fn and(&mut self) -> Result<(), String> {
        let rest = self.at.strip_prefix("AND");
        let rest = rest.filter(|rest| rest.starts_with(char::is_whitespace));
        self.at = rest.ok_or_else(|| self.expected("AND and another comparison"))?;
        Ok(())
    }

    fn skip_blanks(&mut self) {
        self.at = self.at.trim_start();
    }

    fn expected(&self, what: &str) -> String {
        let before = &self.text[..self.text.len() - self.at.len()];
        let at = 1 + before.chars().count();
        format!("needs {what} at character {at}")
    }
}

fn name_of(kind: ValueKind) -> &'static str {
    match kind {
        ValueKind::Integer => "a whole number",
        ValueKind::Number => "a number",
        ValueKind::Boolean => "true or false",
        ValueKind::Text => "a text",
        ValueKind::Time => "a time such as 2026-01-31T12:00:00Z",
    }
}

impl Scalar {
    /// Reads a value as it is written in a filter.
    fn parse(text: &str, kind: ValueKind) -> Option<Self> {
        Some(match kind {
            ValueKind::Integer => Self::Integer(text.parse().ok()?),
            // Rust parses `NaN`, which no comparison holds for and no place in an index fits.
            ValueKind::Number => Self::Number(text.parse().ok().filter(|it: &f64| !it.is_nan())?),
            ValueKind::Boolean => Self::Boolean(text.parse().ok()?),
            ValueKind::Text => Self::Text(text.to_owned()),
            ValueKind::Time => Self::Time(text.parse::<jiff::Timestamp>().ok()?.as_nanosecond()),
        })
    }

    /// Returns the value of a field; `None` if the resource has none of its kind.
    pub(super) fn of(
        resource: &Resource,
        fields: &serde_json::Map<String, Value>,
        field: &IndexedField,
    ) -> Option<Self> {
        let time =
            |time: windlass_store::Timestamp| Self::Time(i128::from(time.as_millis()) * 1_000_000);
        match field.name.as_str() {
            "createdTime" => return Some(time(resource.created)),
            "updatedTime" => return Some(time(resource.updated)),
            "size" => return Some(Self::Integer(resource.media.as_ref()?.length.into())),
            "mimeType" => return Some(Self::Text(resource.media.as_ref()?.content_type.clone())),
            _ => {}
        }
        match (fields.get(&field.name)?, field.kind) {
            (Value::String(text), kind) => Self::parse(text, kind),
            (Value::Number(number), ValueKind::Integer) => number.as_i128().map(Self::Integer),
            (Value::Number(number), ValueKind::Number) => number.as_f64().map(Self::Number),
            (Value::Bool(flag), ValueKind::Boolean) => Some(Self::Boolean(*flag)),
            _ => None,
        }
    }

    fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) | (Self::Time(a), Self::Time(b)) => Some(a.cmp(b)),
            (Self::Number(a), Self::Number(b)) => a.partial_cmp(b),
            (Self::Boolean(a), Self::Boolean(b)) => Some(a.cmp(b)),
            (Self::Text(a), Self::Text(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }
}

impl Condition {
    /// Whether a value fulfils the condition.
    pub(super) fn holds(&self, value: Option<&Scalar>) -> bool {
        let Some(ordering) = value.and_then(|value| value.compare(&self.value)) else {
            return false;
        };
        match self.comparison {
            Comparison::Equal => ordering.is_eq(),
            Comparison::NotEqual => ordering.is_ne(),
            Comparison::Less => ordering.is_lt(),
            Comparison::AtMost => ordering.is_le(),
            Comparison::Greater => ordering.is_gt(),
            Comparison::AtLeast => ordering.is_ge(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Vec<IndexedField> {
        let field = |name: &str, kind| IndexedField {
            name: name.to_owned(),
            kind,
        };
        vec![
            field("album", ValueKind::Text),
            field("rating", ValueKind::Integer),
            field("tame", ValueKind::Boolean),
            field("taken", ValueKind::Time),
        ]
    }

    #[test]
    fn a_filter_is_comparisons_with_and_between_them() {
        let text =
            "album = \"a \\\"b\" AND rating>=3 AND tame!=true AND taken < 2026-01-01T00:00:00Z";
        let found = parse(text, &fields()).unwrap();
        let found: Vec<_> = found
            .into_iter()
            .map(|it| (it.field.name, it.comparison, it.value))
            .collect();
        let expected = [
            ("album", Comparison::Equal, Scalar::Text("a \"b".to_owned())),
            ("rating", Comparison::AtLeast, Scalar::Integer(3)),
            ("tame", Comparison::NotEqual, Scalar::Boolean(true)),
            (
                "taken",
                Comparison::Less,
                Scalar::Time(1_767_225_600_000_000_000),
            ),
        ]
        .map(|(name, comparison, value)| (name.to_owned(), comparison, value));
        assert_eq!(found, expected);
        assert_eq!(
            parse("album='x'", &fields()).unwrap()[0].value,
            Scalar::Text("x".to_owned())
        );
    }

    #[test]
    fn what_is_no_filter_is_refused_with_its_place() {
        for (text, said) in [
            (
                "",
                "needs one of the fields album, rating, tame, taken at character 1",
            ),
            ("colour = red", "at character 1"),
            ("album", "needs one of =, !=, <, <=, >, >= at character 6"),
            ("album : x", "at character 7"),
            (
                "album = ",
                "needs a value, in quotes if it is more than a word at character 9",
            ),
            ("album = \"x", "closing quote at character 9"),
            (
                "album = x OR rating = 1",
                "needs AND and another comparison at character 11",
            ),
            ("album = x AND", "needs AND"),
            ("album = x AND ", "needs one of the fields"),
            ("(album = x)", "at character 1"),
            ("album = x*", "needs a value"),
            (
                "rating = many",
                "compares rating with \"many\", which is not a whole number",
            ),
            ("tame = yes", "which is not true or false"),
            ("taken = yesterday", "which is not a time such as"),
            ("\u{e4} = 1", "at character 1"),
        ] {
            let refusal = parse(text, &fields()).unwrap_err();
            assert!(refusal.contains(said), "{text}: {refusal}");
        }
        let long = vec!["rating = 1"; 17].join(" AND ");
        assert_eq!(
            parse(&long, &fields()).unwrap_err(),
            "has more than 16 comparisons"
        );
    }
}
