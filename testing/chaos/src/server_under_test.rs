//! The server under test: ours, or another server that prints `listening on http://ADDRESS` in its
//! first line.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use windlass_testkit::checker::{Rule, Violation};
use windlass_testkit::cleanup::CleanupShell;
use windlass_testkit::process::{
    self, Memory, first_line, last_lines, listening_address, open_files,
};

/// How long a server may take to listen.
const STARTS_WITHIN: Duration = Duration::from_secs(30);

/// How often a wait looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Which server is tested.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ServerUnderTest {
    /// Path of the binary `windlass`.
    #[arg(long, value_name = "FILE", default_value_os_t = default_binary())]
    pub(crate) binary: PathBuf,
    /// Argument for `windlass serve`, e.g. `--server-argument=--config=FILE`.
    #[arg(long = "server-argument", value_name = "ARGUMENT")]
    pub(crate) arguments: Vec<String>,
    /// Another server instead of `windlass`: its words, to which the directory of its data is
    /// added.
    #[arg(skip)]
    pub(crate) instead: Option<Vec<OsString>>,
    /// Which user and group it is to be, if not ours.
    #[arg(skip)]
    pub(crate) user: Option<u32>,
    /// Its address, for a tier with a separate network.
    #[arg(skip = LOOPBACK)]
    pub(crate) listen: SocketAddr,
}

const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The binary next to this one.
fn default_binary() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.with_file_name("windlass")
}

impl ServerUnderTest {
    /// The words of `windlass serve`, to which the directory of its data is added.
    fn own_words(&self) -> Vec<OsString> {
        let listen = self.listen.to_string();
        let serve = ["serve", "--listen", &listen, "--data"].map(OsString::from);
        [self.binary.clone().into_os_string()]
            .into_iter()
            .chain(serve)
            .collect()
    }

    /// The command that serves the data in `data`. `wrapper` has the words before the server, such
    /// as a tracer.
    fn command(&self, data: &Path, wrapper: &[String]) -> Command {
        let server = self.instead.clone().unwrap_or_else(|| self.own_words());
        let mut words = wrapper.iter().map(OsString::from).chain(server);
        let mut command = Command::new(words.next().expect("a server, at least"));
        command.args(words).arg(data).args(&self.arguments);
        // The server runs in a network that only the tests reach.
        command.env("WINDLASS_ALLOW_UNAUTHENTICATED", "true");
        self.change_user(&mut command);
        command
    }

    fn change_user(&self, command: &mut Command) {
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
    }

    /// Starts the server on its data and waits until it listens.
    ///
    /// # Errors
    /// The server does not listen. The error holds its output on stderr.
    pub(crate) fn start(&self, data: &Path, log: &Path) -> anyhow::Result<Server> {
        self.start_under(&[], data, log)
    }

    /// Runs another command of the binary and returns its output.
    ///
    /// # Errors
    /// The command does not end with 0.
    pub(crate) fn run(&self, arguments: &[&OsStr]) -> anyhow::Result<String> {
        let output = Command::new(&self.binary)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .with_context(|| self.binary.display().to_string())?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {stderr}", output.status);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Like [`ServerUnderTest::start`], under another program that gets the server's command as its
    /// arguments.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn start_under(
        &self,
        wrapper: &[String],
        data: &Path,
        log: &Path,
    ) -> anyhow::Result<Server> {
        Server::start(self.command(data, wrapper), log)
    }
}

/// How a verification that found damage ends.
const DAMAGED: i32 = 6;

impl ServerUnderTest {
    /// Rule 5, once the server has ended: lets the server's verification check every row and every
    /// media. Leftovers of a crash that a sweep removes are no violation. After they are removed,
    /// nothing may be left to find.
    ///
    /// # Errors
    /// The verification cannot be carried out.
    pub(crate) fn verify(&self, data: &Path) -> anyhow::Result<Vec<Violation>> {
        let damage = self.damage(data)?;
        if !damage.is_empty() {
            return Ok(damage);
        }
        self.findings(data, &["--repair"], |_| false)?;
        self.findings(data, &[], |_| true)
    }

    /// Returns the findings of the verification that a crash does not explain. Changes nothing.
    ///
    /// # Errors
    /// The same as of [`ServerUnderTest::verify`].
    pub(crate) fn damage(&self, data: &Path) -> anyhow::Result<Vec<Violation>> {
        self.findings(data, &[], |finding| finding["severity"] == "damage")
    }

