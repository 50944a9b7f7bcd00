//! One kind of fault, again and again, into one server while clients upload.

use std::fmt;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use windlass_testkit::checker::{Load, UploadStyle, Workload};
use windlass_testkit::rng::Rng;
use windlass_testkit::session::CHUNK_GRANULARITY;

use super::Arguments;
use super::contestant::Contestant;
use super::table::Row;
use crate::disk::FileSystem;
use crate::power::Machine;
use crate::scratch::Scratch;
use crate::server_under_test::{Server, ServerUnderTest, Unstarted};

/// Number of events of uploads before a fault. By this measure a slow server has acknowledged as
/// much as a fast one.
const EVENTS: Range<u64> = 40..240;

/// A fault comes after so long, even if less has happened.
const MAX_RUN: Duration = Duration::from_secs(4);

/// How long a reply, and progress, may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often a server that ends by itself is started again for one look.
const RESTARTS: u32 = 5;

/// How often a wait looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// A fault of a server.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    /// `kill -9`.
    Kill,
    /// The file system stops without a flush.
    Cut(FileSystem),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill => f.write_str("kill -9"),
            Self::Cut(file_system) => write!(f, "power cut, {}", file_system.name()),
        }
    }
}

/// Injects a fault the given number of times, and checks after each.
///
/// # Errors
/// When the server does not start at first, or ours not after a fault; when the machine fails.
pub(super) fn run(
    arguments: &Arguments,
    contestant: &Contestant,
    fault: Fault,
    times: u64,
) -> anyhow::Result<Row> {
    let scratch = Scratch::on_disk()?;
    let dialect = Arc::clone(&contestant.dialect);
    let mut workload = Workload::speaking(dialect, load(arguments.clients), arguments.seed);
    let mut rng = Rng::new(arguments.seed);
    let heard = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&heard);
    workload.set_stamp(move || count.fetch_add(1, Ordering::Relaxed));
    workload.set_patience(PATIENCE);
    let mut deployment = Deployment::new(fault, &contestant.server_under_test, scratch.path())?;
    let mut row = Row::of(fault.to_string());
    while row.injected < times {
        let enough = heard.load(Ordering::Relaxed) + rng.within(EVENTS);
        workload.run_while(deployment.address(), || {
            wait_for(&heard, enough);
            row.ended += u64::from(deployment.server().has_ended());
            deployment.strike()
        })?;
        row.injected += 1;
        deployment = match deployment.start_again() {
            Err(error) if error.is::<Unstarted>() && !contestant.is_ours => {
                row.refuses_to_start = true;
                return Ok(row);
            }
            deployment => deployment?,
        };
        deployment = look(deployment, &mut workload, &mut row, Workload::check)?;
    }
    look(deployment, &mut workload, &mut row, Workload::check_all)?;
    Ok(row)
}

/// Lets the workload ask for its uploads. A server that ends by itself meanwhile is started again,
/// as a supervisor does it, and asked again.
fn look(
    mut deployment: Deployment,
    workload: &mut Workload,
    row: &mut Row,
    check: impl Fn(&mut Workload, SocketAddr),
) -> anyhow::Result<Deployment> {
    let mut seen = workload.clone();
    for _ in 0..RESTARTS {
        seen = workload.clone();
        check(&mut seen, deployment.address());
        if !deployment.server().has_ended() {
            break;
        }
        row.ended += 1;
        deployment = deployment.start_again()?;
    }
    *workload = seen;
    row.tally(workload);
    Ok(deployment)
}

/// Waits until clients have seen so much, or for long enough.
fn wait_for(heard: &AtomicU64, enough: u64) {
    let start = Instant::now();
    while heard.load(Ordering::Relaxed) < enough && start.elapsed() < MAX_RUN {
        sleep(LOOK_AGAIN);
    }
}

/// Requests that every dialect has: sessions, chunks, clients that vanish, cancels.
fn load(clients: usize) -> Load {
    Load {
        clients,
        largest: 1 << 20,
        styles: vec![
            UploadStyle::Chunks(CHUNK_GRANULARITY),
            UploadStyle::Rest,
            UploadStyle::Rest,
            UploadStyle::Vanish,
            UploadStyle::Cancel,
        ],
        uploads: None,
    }
}

/// The place in which a server runs.
enum Deployment {
    /// The machine's own disk.
    Process {
        server: Server,
        server_under_test: ServerUnderTest,
        scratch: PathBuf,
    },
    /// A disk with power cuts.
    Machine(Machine),
}

impl Deployment {
    fn new(
        fault: Fault,
        server_under_test: &ServerUnderTest,
        scratch: &Path,
    ) -> anyhow::Result<Self> {
        match fault {
            Fault::Kill => Self::process(server_under_test.clone(), scratch.to_owned()),
            Fault::Cut(file_system) => {
                Machine::new(server_under_test, file_system, scratch).map(Self::Machine)
            }
        }
    }

    fn process(server_under_test: ServerUnderTest, scratch: PathBuf) -> anyhow::Result<Self> {
        Ok(Self::Process {
            server: server_under_test.start(&scratch.join("data"), &scratch.join("log"))?,
            server_under_test,
            scratch,
        })
    }

    fn server(&mut self) -> &mut Server {
        match self {
            Self::Process { server, .. } => server,
            Self::Machine(machine) => &mut machine.server,
        }
    }

    fn address(&mut self) -> SocketAddr {
        self.server().address()
    }

    fn strike(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Process { server, .. } => {
                server.kill9();
                Ok(())
            }
            Self::Machine(machine) => machine.cut_power(),
        }
    }

    fn start_again(self) -> anyhow::Result<Self> {
        match self {
            Self::Process {
                server_under_test,
                scratch,
                ..
            } => Self::process(server_under_test, scratch),
            Self::Machine(machine) => machine.start_again().map(Self::Machine),
        }
    }
}
