//! The limit on matching texts with the patterns of a description.
//!
//! The engine's time is linear in the text, but the factor is the size of the pattern: the worst
//! pattern that a description may have takes 17 s for a text of 900 KB. The work of a call, which
//! [`Pattern::work`] states, is therefore bounded. Work that is not done at once is done on a
//! blocking thread, for a few calls at a time.

use std::cell::{Cell, RefCell};
use std::fmt;

use windlass_discovery::Pattern;

use crate::handler::{Rejection, StoreReader};

/// The work of one call that is done on a thread of the runtime: some 20 ms for the worst pattern.
const AT_ONCE: u64 = 256 << 20;

/// The rule that a text breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It does not match.
    #[error("must match the pattern {pattern}")]
    NoMatch {
        /// The pattern.
        pattern: String,
    },
    /// It is too long for the pattern.
    #[error(
        "is too long for the pattern {pattern}: at most {longest} bytes of it are matched in one \
         call"
    )]
    TooLong {
        /// The pattern.
        pattern: String,
        /// Maximum length in bytes.
        longest: u64,
    },
}

impl PatternError {
    fn no_match(pattern: &Pattern) -> Self {
        let pattern = pattern.as_str().to_owned();
        Self::NoMatch { pattern }
    }
}

/// The work of matching short texts, such as the parameters of a call. The limit on heads bounds
/// these texts, so long texts are refused and not matched on another thread.
#[derive(Debug, Default)]
pub struct ShortTexts {
    work: Cell<u64>,
}

impl ShortTexts {
    /// Matches a text.
    ///
    /// # Errors
    /// [`PatternError`] if it does not match, or if the texts of the call are too long.
    pub fn check(&self, pattern: &Pattern, text: &str) -> Result<(), PatternError> {
        let work = self.work.get().saturating_add(pattern.work(text.len()));
        self.work.set(work);
        if work > AT_ONCE {
            return Err(PatternError::TooLong {
                pattern: pattern.as_str().to_owned(),
                longest: pattern.max_len() / (Pattern::MAX_WORK / AT_ONCE),
            });
        }
        check(pattern, text)
    }
}

/// The work of matching the texts in the JSON of a call.
#[derive(Debug, Default)]
pub(crate) struct PatternChecks {
    work: Cell<u64>,
    deferred: RefCell<Vec<Deferred>>,
}

/// A text that is not matched on a thread of the runtime.
#[derive(Debug)]
struct Deferred {
    pattern: Pattern,
    text: String,
    field: String,
}

impl PatternChecks {
    /// Matches a text, or defers it to [`PatternChecks::finish`].
    ///
    /// # Errors
    /// [`PatternError`] if it does not match, or if the texts of the call are too long.
    pub(crate) fn check(
        &self,
        pattern: &Pattern,
        text: &str,
        field: impl fmt::Display,
    ) -> Result<(), PatternError> {
        let work = self.work.get().saturating_add(pattern.work(text.len()));
        self.work.set(work);
        if work > Pattern::MAX_WORK {
            return Err(PatternError::TooLong {
                pattern: pattern.as_str().to_owned(),
                longest: pattern.max_len(),
            });
        }
        if work <= AT_ONCE {
            return check(pattern, text);
        }
        self.deferred.borrow_mut().push(Deferred {
            pattern: pattern.clone(),
            text: text.to_owned(),
            field: field.to_string(),
        });
        Ok(())
    }

    /// Matches the deferred texts on a blocking thread.
    ///
    /// # Errors
    /// [`Rejection::InvalidField`] for a text that does not match, [`Rejection::Full`] if too many
    /// other calls match texts.
    ///
    /// # Cancel safety
    /// If the future is dropped, the texts are still matched to the end, and the call's permit is
    /// held until then.
    pub(crate) async fn finish(self, lookup: StoreReader<'_>) -> Result<(), Rejection> {
        let deferred = self.deferred.into_inner();
        if deferred.is_empty() {
            return Ok(());
        }
        let turn = lookup.pattern_turn().await?;
        let matching = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            check_all(&deferred)
        });
        matching.await.map_err(|_| Rejection::Busy)?
    }

    /// Like [`PatternChecks::finish`], on the current thread.
    pub(crate) fn finish_here(self) -> Result<(), Rejection> {
        check_all(&self.deferred.into_inner())
    }
}

