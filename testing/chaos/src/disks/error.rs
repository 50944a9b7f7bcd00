//! EIO from the nth write or sync, by system call.
//!
//! Injected: strace lets the nth call of a kind fail in every thread, once or for ever. Afterwards
//! the file system loses the unsynced bytes, as Linux loses the pages of a failed sync. To be
//! survived: everything that was acknowledged. To be seen: nothing is acknowledged after the
//! failure, `/healthz` reports it, and the process ends by itself with code 1.

use std::path::Path;
use std::process::ExitStatus;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::ensure;
use windlass_testkit::checker::{FarmDialects, Load, Workload};
use windlass_testkit::rng::Rng;
use windlass_testkit::strace::{InjectionWatch, log_len, most_by_one_thread};

use super::latency_probe::{LatencyProbe, Sample};
use super::verdict::{GRACE, Verdict};
use super::volume::Volume;
use crate::disk::FileSystem;
use crate::outcome::{Outcome, progress};
use crate::server_under_test::{Server, ServerUnderTest};
use crate::tool::{need, traced};

/// Larger than the minimum of XFS.
const DISK: u64 = 512 << 20;

/// Calls with a failure after which nothing more may be acknowledged.
const GRAVE: [&str; 4] = ["pwritev", "pwrite64", "fdatasync", "fsync"];

/// Calls that may fail a request and no more.
const HARMLESS: [&str; 3] = ["ftruncate", "mkdir", "unlink"];

/// When the log has stood still for so long, the clients are done.
const QUIET: Duration = Duration::from_millis(700);

/// How long clients continue when a lasting failure keeps them from their end.
const MAX_TIME: Duration = Duration::from_secs(5);

/// How long a server may take to end by itself: the drain, and a little.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// Number of failures of which at least one must have stopped a server, or none were injected.
const UNSEEN_AT_MOST: u64 = 10;

/// Lets single writes and syncs fail, by strace.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    server_under_test: ServerUnderTest,
    /// The file system; with Btrfs nothing is lost that the server has written.
    #[arg(long, value_enum, default_value_t = FileSystem::Ext4)]
    file_system: FileSystem,
    /// Number of failures that are tried, spread over all calls.
    #[arg(long, default_value_t = 28, conflicts_with = "all")]
    sample: u64,
    /// Fail every single call, once and for good. Takes an hour.
    #[arg(long)]
    all: bool,
    /// Seed of the clients' requests and of the sample of calls.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A call that fails.
#[derive(Debug, Clone, Copy)]
struct Failure {
    call: &'static str,
    nth: u64,
    for_ever: bool,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            call,
            nth,
            for_ever,
        } = self;
        let how_long = if *for_ever { "on" } else { "once" };
        write!(f, "{call} {nth} {how_long}")
    }
}

impl Failure {
    /// Whether nothing may be acknowledged any more.
    fn is_grave(self) -> bool {
        GRAVE.contains(&self.call)
    }

    /// As strace takes it.
    fn injection(self) -> String {
        let Self {
            call,
            nth,
            for_ever,
        } = self;
        let on = if for_ever { "+" } else { "" };
        format!("{call}:error=EIO:when={nth}{on}")
    }
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    Volume::need(arguments.file_system)?;
    need(&["strace", "xfs_io"])?;
    let mut tally = Tally::default();
    let failures = choose(arguments, count_calls(arguments)?);
    for (index, failure) in failures.iter().enumerate() {
        try_one(arguments, *failure, &mut tally)?;
        if !tally.verdict.is_clean() {
            break;
        }
        if index % 50 == 49 {
            progress(format_args!("{} failures; {}", index + 1, tally.figures()));
        }
    }
    let figures = format!("{}: {}", arguments.file_system.name(), tally.figures());
    ensure!(
        tally.stopped * UNSEEN_AT_MOST >= tally.tried || !tally.verdict.is_clean(),
        "hardly any failure was injected: {figures}"
    );
    Ok(tally.verdict.outcome(figures))
}

/// How often each call is made by one thread, in a run without failures.
fn count_calls(arguments: &Arguments) -> anyhow::Result<Vec<(&'static str, u64)>> {
    let scratch = tempfile::tempdir()?;
    let volume = Volume::new(arguments.file_system, DISK, scratch.path())?;
    let trace = scratch.path().join("trace");
    let wrapper = traced(&[&GRAVE[..], &HARMLESS].concat(), None, &trace);
    let log = scratch.path().join("log");
    let mut server = arguments
        .server_under_test
        .start_under(&wrapper, &volume.data(), &log)?;
    let mut workload = workload(arguments.seed);
    workload.run_while(server.address(), || wait_until_quiet(&mut server, &trace));
    server.kill9();
    // The server outlives its tracer by a moment, and with it the mount.
    volume.mount_again(|_| Ok(()))?;
    let calls = GRAVE.into_iter().chain(HARMLESS);
    calls
        .map(|call| Ok((call, most_by_one_thread(&trace, call)?)))
        .collect()
}

