//! What was measured, as it is kept: machine, scenarios, contestants, rounds.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::amount::median;
use crate::contestant::Role;
use crate::figure::Figure;
use crate::machine::Machine;
use crate::measure::Figures;
use crate::scenario::{Part, Scenario};

/// All that a run has measured.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Where.
    pub(crate) machine: Machine,
    /// Whether sizes and counts were those of a quick look.
    pub(crate) quick: bool,
    /// What, in the order of the list of scenarios.
    pub(crate) scenarios: Vec<Measured>,
}

/// A scenario with what came of it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// As of [`Scenario`].
    pub(crate) name: String,
    /// As of [`Scenario`].
    pub(crate) title: String,
    /// As of [`Scenario`].
    pub(crate) figures: Vec<Figure>,
    /// Who took part, in the order of the table of contestants.
    pub(crate) entries: Vec<Entry>,
}

/// One who took part.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// As of [`Part`].
    pub(crate) name: String,
    /// As of [`crate::contestant::Contestant`].
    pub(crate) role: Role,
    /// As of [`crate::contestant::Contestant`].
    pub(crate) durable: bool,
    /// Rounds that count.
    pub(crate) rounds: BTreeMap<usize, Figures>,
}

impl Record {
    /// Reads what [`Record::write`] has written.
    ///
    /// # Errors
    /// When it is not there, or not of this version.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    }

    /// Writes it as JSON.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        fs::write(path, text).with_context(|| path.display().to_string())
    }
}

impl Measured {
    /// A scenario before its first round.
    pub(crate) fn new(scenario: &Scenario, parts: &[Part<'_>]) -> Self {
        let entry = |part: &Part<'_>| Entry {
            name: part.name.clone(),
            role: part.contestant.role,
            durable: part.contestant.durable,
            rounds: BTreeMap::new(),
        };
        Self {
            name: scenario.name.to_owned(),
            title: scenario.title.to_owned(),
            figures: scenario.figures.to_vec(),
            entries: parts.iter().map(entry).collect(),
        }
    }

    /// What it is about.
    pub(crate) fn main_figure(&self) -> Figure {
        *self.figures.first().expect("a scenario has a figure")
    }

    /// One who took part.
    pub(crate) fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The median over the rounds of a figure of one by that of the best of some others in the same round.
    pub(crate) fn ratio(
        &self,
        figure: Figure,
        entry: &Entry,
        others: impl Fn(&Entry) -> bool,
    ) -> Option<f64> {
        let ratios = entry.rounds.iter().filter_map(|(round, figures)| {
            let others = self.entries.iter().filter(|other| others(other));
            let values = others.filter_map(|other| other.rounds.get(round)?.get(&figure).copied());
            let best = values.reduce(|one, other| figure.better(one, other))?;
            Some(figures.get(&figure)? / best)
        });
        median(&ratios.collect::<Vec<_>>())
    }
}

impl Entry {
    /// A figure in all rounds.
    fn values(&self, figure: Figure) -> Vec<f64> {
        let values = self.rounds.values();
        values
            .filter_map(|figures| figures.get(&figure).copied())
            .collect()
    }

    /// The median of a figure; none when no round counts.
    pub(crate) fn median(&self, figure: Figure) -> Option<f64> {
        median(&self.values(figure))
    }

    /// The lowest and the highest of all rounds; none when no round counts.
    pub(crate) fn range(&self, figure: Figure) -> Option<(f64, f64)> {
        let values = self.values(figure);
        let lowest = values.iter().copied().reduce(f64::min)?;
        Some((lowest, values.into_iter().fold(lowest, f64::max)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Name, role, and rates by round.
    type Row<'a> = (&'a str, Role, &'a [(usize, f64)]);

    /// A scenario in which these came to these rates in these rounds.
    pub(crate) fn measured(rates: &[Row<'_>]) -> Measured {
        let entry = |(name, role, rates): &Row<'_>| {
            let figures = |rate| Figures::from([(Figure::Mib, rate)]);
            let rounds = rates.iter();
            Entry {
                name: (*name).to_owned(),
                role: *role,
                durable: *role != Role::Peer,
                rounds: rounds
                    .map(|&(round, rate)| (round, figures(rate)))
                    .collect(),
            }
        };
        Measured {
            name: "S1".to_owned(),
            title: "one upload".to_owned(),
            figures: vec![Figure::Mib],
            entries: rates.iter().map(entry).collect(),
        }
    }

    #[test]
    fn ratios_are_taken_inside_a_round_and_to_the_best_of_it() {
        let measured = measured(&[
            (
                "ours",
                Role::Ours,
                &[(0, 10.0), (1, 100.0), (2, 9.0), (3, 30.0)],
            ),
            ("a", Role::Peer, &[(0, 5.0), (1, 10.0)]),
            ("b", Role::Peer, &[(0, 4.0), (1, 25.0), (3, 10.0)]),
        ]);
        let ours = &measured.entries[0];
        let ratio = |role| measured.ratio(Figure::Mib, ours, |other| other.role == role);
        assert_eq!(ratio(Role::Peer), Some(3.0));
        assert_eq!(ratio(Role::Reference), None);
        assert_eq!(ours.median(Figure::Mib), Some(20.0));
        assert_eq!(ours.range(Figure::Mib), Some((9.0, 100.0)));
    }
}
