//! Limited resources: pools, and the permits for parts of them.
//!
//! A front or the engine creates one [`Pool`] for each resource that clients can make the server
//! hold. A request that does not fit is refused with [`Full`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use crate::importance::Importance;

/// A resource that clients can make the server hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitedResource {
    /// Connections.
    Connections,
    /// Requests, from their head until their reply is sent. Over HTTP/2 these are streams.
    Requests,
    /// Requests that wait because the limit on them, or the part of it for their importance, is
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

/// The limit on a resource is reached. The request may be repeated after a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server's limit on {} is reached; try again", .0.text())]
pub struct Full(pub LimitedResource);

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

impl LimitedResource {
    /// Returns its name in metrics.
    pub fn label(self) -> &'static str {
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
    pub fn is_in_bytes(self) -> bool {
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

    /// Returns the words for it in messages.
    pub fn text(self) -> &'static str {
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

/// The unit in which bytes are counted.
pub(crate) const KIB: u64 = 1024;

// The last eighth of a pool of bytes is for small permits, so that a few clients with large documents do not
// lock out all other clients. Half of this eighth is for clients with few requests. A permit that
// is not small has at most three quarters of the pool, so that a single large permit succeeds
// although small permits exist.
/// Size in bytes up to which a permit is small.
const SMALL: u64 = 64 * KIB;

/// A limited amount of a resource. Requests hold permits for parts of it.
#[derive(Debug, Clone)]
pub struct Pool(Arc<State>);

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
pub struct Permit {
    pool: Pool,
    units: u32,
    /// Number of units that the permit leaves free when it grows.
    leaves: u32,
}

impl Pool {
    /// Creates a pool of `count` items.
    pub fn of_count(resource: LimitedResource, count: usize) -> Self {
        let total = units(count as u64, 1);
        Self::new(resource, 1, total, [total, 0, 0])
    }

    /// Creates a pool of `bytes`.
    pub fn of_bytes(resource: LimitedResource, bytes: u64) -> Self {
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
    pub fn for_large(resource: LimitedResource, bytes: u64) -> Self {
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
    pub fn take(&self) -> Result<Permit, Full> {
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
    pub fn is_short(&self) -> bool {
        let State { total, free, .. } = &*self.0;
        free.available_permits() < (*total / 4) as usize
    }

    /// Whether nothing is free, so that other requests may be waiting.
    pub fn is_empty(&self) -> bool {
        self.0.free.available_permits() == 0
    }

    /// Like [`Pool::take`], but leaves the last units to more important requests. The importance is
    /// computed only if it can make a difference.
    pub fn take_for(&self, importance: impl FnOnce() -> Importance) -> Result<Permit, Full> {
        self.try_take_for(importance).ok_or_else(|| self.full())
    }

    /// Like [`Pool::take_for`], but a failed attempt is not counted as a refusal.
    pub fn try_take_for(&self, importance: impl FnOnce() -> Importance) -> Option<Permit> {
        let has_room =
            self.has_room(Importance::Start.leaves()) || self.has_room(importance().leaves());
        has_room.then(|| self.try_take_one())?
    }

    /// Waits at most `timeout` for a unit to be released, and leaves the last units to more important
    /// requests. Call it only after [`Pool::try_take_for`] has failed: a unit that is free already
    /// ends no wait.
    ///
    /// # Errors
    /// [`Full`] after `timeout`.
    ///
    /// # Cancel safety
    /// This method is cancel safe. A dropped call takes nothing.
    pub async fn wait_for(
        &self,
        importance: Importance,
        timeout: Duration,
    ) -> Result<Permit, Full> {
        let released = &self.0.released[importance.leaves() as usize];
        let unit = async {
            loop {
                // `notify_one` keeps one notification, so a release between the failed attempt and
                // this wait is not missed. Of several, the waiters share one.
                released.notified().await;
                if let Some(permit) = self.try_take_for(|| importance) {
                    return permit;
                }
            }
        };
        let unit = tokio::time::timeout(timeout, unit).await;
        unit.map_err(|_| self.full())
    }

    /// Whether more than this number of sixteenths of the pool is free.
    fn has_room(&self, leaves: u32) -> bool {
        let State { total, free, .. } = &*self.0;
        free.available_permits() as u64 > u64::from(*total) * u64::from(leaves) / 16
    }

    /// Returns an empty permit.
    pub fn permit(&self) -> Permit {
        Permit {
            pool: self.clone(),
            units: 0,
            leaves: self.0.for_modest,
        }
    }

    /// Returns an empty permit for a request. The permit of a modest client may take the last
    /// units. The importance is computed only if it can make a difference.
    pub fn permit_for(&self, importance: impl FnOnce() -> Importance) -> Permit {
        let mut permit = self.permit();
        if self.is_short() && importance() == Importance::Modest {
            permit.leaves = 0;
        }
        permit
    }

    /// Waits at most `timeout` for a permit of `amount` bytes or items. An amount above the largest
    /// permit gets the largest permit. Waiting callers are served in order.
    ///
    /// The caller must hold no permit of this pool. Two callers that hold a permit and wait could
    /// wait for each other.
    ///
    /// # Errors
    /// [`Full`] after `timeout`.
    ///
    /// # Cancel safety
    /// This method is cancel safe. A dropped call loses only its turn.
    pub async fn wait(&self, amount: u64, timeout: Duration) -> Result<Permit, Full> {
        let taken = tokio::time::timeout(timeout, self.acquire(amount));
        taken.await.map_err(|_| self.full())
    }

    /// Like [`Pool::wait`], without a timeout.
    pub async fn acquire(&self, amount: u64) -> Permit {
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

    /// Returns how much of the pool is in use.
    pub fn usage(&self) -> Usage {
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
    pub fn full(&self) -> Full {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
        Full(self.0.resource)
    }
}

impl Permit {
    /// Resizes the permit to `amount`.
    ///
    /// # Errors
    /// [`Full`] if the pool has too few units. The permit keeps its size.
    pub fn resize(&mut self, amount: u64) -> Result<(), Full> {
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
    #[must_use]
    pub fn another(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            units: 0,
            leaves: self.leaves,
        }
    }

    /// Gives back units, so that the permit covers `amount` and no more.
    pub fn shrink(&mut self, amount: u64) {
        let wanted = self.pool.wanted(amount);
        if wanted < self.units {
            self.give_back(self.units - wanted);
            self.units = wanted;
        }
    }

    /// Like [`Permit::resize`], but an empty permit waits at most `timeout`. A permit that holds units
    /// fails at once: if it waited for more, it could deadlock with another permit.
    ///
    /// # Errors
    /// [`Full`] if the units are not free, or not in time.
    ///
    /// # Cancel safety
    /// This method is cancel safe. The permit keeps its size.
    pub async fn resize_in_time(&mut self, amount: u64, timeout: Duration) -> Result<(), Full> {
        if self.units == 0 && self.resize(amount).is_err() {
            *self = self.pool.wait(amount, timeout).await?;
        }
        self.resize(amount)
    }

    /// Attaches the permit to `bytes`, until their last reference is dropped.
    pub fn with(self, bytes: Bytes) -> Bytes {
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

/// Returns the units of an amount. Half of the maximum stands for more, so that sums do not overflow.
pub(crate) fn units(amount: u64, unit: u64) -> u32 {
    u32::try_from(amount.div_ceil(unit)).unwrap_or(u32::MAX / 2)
}

#[cfg(test)]
mod tests;
