//! Kills at every named moment of the binary.
//!
//! Each death follows a life that ends at a random moment, or at a moment that makes this death
//! possible. The tested server therefore begins with the leftovers of a crash: a WAL, tails, files
//! without a row, sessions that are finishing. The files in the vault are made two days old, since
//! the sweep leaves younger files alone.

use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, SystemTime};

use anyhow::ensure;
use windlass_testkit::checker::Workload;
use windlass_testkit::rng::Rng;

use super::{Arguments, kill_soon};
use crate::outcome::{Lacking, Outcome, progress};
use crate::server_under_test::{Server, Unstarted};

/// A release makes a checkpoint after a second or 16 MiB. These settings make checkpoints frequent,
/// so that a kill can hit one.
const FREQUENT_CHECKPOINTS: [&str; 2] = [
    "WINDLASS_CHECKPOINTS_BYTES=256KB",
    "WINDLASS_CHECKPOINTS_INTERVAL=10ms",
];

/// A fault that must come before some moments, because random kills do not lead to these moments
/// often enough.
struct Prelude {
    moments: &'static [&'static str],
    /// At which moment the server before died, and which time it was.
    before: &'static str,
    nth: u64,
    /// Whether there are clients at these moments. Some clients would do the server's work
    /// themselves.
    with_clients: bool,
}

const PRELUDES: [Prelude; 3] = [
    Prelude {
        moments: &["left-over-leased"],
        before: "finishing",
        nth: 1,
        with_clients: false,
    },
    // Within a request more bytes are written than are committed: they are a tail when the server
    // dies. At the sixth checkpoint there was one in 22 of 24 lives, at the second in 21.
    Prelude {
        moments: &["tail-cut"],
        before: "checkpoint-committed",
        nth: 6,
        with_clients: true,
    },
    // The first bytes of media are in a file before a row names it.
    Prelude {
        moments: &["orphans-found", "orphans-unlinked"],
        before: "media-named",
        nth: 1,
        with_clients: true,
    },
];

/// How often a life is begun for a moment that did not come.
const TRIES: u32 = 5;

/// How long a life lasts at most.
const LIFE: Duration = Duration::from_secs(10);

/// Older than the sweep's grace.
const AGE: Duration = Duration::from_secs(2 * 24 * 60 * 60);

const SIGKILL: i32 = 9;

pub(super) fn run(
    arguments: &Arguments,
    workload: Workload,
    data: &Path,
    log: &Path,
) -> anyhow::Result<Outcome> {
    let points = points(arguments)?;
    let mut harness = Harness {
        arguments,
        workload,
        rng: Rng::new(arguments.seed),
        data,
        log,
    };
    let mut deaths = 0;
    for point in &points {
        let times = harness.die_at(point)?;
        if !harness.workload.violations().is_empty() {
            return Ok(Outcome::of_workload(
                format!("killed at {point}"),
                &harness.workload,
            ));
        }
        ensure!(times > 0, "no run has come to the failpoint {point}");
        progress(format_args!("{point}; {}", harness.workload.figures()));
        deaths += times;
    }
    let server = arguments.server_under_test.start(data, log)?;
    harness.workload.finish(server.address());
    drop(server);
    harness
        .workload
        .extend_violations(arguments.server_under_test.verify(data)?);
    let faults = format!("{deaths} deaths at {} failpoints", points.len());
    Ok(Outcome::of_workload(faults, &harness.workload))
}

/// Returns the names of the binary's failpoints, or the requested name.
fn points(arguments: &Arguments) -> anyhow::Result<Vec<String>> {
    let Ok(names) = arguments.server_under_test.run(&["failpoints".as_ref()]) else {
        let binary = arguments.server_under_test.binary.display();
        anyhow::bail!(Lacking(format!(
            "{binary} has no failpoints: `cargo build -p windlass --features failpoints` makes one that has"
        )));
    };
    let mut names: Vec<_> = names.lines().map(str::to_owned).collect();
    if let Some(wanted) = &arguments.point {
        names.retain(|name| name == wanted);
        ensure!(!names.is_empty(), "the binary has no failpoint {wanted}");
    }
    Ok(names)
}

