//! Scale: a million unfinished sessions.
//!
//! Injected: a store with very many sessions, nearly all of them past their lifetime, some with
//! media in the ledger and some with files in the vault; `kill -9` while they are swept and clients
//! are served.
//! To be survived: the server is ready at once and stays small, requests do not wait for the sweep,
//! all that has died goes, and nothing that lives.

mod background_clients;
mod seeded_store;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;
use rustix::process::Signal;
use windlass_testkit::checker::{Rule, Violation};

use crate::outcome::{Outcome, progress};
use crate::scratch::Scratch;
use crate::server_under_test::{Server, ServerUnderTest};
use background_clients::{BackgroundClients, Waits};
use seeded_store::{Leftovers, SeededStore};

/// The limit on the server's memory, in bytes.
const MEMORY: u64 = 100 << 20;

/// The time limits for the server.
struct Limits {
    /// To be ready.
    ready: Duration,
    /// To answer a request.
    request: Duration,
}

/// On a machine that does nothing else.
const STRICT: Limits = Limits {
    ready: Duration::from_secs(2),
    request: Duration::from_millis(50),
};

/// For a busy machine, with a disk that may stand still for a second or two. A start that walks
/// over all sessions would exceed these limits, and so would a request that waits for the end of
/// the sweep.
const LENIENT: Limits = Limits {
    ready: Duration::from_secs(5),
    request: Duration::from_secs(5),
};

/// How long clients are served before each kill.
const BEFORE_A_KILL: Duration = Duration::from_millis(700);

/// How long clients are served when there is nothing to be swept any more.
const QUIET: Duration = Duration::from_secs(3);

/// How long the server may take to stop.
const STOPS_WITHIN: Duration = Duration::from_secs(20);

/// Lets many sessions of a server expire at once and measures the server meanwhile.
///
/// The store is filled through its own interface, without syncs. One session in ten has 512 bytes
/// in the ledger, one in a hundred has 64 KiB in the vault, and one in a hundred lives. The server
/// is started, killed three times while it sweeps and serves, and then sweeps to the end. Meanwhile
/// clients start, ask, append, finish, download, list and delete at a steady pace. Finally the
/// store is opened and searched for undeleted data, and for lost data.
///
/// Fails when the server takes more than 5 s to be ready (2 s with --strict), holds more than 100
/// MiB, or lets a request wait for more than 5 s (50 ms with --strict). A debug build is slower
/// than the build of operators: for figures, build with --release.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server_under_test: ServerUnderTest,
    /// Number of sessions.
    #[arg(long, default_value_t = 100_000)]
    sessions: u64,
    /// Number of clients that are served meanwhile, each with a few hundred requests a second at
    /// most.
    #[arg(long, default_value_t = 4)]
    clients: usize,
    /// Number of kills before the server may finish its sweep.
    #[arg(long, default_value_t = 3)]
    kills: u32,
    /// Fails when a start takes more than 2 s or a request more than 50 ms. Only for a machine that
    /// does nothing else.
    #[arg(long)]
    strict: bool,
    /// Seed of ids and media.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let scratch = Scratch::on_disk()?;
    let data = scratch.path().join("data");
    let begun = Instant::now();
    let seeded_store = SeededStore::fill(&data, arguments.sessions, arguments.seed)?;
    let size = size_of_ledger(&data);
    progress(format_args!(
        "{} sessions in {size} MiB, made in {:.0} s",
        arguments.sessions,
        begun.elapsed().as_secs_f64()
    ));
    let log = scratch.path().join("log");
    let ready = kill_and_start(arguments, &data, &log)?;
    progress(&ready);
    let expiry = expire(ready, arguments, &seeded_store)?;
    progress(&expiry);
    let leftovers = seeded_store.examine(&data)?;
    let grown = size_of_ledger(&data);
    let figures = format!(
        "{} sessions; {expiry}; ledger {size} to {grown} MiB",
        arguments.sessions
    );
    let limits = if arguments.strict { STRICT } else { LENIENT };
    let too_much = expiry.judge(&limits).map(|what| Violation {
        upload: "the server".to_owned(),
        rule: Rule::Misbehaves(what),
    });
    Ok(Outcome::Done {
        figures,
        violations: violations(&leftovers).into_iter().chain(too_much).collect(),
    })
}

/// A server that has been started again and again.
struct Ready {
    server: Server,
    /// The slowest start.
    slowest: Duration,
    /// The peak memory right after it.
    memory: u64,
    /// The longest write-ahead log that a kill left.
    wal: u64,
}

