//! The load: uploads over blocking sockets, from as many threads as there are connections.
//!
//! The load shares its processors with the server, so it does little. Requests are written from one
//! block of bytes that is used over and over. Of a reply, only the necessary part is read. An
//! unexpected status ends the whole run.

mod ask;
mod dialect;
mod failure;
mod http2;
mod media;
mod protocol;
mod slow;
mod uploader;
mod wire;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use dialect::{Shape, Targets};
pub(crate) use failure::Failure;
pub(crate) use media::Block;
pub(crate) use protocol::{Protocol, Tls, Transport};
pub(crate) use slow::{Crowd, Slow};
pub(crate) use uploader::Question;

use uploader::{Receipt, Uploader};

/// The number and size of the uploads, and the size of their pieces.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    /// Bytes of each upload.
    pub(crate) size: u64,
    /// How many uploads.
    pub(crate) count: u64,
    /// The number of the first one. Names and media come from the numbers.
    pub(crate) first: u64,
    /// Connections, each of which carries one upload at a time.
    pub(crate) connections: usize,
    /// Bytes of a chunk, for shapes that have chunks.
    pub(crate) chunk: u64,
    /// No upload begins after this time. Slow servers complete fewer uploads, and only these are
    /// measured.
    pub(crate) limit: Duration,
}

impl Load {
    /// One upload of this size on one connection, and no hurry.
    pub(crate) fn of_size(size: u64) -> Self {
        Self {
            size,
            count: 1,
            first: 0,
            connections: 1,
            chunk: size,
            limit: Duration::MAX,
        }
    }
}

/// The server, the shape of the uploads, and their media.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadTarget<'a> {
    /// Where the server listens.
    pub(crate) address: SocketAddr,
    /// Its URLs.
    pub(crate) targets: &'a Targets,
    /// The shape of an upload.
    pub(crate) shape: Shape,
    /// The media.
    pub(crate) block: &'a Block,
    /// The transport of the requests.
    pub(crate) transport: Transport<'a>,
}

/// The operation that each connection repeats.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Operation<'a> {
    /// Uploads.
    Upload,
    /// Opens sessions, and leaves them as they are.
    Begin,
    /// Asks sessions how much they have.
    Status(&'a [String]),
    /// Asks for lists.
    List,
    /// Downloads one of the uploads of an earlier load.
    Download(&'a Tally),
}

/// The result of a load.
#[derive(Debug)]
pub(crate) struct Tally {
    /// From the first connection to the last reply.
    pub(crate) elapsed: Duration,
    /// Number of acknowledged operations.
    pub(crate) done: u64,
    /// The bytes of all uploads or downloads.
    pub(crate) bytes: u64,
    /// The duration of each request, the quickest first.
    pub(crate) laps: Vec<Duration>,
    /// One of the uploads.
    sample: Option<Receipt>,
}

impl Tally {
    /// The time within which this share of the requests was answered; zero if there were none.
    pub(crate) fn quantile(&self, percent: usize) -> Duration {
        let index = (self.laps.len() * percent / 100).min(self.laps.len().saturating_sub(1));
        self.laps.get(index).copied().unwrap_or_default()
    }
}

/// Carries out a load.
///
/// # Errors
/// The first [`Failure`] of any connection. Earlier operations then do not count.
pub(crate) fn carry_out(
    load_target: LoadTarget<'_>,
    load: &Load,
    operation: Operation<'_>,
) -> Result<Tally, Failure> {
    let queue = Queue::new(load);
    let done = thread::scope(|scope| {
        let queue = &queue;
        let threads: Vec<_> = (0..load.connections)
            .map(|_| scope.spawn(move || work(Uploader::new(load_target, load), operation, queue)))
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().expect("a connection does not panic")
        };
        threads
            .into_iter()
            .map(join)
            .collect::<Result<Vec<Done>, _>>()
    })?;
    Ok(tally(queue.start.elapsed(), done))
}

