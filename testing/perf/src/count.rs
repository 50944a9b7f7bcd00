//! `windlass-perf count`: counts the cost of an upload in two builds of the server. It counts
//! system calls, syncs, bytes copied between server and kernel, and allocations. It is a tool, not
//! a test. The counts depend on the machine, so only counts of one run on one machine can be
//! compared.
//!
//! Each [`scenario`] runs twice, with few uploads and with more; the difference, divided by the
//! number of additional uploads, is the count. So start-up, shutdown and one-time work cancel out.
//! System calls of the real binary are counted by strace ([`calls`], [`tracer`]), allocations by a
//! preloaded library (`allocations.c`). counts.md lists the counts.

mod calls;
mod counts;
mod scenario;
mod tracer;

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::output;
use counts::{Counts, Table};
use scenario::Scenario;
use tracer::Tracer;

/// Counts system calls and allocations per upload in two builds of the server and prints the
/// difference.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The binary `windlass` of the first build.
    #[arg(value_name = "FILE")]
    before: PathBuf,
    /// The binary `windlass` of the second build.
    #[arg(value_name = "FILE")]
    now: PathBuf,
    /// `allocations.c`, compiled to a shared library. Without it allocations are not counted.
    #[arg(long, value_name = "FILE")]
    counter: Option<PathBuf>,
    /// Only this scenario, e.g. `simple-4k`; may be given more than once.
    #[arg(long = "scenario", value_name = "NAME")]
    scenarios: Vec<String>,
    /// How often each build is measured, in turn. The table shows medians.
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    rounds: usize,
}

/// Measures both builds and prints the table.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    output::result(measure(arguments)?);
    Ok(())
}

fn measure(arguments: &Arguments) -> anyhow::Result<Table> {
    let mut table = Table::default();
    for scenario in scenario::named(&arguments.scenarios)? {
        let (mut before, mut now) = (Vec::new(), Vec::new());
        for _ in 0..arguments.rounds {
            before.push(count(&arguments.before, scenario, arguments)?);
            now.push(count(&arguments.now, scenario, arguments)?);
        }
        table.add(scenario.name, &before, &now);
    }
    Ok(table)
}

fn count(binary: &Path, scenario: Scenario, arguments: &Arguments) -> anyhow::Result<Counts> {
    let binary = absolute(binary)?;
    let counter = arguments.counter.as_deref().map(absolute).transpose()?;
    // In the directory of this program, which is on a disk.
    let own = std::env::current_exe()?;
    let scratch = tempfile::tempdir_in(own.parent().unwrap_or(&own))?;
    let tracer = Tracer {
        binary: &binary,
        counter: counter.as_deref(),
        scratch: scratch.path(),
    };
    let less = tracer.life(scenario, scenario.first)?;
    let more = tracer.life(scenario, scenario.first + scenario.more)?;
    Ok(Counts::each(&less, &more, scenario.counted()))
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    path.canonicalize()
        .with_context(|| path.display().to_string())
}
