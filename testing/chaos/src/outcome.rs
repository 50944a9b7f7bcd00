//! The outcome of a tier, and its output.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::process::ExitCode;

use windlass_testkit::checker::{Violation, Workload};

/// The exit code of a tier that the machine cannot carry out, as automake has it.
const SKIPPED: u8 = 77;

/// How a tier ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It was carried out. The line of figures goes into docs/durability.md.
    Done {
        /// The injected faults and their effects.
        figures: String,
        /// The broken rules.
        violations: Vec<Violation>,
    },
    /// The machine lacks something.
    Skipped(String),
    /// The tier itself failed.
    Failed(anyhow::Error),
}

/// The machine lacks something that a tier needs.
#[derive(Debug)]
pub(crate) struct Lacking(pub(crate) String);

impl Display for Lacking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Lacking {}

impl Outcome {
    /// The outcome of a tier that ends with the checks of its workload. `faults` describes the
    /// injected faults.
    pub(crate) fn of_workload(faults: impl Display, workload: &Workload) -> Self {
        tell_histories(workload);
        Self::Done {
            figures: format!("{faults}; {}", workload.figures()),
            violations: workload.violations().to_vec(),
        }
    }

    /// Skipped when the machine lacks something, failed otherwise.
    pub(crate) fn of_error(error: anyhow::Error) -> Self {
        match error.downcast::<Lacking>() {
            Ok(Lacking(what)) => Self::Skipped(what),
            Err(error) => Self::Failed(error),
        }
    }
}

/// Prints the history of the first uploads that show a broken rule, if any rule was broken.
pub(crate) fn tell_histories(workload: &Workload) {
    const MAX_SHOWN: usize = 3;
    let broken = workload
        .violations()
        .iter()
        .map(|violation| &violation.upload);
    let broken: BTreeSet<_> = broken.take(MAX_SHOWN).collect();
    for upload in workload
        .uploads()
        .filter(|upload| broken.contains(&upload.name().to_owned()))
    {
        progress(format_args!("{}:", upload.name()));
        for record in upload.records() {
            progress(format_args!("  {:>12?}  {:?}", record.at, record.event));
        }
    }
}

/// Prints how a tier ended.
#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program's last words"
)]
pub(crate) fn report(outcome: Outcome, no_skip: bool) -> ExitCode {
    match outcome {
        Outcome::Done {
            figures,
            violations,
        } => {
            for violation in &violations {
                eprintln!("VIOLATION: {violation}");
            }
            println!("{figures}");
            ExitCode::from(u8::from(!violations.is_empty()))
        }
        Outcome::Skipped(what) => {
            println!("SKIPPED: {what}");
            ExitCode::from(if no_skip { 1 } else { SKIPPED })
        }
        Outcome::Failed(error) => {
            eprintln!("FAILED: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Says how far a tier is.
#[expect(clippy::print_stderr, reason = "long work shows progress")]
pub(crate) fn progress(line: impl Display) {
    eprintln!("{line}");
}
