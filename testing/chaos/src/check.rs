//! The checker alone, against a server that someone else runs and breaks.
//!
//! Injected: nothing. Clients upload for a while. Then every upload is completed and checked.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::Duration;

use windlass_testkit::checker::{FarmDialects, Load, Workload};

use crate::outcome::Outcome;

/// Checks a running server of the Farm API.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Address of the server.
    address: SocketAddr,
    /// Duration of the uploads, in seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Number of clients that upload at the same time.
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// Seed of the clients' requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let load = Load {
        clients: arguments.clients,
        ..Load::default()
    };
    let mut workload = Workload::new(FarmDialects, load, arguments.seed);
    workload.run_while(arguments.address, || {
        sleep(Duration::from_secs(arguments.seconds));
    });
    workload.finish(arguments.address);
    Outcome::of_workload("nothing injected", &workload)
}
