//! A disk that fails, below the file system.
//!
//! Injected: a block device (nbdkit, FUSE and a loop device) fails with EIO from a random moment
//! on. All writes fail, or all flushes, or only writes to the journal of the file system. The file
//! system then reacts in its way: by errors, by going read-only, by shutting itself down, and by
//! syncs that succeed without the journal. Then the disk is healed and mounted again. In every
//! other round it heals by itself after some milliseconds: a second sync would then succeed without
//! the bytes of the first. To be survived: everything that was acknowledged. To be seen after a
//! lasting failure: nothing more is acknowledged, `/healthz` reports the failure, and the process
//! ends by itself with code 1.

mod journal;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use windlass_testkit::checker::{FarmDialects, Load, Workload};
use windlass_testkit::rng::Rng;

use super::latency_probe::LatencyProbe;
use super::verdict::{GRACE, Verdict};
use super::volume::Volume;
use crate::disk::{FileSystem, LoopDevice, make_image};
use crate::outcome::{Outcome, progress};
use crate::server_under_test::{Server, ServerUnderTest};
use crate::tool::{dies_with_us, need, run as run_tool};
use windlass_testkit::cleanup::CleanupShell;

/// Room for all uploads between the failures, so that there are always writes to fail. Little of it
/// is ever taken.
const DISK: u64 = 4 << 30;

/// The plugin that fails.
const PLUGIN: &str = include_str!("device/failing.py");

/// How long a server may take to end by itself: the drain, and a disk that takes its time to fail.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// How long a server is watched after a brief failure, which it may not have noticed.
const WATCHED: Duration = Duration::from_millis(700);

/// Lets the block device below the file system fail, and repairs it.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    server_under_test: ServerUnderTest,
    /// The file system.
    #[arg(long, value_enum, default_value_t = FileSystem::Ext4)]
    file_system: FileSystem,
    /// Number of device failures: in turns its writes, its flushes, both, and writes to the
    /// journal, each for good and for a moment.
    #[arg(long, default_value_t = 16)]
    rounds: u64,
    /// Inject only this fault, e.g. `journal`.
    #[arg(long, value_name = "FAULT")]
    only: Option<String>,
    /// Number of clients that upload at the same time.
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// Seed of the clients' requests and of the times of the failures.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    Volume::need(arguments.file_system)?;
    need(&["nbdkit", "nbdfuse", "fusermount3", "e2fsck"])?;
    let scratch = tempfile::tempdir()?;
    let device = FailingDevice::start(scratch.path())?;
    let mut volume = Volume::on(arguments.file_system, &device.file(), scratch.path())?;
    let mut faults = Fault::all(arguments.file_system, volume.device())?;
    if let Some(only) = &arguments.only {
        faults.retain(|fault| fault.name == only);
        ensure!(!faults.is_empty(), "{only} is nothing that can fail here");
    }
    let mut rounds = Rounds::new(arguments, faults, &scratch.path().join("log"));
    for round in 1..=arguments.rounds {
        volume = rounds.fail_and_heal(volume, &device, round)?;
        if !rounds.is_clean() {
            break;
        }
        if round % 20 == 0 {
            progress(rounds.figures(round));
        }
    }
    rounds.end(&volume)
}

/// The requests that the device fails.
#[derive(Debug, Clone)]
struct Fault {
    name: &'static str,
    /// The fault in the form that the plugin takes.
    told: String,
}

impl Fault {
    /// All faults for this file system.
    fn all(file_system: FileSystem, device: &LoopDevice) -> anyhow::Result<Vec<Self>> {
        let mut all = ["write", "flush", "write flush"].map(Self::of_all).to_vec();
        if let Some(journal) = journal::place(file_system, device)? {
            all.push(Self {
                name: "journal",
                told: format!("write={}-{}", journal.start, journal.end),
            });
        }
        Ok(all)
    }

    fn of_all(name: &'static str) -> Self {
        let told = name.to_owned();
        Self { name, told }
    }
}

struct Rounds<'a> {
    arguments: &'a Arguments,
    faults: Vec<Fault>,
    log: PathBuf,
    rng: Rng,
    workload: Workload,
    verdict: Verdict,
    slowest_end: Duration,
    /// Failures of a moment after which the server ended.
    noticed: u64,
}

