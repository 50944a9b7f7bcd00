//! `windlass verify` and `windlass backup`: while a server runs, after it has stopped, and after it
//! was killed.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::server::program;

mod backup;
mod upgrade;
mod verify;

/// A command that has ended.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Runs a command on a data directory.
fn run(command: &str, data: &Path, more: &[&str]) -> Ran {
    let output = Command::new(program())
        .arg(command)
        .arg("--data")
        .arg(data)
        .args(more)
        .env_remove("WINDLASS_CONFIG")
        .output();
    let Output {
        status,
        stdout,
        stderr,
    } = output.expect("the binary can be started");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ran {
        code: status.code(),
        stdout: text(stdout),
        stderr: text(stderr),
    }
}

impl Ran {
    /// The lines of `--json`.
    fn events(&self) -> Vec<Value> {
        let lines = self.stdout.lines();
        let events = lines.map(|line| serde_json::from_str(line).expect("JSON"));
        events.collect()
    }

    /// The last of them.
    #[track_caller]
    fn summary(&self) -> Value {
        let last = self.events().pop();
        last.unwrap_or_else(|| panic!("no summary: {self:?}"))
    }
}

/// Checks that nothing is damaged. Returns the number of remains.
#[track_caller]
pub(crate) fn assert_sound(data: &Path) -> u64 {
    let ran = run("verify", data, &["--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.summary()["remains"].as_u64().expect("a count")
}
