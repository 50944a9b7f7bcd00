//! Limits on concurrent use per key, such as per caller.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limits how many permits each key holds at a time, so that one user of a shared resource, such as
/// connections to a service, does not keep other users waiting. `K` identifies users. Memory is
/// used only for users who hold or await a permit.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let shares = windlass_engine::Shares::new(1);
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

/// Maximum number of callers of which a table of limits remembers more than what they hold now.
pub const MAX_CALLERS: usize = 10_000;

/// The sender of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Caller {
    /// The id of a principal.
    Principal(String),
    /// The address of a caller without a principal. An IPv6 address is replaced by its /64 network.
    Address(IpAddr),
    /// Neither the principal nor the address is known.
    Unknown,
}

struct Share {
    places: Arc<Semaphore>,
    /// Number of permits that the user holds or awaits.
    users: usize,
}

/// A permit of one user. Dropping it releases the permit.
#[must_use]
pub struct SharePermit<'a, K: Eq + Hash> {
    _place: OwnedSemaphorePermit,
    _entry: Entry<'a, K>,
}

/// Keeps a user's entry in the table while the user holds or awaits a permit.
struct Entry<'a, K: Eq + Hash> {
    shares: &'a Shares<K>,
    user: K,
}

impl<K: Clone + Eq + Hash> Shares<K> {
    /// Allows each user `most` permits at a time.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            table: Mutex::default(),
        }
    }

    /// Waits for a permit of this user. Waiting calls of one user are served in order.
    ///
    /// # Cancel safety
    /// This method is cancel safe. A dropped call loses only its turn.
    pub async fn acquire(&self, user: K) -> SharePermit<'_, K> {
        let places = self.enter(user.clone());
        let entry = Entry { shares: self, user };
        // The entry exists before the wait, so that a dropped call removes itself from the table.
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

/// Leaves out the users.
impl<K> fmt::Debug for Shares<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shares")
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}

/// Leaves out the user.
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
