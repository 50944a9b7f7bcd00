//! Tier T6: the network breaks, and time stands still.
//!
//! Injected, one after another, between clients and a server with limits of seconds:
//! - lines that are cut or reset after any byte of a request, that lose replies or cut them, that
//!   stop in the middle, that are slow;
//! - clients that stop reading in the middle of a download, with a window that stays closed, and
//!   clients that stop sending in the middle of an upload;
//! - a link that goes down under running uploads, so that neither FIN nor RST ever comes (needs
//!   root; skipped without);
//! - SIGSTOP and SIGCONT, with clients that wait and with clients that go away and come again;
//! - a server that ends, by SIGTERM or `kill -9`, and comes back at another address while its
//!   clients are on slow lines.
//!
//! To be survived: everything that was acknowledged. Sessions continue, even sessions that are
//! still held by a connection without an end. Afterwards the server has as many descriptors as
//! before and no more memory than its bounds allow.

mod namespace;
mod process_stats;

use std::path::{Path, PathBuf};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::ensure;
use rustix::process::Signal;
use windlass_testkit::checker::{FarmDialects, Load, Rule, Violation, Workload};
use windlass_testkit::farm;
use windlass_testkit::fault_proxy::{Fault, FaultProxy, Plan};
use windlass_testkit::media::Media;
use windlass_testkit::raw::RawPeer;
use windlass_testkit::rng::Rng;

use crate::outcome::{Lacking, Outcome, progress};
use crate::scratch::Scratch;
use crate::server_under_test::{Server, ServerUnderTest};
use namespace::Namespace;
use process_stats::ProcessStats;

/// Limits of seconds in place of the minutes of a release.
const LIMITS: [&str; 5] = [
    "WINDLASS_LIMITS_HEAD_TIMEOUT=5s",
    "WINDLASS_LIMITS_BODY_TIMEOUT=15s",
    "WINDLASS_LIMITS_LINGER=1s",
    "WINDLASS_LIMITS_DRAIN=2s",
    "WINDLASS_CHECKPOINTS_INTERVAL=100ms",
];

/// When every connection that has no other end must be over: the longest of those limits, and
/// patience.
const OVER_WITHIN: Duration = Duration::from_secs(40);

/// Time limit for continuing uploads with sessions that are held by endless connections. It is
/// shorter than any of these connections lasts.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(10);

/// How long clients wait for a reply that does not come.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long each kind of bad line is uploaded over.
const SPELL: Duration = Duration::from_secs(4);

/// How many clients stop reading.
const DEAF: usize = 16;

/// The number of clients that stop sending, and the bytes that each of them has begun to send.
const SILENT: usize = 16;
const BEGUN: u64 = 1 << 20;

/// More than sockets hold on both sides of a connection.
const LONG: u64 = 24 << 20;

/// Breaks the network between clients and the server, and stops the server for a while.
///
/// By default about 70 seconds, with pauses of 3 seconds. `--long` stops the server for a minute
/// each time and stays longer on each bad line. The link that goes down is a pair of virtual
/// interfaces in a separate network namespace, which needs root and `ip`. Without them this part is
/// ignored and the figures say so (with --no-skip it is a failure).
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server_under_test: ServerUnderTest,
    /// Stops the server for a minute, and stays ten times as long on bad lines.
    #[arg(long)]
    long: bool,
    /// Number of clients that upload at the same time.
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// Seed of the clients' requests and of the broken connections.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(arguments: &Arguments, no_skip: bool) -> anyhow::Result<Outcome> {
    let scratch = Scratch::on_disk()?;
    let namespace = match Namespace::new() {
        Err(error) if error.is::<Lacking>() && !no_skip => None,
        made => Some(made?),
    };
    let mut harness = Harness::new(arguments, namespace.as_ref(), scratch.path())?;
    let before = harness.process_stats()?;
    harness.bad_lines()?;
    let (deaf, silent) = (harness.deaf_clients()?, harness.silent_clients()?);
    if let Some(namespace) = &namespace {
        harness.link_down(namespace)?;
    }
    for patience in [harness.pause() * 10, Duration::from_millis(500)] {
        harness.stop_and_go(patience);
    }
    let after = match before.come_back(&harness.server, OVER_WITHIN) {
        Ok(after) => after,
        Err(error) => {
            harness.blame(format!("{error:#}"));
            ProcessStats::of(&harness.server)?
        }
    };
    drop((deaf, silent));
    for (signal, name) in [(Signal::TERM, "SIGTERM"), (Signal::KILL, "SIGKILL")] {
        harness.move_house(signal)?;
        harness.look(&format!("moved after {name}"));
    }
    harness.workload.finish(harness.server.address());
    drop(harness.server);
    let data = scratch.path().join("data");
    harness
        .workload
        .extend_violations(arguments.server_under_test.verify(&data)?);
    let link = namespace.map_or("no link (needs root)", |_| "1 link down");
    let faults = format!(
        "{} bad lines, {DEAF} deaf and {SILENT} silent clients, {link}, 2 pauses, 2 moves; before: {before}, after: {after}",
        harness.faults
    );
    Ok(Outcome::of_workload(faults, &harness.workload))
}