fn check_all(deferred: &[Deferred]) -> Result<(), Rejection> {
    deferred.iter().try_for_each(|it| {
        let checked = check(&it.pattern, &it.text);
        checked.map_err(|error| Rejection::invalid_field(it.field.clone(), error.to_string()))
    })
}

fn check(pattern: &Pattern, text: &str) -> Result<(), PatternError> {
    if pattern.fits(text) {
        Ok(())
    } else {
        Err(PatternError::no_match(pattern))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::StoreHandles;
    use crate::namespace;

    const LINES: &str = "([^\n]*\n?){0,100}";

    fn deferred(checks: &PatternChecks) -> usize {
        checks.deferred.borrow().len()
    }

    #[test]
    fn texts_of_one_call_share_the_work() {
        let lines = Pattern::new(LINES);
        let half = "a".repeat(usize::try_from(lines.max_len() / 2).unwrap());
        let checks = PatternChecks::default();
        assert_eq!(checks.check(&lines, &half, "a"), Ok(()));
        assert_eq!(checks.check(&lines, &half, "b"), Ok(()));
        let refused = checks.check(&lines, "a", "c").unwrap_err().to_string();
        let expected = format!(
            "is too long for the pattern {LINES}: at most {} bytes of it are matched in one call",
            lines.max_len()
        );
        assert_eq!(refused, expected);
        assert_eq!(deferred(&checks), 2);
    }

    #[test]
    fn short_texts_are_matched_at_once() {
        let (lines, checks) = (Pattern::new(LINES), PatternChecks::default());
        assert_eq!(checks.check(&lines, &"a".repeat(2000), "a"), Ok(()));
        let broken = checks.check(&lines, &"\n".repeat(101), "a");
        assert_eq!(broken, Err(PatternError::no_match(&lines)));
        assert_eq!(deferred(&checks), 0);
    }

    #[test]
    fn deferred_text_is_matched_in_the_end() {
        let (lines, checks) = (Pattern::new(LINES), PatternChecks::default());
        let long = "\n".repeat(100_000);
        assert_eq!(checks.check(&lines, &long, "notes[2]"), Ok(()));
        assert_eq!(deferred(&checks), 1);
        let refused = checks.finish_here().unwrap_err().to_string();
        assert!(refused.contains("notes[2]"), "{refused}");
    }

    #[test]
    fn parameters_of_a_call_share_less_work() {
        let (lines, texts) = (Pattern::new(LINES), ShortTexts::default());
        let value = "a".repeat(4000);
        assert_eq!(texts.check(&lines, &value), Ok(()));
        assert_eq!(texts.check(&lines, &value), Ok(()));
        let refused = texts.check(&lines, &value);
        assert!(
            matches!(refused, Err(PatternError::TooLong { longest: 8192, .. })),
            "{refused:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn long_text_waits_for_its_turn_and_is_refused() {
        let store_handles = StoreHandles::in_memory();
        let turns = &store_handles.pattern_checks;
        let lookup = StoreReader::new(&store_handles, &namespace::ROOT);
        let all = turns.acquire(turns.usage().limit).await;
        let (lines, checks) = (Pattern::new(LINES), PatternChecks::default());
        checks.check(&lines, &"a".repeat(100_000), "a").unwrap();
        let refused = checks.finish(lookup).await;
        assert!(matches!(refused, Err(Rejection::Full(_))), "{refused:?}");
        assert_eq!(turns.usage().refused, 1);

        drop(all);
        let checks = PatternChecks::default();
        checks.check(&lines, &"\n".repeat(100_000), "a").unwrap();
        let refused = checks.finish(lookup).await;
        assert!(
            matches!(refused, Err(Rejection::InvalidField { .. })),
            "{refused:?}"
        );
        assert_eq!(turns.usage().used, 0, "the turn ends with the match");
    }
}
