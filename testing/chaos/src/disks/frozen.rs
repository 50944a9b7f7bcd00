//! A file system that stands still.
//!
//! Injected: `fsfreeze` under live sessions, for some seconds. Every write waits. Then the thaw. To
//! be survived: everything that was acknowledged. To be seen: nothing is acknowledged while it
//! stands still, and `/healthz` is still answered. Queries of sessions and downloads are answered
//! too, though perhaps only after the thaw: a reader of SQLite marks its place in a mapped file,
//! which is a write. After the thaw everything continues.

use std::net::SocketAddr;
use std::process::ExitStatus;
use std::thread::sleep;
use std::time::{Duration, Instant};

use windlass_testkit::checker::{FarmDialects, Load, Workload};
use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::rng::Rng;
use windlass_testkit::session::Session;

use super::latency_probe::{LatencyProbe, Sample, slowest};
use super::verdict::{GRACE, Verdict};
use super::volume::Volume;
use crate::disk::FileSystem;
use crate::outcome::Outcome;
use crate::server_under_test::{Server, ServerUnderTest};
use crate::tool::{dies_with_us, run as run_tool};

/// Room for all uploads around the freezes. Little of it is ever taken.
const DISK: u64 = 8 << 30;

/// A reply that was on its way when the file system froze.
const ON_ITS_WAY: Duration = GRACE;

/// How long an answer may take that does not wait for the disk.
const AT_ONCE: Duration = Duration::from_secs(2);

/// How long a server is watched after the thaw.
const AFTER_THE_THAW: Duration = Duration::from_millis(700);

/// Freezes the file system under the server, and thaws it.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    server_under_test: ServerUnderTest,
    /// The file system.
    #[arg(long, value_enum, default_value_t = FileSystem::Ext4)]
    file_system: FileSystem,
    /// Number of freezes under load, after one without load.
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    /// Duration of each freeze, in seconds.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Number of clients that upload at the same time.
    #[arg(long, default_value_t = 64)]
    clients: usize,
    /// Seed of the clients' requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    Volume::need(arguments.file_system)?;
    let scratch = tempfile::tempdir()?;
    let log = scratch.path().join("log");
    let volume = Volume::new(arguments.file_system, DISK, scratch.path())?;
    let mut server =
        arguments
            .server_under_test
            .start_under(&dies_with_us(), &volume.data(), &log)?;
    let mut work = Work::new(arguments, server.address());
    work.freeze_in_quiet(&volume, &mut server)?;
    for round in 1..=arguments.rounds {
        work.freeze_under_load(&volume, &mut server, round)?;
    }
    work.workload.finish(server.address());
    server.kill9();
    let found = arguments.server_under_test.verify(&volume.data())?;
    work.workload.extend_violations(found);
    work.verdict.take_in("after the thaw", &work.workload);
    let figures = format!(
        "{}: {} freezes of {} s: {}; {}",
        arguments.file_system.name(),
        arguments.rounds + 1,
        arguments.seconds,
        work.figures.join(", "),
        work.workload.figures()
    );
    Ok(work.verdict.outcome(figures))
}

struct Work {
    rng: Rng,
    workload: Workload,
    questions: Questions,
    verdict: Verdict,
    figures: Vec<String>,
}

impl Work {
    fn new(arguments: &Arguments, address: SocketAddr) -> Self {
        let load = Load {
            clients: arguments.clients,
            largest: 1 << 20,
            ..Load::default()
        };
        let media = Media::new(arguments.seed, 1 << 20);
        Self {
            rng: Rng::new(arguments.seed),
            workload: Workload::new(FarmDialects, load, arguments.seed),
            questions: Questions {
                address,
                media,
                parked: farm::begin_declared(address, media.len()),
                finished: farm::id(&farm::upload(address, media)),
                duration: Duration::from_secs(arguments.seconds),
            },
            verdict: Verdict::default(),
            figures: Vec::new(),
        }
    }

    /// Freezes the file system while a single append is under way that no client has asked about.
    fn freeze_in_quiet(&mut self, volume: &Volume, server: &mut Server) -> anyhow::Result<()> {
        let questions = &self.questions;
        questions
            .parked
            .append(questions.media, 0..256 << 10)
            .expect(308);
        let frozen = Frozen::begin(volume)?;
        let samples = questions.ask_for_a_while();
        frozen.end()?;
        let samples = samples.map(LatencyProbe::stop);
        let ended = server.wait(AFTER_THE_THAW).ok();
        self.judge("freeze in quiet", &samples, ended);
        Ok(())
    }

    fn freeze_under_load(
        &mut self,
        volume: &Volume,
        server: &mut Server,
        round: u64,
    ) -> anyhow::Result<()> {
        let occasion = format!("freeze {round}");
        let delay = Duration::from_millis(self.rng.within(200..700));
        let questions = &self.questions;
        let (window, samples, ended) = self.workload.run_while(questions.address, || {
            sleep(delay);
            let frozen = Frozen::begin(volume)?;
            let since = Instant::now() + ON_ITS_WAY;
            let samples = questions.ask_for_a_while();
            let window = since..Instant::now();
            frozen.end()?;
            let samples = samples.map(LatencyProbe::stop);
            anyhow::Ok((window, samples, server.wait(AFTER_THE_THAW).ok()))
        })?;
        self.verdict
            .expect_silence(&occasion, &self.workload, window);
        self.judge(&occasion, &samples, ended);
        self.workload.check(self.questions.address);
        Ok(())
    }

    fn judge(&mut self, occasion: &str, samples: &[Vec<Sample>; 3], ended: Option<ExitStatus>) {
        let verdict = &mut self.verdict;
        verdict.expect(ended.is_none(), occasion, format!("it ended: {ended:?}"));
        let after_the_thaw = self.questions.duration + AT_ONCE;
        let kinds = [
            ("health", 200, AT_ONCE),
            ("queries", 308, after_the_thaw),
            ("downloads", 200, after_the_thaw),
        ];
        for ((what, status, limit), samples) in kinds.into_iter().zip(samples) {
            verdict.expect_answers(&format!("{occasion}, {what}"), samples, &[status], limit);
            let (count, longest) = (samples.len(), slowest(samples).as_millis());
            self.figures
                .push(format!("{count} {what} within {longest} ms"));
        }
    }
}

/// Requests that change nothing.
struct Questions {
    address: SocketAddr,
    media: Media,
    /// A session that only the quiet freeze continues.
    parked: Session,
    finished: String,
    duration: Duration,
}

impl Questions {
    /// Sends the requests that change nothing. The clients still run: every delayed request is
    /// answered after the thaw.
    fn ask_for_a_while(&self) -> [LatencyProbe; 3] {
        let probes = [
            LatencyProbe::of_health(self.address),
            LatencyProbe::start(self.address, self.parked.ranged("bytes */*").body("")),
            LatencyProbe::start(self.address, farm::download(&self.finished)),
        ];
        sleep(self.duration);
        probes
    }
}

/// A file system that stands still until this is dropped.
struct Frozen(String);

impl Frozen {
    fn begin(volume: &Volume) -> anyhow::Result<Self> {
        let place = volume.path().to_string_lossy().into_owned();
        run_tool("fsfreeze", ["--freeze", &place])?;
        Ok(Self(place))
    }

    /// Thaws it.
    fn end(self) -> anyhow::Result<()> {
        let place = self.0.clone();
        std::mem::forget(self);
        run_tool("fsfreeze", ["--unfreeze", &place]).map(drop)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        run_tool("fsfreeze", ["--unfreeze", &self.0]).ok();
    }
}