impl<'a> Rounds<'a> {
    fn new(arguments: &'a Arguments, faults: Vec<Fault>, log: &Path) -> Self {
        let load = Load {
            clients: arguments.clients,
            largest: 1 << 20,
            ..Load::default()
        };
        Self {
            arguments,
            faults,
            log: log.to_owned(),
            rng: Rng::new(arguments.seed),
            workload: Workload::new(FarmDialects, load, arguments.seed),
            verdict: Verdict::default(),
            slowest_end: Duration::ZERO,
            noticed: 0,
        }
    }

    fn fail_and_heal(
        &mut self,
        volume: Volume,
        device: &FailingDevice,
        round: u64,
    ) -> anyhow::Result<Volume> {
        let turn = usize::try_from(round / 2)? % self.faults.len();
        let fault = self.faults[turn].clone();
        let lasts = round % 2 == 1;
        let how_long = if lasts { "for good" } else { "for a moment" };
        let occasion = format!("round {round}, {} fails {how_long}", fault.name);
        let (server_under_test, log) = (&self.arguments.server_under_test, &self.log);
        let mut server = server_under_test.start_under(&dies_with_us(), &volume.data(), log)?;
        if lasts {
            self.fail_for_good(&mut server, device, &fault.told, &occasion)?;
            device.heal()?;
        } else {
            self.fail_for_a_moment(&mut server, device, &fault.told, &occasion)?;
        }
        server.kill9();
        let volume = volume.mount_again(|device| mend(self.arguments.file_system, device))?;
        self.look(&volume, &occasion)?;
        Ok(volume)
    }

    fn fail_for_good(
        &mut self,
        server: &mut Server,
        device: &FailingDevice,
        faults: &str,
        occasion: &str,
    ) -> anyhow::Result<()> {
        let health = LatencyProbe::of_health(server.address());
        let delay = Duration::from_millis(self.rng.within(100..800));
        let (failed, ended) = self.workload.run_while(server.address(), || {
            sleep(delay);
            let failed = device.fail(faults);
            (failed.map(|()| Instant::now()), server.wait(ENDS_WITHIN))
        });
        let (failed, over, health) = (failed?, Instant::now(), health.stop());
        let from = failed + GRACE;
        self.slowest_end = self.slowest_end.max(over.duration_since(failed));
        self.verdict
            .expect_silence(occasion, &self.workload, from..over);
        self.verdict.expect_ill(occasion, &health, from);
        let is_error = ended.as_ref().is_ok_and(|status| status.code() == Some(1));
        self.verdict
            .expect(is_error, occasion, format!("it ended with {ended:?}"));
        Ok(())
    }

    /// Fails the disk for a moment. The server may continue if none of its files was affected.
    fn fail_for_a_moment(
        &mut self,
        server: &mut Server,
        device: &FailingDevice,
        faults: &str,
        occasion: &str,
    ) -> anyhow::Result<()> {
        let delay = Duration::from_millis(self.rng.within(100..800));
        let moment = Duration::from_millis(self.rng.within(1..60));
        let ended = self.workload.run_while(server.address(), || {
            sleep(delay);
            device.fail(faults)?;
            sleep(moment);
            device.heal()?;
            anyhow::Ok(server.wait(WATCHED).ok())
        })?;
        if let Some(status) = ended {
            self.noticed += 1;
            let is_error = status.code() == Some(1);
            self.verdict
                .expect(is_error, occasion, format!("it ended with {status}"));
        }
        Ok(())
    }

    fn look(&mut self, volume: &Volume, occasion: &str) -> anyhow::Result<()> {
        let server_under_test = &self.arguments.server_under_test;
        let mut server =
            server_under_test.start_under(&dies_with_us(), &volume.data(), &self.log)?;
        self.workload.check(server.address());
        server.kill9();
        if !self.workload.violations().is_empty() {
            self.verdict.take_in(occasion, &self.workload);
        }
        Ok(())
    }

    fn is_clean(&self) -> bool {
        self.verdict.is_clean()
    }

