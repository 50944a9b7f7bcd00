//! Programs of the machine that tiers use.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use windlass_testkit::strace::Strace;

use crate::outcome::Lacking;

/// Asks for programs that must be on the machine.
///
/// # Errors
/// [`Lacking`] names the first that is not.
pub(crate) fn need(programs: &[&str]) -> anyhow::Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<_> = std::env::split_paths(&path)
        .chain(["/sbin", "/usr/sbin"].map(Into::into))
        .collect();
    let is_missing = |program: &&&str| !places.iter().any(|place| place.join(program).is_file());
    match programs.iter().find(is_missing) {
        Some(missing) => bail!(Lacking(format!("the program {missing} is not installed"))),
        None => Ok(()),
    }
}

/// Checks the rights and the devices for mounting file systems.
///
/// # Errors
/// [`Lacking`] if one of them is missing.
pub(crate) fn need_loop_devices() -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!(Lacking("mounting file systems needs root".to_owned()));
    }
    if !Path::new("/dev/loop-control").exists() {
        bail!(Lacking("there are no loop devices".to_owned()));
    }
    Ok(())
}

/// Runs a program to its end and returns its stdout, trimmed.
///
/// # Errors
/// The program cannot be started or fails. The error holds its stderr.
pub(crate) fn run<S: AsRef<OsStr>>(
    program: &str,
    arguments: impl IntoIterator<Item = S>,
) -> anyhow::Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{program} cannot be started"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{program} failed ({}): {}", output.status, stderr.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Words before a command that must not outlive this program.
pub(crate) fn dies_with_us() -> Vec<String> {
    ["setpriv", "--pdeathsig", "KILL"].map(str::to_owned).into()
}

/// Words before the server's command: strace with a log and, perhaps, something to inject.
pub(crate) fn traced(calls: &[&str], inject: Option<&str>, log: &Path) -> Vec<String> {
    let mut strace = Strace::of(calls).option("-qq").output(log);
    if let Some(inject) = inject {
        strace = strace.inject(inject);
    }
    // The server's parent is strace. If strace ends, the server must end too.
    [dies_with_us(), strace.into_words(), dies_with_us()].concat()
}
