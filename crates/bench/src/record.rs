//! What was measured, as it is kept: machine, scenarios, contestants, rounds.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::amount::median;
use crate::contestant::{Contestant, Role};
use crate::machine::Machine;
use crate::scenario::{Scenario, Unit};

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
    pub(crate) unit: Unit,
    /// Who took part, in the order of the table of contestants.
    pub(crate) entries: Vec<Entry>,
}

/// One who took part.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// As of [`Contestant`].
    pub(crate) name: String,
    /// As of [`Contestant`].
    pub(crate) role: Role,
    /// As of [`Contestant`].
    pub(crate) durable: bool,
    /// Rounds that count.
    pub(crate) rounds: BTreeMap<usize, Measurement>,
}

/// One contestant in one round.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Measurement {
    /// The figure of the scenario.
    pub(crate) rate: f64,
    /// Seconds of processor time by the unit of work.
    pub(crate) cpu: f64,
    /// The most memory, in bytes.
    pub(crate) peak: u64,
    /// Seconds that requests took: the median, the 99th percentile, and the longest.
    pub(crate) quantiles: [f64; 3],
    /// Whether an upload was read back and compared.
    pub(crate) is_compared: bool,
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
    pub(crate) fn new<'a>(
        scenario: &Scenario,
        contestants: impl Iterator<Item = &'a Contestant>,
    ) -> Self {
        let entry = |one: &Contestant| Entry {
            name: one.name.clone(),
            role: one.role,
            durable: one.durable,
            rounds: BTreeMap::new(),
        };
        Self {
            name: scenario.name.to_owned(),
            title: scenario.title.to_owned(),
            unit: scenario.unit,
            entries: contestants.map(entry).collect(),
        }
    }

    /// The median over the rounds of what one came to by what the best of a role came to in the same round.
    pub(crate) fn ratio(&self, entry: &Entry, role: Role) -> Option<f64> {
        let ratios = entry.rounds.iter().filter_map(|(round, measurement)| {
            let others = self.entries.iter().filter(|other| other.role == role);
            let rates = others.filter_map(|other| Some(other.rounds.get(round)?.rate));
            Some(measurement.rate / rates.max_by(f64::total_cmp)?)
        });
        median(&ratios.collect::<Vec<_>>())
    }
}

impl Entry {
    /// The median of a figure; none when no round counts.
    pub(crate) fn median(&self, figure: impl Fn(&Measurement) -> f64) -> Option<f64> {
        median(&self.rounds.values().map(figure).collect::<Vec<_>>())
    }

    /// The lowest and the highest rate of all rounds; none when no round counts.
    pub(crate) fn range(&self) -> Option<(f64, f64)> {
        let rates = || self.rounds.values().map(|measurement| measurement.rate);
        let lowest = rates().min_by(f64::total_cmp)?;
        Some((lowest, rates().max_by(f64::total_cmp)?))
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
            let measurement = |rate| Measurement {
                rate,
                ..Measurement::default()
            };
            let rounds = rates.iter();
            Entry {
                name: (*name).to_owned(),
                role: *role,
                durable: *role != Role::Peer,
                rounds: rounds
                    .map(|&(round, rate)| (round, measurement(rate)))
                    .collect(),
            }
        };
        Measured {
            name: "S1".to_owned(),
            title: "one upload".to_owned(),
            unit: Unit::Mib,
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
        assert_eq!(measured.ratio(ours, Role::Peer), Some(3.0));
        assert_eq!(measured.ratio(ours, Role::Reference), None);
        assert_eq!(ours.median(|one| one.rate), Some(20.0));
        assert_eq!(ours.range(), Some((9.0, 100.0)));
    }
}
