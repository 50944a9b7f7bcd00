//! A server with late syncs, and its death before a sync.
//!
//! A killed server leaves writes in the page cache, and the next server must not take them for
//! durable. A kill at a random moment hardly ever hits that window, because a sync that has begun
//! finishes before the process dies.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use windlass_testkit::strace::Strace;

use crate::server_under_test::Server;
use crate::tool::dies_with_us;

/// How long a tracer may take to see that nothing is left to trace.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// Returns the command for a server with syncs that begin 20 ms late. All other calls are left
/// alone. The ledger syncs by fsync, the vault by fdatasync.
pub(crate) fn wrapper() -> Vec<String> {
    let strace = Strace::of(&["fsync", "fdatasync"])
        .option("--seccomp-bpf")
        .option("--quiet=all")
        .output(Path::new("/dev/null"))
        .inject("fsync,fdatasync:delay_enter=20000");
    [strace.into_words(), dies_with_us()].concat()
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
