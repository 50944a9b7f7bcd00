//! One life of the world: machines, a network, clients, and faults that follow from the seed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use turmoil::Sim;
use windlass_testkit::rng::Rng;

use crate::disk::Keeps;
use crate::faults::{Fault, Faults};
use crate::invariants::{self, InvariantChecker};
use crate::oracle::{LIFETIME, Oracle};
use crate::os::files::{self, End, LyingDisk};
use crate::os::trace::{self, note};
use crate::os::{self, clock, threads};
use crate::outcome::Outcome;
use crate::server::Place;
use crate::uploads::Work;

const PURPOSE: u64 = 4;

/// The step of the simulated time. Events within a step happen in some order.
const TICK: Duration = Duration::from_millis(2);

/// Time limit for the remaining work after all faults are repaired.
const PATIENCE: Duration = Duration::from_secs(300);

const SERVER: &str = "server";
const CHECKER: &str = "checker";

/// A run and its options.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trial {
    pub(crate) seed: u64,
    pub(crate) lying_disk: LyingDisk,
    /// Print every event.
    pub(crate) trace: bool,
}

/// Lives one life, in an empty directory. A process has one.
pub(crate) fn live(trial: Trial, directory: &Path) -> Outcome {
    os::begin(trial.seed);
    trace::begin(trial.trace);
    let mut world = World::new(trial, directory);
    world.have_faults();
    world.calm_down();
    world.judge();
    let (trace, events) = trace::sum();
    Outcome {
        crashes: world.crashes,
        acknowledged: world.oracle.acknowledged(),
        events,
        trace,
        broken: world.oracle.broken(),
    }
}

struct World {
    sim: Sim<'static>,
    rng: Rng,
    directory: PathBuf,
    place: Place,
    works: Vec<Work>,
    checker: InvariantChecker,
    oracle: Oracle,
    faults: Faults,
    crashes: u64,
    /// The ends of temporary faults, with their times.
    later: Vec<(Duration, Later)>,
    /// Whether the disk may be the reason for a failure of the server.
    disk_is_troubled: bool,
    /// Sessions may have died of old age.
    has_aged: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Later {
    StartServer,
    /// A power cut: the data that the last process left in the page cache is still not on the disk.
    PowerCut,
    StartClient(usize),
    Repair(usize),
    Release(usize),
    MakeRoom,
    SpeedUp,
}

impl World {
    fn new(trial: Trial, directory: &Path) -> Self {
        let mut rng = Rng::for_purpose(trial.seed, PURPOSE);
        let data = directory.join("server-0");
        std::fs::create_dir_all(&data).expect("there is room for a directory");
        files::watch(&data, trial.seed, trial.lying_disk);
        let place = Place::new(data, &mut rng);
        let works = (0..rng.within(2..5))
            .map(|index| Work::plan(client(index), directory, &mut rng))
            .collect();
        let oracle = Oracle::default();
        let mut world = Self {
            sim: network(trial.seed, &mut rng),
            faults: Faults::new(&mut rng),
            checker: InvariantChecker::new(oracle.clone()),
            rng,
            directory: directory.to_owned(),
            place,
            works,
            oracle,
            crashes: 0,
            later: Vec::new(),
            disk_is_troubled: false,
            has_aged: false,
        };
        world.people();
        world
    }

    /// Registers every host, always in the same order.
    fn people(&mut self) {
        let place = self.place.clone();
        self.sim.host(SERVER, move || place.clone().run());
        for (index, work) in (0..).zip(&self.works) {
            let (work, oracle) = (work.clone(), self.oracle.clone());
            self.sim
                .host(client(index), move || work.clone().run(oracle.clone()));
        }
        let checker = self.checker.clone();
        self.sim.host(CHECKER, move || checker.clone().run());
    }

    /// Until the faults are used up.
    fn have_faults(&mut self) {
        while !self.faults.are_over() {
            if let Some(fault) = self.faults.due(clock::elapsed(), &mut self.rng) {
                self.strike(fault);
            }
            self.step();
        }
    }

    /// Mends everything and lets the clients come to their ends. Then the power goes out once more.
    fn calm_down(&mut self) {
        note!("world    calm");
        files::spare();
        self.place.has_refused();
        self.disk_is_troubled = false;
        for (_, later) in std::mem::take(&mut self.later) {
            if later != Later::PowerCut {
                self.undo(later);
            }
        }
        self.until("the uploads", |world| world.works.iter().all(Work::is_done));
        let keeps = self.rng.pick(&Keeps::ALL);
        files::end_now(End::PowerCut(keeps));
        self.step();
        self.until("the restart", |world| world.sim.is_host_running(SERVER));
    }

    /// Compares the final state with all promises.
    fn judge(&mut self) {
        let outcomes = self.works.iter().flat_map(Work::outcomes).collect();
        self.checker.order_everything(outcomes, self.has_aged);
        self.until("the last check", |world| world.checker.is_done());
        self.sim.crash(SERVER);
        if let Some(path) = files::overlooked() {
            let path = path.display();
            self.oracle
                .violate(format!("{path} was changed behind the simulation's back"));
        }
        invariants::sweep_and_count(&self.place.directory(), &self.oracle);
    }

