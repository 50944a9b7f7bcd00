//! Many concurrent clients, and their observations.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::dialect::{Dialect, Listing};
use super::load::Load;
use super::upload::{Record, Scene, Upload};
use crate::oracle::{Event, Rule, Violation};

/// How long a reply, and progress, may take unless [`Workload::set_patience`] says otherwise.
const PATIENCE: Duration = Duration::from_secs(20);

/// The pause of a client after a request without an answer.
const PAUSE: Duration = Duration::from_millis(5);

/// Clients that upload side by side, each one upload after another.
///
/// Which media they send, and how, follows from the seed. When which reply comes does not: the
/// server is real.
#[derive(Clone)]
pub struct Workload {
    dialect: Arc<dyn Dialect>,
    load: Load,
    seed: u64,
    begun: Instant,
    patience: Duration,
    stamp: Arc<dyn Fn() -> u64 + Send + Sync>,
    clients: Vec<Client>,
    violations: Vec<Violation>,
    checks: u64,
}

/// One client: its current upload and its earlier uploads.
#[derive(Debug, Clone, Default)]
struct Client {
    index: usize,
    current: Option<Upload>,
    /// Uploads that ended since the last check.
    over: Vec<Upload>,
    /// Uploads that ended and were checked after a fault.
    settled: Vec<Upload>,
    begun: u64,
}

/// The totals of a workload so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Uploads that were begun.
    pub uploads: u64,
    /// Uploads with a final reply.
    pub finished: u64,
    /// Cancels that were acknowledged.
    pub cancelled: u64,
    /// Replies that acknowledged something.
    pub acknowledgements: u64,
    /// Bytes that were acknowledged.
    pub bytes: u64,
    /// Uploads looked at after a fault.
    pub checks: u64,
    /// Rules broken.
    pub violations: u64,
}

/// The acknowledged bytes that were missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LostBytes {
    /// Uploads that lost acknowledged bytes.
    pub uploads: u64,
    /// Finished uploads among these uploads.
    pub finished: u64,
    /// The most bytes that one of them lost.
    pub worst: u64,
}

impl AddAssign for Figures {
    fn add_assign(&mut self, more: Self) {
        self.uploads += more.uploads;
        self.finished += more.finished;
        self.cancelled += more.cancelled;
        self.acknowledgements += more.acknowledgements;
        self.bytes += more.bytes;
        self.checks += more.checks;
        self.violations += more.violations;
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            uploads,
            finished,
            cancelled,
            acknowledgements,
            bytes,
            checks,
            violations,
        } = self;
        let mib = bytes / (1 << 20);
        write!(
            f,
            "{uploads} uploads ({finished} finished, {cancelled} cancelled), {acknowledgements} acknowledgements of {mib} MiB, \
             {checks} checks, {violations} violations"
        )
    }
}

impl fmt::Debug for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Workload");
        fields
            .field("dialect", &self.dialect.name())
            .field("seed", &self.seed);
        fields
            .field("figures", &self.figures())
            .finish_non_exhaustive()
    }
}

impl Workload {
    /// Clients that have not begun.
    pub fn new(dialect: impl Dialect + 'static, load: Load, seed: u64) -> Self {
        Self::speaking(Arc::new(dialect), load, seed)
    }

    /// Like [`Workload::new`], where the dialect is chosen at run time.
    pub fn speaking(dialect: Arc<dyn Dialect>, load: Load, seed: u64) -> Self {
        Self {
            dialect,
            clients: (0..load.clients).map(Client::new).collect(),
            load,
            seed,
            begun: Instant::now(),
            patience: PATIENCE,
            stamp: Arc::new(|| 0),
            violations: Vec::new(),
            checks: 0,
        }
    }

    /// When the workload was made: records count from here.
    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// How long a reply may take from now on, and how long an upload that nothing disturbs may go
    /// without progress.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Sets the stamp of every record from now on: a number that never decreases.
    pub fn set_stamp(&mut self, stamp: impl Fn() -> u64 + Send + Sync + 'static) {
        self.stamp = Arc::new(stamp);
    }

