//! Tier T4: the power is cut, at every moment and in every way.
//!
//! The server runs once, on a disk that logs every write. In between it is killed and started
//! again. Afterwards disks are made in the states in which a power cut could have left them.
//!
//! Injected: the log of the disk ends after any entry, mostly at acknowledgements, and also while
//! the file system writes back or is unmounted. Of the writes after the last flush nothing is lost,
//! or all, or half of them, or half of their 4 KiB sectors.
//!
//! To be survived: everything that had been acknowledged by then, with nothing left that no row
//! names. A file system that does not mount afterwards is counted separately.

mod disk;
mod log;
mod state;

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::ensure;
use rustix::process::Signal;
use windlass_testkit::checker::{
    Event, FarmDialects, Load, Record, Rule, Upload, Violation, Workload,
};
use windlass_testkit::rng::Rng;
use windlass_testkit::strace;

use crate::disk::{FileSystem, LoopDevice, Mount, make_image};
use crate::late_syncs;
use crate::outcome::{Outcome, progress, tell_histories};
use crate::scratch::Scratch;
use crate::server_under_test::{Server, ServerUnderTest};
use crate::tool::{dies_with_us, need};
use disk::{DAEMON, LoggedDisk};
use log::Log;
use state::{Images, State};

/// The size of the disk. It is larger than XFS and the server's free space require. Little of it is
/// ever written.
const DISK: u64 = 1 << 30;

/// Memory for the disk, its log and two images of it: the load is bounded.
const ROOM: u64 = 2 << 30;

/// How often the server is started on the disk while it is logged.
const LIVES: u64 = 8;

/// How many uploads a client makes at most. Each is looked at in every state.
const UPLOADS: u64 = 6;

/// How long the server may take to end when it is asked to.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// Where on the disk the server keeps its data.
const DATA: &str = "data";

/// Maximum number of broken rules that are printed.
const TOLD: usize = 20;

/// Replays the writes to a disk up to a power cut, without some writes that were never flushed, and
/// starts the server on it.
///
/// The server runs for about two seconds on a disk that logs all writes. Crash states are then made
/// from the log, and the server is started on each state. Everything acknowledged before that point
/// of the log must be there. Two thirds of the states are at acknowledgements, the rest anywhere.
/// Needs root, loop devices, FUSE, qemu-storage-daemon and strace.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server_under_test: ServerUnderTest,
    /// The file system.
    #[arg(long, value_enum, default_value_t = FileSystem::Ext4)]
    file_system: FileSystem,
    /// Number of runs of the server on a disk with a log; each run adds 1 to the seed.
    #[arg(long, default_value_t = 1)]
    logs: usize,
    /// Number of crash states that are tried of each log.
    #[arg(long, default_value_t = 150)]
    states: usize,
    /// Number of clients that upload at the same time.
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// Seed of the clients' requests, the times of the kills and the cuts of the log.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Continue after a state that breaks a rule, and count such states.
    #[arg(long)]
    go_on: bool,
    /// Where the disk of the first state that breaks a rule is kept, as it was before it was
    /// mounted.
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    arguments.file_system.need()?;
    need(&[DAEMON, "fusermount3", strace::PROGRAM, "setpriv"])?;
    let scratch = Scratch::new(ROOM)?;
    let harness = Harness {
        arguments,
        scratch: scratch.path(),
    };
    let mut tally = Tally::default();
    for seed in (arguments.seed..).take(arguments.logs) {
        if tally.states > 0 {
            progress(&tally);
        }
        harness.round(seed, &mut tally)?;
        if tally.is_over(arguments) {
            break;
        }
    }
    let tried = tally.unmountable * 10 <= tally.states && tally.held > 0;
    ensure!(
        tried || tally.is_over(arguments),
        "hardly any crash state has shown anything: {tally}"
    );
    Ok(Outcome::Done {
        figures: format!("{}: {tally}", arguments.file_system.name()),
        violations: tally.violations,
    })
}

