//! What is logged.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::filter::ParseError;

/// The start, the end and whatever goes wrong, but no line for each request.
const DEFAULT: &str = "warn,windlass=info,windlass_server::service=warn";

/// A level, or directives such as `warn,windlass_server=debug`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogFilter(String);

/// Why a text is not a [`LogFilter`].
#[derive(Debug, Error)]
pub(crate) enum NotALogFilter {
    #[error("`{word}` is not a log level: off, error, warn, info, debug or trace")]
    Level { word: String },
    #[error("`{text}` is not a log filter")]
    Filter { text: String, source: ParseError },
}

impl LogFilter {
    /// The filter in the form that tracing wants.
    pub(crate) fn env_filter(&self) -> EnvFilter {
        self.0.parse().expect("the text was parsed before")
    }
}

impl Default for LogFilter {
    fn default() -> Self {
        Self(DEFAULT.to_owned())
    }
}

impl FromStr for LogFilter {
    type Err = NotALogFilter;

    /// A single word must be a level: tracing would take any other word for a crate that alone is
    /// logged, and a mistyped level would be silence.
    fn from_str(text: &str) -> Result<Self, NotALogFilter> {
        let words = text
            .split(',')
            .filter(|directive| !directive.contains(['=', '[']));
        for word in words.map(str::trim) {
            word.parse::<LevelFilter>()
                .map_err(|_| NotALogFilter::Level {
                    word: word.to_owned(),
                })?;
        }
        text.parse::<EnvFilter>()
            .map_err(|source| NotALogFilter::Filter {
                text: text.to_owned(),
                source,
            })?;
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_directives_are_filters_and_other_words_are_not() {
        for text in [
            "info",
            "OFF",
            "warn,windlass_server=debug",
            "windlass[{session}]=trace",
        ] {
            let filter: LogFilter = text.parse().expect(text);
            assert_eq!(filter.to_string(), text);
            filter.env_filter();
        }
        for text in ["verbose", "info,loud", "windlass=loud"] {
            assert!(text.parse::<LogFilter>().is_err(), "{text}");
        }
        LogFilter::default().env_filter();
    }
}