    /// Lets all clients upload while `work` runs. When it returns they stop: requests under way
    /// come to their end, which the end of the server hastens.
    pub fn run_while<T>(&mut self, address: SocketAddr, work: impl FnOnce() -> T) -> T {
        let stop = AtomicBool::new(false);
        let (load, seed) = (self.load.clone(), self.seed);
        let moment = self.moment();
        let scene = self.scene(address, &moment);
        let result = std::thread::scope(|scope| {
            for client in &mut self.clients {
                let (load, scene, stop) = (&load, &scene, &stop);
                scope.spawn(move || client.run(scene, stop, load, seed));
            }
            let result = work();
            stop.store(true, Ordering::Relaxed);
            result
        });
        self.gather_violations();
        result
    }

    /// Checks a server that has come back, perhaps at another address. Asks it for every running
    /// upload and for all uploads that ended since the last check. Adds broken rules to
    /// [`Workload::violations`].
    pub fn check(&mut self, address: SocketAddr) {
        self.each(address, Client::check);
    }

    /// Completes every upload, and checks all uploads so far.
    pub fn finish(&mut self, address: SocketAddr) {
        self.bring_to_end(address);
        self.check_all(address);
    }

    /// Completes every upload. The next check finds violations.
    pub fn bring_to_end(&mut self, address: SocketAddr) {
        let moment = self.moment();
        let scene = self.scene(address, &moment);
        side_by_side(&mut self.clients, |client| client.finish(&scene));
    }

    /// Like [`Workload::check`], for all uploads so far.
    pub fn check_all(&mut self, address: SocketAddr) {
        self.each(address, Client::check_all);
    }

    /// The workload as it was at `stamp`, without all later records.
    #[must_use]
    pub fn at(&self, stamp: u64) -> Self {
        Self {
            dialect: Arc::clone(&self.dialect),
            load: self.load.clone(),
            stamp: Arc::clone(&self.stamp),
            clients: self.clients.iter().map(|client| client.at(stamp)).collect(),
            violations: Vec::new(),
            ..*self
        }
    }

    /// Records a fault in every running upload.
    pub fn note_fault(&mut self, fault: &str) {
        let moment = self.moment();
        let scene = self.scene(([127, 0, 0, 1], 0).into(), &moment);
        for upload in self
            .clients
            .iter_mut()
            .filter_map(|client| client.current.as_mut())
        {
            upload.note(&scene, Event::Fault(fault.to_owned()));
        }
    }

    /// Adds violations that were found elsewhere.
    pub fn extend_violations(&mut self, seen: impl IntoIterator<Item = Violation>) {
        self.violations.extend(seen);
    }

    /// Every broken rule so far.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Every upload so far.
    pub fn uploads(&self) -> impl Iterator<Item = &Upload> {
        self.clients.iter().flat_map(Client::uploads)
    }

    /// The totals so far.
    pub fn figures(&self) -> Figures {
        let mut figures = Figures {
            checks: self.checks,
            violations: self.violations.len() as u64,
            ..Figures::default()
        };
        for upload in self.uploads() {
            let acknowledges =
                |record: &&Record| matches!(record.event, Event::Committed(_) | Event::Finished(_));
            let promise = upload.promise();
            figures.uploads += 1;
            figures.finished += u64::from(promise.finished.is_some());
            figures.cancelled += u64::from(promise.cancelled);
            figures.acknowledgements += upload.records().iter().filter(acknowledges).count() as u64;
            figures.bytes += match promise.finished {
                Some(_) => promise.sent,
                None => promise.offset,
            };
        }
        figures
    }

    /// The losses so far, whatever rule reports them.
    pub fn lost_bytes(&self) -> LostBytes {
        let mut lost_bytes = LostBytes::default();
        for upload in self.uploads().filter(|upload| upload.lost() > 0) {
            lost_bytes.uploads += 1;
            lost_bytes.finished += u64::from(upload.promise().finished.is_some());
            lost_bytes.worst = lost_bytes.worst.max(upload.lost());
        }
        lost_bytes
    }