struct Harness<'a> {
    arguments: &'a Arguments,
    server_under_test: ServerUnderTest,
    data: PathBuf,
    log: PathBuf,
    server: Server,
    workload: Workload,
    /// Requests that a bad line has hit.
    faults: usize,
}

impl<'a> Harness<'a> {
    fn new(
        arguments: &'a Arguments,
        namespace: Option<&Namespace>,
        scratch: &Path,
    ) -> anyhow::Result<Self> {
        let mut server_under_test = arguments.server_under_test.clone();
        server_under_test.listen = namespace.map_or(server_under_test.listen, Namespace::outside);
        let (data, log) = (scratch.join("data"), scratch.join("log"));
        let load = Load {
            clients: arguments.clients,
            ..Load::default()
        };
        Ok(Self {
            server: start(&server_under_test, &data, &log)?,
            arguments,
            server_under_test,
            data,
            log,
            workload: Workload::new(FarmDialects, load, arguments.seed),
            faults: 0,
        })
    }

    fn spell(&self) -> Duration {
        SPELL * if self.arguments.long { 10 } else { 1 }
    }

    fn pause(&self) -> Duration {
        Duration::from_secs(if self.arguments.long { 60 } else { 3 })
    }

    /// Returns the server's descriptors and memory after a warm-up.
    fn process_stats(&mut self) -> anyhow::Result<ProcessStats> {
        let address = self.server.address();
        self.workload.run_while(address, || sleep(SPELL / 4));
        self.look("warm");
        ProcessStats::settled(&self.server)
    }

    /// Every upload must be as it was acknowledged, asked without a proxy between.
    fn look(&mut self, what: &str) {
        self.workload.note_fault(what);
        self.workload.check(self.server.address());
        progress(format_args!("{what}; {}", self.workload.figures()));
    }

    /// Records a violation by the server.
    fn blame(&mut self, what: String) {
        self.workload.extend_violations([Violation {
            upload: "the server".to_owned(),
            rule: Rule::Misbehaves(what),
        }]);
    }

    fn bad_lines(&mut self) -> anyhow::Result<()> {
        let proxy = FaultProxy::start(self.server.address());
        proxy.set_plan(bad_lines(self.arguments.seed));
        self.workload.set_patience(PATIENCE);
        let spell = self.spell();
        self.workload.run_while(proxy.address(), || sleep(spell));
        let exchanges = proxy.exchanges().into_iter();
        self.faults += exchanges
            .filter(|exchange| exchange.fault.is_some())
            .count();
        ensure!(self.faults > 0, "no request was hit by a bad line");
        self.look("bad lines");
        Ok(())
    }

    /// They ask for long media, read nothing of it, and stay.
    fn deaf_clients(&mut self) -> anyhow::Result<Vec<RawPeer>> {
        let address = self.server.address();
        let media = Media::new(self.arguments.seed, LONG);
        let id = farm::id(&farm::upload(address, media));
        let mut deaf = Vec::new();
        for _ in 0..DEAF {
            let mut peer = RawPeer::try_connect(address)?;
            peer.try_send(farm::download(&id).to_bytes())?;
            deaf.push(peer);
        }
        self.workload.run_while(address, || sleep(SPELL));
        self.look("deaf clients");
        Ok(deaf)
    }

    /// They send half of an upload, and stay.
    fn silent_clients(&self) -> anyhow::Result<Vec<RawPeer>> {
        let media = Media::new(self.arguments.seed, BEGUN);
        let request = farm::simple(media).to_bytes();
        let half = &request[..request.len() / 2];
        let begin = |_| {
            let mut peer = RawPeer::try_connect(self.server.address())?;
            peer.try_send(half)?;
            Ok(peer)
        };
        (0..SILENT).map(begin).collect()
    }

