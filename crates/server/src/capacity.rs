//! Limits on the resources that clients can make the server hold.
//!
//! Each resource is counted in one [`Pool`], created in [`Capacity::new`]. A request that does not
//! fit is refused with 503 by the table of errors. docs/configuration.md lists all limits.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use crate::byte_shares::ByteShares;
use crate::config::Limits;
use crate::importance::Importance;
use crate::shares::{Caller, Shares};

/// Maximum number of files that are open because a handler or a digest needs to read media. Further
/// reads of handlers wait for [`Limits::takeover_timeout`] and are then refused (503). Further
/// reads for digests wait without a limit.
pub const MEDIA_READS: usize = 64;

/// Maximum number of calls that concatenate existing media. Each call takes as long as a copy, on
/// few threads. Further calls wait for [`Limits::takeover_timeout`] and are then refused (503).
pub const CONCATENATIONS: usize = 16;

/// Maximum number of concurrent concatenations of one caller.
const CONCATENATIONS_OF_A_CALLER: usize = CONCATENATIONS / 4;

// The limit on requests bounds all short replies together. An upload must not fail at its end
// because other clients do not read their replies.
/// Replies up to this length in bytes are not counted.
pub(crate) const SHORT_REPLY: usize = 4 * 1024;

/// A resource that clients can make the server hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitedResource {
    /// Connections.
    Connections,
    /// Requests, from their head until their reply is sent. Over HTTP/2 these are streams.
    Requests,
    /// Requests that wait because [`Limits::requests`], or the part of it for their importance, is
    /// reached.
    WaitingRequests,
    /// Running uploads. Each may have a file open.
    Uploads,
    /// Running downloads. Each may have a file open.
    Downloads,
    /// Calls that concatenate existing media.
    Concatenations,
    /// Calls that wait for a service that answers methods. Each service also has its own limit,
    /// which is not in any [`Usage`].
    BackendCalls,
    /// Files that are open because media is read by a handler or for a digest.
    MediaReads,
    /// Calls that match long texts with the patterns of their description.
    PatternChecks,
    /// Bytes of heads, of the JSON of requests, and of its parsed form.
    Metadata,
    /// Bytes of JSON requests with media inside.
    LargeBodies,
    /// Bytes of replies, media included, and of their sources.
    Replies,
    /// Bytes of JSON replies with media inside.
    LargeReplies,
    /// Bytes of media that is read into memory as a whole.
    Reading,
    /// Pooled bytes of media that was received and is not written yet.
    Media,
}

/// The limit on a resource is reached. The reply is 503 with `Retry-After: 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server's limit on {} is reached; try again", .0.text())]
pub struct Full(pub(crate) LimitedResource);

/// The use of one limited resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// The resource.
    pub resource: LimitedResource,
    /// Amount in use: bytes, as a multiple of 1,024, or a count, depending on the resource.
    pub used: u64,
    /// Maximum amount, in the same unit.
    pub limit: u64,
    /// Number of refusals since the start.
    pub refused: u64,
}

/// The pools of all limited resources. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Capacity {
    pub(crate) connections: Pool,
    pub(crate) requests: Pool,
    waiting_requests: Pool,
    pub(crate) uploads: Pool,
    pub(crate) downloads: Pool,
    pub(crate) concatenations: Pool,
    pub(crate) concatenation_shares: Arc<Shares<Caller>>,
    pub(crate) media_reads: Pool,
    pub(crate) pattern_checks: Pool,
    pub(crate) metadata: Pool,
    pub(crate) large_bodies: Pool,
    pub(crate) replies: Pool,
    pub(crate) large_replies: Pool,
    /// Limits each caller to half of the bytes of large replies, so that a caller that reads its
    /// replies slowly does not keep all other callers from such replies.
    pub(crate) large_reply_shares: Arc<ByteShares<Caller>>,
    /// Memory of media that is read as a whole.
    pub(crate) reading: Pool,
    /// Maximum time for which a request waits for a pool.
    pub(crate) timeout: Duration,
}

