//! How far an upload is, for those who watch it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use windlass_proto::transfer::Wait;

use crate::journal::RecordId;

/// How far an upload is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes that the server has committed.
    pub committed: u64,
    /// Offset behind the last byte that was handed to the network. What lies between this and
    /// `committed` is on its way, or lost.
    pub sent: u64,
    /// Size of the media, if it is known.
    pub total: Option<u64>,
    /// Bytes per second over the last five seconds.
    pub rate: u64,
    /// What is going on.
    pub state: State,
    /// By what name the journal knows the upload, once it is there.
    pub upload: Option<RecordId>,
}

/// What is going on in an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// A session is being started.
    Starting,
    /// Media is being read that comes by itself.
    Reading,
    /// Media is on its way.
    Sending,
    /// Everything is sent; the server has not answered yet.
    Finishing,
    /// The server is asked what it has.
    Asking,
    /// Something went wrong; it will be tried again.
    Waiting(Wait),
    /// Another token is being fetched.
    RefreshingToken,
    /// The media is compared with what the server says of it.
    Checking,
}

impl Progress {
    /// How long it will take at this rate.
    pub fn time_left(&self) -> Option<Duration> {
        let left = self.total?.saturating_sub(self.sent);
        let seconds = left.checked_div(self.rate)?;
        Some(Duration::from_secs(seconds))
    }
}

/// Somebody who watches.
#[derive(Clone)]
pub(crate) struct ProgressCallback(Arc<dyn Fn(&Progress) + Send + Sync>);

impl ProgressCallback {
    pub(crate) fn new(watch: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        Self(Arc::new(watch))
    }

    pub(crate) fn report(&self, progress: &Progress) {
        (self.0)(progress);
    }
}

impl fmt::Debug for ProgressCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watcher(..)")
    }
}

/// Counts what leaves. Shared with the body of the request that is under way.
#[derive(Debug, Clone, Default)]
pub(crate) struct ByteCounter(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    /// Offset behind the last byte that left.
    sent: AtomicU64,
    /// All bytes that left, those that had to be sent again too.
    transferred: AtomicU64,
}

impl ByteCounter {
    /// A request begins at this offset.
    pub(crate) fn start_at(&self, offset: u64) {
        self.0.sent.store(offset, Ordering::Relaxed);
    }

    /// So many more bytes left.
    pub(crate) fn add(&self, bytes: u64) {
        self.0.sent.fetch_add(bytes, Ordering::Relaxed);
        self.0.transferred.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn sent(&self) -> u64 {
        self.0.sent.load(Ordering::Relaxed)
    }

    fn transferred(&self) -> u64 {
        self.0.transferred.load(Ordering::Relaxed)
    }
}

/// The rate over the last seconds.
#[derive(Debug)]
pub(crate) struct RateMeter {
    counter: ByteCounter,
    samples: VecDeque<(Instant, u64)>,
}

/// What "the last seconds" are.
const WINDOW: Duration = Duration::from_secs(5);

impl RateMeter {
    pub(crate) fn new(counter: ByteCounter) -> Self {
        let samples = VecDeque::from([(Instant::now(), counter.transferred())]);
        Self { counter, samples }
    }

    /// Bytes per second.
    pub(crate) fn bytes_per_second(&mut self) -> u64 {
        let (now, transferred) = (Instant::now(), self.counter.transferred());
        self.samples.push_back((now, transferred));
        while self.samples.len() > 2 && now.duration_since(self.samples[1].0) >= WINDOW {
            self.samples.pop_front();
        }
        let (since, before) = self.samples[0];
        let millis = now.duration_since(since).as_millis().max(1);
        u64::try_from(u128::from(transferred - before) * 1000 / millis).unwrap_or(u64::MAX)
    }
}
