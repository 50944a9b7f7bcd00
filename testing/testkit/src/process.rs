//! The real binary as a process with separate data: started, killed, started again.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::cleanup::CleanupShell;
use crate::wait::{PATIENCE, within};

/// How often a wait looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// How a server is started.
#[derive(Debug, Clone)]
pub struct Launch<'a> {
    /// The binary.
    pub binary: &'a Path,
    /// A directory in which the server's directory is made.
    pub scratch: &'a Path,
    /// The arguments after `serve --listen ... --data ...`.
    pub arguments: Vec<String>,
    /// Environment variables, in addition to the variables of the test.
    pub environment: Vec<(&'static str, String)>,
}

/// A server, its data, and its stderr. When it is dropped, or when the process that started it ends
/// in any way, the server is killed and its data is removed.
#[derive(Debug)]
pub struct ServerProcess {
    binary: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
    directory: TempDir,
    life: Option<Life>,
}

/// The server between a start and its end.
#[derive(Debug)]
struct Life {
    child: Child,
    guard: CleanupShell,
    scheme: String,
    address: SocketAddr,
    /// Kept open, so that the server can still write to it.
    _stdout: BufReader<ChildStdout>,
}

impl ServerProcess {
    /// Starts a server on a free port with a fresh data directory and waits until it listens.
    #[track_caller]
    pub fn start(launch: Launch<'_>) -> Self {
        fs::create_dir_all(launch.scratch).expect("the scratch directory can be made");
        let mut server = Self {
            binary: launch.binary.to_owned(),
            arguments: launch.arguments,
            environment: launch.environment,
            directory: TempDir::with_prefix_in("server-", launch.scratch)
                .expect("the scratch directory is writable"),
            life: None,
        };
        server.start_again();
        server
    }

    /// Where it listens.
    #[track_caller]
    pub fn address(&self) -> SocketAddr {
        self.life().address
    }

    /// The id of its process.
    #[track_caller]
    pub fn id(&self) -> u32 {
        self.life().child.id()
    }

    /// The URL of its root, without a slash at the end.
    #[track_caller]
    pub fn url(&self) -> String {
        let Life {
            scheme, address, ..
        } = self.life();
        format!("{scheme}://{address}")
    }

    /// Its data directory.
    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Returns its stderr so far, of all its lives.
    pub fn stderr(&self) -> String {
        fs::read_to_string(self.stderr_path()).unwrap_or_default()
    }

    /// Kills it without a warning.
    #[track_caller]
    pub fn kill9(&mut self) {
        let mut life = self.life.take().expect("the server runs");
        life.child.kill().expect("a child can be killed");
        life.end(PATIENCE);
    }

    /// Replaces its data by other data. The server must not run.
    #[track_caller]
    pub fn replace_data(&mut self, data: &Path) {
        assert!(self.life.is_none(), "the server runs");
        fs::remove_dir_all(self.data()).expect("its data can be removed");
        fs::rename(data, self.data()).expect("it is on the same file system");
    }

    /// A path for something of a test's, removed with the server.
    pub fn beside_data(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Asks it to end and waits until it has.
    #[track_caller]
    pub fn terminate(&mut self) -> ExitStatus {
        self.ask_to_end();
        self.wait_for_end()
    }

    /// Waits until it has ended by itself.
    #[track_caller]
    pub fn wait_for_end(&mut self) -> ExitStatus {
        let life = self.life.take().expect("the server runs");
        life.end(PATIENCE)
            .unwrap_or_else(|| panic!("it does not end:\n{}", self.stderr()))
    }

    /// Asks it to end and does not wait.
    #[track_caller]
    pub fn ask_to_end(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGHUP, by which daemons read their files again.
    #[track_caller]
    pub fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    /// Stops it until [`ServerProcess::go_on`]. Requests that clients send meanwhile wait in its
    /// sockets.
    #[track_caller]
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues it after [`ServerProcess::pause`].
    #[track_caller]
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Starts it on the data it left, on another port.
    #[track_caller]
    pub fn start_again(&mut self) {
        assert!(self.life.is_none(), "the server runs already");
        let mut child = self.command().spawn().expect("the server can be started");
        // Servers in statics are not dropped, and tests are killed.
        let directory = self.directory.path().as_os_str();
        let guard = CleanupShell::unless_dropped(
            r#"kill -9 "$1"; rm -rf -- "$2""#,
            [OsStr::new(&child.id().to_string()), directory],
        )
        .expect("there is a shell");
        let (line, stdout) = first_line(&mut child, PATIENCE)
            .unwrap_or_else(|| panic!("the server does not start:\n{}", self.stderr()));
        let (scheme, address) = listening_address(&line).unwrap_or_else(|| {
            child.kill().ok();
            panic!("the first line is {line:?}; stderr:\n{}", self.stderr())
        });
        self.life = Some(Life {
            child,
            guard,
            scheme: scheme.to_owned(),
            address,
            _stdout: stdout,
        });
    }

    /// The most memory that it has held at once, in bytes.
    #[track_caller]
    pub fn peak_memory(&self) -> u64 {
        peak_memory(&self.life().child).expect("the server runs, on Linux")
    }

    /// How many files and sockets it has open.
    #[track_caller]
    pub fn open_files(&self) -> usize {
        open_files(self.life().child.id()).expect("the server runs, on Linux")
    }

    /// How much memory it holds, in bytes.
    #[track_caller]
    pub fn memory(&self) -> u64 {
        let memory = Memory::of(self.life().child.id());
        memory.expect("the server runs, on Linux").now
    }

    fn command(&self) -> Command {
        let stderr = File::options()
            .create(true)
            .append(true)
            .open(self.stderr_path());
        let mut command = Command::new(&self.binary);
        command
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--allow-unsafe-filesystem",
                "--data",
            ])
            .arg(self.data())
            .args(&self.arguments)
            .envs(self.environment.clone())
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr.expect("the scratch directory is writable"));
        command
    }

    fn stderr_path(&self) -> PathBuf {
        self.directory.path().join("stderr")
    }

    #[track_caller]
    fn life(&self) -> &Life {
        self.life.as_ref().expect("the server runs")
    }

    #[track_caller]
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.life().child);
        kill_process(pid, signal).expect("the server runs");
    }
}