/// How long the log was at each acknowledgement.
fn acknowledgements(upload: &Upload) -> impl Iterator<Item = u64> {
    let acknowledges = |record: &&Record| {
        matches!(
            record.event,
            Event::Started | Event::Committed(_) | Event::Finished(_) | Event::Cancelled
        )
    };
    let records = upload.records().iter().filter(acknowledges);
    records.map(|record| record.stamp)
}

/// Where the work is done.
struct Harness<'a> {
    arguments: &'a Arguments,
    scratch: &'a Path,
}

impl Harness<'_> {
    /// One log, and its crash states.
    fn round(&self, seed: u64, tally: &mut Tally) -> anyhow::Result<()> {
        let mut rng = Rng::new(seed);
        let (log, workload) = self.record(seed, &mut rng)?;
        tally.take_in("before any crash", workload.violations().to_vec());
        let acknowledged: Vec<_> = workload.uploads().flat_map(acknowledgements).collect();
        tally.entries += log.entries().len();
        tally.acknowledgements += acknowledged.len();
        if tally.is_over(self.arguments) {
            return Ok(());
        }
        let states = state::choose(&log, &acknowledged, self.arguments.states, &mut rng);
        self.replay(&log, &workload, &states, tally)
    }

    /// Lets the workload upload to a server on a disk with a log.
    fn record(&self, seed: u64, rng: &mut Rng) -> anyhow::Result<(Log, Workload)> {
        let image = self.scratch.join("disk");
        self.format(&image)?;
        state::copy(&image, &self.safe())?;
        let load = Load {
            clients: self.arguments.clients,
            largest: 1 << 20,
            uploads: Some(UPLOADS),
            ..Load::default()
        };
        let mut workload = Workload::new(FarmDialects, load, seed);
        let disk = LoggedDisk::new(&image, self.scratch)?;
        workload.set_stamp(disk.log_length()?);
        let mount = self.mount(disk.device())?;
        self.live(&mut workload, mount.path(), rng)?;
        mount.unmount()?;
        Ok((disk.close()?, workload))
    }

    /// Makes an image with an empty file system. That is not in the log: the disk begins with it.
    fn format(&self, image: &Path) -> anyhow::Result<()> {
        make_image(image, DISK)?;
        self.arguments.file_system.make(&LoopDevice::attach(image)?)
    }

    /// The lives of the server. In some of them the file system writes data back without a sync.
    fn live(&self, workload: &mut Workload, mount: &Path, rng: &mut Rng) -> anyhow::Result<()> {
        for _ in 0..LIVES {
            let end = rng.pick(&[End::Killed, End::KilledBeforeSync, End::Asked]);
            let mut server = self.start(mount, &end.wrapper())?;
            workload.check(server.address());
            let delay = Duration::from_micros(rng.within(100_000..400_000));
            let writes_back = rng.once_in(2);
            workload.run_while(server.address(), || -> anyhow::Result<()> {
                sleep(delay);
                if writes_back {
                    rustix::fs::syncfs(File::open(mount)?)?;
                }
                end.come_to(&mut server)
            })?;
        }
        Ok(())
    }

    /// Starts the server on every state, and checks it against its earlier acknowledgements.
    fn replay(
        &self,
        log: &Log,
        workload: &Workload,
        states: &[State],
        tally: &mut Tally,
    ) -> anyhow::Result<()> {
        let mut images = Images::new(log, self.safe());
        let crashed = self.scratch.join("crashed");
        for state in states {
            tally.states += 1;
            tally.lost += images.make(state, &crashed)?;
            let workload = workload.at(log.length(state.prefix));
            let broken = self.hold(workload, &crashed, tally)?;
            if let Some(image) = &self.arguments.image
                && tally.broken == 0
                && !broken.is_empty()
            {
                images.make(state, image)?;
            }
            tally.take_in(state, broken);
            if tally.is_over(self.arguments) {
                break;
            }
        }
        Ok(())
    }

    /// Starts the server on an image and returns the rules that are broken.
    fn hold(
        &self,
        mut workload: Workload,
        image: &Path,
        tally: &mut Tally,
    ) -> anyhow::Result<Vec<Violation>> {
        let device = LoopDevice::attach(image)?;
        let mount = match self.mount(&device) {
            Ok(mount) => mount,
            Err(error) => {
                tally.unmountable += 1;
                progress(format_args!("{error:#}"));
                return Ok(Vec::new());
            }
        };
        tally.held += workload.figures().acknowledgements;
        let mut server = match self.start(mount.path(), &dies_with_us()) {
            Ok(server) => server,
            Err(error) => {
                mount.unmount()?;
                return Ok(vec![Violation {
                    upload: "the server".to_owned(),
                    rule: Rule::Stuck(format!("{error:#}")),
                }]);
            }
        };
        workload.check(server.address());
        if workload.violations().is_empty() {
            workload.finish(server.address());
        }
        server.kill9();
        workload.extend_violations(
            self.arguments
                .server_under_test
                .verify(&mount.path().join(DATA))?,
        );
        mount.unmount()?;
        tell_histories(&workload);
        Ok(workload.violations().to_vec())
    }

    fn start(&self, mount: &Path, wrapper: &[String]) -> anyhow::Result<Server> {
        let (data, log) = (mount.join(DATA), self.scratch.join("server.log"));
        std::fs::write(&log, "")?;
        self.arguments
            .server_under_test
            .start_under(wrapper, &data, &log)
    }

    fn mount(&self, device: &LoopDevice) -> anyhow::Result<Mount> {
        Mount::new(
            self.arguments.file_system,
            device,
            &self.scratch.join("mount"),
        )
    }

    /// The image that the crash states are made from.
    fn safe(&self) -> PathBuf {
        self.scratch.join("safe")
    }
}

