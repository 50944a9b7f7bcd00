//! Regular expressions for the values of parameters.
//!
//! Published patterns are Java regular expressions. A value matches only as a whole, with or
//! without `^` and `$`. The engine takes time linear in the length of the value, times the size of
//! the compiled pattern: [`Pattern::work`] bounds it. As in Java, `\d` and `\w` match ASCII only.
//! Look-around and back references are not supported.

use std::fmt;
use std::sync::Arc;

use regex_lite::{Regex, RegexBuilder};
use thiserror::Error;

/// The memory that a compiled pattern may take. The largest of the published ones needs a tenth.
const MAX_PROGRAM: usize = 256 << 10;

/// The minimum size of a pattern in [`Pattern::work`]. Each byte of a value costs some time,
/// whatever the pattern.
const MIN_PROGRAM: usize = 1 << 10;

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
    compiled: Result<Program, NotAPattern>,
}

/// A compiled pattern, and an upper bound of its size in bytes.
#[derive(Clone)]
struct Program {
    regex: Arc<Regex>,
    size: usize,
}

/// Why a text cannot be used as a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the pattern `{text}` cannot be checked: {reason}")]
pub struct NotAPattern {
    text: Arc<str>,
    reason: Arc<str>,
}

impl Pattern {
    /// The largest [`work`](Self::work) that a server does for one call. Measured on a common
    /// processor: a third of a second for the worst pattern, and a hundredth for a simple one.
    pub const MAX_WORK: u64 = 4 << 30;

    /// Compiles a pattern. Every value matches a pattern that does not compile, so that one
    /// unsupported pattern does not make the whole document unusable; see
    /// [`problem`](Self::problem).
    pub fn new(text: &str) -> Self {
        let text: Arc<str> = text.into();
        let not_a_pattern = |error: regex_lite::Error| NotAPattern {
            text: Arc::clone(&text),
            reason: error.to_string().into(),
        };
        // The text is first compiled alone, because the added brackets would make `a)(b` valid.
        let compiled = compile(&text, MAX_PROGRAM)
            .and_then(|_| Program::of(&format!("^(?:{text})$")))
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
            Ok(program) => program.regex.is_match(value),
            Err(_) => true,
        }
    }

    /// Returns an upper bound of the work of [`fits`](Self::fits) for a value of this length in
    /// bytes: the length times the size of the compiled pattern. The engine follows all states of
    /// the pattern for each character.
    pub fn work(&self, len: usize) -> u64 {
        (len as u64).saturating_mul(self.size())
    }

    /// Returns the length in bytes of the longest value that [`MAX_WORK`](Self::MAX_WORK) allows.
    pub fn max_len(&self) -> u64 {
        Self::MAX_WORK / self.size().max(1)
    }

    /// Zero for a pattern that cannot be used, which costs nothing.
    fn size(&self) -> u64 {
        self.compiled.as_ref().map_or(0, |it| it.size as u64)
    }

    /// Why the pattern cannot be used, if it cannot.
    pub fn problem(&self) -> Option<&NotAPattern> {
        self.compiled.as_ref().err()
    }
}

impl Program {
    fn of(text: &str) -> Result<Self, regex_lite::Error> {
        // The engine does not report a size; it only refuses programs above a limit. Most patterns
        // are small, so the first attempts succeed.
        let mut size = MIN_PROGRAM;
        loop {
            match compile(text, size) {
                Ok(regex) => {
                    let regex = Arc::new(regex);
                    return Ok(Self { regex, size });
                }
                Err(error) if size >= MAX_PROGRAM => return Err(error),
                Err(_) => size = (2 * size).min(MAX_PROGRAM),
            }
        }
    }
}

fn compile(text: &str, size_limit: usize) -> Result<Regex, regex_lite::Error> {
    RegexBuilder::new(text).size_limit(size_limit).build()
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

    #[test]
    fn work_grows_with_the_value_and_the_pattern() {
        let work = |pattern: &str, len| Pattern::new(pattern).work(len);
        assert_eq!(work("[a-z]+", 100), 100 * MIN_PROGRAM as u64);
        assert_eq!(work("[a-z]+", 200), 2 * work("[a-z]+", 100));
        assert!(work("(\\w+\\s?){1,100}", 100) > 8 * work("(\\w+\\s?){1,10}", 100));
        assert_eq!(work("(a", 100), 0, "it is not checked");
    }

    #[test]
    fn longest_value_is_the_last_within_the_bound() {
        for text in ["[a-z]+", "(\\w+\\s?){1,50}", "(\\w+\\s?){1,700}"] {
            let pattern = Pattern::new(text);
            assert_eq!(pattern.problem(), None);
            let longest = usize::try_from(pattern.max_len()).unwrap();
            assert!(pattern.work(longest) <= Pattern::MAX_WORK, "{text}");
            assert!(pattern.work(longest + 1) > Pattern::MAX_WORK, "{text}");
        }
    }
}
