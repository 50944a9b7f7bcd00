//! `windlass-bench run`: contestants in turn, round after round.
//!
//! Absolute figures of a machine that others use too swing by a factor of two within an hour, so contestants take turns inside each
//! round, each on a fresh server, and what counts are ratios inside a round.

use std::path::PathBuf;

use anyhow::ensure;

use crate::amount::{GIB, figure};
use crate::contestant::{self, Contestant, Places};
use crate::goal;
use crate::load::Block;
use crate::machine::Machine;
use crate::measure::{Figures, Site, Stocks};
use crate::record::{Measured, Record};
use crate::report::table;
use crate::scenario::{self, Part, Scenario};
use crate::tell::{progress, result};
use crate::yard::Yard;

/// Measure contestants in turn and print what they came to.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only these scenarios, e.g. S1,S3.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    scenarios: Vec<String>,
    /// How many rounds.
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    rounds: usize,
    /// Smaller loads, for a look.
    #[arg(long)]
    quick: bool,
    /// Only contestants whose name contains this, and the reference; may be given more than once.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// The binary `windlass` [default: the one beside this program].
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Where bench/install has put the servers of others [default: `peers` under the target directory].
    #[arg(long, value_name = "DIRECTORY")]
    installed: Option<PathBuf>,
    /// Where servers put their data: a directory on the disk that is measured.
    #[arg(long, value_name = "DIRECTORY", default_value_os_t = std::env::temp_dir())]
    data: PathBuf,
    /// Where to keep what was measured, as JSON, for `report`.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// How much data of finished runs may lie there, in GiB.
    #[arg(long, value_name = "GIB", default_value_t = 16)]
    room: u64,
}

/// Carries out what is asked for.
///
/// # Errors
/// When the machine fails, or at the end if a run did not count; what is left was measured all the same.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let scenarios = wanted(arguments)?;
    let places = places(arguments)?;
    let contestants = contestants(arguments, &places)?;
    let yard = Yard::new(&arguments.data, arguments.room * GIB)?;
    if cfg!(debug_assertions) {
        progress("not an optimised build: the figures mean nothing");
    }
    let part = if arguments.quick {
        scenario::QUICK_PART
    } else {
        1
    };
    let machine = Machine::look(yard.path(), GIB / part)?;
    result(&machine);
    if arguments.quick {
        result(format_args!("quick: 1/{part} of every size and count"));
    }
    let mut bench = Bench {
        site: Site {
            places,
            block: Block::random()?,
        },
        yard,
        stocks: Stocks::default(),
        failures: 0,
    };
    let goals = goal::all()?;
    let mut record = Record {
        machine,
        quick: arguments.quick,
        scenarios: Vec::new(),
    };
    for scenario in &scenarios {
        let measured = bench.rounds(scenario, &contestants, arguments.rounds);
        let (name, title) = (&measured.name, &measured.title);
        result(format_args!(
            "\n{name}: {title}\n\n{}",
            table::of(&measured)
        ));
        let goal = goals.get(&measured.name);
        for verdict in goal
            .map(|goal| goal.verdicts(&measured))
            .unwrap_or_default()
        {
            result(format_args!("- {verdict}"));
        }
        record.scenarios.push(measured);
        // After each, so that hours are not lost to an interruption.
        arguments
            .record
            .iter()
            .try_for_each(|path| record.write(path))?;
    }
    ensure!(bench.failures == 0, "{} runs do not count", bench.failures);
    Ok(())
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

/// Those that are wanted and installed.
fn contestants(arguments: &Arguments, places: &Places) -> anyhow::Result<Vec<Contestant>> {
    let mut contestants = contestant::all(&arguments.only)?;
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
    let beside = || bench.with_file_name("windlass");
    let windlass = arguments.binary.clone().unwrap_or_else(beside);
    ensure!(
        windlass.is_file(),
        "{} is not there: cargo build --release -p windlass",
        windlass.display()
    );
    let installed = arguments.installed.clone();
    Ok(Places {
        installed: installed.unwrap_or_else(|| bench.with_file_name("../peers")),
        windlass,
        bench,
    })
}

/// Everything that is needed to measure.
struct Bench {
    site: Site,
    yard: Yard,
    stocks: Stocks,
    /// Runs that do not count.
    failures: usize,
}

impl Bench {
    /// Everyone in each round; who begins changes from round to round.
    fn rounds(
        &mut self,
        scenario: &Scenario,
        contestants: &[Contestant],
        rounds: usize,
    ) -> Measured {
        let parts = scenario.parts(contestants);
        let mut measured = Measured::new(scenario, &parts);
        for round in 0..rounds {
            for index in 0..parts.len() {
                let index = (index + round) % parts.len();
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
        }
        measured
    }

    fn measure(&mut self, part: &Part<'_>) -> anyhow::Result<Figures> {
        let ground = self.stocks.ground(&self.site, part, &mut self.yard)?;
        self.site.measure(part, &ground)
    }
}

fn shown(scenario: &Scenario, figures: &Figures) -> String {
    let shown = scenario.figures.iter().filter_map(|of| {
        let value = figure(*figures.get(of)?);
        Some(format!("{value} {}", of.name()))
    });
    shown.collect::<Vec<_>>().join(", ")
}