    /// Lets every client do something at the same time, then gathers the violations.
    fn each(
        &mut self,
        address: SocketAddr,
        work: impl Fn(&mut Client, &Scene<'_>, Option<&Listing>) -> io::Result<u64> + Sync,
    ) {
        let moment = self.moment();
        let scene = self.scene(address, &moment);
        let done = match patiently(|| self.dialect.listing(address)) {
            Err(error) => vec![Err(error)],
            Ok(listing) => side_by_side(&mut self.clients, |client| {
                work(client, &scene, listing.as_ref())
            }),
        };
        for result in done {
            match result {
                Ok(checks) => self.checks += checks,
                Err(error) => self.violations.push(Violation {
                    upload: "every upload of a client".to_owned(),
                    rule: Rule::Stuck(error.to_string()),
                }),
            }
        }
        self.gather_violations();
    }

    fn gather_violations(&mut self) {
        for upload in self.clients.iter_mut().flat_map(Client::uploads_mut) {
            self.violations.extend(upload.take_violations());
        }
    }

    fn moment(&self) -> impl Fn() -> (Duration, u64) + Sync + use<> {
        let (begun, stamp) = (self.begun, Arc::clone(&self.stamp));
        move || (begun.elapsed(), stamp())
    }

    fn scene<'a>(
        &self,
        address: SocketAddr,
        moment: &'a (dyn Fn() -> (Duration, u64) + Sync),
    ) -> Scene<'a> {
        Scene {
            dialect: Arc::clone(&self.dialect),
            address,
            patience: self.patience,
            moment,
        }
    }
}

impl Client {
    fn new(index: usize) -> Self {
        Self {
            index,
            ..Self::default()
        }
    }

    fn run(&mut self, scene: &Scene<'_>, stop: &AtomicBool, load: &Load, seed: u64) {
        while !stop.load(Ordering::Relaxed) {
            let may_begin = load.uploads.is_none_or(|limit| self.begun < limit);
            if self.current.is_none() && !may_begin {
                return;
            }
            let upload = match &mut self.current {
                Some(upload) => upload,
                none => none.insert(Upload::begin(load, seed, self.index, self.begun)),
            };
            if upload.records().is_empty() {
                self.begun += 1;
            }
            if upload.step(scene).is_err() {
                std::thread::sleep(PAUSE);
            }
            if upload.is_over() {
                self.over.extend(self.current.take());
            }
        }
    }

    fn check(&mut self, scene: &Scene<'_>, listing: Option<&Listing>) -> io::Result<u64> {
        let over = std::mem::take(&mut self.over);
        let mut checks = over.len() as u64;
        self.settled.extend(over);
        let new = self.settled.len() - usize::try_from(checks).expect("a length");
        for upload in &mut self.settled[new..] {
            upload.check(scene);
            patiently(|| upload.check_resource(scene, listing))?;
        }
        if let Some(upload) = &mut self.current {
            upload.check(scene);
            checks += 1;
        }
        if self.current.as_ref().is_some_and(Upload::is_let_down) {
            self.settled.extend(self.current.take());
        }
        Ok(checks)
    }

    fn finish(&mut self, scene: &Scene<'_>) {
        if let Some(mut upload) = self.current.take() {
            upload.finish(scene);
            self.over.push(upload);
        }
    }

    fn check_all(&mut self, scene: &Scene<'_>, listing: Option<&Listing>) -> io::Result<u64> {
        self.over.append(&mut self.settled);
        self.check(scene, listing)
    }

    fn at(&self, stamp: u64) -> Self {
        let uploads = self.uploads().map(|upload| upload.at(stamp));
        let (over, running): (Vec<_>, Vec<_>) = uploads
            .filter(|upload| !upload.records().is_empty())
            .partition(Upload::is_over);
        // A client makes one upload after another: at most one runs.
        Self {
            current: running.into_iter().last(),
            over,
            settled: Vec::new(),
            ..*self
        }
    }

    fn uploads(&self) -> impl Iterator<Item = &Upload> {
        self.settled.iter().chain(&self.over).chain(&self.current)
    }

    fn uploads_mut(&mut self) -> impl Iterator<Item = &mut Upload> {
        self.settled
            .iter_mut()
            .chain(&mut self.over)
            .chain(&mut self.current)
    }
}

/// Does the same with every client, each on a separate thread.
fn side_by_side<T: Send>(clients: &mut [Client], work: impl Fn(&mut Client) -> T + Sync) -> Vec<T> {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = clients
            .iter_mut()
            .map(|client| scope.spawn(move || work(client)))
            .collect();
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined
            .map(|done| done.expect("clients do not panic"))
            .collect()
    })
}

/// Tries again for a while: a server that has just come back may still be busy.
fn patiently<T>(mut work: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    const TRIES: u32 = 40;
    for _ in 0..TRIES {
        if let Ok(done) = work() {
            return Ok(done);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    work()
}
