//! One measurement: a contestant under a task, on a server of its own.

mod fixtures;
mod query;
mod slow;
mod start;
mod warm_up;

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;

use crate::contestant::Places;
use crate::figure::Figure;
use crate::load::{self, Block, Load, LoadTarget, Operation};
use crate::scenario::{Part, Task};
use crate::server::Server;

pub(crate) use fixtures::Fixtures;

/// What was read off.
pub(crate) type Figures = BTreeMap<Figure, f64>;

/// How long a server is left alone before its memory is looked at: what it does after its start is over then.
const REST: Duration = Duration::from_secs(1);

/// What all measurements share.
#[derive(Debug)]
pub(crate) struct Site {
    /// Binaries.
    pub(crate) places: Places,
    /// What is uploaded.
    pub(crate) block: Block,
    /// How many small uploads a server gets before it is measured.
    pub(crate) warm_up: u64,
}

impl Site {
    /// Measures a contestant, whose server works in `data`.
    ///
    /// # Errors
    /// When it does not do what it should. The measurement does not count then.
    pub(crate) fn measure(&self, part: &Part<'_>, data: &Path) -> anyhow::Result<Figures> {
        match &part.task {
            Task::Upload(load) => self.uploads(part, load, data),
            Task::Slow(slow) => slow::measure(self, part, slow, data),
            Task::Start => start::measure(self, part, data),
            Task::Query(concurrent) => query::measure(self, part, concurrent, data),
        }
    }

    /// Starts the server of a contestant. Its log and its pid lie beside its data.
    fn start(&self, part: &Part<'_>, data: &Path) -> anyhow::Result<Server> {
        let launch = part.contestant.launch(&self.places, data)?;
        let data_dirs = data
            .parent()
            .context("data is in a directory of data directories")?;
        Server::start(launch, &data.with_extension("log"), data_dirs)
    }

    /// Starts the server of a contestant, and lets it run for a while before anything is measured.
    fn start_warm(&self, part: &Part<'_>, data: &Path) -> anyhow::Result<Server> {
        let server = self.start(part, data)?;
        warm_up::carry_out(self, part, &server, data).context("warming up")?;
        Ok(server)
    }

    fn load_target<'a>(&'a self, part: &Part<'a>, server: &Server) -> LoadTarget<'a> {
        LoadTarget {
            address: server.address(),
            targets: part.contestant.targets(),
            shape: part.shape,
            block: &self.block,
        }
    }

    fn uploads(&self, part: &Part<'_>, load: &Load, data: &Path) -> anyhow::Result<Figures> {
        let server = self.start_warm(part, data)?;
        let load_target = self.load_target(part, &server);
        let before = server.usage();
        let tally = load::carry_out(load_target, load, Operation::Upload)?;
        let after = server.usage();
        load::compare(load_target, load, &tally).context("read back")?;
        let cpu = after.cpu.saturating_sub(before.cpu).as_secs_f64();
        let read_off = |figure: &Figure| Some((*figure, figure.of(&tally, cpu, after.peak)?));
        Ok(part.figures.iter().filter_map(read_off).collect())
    }
}

/// The memory of a server that has nothing to do.
fn at_rest(server: &Server) -> u64 {
    thread::sleep(REST);
    server.usage().resident
}
