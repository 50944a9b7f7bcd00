//! `windlass-model`: explores every state of a bounded model of several replicas that write one
//! upload session over a shared ledger and an object store.
//!
//! The media has a few units in cells. A request brings one unit up to a whole cell, in one of two
//! versions, because a client may send other bytes for the same range after its file has changed.
//! A PUT, a Complete, a deletion and a statement of the ledger may land at once, late (when the
//! sender is long gone), or never. A PUT and a deletion may also land twice. A replica may pause
//! for any time, or die, between any two steps.
//!
//! [`rules`] has the rules of the design, and the mutations that break them. [`invariants`] has the
//! conditions that must hold in every state. The search visits all states of each of the
//! [`configurations`]. It shows that the design holds in all of them, and it finds a broken
//! invariant for each mutation.
//!
//! Exit codes: 0, the design holds and each mutation is caught; 1, otherwise; 2, wrong arguments.

mod bytes;
mod configurations;
mod environment;
mod event;
mod explore;
mod invariants;
mod ledger;
mod replica;
mod rules;
mod state;
mod store;

use std::io::{Write, stderr, stdout};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use explore::{Bounds, Exploration, Outcome, explore};
use rules::Configuration;

/// Explores all states of replicas that write one upload session, and each broken rule.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Stop the search through each configuration of the design after this time. Without it all
    /// states are explored, which takes up to 12 GB of memory.
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Explore only the configurations and mutations with these words in their name.
    #[arg(long, value_name = "WORDS", default_value = "")]
    only: String,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let is_chosen = |it: &Configuration| it.name.contains(&arguments.only);
    let time = arguments.seconds.map(Duration::from_secs);
    let mut explored = 0;
    let mut unexpected = 0;
    for configuration in configurations::designs().into_iter().filter(is_chosen) {
        let bounds = Bounds { time, states: None };
        let exploration = explore_with_progress(&configuration, bounds);
        explored += 1;
        unexpected += u32::from(matches!(exploration.outcome, Outcome::Broken(_)));
        print(&configuration, &exploration)?;
    }
    for mutation in configurations::mutations().into_iter().filter(is_chosen) {
        let states = Some(configurations::MUTATION_STATES);
        let exploration = explore_with_progress(&mutation, Bounds { time: None, states });
        explored += 1;
        unexpected += u32::from(!matches!(exploration.outcome, Outcome::Broken(_)));
        print(&mutation, &exploration)?;
    }
    anyhow::ensure!(explored > 0, "no name has the words {:?}", arguments.only);
    writeln!(stdout(), "{explored} explored, {unexpected} unexpected")?;
    Ok(ExitCode::from(u8::from(unexpected > 0)))
}

fn explore_with_progress(configuration: &Configuration, bounds: Bounds) -> Exploration {
    explore(configuration, bounds, |states, depth| {
        // A closed standard error does not end the search.
        let _ = writeln!(
            stderr(),
            "{}: {states} states so far, depth {depth}",
            configuration.name
        );
    })
}

/// Prints the result of a search, with the steps of a counterexample.
fn print(configuration: &Configuration, exploration: &Exploration) -> std::io::Result<()> {
    let mut out = stdout().lock();
    let seconds = exploration.time.as_secs_f32();
    let is_mutation = configuration.mutation.is_some();
    write!(
        out,
        "{:<36} {:>11} states, depth {:>2}, {seconds:>6.1} s: ",
        configuration.name, exploration.states, exploration.depth
    )?;
    match &exploration.outcome {
        Outcome::Holds if is_mutation => writeln!(out, "NOT CAUGHT in any state"),
        Outcome::HoldsSoFar { .. } if is_mutation => writeln!(out, "NOT CAUGHT within the bounds"),
        Outcome::Holds => writeln!(out, "holds in all states"),
        Outcome::HoldsSoFar { waiting } => {
            writeln!(out, "holds so far, {waiting} states left to expand")
        }
        Outcome::Broken(counterexample) => {
            let verdict = if is_mutation { "caught" } else { "BROKEN" };
            writeln!(out, "{verdict}")?;
            for (number, step) in counterexample.steps.iter().enumerate() {
                writeln!(out, "    {:>2}. {step}", number + 1)?;
            }
            writeln!(out, "        {}", counterexample.problem)
        }
    }
}