/// Sends a request and waits for any reply.
///
/// # Errors
/// No reply came.
pub(crate) fn first_answer(load_target: LoadTarget<'_>) -> Result<(), Failure> {
    Uploader::new(load_target, &Load::of_size(0)).greet()
}

/// Opens this number of sessions in sequence, and returns their locations.
///
/// # Errors
/// The first [`Failure`].
pub(crate) fn begin(
    load_target: LoadTarget<'_>,
    load: &Load,
    count: u64,
) -> Result<Vec<String>, Failure> {
    let mut uploader = Uploader::new(load_target, load);
    (0..count).map(|number| uploader.begin(number)).collect()
}

/// Looks into a list.
///
/// # Errors
/// When it is not there, or not as long as it should be.
pub(crate) fn check_list(load_target: LoadTarget<'_>, load: &Load) -> Result<(), Failure> {
    Uploader::new(load_target, load).check_list()
}

/// Reads one of the uploads back and compares it with the sent media. Returns false if there is no
/// way to read it.
///
/// # Errors
/// It cannot be read, or differs.
pub(crate) fn compare(
    load_target: LoadTarget<'_>,
    load: &Load,
    tally: &Tally,
) -> Result<bool, Failure> {
    let Some(receipt) = &tally.sample else {
        return Ok(false);
    };
    Uploader::new(load_target, load).compare(receipt)
}

/// The uploads that are left to do.
struct Queue {
    next: AtomicU64,
    end: u64,
    limit: Duration,
    start: Instant,
    has_failed: AtomicBool,
}

impl Queue {
    fn new(load: &Load) -> Self {
        Self {
            next: AtomicU64::new(load.first),
            end: load.first.saturating_add(load.count),
            limit: load.limit,
            start: Instant::now(),
            has_failed: AtomicBool::new(false),
        }
    }

    fn next(&self) -> Option<u64> {
        if self.has_failed.load(Ordering::Relaxed) || self.start.elapsed() > self.limit {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.end).then_some(number)
    }
}

/// The results of one connection.
#[derive(Default)]
struct Done {
    count: u64,
    bytes: u64,
    laps: Vec<Duration>,
    last: Option<Receipt>,
}

fn work(
    mut uploader: Uploader<'_>,
    operation: Operation<'_>,
    queue: &Queue,
) -> Result<Done, Failure> {
    let mut done = Done::default();
    while let Some(number) = queue.next() {
        let result = act(&mut uploader, operation, number, &mut done);
        result.inspect_err(|_| queue.has_failed.store(true, Ordering::Relaxed))?;
        done.count += 1;
    }
    done.laps = uploader.into_laps();
    Ok(done)
}

fn act(
    uploader: &mut Uploader<'_>,
    operation: Operation<'_>,
    number: u64,
    done: &mut Done,
) -> Result<(), Failure> {
    match operation {
        Operation::Upload => {
            done.last = Some(uploader.upload(number)?);
            done.bytes += uploader.size();
            Ok(())
        }
        Operation::Begin => uploader.begin(number).map(drop),
        Operation::Status(sessions) => {
            let index = usize::try_from(number).unwrap_or_default() % sessions.len().max(1);
            let session = sessions.get(index).ok_or(Failure::NoTarget)?;
            uploader.status(session)
        }
        Operation::List => uploader.list().map(drop),
        Operation::Download(tally) => {
            uploader.download(tally.sample.as_ref().ok_or(Failure::NoTarget)?)?;
            done.bytes += uploader.size();
            Ok(())
        }
    }
}

fn tally(elapsed: Duration, done: Vec<Done>) -> Tally {
    let mut laps: Vec<_> = done.iter().flat_map(|done| &done.laps).copied().collect();
    laps.sort_unstable();
    Tally {
        elapsed,
        done: done.iter().map(|done| done.count).sum(),
        bytes: done.iter().map(|done| done.bytes).sum(),
        laps,
        sample: done.into_iter().find_map(|done| done.last),
    }
}

#[cfg(test)]
mod tests;