/// How long a request waits for a slot before it is refused. Clients retry at once after an
/// immediate refusal, and in an overload such refusals would take most of the processor time.
const PLACE_WAIT: Duration = Duration::from_secs(1);

impl LimitedResource {
    /// Returns its name in metrics.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Requests => "requests",
            Self::WaitingRequests => "waiting_requests",
            Self::Uploads => "uploads",
            Self::Downloads => "downloads",
            Self::Concatenations => "concatenations",
            Self::BackendCalls => "backend_calls",
            Self::MediaReads => "media_reads",
            Self::PatternChecks => "pattern_checks",
            Self::Metadata => "metadata",
            Self::LargeBodies => "large_bodies",
            Self::Replies => "replies",
            Self::LargeReplies => "large_replies",
            Self::Reading => "reading",
            Self::Media => "media",
        }
    }

    /// Whether the resource is measured in bytes. Other resources are counted.
    pub(crate) fn is_in_bytes(self) -> bool {
        match self {
            Self::Connections
            | Self::Requests
            | Self::WaitingRequests
            | Self::Uploads
            | Self::Downloads
            | Self::Concatenations
            | Self::BackendCalls
            | Self::MediaReads
            | Self::PatternChecks => false,
            Self::Metadata
            | Self::LargeBodies
            | Self::Replies
            | Self::LargeReplies
            | Self::Reading
            | Self::Media => true,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Requests => "concurrent requests",
            Self::WaitingRequests => "requests that wait",
            Self::Uploads => "concurrent uploads",
            Self::Downloads => "concurrent downloads",
            Self::Concatenations => "calls that put media together",
            Self::BackendCalls => "calls of the service behind this method",
            Self::MediaReads | Self::Reading => "media that handlers read",
            Self::PatternChecks => "calls that match long texts with patterns",
            Self::Metadata => "memory for metadata",
            Self::Media => "memory for media",
            Self::LargeBodies => "memory for JSON with media inside",
            Self::Replies | Self::LargeReplies => "memory for replies",
        }
    }
}

impl Capacity {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            connections: Pool::of_count(LimitedResource::Connections, limits.connections),
            requests: Pool::of_count(LimitedResource::Requests, limits.requests),
            waiting_requests: Pool::of_count(LimitedResource::WaitingRequests, limits.connections),
            uploads: Pool::of_count(LimitedResource::Uploads, limits.uploads),
            downloads: Pool::of_count(LimitedResource::Downloads, limits.downloads),
            concatenations: Pool::of_count(LimitedResource::Concatenations, CONCATENATIONS),
            concatenation_shares: Arc::new(Shares::new(CONCATENATIONS_OF_A_CALLER)),
            media_reads: Pool::of_count(LimitedResource::MediaReads, MEDIA_READS),
            pattern_checks: Pool::of_count(LimitedResource::PatternChecks, pattern_checks()),
            metadata: Pool::of_bytes(LimitedResource::Metadata, limits.metadata_memory),
            large_bodies: Pool::for_large(LimitedResource::LargeBodies, limits.reading_memory),
            replies: Pool::of_bytes(LimitedResource::Replies, limits.reply_memory),
            large_replies: Pool::for_large(LimitedResource::LargeReplies, limits.reading_memory),
            large_reply_shares: Arc::new(ByteShares::new(limits.reading_memory / 2)),
            reading: Pool::for_large(LimitedResource::Reading, limits.reading_memory),
            timeout: limits.takeover_timeout,
        }
    }

    /// Returns a permit for a request, and waits a short time for it. The number of waiting
    /// requests is limited to the number of connections.
    ///
    /// # Errors
    /// [`Full`] if no permit was free in time, or too many requests wait.
    pub(crate) async fn admit_request(
        &self,
        importance: impl Fn() -> Importance,
    ) -> Result<Permit, Full> {
        match self.requests.try_take_for(&importance) {
            Some(permit) => Ok(permit),
            // Boxed to keep the future of the common case small.
            None => Box::pin(self.wait_for_request(importance())).await,
        }
    }

    async fn wait_for_request(&self, importance: Importance) -> Result<Permit, Full> {
        let _waiting = self.waiting_requests.take()?;
        let released = &self.requests.0.released[importance.leaves() as usize];
        let place = async {
            loop {
                // `notify_one` keeps one notification, so a release before this wait is not missed.
                released.notified().await;
                if let Some(permit) = self.requests.try_take_for(|| importance) {
                    return permit;
                }
            }
        };
        let place = tokio::time::timeout(PLACE_WAIT, place).await;
        place.map_err(|_| self.requests.full())
    }

    /// Returns the use of all resources.
    pub(crate) fn usage(&self) -> Vec<Usage> {
        let pools = [
            &self.connections,
            &self.requests,
            &self.waiting_requests,
            &self.uploads,
            &self.downloads,
            &self.concatenations,
            &self.media_reads,
            &self.pattern_checks,
            &self.metadata,
            &self.large_bodies,
            &self.replies,
            &self.large_replies,
            &self.reading,
        ];
        pools.map(Pool::usage).into()
    }

    /// Counts the text of a reply until its last reference is dropped. A short text is not counted.
    pub(crate) fn reply(
        &self,
        text: Bytes,
        importance: impl FnOnce() -> Importance,
    ) -> Result<Bytes, Full> {
        if text.len() <= SHORT_REPLY {
            return Ok(text);
        }
        let mut permit = self.replies.permit_for(importance);
        permit.resize(text.len() as u64)?;
        Ok(permit.with(text))
    }
}

