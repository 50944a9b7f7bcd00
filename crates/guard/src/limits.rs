//! The table of what an upload may cost, `limits.toml`, and whether it holds.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use anyhow::{Context as _, ensure};
use serde::Deserialize;

/// The table, as it is in the repository.
const TABLE: &str = include_str!("../limits.toml");

/// Below this part of what was counted before a limit is too far away to notice anything.
const SLACK: f64 = 0.75;

/// Which part of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// What the real binary calls.
    Calls,
    /// What the server allocates.
    Allocations,
}

/// Something that was counted, for each upload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Count {
    /// What.
    pub name: &'static str,
    /// How often.
    pub value: f64,
}

impl Count {
    /// What each of so many uploads came to, which made a count grow by `more` and shrink by `less`.
    pub fn each(name: &'static str, more: u64, less: u64, uploads: u64) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let float = |count: u64| count as f64;
        Self {
            name,
            value: (float(more) - float(less)) / float(uploads),
        }
    }
}

/// What was counted when the limit was set, and the most that there may be.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limit {
    was: f64,
    limit: f64,
}

type Scenarios = BTreeMap<String, BTreeMap<String, Limit>>;

/// The whole table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    calls: Scenarios,
    allocations: Scenarios,
}

impl Table {
    fn section(self, section: Section) -> Scenarios {
        match section {
            Section::Calls => self.calls,
            Section::Allocations => self.allocations,
        }
    }
}

/// The limits of a section, and what became of them.
#[derive(Debug)]
pub struct Judge {
    scenarios: Scenarios,
    /// A line for each count.
    table: String,
    /// What does not hold.
    exceeded: Vec<Exceeded>,
}

/// A count that is over its limit.
#[derive(Debug, Clone, PartialEq)]
struct Exceeded {
    scenario: String,
    count: Count,
    limit: Limit,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            scenario,
            count: Count { name, value },
            limit: Limit { was, limit },
        } = self;
        write!(
            f,
            "{scenario}: {name}: {value:.2} for each upload, at most {limit:.2} allowed (it was {was:.2})"
        )
    }
}

impl Judge {
    /// With the limits of the repository.
    ///
    /// # Errors
    /// When the table is malformed.
    pub fn new(section: Section) -> anyhow::Result<Self> {
        Self::with(TABLE, section)
    }

    fn with(table: &str, section: Section) -> anyhow::Result<Self> {
        let table: Table = toml::from_str(table).context("limits.toml")?;
        Ok(Self {
            scenarios: table.section(section),
            table: format!(
                "{:<16}{:<24}{:>12}{:>12}{:>12}\n",
                "scenario", "for each upload", "now", "was", "limit"
            ),
            exceeded: Vec::new(),
        })
    }

    /// Holds the counts of a scenario against its limits. Counts without a limit are not looked at.
    ///
    /// # Errors
    /// When there are no limits for the scenario, or one for something that was not counted.
    pub fn hear(&mut self, scenario: &str, counts: &[Count]) -> anyhow::Result<()> {
        let limits = self.scenarios.get(scenario);
        let limits = limits.with_context(|| format!("limits.toml has nothing on {scenario}"))?;
        for name in limits.keys() {
            let is_counted = counts.iter().any(|count| count.name == name);
            ensure!(is_counted, "limits.toml: {scenario}: nobody counts {name}");
        }
        for count in counts {
            let Count { name, value } = *count;
            let Some(Limit { was, limit }) = limits.get(name).copied() else {
                continue;
            };
            let is_exceeded = value > limit;
            let remark = match value {
                _ if is_exceeded => "  TOO MUCH",
                _ if value < was * SLACK => "  less: lower the limit",
                _ => "",
            };
            writeln!(
                self.table,
                "{scenario:<16}{name:<24}{value:>12.2}{was:>12.2}{limit:>12.2}{remark}"
            )?;
            if is_exceeded {
                self.exceeded.push(Exceeded {
                    scenario: scenario.to_owned(),
                    count: *count,
                    limit: Limit { was, limit },
                });
            }
        }
        Ok(())
    }

    /// What was counted, as a table.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// What is to be done, if there is anything.
    pub fn verdict(&self) -> Result<(), String> {
        if self.exceeded.is_empty() {
            return Ok(());
        }
        let lines = self.exceeded.iter().map(|exceeded| format!("{exceeded}\n"));
        Err(format!(
            "An upload costs more than it may:\n{}Mend what made it dearer, or raise `limit` and `was` in crates/guard/limits.toml and say in the \
             commit what the cost buys.",
            lines.collect::<String>()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "[calls.one]\nsyncs = { was = 1, limit = 1.2 }\n[allocations]";

    fn heard(value: f64) -> Judge {
        let mut judge = Judge::with(TABLE, Section::Calls).unwrap();
        let counts =
            [("syncs", value), ("unlimited", 9.0)].map(|(name, value)| Count { name, value });
        judge.hear("one", &counts).unwrap();
        judge
    }

    #[test]
    fn a_count_over_its_limit_is_told_with_all_that_is_needed_to_act() {
        let told = heard(1.21).verdict().unwrap_err();
        let line = "one: syncs: 1.21 for each upload, at most 1.20 allowed (it was 1.00)";
        assert!(told.contains(line), "{told}");
        assert!(told.contains("crates/guard/limits.toml"), "{told}");
    }

    #[test]
    fn a_count_at_its_limit_is_good_and_one_far_below_asks_for_another() {
        assert_eq!(heard(1.2).verdict(), Ok(()));
        assert!(!heard(0.8).table().contains("lower the limit"));
        assert!(heard(0.7).table().contains("lower the limit"));
    }

    #[test]
    fn what_is_missing_on_either_side_is_an_error() {
        let mut judge = Judge::with(TABLE, Section::Calls).unwrap();
        assert!(judge.hear("two", &[]).is_err());
        assert!(judge.hear("one", &[]).is_err());
    }

    #[test]
    fn no_limit_of_the_table_is_below_what_was_counted_or_far_above() {
        for section in [Section::Calls, Section::Allocations] {
            for (scenario, limits) in Judge::new(section).unwrap().scenarios {
                for (name, Limit { was, limit }) in limits {
                    let range = was..=was * 2.0 + 1.0;
                    assert!(range.contains(&limit), "{scenario}: {name}");
                }
            }
        }
    }
}