impl std::fmt::Display for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            slowest,
            memory,
            wal,
            ..
        } = self;
        write!(
            f,
            "ready within {} ms with {} MiB, after kills with {} MiB of WAL",
            slowest.as_millis(),
            memory >> 20,
            wal >> 20
        )
    }
}

fn kill_and_start(arguments: &Arguments, data: &Path, log: &Path) -> anyhow::Result<Ready> {
    let (mut slowest, mut memory, mut wal) = (Duration::ZERO, 0, 0);
    let mut kills = 0;
    loop {
        let begun = Instant::now();
        let mut server = arguments.server_under_test.start(data, log)?;
        slowest = slowest.max(begun.elapsed());
        memory = memory.max(server.memory()?.now);
        if kills == arguments.kills {
            return Ok(Ready {
                server,
                slowest,
                memory,
                wal,
            });
        }
        kills += 1;
        let background_clients =
            BackgroundClients::arrive(server.address(), arguments.clients, arguments.seed);
        std::thread::sleep(BEFORE_A_KILL);
        server.kill9();
        wal = wal.max(length(&data.join("ledger.sqlite-wal")));
        // The clients were cut off by the kill, so their results are ignored.
        background_clients.leave().ok();
    }
}

/// The measurements during the expiry.
struct Expiry {
    ready: String,
    slowest_start: Duration,
    took: Duration,
    peak: u64,
    busy: Waits,
    quiet: Waits,
}

impl std::fmt::Display for Expiry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}; expired in {:.1} s, at most {} MiB; meanwhile {}; afterwards {}",
            self.ready,
            self.took.as_secs_f64(),
            self.peak >> 20,
            self.busy,
            self.quiet
        )
    }
}

impl Expiry {
    /// Describes the first exceeded limit, if any.
    fn judge(&self, limits: &Limits) -> Option<String> {
        let (ready, request) = (limits.ready, limits.request);
        if self.slowest_start > ready {
            Some(format!("a start took more than {ready:?}: {self}"))
        } else if self.peak > MEMORY {
            Some(format!("it held more than {} MiB: {self}", MEMORY >> 20))
        } else if self.busy.slowest() > request {
            Some(format!("a request took more than {request:?}: {self}"))
        } else {
            None
        }
    }
}

/// Lets the server sweep to the end while clients are served.
fn expire(
    ready: Ready,
    arguments: &Arguments,
    seeded_store: &SeededStore,
) -> anyhow::Result<Expiry> {
    let told = ready.to_string();
    let Ready {
        mut server,
        slowest,
        ..
    } = ready;
    let begun = Instant::now();
    let background_clients =
        BackgroundClients::arrive(server.address(), arguments.clients, arguments.seed + 1);
    // On a machine that does nothing else ten thousand go in a second.
    let limit =
        Duration::from_secs(120) + Duration::from_millis(2) * u32::try_from(arguments.sessions)?;
    while seeded_store.last_to_go().exists() {
        ensure!(
            begun.elapsed() < limit,
            "after {limit:?} there are dead sessions left"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    let took = begun.elapsed();
    let busy = background_clients.leave()?;
    let background_clients =
        BackgroundClients::arrive(server.address(), arguments.clients, arguments.seed + 2);
    std::thread::sleep(QUIET);
    let quiet = background_clients.leave()?;
    let peak = server.memory()?.peak;
    server.signal(Signal::TERM);
    let status = server.wait(STOPS_WITHIN)?;
    ensure!(status.success(), "the server ends with {status}");
    Ok(Expiry {
        ready: told,
        slowest_start: slowest,
        took,
        peak,
        busy,
        quiet,
    })
}

fn violations(leftovers: &Leftovers) -> Vec<Violation> {
    let of = |upload: String, rule| Violation { upload, rule };
    let lost = (leftovers.lost > 0).then(|| {
        of(
            format!("{} living sessions", leftovers.lost),
            Rule::SessionLost,
        )
    });
    let left = (leftovers.left > 0).then(|| {
        let rule = Rule::Strange("they are still in the ledger after the sweep".to_owned());
        of(format!("{} dead sessions", leftovers.left), rule)
    });
    let undeleted = (leftovers.undeleted > 0).then(|| {
        let rule = Rule::Strange("it is there without a session".to_owned());
        of(
            format!("{} media of dead sessions", leftovers.undeleted),
            rule,
        )
    });
    [lost, left, undeleted].into_iter().flatten().collect()
}

/// In MiB.
fn size_of_ledger(data: &Path) -> u64 {
    length(&data.join("ledger.sqlite")) >> 20
}

fn length(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}