    fn findings(
        &self,
        data: &Path,
        arguments: &[&str],
        wanted: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Vec<Violation>> {
        let mut command = Command::new(&self.binary);
        command
            .args(["verify", "--json", "--data"])
            .arg(data)
            .args(arguments);
        self.change_user(&mut command);
        let output = command.output().with_context(|| format!("{command:?}"))?;
        if !matches!(output.status.code(), Some(0 | DAMAGED)) {
            bail!(
                "{command:?} failed: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let rows: Vec<Value> = lines
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()?;
        let findings = rows
            .iter()
            .filter(|row| row["event"] == "finding" && wanted(row));
        Ok(findings.map(violation).collect())
    }
}

fn violation(finding: &Value) -> Violation {
    let text = |key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    Violation {
        upload: format!("{} {}", text("subject"), text("name")),
        rule: Rule::Store(text("message")),
    }
}

/// A server that runs. It is killed when it is dropped, and also when this program is killed.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    _guard: CleanupShell,
    address: SocketAddr,
    log: PathBuf,
    /// Kept open, so that the server can still write to it.
    _stdout: BufReader<ChildStdout>,
}

impl Server {
    /// Starts a command and waits for the line with its address. Its stderr is appended to `log`.
    ///
    /// # Errors
    /// There is no such line in time.
    pub(crate) fn start(mut command: Command, log: &Path) -> anyhow::Result<Self> {
        let stderr = File::options().create(true).append(true).open(log)?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr);
        let mut child = command.spawn().with_context(|| format!("{command:?}"))?;
        let guard = CleanupShell::unless_dropped("kill -9 \"$1\"", [child.id().to_string()])?;
        let heard = first_line(&mut child, STARTS_WITHIN);
        let has_ended = heard.as_ref().is_some_and(|(line, _)| line.is_empty());
        let place = heard.and_then(|(line, stdout)| Some((listening_address(&line)?.1, stdout)));
        let Some((address, stdout)) = place else {
            let status = has_ended.then(|| child.wait()).transpose()?;
            child.kill().ok();
            child.wait().ok();
            bail!(Unstarted {
                status,
                last_words: last_lines(log),
            });
        };
        Ok(Self {
            child,
            _guard: guard,
            address,
            log: log.to_owned(),
            _stdout: stdout,
        })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// How much memory it holds, and held at most.
    ///
    /// # Errors
    /// When it has ended, or the operating system is not Linux.
    pub(crate) fn memory(&self) -> anyhow::Result<Memory> {
        Memory::of(self.child.id()).context("the server has ended")
    }

    /// How many files and sockets it has open.
    ///
    /// # Errors
    /// The same as of [`Server::memory`].
    pub(crate) fn descriptors(&self) -> anyhow::Result<usize> {
        open_files(self.child.id()).context("the server has ended")
    }

    /// Sends it a signal. A server that has ended ignores it.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).ok();
    }

    /// Stops the server where it is: when this returns, it sends nothing more. A call that its
    /// threads have begun inside the kernel, such as a sync, still completes.
    ///
    /// # Errors
    /// The server does not stop.
    pub(crate) fn freeze(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP);
        let start = Instant::now();
        while start.elapsed() < STARTS_WITHIN {
            if self.is_still()? {
                return Ok(());
            }
            sleep(LOOK_AGAIN);
        }
        bail!("the server cannot be stopped")
    }

    /// Whether every thread is stopped, or waits inside the kernel for a disk.
    fn is_still(&self) -> anyhow::Result<bool> {
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let stat = std::fs::read_to_string(task?.path().join("stat"))?;
            // The state follows the name, which is in parentheses and may hold anything.
            let state = stat
                .rsplit(')')
                .next()
                .and_then(|rest| rest.trim_start().chars().next());
            if !matches!(state, Some('T' | 't' | 'D' | 'Z' | 'X')) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Kills it without a warning and waits until it is gone.
    pub(crate) fn kill9(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }

    /// Whether it is not there any more.
    pub(crate) fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)) | Err(_))
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    /// When it does not within `limit`.
    pub(crate) fn wait(&mut self, limit: Duration) -> anyhow::Result<ExitStatus> {
        if let Some(status) = process::wait_for_end(&mut self.child, limit)? {
            return Ok(status);
        }
        bail!(
            "the server does not end within {limit:?}: {}",
            last_lines(&self.log)
        )
    }
}

/// The server did not come as far as to listen.
#[derive(Debug)]
pub(crate) struct Unstarted {
    /// How it ended, if it did so by itself.
    pub(crate) status: Option<ExitStatus>,
    last_words: String,
}

impl fmt::Display for Unstarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server does not start: {}", self.last_words)
    }
}

impl std::error::Error for Unstarted {}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill9();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(instead: Option<&[&str]>) -> String {
        let server_under_test = ServerUnderTest {
            binary: "windlass".into(),
            arguments: vec!["--x".to_owned()],
            user: None,
            listen: LOOPBACK,
            instead: instead.map(|words| words.iter().map(Into::into).collect()),
        };
        let command = server_under_test.command(Path::new("/data"), &["strace".to_owned()]);
        let arguments = command.get_args();
        let words = [command.get_program()].into_iter().chain(arguments);
        words
            .map(|word| word.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn a_server_is_given_its_data_behind_its_own_words_and_before_ours() {
        let own = "strace windlass serve --listen 127.0.0.1:0 --data /data --x";
        assert_eq!(words(None), own);
        assert_eq!(
            words(Some(&["node", "tus.mjs"])),
            "strace node tus.mjs /data --x"
        );
    }
}
