//! Shares of what is limited, for each of those that use it at the same time.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bounds how much one user takes at a time of what all share, such as connections to a service, so that the others
/// need not wait for it. `K` tells users apart. Memory is used for those alone that take or wait for something.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let shares = windlass_server::Shares::new(1);
/// let alices = shares.acquire("alice").await;
/// let bobs = shares.acquire("bob").await;
/// drop(alices);
/// let alices_next = shares.acquire("alice").await;
/// # drop((bobs, alices_next));
/// # }
/// ```
pub struct Shares<K> {
    most: usize,
    table: Mutex<HashMap<K, Share>>,
}

/// Who sends a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Caller {
    /// The id of a principal.
    Principal(String),
    /// Without a principal: the address, of IPv6 that of the network.
    Address(IpAddr),
    /// Neither is known.
    Unknown,
}

struct Share {
    places: Arc<Semaphore>,
    /// Number of permits that are held or waited for.
    users: usize,
}

/// A place of one user, until it is dropped.
#[must_use]
pub struct SharePermit<'a, K: Eq + Hash> {
    _place: OwnedSemaphorePermit,
    _entry: Entry<'a, K>,
}

/// Keeps the share of a user in the table.
struct Entry<'a, K: Eq + Hash> {
    shares: &'a Shares<K>,
    user: K,
}

impl<K: Clone + Eq + Hash> Shares<K> {
    /// Allows each user `most` places at a time.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            table: Mutex::default(),
        }
    }

    /// Waits for a place of this user, in the order of its calls.
    ///
    /// # Cancel safety
    /// Cancel safe: a call that is given up loses its turn and nothing else.
    pub async fn acquire(&self, user: K) -> SharePermit<'_, K> {
        let places = self.enter(user.clone());
        let entry = Entry { shares: self, user };
        let place = places.acquire_owned().await;
        SharePermit {
            _place: place.expect("the semaphore is never closed"),
            _entry: entry,
        }
    }

    fn enter(&self, user: K) -> Arc<Semaphore> {
        let mut table = self.lock();
        let share = table.entry(user).or_insert_with(|| Share {
            places: Arc::new(Semaphore::new(self.most)),
            users: 0,
        });
        share.users += 1;
        Arc::clone(&share.places)
    }
}

impl<K> Shares<K> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, Share>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash> Drop for Entry<'_, K> {
    fn drop(&mut self) {
        let mut table = self.shares.lock();
        if let Some(share) = table.get_mut(&self.user) {
            share.users -= 1;
            if share.users == 0 {
                table.remove(&self.user);
            }
        }
    }
}

/// Shows no users.
impl<K> fmt::Debug for Shares<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shares")
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}

/// Shows no user.
impl<K: Eq + Hash> fmt::Debug for SharePermit<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharePermit").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn each_user_has_its_share_and_is_forgotten_afterwards() {
        let shares = Shares::new(2);
        let taken = |user| shares.acquire(user).now_or_never();
        let alices = [taken("alice"), taken("alice")];
        assert!(alices.iter().all(Option::is_some));
        assert!(taken("alice").is_none());
        let bobs = taken("bob");
        assert!(bobs.is_some());
        assert_eq!(shares.lock().len(), 2);
        drop(bobs);
        assert_eq!(shares.lock().len(), 1);
        let [first, second] = alices;
        drop(first);
        drop(taken("alice").expect("one is free"));
        drop(second);
        assert!(shares.lock().is_empty());
    }
}
