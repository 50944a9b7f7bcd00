//! The generated part of the page.

use std::fmt::Write as _;

use crate::record::{Measured, Record};
use crate::scenario;

use super::table;

const START: &str = "<!-- What follows is written by `windlass-bench report`. -->";
const END: &str = "<!-- What was written by `windlass-bench report` ends here. -->";

/// The page with another generated part.
///
/// # Errors
/// [`NoPlace`] when its two marks are not there.
pub(super) fn rewritten(page: &str, generated: &str) -> Result<String, NoPlace> {
    let (before, rest) = page.split_once(START).ok_or(NoPlace)?;
    let (_, after) = rest.split_once(END).ok_or(NoPlace)?;
    Ok(format!("{before}{START}\n\n{generated}\n{END}{after}"))
}

/// The page does not say where the generated part goes.
#[derive(Debug, thiserror::Error)]
#[error("the page lacks the line {START} or {END}")]
pub(super) struct NoPlace;

/// The file of a scenario's chart.
pub(super) fn chart_name(scenario: &Measured) -> String {
    format!("{}.svg", scenario.name)
}

/// Machine, charts and tables.
pub(super) fn generated(record: &Record, directory: &str) -> String {
    let mut text = format!("{}.\n", record.machine);
    if record.quick {
        let part = scenario::QUICK_PART;
        let _ = write!(text, "\nA quick look: 1/{part} of every size and count.\n");
    }
    for measured in &record.scenarios {
        let Measured { name, title, .. } = measured;
        let chart = chart_name(measured);
        let table = table::of(measured);
        let _ = write!(
            text,
            "\n### {name}: {title}\n\n![{name}]({directory}/{chart})\n\n{table}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_rewritten() {
        let page = format!("# Title\n{START}\nold\n{END}\nby hand\n");
        let expected = format!("# Title\n{START}\n\nnew\n\n{END}\nby hand\n");
        assert_eq!(rewritten(&page, "new\n").unwrap(), expected);
        assert!(rewritten("# Title\n", "new\n").is_err());
    }
}