    /// The clients' machine vanishes. Other clients take over its uploads, which the server still
    /// holds open for it.
    fn link_down(&mut self, namespace: &Namespace) -> anyhow::Result<()> {
        let (address, patience) = (self.server.address(), PATIENCE / 4);
        let workload = &mut self.workload;
        workload.set_patience(patience);
        let cut = thread::scope(|scope| {
            let vanishing = scope.spawn(move || {
                namespace.enter()?;
                workload.run_while(address, || {
                    sleep(SPELL / 4);
                    // The clients of a busy machine may all be between two connections.
                    let until = Instant::now() + PATIENCE;
                    while namespace.held_open()? == 0 && Instant::now() < until {
                        sleep(Duration::from_millis(5));
                    }
                    namespace.cut()?;
                    anyhow::Ok(Instant::now())
                })
            });
            vanishing.join().expect("clients do not panic")
        })?;
        let held = namespace.held_open()?;
        ensure!(held > 0, "the link went down and left no connection open");
        self.workload.set_patience(PATIENCE * 5);
        self.workload.bring_to_end(address);
        let took = cut.elapsed();
        self.look(&format!("link down, {held} connections held open"));
        if took >= TAKEN_OVER_WITHIN {
            self.blame(format!(
                "uploads whose clients had vanished went on after {took:?} only"
            ));
        }
        Ok(())
    }

    /// Stops the server for a while, and continues it.
    fn stop_and_go(&mut self, patience: Duration) {
        self.workload.set_patience(patience);
        let (server, pause) = (&self.server, self.pause());
        self.workload.run_while(server.address(), || {
            sleep(SPELL / 4);
            server.signal(Signal::STOP);
            sleep(pause);
            server.signal(Signal::CONT);
            sleep(SPELL / 4);
        });
        self.workload.set_patience(self.pause() * 10);
        self.look(&format!(
            "{pause:?} of SIGSTOP under patience of {patience:?}"
        ));
    }

    /// The server ends under clients on slow lines, and comes back elsewhere.
    fn move_house(&mut self, signal: Signal) -> anyhow::Result<()> {
        let proxy = FaultProxy::start(self.server.address());
        proxy.set_plan(Plan::always(Fault::Throttle {
            bytes_per_second: 256 << 10,
        }));
        let (workload, server, server_under_test) = (
            &mut self.workload,
            &mut self.server,
            &self.server_under_test,
        );
        let (data, log) = (&self.data, &self.log);
        workload.set_patience(PATIENCE * 5);
        workload.run_while(proxy.address(), || {
            sleep(SPELL / 2);
            server.signal(signal);
            server.wait(OVER_WITHIN)?;
            sleep(PATIENCE / 4);
            *server = start(server_under_test, data, log)?;
            proxy.set_upstream(server.address());
            sleep(SPELL / 2);
            anyhow::Ok(())
        })?;
        Ok(())
    }
}

fn start(server_under_test: &ServerUnderTest, data: &Path, log: &Path) -> anyhow::Result<Server> {
    let words = ["env"].iter().chain(&LIMITS);
    let wrapper: Vec<_> = words.map(|word| (*word).to_owned()).collect();
    server_under_test.start_under(&wrapper, data, log)
}

/// Every second request is hit, anywhere.
fn bad_lines(seed: u64) -> Plan {
    let mut rng = Rng::new(seed);
    Plan::new(move |request| {
        let length = request.content_length.unwrap_or_default() + 1;
        rng.once_in(2).then(|| fault(&mut rng, length))
    })
}

fn fault(rng: &mut Rng, length: u64) -> Fault {
    const MAX_HEAD_LEN: u64 = 500;
    let after = rng.within(0..length);
    match rng.within(0..7) {
        0 => Fault::CutRequest { after },
        1 => Fault::ResetRequest { after },
        2 => Fault::Stall { after },
        3 => Fault::LoseReply,
        4 => Fault::CutReply {
            after: rng.within(1..MAX_HEAD_LEN),
        },
        5 => Fault::Delay {
            by: Duration::from_millis(rng.within(1..50)),
        },
        _ => Fault::Throttle {
            bytes_per_second: rng.within(64 << 10..4 << 20),
        },
    }
}
