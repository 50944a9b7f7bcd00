//! Bounds on what clients can make the server hold.
//!
//! Each resource is counted in one [`Pool`], created in [`Capacity::new`]. A request that does not
//! fit is refused with 503 by the table of errors. docs/configuration.md lists all bounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::config::Limits;

/// Files that are open at the same time because a handler reads media, or because a digest is computed from it.
pub const MEDIA_READS: usize = 64;

/// A reply up to this length does not count: the limit on requests bounds all of them together, and an upload must not fail
/// at its end because other clients take no replies.
pub(crate) const SHORT_REPLY: usize = 4 * 1024;

/// What clients can make the server hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitedResource {
    /// Connections.
    Connections,
    /// Requests from their head until their reply is sent. Over HTTP/2 these are streams.
    Requests,
    /// Uploads that go on. Each may have a file open.
    Uploads,
    /// Downloads that go on. Each may have a file open.
    Downloads,
    /// Files that are open because media is looked into.
    MediaReads,
    /// Bytes of heads, of JSON that comes with requests, and of what it becomes in memory.
    Metadata,
    /// Bytes of JSON with media inside, on its way in.
    LargeBodies,
    /// Bytes of replies, media too, and of what they are made from.
    Replies,
    /// Bytes of JSON with media inside, on its way out.
    LargeReplies,
    /// Bytes of media that is read as a whole.
    Reading,
}

/// There is no room for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the limit on {} is reached; try again", .0.text())]
pub struct Full(pub(crate) LimitedResource);

/// How much there is of something that clients can make the server hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Of what.
    pub resource: LimitedResource,
    /// How much there is: bytes, in steps of 1 KiB, or a number.
    pub used: u64,
    /// How much there may be.
    pub limit: u64,
    /// How often something was refused.
    pub refused: u64,
}

/// The pools.
#[derive(Debug)]
pub(crate) struct Capacity {
    pub(crate) connections: Pool,
    pub(crate) requests: Pool,
    pub(crate) uploads: Pool,
    pub(crate) downloads: Pool,
    pub(crate) media_reads: Pool,
    pub(crate) metadata: Pool,
    pub(crate) large_bodies: Pool,
    pub(crate) replies: Pool,
    pub(crate) large_replies: Pool,
    pub(crate) reading: Pool,
    /// How long a request waits where waiting helps.
    pub(crate) timeout: Duration,
}

impl LimitedResource {
    fn text(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Requests => "requests at the same time",
            Self::Uploads => "uploads at the same time",
            Self::Downloads => "downloads at the same time",
            Self::MediaReads | Self::Reading => "media that is looked into",
            Self::Metadata => "metadata in memory",
            Self::LargeBodies => "JSON with media in memory",
            Self::Replies | Self::LargeReplies => "replies in memory",
        }
    }
}

impl Capacity {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            connections: Pool::of_count(LimitedResource::Connections, limits.connections),
            requests: Pool::of_count(LimitedResource::Requests, limits.requests),
            uploads: Pool::of_count(LimitedResource::Uploads, limits.uploads),
            downloads: Pool::of_count(LimitedResource::Downloads, limits.downloads),
            media_reads: Pool::of_count(LimitedResource::MediaReads, MEDIA_READS),
            metadata: Pool::of_bytes(LimitedResource::Metadata, limits.metadata_memory),
            large_bodies: Pool::for_large(LimitedResource::LargeBodies, limits.reading_memory),
            replies: Pool::of_bytes(LimitedResource::Replies, limits.reply_memory),
            large_replies: Pool::for_large(LimitedResource::LargeReplies, limits.reading_memory),
            reading: Pool::for_large(LimitedResource::Reading, limits.reading_memory),
            timeout: limits.takeover_timeout,
        }
    }

    /// How much there is of everything.
    pub(crate) fn usage(&self) -> Vec<Usage> {
        let pools = [
            &self.connections,
            &self.requests,
            &self.uploads,
            &self.downloads,
            &self.media_reads,
            &self.metadata,
            &self.large_bodies,
            &self.replies,
            &self.large_replies,
            &self.reading,
        ];
        pools.map(Pool::usage).into()
    }

    /// A reply's text, which counts until nobody needs it any more, unless it is short.
    pub(crate) fn reply(&self, text: Bytes) -> Result<Bytes, Full> {
        if text.len() <= SHORT_REPLY {
            return Ok(text);
        }
        let mut permit = self.replies.permit();
        permit.resize(text.len() as u64)?;
        Ok(permit.with(text))
    }
}

