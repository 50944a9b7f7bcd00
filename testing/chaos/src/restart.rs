//! Restart: a thousand uploads run while the server ends and starts again.
//!
//! Injected: `kill -9` and SIGTERM in turn, while every one of very many clients has a session and
//! sends.
//! To be survived: every upload continues at its acknowledged offset and finishes; the server finds
//! descriptors and memory for all of them.

mod gate;

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use windlass_testkit::checker::{Google, Load, UploadStyle, Workload};
use windlass_testkit::session::CHUNK_GRANULARITY;

use crate::outcome::{Outcome, progress};
use crate::scratch::Scratch;
use crate::server_under_test::{Server, ServerUnderTest};
use gate::{Gate, Gated};

/// How often the server is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// How long the server may take to stop: `limits.drain` is 8 s.
const STOPS_WITHIN: Duration = Duration::from_secs(20);

/// How long a reply may take when a thousand clients come at once.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ends the server and starts it again while a thousand uploads run.
///
/// Every client has one upload of 1.5 MiB at most, in chunks of 256 KiB, in one piece, with
/// overlaps, or with connections that it breaks off. Nobody sends a byte before all have a session,
/// and at the first fault half of them must still be under way. All must come to their end.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server_under_test: ServerUnderTest,
    /// Number of uploads that run at the same time.
    #[arg(long, default_value_t = 1000)]
    uploads: usize,
    /// Number of times the server is ended, in turns by kill -9 and by SIGTERM.
    #[arg(long, default_value_t = 4)]
    faults: u64,
    /// Run time of the server before each, in milliseconds.
    #[arg(long, default_value_t = 400, value_name = "MS")]
    life: u64,
    /// Seed of the clients' requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    need_descriptors(arguments.uploads)?;
    let scratch = Scratch::on_disk()?;
    let (data, log) = (scratch.path().join("data"), scratch.path().join("log"));
    let gate = Gate::new(arguments.uploads);
    let dialect = Gated::new(Google::farm(), gate.clone());
    let mut workload = Workload::new(dialect, load(arguments.uploads), arguments.seed);
    workload.set_patience(PATIENCE);
    let mut peak = Peak::default();
    let mut lived = Vec::new();
    let mut server = arguments.server_under_test.start(&data, &log)?;
    for fault in 0..arguments.faults {
        workload.run_while(server.address(), || {
            gate.wait()?;
            peak.watch(&server, Duration::from_millis(arguments.life))?;
            end(&mut server, fault % 2 == 1)
        })?;
        let under_way = living(&workload);
        lived.push(under_way);
        server = arguments.server_under_test.start(&data, &log)?;
        workload.check(server.address());
        progress(format_args!(
            "{under_way} uploads under way; {}",
            workload.figures()
        ));
        if !workload.violations().is_empty() {
            break;
        }
    }
    let first = lived.first().copied().unwrap_or_default();
    ensure!(
        first * 2 >= arguments.uploads,
        "only {first} of {} uploads were under way at the first fault: it came too late, try a shorter --life",
        arguments.uploads
    );
    workload.finish(server.address());
    peak.note(&server)?;
    drop(server);
    workload.extend_violations(arguments.server_under_test.verify(&data)?);
    let faults = format!(
        "{} restarts with {lived:?} uploads under way, {peak}",
        lived.len()
    );
    Ok(Outcome::of_workload(faults, &workload))
}

fn load(uploads: usize) -> Load {
    Load {
        clients: uploads,
        largest: 6 * CHUNK_GRANULARITY,
        styles: vec![
            UploadStyle::Chunks(CHUNK_GRANULARITY),
            UploadStyle::Chunks(CHUNK_GRANULARITY),
            UploadStyle::Rest,
            UploadStyle::Overlap(CHUNK_GRANULARITY),
            UploadStyle::Vanish,
        ],
        uploads: Some(1),
    }
}

/// How many uploads have a session and are not at their end.
fn living(workload: &Workload) -> usize {
    let lives = |upload: &&windlass_testkit::checker::Upload| {
        upload.promise().started && !upload.promise().is_over()
    };
    workload.uploads().filter(lives).count()
}

fn end(server: &mut Server, gently: bool) -> anyhow::Result<()> {
    if !gently {
        server.kill9();
        return Ok(());
    }
    server.signal(Signal::TERM);
    let status = server.wait(STOPS_WITHIN)?;
    ensure!(
        status.success(),
        "a server that was asked to stop ends with {status}"
    );
    Ok(())
}

/// The most that the server held.
#[derive(Debug, Default)]
struct Peak {
    memory: u64,
    descriptors: usize,
}

impl Peak {
    /// Looks again and again, for so long.
    fn watch(&mut self, server: &Server, life: Duration) -> anyhow::Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < life {
            sleep(LOOK_AGAIN);
            self.note(server)?;
        }
        Ok(())
    }

    fn note(&mut self, server: &Server) -> anyhow::Result<()> {
        self.memory = self.memory.max(server.memory()?.peak);
        self.descriptors = self.descriptors.max(server.descriptors()?);
        Ok(())
    }
}

impl std::fmt::Display for Peak {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "at most {} MiB and {} descriptors",
            self.memory >> 20,
            self.descriptors
        )
    }
}

/// Every client has a connection, and some may close while the next is open.
fn need_descriptors(uploads: usize) -> anyhow::Result<()> {
    let needed = 2 * uploads as u64 + 100;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        let raised = Rlimit {
            current: Some(needed),
            ..limit
        };
        setrlimit(Resource::Nofile, raised)
            .with_context(|| format!("{needed} descriptors are needed"))?;
    }
    Ok(())
}