    fn until(&mut self, what: &str, is_done: impl Fn(&mut Self) -> bool) {
        let limit = clock::elapsed() + PATIENCE;
        while !is_done(self) {
            if clock::elapsed() > limit {
                self.oracle
                    .violate(format!("{what} did not come to an end"));
                return;
            }
            self.step();
        }
    }

    /// Lets a moment pass.
    fn step(&mut self) {
        clock::set_elapsed(self.sim.elapsed());
        if let Err(error) = self.sim.step() {
            self.oracle.violate(format!("somebody gave up: {error}"));
        }
        threads::rest();
        self.look_after_the_server();
        let now = clock::elapsed();
        let due = |later: &(Duration, Later)| later.0 <= now;
        while let Some(index) = self.later.iter().position(due) {
            let (_, later) = self.later.remove(index);
            self.undo(later);
        }
    }

    /// Acts as the operator who restarts the server.
    fn look_after_the_server(&mut self) {
        if files::is_over() {
            self.bury_the_server();
        }
        let is_awaited = self
            .later
            .iter()
            .any(|(_, later)| *later == Later::StartServer);
        if !self.sim.is_host_running(SERVER) && !is_awaited {
            if self.place.has_refused() && !self.disk_is_troubled {
                self.oracle.violate("the store does not open".to_owned());
            }
            let down = self.rng.pick(&[10, 100, 1000]);
            self.in_time(down, Later::StartServer);
        }
    }

    fn bury_the_server(&mut self) {
        self.crashes += 1;
        let directory = self.directory.join(format!("server-{}", self.crashes));
        // A machine without power does not even close its connections.
        let says_goodbye = self.rng.once_in(2);
        if !says_goodbye {
            self.part(true);
        }
        self.sim.crash(SERVER);
        let end = files::succeed(&directory);
        note!("world    the server is dead: {end:?}");
        self.part(false);
        self.place.move_to(directory);
    }

    /// Cuts the server off from everybody, or connects it again.
    fn part(&mut self, from_all: bool) {
        let clients = (0..self.works.len()).map(|index| client(index as u64));
        for other in clients.chain([CHECKER.to_owned()]) {
            if from_all {
                self.sim.partition(SERVER, other);
            } else {
                self.sim.repair(SERVER, other);
            }
        }
    }

    fn strike(&mut self, fault: Fault) {
        note!("world    {fault:?}");
        match fault {
            Fault::End(end) => files::end_now(end),
            Fault::EndAfter(changes, end) => files::end_after(changes, end),
            Fault::SyncFails(syncs) => {
                self.disk_is_troubled = true;
                files::fail_sync_after(syncs);
            }
            Fault::DiskFull(millis) => {
                self.disk_is_troubled = true;
                files::fill_up(true);
                self.in_time(millis, Later::MakeRoom);
            }
            Fault::Partition(millis) => {
                let client = self.some_client();
                self.sim.partition(SERVER, self::client(client as u64));
                self.in_time(millis, Later::Repair(client));
            }
            Fault::Hold(millis) => {
                let client = self.some_client();
                self.sim.hold(SERVER, self::client(client as u64));
                self.in_time(millis, Later::Release(client));
            }
            Fault::Slow(millis) => {
                self.sim.set_max_message_latency(Duration::from_millis(200));
                self.in_time(millis, Later::SpeedUp);
            }
            Fault::ClientCrash(millis) => {
                let client = self.some_client();
                self.sim.crash(self::client(client as u64));
                self.in_time(millis, Later::StartClient(client));
            }
            Fault::Leap(by) => {
                clock::leap(by);
                self.has_aged |= by >= LIFETIME;
            }
        }
    }

    fn in_time(&mut self, millis: u64, later: Later) {
        self.later
            .push((clock::elapsed() + Duration::from_millis(millis), later));
    }

    fn some_client(&mut self) -> usize {
        let client = self.rng.below(self.works.len() as u64);
        usize::try_from(client).expect("an index")
    }

    fn undo(&mut self, later: Later) {
        note!("world    {later:?}");
        match later {
            Later::StartServer => {
                self.sim.bounce(SERVER);
                self.checker.order_sessions();
                if !self.faults.are_over() && self.rng.once_in(3) {
                    let soon = self.rng.within(10..100);
                    self.in_time(soon, Later::PowerCut);
                }
            }
            Later::PowerCut => {
                let keeps = self.rng.pick(&Keeps::ALL);
                files::end_now(End::PowerCut(keeps));
            }
            Later::StartClient(index) => self.sim.bounce(client(index as u64)),
            Later::Repair(index) => self.sim.repair(SERVER, client(index as u64)),
            Later::Release(index) => self.sim.release(SERVER, client(index as u64)),
            Later::MakeRoom => files::fill_up(false),
            Later::SpeedUp => self.sim.set_max_message_latency(Duration::from_millis(10)),
        }
    }
}

fn network(seed: u64, rng: &mut Rng) -> Sim<'static> {
    turmoil::Builder::new()
        .rng_seed(seed)
        .tick_duration(TICK)
        .simulation_duration(Duration::from_secs(1 << 30))
        .max_message_latency(Duration::from_millis(rng.pick(&[1, 10, 40])))
        .enable_random_order()
        .build()
}

fn client(index: u64) -> String {
    format!("client-{index}")
}