impl Drop for ServerProcess {
    #[expect(
        clippy::print_stderr,
        reason = "a test that fails shows what the server has seen"
    )]
    fn drop(&mut self) {
        if let Some(mut life) = self.life.take() {
            life.child.kill().ok();
            life.end(PATIENCE);
        }
        if thread::panicking() {
            eprintln!("stderr of the server:\n{}", self.stderr());
        }
    }
}

impl Life {
    /// Waits until the server has ended. The guard goes first: it must not kill by a number that
    /// belongs to somebody else by then.
    fn end(mut self, limit: Duration) -> Option<ExitStatus> {
        drop(self.guard);
        let ended = wait_for_end(&mut self.child, limit).expect("a child can be waited for");
        if ended.is_none() {
            self.child.kill().ok();
            self.child.wait().ok();
        }
        ended
    }
}

/// Waits for the first line of a process with a pipe as stdout. Returns the line, which is empty if
/// the process has ended, and the pipe. The pipe has to stay open so that the process can still
/// write to it. Returns `None` after `limit`.
pub fn first_line(child: &mut Child, limit: Duration) -> Option<(String, BufReader<ChildStdout>)> {
    let mut stdout = BufReader::new(child.stdout.take()?);
    within(limit, move || {
        let mut line = String::new();
        stdout.read_line(&mut line).ok();
        (line, stdout)
    })
}

/// Returns the scheme and the address of a server that says `listening on SCHEME://ADDRESS`.
pub fn listening_address(line: &str) -> Option<(&str, SocketAddr)> {
    let url = line.trim().strip_prefix("listening on ")?;
    let (scheme, address) = url.split_once("://")?;
    Some((scheme, address.parse().ok()?))
}

/// Returns the last ten lines of a log.
pub fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}

/// Waits for the end of a process; `None` after `limit`.
///
/// # Errors
/// When it cannot be waited for.
pub fn wait_for_end(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    while start.elapsed() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(LOOK_AGAIN);
    }
    Ok(None)
}

/// Resident memory of a process, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// At this moment.
    pub now: u64,
    /// The most since its start.
    pub peak: u64,
}

impl Memory {
    /// The memory of the process with this id, or `None` if it has ended or the operating system is
    /// not Linux.
    pub fn of(id: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        let bytes = |field| {
            let line = status.lines().find_map(|line| line.strip_prefix(field))?;
            let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
            Some(kib * 1024)
        };
        Some(Self {
            now: bytes("VmRSS:")?,
            peak: bytes("VmHWM:")?,
        })
    }
}

/// The most memory that a process has held at once, in bytes; `None` when it has ended.
pub fn peak_memory(process: &Child) -> Option<u64> {
    Memory::of(process.id()).map(|memory| memory.peak)
}

/// Returns how many files and sockets the process with this id has open.
///
/// # Errors
/// When it has ended, or the operating system is not Linux.
pub fn open_files(id: u32) -> io::Result<usize> {
    Ok(fs::read_dir(format!("/proc/{id}/fd"))?.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_line_of_a_server_has_its_scheme_and_address() {
        let address = "127.0.0.1:80".parse().unwrap();
        let found = listening_address("listening on tcp://127.0.0.1:80\n");
        assert_eq!(found, Some(("tcp", address)));
        assert_eq!(
            listening_address("listening at http://127.0.0.1:80\n"),
            None
        );
        assert_eq!(listening_address(""), None);
    }
}
