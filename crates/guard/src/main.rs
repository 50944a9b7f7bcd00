//! `windlass-guard`: holds the system calls of the real binary, for each upload, against `limits.toml`.
//!
//! Exit codes: 0 every count is within its limit; 1 one is not, or nothing could be counted; 77 skipped, since there is no strace.

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use clap::Parser;
use windlass_guard::limits::{Judge, Section};
use windlass_guard::scenario;
use windlass_guard::tracer::Tracer;

/// What a test harness takes for a test that was skipped.
const SKIPPED: u8 = 77;

/// Counts what the server calls for each upload, and holds that against the limits.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The binary `windlass` [default: the one beside this program].
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Only these scenarios, e.g. `simple-4k`.
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// Treats it as a failure when there is no strace.
    #[arg(long)]
    no_skip: bool,
}

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it tells what it found"
)]
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if !has_strace() && !arguments.no_skip {
        println!("SKIPPED: there is no strace; crates/guard/install brings it");
        return SKIPPED.into();
    }
    match count(&arguments) {
        Ok(judge) => {
            println!("{}", judge.table());
            match judge.verdict() {
                Ok(()) => ExitCode::SUCCESS,
                Err(told) => {
                    eprintln!("{told}");
                    ExitCode::FAILURE
                }
            }
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn count(arguments: &Arguments) -> anyhow::Result<Judge> {
    let own = std::env::current_exe()?;
    let beside = || own.with_file_name("windlass");
    let binary = arguments.binary.clone().unwrap_or_else(beside);
    let binary = binary.canonicalize()?;
    // Beside the program, which is on a disk.
    let scratch = tempfile::tempdir_in(own.parent().unwrap_or(&own))?;
    let tracer = Tracer {
        binary: &binary,
        scratch: scratch.path(),
    };
    let mut judge = Judge::new(Section::Calls)?;
    for scenario in scenario::named(&arguments.scenarios)? {
        let counts = tracer.lives(scenario)?.counts(scenario.counted());
        judge.hear(scenario.name, &counts)?;
    }
    Ok(judge)
}

fn has_strace() -> bool {
    let mut strace = Command::new("strace");
    strace.arg("--version").stdout(Stdio::null());
    strace.status().is_ok_and(|status| status.success())
}
