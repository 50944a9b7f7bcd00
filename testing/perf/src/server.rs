//! A server while it is measured.

use std::fs::{self, File};
use std::io::BufReader;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use windlass_testkit::process::{first_line, last_lines, listening_address};

use crate::usage::{self, Usage};

/// How long a server may take to listen.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// How long a server may take to end after it was asked to.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// How often a wait looks again. Starts are measured, and some take few milliseconds.
const LOOK_AGAIN: Duration = Duration::from_micros(300);

/// How a server is started.
#[derive(Debug)]
pub(crate) struct Launch {
    /// Its command.
    pub(crate) command: Command,
    /// Where it was told to listen; none when it says so itself, in its first line.
    pub(crate) address: Option<SocketAddr>,
}

/// A running server with a separate process group. When it is dropped it is asked to end, and
/// killed if it does not end.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    begun: Instant,
    address: SocketAddr,
    /// By this file the cleanup of the data directories finds it.
    pid_file: PathBuf,
    /// Kept open, so that the server can still write to it.
    _stdout: Option<BufReader<ChildStdout>>,
}

impl Server {
    /// Starts a server and waits until it listens. Its output goes into `log`, its pid into
    /// `data_dirs`.
    ///
    /// # Errors
    /// The server does not listen in time.
    pub(crate) fn start(launch: Launch, log: &Path, data_dirs: &Path) -> anyhow::Result<Self> {
        let Launch {
            mut command,
            address,
        } = launch;
        let stderr = File::create(log)?;
        let stdout = match address {
            Some(_) => stderr.try_clone()?.into(),
            None => Stdio::piped(),
        };
        command.process_group(0).stdin(Stdio::null());
        command.stdout(stdout).stderr(stderr);
        let begun = Instant::now();
        let mut child = command.spawn().with_context(|| format!("{command:?}"))?;
        let pid_file = data_dirs.join(format!("{}.pid", child.id()));
        fs::write(&pid_file, child.id().to_string())?;
        let place = match address {
            Some(address) => answers(&mut child, address).then_some((address, None)),
            None => first_line(&mut child, STARTS_WITHIN)
                .and_then(|(line, stdout)| Some((listening_address(&line)?.1, Some(stdout)))),
        };
        let Some((address, stdout)) = place else {
            end(&mut child, &pid_file);
            bail!("{command:?} does not start: {}", last_lines(log));
        };
        Ok(Self {
            child,
            begun,
            address,
            pid_file,
            _stdout: stdout,
        })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The id of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How long ago it was started.
    pub(crate) fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    /// The server's usage so far.
    pub(crate) fn usage(&self) -> Usage {
        Usage::of_tree(self.child.id())
    }

    /// Forgets the most memory that it has had.
    pub(crate) fn forget_peak(&self) {
        usage::forget_peak(self.child.id());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child, &self.pid_file);
    }
}

/// Asks a group of processes to end, and kills it if it does not.
fn end(child: &mut Child, pid_file: &Path) {
    let group = Pid::from_child(child);
    kill_process_group(group, Signal::TERM).ok();
    let start = Instant::now();
    while matches!(child.try_wait(), Ok(None)) && start.elapsed() < ENDS_WITHIN {
        thread::sleep(LOOK_AGAIN);
    }
    kill_process_group(group, Signal::KILL).ok();
    child.wait().ok();
    fs::remove_file(pid_file).ok();
}

/// Whether a server takes connections in time.
fn answers(child: &mut Child, address: SocketAddr) -> bool {
    let start = Instant::now();
    while matches!(child.try_wait(), Ok(None)) && start.elapsed() < STARTS_WITHIN {
        if TcpStream::connect(address).is_ok() {
            return true;
        }
        thread::sleep(LOOK_AGAIN);
    }
    false
}

/// Returns an address of this machine on which no server listens.
///
/// # Errors
/// There is no free port.
pub(crate) fn free_port() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