/// Half of the processors, so that uploads continue while texts are matched.
fn pattern_checks() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    processors.div_ceil(2)
}

/// The unit in which bytes are counted.
const KIB: u64 = 1024;

// The last eighth of a pool is for small permits, so that a few clients with large documents do not
// lock out all other clients. Half of this eighth is for clients with few requests. A permit that
// is not small has at most three quarters of the pool, so that a single large permit succeeds
// although small permits exist.
/// Size in bytes up to which a permit is small.
const SMALL: u64 = 64 * KIB;

/// A limited amount of a resource. Requests hold permits for parts of it.
#[derive(Debug, Clone)]
pub(crate) struct Pool(Arc<State>);

#[derive(Debug)]
struct State {
    resource: LimitedResource,
    /// Amount of one unit: 1, or 1 KiB.
    unit: u64,
    total: u32,
    /// Maximum number of units of one permit, unless it is small.
    largest: u32,
    /// Number of units that large permits leave for small permits.
    reserved: u32,
    /// Number of units that other permits leave for modest clients.
    for_modest: u32,
    free: Semaphore,
    /// Wakes one waiter per importance, by the number of sixteenths that the importance leaves
    /// free. Waking one waiter in all is not enough: it may have to leave the free units to a more
    /// important request.
    released: [Notify; 5],
    refused: AtomicU64,
}

/// Units of a pool. Dropping the permit gives them back.
#[derive(Debug)]
pub(crate) struct Permit {
    pool: Pool,
    units: u32,
    /// Number of units that the permit leaves free when it grows.
    leaves: u32,
}

impl Pool {
    /// Creates a pool of `count` items.
    pub(crate) fn of_count(resource: LimitedResource, count: usize) -> Self {
        let total = units(count as u64, 1);
        Self::new(resource, 1, total, [total, 0, 0])
    }

    /// Creates a pool of `bytes`.
    fn of_bytes(resource: LimitedResource, bytes: u64) -> Self {
        // The parts of the pool at `SMALL`: for the largest permit, for small permits, and for
        // clients with few requests.
        let total = units(bytes, KIB);
        Self::new(
            resource,
            KIB,
            total,
            [total - total / 4, total / 8, total / 16],
        )
    }

