//! A bound on something that many requests permit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{Full, LimitedResource, Usage};

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
    pub(super) fn of_count(resource: LimitedResource, largest: usize) -> Self {
        let total = units(largest as u64, 1);
        Self::new(resource, 1, total, [total, 0])
    }

    /// For bytes.
    pub(super) fn of_bytes(resource: LimitedResource, bytes: u64) -> Self {
        let total = units(bytes, KIB);
        Self::new(resource, KIB, total, [total - total / 4, total / 8])
    }

    /// For bytes of what is large. What needs more than there is gets all there is, alone.
    pub(super) fn for_large(resource: LimitedResource, bytes: u64) -> Self {
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

    pub(super) fn usage(&self) -> Usage {
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
}
