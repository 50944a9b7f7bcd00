//! `windlass-perf run`: contestants in turn, round after round.
//!
//! On a machine with other users, absolute figures vary by a factor of two within an hour.
//! Contestants therefore take turns inside each round, each on a new server, and only ratios inside
//! a round count.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::contestant::{self, Contestant, Places};
use crate::data_dirs::DataDirs;
use crate::goal::{self, Goal};
use crate::load::{Block, Tls};
use crate::machine::{Machine, MachineLoad};
use crate::measure::{Figures, Fixtures, Site};
use crate::output::{progress, result};
use crate::record::{Measured, Record};
use crate::report::{comparison, table};
use crate::scenario::{self, Part, Scenario};
use crate::units::{GIB, figure};

/// Measure contestants in turn and print their figures.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Measure only these scenarios, e.g. S1,S3.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    scenarios: Vec<String>,
    /// Number of rounds, including those in the record.
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    rounds: usize,
    /// Use smaller loads, for a first impression in minutes.
    #[arg(long)]
    quick: bool,
    /// Measure only contestants with a name that contains this, and the reference; may be given
    /// more than once.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Path of the binary `windlass` [default: next to this program].
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Path of another build of `windlass`, which is measured in the same rounds; a table at the
    /// end compares each figure.
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Directory of the other servers, filled by testing/perf/install [default: `peers` under the
    /// target directory].
    #[arg(long, value_name = "DIRECTORY")]
    installed: Option<PathBuf>,
    /// Directory for the data of servers, on the disk that is measured.
    #[arg(long, value_name = "DIRECTORY", default_value_os_t = std::env::temp_dir())]
    data: PathBuf,
    /// File for the results, as JSON, which `report` reads. If it exists, the run continues where
    /// the previous one ended.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Discard the results of these scenarios in the record.
    #[arg(long, requires = "record")]
    again: bool,
    /// Begin no round after this many minutes, and fail if rounds are left.
    #[arg(long, value_name = "NUMBER", requires = "record")]
    minutes: Option<u64>,
    /// Maximum amount of data of finished runs that is kept, in GiB.
    #[arg(long, value_name = "GIB", default_value_t = 16)]
    room: u64,
}

/// Carries out a run.
///
/// # Errors
/// The machine fails. At the end: a measurement did not count, or there was no time for it. The
/// remaining measurements were made all the same.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let scenarios = wanted(arguments)?;
    let places = places(arguments)?;
    let contestants = contestants(arguments, &places)?;
    let data_dirs = DataDirs::new(&arguments.data, arguments.room * GIB)?;
    if cfg!(debug_assertions) {
        progress("not an optimised build: the figures mean nothing");
    }
    let part = if arguments.quick {
        scenario::QUICK_PART
    } else {
        1
    };
    let machine = Machine::look(data_dirs.path())?;
    result(&machine);
    if arguments.quick {
        result(format_args!("quick: 1/{part} of every size and count"));
    }
    let builds = [Some(&places.windlass), places.baseline.as_ref()];
    let mut record = Record::new(machine, builds.into_iter().flatten(), arguments.quick)?;
    let kept = arguments.record.as_deref();
    kept.iter().try_for_each(|path| record.take_up(path))?;
    if arguments.again {
        for scenario in &scenarios {
            record.forget(scenario.name);
        }
    }
    let mut bench = Bench {
        site: Site {
            places,
            block: Block::random()?,
            tls: Tls::new(data_dirs.path()),
            warm_up: scenario::WARM_UP / part,
        },
        data_dirs,
        fixtures: Fixtures::default(),
        row: GIB / part,
        failures: 0,
        end: arguments
            .minutes
            .and_then(|minutes| Instant::now().checked_add(Duration::from_secs(60 * minutes))),
    };
    let goals = goal::all()?;
    let names: Vec<_> = scenario::all(false).iter().map(|one| one.name).collect();
    let mut left = Vec::new();
    for scenario in &scenarios {
        let parts = scenario.parts(&contestants);
        let mut measured = record.measured(scenario, &parts);
        measured
            .machine_loads
            .extend(bench.machine_load(&measured, arguments.rounds)?);
        while measured.rounds < arguments.rounds && bench.has_time() {
            bench.round(scenario, &parts, &mut measured);
            record.put(measured.clone(), &names);
            // After each round, so that hours are not lost to an interruption.
            kept.iter().try_for_each(|path| record.write(path))?;
        }
        if measured.rounds < arguments.rounds {
            left.push(scenario.name);
        }
        if measured.rounds > 0 {
            show(&measured, goals.get(&measured.name));
        }
    }
    if let Some(table) = comparison::of(&record.scenarios) {
        result(format_args!("\n{table}"));
    }
    ensure!(bench.failures == 0, "{} runs do not count", bench.failures);
    ensure!(left.is_empty(), "no time was left for {}", left.join(", "));
    Ok(())
}

/// Prints the results of a scenario, and the crossed lines.
fn show(measured: &Measured, goal: Option<&Goal>) {
    let (name, title) = (&measured.name, &measured.title);
    let table = table::of(measured, |_| true);
    result(format_args!("\n{name}: {title}\n\n{table}"));
    for verdict in goal.map(|goal| goal.verdicts(measured)).unwrap_or_default() {
        result(format_args!("- {verdict}"));
    }
}

