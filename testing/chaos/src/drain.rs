//! Drain: the server is asked to stop while clients upload.
//!
//! Injected: SIGTERM, 1 to 200 ms after clients begin; clients that keep trying; a request with a
//! body that stands still; clients that come too late. To be survived: the process ends by itself
//! within `limits.drain`, with exit code 0. Late clients are refused. The arrived bytes of the
//! request that stood still are committed, and everything that was acknowledged is there at the
//! next start.

mod late_clients;
mod stalled_client;

use std::fmt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::ensure;
use rustix::process::Signal;
use windlass_testkit::checker::{FarmDialects, Load, Rule, Violation, Workload};
use windlass_testkit::rng::Rng;

use crate::outcome::{Outcome, progress};
use crate::scratch::Scratch;
use crate::server_under_test::{Server, ServerUnderTest};
use late_clients::LateClients;
use stalled_client::StalledClient;

/// The value of `limits.drain`.
const DRAIN: Duration = Duration::from_secs(2);

/// The time that the process may take in addition, to close its database on a busy machine.
const CLOSES_WITHIN: Duration = Duration::from_secs(3);

/// One round in this number has a stalled request. The remaining rounds show how quick a drain is
/// without one.
const STRAGGLES_EVERY: u64 = 4;

/// Asks the server to stop again and again while clients upload.
///
/// In every fourth round one request stands still, so that the server has to cut it off. The server
/// runs with `limits.drain` of 2 s.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server_under_test: ServerUnderTest,
    /// Number of times the server is asked to stop.
    #[arg(long, default_value_t = 24)]
    rounds: u64,
    /// Number of clients that upload at the same time.
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// Seed of the clients' requests and of the times of the signals.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let scratch = Scratch::on_disk()?;
    let (data, log) = (scratch.path().join("data"), scratch.path().join("log"));
    let server_under_test = with_short_drain(&arguments.server_under_test, scratch.path())?;
    let load = Load {
        clients: arguments.clients,
        ..Load::default()
    };
    let mut workload = Workload::new(FarmDialects, load, arguments.seed);
    let mut rng = Rng::new(arguments.seed);
    let (mut drains, mut violations) = (Drains::default(), Vec::new());
    let mut server = server_under_test.start(&data, &log)?;
    for round in 1..=arguments.rounds {
        let address = server.address();
        let must_cut = round.is_multiple_of(STRAGGLES_EVERY);
        let slow = must_cut.then(|| StalledClient::begin(address, rng.next_u64()));
        let slow = slow.transpose()?;
        let delay = Duration::from_micros(rng.within(1_000..200_000));
        let drained = workload.run_while(address, || {
            sleep(delay);
            drain(&mut server)
        })?;
        server = server_under_test.start(&data, &log)?;
        workload.check(server.address());
        drains.note(&drained, must_cut);
        violations.extend(drained.violation(round));
        if let Some(slow) = slow {
            let rule = slow.end(server.address())?;
            let upload = format!("the request that stood still in round {round}");
            violations.extend(rule.map(|rule| Violation { upload, rule }));
        }
        if round % 100 == 0 {
            progress(format_args!("{drains}; {}", workload.figures()));
        }
        if !workload.violations().is_empty() || !violations.is_empty() {
            break;
        }
    }
    workload.finish(server.address());
    drop(server);
    workload.extend_violations(server_under_test.verify(&data)?);
    violations.extend_from_slice(workload.violations());
    Ok(Outcome::Done {
        figures: format!("{drains}; {}", workload.figures()),
        violations,
    })
}

/// The server drains quickly, and nothing but the drain commits a request that stands still.
fn with_short_drain(
    server_under_test: &ServerUnderTest,
    scratch: &Path,
) -> anyhow::Result<ServerUnderTest> {
    let config = scratch.join("windlass.toml");
    let drain = DRAIN.as_secs();
    let settings = format!("[limits]\ndrain = \"{drain}s\"\n[checkpoints]\ninterval = \"10m\"\n");
    std::fs::write(&config, settings)?;
    let mut server_under_test = server_under_test.clone();
    let argument = format!("--config={}", config.display());
    server_under_test.arguments.push(argument);
    Ok(server_under_test)
}

/// One drain.
struct Drained {
    took: Duration,
    late_clients: LateClients,
}

/// Asks the server to stop, connects late clients meanwhile, and waits until the server has ended.
fn drain(server: &mut Server) -> anyhow::Result<Drained> {
    let address = server.address();
    let limit = DRAIN + CLOSES_WITHIN;
    let begun = Instant::now();
    server.signal(Signal::TERM);
    let (status, late_clients) = LateClients::knock_while(address, || server.wait(limit));
    let (took, status) = (begun.elapsed(), status?);
    ensure!(
        status.success(),
        "a server that was asked to stop ends with {status}"
    );
    Ok(Drained { took, late_clients })
}

impl Drained {
    /// After a refusal no further client may be served.
    fn violation(&self, round: u64) -> Option<Violation> {
        self.late_clients.served_too_late.then(|| Violation {
            upload: format!("a client that came too late in round {round}"),
            rule: Rule::Strange("it was served after others had been refused".to_owned()),
        })
    }
}

/// All drains so far.
#[derive(Debug, Default)]
struct Drains {
    count: u64,
    cut: u64,
    slowest: Duration,
    slowest_with_a_cut: Duration,
    refused: u64,
}

impl Drains {
    fn note(&mut self, drained: &Drained, must_cut: bool) {
        self.count += 1;
        self.refused += drained.late_clients.refused;
        if must_cut {
            self.cut += 1;
            self.slowest_with_a_cut = self.slowest_with_a_cut.max(drained.took);
        } else {
            self.slowest = self.slowest.max(drained.took);
        }
    }
}

impl fmt::Display for Drains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} drains, the slowest {} ms, {} ms among the {} that had to cut a request; {} clients came too late and were refused",
            self.count,
            self.slowest.as_millis(),
            self.slowest_with_a_cut.as_millis(),
            self.cut,
            self.refused
        )
    }
}
