//! Cleaning up when this program is killed or interrupted: drops do not run then.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;

/// A shell that waits for the end of this program, which it sees by the end of its stdin, and then puts things in order. When the
/// guard is dropped, anyone who holds it has done so already, and the shell goes away without a deed.
#[derive(Debug)]
pub(crate) struct Guard(Child);

impl Guard {
    /// Lets `script` run if this program ends without having dropped the guard. Its arguments are `$1`, `$2` and so on.
    ///
    /// # Errors
    /// When there is no shell.
    pub(crate) fn new(script: &str, arguments: &[&str]) -> anyhow::Result<Self> {
        let whole = format!("trap '' INT TERM HUP; read -r done && exit; {script}");
        let child = Command::new("sh")
            .args(["-c", &whole, "guard"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("there is no shell")?;
        Ok(Self(child))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(mut stdin) = self.0.stdin.take() {
            stdin.write_all(b"done\n").ok();
        }
        self.0.wait().ok();
    }
}

/// What goes before a command that must not outlive this program.
pub(crate) fn dies_with_us() -> Vec<String> {
    ["setpriv", "--pdeathsig", "KILL"].map(str::to_owned).into()
}