/// All failures, or as many of them as the sample has, as many of each call.
fn choose(arguments: &Arguments, counts: Vec<(&'static str, u64)>) -> Vec<Failure> {
    let mut rng = Rng::new(arguments.seed);
    let kinds = counts.len() as u64;
    let mut failures = Vec::new();
    for (index, (call, count)) in counts.into_iter().enumerate() {
        let share = (arguments.sample + kinds - 1 - index as u64) / kinds;
        let drawn: Vec<_> = if arguments.all {
            (1..=count)
                .flat_map(|nth| [(nth, false), (nth, true)])
                .collect()
        } else {
            (0..share)
                .map(|turn| (rng.within(1..count.max(1) + 1), turn % 2 == 1))
                .collect()
        };
        failures.extend(drawn.into_iter().map(|(nth, for_ever)| Failure {
            call,
            nth,
            for_ever,
        }));
    }
    failures
}

/// A few uploads of every style.
fn workload(seed: u64) -> Workload {
    let load = Load {
        clients: 3,
        largest: 1 << 20,
        uploads: Some(5),
        ..Load::default()
    };
    Workload::new(FarmDialects, load, seed)
}

/// The results so far.
#[derive(Debug, Default)]
struct Tally {
    verdict: Verdict,
    tried: u64,
    /// The call was never made so often.
    unreached: u64,
    /// The server did not begin to listen.
    not_started: u64,
    stopped: u64,
    slowest_end: Duration,
    acknowledgements: u64,
    checks: u64,
}

impl Tally {
    fn figures(&self) -> String {
        format!(
            "{} failures ({} not reached, {} at the start, {} fail-stops, the slowest within {} ms); {} acknowledgements, {} checks",
            self.tried,
            self.unreached,
            self.not_started,
            self.stopped,
            self.slowest_end.as_millis(),
            self.acknowledgements,
            self.checks,
        )
    }
}

fn try_one(arguments: &Arguments, failure: Failure, tally: &mut Tally) -> anyhow::Result<()> {
    let scratch = tempfile::tempdir()?;
    let volume = Volume::new(arguments.file_system, DISK, scratch.path())?;
    let mut workload = workload(arguments.seed);
    tally.tried += 1;
    match run_into(arguments, failure, &volume, scratch.path(), &mut workload) {
        None => tally.not_started += 1,
        Some(seen) => tally.judge(failure, &seen, &workload),
    }
    let volume = volume.switch_off_and_on()?;
    let log = scratch.path().join("log");
    let mut server = arguments.server_under_test.start(&volume.data(), &log)?;
    workload.check(server.address());
    workload.finish(server.address());
    server.kill9();
    workload.extend_violations(arguments.server_under_test.verify(&volume.data())?);
    tally.verdict.take_in(&failure.to_string(), &workload);
    let figures = workload.figures();
    tally.acknowledgements += figures.acknowledgements;
    tally.checks += figures.checks;
    Ok(())
}

/// The results of a run.
struct Seen {
    failed: Option<Instant>,
    ended: Option<ExitStatus>,
    over: Instant,
    health: Vec<Sample>,
}

/// Uploads until the server ends or nothing is left to do. None when it does not even start.
fn run_into(
    arguments: &Arguments,
    failure: Failure,
    volume: &Volume,
    scratch: &Path,
    workload: &mut Workload,
) -> Option<Seen> {
    let trace = scratch.join("trace");
    let injection = failure.injection();
    let calls = [&GRAVE[..], &HARMLESS].concat();
    let wrapper = traced(&calls, Some(&injection), &trace);
    let log = scratch.join("log");
    let mut server = arguments
        .server_under_test
        .start_under(&wrapper, &volume.data(), &log)
        .ok()?;
    let injection_watch = InjectionWatch::begin(trace.clone());
    let health = LatencyProbe::of_health(server.address());
    let (failed, ended) = workload.run_while(server.address(), || {
        let ended = wait_until_quiet(&mut server, &trace);
        let failed = injection_watch.end();
        // It may have failed at the last moment.
        let must_end = ended.is_none() && failed.is_some() && failure.is_grave();
        let late = must_end.then(|| server.wait(ENDS_WITHIN).ok());
        (failed, ended.or(late.flatten()))
    });
    let seen = Seen {
        failed,
        ended,
        over: Instant::now(),
        health: health.stop(),
    };
    server.kill9();
    Some(seen)
}

impl Tally {
    fn judge(&mut self, failure: Failure, seen: &Seen, workload: &Workload) {
        let occasion = failure.to_string();
        if let Some(status) = seen.ended {
            let right = status.code() == Some(1);
            self.verdict
                .expect(right, &occasion, format!("it ended with {status}"));
        }
        let Some(failed) = seen.failed else {
            self.unreached += 1;
            return;
        };
        if seen.ended.is_none() {
            return self.verdict.expect(
                !failure.is_grave(),
                &occasion,
                "it went on as if nothing had happened",
            );
        }
        self.stopped += 1;
        self.slowest_end = self.slowest_end.max(seen.over.duration_since(failed));
        let from = failed + GRACE;
        self.verdict
            .expect_silence(&occasion, workload, from..seen.over);
        self.verdict.expect_ill(&occasion, &seen.health, from);
    }
}

/// Waits until the server ends, or has not written for a while.
fn wait_until_quiet(server: &mut Server, trace: &Path) -> Option<ExitStatus> {
    let mut last = (log_len(trace), Instant::now());
    let start = Instant::now();
    let is_busy = |last: Instant| last.elapsed() < QUIET && start.elapsed() < MAX_TIME;
    while is_busy(last.1) || (start.elapsed() < ENDS_WITHIN && is_failed(server)) {
        if let Ok(status) = server.wait(Duration::from_millis(20)) {
            return Some(status);
        }
        let now = log_len(trace);
        if now != last.0 {
            last = (now, Instant::now());
        }
        sleep(Duration::from_millis(5));
    }
    None
}

/// Whether it has stopped listening, which it does before it ends.
fn is_failed(server: &Server) -> bool {
    std::net::TcpStream::connect_timeout(&server.address(), GRACE).is_err()
}
