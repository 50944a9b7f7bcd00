//! Regular expressions for the values of parameters.
//!
//! Published patterns are Java regular expressions. A value matches only as a whole, with or without
//! `^` and `$`. The engine takes time linear in the length of the value. As in Java, `\d` and `\w` match
//! ASCII only. Look-around and back references are not supported.

use std::fmt;
use std::sync::Arc;

use regex_lite::{Regex, RegexBuilder};
use thiserror::Error;

/// The memory that a compiled pattern may take. The largest of the published ones needs a tenth.
const LARGEST_PROGRAM: usize = 256 << 10;

/// A pattern of a parameter, compiled once. Cheap to clone.
///
/// ```
/// use windlass_discovery::Pattern;
///
/// let pattern = Pattern::new("^projects/[^/]+$");
/// assert!(pattern.fits("projects/farm"));
/// assert!(!pattern.fits("projects/farm/barns"));
/// ```
#[derive(Clone)]
pub struct Pattern {
    text: Arc<str>,
    compiled: Result<Arc<Regex>, NotAPattern>,
}

/// Why a text cannot be used as a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the pattern `{text}` cannot be checked: {reason}")]
pub struct NotAPattern {
    text: Arc<str>,
    reason: Arc<str>,
}

impl Pattern {
    /// Compiles a pattern. Every value matches a pattern that does not compile, so that one unsupported
    /// pattern does not make the whole document unusable; see [`problem`](Self::problem).
    pub fn new(text: &str) -> Self {
        let text: Arc<str> = text.into();
        let not_a_pattern = |error: regex_lite::Error| NotAPattern {
            text: Arc::clone(&text),
            reason: error.to_string().into(),
        };
        // On its own first, so that `a)(b` is not made whole by the brackets around it.
        let compiled = compile(&text)
            .and_then(|_| compile(&format!("^(?:{text})$")))
            .map(Arc::new)
            .map_err(not_a_pattern);
        Self { text, compiled }
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the whole value matches; true for every value if the pattern
    /// [cannot be used](Self::problem).
    pub fn fits(&self, value: &str) -> bool {
        match &self.compiled {
            Ok(regex) => regex.is_match(value),
            Err(_) => true,
        }
    }

    /// Why the pattern cannot be used, if it cannot.
    pub fn problem(&self) -> Option<&NotAPattern> {
        self.compiled.as_ref().err()
    }
}

fn compile(text: &str) -> Result<Regex, regex_lite::Error> {
    RegexBuilder::new(text).size_limit(LARGEST_PROGRAM).build()
}

/// Patterns are equal when they are written the same.
impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.text).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_fits_when_the_whole_of_it_matches() {
        for (pattern, fit, unfit) in [
            ("^projects/[^/]+$", "projects/a", "projects/a/b"),
            ("[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?", "a-1", "a-"),
            ("-|[a-z]+", "-", "a-"),
            ("^a|b$", "b", "ax"),
            ("\\d+:\\d+", "1:20", "\u{663}:1"),
            ("(?i)https?://.*", "HTTP://x", "x http://x"),
            ("[a-zA-Z0-9-._~]{0,64}", "", "a/b"),
            (".{3}", "äöü", "äö"),
            ("\\w[\\w.-]{0,254}", "a.b", "ä"),
        ] {
            let pattern = Pattern::new(pattern);
            assert_eq!(pattern.problem(), None);
            assert!(pattern.fits(fit), "{pattern:?}: {fit}");
            assert!(!pattern.fits(unfit), "{pattern:?}: {unfit}");
        }
    }

    #[test]
    fn everything_fits_a_pattern_that_cannot_be_used() {
        for text in ["^(?!x).*$", "(a", "a)(b", "\\1", "(?:a{1000}){1000}"] {
            let pattern = Pattern::new(text);
            let problem = pattern.problem().expect(text).to_string();
            assert!(
                problem.contains(&format!("`{text}` cannot be checked: ")),
                "{problem}"
            );
            assert!(pattern.fits("anything"), "{text}");
            assert_eq!(pattern.as_str(), text);
        }
    }
}
