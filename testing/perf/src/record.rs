//! The stored measurements: machine, scenarios, contestants, rounds.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use crate::contestant::Role;
use crate::figure::Figure;
use crate::machine::{Machine, MachineLoad};
use crate::measure::Figures;
use crate::scenario::{Part, Scenario};
use crate::units::median;

/// All that was measured of a server, in one run or in several.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Where.
    pub(crate) machine: Machine,
    /// Hash of the binaries of our server.
    binary: u64,
    /// Whether sizes and counts were reduced for a quick look.
    pub(crate) quick: bool,
    /// The measured scenarios, in the order of the list of scenarios.
    pub(crate) scenarios: Vec<Measured>,
}

/// A scenario with its results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// See [`Scenario`].
    pub(crate) name: String,
    /// See [`Scenario`].
    pub(crate) title: String,
    /// See [`Scenario`].
    pub(crate) figures: Vec<Figure>,
    /// How many rounds were carried out, whether they count or not.
    pub(crate) rounds: usize,
    /// The load of the disk before the rounds, once for each run that carried out some of them.
    #[serde(rename = "moods")]
    pub(crate) machine_loads: Vec<MachineLoad>,
    /// Who took part, in the order of the table of contestants.
    pub(crate) entries: Vec<Entry>,
}

/// A contestant that took part.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// See [`Part`].
    pub(crate) name: String,
    /// See [`crate::contestant::Contestant`].
    pub(crate) role: Role,
    /// See [`crate::contestant::Contestant`].
    pub(crate) durable: bool,
    /// Rounds that count.
    pub(crate) rounds: BTreeMap<usize, Figures>,
}

impl Record {
    /// An empty one, of this machine and these builds of our server.
    ///
    /// # Errors
    /// When a binary cannot be read.
    pub(crate) fn new(
        machine: Machine,
        builds: impl IntoIterator<Item = impl AsRef<Path>>,
        quick: bool,
    ) -> anyhow::Result<Self> {
        let mut hasher = DefaultHasher::new();
        for build in builds {
            fs::read(build)?.hash(&mut hasher);
        }
        Ok(Self {
            machine,
            binary: hasher.finish(),
            quick,
            scenarios: Vec::new(),
        })
    }

    /// Takes over the record of an earlier run, if the file exists.
    ///
    /// # Errors
    /// The record is from another machine, from another binary, or of another size.
    pub(crate) fn take_up(&mut self, path: &Path) -> anyhow::Result<()> {
        if !path.exists() {
            return Ok(());
        }
        let earlier = Self::read(path)?;
        let differs = [
            ("machine", earlier.machine != self.machine),
            ("binary", earlier.binary != self.binary),
            ("size", earlier.quick != self.quick),
        ];
        for (what, differs) in differs {
            ensure!(
                !differs,
                "{} is of another {what}: remove it, or name another file",
                path.display()
            );
        }
        self.scenarios = earlier.scenarios;
        Ok(())
    }

    /// Returns the earlier results of a scenario for these parts.
    pub(crate) fn measured(&self, scenario: &Scenario, parts: &[Part<'_>]) -> Measured {
        let mut measured = Measured::new(scenario, parts);
        let mut scenarios = self.scenarios.iter();
        if let Some(earlier) = scenarios.find(|one| one.name == scenario.name) {
            measured.take_up(earlier);
        }
        measured
    }

    /// Replaces the results of a scenario, and keeps the order of `names`.
    pub(crate) fn put(&mut self, measured: Measured, names: &[&str]) {
        self.forget(&measured.name);
        self.scenarios.push(measured);
        let place = |name: &str| names.iter().position(|one| *one == name);
        self.scenarios.sort_by_key(|one| place(&one.name));
    }

    /// Drops the results of a scenario.
    pub(crate) fn forget(&mut self, name: &str) {
        self.scenarios.retain(|one| one.name != name);
    }

    /// Reads a file of [`Record::write`].
    ///
    /// # Errors
    /// The file does not exist, or is not of this version.
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
            rounds: 0,
            machine_loads: Vec::new(),
            entries: parts.iter().map(entry).collect(),
        }
    }

    /// Takes over rounds of an earlier run, including rounds of contestants that take no part now.
    fn take_up(&mut self, earlier: &Self) {
        self.rounds = earlier.rounds;
        self.machine_loads.clone_from(&earlier.machine_loads);
        for entry in &earlier.entries {
            let mut entries = self.entries.iter_mut();
            match entries.find(|one| one.name == entry.name) {
                Some(one) => one.rounds.clone_from(&entry.rounds),
                None => self.entries.push(entry.clone()),
            }
        }
    }

    /// The median of something that the disk did before the rounds; none when nobody looked.
    pub(crate) fn machine_load(&self, of: impl Fn(&MachineLoad) -> f64) -> Option<f64> {
        median(&self.machine_loads.iter().map(of).collect::<Vec<_>>())
    }

    /// The main figure of the scenario.
    pub(crate) fn main_figure(&self) -> Figure {
        *self.figures.first().expect("a scenario has a figure")
    }

    /// The entry with this name.
    pub(crate) fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The median over the rounds of a ratio: the figure of `entry` by the best figure of some
    /// other entries in the same round.
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

    use crate::contestant;
    use crate::scenario;

    /// Name, role, and rates by round.
    type Row<'a> = (&'a str, Role, &'a [(usize, f64)]);

    /// A scenario in which these contestants had these rates in these rounds.
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
            rounds: 0,
            machine_loads: Vec::new(),
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

    fn record(binary: &str, quick: bool) -> Record {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("binary");
        fs::write(&file, binary).unwrap();
        let machine = Machine::look(directory.path()).unwrap();
        Record::new(machine, [&file], quick).unwrap()
    }

    #[test]
    fn a_run_goes_on_where_an_earlier_one_ended() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("record");
        let mut record = record("a", false);
        record.take_up(&file).unwrap();
        let scenarios = scenario::all(false);
        let contestants = contestant::all(&["windlass".to_owned()]).unwrap();
        for index in [3, 0] {
            let parts = scenarios[index].parts(&contestants);
            let mut measured = record.measured(&scenarios[index], &parts);
            measured.rounds = index + 1;
            measured.entries[0].rounds.insert(0, Figures::default());
            record.put(measured, &["S1", "S1x4", "S2", "S2b"]);
        }
        record.write(&file).unwrap();
        let mut record = self::record("a", false);
        record.take_up(&file).unwrap();
        let names = record.scenarios.iter().map(|one| one.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["S1", "S2b"]);
        // A contestant that has gone keeps its measurements.
        let contestants = contestant::all(&["HTTP floor".to_owned()]).unwrap();
        let parts = scenarios[3].parts(&contestants);
        let measured = record.measured(&scenarios[3], &parts);
        assert_eq!(measured.rounds, 4);
        let shown = measured.entries.iter();
        let shown: Vec<_> = shown
            .map(|one| (one.name.as_str(), one.rounds.len()))
            .collect();
        assert!(shown.contains(&("windlass", 1)) && shown.contains(&("HTTP floor", 0)));
        record.forget("S2b");
        assert_eq!(record.measured(&scenarios[3], &parts).rounds, 0);
    }

    #[test]
    fn what_was_measured_of_another_binary_or_size_is_not_gone_on_with() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("record");
        record("a", false).write(&file).unwrap();
        assert!(record("b", false).take_up(&file).is_err());
        assert!(record("a", true).take_up(&file).is_err());
        record("a", false).take_up(&file).unwrap();
    }
}