struct Harness<'a> {
    arguments: &'a Arguments,
    workload: Workload,
    rng: Rng,
    data: &'a Path,
    log: &'a Path,
}

impl Harness<'_> {
    /// Lets the server die at a failpoint, at each requested nth time that is reached. Returns how
    /// often it died.
    fn die_at(&mut self, point: &str) -> anyhow::Result<u64> {
        let mut times = 0;
        for &nth in &self.arguments.nth {
            let tries = if times == 0 { TRIES } else { 1 };
            let died = self.reach(point, nth, tries)?;
            times += u64::from(died);
            if !died || !self.workload.violations().is_empty() {
                break;
            }
        }
        Ok(times)
    }

    /// Lets the server die when it reaches a moment for the nth time, and checks the result.
    /// Returns `false` if it was not reached.
    fn reach(&mut self, point: &str, nth: u64, tries: u32) -> anyhow::Result<bool> {
        for _ in 0..tries {
            self.prepare(point)?;
            let with_clients = prelude(point).is_none_or(|prelude| prelude.with_clients);
            let died = self.live(point, nth, with_clients)?;
            let server = self
                .arguments
                .server_under_test
                .start(self.data, self.log)?;
            self.workload.note_fault(&format!("{point}@{nth}"));
            self.workload.check(server.address());
            if died || !self.workload.violations().is_empty() {
                return Ok(died);
            }
        }
        Ok(false)
    }

    /// The life before.
    fn prepare(&mut self, point: &str) -> anyhow::Result<()> {
        if let Some(prelude) = prelude(point) {
            self.live(prelude.before, prelude.nth, true)?;
        } else {
            let mut server = self
                .arguments
                .server_under_test
                .start(self.data, self.log)?;
            kill_soon(&mut self.workload, &mut server, &mut self.rng);
        }
        age(&self.data.join("vault"))
    }

    /// Whether the server died at the moment, not at the end of its time.
    fn live(&mut self, point: &str, nth: u64, with_clients: bool) -> anyhow::Result<bool> {
        let armed = format!("WINDLASS_FAILPOINT={point}@{nth}");
        let words = [&["env", &armed][..], &FREQUENT_CHECKPOINTS].concat();
        let wrapper: Vec<_> = words.into_iter().map(str::to_owned).collect();
        let started = self
            .arguments
            .server_under_test
            .start_under(&wrapper, self.data, self.log);
        match started {
            Ok(mut server) if with_clients => Ok(self.work(&mut server)),
            Ok(mut server) => Ok(server.wait(LIFE).is_ok_and(was_killed)),
            Err(error) => match error.downcast_ref::<Unstarted>() {
                Some(unstarted) if unstarted.status.is_some_and(was_killed) => Ok(true),
                _ => Err(error),
            },
        }
    }

    /// Lets clients upload until the server dies.
    fn work(&mut self, server: &mut Server) -> bool {
        self.workload.run_while(server.address(), || {
            let ended = server.wait(LIFE);
            server.kill9();
            ended.is_ok_and(was_killed)
        })
    }
}

fn prelude(point: &str) -> Option<&'static Prelude> {
    PRELUDES
        .iter()
        .find(|prelude| prelude.moments.contains(&point))
}

fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(SIGKILL)
}

/// Makes every file older than the sweep's grace.
#[expect(
    clippy::disallowed_methods,
    reason = "the age of a file is measured by the system's clock"
)]
fn age(directory: &Path) -> anyhow::Result<()> {
    let then = SystemTime::now() - AGE;
    for entry in directory.read_dir()? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            age(&entry.path())?;
        } else {
            File::options()
                .write(true)
                .open(entry.path())?
                .set_modified(then)?;
        }
    }
    Ok(())
}