/// In what steps bytes are counted.
const KIB: u64 = 1024;

/// A permit of a pool of bytes is small up to this. The last eighth of the pool is for small ones, so that a few clients
/// with large documents do not lock out all others; and no permit has more than three quarters, so that one alone gets as
/// much although there are small ones.
const SMALL: u64 = 64 * KIB;

/// A bound, and how much is left until it is reached.
#[derive(Debug, Clone)]
pub(crate) struct Pool(Arc<State>);

#[derive(Debug)]
struct State {
    resource: LimitedResource,
    /// What one unit stands for.
    unit: u64,
    total: u32,
    /// The most that one permit has, unless it is small, and what others leave for small ones.
    largest: u32,
    reserved: u32,
    free: Semaphore,
    refused: AtomicU64,
}

/// A part of a pool, until dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    pool: Pool,
    units: u32,
}

impl Pool {
    /// For things, each of which counts as one.
    fn of_count(resource: LimitedResource, largest: usize) -> Self {
        let total = units(largest as u64, 1);
        Self::new(resource, 1, total, [total, 0])
    }

    /// For bytes.
    fn of_bytes(resource: LimitedResource, bytes: u64) -> Self {
        let total = units(bytes, KIB);
        Self::new(resource, KIB, total, [total - total / 4, total / 8])
    }

    /// For bytes of what is large. What needs more than there is gets all there is, alone.
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
            refused: AtomicU64::new(0),
        }))
    }

    /// One thing.
    pub(crate) fn take(&self) -> Result<Permit, Full> {
        let mut permit = self.permit();
        permit.resize(1)?;
        Ok(permit)
    }

    /// A permit that is nothing yet.
    pub(crate) fn permit(&self) -> Permit {
        Permit {
            pool: self.clone(),
            units: 0,
        }
    }

    /// A permit of so much, for which the caller waits behind those who came earlier. The caller must have no permit of
    /// this pool: two that wait with one would wait for each other.
    pub(crate) async fn wait(&self, amount: u64, timeout: Duration) -> Result<Permit, Full> {
        let taken = tokio::time::timeout(timeout, self.acquire(amount));
        taken.await.map_err(|_| self.full())
    }

    /// As [`Pool::wait`], without an end.
    pub(crate) async fn acquire(&self, amount: u64) -> Permit {
        let units = self.wanted(amount);
        let taken = self.0.free.acquire_many(units).await;
        taken.expect("it is never closed").forget();
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

    /// The units for an amount, as far as one permit can have them.
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
    /// Makes it as large as this amount.
    ///
    /// # Errors
    /// When there is not so much. It is as large as before then.
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

    /// As [`Permit::resize`], but waits if the permit holds nothing yet.
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

    /// Bytes that keep this permit until the last of them is dropped.
    pub(crate) fn with(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(BytesWithPermit {
            bytes,
            _permit: self,
        })
    }

    fn give_back(&self, units: u32) {
        self.pool.0.free.add_permits(units as usize);
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

/// At least as many bytes as the values take that are read from a JSON text, in addition to the text: an element of an array of
/// two bytes becomes one of 32, in a vector that may be half empty, and an object has a table.
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

    const TIMEOUT: Duration = Duration::from_secs(1);
    const MIB: u64 = 1024 * KIB;

    fn used(pool: &Pool) -> u64 {
        pool.usage().used
    }

    #[test]
    fn what_is_dropped_is_free_again() {
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
    fn a_share_grows_and_shrinks_by_what_it_lacks() {
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
    fn large_shares_leave_room_for_small_ones() {
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
        assert_eq!(used(&pool), MIB, "a share that cannot grow stays");
        drop(more);
        assert!(small.resize(SMALL + 1).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_has_an_order_and_an_end() {
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
    async fn of_two_that_grow_into_each_other_one_goes_on() {
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
    fn text_costs_little_more_than_its_length_and_structure_many_times_as_much() {
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