    fn figures(&self, rounds: u64) -> String {
        format!(
            "{}: {rounds} failing disks, the slowest fail-stop within {} ms, {} of a moment were noticed; {}",
            self.arguments.file_system.name(),
            self.slowest_end.as_millis(),
            self.noticed,
            self.workload.figures()
        )
    }

    fn end(mut self, volume: &Volume) -> anyhow::Result<Outcome> {
        if self.is_clean() {
            let server_under_test = &self.arguments.server_under_test;
            let mut server =
                server_under_test.start_under(&dies_with_us(), &volume.data(), &self.log)?;
            self.workload.finish(server.address());
            server.kill9();
            self.workload
                .extend_violations(server_under_test.verify(&volume.data())?);
            self.verdict.take_in("at the end", &self.workload);
        }
        let figures = self.figures(self.arguments.rounds);
        Ok(self.verdict.outcome(figures))
    }
}

/// Repairs the file system as an operator would before the mount. XFS and Btrfs repair themselves
/// during the mount.
fn mend(file_system: FileSystem, device: &LoopDevice) -> anyhow::Result<()> {
    if file_system != FileSystem::Ext4 {
        return Ok(());
    }
    let status = Command::new("e2fsck")
        .args(["-f", "-y", device.path()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    // 1: errors were found, and mended.
    match status.code() {
        Some(0 | 1) => Ok(()),
        _ => bail!("e2fsck cannot mend the file system: {status}"),
    }
}

/// A disk that fails on command. It is removed when it is dropped.
#[derive(Debug)]
struct FailingDevice {
    place: PathBuf,
    faults: PathBuf,
    bridge: Child,
    disk: Child,
    _guard: CleanupShell,
}

impl FailingDevice {
    /// # Errors
    /// nbdkit or FUSE do not behave as expected.
    fn start(scratch: &Path) -> anyhow::Result<Self> {
        let [image, plugin, socket, place, faults] =
            ["image", "failing.py", "socket", "device", "faults"].map(|name| scratch.join(name));
        make_image(&image, DISK)?;
        fs::write(&plugin, PLUGIN)?;
        fs::create_dir(&place)?;
        let disk = child("nbdkit")
            .args(["--foreground", "--unix"])
            .arg(&socket)
            .arg("python")
            .arg(&plugin)
            .arg(format!("image={}", image.display()))
            .arg(format!("faults={}", faults.display()))
            .spawn()?;
        wait_for(&socket)?;
        let bridge = child("nbdfuse")
            .arg(&place)
            .arg(format!("nbd+unix:///?socket={}", socket.display()))
            .spawn()?;
        let device = Self {
            _guard: CleanupShell::unless_dropped("umount --lazy \"$1\"", [&place])?,
            place,
            faults,
            bridge,
            disk,
        };
        wait_for(&device.file())?;
        Ok(device)
    }

    /// The disk as a file.
    fn file(&self) -> PathBuf {
        self.place.join("nbd")
    }

    fn fail(&self, what: &str) -> std::io::Result<()> {
        // Written to a draft first, so that the plugin never reads a part of it.
        let draft = self.faults.with_extension("draft");
        fs::write(&draft, what)?;
        fs::rename(draft, &self.faults)
    }

    fn heal(&self) -> std::io::Result<()> {
        fs::remove_file(&self.faults)
    }
}

impl Drop for FailingDevice {
    fn drop(&mut self) {
        let place = self.place.to_string_lossy();
        run_tool("fusermount3", ["-u", "-z", &place]).ok();
        for child in [&mut self.bridge, &mut self.disk] {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// A program that dies with us.
fn child(program: &str) -> Command {
    let words = dies_with_us();
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .arg(program)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn wait_for(file: &Path) -> anyhow::Result<()> {
    const TRIES: u32 = 250;
    for _ in 0..TRIES {
        if file.exists() {
            return Ok(());
        }
        sleep(Duration::from_millis(20));
    }
    bail!(crate::outcome::Lacking(format!(
        "{} does not appear: nbdkit with its Python plugin and FUSE are needed",
        file.display()
    )))
}