    /// Creates a pool of `bytes` for large values. A value larger than the pool gets the whole
    /// pool.
    fn for_large(resource: LimitedResource, bytes: u64) -> Self {
        let total = units(bytes, KIB);
        Self::new(resource, KIB, total, [total, 0, 0])
    }

    fn new(
        resource: LimitedResource,
        unit: u64,
        total: u32,
        [largest, reserved, for_modest]: [u32; 3],
    ) -> Self {
        Self(Arc::new(State {
            resource,
            unit,
            total,
            largest,
            reserved,
            for_modest,
            free: Semaphore::new(total as usize),
            released: Default::default(),
            refused: AtomicU64::new(0),
        }))
    }

    /// Takes one unit, or fails at once.
    pub(crate) fn take(&self) -> Result<Permit, Full> {
        self.try_take_one().ok_or_else(|| self.full())
    }

    fn try_take_one(&self) -> Option<Permit> {
        self.try_take(1, 0).then(|| Permit {
            pool: self.clone(),
            units: 1,
            leaves: 0,
        })
    }

    /// Whether less than a quarter is free, so that requests should be given less time.
    pub(crate) fn is_short(&self) -> bool {
        let State { total, free, .. } = &*self.0;
        free.available_permits() < (*total / 4) as usize
    }

    /// Whether nothing is free, so that other requests may be waiting.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.free.available_permits() == 0
    }

    /// Like [`Pool::take`], but leaves the last units to more important requests. The importance is
    /// computed only if it can make a difference.
    pub(crate) fn take_for(&self, importance: impl FnOnce() -> Importance) -> Result<Permit, Full> {
        self.try_take_for(importance).ok_or_else(|| self.full())
    }

    /// Like [`Pool::take_for`], but a failed attempt is not counted as a refusal.
    fn try_take_for(&self, importance: impl FnOnce() -> Importance) -> Option<Permit> {
        let has_room =
            self.has_room(Importance::Start.leaves()) || self.has_room(importance().leaves());
        has_room.then(|| self.try_take_one())?
    }

    /// Whether more than this number of sixteenths of the pool is free.
    fn has_room(&self, leaves: u32) -> bool {
        let State { total, free, .. } = &*self.0;
        free.available_permits() as u64 > u64::from(*total) * u64::from(leaves) / 16
    }

    /// Returns an empty permit.
    pub(crate) fn permit(&self) -> Permit {
        Permit {
            pool: self.clone(),
            units: 0,
            leaves: self.0.for_modest,
        }
    }

    /// Returns an empty permit for a request. The permit of a modest client may take the last
    /// units. The importance is computed only if it can make a difference.
    pub(crate) fn permit_for(&self, importance: impl FnOnce() -> Importance) -> Permit {
        let mut permit = self.permit();
        if self.is_short() && importance() == Importance::Modest {
            permit.leaves = 0;
        }
        permit
    }

    /// Waits at most `timeout` for a permit of `amount`. Waiting callers are served in order.
    ///
    /// The caller must hold no permit of this pool. Two callers that hold a permit and wait could
    /// wait for each other.
    pub(crate) async fn wait(&self, amount: u64, timeout: Duration) -> Result<Permit, Full> {
        let taken = tokio::time::timeout(timeout, self.acquire(amount));
        taken.await.map_err(|_| self.full())
    }

    /// Like [`Pool::wait`], without a timeout.
    pub(crate) async fn acquire(&self, amount: u64) -> Permit {
        let units = self.wanted(amount);
        let taken = self.0.free.acquire_many(units).await;
        // Forgotten, since the permit returns the units itself.
        taken.expect("the semaphore is never closed").forget();
        Permit {
            pool: self.clone(),
            units,
            leaves: self.0.for_modest,
        }
    }

    fn usage(&self) -> Usage {
        let State {
            resource,
            unit,
            total,
            free,
            refused,
            ..
        } = &*self.0;
        let used = u64::from(*total).saturating_sub(free.available_permits() as u64);
        Usage {
            resource: *resource,
            used: used * unit,
            limit: u64::from(*total) * unit,
            refused: refused.load(Ordering::Relaxed),
        }
    }

    /// Returns the units of an amount, at most the maximum of one permit.
    fn wanted(&self, amount: u64) -> u32 {
        let State {
            unit,
            total,
            largest,
            ..
        } = *self.0;
        let largest = if amount > SMALL { largest } else { total };
        units(amount, unit).min(largest)
    }

    /// Takes units if at least `leaves` units remain free. Does not wait.
    fn try_take(&self, units: u32, leaves: u32) -> bool {
        let free = &self.0.free;
        let is_there = free.available_permits() >= (units + leaves) as usize;
        is_there
            && free
                .try_acquire_many(units)
                .map(SemaphorePermit::forget)
                .is_ok()
    }

    /// Returns and counts a refusal.
    pub(crate) fn full(&self) -> Full {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
        Full(self.0.resource)
    }
}

