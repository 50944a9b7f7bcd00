//! Bounds on what clients can make the server hold.
//!
//! Each resource is counted in one [`Pool`], created in [`Capacity::new`]. A request that does not
//! fit is refused with 503 by the table of errors. docs/configuration.md lists all bounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use crate::config::Limits;
use crate::importance::Importance;

/// Maximum number of files that are open because media is read by a handler or for a digest. Further reads of handlers
/// wait for [`Limits::takeover_timeout`] and are then refused (503), those for digests wait as long as it takes.
pub const MEDIA_READS: usize = 64;

/// Maximum number of calls that put media together from existing media: each takes as long as a copy, on few threads.
/// Further ones wait for [`Limits::takeover_timeout`] and are then refused (503).
pub const CONCATENATIONS: usize = 16;

// The limit on requests bounds all short replies together. An upload must not fail at its end because
// other clients do not take their replies.
/// Length in bytes up to which a reply does not count.
pub(crate) const SHORT_REPLY: usize = 4 * 1024;

/// A resource that clients can make the server hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitedResource {
    /// Connections.
    Connections,
    /// Requests, from their head until their reply is sent. Over HTTP/2 these are streams.
    Requests,
    /// Requests that are queued because [`Limits::requests`], or the part of it for their importance, is reached.
    WaitingRequests,
    /// Running uploads. Each may have a file open.
    Uploads,
    /// Running downloads. Each may have a file open.
    Downloads,
    /// Calls that put media together from existing media.
    Concatenations,
    /// Calls that wait for a service which answers methods. Each service has its own bound, not in any [`Usage`].
    BackendCalls,
    /// Files that are open because media is read by a handler or for a digest.
    MediaReads,
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
    /// Amount in use: bytes, a multiple of 1,024, or a count. It depends on the resource.
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
    pub(crate) media_reads: Pool,
    pub(crate) metadata: Pool,
    pub(crate) large_bodies: Pool,
    pub(crate) replies: Pool,
    pub(crate) large_replies: Pool,
    /// Memory of media that is read as a whole.
    pub(crate) reading: Pool,
    /// How long a request waits for a pool in which it may wait.
    pub(crate) timeout: Duration,
}

/// How long a request waits for a place among the others before it is refused. A client that is refused at once
/// comes back at once, and in an overload refusals would take most of the processor.
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
            Self::Metadata => "metadata",
            Self::LargeBodies => "large_bodies",
            Self::Replies => "replies",
            Self::LargeReplies => "large_replies",
            Self::Reading => "reading",
        }
    }

    /// Whether it is measured in bytes. Other resources are counted.
    pub(crate) fn is_in_bytes(self) -> bool {
        match self {
            Self::Connections
            | Self::Requests
            | Self::WaitingRequests
            | Self::Uploads
            | Self::Downloads
            | Self::Concatenations
            | Self::BackendCalls
            | Self::MediaReads => false,
            Self::Metadata
            | Self::LargeBodies
            | Self::Replies
            | Self::LargeReplies
            | Self::Reading => true,
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
            Self::Metadata => "memory for metadata",
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
            media_reads: Pool::of_count(LimitedResource::MediaReads, MEDIA_READS),
            metadata: Pool::of_bytes(LimitedResource::Metadata, limits.metadata_memory),
            large_bodies: Pool::for_large(LimitedResource::LargeBodies, limits.reading_memory),
            replies: Pool::of_bytes(LimitedResource::Replies, limits.reply_memory),
            large_replies: Pool::for_large(LimitedResource::LargeReplies, limits.reading_memory),
            reading: Pool::for_large(LimitedResource::Reading, limits.reading_memory),
            timeout: limits.takeover_timeout,
        }
    }

    /// Returns a place among the requests, and waits a moment for it. As many may wait as there may be connections.
    ///
    /// # Errors
    /// [`Full`] if there was none in time, or too many wait.
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
            &self.metadata,
            &self.large_bodies,
            &self.replies,
            &self.large_replies,
            &self.reading,
        ];
        pools.map(Pool::usage).into()
    }

    /// Counts the text of a reply, unless it is short, until its last reference is dropped.
    pub(crate) fn reply(&self, text: Bytes) -> Result<Bytes, Full> {
        if text.len() <= SHORT_REPLY {
            return Ok(text);
        }
        let mut permit = self.replies.permit();
        permit.resize(text.len() as u64)?;
        Ok(permit.with(text))
    }
}

