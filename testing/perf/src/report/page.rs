//! The generated part of the page.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::contestant::Role;
use crate::figure::Figure;
use crate::goal::Goal;
use crate::machine::MachineLoad;
use crate::record::{Measured, Record};
use crate::scenario;
use crate::units::median;

use super::table;

const START: &str = "<!-- What follows is written by `windlass-perf report`. -->";
const END: &str = "<!-- What was written by `windlass-perf report` ends here. -->";

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

/// The figures of a scenario that have charts.
pub(super) fn charted(measured: &Measured) -> impl Iterator<Item = Figure> {
    let figures = measured.figures.iter().copied();
    figures.filter(|figure| figure.is_charted())
}

/// The file of a chart.
pub(super) fn chart_name(measured: &Measured, figure: Figure) -> String {
    let name = &measured.name;
    if figure == measured.main_figure() {
        return format!("{name}.svg");
    }
    format!("{name}-{}.svg", format!("{figure:?}").to_lowercase())
}

/// Machine, lines, charts and tables.
pub(super) fn generated(
    record: &Record,
    goals: &BTreeMap<String, Goal>,
    directory: &str,
) -> String {
    let mut text = format!("{}{}.\n", record.machine, disk(record));
    if record.quick {
        let part = scenario::QUICK_PART;
        let _ = write!(text, "\nA quick look: 1/{part} of every size and count.\n");
    }
    let _ = write!(text, "\n### The lines to cross\n\n{}", lines(record, goals));
    for measured in &record.scenarios {
        text += &section(measured, goals.get(&measured.name), directory);
    }
    text
}

/// The median speed of the disk before the scenarios.
fn disk(record: &Record) -> String {
    let medians = |of: fn(&MachineLoad) -> f64| {
        let medians = record
            .scenarios
            .iter()
            .filter_map(|one| one.machine_load(of));
        median(&medians.collect::<Vec<_>>())
    };
    let sync = medians(MachineLoad::sync_milliseconds);
    let (disk, direct) = (medians(MachineLoad::disk), medians(MachineLoad::direct));
    let said = sync.zip(disk).zip(direct);
    said.map_or_else(String::new, |((sync, disk), direct)| {
        format!("; {}", MachineLoad::said(sync, disk, direct))
    })
}

fn lines(record: &Record, goals: &BTreeMap<String, Goal>) -> String {
    let head = ["", "goal", "reached", "holds"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for measured in &record.scenarios {
        let goal = goals.get(&measured.name);
        for verdict in goal.map(|goal| goal.verdicts(measured)).unwrap_or_default() {
            let (reached, holds) = (verdict.shown(), verdict.answer().to_owned());
            rows.push(vec![measured.name.clone(), verdict.goal, reached, holds]);
        }
    }
    table::lined_up(&rows)
}

fn section(measured: &Measured, goal: Option<&Goal>, directory: &str) -> String {
    let Measured { name, title, .. } = measured;
    let mut text = format!("\n### {name}: {title}\n\n");
    if let Some(goal) = goal {
        let _ = write!(text, "{} ", goal.told(measured));
    }
    let _ = write!(text, "{}\n\n", rounds(measured.rounds));
    for figure in charted(measured) {
        let (alt, chart) = (figure.name(), chart_name(measured, figure));
        let _ = write!(text, "![{name}, {alt}]({directory}/{chart})\n\n");
    }
    // A chart has every contestant. The table leaves out the baselines that no goal is about.
    text + &table::of(measured, |entry| entry.role != Role::Floor)
}

fn rounds(count: usize) -> String {
    if count == 1 {
        "One round.".to_owned()
    } else {
        format!("Medians of {count} rounds.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::path::Path;

    use crate::machine::Machine;
    use crate::record::tests::measured;
    use crate::units::MIB;

    fn record() -> Record {
        let machine = Machine::look(Path::new("/")).unwrap();
        let binary = std::env::current_exe().unwrap();
        let mut record = Record::new(machine, [&binary], true).unwrap();
        let measured = measured(&[
            ("windlass", Role::Ours, &[(0, 90.0), (1, 110.0)]),
            (
                "HTTP floor, durable",
                Role::Reference,
                &[(0, 100.0), (1, 100.0)],
            ),
            ("nginx", Role::Peer, &[(0, 50.0), (1, 100.0)]),
        ]);
        record.put(measured, &["S1"]);
        record
    }

    #[test]
    fn a_page_has_the_lines_and_for_each_scenario_its_limit_chart_and_table() {
        let mut record = record();
        record.scenarios[0].rounds = 2;
        let goals = crate::goal::all().unwrap();
        let text = generated(&record, &goals, "charts");
        let holds = |line: &str| {
            let mut rows = text.lines().filter(|row| row.contains(line));
            rows.next()
                .and_then(|row| row.trim_end_matches([' ', '|']).rsplit("| ").next())
        };
        assert!(text.contains("A quick look: 1/8"));
        assert_eq!(holds("at least 0.9 of the floor"), Some("yes"));
        assert_eq!(holds("at least 1.3 times the fastest"), Some("yes"));
        assert_eq!(holds("at most 32 MiB of memory"), Some("not measured"));
        assert!(text.contains("one sync. We reach 100 MiB/s, 1.00 of that floor"));
        assert!(text.contains(" Medians of 2 rounds.\n\n"));
        assert!(text.contains("![S1, MiB/s](charts/S1.svg)"));
        assert!(text.contains("| windlass            | 100   |"));
        assert!(!text.contains("fdatasync") && text.contains("takes – MiB/s"));
        let directory = tempfile::tempdir().unwrap();
        record.scenarios[0].machine_loads = vec![MachineLoad::look(directory.path(), MIB).unwrap()];
        let text = generated(&record, &goals, "charts");
        assert!(text.contains("an append of 4 KiB with fdatasync") && !text.contains("takes –"));
    }

    #[test]
    fn each_figure_with_a_chart_has_a_file_of_its_own() {
        let mut measured = measured(&[]);
        measured.figures = vec![Figure::Start, Figure::Idle, Figure::P50];
        let names: Vec<_> = charted(&measured)
            .map(|figure| chart_name(&measured, figure))
            .collect();
        assert_eq!(names, ["S1.svg", "S1-idle.svg"]);
    }

    #[test]
    fn only_what_is_between_the_marks_is_rewritten() {
        let page = format!("# Title\n{START}\nold\n{END}\nby hand\n");
        let expected = format!("# Title\n{START}\n\nnew\n\n{END}\nby hand\n");
        assert_eq!(rewritten(&page, "new\n").unwrap(), expected);
        assert!(rewritten("# Title\n", "new\n").is_err());
    }
}