impl Permit {
    /// Resizes the permit to `amount`.
    ///
    /// # Errors
    /// [`Full`] if the pool has too few units. The permit keeps its size.
    pub(crate) fn resize(&mut self, amount: u64) -> Result<(), Full> {
        let wanted = self.pool.wanted(amount);
        if let Some(more) = wanted.checked_sub(self.units) {
            let reserved = if amount > SMALL {
                self.pool.0.reserved
            } else {
                0
            };
            if more > 0 && !self.pool.try_take(more, reserved.max(self.leaves)) {
                return Err(self.pool.full());
            }
            self.units = wanted;
        }
        self.shrink(amount);
        Ok(())
    }

    /// Returns an empty permit for the same request.
    pub(crate) fn another(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            units: 0,
            leaves: self.leaves,
        }
    }

    /// Gives back units, so that the permit covers `amount` and no more.
    pub(crate) fn shrink(&mut self, amount: u64) {
        let wanted = self.pool.wanted(amount);
        if wanted < self.units {
            self.give_back(self.units - wanted);
            self.units = wanted;
        }
    }

    /// Like [`Permit::resize`], but waits if the permit is empty. A permit that holds units and
    /// waits for more could deadlock with another permit.
    pub(crate) async fn resize_in_time(
        &mut self,
        amount: u64,
        timeout: Duration,
    ) -> Result<(), Full> {
        if self.units == 0 && self.resize(amount).is_err() {
            *self = self.pool.wait(amount, timeout).await?;
        }
        self.resize(amount)
    }

    /// Attaches the permit to `bytes`, until their last reference is dropped.
    pub(crate) fn with(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(BytesWithPermit {
            bytes,
            _permit: self,
        })
    }

    fn give_back(&self, units: u32) {
        self.pool.0.free.add_permits(units as usize);
        for (leaves, released) in (0..).zip(&self.pool.0.released) {
            if self.pool.has_room(leaves) {
                released.notify_one();
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.give_back(self.units);
    }
}

struct BytesWithPermit {
    bytes: Bytes,
    _permit: Permit,
}

impl AsRef<[u8]> for BytesWithPermit {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn units(amount: u64, unit: u64) -> u32 {
    u32::try_from(amount.div_ceil(unit)).unwrap_or(u32::MAX / 2)
}

/// Returns an upper bound in bytes of the memory of the values parsed from a JSON text, without the
/// text. An array's element of two bytes becomes a value of 32 bytes, in a vector that may be half
/// empty, and an object has a table.
pub(crate) fn json_cost(text: &[u8]) -> u64 {
    const STRING: u64 = 32;
    const ELEMENT: u64 = 64;
    const ENTRY: u64 = 112;
    const ARRAY: u64 = 160;
    const OBJECT: u64 = 352;
    let mut cost = text.len() as u64;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        cost += match byte {
            b'"' => {
                skip_string(&mut bytes);
                STRING
            }
            b',' => ELEMENT,
            b':' => ENTRY,
            b'[' => ARRAY,
            b'{' => OBJECT,
            _ => 0,
        };
    }
    cost
}

fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
