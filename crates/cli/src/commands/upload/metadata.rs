//! The metadata of uploads. Placeholders in its strings stand for facts about each file.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use thiserror::Error as ThisError;

use super::super::Error;
use super::files::SourceFile;

/// The metadata of the command line.
#[derive(Debug)]
pub(super) struct MetadataTemplate {
    /// The JSON with its placeholders.
    json: Value,
    /// The placeholders that it has.
    used: Vec<Placeholder>,
}

/// A fact about a file that metadata can contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Placeholder {
    /// The name of the file.
    Name,
    /// The name without its last extension.
    Stem,
    /// The path below the directory that was named, or the name of a file that was named itself.
    Path,
    /// The size in bytes.
    Size,
}

impl Placeholder {
    const ALL: [Self; 4] = [Self::Name, Self::Stem, Self::Path, Self::Size];

    fn word(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Stem => "stem",
            Self::Path => "path",
            Self::Size => "size",
        }
    }

    fn value(self, file: &SourceFile, size: u64) -> String {
        let text = |path: Option<&std::ffi::OsStr>| {
            let text = path.map(|text| text.to_string_lossy().into_owned());
            text.unwrap_or_default()
        };
        match self {
            Self::Name => text(file.path.file_name()),
            Self::Stem => text(file.path.file_stem()),
            Self::Path => text(Some(file.below.as_os_str())),
            Self::Size => size.to_string(),
        }
    }
}

impl fmt::Display for Placeholder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{}}}", self.word())
    }
}

/// Error for a text with a `{` that begins no placeholder.
#[derive(Debug, ThisError, PartialEq, Eq)]
#[error("the metadata has a `{{` that begins no placeholder, in `{text}`")]
pub(crate) struct NotAPlaceholder {
    text: String,
}

impl MetadataTemplate {
    /// Parses JSON, or the JSON in the file that follows an `@`. The client checks that it is an
    /// object.
    pub(super) fn read(text: &str) -> Result<Self, Error> {
        let json = match text.strip_prefix('@') {
            None => text.to_owned(),
            Some(path) => {
                let path = PathBuf::from(path);
                std::fs::read_to_string(&path)
                    .map_err(|source| Error::MetadataFile { path, source })?
            }
        };
        let json: Value = serde_json::from_str(&json).map_err(Error::MetadataNotJson)?;
        Ok(Self::of(json)?)
    }

    fn of(json: Value) -> Result<Self, NotAPlaceholder> {
        let mut used = Vec::new();
        replaced(&json, &mut |placeholder| {
            used.push(placeholder);
            String::new()
        })?;
        Ok(Self { json, used })
    }

    /// Returns whether the metadata depends on the file.
    pub(super) fn has_placeholders(&self) -> bool {
        !self.used.is_empty()
    }

    /// Returns whether the metadata depends on the size of the file.
    pub(super) fn has_size(&self) -> bool {
        self.used.contains(&Placeholder::Size)
    }

    /// Returns the metadata of a file.
    pub(super) fn of_file(&self, file: &SourceFile, size: u64) -> Result<Value, NotAPlaceholder> {
        replaced(&self.json, &mut |placeholder| placeholder.value(file, size))
    }

    /// Returns the metadata of all files, if it does not depend on the file.
    pub(super) fn of_all(&self) -> Result<Value, NotAPlaceholder> {
        self.of_file(&SourceFile::named(Path::new("")), 0)
    }
}

/// Returns JSON with the placeholders in its strings replaced. The JSON is parsed before, so a name
/// with a quotation mark cannot change more than its string.
fn replaced(
    json: &Value,
    value: &mut impl FnMut(Placeholder) -> String,
) -> Result<Value, NotAPlaceholder> {
    Ok(match json {
        Value::String(text) => Value::String(filled(text, value)?),
        Value::Array(items) => {
            let items = items.iter().map(|item| replaced(item, value));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, field)| Ok((name.clone(), replaced(field, value)?)));
            Value::Object(fields.collect::<Result<_, _>>()?)
        }
        other => other.clone(),
    })
}

/// Returns a text with its placeholders replaced, and `{{` and `}}` as single braces.
fn filled(
    text: &str,
    value: &mut impl FnMut(Placeholder) -> String,
) -> Result<String, NotAPlaceholder> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, brace) = rest.split_at(at);
        out.push_str(before);
        rest = if let Some(rest) = brace.strip_prefix("{{") {
            out.push('{');
            rest
        } else if let Some(rest) = brace.strip_prefix('}') {
            out.push('}');
            rest.strip_prefix('}').unwrap_or(rest)
        } else {
            let (placeholder, rest) = placeholder_at(brace).ok_or_else(|| NotAPlaceholder {
                text: text.to_owned(),
            })?;
            out.push_str(&value(placeholder));
            rest
        };
    }
    out.push_str(rest);
    Ok(out)
}

/// Returns the placeholder at the start of a text, and the rest of the text.
fn placeholder_at(text: &str) -> Option<(Placeholder, &str)> {
    Placeholder::ALL.into_iter().find_map(|placeholder| {
        let rest = text.strip_prefix(&placeholder.to_string())?;
        Some((placeholder, rest))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn file() -> SourceFile {
        SourceFile {
            path: PathBuf::from("herd/2026/my \"best\" cow.tar.gz"),
            below: PathBuf::from("2026/my \"best\" cow.tar.gz"),
        }
    }

    #[test]
    fn placeholders_in_strings_are_replaced_and_doubled_braces_are_single() {
        let cases = [
            (json!("{name}"), json!("my \"best\" cow.tar.gz")),
            (json!("{stem}"), json!("my \"best\" cow.tar")),
            (json!("{path}"), json!("2026/my \"best\" cow.tar.gz")),
            (json!("{size} bytes"), json!("17 bytes")),
            (json!("{size}{size}"), json!("1717")),
            (json!("{{name}}"), json!("{name}")),
            (json!("{{{size}}}"), json!("{17}")),
            (json!("a } b"), json!("a } b")),
            (
                json!({"{name}": [1, "{size}", null]}),
                json!({"{name}": [1, "17", null]}),
            ),
        ];
        for (template, expected) in cases {
            let template = MetadataTemplate::of(template).expect("it is right");
            assert_eq!(template.of_file(&file(), 17), Ok(expected));
        }
    }

    #[test]
    fn other_opening_braces_are_refused() {
        for text in ["{nmae}", "{", "{ name }", "{{{", "a{b"] {
            let error = MetadataTemplate::of(json!({"a": text})).expect_err(text);
            assert_eq!(error.text, text);
        }
    }

    #[test]
    fn template_knows_what_it_depends_on() {
        let of = |text: &str| MetadataTemplate::of(json!([text])).expect("it is right");
        assert!(!of("Bella {{size}}").has_placeholders());
        assert!(of("{name}").has_placeholders() && !of("{name}").has_size());
        assert!(of("{size}").has_size());
    }
}
