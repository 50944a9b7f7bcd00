//! The table of goals: the bottleneck of each scenario, and the lines to be crossed.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::Context as _;
use serde::Deserialize;

use crate::contestant::Role;
use crate::figure::Figure;
use crate::machine::MachineLoad;
use crate::record::{Entry, Measured};
use crate::units::figure;

/// The table of goals.
const TABLE: &str = include_str!("../goals.toml");

/// The contestant that the lines are about.
const OURS: &str = "windlass";

/// All peers, as a yardstick of a line.
const PEERS: &str = "peers";

/// Shown for an unknown figure.
const NOTHING: &str = "–";

/// The texts and lines of a scenario.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Goal {
    limit: String,
    reached: String,
    why: String,
    #[serde(default, rename = "line")]
    lines: Vec<Line>,
}

/// A line to be crossed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Line {
    goal: String,
    #[serde(default = "ours")]
    who: String,
    figure: Option<Figure>,
    #[serde(default)]
    of: Vec<String>,
    at_least: Option<f64>,
    at_most: Option<f64>,
    /// Whether it is only one to reach for.
    #[serde(default)]
    hope: bool,
}

/// How a line came out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Verdict {
    /// The goal, in words.
    pub(crate) goal: String,
    /// Figure or ratio; none when it was not measured.
    pub(crate) reached: Option<f64>,
    /// Whether it holds.
    pub(crate) holds: bool,
}

fn ours() -> String {
    OURS.to_owned()
}

/// The goals of all scenarios, by name.
///
/// # Errors
/// When the table is not well-formed.
pub(crate) fn all() -> anyhow::Result<BTreeMap<String, Goal>> {
    toml::from_str(TABLE).context("goals.toml")
}

impl Goal {
    /// How its lines came out.
    pub(crate) fn verdicts(&self, measured: &Measured) -> Vec<Verdict> {
        let verdicts = self.lines.iter().map(|line| line.verdict(measured));
        verdicts.collect()
    }

    /// The sentence about the limit, and how far from it ours is.
    pub(crate) fn told(&self, measured: &Measured) -> String {
        let fill = |text: &str| filled(text, measured);
        let (limit, reached) = (fill(&self.limit), fill(&self.reached));
        format!(
            "Physical limit: {limit}. We reach {reached}: {}.",
            fill(&self.why)
        )
    }
}

impl Line {
    fn verdict(&self, measured: &Measured) -> Verdict {
        let reached = self.reached(measured);
        let is_enough = |value| {
            self.at_least.is_none_or(|least| value >= least)
                && self.at_most.is_none_or(|most| value <= most)
        };
        let hope = if self.hope { " (to reach for)" } else { "" };
        Verdict {
            goal: format!("{}{hope}", self.goal),
            reached,
            holds: reached.is_some_and(is_enough),
        }
    }

    fn reached(&self, measured: &Measured) -> Option<f64> {
        let figure = self.figure.unwrap_or_else(|| measured.main_figure());
        let entry = measured.entry(&self.who)?;
        if self.of.is_empty() {
            return entry.median(figure);
        }
        let is_meant = |other: &Entry| {
            let names = &mut self.of.iter();
            names.any(|name| *name == other.name || name == PEERS && other.role == Role::Peer)
        };
        measured.ratio(figure, entry, is_meant)
    }
}

impl Verdict {
    /// The reached figure, in words.
    pub(crate) fn shown(&self) -> String {
        self.reached.map_or_else(|| NOTHING.to_owned(), figure)
    }

    /// Whether it holds, as people read it.
    pub(crate) fn answer(&self) -> &'static str {
        match (self.reached, self.holds) {
            (None, _) => "not measured",
            (_, true) => "yes",
            (_, false) => "no",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, {}", self.goal, self.shown(), self.answer())
    }
}

/// A text with its figures.
fn filled(text: &str, measured: &Measured) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, (name, after))) = rest
        .split_once('{')
        .and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    {
        filled += before;
        filled += &value(name, measured).map_or_else(|| NOTHING.to_owned(), figure);
        rest = after;
    }
    filled + rest
}

fn value(name: &str, measured: &Measured) -> Option<f64> {
    let main = measured.main_figure();
    match (name, name.split_once(" / ")) {
        ("sync", _) => measured.machine_load(MachineLoad::sync_milliseconds),
        ("disk", _) => measured.machine_load(MachineLoad::disk),
        ("direct", _) => measured.machine_load(MachineLoad::direct),
        (_, Some((one, other))) => {
            let is_other = |entry: &Entry| entry.name == other;
            measured.ratio(main, measured.entry(one)?, is_other)
        }
        _ => measured.entry(name)?.median(main),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::contestant;
    use crate::record::tests::measured;
    use crate::scenario;
    use crate::units::MIB;

    fn line(text: &str) -> Line {
        toml::from_str(&format!("goal = \"more\"\n{text}")).unwrap()
    }

    #[test]
    fn every_scenario_has_a_goal_and_whoever_a_goal_names_takes_part() {
        let (goals, contestants) = (all().unwrap(), contestant::all(&[]).unwrap());
        let scenarios = scenario::all(false);
        let is_known = |name: &String| scenarios.iter().any(|one| one.name == name);
        assert!(goals.keys().all(is_known));
        for scenario in &scenarios {
            let goal = &goals[scenario.name];
            let parts = scenario.parts(&contestants);
            let is_there = |name: &str| parts.iter().any(|part| part.name == name);
            for line in &goal.lines {
                let mut names = line.of.iter().filter(|name| *name != PEERS);
                assert!(is_there(&line.who), "{}: {}", scenario.name, line.who);
                assert!(names.all(|name| is_there(name)), "{}", line.goal);
                let figure = line.figure.unwrap_or(scenario.figures[0]);
                assert!(scenario.figures.contains(&figure), "{}", line.goal);
            }
        }
    }

    #[test]
    fn a_line_is_held_against_the_best_of_those_that_it_names() {
        let measured = measured(&[
            ("windlass", Role::Ours, &[(0, 9.0)]),
            ("a", Role::Peer, &[(0, 5.0)]),
            ("b", Role::Peer, &[(0, 10.0)]),
        ]);
        let verdict = |text: &str| line(text).verdict(&measured);
        let shown = |text| verdict(text).to_string();
        assert_eq!(shown("of = [\"a\"]\nat-least = 1.8"), "more: 1.80, yes");
        assert_eq!(shown("of = [\"peers\"]\nat-least = 1.0"), "more: 0.900, no");
        assert_eq!(shown("at-most = 9"), "more: 9.00, yes");
        assert_eq!(shown("who = \"c\"\nat-most = 9"), "more: –, not measured");
        let hope = shown("at-least = 10\nhope = true");
        assert_eq!(hope, "more (to reach for): 9.00, no");
    }

    #[test]
    fn texts_are_filled_with_figures() {
        let mut measured = measured(&[
            ("windlass", Role::Ours, &[(0, 9.0)]),
            ("a", Role::Peer, &[(0, 5.0)]),
        ]);
        let text = filled("{a}, {windlass / a}, {nobody}.", &measured);
        assert_eq!(text, "5.00, 1.80, –.");
        assert_eq!(filled("{sync} {disk} {direct}", &measured), "– – –");
        let directory = tempfile::tempdir().unwrap();
        measured.machine_loads = vec![MachineLoad::look(directory.path(), MIB).unwrap()];
        let text = filled("{sync} {disk} {direct}", &measured);
        assert!(!text.contains('{') && !text.contains(NOTHING));
    }
}
