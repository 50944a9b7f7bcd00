//! The outcome of a run, and its text form between processes.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// The outcome of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// How often the server's machine or process died.
    pub(crate) crashes: u64,
    /// Bytes of media that were acknowledged.
    pub(crate) acknowledged: u64,
    /// How many events there were.
    pub(crate) events: u64,
    /// The hash of all events.
    pub(crate) trace: u64,
    /// The rules that were broken.
    pub(crate) broken: Vec<String>,
}

const BROKEN: &str = "broken: ";

/// A line of figures, and one for each broken rule.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            crashes,
            acknowledged,
            events,
            trace,
            broken,
        } = self;
        writeln!(
            f,
            "{crashes} crashes, {acknowledged} bytes acknowledged, {events} events, trace {trace}"
        )?;
        broken
            .iter()
            .try_for_each(|rule| writeln!(f, "{BROKEN}{rule}"))
    }
}

/// A process did not report the outcome of its run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unclear {
    #[error("there are no figures")]
    NoFigures,
    #[error("a figure is no number")]
    Figure(#[from] ParseIntError),
}

impl FromStr for Outcome {
    type Err = Unclear;

    fn from_str(text: &str) -> Result<Self, Unclear> {
        let mut lines = text.lines();
        let figures = lines.next().unwrap_or_default().split([' ', ',']);
        let numbers: Vec<&str> = figures
            .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()))
            .collect();
        let [crashes, acknowledged, events, trace] = numbers[..] else {
            return Err(Unclear::NoFigures);
        };
        let broken = lines.filter_map(|line| line.strip_prefix(BROKEN));
        Ok(Self {
            crashes: crashes.parse()?,
            acknowledged: acknowledged.parse()?,
            events: events.parse()?,
            trace: trace.parse()?,
            broken: broken.map(str::to_owned).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_tells_is_what_came_of_its_run() {
        let outcome = Outcome {
            crashes: 3,
            acknowledged: 1 << 40,
            events: 77,
            trace: u64::MAX,
            broken: vec!["rule 1, of 5".to_owned(), "rule 2".to_owned()],
        };
        assert_eq!(outcome.to_string().parse::<Outcome>().unwrap(), outcome);
        assert!("".parse::<Outcome>().is_err());
    }
}
