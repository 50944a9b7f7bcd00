//! The comparison: the same faults for other servers.
//!
//! Injected, into every server alike: `kill -9` while clients upload; power cuts by the shutdown
//! ioctl on ext4 and XFS, as in tier T3; requests that break off half-way, by a client that hangs
//! up and by a client that freezes. Counted: acknowledged data that is missing. Not counted: losses
//! that the protocol permits. Every server is set up as its own documentation describes it for
//! files on the local disk. Every client sends only requests of the dialect. A client that receives
//! an offset continues there. All servers get the same media in the same manners.
//!
//! Other servers cannot fail the command, whatever they lose; ours can.

mod broken;
mod contestant;
mod series;
mod table;

use std::path::PathBuf;

use anyhow::ensure;

use crate::disk::FileSystem;
use crate::outcome::{Outcome, progress};
use crate::server_under_test::ServerUnderTest;
use crate::tool::need;

use broken::Way;
use contestant::Contestant;
use series::Fault;
use table::{Row, Table};

/// Puts other servers through the same faults as ours and prints one table.
///
/// The servers are installed by `testing/chaos/peers/install`. Exits with 1 only when ours breaks a
/// rule.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server_under_test: ServerUnderTest,
    /// Directory of the other servers, as filled by `testing/chaos/peers/install`.
    #[arg(long, value_name = "DIRECTORY", default_value_os_t = default_peers())]
    peers: PathBuf,
    /// Only servers with a name that contains this.
    #[arg(long, value_name = "NAME", default_value = "")]
    only: String,
    /// Number of kills of each server.
    #[arg(long, default_value_t = 5)]
    kills: u64,
    /// Number of power cuts of each server on each file system.
    #[arg(long, default_value_t = 3)]
    cuts: u64,
    /// Number of requests that break off, in each way.
    #[arg(long, default_value_t = 2)]
    broken: u64,
    /// Number of clients that upload at the same time.
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// Seed of the clients' requests and of the times of the faults.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Next to the directory of this binary, where the installation puts it.
fn default_peers() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    let profile = own.parent().unwrap_or(&own);
    profile.with_file_name("peers")
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    for file_system in [FileSystem::Ext4, FileSystem::Xfs] {
        file_system.need()?;
    }
    need(&["xfs_io", "node"])?;
    let mut table = Table::default();
    let mut violations = Vec::new();
    for contestant in contestant::all(&arguments.server_under_test, &arguments.peers)? {
        if contestant.name.contains(&arguments.only) {
            let rows = rows(arguments, &contestant)?;
            if contestant.is_ours {
                violations.extend(rows.iter().flat_map(Row::broken));
            }
            table.add(&contestant, &rows);
        }
    }
    let only = &arguments.only;
    ensure!(
        !table.is_empty(),
        "no server has a name with {only:?} in it"
    );
    let figures = table.to_string();
    Ok(Outcome::Done {
        figures,
        violations,
    })
}

/// One server through everything.
fn rows(arguments: &Arguments, contestant: &Contestant) -> anyhow::Result<Vec<Row>> {
    let cuts = [FileSystem::Ext4, FileSystem::Xfs].map(|disk| (Fault::Cut(disk), arguments.cuts));
    let mut rows = Vec::new();
    for (fault, times) in [(Fault::Kill, arguments.kills)].into_iter().chain(cuts) {
        rows.push(series::run(arguments, contestant, fault, times)?);
    }
    for way in [Way::HangsUp, Way::Freezes] {
        rows.push(broken::run(arguments, contestant, way)?);
    }
    for row in &rows {
        tell(contestant, row);
    }
    Ok(rows)
}

/// Says which rules a server broke: some of them, since where one broke, many did.
fn tell(contestant: &Contestant, row: &Row) {
    const SHOWN: usize = 3;
    let (name, fault, broken) = (contestant.name, &row.fault, row.violations.len());
    progress(format_args!("{name}, {fault}: {broken} broken rules"));
    for violation in row.violations.iter().take(SHOWN) {
        progress(format_args!("  {violation}"));
    }
}
