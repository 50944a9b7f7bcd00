//! Runs many seeds, each in a separate process. A run leaves nothing behind for the next run, and a
//! process that hangs or dies affects only its own seed.

use std::io::{IsTerminal as _, Read as _};
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, io, thread};

use clap::ValueEnum as _;

use crate::os::files::LyingDisk;
use crate::outcome::Outcome;

/// Real time that one seed may take.
const LIMIT: Duration = Duration::from_secs(120);

/// How often a process is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// Number of seeds after which the progress is printed.
const TELL: u64 = 100;

/// The seeds to run, and how to run them.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seeds: Range<u64>,
    pub(crate) jobs: usize,
    pub(crate) lying_disk: LyingDisk,
}

#[derive(Debug, Default)]
struct Sums {
    seeds: u64,
    crashes: u64,
    acknowledged: u64,
    events: u64,
    /// Seeds in which a rule was broken.
    violations: u64,
}

/// Runs the seeds and prints their outcomes. Returns whether no rule was broken.
#[expect(clippy::print_stdout, reason = "it is the result")]
pub(crate) fn run(plan: &Plan) -> bool {
    let begun = Instant::now();
    let (next, sums) = (
        AtomicU64::new(plan.seeds.start),
        Mutex::new(Sums::default()),
    );
    thread::scope(|scope| {
        for _ in 0..plan.jobs {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= plan.seeds.end {
                        break;
                    }
                    let outcome = process(seed, plan.lying_disk);
                    let mut sums = sums.lock().expect("nothing panics while it is held");
                    sums.add(seed, plan, &outcome);
                }
            });
        }
    });
    let sums = sums.into_inner().expect("nothing panics while it is held");
    let Sums {
        seeds,
        crashes,
        acknowledged,
        events,
        violations,
    } = sums;
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{seeds} seeds, {crashes} crashes, {acknowledged} bytes acknowledged, {events} events, \
         {violations} violations, {seconds:.0} s"
    );
    violations == 0
}

impl Sums {
    #[expect(
        clippy::print_stdout,
        clippy::print_stderr,
        reason = "it is result and progress"
    )]
    fn add(&mut self, seed: u64, plan: &Plan, outcome: &Outcome) {
        self.seeds += 1;
        self.crashes += outcome.crashes;
        self.acknowledged += outcome.acknowledged;
        self.events += outcome.events;
        if !outcome.broken.is_empty() {
            self.violations += 1;
            println!(
                "seed {seed} breaks a rule; again: {}",
                again(seed, plan.lying_disk)
            );
            for rule in &outcome.broken {
                println!("  {rule}");
            }
        }
        if self.seeds.is_multiple_of(TELL) && io::stderr().is_terminal() {
            let all = plan.seeds.end - plan.seeds.start;
            eprintln!(
                "{} of {all} seeds, {} violations",
                self.seeds, self.violations
            );
        }
    }
}

/// The command that runs a seed again.
fn again(seed: u64, lying_disk: LyingDisk) -> String {
    let disk = match lying_disk {
        LyingDisk::None => String::new(),
        other => format!(" --disk {}", name(other)),
    };
    format!("cargo run --release -- --seed {seed} --trace{disk}")
}

fn name(lying_disk: LyingDisk) -> String {
    let value = lying_disk.to_possible_value().expect("none is hidden");
    value.get_name().to_owned()
}

/// Runs a seed in a separate process.
fn process(seed: u64, lying_disk: LyingDisk) -> Outcome {
    let program = env::current_exe().expect("the program that runs has a name");
    let mut command = Command::new(program);
    command.args(["--seed", &seed.to_string(), "--disk", &name(lying_disk)]);
    let spawned = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let child = spawned.expect("the system has room for a process");
    match finish(child) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| failed("it does not say what came of it")),
        Err(error) => failed(&error.to_string()),
    }
}

fn failed(what: &str) -> Outcome {
    Outcome {
        broken: vec![what.to_owned()],
        ..Outcome::default()
    }
}

/// Returns the output of a process. A process that exceeds the time limit is killed.
fn finish(mut child: Child) -> io::Result<String> {
    let begun = Instant::now();
    while child.try_wait()?.is_none() {
        if begun.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            return Err(io::ErrorKind::TimedOut.into());
        }
        thread::sleep(LOOK);
    }
    let (mut said, mut complained) = (String::new(), String::new());
    if let Some(stdout) = &mut child.stdout {
        stdout.read_to_string(&mut said)?;
    }
    if let Some(stderr) = &mut child.stderr {
        stderr.read_to_string(&mut complained)?;
    }
    if complained.is_empty() {
        Ok(said)
    } else {
        Err(io::Error::other(complained))
    }
}
