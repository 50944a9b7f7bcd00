//! Who takes part: the table of contestants.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use crate::load::{Shape, Targets};

/// The table, as it lies beside the sources.
const TABLE: &str = include_str!("../contestants.toml");

/// A server, how it is started, and how uploads are spelled for it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contestant {
    /// What tables call it.
    pub(crate) name: String,
    /// What its figures are to ours.
    pub(crate) role: Role,
    /// Whether what it acknowledges survives a power cut.
    pub(crate) durable: bool,
    command: Vec<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// Its URLs.
    #[serde(default)]
    pub(crate) targets: Targets,
    /// How each scenario is carried out.
    shapes: BTreeMap<String, Shape>,
}

/// What the figures of a contestant are to ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    /// They are ours.
    Ours,
    /// The line that ours are held against.
    Reference,
    /// Another line.
    Floor,
    /// A server that others wrote.
    Peer,
}

/// Where binaries are.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// The server under measurement.
    pub(crate) windlass: PathBuf,
    /// This program.
    pub(crate) bench: PathBuf,
}

impl Contestant {
    /// How it is put under this scenario; none when it does not take part.
    pub(crate) fn shape(&self, scenario: &str) -> Option<Shape> {
        self.shapes.get(scenario).copied()
    }

    /// The command that serves out of `data`.
    pub(crate) fn command(&self, places: &Places, data: &Path) -> Command {
        let fill = |word: &String| {
            let word = word.replace("{windlass}", &places.windlass.to_string_lossy());
            let word = word.replace("{bench}", &places.bench.to_string_lossy());
            word.replace("{data}", &data.to_string_lossy())
        };
        let mut words = self.command.iter().map(fill);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).envs(&self.environment);
        command
    }
}

/// All of the table whose name contains one of these words; all of it without words. The reference is always among them.
///
/// # Errors
/// When the table is not well-formed, or a word fits no contestant.
pub(crate) fn all(words: &[String]) -> anyhow::Result<Vec<Contestant>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Table {
        contestant: Vec<Contestant>,
    }
    let mut table: Table = toml::from_str(TABLE).context("contestants.toml")?;
    let fits = |contestant: &Contestant, word: &String| contestant.name.contains(word.as_str());
    for word in words {
        let is_known = table.contestant.iter().any(|one| fits(one, word));
        ensure!(is_known, "no contestant is called {word}");
    }
    if !words.is_empty() {
        let is_wanted = |one: &Contestant| words.iter().any(|word| fits(one, word));
        table
            .contestant
            .retain(|one| one.role == Role::Reference || is_wanted(one));
    }
    Ok(table.contestant)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::scenario;

    #[test]
    fn the_table_is_well_formed_and_names_scenarios_that_there_are() {
        let scenarios = scenario::all(false);
        for contestant in all(&[]).unwrap() {
            for name in contestant.shapes.keys() {
                assert!(
                    scenarios.iter().any(|scenario| scenario.name == name),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn the_reference_always_takes_part() {
        let names: Vec<_> = all(&["TCP floor, durable".to_owned()])
            .unwrap()
            .into_iter()
            .map(|contestant| contestant.name)
            .collect();
        assert_eq!(names, ["HTTP floor, durable", "TCP floor, durable"]);
        assert!(all(&["nobody".to_owned()]).is_err());
    }
}
