//! Syncs that take their time.
//!
//! Injected: strace holds every sync of the server up for some hundred milliseconds, then for
//! seconds. In the middle of it the power goes.
//! To be survived: everything that was acknowledged, and nothing that was refused for want of time
//! is lost either. To be seen: `/healthz` and queries of sessions are answered meanwhile as if
//! nothing were the matter.

use std::time::Duration;

use windlass_testkit::checker::{FarmDialects, Load, Workload};
use windlass_testkit::farm;
use windlass_testkit::media::Media;

use super::latency_probe::{LatencyProbe, slowest};
use super::verdict::Verdict;
use super::volume::Volume;
use crate::disk::FileSystem;
use crate::outcome::Outcome;
use crate::server_under_test::ServerUnderTest;
use crate::tool::{need, traced};

/// Larger than the minimum of XFS.
const DISK: u64 = 1 << 30;

/// How long an answer may take that needs no sync. The tracer costs some of it.
const AT_ONCE: Duration = Duration::from_secs(1);

/// How long a reply may take that waits for several syncs, one after another.
const PATIENCE: Duration = Duration::from_secs(60);

/// Delays every sync, by strace.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    server_under_test: ServerUnderTest,
    /// The file system.
    #[arg(long, value_enum, default_value_t = FileSystem::Ext4)]
    file_system: FileSystem,
    /// Additional durations of a sync, in milliseconds, one after another.
    #[arg(long, value_delimiter = ',', default_values_t = [200, 2_000])]
    delays: Vec<u64>,
    /// Duration of the uploads with each of them, in seconds.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Number of clients that upload at the same time.
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// Seed of the clients' requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    Volume::need(arguments.file_system)?;
    need(&["strace", "xfs_io"])?;
    let mut verdict = Verdict::default();
    let mut figures = vec![arguments.file_system.name().to_owned()];
    for delay in &arguments.delays {
        figures.push(crawl(arguments, *delay, &mut verdict)?);
    }
    Ok(verdict.outcome(figures.join("; ")))
}

fn crawl(arguments: &Arguments, delay: u64, verdict: &mut Verdict) -> anyhow::Result<String> {
    let occasion = format!("syncs of {delay} ms");
    let scratch = tempfile::tempdir()?;
    let (log, trace) = (scratch.path().join("log"), scratch.path().join("trace"));
    let volume = Volume::new(arguments.file_system, DISK, scratch.path())?;
    let server_under_test = &arguments.server_under_test;
    // The first start creates the files, which would take many syncs.
    server_under_test.start(&volume.data(), &log)?.kill9();
    let inject = format!("fsync,fdatasync:delay_exit={}", delay * 1000);
    let wrapper = traced(&["fsync", "fdatasync"], Some(&inject), &trace);
    let mut server = server_under_test.start_under(&wrapper, &volume.data(), &log)?;
    let load = Load {
        clients: arguments.clients,
        largest: 1 << 20,
        ..Load::default()
    };
    let mut workload = Workload::new(FarmDialects, load, arguments.seed);
    workload.set_patience(PATIENCE);

    let parked = farm::begin_declared(server.address(), 1 << 20);
    let media = Media::new(arguments.seed, 1 << 20);
    parked.append(media, 0..256 << 10).expect(308);
    let health = LatencyProbe::of_health(server.address());
    let query = parked.ranged("bytes */*").body("");
    let queries = LatencyProbe::start(server.address(), query);
    let (ended, [health, queries]) = workload.run_while(server.address(), || {
        let ended = server.wait(Duration::from_secs(arguments.seconds)).ok();
        let samples = [health, queries].map(LatencyProbe::stop);
        volume.switch_off()?;
        server.kill9();
        anyhow::Ok((ended, samples))
    })?;
    verdict.expect(ended.is_none(), &occasion, format!("it ended: {ended:?}"));
    verdict.expect_answers(&format!("{occasion}, health"), &health, &[200], AT_ONCE);
    verdict.expect_answers(&format!("{occasion}, queries"), &queries, &[308], AT_ONCE);

    let volume = volume.mount_again(|_| Ok(()))?;
    let mut server = server_under_test.start(&volume.data(), &log)?;
    workload.check(server.address());
    workload.finish(server.address());
    server.kill9();
    workload.extend_violations(server_under_test.verify(&volume.data())?);
    verdict.take_in(&occasion, &workload);
    drop(volume);
    Ok(format!(
        "{occasion}: {} health checks and {} queries, the slowest {} and {} ms; {}",
        health.len(),
        queries.len(),
        slowest(&health).as_millis(),
        slowest(&queries).as_millis(),
        workload.figures()
    ))
}
