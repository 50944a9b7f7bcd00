//! Tier T2: the process is killed.
//!
//! Injected: `kill -9` at a random moment, 1 to 60 ms after clients begin; memory is lost, the page cache is not.
//! To be survived: everything that was acknowledged.

use std::thread::sleep;
use std::time::Duration;

use windlass_testkit::checker::{Fleet, Google, Load};
use windlass_testkit::dice::Dice;

use crate::outcome::{Outcome, progress};
use crate::subject::Subject;

/// Kills the server again and again while clients upload.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    subject: Subject,
    /// How often it is killed.
    #[arg(long, default_value_t = 100)]
    rounds: u64,
    /// How many clients upload at the same time.
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// What the clients send, and when the server is killed, follows from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let scratch = tempfile::tempdir()?;
    let (data, log) = (scratch.path().join("data"), scratch.path().join("log"));
    let load = Load {
        clients: arguments.clients,
        ..Load::default()
    };
    let mut fleet = Fleet::new(Google::farm(), load, arguments.seed);
    let mut dice = Dice::new(arguments.seed);
    let mut server = arguments.subject.start(&data, &log)?;
    for round in 1..=arguments.rounds {
        let delay = Duration::from_micros(dice.within(1_000..60_000));
        fleet.run_while(server.address(), || {
            sleep(delay);
            server.kill9();
        });
        server = arguments.subject.start(&data, &log)?;
        fleet.check(server.address());
        if round % 100 == 0 {
            progress(format_args!("{round} kills; {}", fleet.figures()));
        }
        if !fleet.violations().is_empty() {
            return Ok(Outcome::of_fleet(format_args!("{round} kills"), &fleet));
        }
    }
    fleet.finish(server.address());
    drop(server);
    fleet.extend_violations(arguments.subject.verify(&data)?);
    Ok(Outcome::of_fleet(
        format_args!("{} kills", arguments.rounds),
        &fleet,
    ))
}
