//! Tier T3: the power is cut.
//!
//! Injected: the file-system shutdown ioctl without a flush of the log, on a loop-mounted file
//! system under the running server with live sessions. Whatever was not synced is lost; the page
//! cache is thrown away with the mount. A third of the cuts follow a `kill -9`, at a random moment
//! or between a write and its sync.
//! To be survived: everything that was acknowledged.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use windlass_testkit::checker::{FarmDialects, Load, Violation, Workload};
use windlass_testkit::rng::Rng;
use windlass_testkit::strace;

use crate::batches::{Batch, ROOM, run_in_batches};
use crate::disk::{FileSystem, LoopDevice, Mount, make_image};
use crate::late_syncs;
use crate::outcome::Outcome;
use crate::scratch::Scratch;
use crate::server_under_test::{Server, ServerUnderTest};
use crate::tool::{need, run as run_tool};

/// Room for the uploads of a batch, for leftovers of cut requests, and for the server's free space.
const DISK: u64 = 2 * ROOM;

/// Cuts the power again and again while clients upload.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server_under_test: ServerUnderTest,
    /// The file system; Btrfs has no such ioctl.
    #[arg(long, value_enum, default_value_t = FileSystem::Ext4)]
    file_system: FileSystem,
    /// Number of power cuts.
    #[arg(long, default_value_t = 50)]
    cuts: u64,
    /// Number of clients that upload at the same time.
    #[arg(long, default_value_t = 32)]
    clients: usize,
    /// Seed of the clients' requests and of the times of the power cuts.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    arguments.file_system.need()?;
    need(&["xfs_io", strace::PROGRAM, "setpriv"])?;
    let name = format!("power cuts, {}", arguments.file_system.name());
    let (cuts, seed) = (arguments.cuts, arguments.seed);
    run_in_batches(&name, cuts, seed, |batch| {
        cut_again_and_again(arguments, batch)
    })
}

fn cut_again_and_again(arguments: &Arguments, batch: &mut Batch) -> anyhow::Result<Workload> {
    let load = Load {
        clients: arguments.clients,
        largest: 1 << 20,
        ..Load::default()
    };
    let mut workload = Workload::new(FarmDialects, load, batch.seed);
    let mut rng = Rng::new(batch.seed);
    let scratch = Scratch::new(DISK)?;
    let mut machine = Machine::new(
        &arguments.server_under_test,
        arguments.file_system,
        scratch.path(),
    )?;
    while batch.goes_on(&workload) {
        let delay = Duration::from_micros(rng.within(20_000..250_000));
        let crash = rng.pick(&[
            None,
            None,
            None,
            None,
            Some(Crash::Sudden),
            Some(Crash::BeforeSync),
        ]);
        if let Some(crash) = crash {
            machine.kill_under_load(&mut workload, crash, delay)?;
            if !batch.looked(&workload) {
                return Ok(workload);
            }
        }
        if crash == Some(Crash::BeforeSync) {
            machine.cut_power()?;
        } else {
            workload.run_while(machine.server.address(), || {
                sleep(delay);
                machine.cut_power()
            })?;
        }
        batch.struck(&workload);
        machine = machine.start_again()?;
        workload.check(machine.server.address());
        if !batch.looked(&workload) {
            return Ok(workload);
        }
    }
    workload.finish(machine.server.address());
    workload.extend_violations(machine.verify()?);
    Ok(workload)
}

/// How a process dies some time before the power goes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Crash {
    /// At a random moment.
    Sudden,
    /// While its writes wait for their sync. The power goes out as soon as the next process has
    /// answered its clients: any later sync of the same file would make up for the missing sync.
    BeforeSync,
}

/// A server on a separate disk. Fields are dropped in order: the server ends before its disk goes.
pub(crate) struct Machine {
    pub(crate) server: Server,
    mount: Mount,
    device: LoopDevice,
    file_system: FileSystem,
    server_under_test: ServerUnderTest,
    log: PathBuf,
}

impl Machine {
    /// Makes the disk in a directory and starts the server on it.
    ///
    /// # Errors
    /// When either cannot be done.
    pub(crate) fn new(
        server_under_test: &ServerUnderTest,
        file_system: FileSystem,
        scratch: &Path,
    ) -> anyhow::Result<Self> {
        let image = scratch.join("disk");
        make_image(&image, DISK)?;
        let device = LoopDevice::attach(&image)?;
        file_system.make(&device)?;
        let mount = Mount::new(file_system, &device, &scratch.join("mount"))?;
        let log = scratch.join("log");
        Ok(Self {
            server: server_under_test.start(&mount.path().join("data"), &log)?,
            mount,
            device,
            file_system,
            server_under_test: server_under_test.clone(),
            log,
        })
    }

    /// Kills the process. Another process takes over its writes, and not all of them were synced.
    fn kill_under_load(
        &mut self,
        workload: &mut Workload,
        crash: Crash,
        delay: Duration,
    ) -> anyhow::Result<()> {
        let data = self.mount.path().join("data");
        if crash == Crash::BeforeSync {
            self.server.kill9();
            let wrapper = late_syncs::wrapper();
            self.server = self
                .server_under_test
                .start_under(&wrapper, &data, &self.log)?;
        }
        workload.run_while(self.server.address(), || {
            sleep(delay);
            match crash {
                Crash::Sudden => self.server.kill9(),
                Crash::BeforeSync => late_syncs::kill9(&mut self.server)?,
            }
            anyhow::Ok(())
        })?;
        self.server = self.server_under_test.start(&data, &self.log)?;
        workload.check(self.server.address());
        Ok(())
    }

    /// Makes the file system refuse all further writes, and discards its unwritten data.
    ///
    /// The server is stopped first. Otherwise it would run for a moment longer, as no machine
    /// without power does. In that moment a sync that has overtaken the shutdown may return 0: ext4
    /// finds the transaction that it waits for neither running nor committing.
    ///
    /// # Errors
    /// The file system does not take the ioctl.
    pub(crate) fn cut_power(&mut self) -> anyhow::Result<()> {
        self.server.freeze()?;
        let place = self.mount.path().to_string_lossy();
        run_tool("xfs_io", ["-x", "-c", "shutdown", &place])?;
        self.server.kill9();
        Ok(())
    }

    /// Ends the server and verifies its data.
    fn verify(&mut self) -> anyhow::Result<Vec<Violation>> {
        self.server.kill9();
        self.server_under_test
            .verify(&self.mount.path().join("data"))
    }

    /// Mounts the disk and starts the server again.
    ///
    /// # Errors
    /// [`crate::server_under_test::Unstarted`] if the server does not start.
    pub(crate) fn start_again(self) -> anyhow::Result<Self> {
        let Self {
            mut server,
            mount,
            device,
            file_system,
            server_under_test,
            log,
        } = self;
        server.kill9();
        let place = mount.path().to_owned();
        mount.unmount()?;
        let mount = Mount::new(file_system, &device, &place)?;
        Ok(Self {
            server: server_under_test.start(&place.join("data"), &log)?,
            mount,
            device,
            file_system,
            server_under_test,
            log,
        })
    }
}