fn wanted(arguments: &Arguments) -> anyhow::Result<Vec<Scenario>> {
    let mut scenarios = scenario::all(arguments.quick);
    let names = &arguments.scenarios;
    for name in names {
        let is_known = scenarios.iter().any(|scenario| scenario.name == name);
        ensure!(is_known, "there is no scenario {name}");
    }
    if !names.is_empty() {
        scenarios.retain(|scenario| names.iter().any(|name| name == scenario.name));
    }
    Ok(scenarios)
}

/// Returns the contestants that are wanted and installed.
fn contestants(arguments: &Arguments, places: &Places) -> anyhow::Result<Vec<Contestant>> {
    let mut contestants = contestant::all(&arguments.only)?;
    contestants.retain(|one| places.baseline.is_some() || !one.is_baseline());
    contestants.retain(|one| {
        let missing = one.missing(places);
        if let Some(missing) = &missing {
            let missing = missing.display();
            progress(format_args!(
                "{}: left out: {missing} is not there",
                one.name
            ));
        }
        missing.is_none()
    });
    Ok(contestants)
}

fn places(arguments: &Arguments) -> anyhow::Result<Places> {
    let bench = std::env::current_exe()?;
    let next_to_it = || bench.with_file_name("windlass");
    let windlass = arguments.binary.clone().unwrap_or_else(next_to_it);
    let baseline = arguments.baseline.clone();
    for build in [Some(&windlass), baseline.as_ref()].into_iter().flatten() {
        ensure!(build.is_file(), "{} is not there", build.display());
    }
    let installed = arguments.installed.clone();
    Ok(Places {
        installed: installed.unwrap_or_else(|| bench.with_file_name("../peers")),
        windlass,
        baseline,
        bench,
    })
}

/// Everything that is needed to measure.
struct Bench {
    site: Site,
    data_dirs: DataDirs,
    fixtures: Fixtures,
    /// Number of bytes that are written in sequence to measure the disk.
    row: u64,
    /// When no more rounds are begun.
    end: Option<Instant>,
    /// Runs that do not count.
    failures: usize,
}

impl Bench {
    /// Measures the disk before a scenario, if rounds of it are to come.
    fn machine_load(
        &self,
        measured: &Measured,
        rounds: usize,
    ) -> anyhow::Result<Option<MachineLoad>> {
        if measured.rounds >= rounds || !self.has_time() {
            return Ok(None);
        }
        let machine_load = MachineLoad::look(self.data_dirs.path(), self.row)?;
        progress(format_args!("{}: {machine_load}", measured.name));
        Ok(Some(machine_load))
    }

    fn has_time(&self) -> bool {
        self.end.is_none_or(|end| Instant::now() < end)
    }

    /// Measures every part once.
    fn round(&mut self, scenario: &Scenario, parts: &[Part<'_>], measured: &mut Measured) {
        let round = measured.rounds;
        for index in order(parts.len(), round) {
            let part = &parts[index];
            let told = format!("{} round {}: {}", scenario.name, round + 1, part.name);
            match self.measure(part) {
                Ok(figures) => {
                    progress(format_args!("{told}: {}", shown(scenario, &figures)));
                    measured.entries[index].rounds.insert(round, figures);
                }
                Err(error) => {
                    self.failures += 1;
                    progress(format_args!("{told}: does not count: {error:#}"));
                }
            }
        }
        measured.rounds += 1;
    }

    fn measure(&mut self, part: &Part<'_>) -> anyhow::Result<Figures> {
        let data_dir = self
            .fixtures
            .data_dir(&self.site, part, &mut self.data_dirs)?;
        self.site.measure(part, &data_dir)
    }
}

/// The order of this number of contestants in a round. The first contestant and the direction
/// change from round to round. After a sync, a virtual disk stays busy for a while, and this must
/// not always affect the same successor. With more than two contestants, nobody follows itself.
fn order(count: usize, round: usize) -> impl Iterator<Item = usize> {
    let start = round / 2;
    (0..count).map(move |turn| {
        // Backwards it begins half a table away, so as not to end where the next round begins.
        let step = match round % 2 {
            0 => turn,
            _ => count + count / 2 - turn,
        };
        (start + step) % count
    })
}

fn shown(scenario: &Scenario, figures: &Figures) -> String {
    let shown = scenario.figures.iter().filter_map(|of| {
        let value = figure(*figures.get(of)?);
        Some(format!("{value} {}", of.name()))
    });
    shown.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(count: usize) -> Vec<Vec<usize>> {
        let rounds = 0..2 * count;
        rounds.map(|round| order(count, round).collect()).collect()
    }

    #[test]
    fn everyone_has_a_turn_in_each_round_and_begins_two_of_them() {
        for count in 1..10 {
            let all: Vec<_> = (0..count).collect();
            let mut begins = Vec::new();
            for mut order in orders(count) {
                begins.push(order[0]);
                order.sort_unstable();
                assert_eq!(order, all);
            }
            begins.sort_unstable();
            assert!(begins.iter().copied().eq((0..2 * count).map(|n| n / 2)));
        }
    }

    #[test]
    fn neighbours_come_before_each_other_equally_often() {
        for count in 2..10 {
            for one in 0..count {
                let next = (one + 1) % count;
                let comes_first = |order: &&Vec<usize>| {
                    order.iter().find(|&&who| who == one || who == next) == Some(&one)
                };
                assert_eq!(orders(count).iter().filter(comes_first).count(), count);
            }
        }
    }

    #[test]
    fn nobody_comes_after_himself() {
        for count in 3..10 {
            let all = orders(count).concat();
            assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{count}");
        }
    }
}
