//! Tier T2: the process is killed.
//!
//! Injected: `kill -9` at a random moment, 1 to 60 ms after clients begin; or, with `--failpoints`,
//! at every named moment of the binary. Memory is lost, the page cache is not. To be survived:
//! everything that was acknowledged. The server starts again each time, and every upload is
//! completed.

mod failpoints;

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use windlass_testkit::checker::{FarmDialects, Load, Workload};
use windlass_testkit::rng::Rng;

use crate::batches::{Batch, run_in_batches};
use crate::outcome::Outcome;
use crate::scratch::Scratch;
use crate::server_under_test::{Server, ServerUnderTest};

/// Kills the server again and again while clients upload, at random or at named moments.
///
/// The named moments, failpoints, are in the binary only when it is built with them:
/// `cargo build -p windlass --features failpoints`. Without them `--failpoints` is skipped. At each
/// failpoint a server dies and is started again. A failpoint that no run reaches is a failure of
/// the tier. By default 100 kills at random moments. A long run is `--rounds 2000`, or
/// `--failpoints --nth 1,2,7,30`. A failpoint that is reached less often is ignored.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server_under_test: ServerUnderTest,
    /// Number of kills at random moments.
    #[arg(long, default_value_t = 100, conflicts_with = "failpoints")]
    rounds: u64,
    /// Kills it at every failpoint instead.
    #[arg(long)]
    failpoints: bool,
    /// Which time at a failpoint is the last; a list, in rising order.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1",
        requires = "failpoints"
    )]
    nth: Vec<u64>,
    /// One failpoint, not all: a name that `windlass failpoints` prints.
    #[arg(long, value_name = "NAME", requires = "failpoints")]
    point: Option<String>,
    /// Number of clients that upload at the same time.
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// Seed of the clients' requests and of the times of the kills.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    if arguments.failpoints {
        let scratch = Scratch::on_disk()?;
        let workload = workload(arguments, arguments.seed);
        let (data, log) = places(scratch.path());
        return failpoints::run(arguments, workload, &data, &log);
    }
    let (rounds, seed) = (arguments.rounds, arguments.seed);
    run_in_batches("kills", rounds, seed, |batch| at_random(arguments, batch))
}

fn workload(arguments: &Arguments, seed: u64) -> Workload {
    let load = Load {
        clients: arguments.clients,
        ..Load::default()
    };
    Workload::new(FarmDialects, load, seed)
}

/// Where the server keeps its data, and where its log is.
fn places(scratch: &Path) -> (PathBuf, PathBuf) {
    (scratch.join("data"), scratch.join("log"))
}

fn at_random(arguments: &Arguments, batch: &mut Batch) -> anyhow::Result<Workload> {
    let scratch = Scratch::on_disk()?;
    let (data, log) = places(scratch.path());
    let (mut workload, mut rng) = (workload(arguments, batch.seed), Rng::new(batch.seed));
    let mut server = arguments.server_under_test.start(&data, &log)?;
    while batch.goes_on(&workload) {
        kill_soon(&mut workload, &mut server, &mut rng);
        batch.struck(&workload);
        server = arguments.server_under_test.start(&data, &log)?;
        workload.check(server.address());
        if !batch.looked(&workload) {
            return Ok(workload);
        }
    }
    workload.finish(server.address());
    drop(server);
    workload.extend_violations(arguments.server_under_test.verify(&data)?);
    Ok(workload)
}

/// Kills the server a moment after clients begin.
fn kill_soon(workload: &mut Workload, server: &mut Server, rng: &mut Rng) {
    let delay = Duration::from_micros(rng.within(1_000..60_000));
    workload.run_while(server.address(), || {
        sleep(delay);
        server.kill9();
    });
}