/// The unit in which bytes are counted.
const KIB: u64 = 1024;

// The last eighth of a pool is for small permits, so that a few clients with large documents do not
// lock out all others. No permit has more than three quarters, so that a single large one gets as
// much although there are small ones.
/// Size in bytes up to which a permit is small.
const SMALL: u64 = 64 * KIB;

/// A bounded amount of a resource, of which requests hold permits.
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
    /// Number of units that other permits leave for small ones.
    reserved: u32,
    free: Semaphore,
    /// Tells one waiter of each importance that there may be room, by what the importance leaves. One waiter
    /// in all would not do: if it must leave what is free, others could have taken it.
    released: [Notify; 5],
    refused: AtomicU64,
}

/// Units of a pool, until dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    pool: Pool,
    units: u32,
}

impl Pool {
    /// Creates a pool of `count` things.
    pub(crate) fn of_count(resource: LimitedResource, count: usize) -> Self {
        let total = units(count as u64, 1);
        Self::new(resource, 1, total, [total, 0])
    }

    /// Creates a pool of `bytes`.
    fn of_bytes(resource: LimitedResource, bytes: u64) -> Self {
        let total = units(bytes, KIB);
        Self::new(resource, KIB, total, [total - total / 4, total / 8])
    }

    /// Creates a pool of `bytes` for large values. A value larger than the pool gets all of it, alone.
    fn for_large(resource: LimitedResource, bytes: u64) -> Self {
        let total = units(bytes, KIB);
        Self::new(resource, KIB, total, [total, 0])
    }

