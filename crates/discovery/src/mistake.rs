//! The mistakes of a text in the [short form](crate::short_form).

use std::fmt;
use std::ops::Range;

use thiserror::Error;
use toml::Spanned;

/// All mistakes in a text of the short form: at least one, in the order of the text.
///
/// Displayed as the first mistake with its position and the number of further mistakes. The form
/// `{:#}` omits the position.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct ShortFormError {
    mistakes: Vec<Mistake>,
}

/// One mistake, and where it is.
///
/// As text it has no place: the key, the problem, and the help.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mistake {
    /// The bytes of the text that are wrong. Empty where something is missing in the whole text.
    pub span: Range<usize>,
    /// Where they begin.
    pub position: Position,
    /// The key with those around it, e.g. `collections.photos.media.max_size`; `None` if the text
    /// is not TOML.
    pub key: Option<String>,
    /// The problem.
    pub problem: String,
    /// The suggested correction, if one is known.
    pub help: Option<String>,
}

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line, counted from 1.
    pub line: usize,
    /// The character in the line, counted from 1.
    pub column: usize,
}

impl ShortFormError {
    /// Returns all mistakes, the first one of the text first.
    pub fn mistakes(&self) -> &[Mistake] {
        &self.mistakes
    }

    /// Returns the first mistake of the text.
    pub fn first(&self) -> &Mistake {
        &self.mistakes[0]
    }
}

impl fmt::Display for ShortFormError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.first();
        if !f.alternate() {
            write!(f, "{}: ", first.position)?;
        }
        write!(f, "{first}")?;
        match self.mistakes.len() - 1 {
            0 => Ok(()),
            1 => f.write_str(" (and one more mistake)"),
            more => write!(f, " (and {more} more mistakes)"),
        }
    }
}

impl Mistake {
    /// Whether the mistake is at the key or below it, or quotes its name.
    pub(crate) fn mentions(&self, path: &str, name: &str) -> bool {
        let below = |key: &str| key.strip_prefix(path).is_some_and(is_end_of_name);
        self.key.as_deref().is_some_and(below) || self.problem.contains(&format!("`{name}`"))
    }
}

/// Whether a name has ended before these characters.
fn is_end_of_name(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('.')
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(key) = &self.key {
            write!(f, "`{key}`: ")?;
        }
        f.write_str(&self.problem)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

impl Position {
    /// Returns the place of this byte, or of the end of the text.
    pub fn of(text: &str, at: usize) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let (lines, line) = before.rsplit_once('\n').unwrap_or(("", before));
        Self {
            line: 1 + usize::from(before.contains('\n')) + lines.matches('\n').count(),
            column: 1 + line.chars().count(),
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// The mistakes found so far in a text.
#[derive(Debug)]
pub(crate) struct Mistakes<'a> {
    text: &'a str,
    found: Vec<Mistake>,
}

impl<'a> Mistakes<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        Self {
            text,
            found: Vec::new(),
        }
    }

    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    /// Adds a mistake at a value.
    pub(crate) fn push<T>(&mut self, key: String, problem: impl Into<String>, at: &Spanned<T>) {
        self.push_at(at.span(), Some(key), problem.into(), None);
    }

    pub(crate) fn push_at(
        &mut self,
        span: Range<usize>,
        key: Option<String>,
        problem: String,
        help: Option<String>,
    ) {
        self.found.push(Mistake {
            position: Position::of(self.text, span.start),
            span,
            key,
            problem,
            help,
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Whether a mistake is in the line in which this byte is.
    pub(crate) fn has_line_of(&self, at: usize) -> bool {
        let line = Position::of(self.text, at).line;
        self.found.iter().any(|it| it.position.line == line)
    }

    pub(crate) fn retain(&mut self, keep: impl FnMut(&Mistake) -> bool) {
        self.found.retain(keep);
    }

    pub(crate) fn append(&mut self, mut others: Self) {
        self.found.append(&mut others.found);
    }

    /// Returns `value`, or the mistakes if there are any.
    pub(crate) fn or<T>(mut self, value: Option<T>) -> Result<T, ShortFormError> {
        self.found.sort_by_key(|mistake| mistake.position);
        match value {
            Some(value) if self.found.is_empty() => Ok(value),
            _ => Err(ShortFormError {
                mistakes: self.found,
            }),
        }
    }
}
