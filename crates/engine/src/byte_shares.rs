//! Limits on the bytes that each caller may hold of shared memory, such as the memory of large
//! replies.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Limits the bytes that one user holds at a time, so that a slow user leaves bytes to other users.
/// `K` identifies users. Memory is used only for users who hold bytes.
///
/// An amount above the limit is given to a user who holds nothing: a single large value must be
/// possible.
pub struct ByteShares<K> {
    most: u64,
    /// Bytes held by each user. Never 0.
    held: Mutex<HashMap<K, u64>>,
    /// Wakes all waiters when a user has given bytes back.
    released: Notify,
}

/// Bytes of one user. Dropping them gives them back.
#[must_use]
pub struct ByteShare<K: Eq + Hash> {
    shares: Arc<ByteShares<K>>,
    user: K,
    bytes: u64,
}

impl<K: Clone + Eq + Hash> ByteShares<K> {
    /// Allows each user `most` bytes at a time.
    pub fn new(most: u64) -> Self {
        Self {
            most,
            held: Mutex::default(),
            released: Notify::new(),
        }
    }

    /// Waits until the user may hold `bytes` more.
    ///
    /// # Cancel safety
    /// This method is cancel safe. A dropped call holds nothing.
    pub async fn acquire(self: &Arc<Self>, user: K, bytes: u64) -> ByteShare<K> {
        // One byte at least, so that the table forgets a user only after its last share.
        let bytes = bytes.max(1);
        loop {
            // Created before the table is read, so that a release in between is not missed.
            let released = self.released.notified();
            if self.try_take(&user, bytes) {
                let shares = Arc::clone(self);
                return ByteShare {
                    shares,
                    user,
                    bytes,
                };
            }
            released.await;
        }
    }

    fn try_take(&self, user: &K, bytes: u64) -> bool {
        let mut held = self.lock();
        let all = held.get(user).copied().unwrap_or(0).saturating_add(bytes);
        let fits = all <= self.most || all == bytes;
        if fits {
            held.insert(user.clone(), all);
        }
        fits
    }
}

impl<K> ByteShares<K> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, u64>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash> ByteShare<K> {
    /// Gives back bytes, so that the share covers `bytes` and no more.
    pub fn shrink(&mut self, bytes: u64) {
        let bytes = bytes.max(1);
        if bytes < self.bytes {
            self.give_back(self.bytes - bytes);
            self.bytes = bytes;
        }
    }

    fn give_back(&self, bytes: u64) {
        let mut held = self.shares.lock();
        if let Some(all) = held.get_mut(&self.user) {
            *all -= bytes;
            if *all == 0 {
                held.remove(&self.user);
            }
        }
        drop(held);
        self.shares.released.notify_waiters();
    }
}

impl<K: Eq + Hash> Drop for ByteShare<K> {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

/// Leaves out the users.
impl<K> fmt::Debug for ByteShares<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByteShares")
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}

/// Leaves out the user.
impl<K: Eq + Hash> fmt::Debug for ByteShare<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByteShare")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn each_user_holds_a_bounded_number_of_bytes() {
        let shares = Arc::new(ByteShares::new(100));
        let taken = |user, bytes| shares.acquire(user, bytes).now_or_never();
        let mut first = taken("alice", 60).expect("it fits");
        assert!(taken("alice", 41).is_none());
        let bobs = taken("bob", 90).expect("it is another user");
        first.shrink(10);
        let second = taken("alice", 90).expect("it fits now");
        drop((first, second, bobs));
        assert!(shares.lock().is_empty());
    }

    #[test]
    fn single_amount_above_the_bound_is_given_alone() {
        let shares = Arc::new(ByteShares::new(100));
        let taken = |bytes| shares.acquire("alice", bytes).now_or_never();
        let small = taken(1).expect("it fits");
        assert!(taken(1000).is_none());
        drop(small);
        let large = taken(1000).expect("it is alone");
        assert!(taken(0).is_none());
        drop(large);
        assert!(taken(100).is_some());
    }

    #[tokio::test]
    async fn waiter_gets_what_is_given_back() {
        let shares = Arc::new(ByteShares::new(100));
        let first = shares.acquire("alice", 100).await;
        let waiting = shares.acquire("alice", 100);
        tokio::pin!(waiting);
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(first);
        assert!(waiting.as_mut().now_or_never().is_some());
    }
}