/// How a life of the server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// By `kill -9`.
    Killed,
    /// By `kill -9`, while its writes wait for their sync: every sync begins late. The next life
    /// finds all of them in the page cache, and must not take them for durable.
    KilledBeforeSync,
    /// By SIGTERM.
    Asked,
}

impl End {
    /// The command that the server runs under.
    fn wrapper(self) -> Vec<String> {
        match self {
            Self::KilledBeforeSync => late_syncs::wrapper(),
            Self::Killed | Self::Asked => dies_with_us(),
        }
    }

    fn come_to(self, server: &mut Server) -> anyhow::Result<()> {
        match self {
            Self::Killed => server.kill9(),
            Self::KilledBeforeSync => late_syncs::kill9(server)?,
            Self::Asked => {
                server.signal(Signal::TERM);
                server.wait(ENDS_WITHIN)?;
            }
        }
        Ok(())
    }
}

/// The results so far.
#[derive(Debug, Default)]
struct Tally {
    states: usize,
    /// States with a file system that did not mount.
    unmountable: usize,
    /// States in which a rule was broken.
    broken: usize,
    /// Writes that were lost, wholly or in part.
    lost: u64,
    /// Acknowledgements that were checked.
    held: u64,
    /// Entries of the logs.
    entries: usize,
    /// Acknowledgements while they were written.
    acknowledgements: usize,
    violations: Vec<Violation>,
}

impl Tally {
    fn take_in(&mut self, state: impl fmt::Display, broken: Vec<Violation>) {
        self.broken += usize::from(!broken.is_empty());
        let room = TOLD.saturating_sub(self.violations.len());
        let told = broken.into_iter().take(room).map(|violation| Violation {
            upload: format!("{state}: {}", violation.upload),
            ..violation
        });
        self.violations.extend(told);
    }

    /// Whether enough has been seen.
    fn is_over(&self, arguments: &Arguments) -> bool {
        self.broken > 0 && !arguments.go_on
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            states,
            unmountable,
            broken,
            lost,
            held,
            entries,
            acknowledgements,
            violations: _,
        } = self;
        write!(
            f,
            "{states} crash states ({unmountable} did not mount, {broken} broke a rule) of {entries} writes and flushes with \
             {acknowledgements} acknowledgements; {lost} writes lost, {held} acknowledgements held against"
        )
    }
}
