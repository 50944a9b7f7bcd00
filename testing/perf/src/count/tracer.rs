//! The real binary under strace.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use windlass_testkit::process::{Launch, ServerProcess};
use windlass_testkit::strace::Strace;

use super::calls::{self, Calls};
use super::counts::Totals;
use super::scenario::{Connections, Scenario};

/// Additional duration of a sync when uploads run at the same time. So the number of uploads that
/// share one does not depend on how fast the machine is: all of them have come while the last one
/// was on its way.
const SLOW_SYNC: Duration = Duration::from_millis(100);

/// Checkpoints by the clock would depend on how fast the machine is.
const BY_BYTES_ALONE: &str = "WINDLASS_CHECKPOINTS_INTERVAL=1h";

/// Bytes of a number of `allocations.c`.
const COUNT: usize = size_of::<u64>();

/// How long the tracer may take to write its last lines, once the server has ended.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// How often a wait looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The traced binary, and the directories of the trace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tracer<'a> {
    /// Path of the binary `windlass`.
    pub(crate) binary: &'a Path,
    /// The preloaded library that counts allocations.
    pub(crate) counter: Option<&'a Path>,
    /// A directory for data and traces.
    pub(crate) scratch: &'a Path,
}

impl Tracer<'_> {
    /// Starts a server, carries out this number of uploads on each connection, kills the server and
    /// returns the totals.
    ///
    /// # Errors
    /// When strace cannot trace, or an upload is not acknowledged.
    pub(crate) fn life(&self, scenario: Scenario, uploads: u64) -> anyhow::Result<Totals> {
        let directory = tempfile::tempdir_in(self.scratch)?;
        let traces = directory.path().join("traces");
        fs::create_dir(&traces)?;
        let allocations = directory.path().join("allocations");
        fs::write(&allocations, [0; 2 * COUNT])?;
        let wrapper = directory.path().join("wrapper");
        fs::write(&wrapper, self.script(&traces, &allocations, scenario))?;
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o700))?;
        let mut server = ServerProcess::start(Launch {
            binary: &wrapper,
            scratch: directory.path(),
            arguments: Vec::new(),
            environment: Vec::new(),
        });
        Connections::connect(server.address(), scenario)?.upload(uploads)?;
        // The writes of an orderly shutdown are no cost of an upload, so the server is killed.
        server.kill9();
        let data = format!("{}/", server.data().display());
        let mut calls = Calls::default();
        for trace in fs::read_dir(&traces)? {
            calls.read(&whole(&trace?.path())?, &data);
        }
        let mut totals = calls.figures();
        if self.counter.is_some() {
            totals.extend(allocated(&allocations)?);
        }
        Ok(totals)
    }

    /// Returns a program that starts the server under strace. The started process is the server
    /// itself, and the tracer is a process next to it. Signals therefore reach the server. Each
    /// thread has a separate trace, so that no line is torn.
    fn script(&self, traces: &Path, allocations: &Path, scenario: Scenario) -> String {
        // A question mark allows for machines that do not have a call.
        let names: Vec<_> = calls::names().map(|name| format!("?{name}")).collect();
        let mut strace = Strace::of(&names)
            .option("--daemonize")
            .option("--output-separately")
            .option("--seccomp-bpf")
            .option("--quiet=attach,personality")
            .option("--decode-fds=path")
            .option("--string-limit=0")
            .option("--signal=KILL")
            .output(&traces.join("thread"));
        if scenario.is_crowded() {
            let micros = SLOW_SYNC.as_micros();
            strace = strace.inject(&format!("fsync,fdatasync:delay_enter={micros}"));
        }
        if let Some(counter) = self.counter {
            let (counter, allocations) = (counter.display(), allocations.display());
            strace = strace
                .option(format!("--env=LD_PRELOAD={counter}"))
                .option(format!("--env=WINDLASS_PERF_ALLOCATIONS={allocations}"));
        }
        let words = strace.into_words().join("' '");
        let binary = self.binary.display();
        format!("#!/bin/sh\n{BY_BYTES_ALONE} exec '{words}' '{binary}' \"$@\"\n")
    }
}

/// The totals that `allocations.c` has written.
fn allocated(file: &Path) -> anyhow::Result<[(&'static str, u64); 2]> {
    let counted = fs::read(file)?;
    let (blocks, bytes) = counted.split_at(counted.len().min(COUNT));
    let number = |bytes: &[u8]| Ok::<_, anyhow::Error>(u64::from_ne_bytes(bytes.try_into()?));
    Ok([
        ("allocations", number(blocks)?),
        ("bytes-allocated", number(bytes)?),
    ])
}

/// The trace of a thread, which the tracer may just be ending.
fn whole(path: &Path) -> anyhow::Result<String> {
    let start = Instant::now();
    while start.elapsed() < ENDS_WITHIN {
        let trace = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        if trace.ends_with(" +++\n") {
            return Ok(trace);
        }
        sleep(LOOK_AGAIN);
    }
    bail!("the trace {} does not end", path.display())
}
