//! `windlass-bench run`: contestants in turn, round after round.
//!
//! Absolute figures of a machine that others use too swing by a factor of two within an hour, so contestants take turns inside each
//! round, each on a fresh server, and what counts are ratios inside a round.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use crate::amount::{GIB, figure, mib};
use crate::contestant::{self, Contestant, Places};
use crate::load::{self, Aim, Block, Shape};
use crate::machine::Machine;
use crate::record::{Measured, Measurement, Record};
use crate::report::table;
use crate::scenario::{self, Scenario};
use crate::server::Server;
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
    let mut yard = Yard::new(&arguments.data, arguments.room * GIB)?;
    if cfg!(debug_assertions) {
        progress("not an optimised build: the figures mean nothing");
    }
    let machine = Machine::look(yard.path())?;
    result(&machine);
    if arguments.quick {
        let part = scenario::QUICK_PART;
        result(format_args!("quick: 1/{part} of every size and count"));
    }
    let mut bench = Bench {
        places,
        block: Block::random()?,
        yard: &mut yard,
        failures: 0,
    };
    let mut record = Record {
        machine,
        quick: arguments.quick,
        scenarios: Vec::new(),
    };
    for scenario in &scenarios {
        let measured = bench.rounds(scenario, &contestants, arguments.rounds)?;
        let (name, title) = (&measured.name, &measured.title);
        result(format_args!(
            "\n{name}: {title}\n\n{}",
            table::of(&measured)
        ));
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

/// What all runs share.
struct Bench<'a> {
    places: Places,
    block: Block,
    yard: &'a mut Yard,
    /// Runs that do not count.
    failures: usize,
}

impl Bench<'_> {
    /// Every contestant in each round; who begins changes from round to round.
    fn rounds(
        &mut self,
        scenario: &Scenario,
        contestants: &[Contestant],
        rounds: usize,
    ) -> anyhow::Result<Measured> {
        let taking_part = contestants
            .iter()
            .filter_map(|one| Some((one, one.shape(scenario.name)?)));
        let taking_part: Vec<_> = taking_part.collect();
        let mut measured = Measured::new(scenario, taking_part.iter().map(|(one, _)| *one));
        for round in 0..rounds {
            for index in 0..taking_part.len() {
                let index = (index + round) % taking_part.len();
                let (one, shape) = taking_part[index];
                let plot = self.yard.plot(scenario.footprint())?;
                match self.measure(scenario, one, shape, &plot) {
                    Ok(measurement) => {
                        tell(scenario, round, one, &measurement);
                        measured.entries[index].rounds.insert(round, measurement);
                    }
                    Err(error) => {
                        self.failures += 1;
                        progress(format_args!(
                            "{} round {}: {}: does not count: {error:#}",
                            scenario.name,
                            round + 1,
                            one.name
                        ));
                    }
                }
            }
        }
        Ok(measured)
    }

    /// One contestant, on a fresh server.
    fn measure(
        &self,
        scenario: &Scenario,
        one: &Contestant,
        shape: Shape,
        data: &Path,
    ) -> anyhow::Result<Measurement> {
        let launch = one.launch(&self.places, data)?;
        let server = Server::start(launch, &data.with_extension("log"), self.yard.path())?;
        let aim = Aim {
            address: server.address(),
            targets: one.targets(),
            shape,
            block: &self.block,
        };
        let before = server.usage();
        let tally = load::carry_out(aim, &scenario.load)?;
        let after = server.usage();
        let is_compared = load::compare(aim, &scenario.load, &tally).context("read back")?;
        let work = scenario.unit.work(&tally);
        Ok(Measurement {
            rate: scenario.unit.of(&tally),
            cpu: after.cpu.saturating_sub(before.cpu).as_secs_f64() / work,
            peak: after.peak,
            quantiles: [50, 99, 100].map(|percent| tally.quantile(percent).as_secs_f64()),
            is_compared,
        })
    }
}

fn tell(scenario: &Scenario, round: usize, one: &Contestant, measurement: &Measurement) {
    progress(format_args!(
        "{} round {}: {}: {} {}, {} MiB at most{}",
        scenario.name,
        round + 1,
        one.name,
        figure(measurement.rate),
        scenario.unit.name(),
        figure(mib(measurement.peak)),
        if measurement.is_compared {
            ", read back"
        } else {
            ""
        }
    ));
}
