//! A server whose syncs begin late, and its death in between.
//!
//! A server that is killed leaves writes in the page cache, which the next one must not take for durable. A kill at a random moment
//! hardly ever hits that window, because a sync that has begun comes to its end before the process dies.

use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};

use crate::server_under_test::Server;
use crate::tool::dies_with_us;

/// The program that holds syncs up.
pub(crate) const TRACER: &str = "strace";

/// Every sync begins 20 ms late, and all other calls are left alone. The ledger syncs by fsync, the vault by fdatasync.
const ARGUMENTS: [&str; 8] = [
    "--follow-forks",
    "--seccomp-bpf",
    "--quiet=all",
    "--output=/dev/null",
    "-e",
    "trace=fsync,fdatasync",
    "-e",
    "inject=fsync,fdatasync:delay_enter=20000",
];

/// How long a tracer may take to see that nothing is left to trace.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// What a server runs under, so that its syncs are late.
pub(crate) fn wrapper() -> Vec<String> {
    let tracer = [TRACER].into_iter().chain(ARGUMENTS);
    tracer.map(str::to_owned).chain(dies_with_us()).collect()
}

/// Kills a server that runs under [`wrapper`], and waits until nothing of it is left.
///
/// # Errors
/// When its processes cannot be found, or the tracer stays.
pub(crate) fn kill9(server: &mut Server) -> anyhow::Result<()> {
    let pid = server.pid().as_raw_nonzero();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    for child in children.split_whitespace() {
        let child = Pid::from_raw(child.parse()?).context("a process has a number")?;
        kill_process(child, Signal::KILL)?;
    }
    server.wait(ENDS_WITHIN).map(drop)
}