    fn new(
        resource: LimitedResource,
        unit: u64,
        total: u32,
        [largest, reserved]: [u32; 2],
    ) -> Self {
        Self(Arc::new(State {
            resource,
            unit,
            total,
            largest,
            reserved,
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
        self.try_take(1, true).then(|| Permit {
            pool: self.clone(),
            units: 1,
        })
    }

    /// Whether less than a quarter is left, so that it is worth to hurry those who hold something.
    pub(crate) fn is_short(&self) -> bool {
        let State { total, free, .. } = &*self.0;
        free.available_permits() < (*total / 4) as usize
    }

    /// As [`Pool::take`], and leaves the last units to what is more important. The importance is asked for only
    /// where it may matter.
    pub(crate) fn take_for(&self, importance: impl FnOnce() -> Importance) -> Result<Permit, Full> {
        self.try_take_for(importance).ok_or_else(|| self.full())
    }

    /// As [`Pool::take_for`], and what there is no room for does not count as refused.
    fn try_take_for(&self, importance: impl FnOnce() -> Importance) -> Option<Permit> {
        let has_room =
            self.has_room(Importance::Start.leaves()) || self.has_room(importance().leaves());
        has_room.then(|| self.try_take_one())?
    }

    /// Whether more is free than these sixteenths of the pool.
    fn has_room(&self, leaves: u32) -> bool {
        let State { total, free, .. } = &*self.0;
        free.available_permits() as u64 > u64::from(*total) * u64::from(leaves) / 16
    }

    /// Returns an empty permit.
    pub(crate) fn permit(&self) -> Permit {
        Permit {
            pool: self.clone(),
            units: 0,
        }
    }

    /// Waits for a permit of `amount`, in the order of the callers, at most `timeout`.
    ///
    /// The caller must hold no permit of this pool: two that hold one and wait would wait for each
    /// other.
    pub(crate) async fn wait(&self, amount: u64, timeout: Duration) -> Result<Permit, Full> {
        let taken = tokio::time::timeout(timeout, self.acquire(amount));
        taken.await.map_err(|_| self.full())
    }

    /// As [`Pool::wait`], without a timeout.
    pub(crate) async fn acquire(&self, amount: u64) -> Permit {
        let units = self.wanted(amount);
        let taken = self.0.free.acquire_many(units).await;
        // Forgotten, since the permit returns the units itself.
        taken.expect("the semaphore is never closed").forget();
        Permit {
            pool: self.clone(),
            units,
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

    /// Returns the units of an amount, at most as many as one permit may have.
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

    fn try_take(&self, units: u32, is_small: bool) -> bool {
        let State { free, reserved, .. } = &*self.0;
        let wanted = if is_small { units } else { units + reserved };
        let is_there = free.available_permits() >= wanted as usize;
        is_there
            && free
                .try_acquire_many(units)
                .map(SemaphorePermit::forget)
                .is_ok()
    }

    fn full(&self) -> Full {
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
            if more > 0 && !self.pool.try_take(more, amount <= SMALL) {
                return Err(self.pool.full());
            }
        } else {
            self.give_back(self.units - wanted);
        }
        self.units = wanted;
        Ok(())
    }

    /// As [`Permit::resize`], but waits if the permit is empty. A permit that holds units and waits
    /// for more could deadlock with another one.
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

    /// Attaches the permit to `bytes` until their last reference is dropped.
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

/// Returns an upper bound of the memory in bytes of the values parsed from a JSON text, the text
/// excluded. An array's element of two bytes becomes a value of 32, in a vector that may be half
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
mod tests {
    use super::*;

    use tokio::time::Instant;

    const TIMEOUT: Duration = Duration::from_secs(1);
    const MIB: u64 = 1024 * KIB;

    fn used(pool: &Pool) -> u64 {
        pool.usage().used
    }

    #[test]
    fn dropped_permit_is_free_again() {
        let pool = Pool::of_count(LimitedResource::Requests, 2);
        let (one, two) = (pool.take().unwrap(), pool.take().unwrap());
        assert_eq!(pool.take().unwrap_err(), Full(LimitedResource::Requests));
        drop(one);
        pool.take().unwrap();
        drop(two);
        let usage = pool.usage();
        assert_eq!((usage.used, usage.limit, usage.refused), (0, 2, 1));
    }

    #[test]
    fn permit_grows_and_shrinks() {
        let pool = Pool::of_bytes(LimitedResource::Metadata, MIB);
        let mut permit = pool.permit();
        for (amount, expected) in [(1, KIB), (100 * KIB, 100 * KIB), (60 * KIB, 60 * KIB)] {
            permit.resize(amount).unwrap();
            assert_eq!(used(&pool), expected);
        }
        let bytes = permit.with(Bytes::from_static(b"windlass"));
        assert_eq!((&bytes[..], used(&pool)), (&b"windlass"[..], 60 * KIB));
        let copy = bytes.clone();
        drop(bytes);
        assert_eq!(used(&pool), 60 * KIB);
        drop(copy);
        assert_eq!(used(&pool), 0);
    }

    #[test]
    fn large_permits_leave_room_for_small_ones() {
        let pool = Pool::of_bytes(LimitedResource::Metadata, MIB);
        let (mut small, mut large) = (pool.permit(), pool.permit());
        small.resize(SMALL).unwrap();
        large.resize(u64::MAX).unwrap();
        assert_eq!(used(&pool), MIB / 4 * 3 + SMALL);
        assert!(pool.permit().resize(SMALL + 1).is_err());
        let mut more: Vec<_> = (0..3).map(|_| pool.permit()).collect();
        for permit in &mut more {
            permit.resize(SMALL).unwrap();
        }
        assert!(pool.permit().resize(1).is_err());
        assert!(small.resize(SMALL + 1).is_err());
        assert_eq!(used(&pool), MIB, "a permit that cannot grow keeps its size");
        drop(more);
        assert!(small.resize(SMALL + 1).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn request_waits_a_moment_for_a_place_and_no_more_wait_than_there_are_connections() {
        let capacity = Capacity::new(&Limits {
            requests: 1,
            connections: 2,
            ..Limits::default()
        });
        let wait = || capacity.wait_for_request(Importance::Finish);
        let only = capacity.requests.take().unwrap();
        let begun = Instant::now();
        assert_eq!(wait().await.unwrap_err(), Full(LimitedResource::Requests));
        assert_eq!(begun.elapsed(), PLACE_WAIT);

        let begun = Instant::now();
        let end = async {
            tokio::time::sleep(PLACE_WAIT / 2).await;
            drop(only);
        };
        let (first, second, third, ()) = tokio::join!(wait(), wait(), wait(), end);
        assert!(third.is_err(), "two wait already");
        assert!(first.is_ok() && second.is_err(), "there is one place");
        assert_eq!(begun.elapsed(), PLACE_WAIT);
        let refused = [&capacity.requests, &capacity.waiting_requests].map(|it| it.usage().refused);
        assert_eq!(refused, [2, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn request_does_not_wait_behind_one_that_must_leave_the_last_places() {
        let capacity = Capacity::new(&Limits {
            requests: 16,
            ..Limits::default()
        });
        let mut all: Vec<_> = (0..16).map(|_| capacity.requests.take().unwrap()).collect();
        let begun = Instant::now();
        let modest = async {
            let modest = capacity.wait_for_request(Importance::Modest).await;
            (modest, begun.elapsed())
        };
        let end = async {
            tokio::task::yield_now().await;
            all.pop();
        };
        let start = capacity.wait_for_request(Importance::Start);
        let (start, (modest, waited), ()) = tokio::join!(start, modest, end);
        assert!(start.is_err(), "what was free is not for a start");
        assert!(modest.is_ok());
        assert_eq!(waited, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn waiters_are_served_in_order_until_their_timeout() {
        let pool = Pool::for_large(LimitedResource::Reading, MIB);
        let first = pool.wait(700 * KIB, TIMEOUT).await.unwrap();
        let refused = pool.wait(u64::MAX, TIMEOUT).await.unwrap_err();
        assert_eq!(refused, Full(LimitedResource::Reading));
        let all = pool.wait(u64::MAX, TIMEOUT);
        let behind = async {
            tokio::task::yield_now().await;
            pool.wait(1, TIMEOUT).await
        };
        let end = async {
            tokio::time::sleep(TIMEOUT / 2).await;
            drop(first);
        };
        let (all, behind, ()) = tokio::join!(all, behind, end);
        assert!(
            behind.is_err(),
            "what is large is not kept waiting by what is small"
        );
        assert_eq!(
            used(&pool),
            MIB,
            "what needs more than there is has all of it"
        );
        drop(all);
        assert_eq!(used(&pool), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn growing_permit_is_refused_instead_of_a_deadlock() {
        let pool = Pool::for_large(LimitedResource::LargeBodies, MIB);
        let (mut first, mut second) = (pool.permit(), pool.permit());
        first.resize_in_time(600 * KIB, TIMEOUT).await.unwrap();
        second.resize_in_time(400 * KIB, TIMEOUT).await.unwrap();
        let begun = tokio::time::Instant::now();
        assert!(second.resize_in_time(u64::MAX, TIMEOUT).await.is_err());
        assert_eq!(begun.elapsed(), Duration::ZERO, "it has something already");
        drop(second);
        first.resize_in_time(u64::MAX, TIMEOUT).await.unwrap();
        let mut third = pool.permit();
        assert!(third.resize_in_time(1, TIMEOUT).await.is_err());
        assert_eq!(begun.elapsed(), TIMEOUT);
    }

    #[test]
    fn json_cost_of_strings_is_low_and_of_structure_high() {
        let text = format!(r#"{{"a": "{}"}}"#, "x, [\\\" {: ".repeat(1000));
        assert!(json_cost(text.as_bytes()) < text.len() as u64 + 1000);
        for dense in [r#"{"":0},"#, "[0],", "0,", "[],"] {
            let text = dense.repeat(1000);
            assert!(
                json_cost(text.as_bytes()) > 30 * text.len() as u64,
                "{dense}"
            );
        }
    }
}
