//! The real binary under strace.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use windlass_testkit::process::{Launch, ServerProcess};

use crate::calls::{self, Calls};
use crate::limits::Count;
use crate::scenario::{Crew, Scenario};

/// Where uploads go on beside each other a sync takes so much longer. So the number of uploads that share one does not depend on how fast
/// the machine is: all of them have come while the last one was on its way.
const SLOW_SYNC: Duration = Duration::from_millis(100);

/// Checkpoints by the clock would depend on how fast the machine is.
const BY_BYTES_ALONE: &str = "WINDLASS_CHECKPOINTS_INTERVAL=1h";

/// How long the tracer may take to write its last lines, once the server has ended.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// How often a wait looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// What is traced, and where.
#[derive(Debug, Clone, Copy)]
pub struct Tracer<'a> {
    /// The binary `windlass`.
    pub binary: &'a Path,
    /// A directory for data and traces.
    pub scratch: &'a Path,
}

/// What the uploads of a scenario called: in a life with few uploads, and in one with more. Start and end fall out of the difference.
#[derive(Debug, Clone)]
pub struct Lives {
    short: Calls,
    long: Calls,
}

impl Lives {
    /// What each of so many uploads comes to that the longer life had more.
    pub fn counts(&self, uploads: u64) -> Vec<Count> {
        let (short, long) = (self.short.figures(), self.long.figures());
        let pairs = short.into_iter().zip(long);
        let counts =
            pairs.map(|((name, short), (_, long))| Count::each(name, long, short, uploads));
        counts.collect()
    }
}

impl Tracer<'_> {
    /// Carries out a scenario in two lives of the server.
    ///
    /// # Errors
    /// When strace cannot trace, or an upload is not acknowledged.
    pub fn lives(&self, scenario: Scenario) -> anyhow::Result<Lives> {
        Ok(Lives {
            short: self.life(scenario, scenario.first)?,
            long: self.life(scenario, scenario.first + scenario.more)?,
        })
    }

    fn life(&self, scenario: Scenario, uploads: u64) -> anyhow::Result<Calls> {
        let directory = tempfile::tempdir_in(self.scratch)?;
        let traces = directory.path().join("traces");
        fs::create_dir(&traces)?;
        let wrapper = self.wrapper(&directory.path().join("wrapper"), &traces, scenario)?;
        let mut server = ServerProcess::start(Launch {
            binary: &wrapper,
            scratch: directory.path(),
            arguments: Vec::new(),
        });
        Crew::connect(server.address(), scenario)?.upload(uploads)?;
        // What an end in good order would write is no cost of an upload.
        server.kill9();
        let data = format!("{}/", server.data().display());
        let mut calls = Calls::default();
        for trace in fs::read_dir(&traces)? {
            calls.read(&whole(&trace?.path())?, &data);
        }
        Ok(calls)
    }

    /// A program that starts the server under strace. The server is the process that was started, the tracer lives beside it: so signals
    /// reach the server. Each thread has a trace of its own, so that no line is torn.
    fn wrapper(&self, path: &Path, traces: &Path, scenario: Scenario) -> anyhow::Result<PathBuf> {
        // A question mark allows for machines that do not have a call.
        let names: Vec<_> = calls::names().map(|name| format!("?{name}")).collect();
        let inject = if scenario.is_crowded() {
            let micros = SLOW_SYNC.as_micros();
            format!("--inject=fsync,fdatasync:delay_enter={micros}")
        } else {
            String::new()
        };
        let script = format!(
            "#!/bin/sh\n{BY_BYTES_ALONE} exec strace --daemonize --follow-forks --output-separately --seccomp-bpf --quiet=attach,personality \
             --decode-fds=path --string-limit=0 --signal=KILL --trace={} {inject} --output='{}' '{}' \"$@\"\n",
            names.join(","),
            traces.join("thread").display(),
            self.binary.display(),
        );
        fs::write(path, script)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
        Ok(path.to_owned())
    }
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
