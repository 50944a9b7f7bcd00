//! The progress of uploads, and the rate of uploads and downloads: measured and limited.

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use windlass_proto::transfer::Wait;

use crate::journal::RecordId;

/// A snapshot of an upload's progress.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Number of bytes that are known to be committed: the server has stored them durably and has
    /// said so. The number changes only with a reply of the server. While all media goes in one
    /// request, it often stays at 0 and only [`sent`](Self::sent) moves. A resumed upload begins
    /// with the number in the journal. When the upload is finished, it is the size of the media. If
    /// the server loses the session, it returns to 0.
    pub committed: u64,
    /// Offset after the last byte that the last request has taken from the source; at least
    /// `committed`. Bytes between `committed` and this offset may be in a buffer of this machine,
    /// on their way, at the server, or lost with a connection.
    pub sent: u64,
    /// Size of the media in bytes, if it is known.
    pub total: Option<u64>,
    /// Average number of bytes per second that requests took from the source over the last five
    /// seconds. Bytes that are sent again count again.
    pub rate: u64,
    /// State of the upload.
    pub state: State,
    /// Why the last request got no reply, in a few words, while the upload [waits](State::Waiting)
    /// because of that.
    pub broken: Option<String>,
    /// Id of the upload's record in the journal, once it has one.
    pub upload: Option<RecordId>,
}

/// The state of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// A session is being started, or the server is being asked which protocol it speaks.
    Starting,
    /// Media is being read from a stream.
    Reading,
    /// Media is being sent.
    Sending,
    /// The last request is sent, and its reply is awaited.
    Finishing,
    /// The server is being queried for the number of committed bytes.
    Querying,
    /// An attempt failed; the next one follows after a wait.
    Waiting(Wait),
    /// A new token is being fetched.
    RefreshingToken,
    /// The size and digests in the resource are being compared with the size and digests of the
    /// sent media. The media may be read again for that.
    Checking,
    /// The upload is finished and checked. This is the last event of a successful upload. A failed
    /// upload has no such event, because its error describes the failure.
    Done,
}

impl Progress {
    /// Returns the remaining time at the current rate; `None` if the size is unknown or the rate is
    /// zero.
    pub fn time_left(&self) -> Option<Duration> {
        let left = self.total?.saturating_sub(self.sent);
        let seconds = left.checked_div(self.rate)?;
        Some(Duration::from_secs(seconds))
    }
}

/// The caller's progress callback.
#[derive(Clone)]
pub(crate) struct ProgressCallback(Arc<dyn Fn(&Progress) + Send + Sync>);

impl ProgressCallback {
    pub(crate) fn new(callback: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        Self(Arc::new(callback))
    }

    pub(crate) fn report(&self, progress: &Progress) {
        (self.0)(progress);
    }
}

impl fmt::Debug for ProgressCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressCallback(..)")
    }
}

/// Counts the bytes of media that requests take from the source. The body of the current request
/// has a clone, which shares the counters.
// All accesses are relaxed, because no other data is published through the counters.
#[derive(Debug, Clone, Default)]
pub(crate) struct ByteCounter(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    /// Offset after the last byte that the last request has taken.
    sent: AtomicU64,
    /// Number of bytes that all requests have taken. Bytes that are sent again count again.
    transferred: AtomicU64,
}

impl ByteCounter {
    /// Records that a request begins at this offset.
    pub(crate) fn start_at(&self, offset: u64) {
        self.0.sent.store(offset, Ordering::Relaxed);
    }

    /// Adds bytes that the request has taken.
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

/// Measures the rate of sending over the last [`RATE_PERIOD`].
#[derive(Debug)]
pub(crate) struct RateMeter {
    counter: ByteCounter,
    /// When the meter was created and read, with the number of bytes transferred until then; oldest
    /// first.
    samples: VecDeque<(Instant, u64)>,
}

/// Period over which the rate is measured.
const RATE_PERIOD: Duration = Duration::from_secs(5);

impl RateMeter {
    pub(crate) fn new(counter: ByteCounter) -> Self {
        let samples = VecDeque::from([(Instant::now(), counter.transferred())]);
        Self { counter, samples }
    }

    /// Returns the current rate in bytes per second.
    pub(crate) fn bytes_per_second(&mut self) -> u64 {
        let (now, transferred) = (Instant::now(), self.counter.transferred());
        self.samples.push_back((now, transferred));
        while self.samples.len() > 2 && now.duration_since(self.samples[1].0) >= RATE_PERIOD {
            self.samples.pop_front();
        }
        let (since, before) = self.samples[0];
        let millis = now.duration_since(since).as_millis().max(1);
        u64::try_from(u128::from(transferred - before) * 1000 / millis).unwrap_or(u64::MAX)
    }
}

/// A limit of the rate at which media is sent and received. Uploads and downloads that use clones
/// of it share the rate.
#[derive(Debug, Clone)]
pub struct RateLimit(Arc<Bucket>);

#[derive(Debug)]
struct Bucket {
    bytes_per_second: u64,
    /// When all bytes reserved so far will have passed at the rate. `None` before the first.
    free_at: Mutex<Option<Instant>>,
}

impl RateLimit {
    /// Creates a limit of this number of bytes per second.
    pub fn new(bytes_per_second: NonZeroU64) -> Self {
        Self(Arc::new(Bucket {
            bytes_per_second: bytes_per_second.get(),
            free_at: Mutex::new(None),
        }))
    }

    /// Returns the number of bytes that may pass in a tenth of a second, but at least one.
    pub(crate) fn max_slice(&self) -> usize {
        let slice = (self.0.bytes_per_second / 10).max(1);
        usize::try_from(slice).unwrap_or(usize::MAX)
    }

    /// Reserves the passage of `bytes` bytes, and returns the wait before they may pass.
    pub(crate) fn reserve(&self, bytes: usize) -> Duration {
        let now = Instant::now();
        let nanos = u128::from(bytes as u64) * 1_000_000_000 / u128::from(self.0.bytes_per_second);
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let mut free_at = self
            .0
            .free_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let begin = free_at.unwrap_or(now).max(now);
        *free_at = Some(begin + takes);
        begin - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn bytes_pass_at_the_rate_and_idle_time_is_not_accumulated() {
        let limit = RateLimit::new(NonZeroU64::new(1000).expect("it is not zero"));
        assert_eq!(limit.reserve(500), Duration::ZERO);
        assert_eq!(limit.clone().reserve(500), Duration::from_millis(500));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(limit.reserve(1000), Duration::ZERO);
        assert_eq!(limit.reserve(1), Duration::from_secs(1));
    }
}
