//! Limits on what one key, such as a caller, may hold at a time.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::pool::{KIB, units};

/// Limits how much each key holds at a time, so that one user of a shared resource, such as
/// connections to a service or the memory of replies, leaves some of it to other users. `K`
/// identifies users. Memory is used only for users who hold or await a permit. Clones share the
/// limits.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let shares = windlass_engine::Shares::of_count(1);
/// let alices = shares.acquire("alice", 1).await;
/// let bobs = shares.acquire("bob", 1).await;
/// drop(alices);
/// let alices_next = shares.acquire("alice", 1).await;
/// # drop((bobs, alices_next));
/// # }
/// ```
pub struct Shares<K> {
    /// Amount of one unit: 1, or 1 KiB.
    unit: u64,
    /// Maximum number of units of one user.
    most: u32,
    table: Arc<Table<K>>,
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

/// The users who hold or await a permit.
struct Table<K>(Mutex<HashMap<K, User>>);

struct User {
    free: Arc<Semaphore>,
    /// Number of permits that the user holds or awaits.
    permits: usize,
}

/// What one user holds. Dropping the permit gives it back.
#[must_use]
pub struct SharePermit<K: Eq + Hash> {
    unit: u64,
    units: OwnedSemaphorePermit,
    _entry: Entry<K>,
}

/// Keeps a user in the table while the user holds or awaits a permit.
struct Entry<K: Eq + Hash> {
    table: Arc<Table<K>>,
    user: K,
}

impl<K: Clone + Eq + Hash> Shares<K> {
    /// Allows each user `count` items at a time.
    pub fn of_count(count: usize) -> Self {
        Self::new(1, count as u64)
    }

    /// Allows each user this number of bytes at a time, counted as multiples of 1,024.
    pub fn of_bytes(bytes: u64) -> Self {
        Self::new(KIB, bytes)
    }

    fn new(unit: u64, most: u64) -> Self {
        Self {
            unit,
            most: units(most, unit),
            table: Arc::new(Table(Mutex::default())),
        }
    }

    /// Waits until the user may hold `amount` bytes or items more. An amount above the limit gets
    /// the whole share: a single large value must be possible. Waiting calls of one user are served
    /// in order.
    ///
    /// # Cancel safety
    /// This method is cancel safe. A dropped call holds nothing, and loses only its turn.
    pub async fn acquire(&self, user: K, amount: u64) -> SharePermit<K> {
        let free = self.enter(user.clone());
        // The entry exists before the wait, so that a dropped call removes itself from the table.
        let entry = Entry {
            table: Arc::clone(&self.table),
            user,
        };
        let count = units(amount, self.unit).min(self.most);
        let units = free.acquire_many_owned(count).await;
        SharePermit {
            unit: self.unit,
            units: units.expect("the semaphore is never closed"),
            _entry: entry,
        }
    }

    fn enter(&self, user: K) -> Arc<Semaphore> {
        let mut users = self.table.lock();
        let user = users.entry(user).or_insert_with(|| User {
            free: Arc::new(Semaphore::new(self.most as usize)),
            permits: 0,
        });
        user.permits += 1;
        Arc::clone(&user.free)
    }
}

impl<K: Eq + Hash> SharePermit<K> {
    /// Gives back what the permit holds above `amount` bytes or items.
    pub fn shrink(&mut self, amount: u64) {
        let kept = units(amount, self.unit) as usize;
        let excess = self.units.num_permits().saturating_sub(kept);
        drop(self.units.split(excess));
    }
}

impl<K> Table<K> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, User>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash> Drop for Entry<K> {
    fn drop(&mut self) {
        let mut users = self.table.lock();
        if let Some(user) = users.get_mut(&self.user) {
            user.permits -= 1;
            if user.permits == 0 {
                users.remove(&self.user);
            }
        }
    }
}

impl<K> Clone for Shares<K> {
    fn clone(&self) -> Self {
        Self {
            table: Arc::clone(&self.table),
            ..*self
        }
    }
}

/// Leaves out the users.
impl<K> fmt::Debug for Shares<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shares")
            .field("most", &(u64::from(self.most) * self.unit))
            .finish_non_exhaustive()
    }
}

/// Leaves out the user.
impl<K: Eq + Hash> fmt::Debug for SharePermit<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharePermit").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const MIB: u64 = 1024 * KIB;

    #[test]
    fn each_user_has_its_share_and_is_forgotten_afterwards() {
        let shares = Shares::of_count(2);
        let taken = |user| shares.acquire(user, 1).now_or_never();
        let alices = [taken("alice"), taken("alice")];
        assert!(alices.iter().all(Option::is_some));
        assert!(taken("alice").is_none());
        let bobs = taken("bob");
        assert!(bobs.is_some());
        assert_eq!(shares.table.lock().len(), 2);
        drop(bobs);
        assert_eq!(shares.table.lock().len(), 1);
        let [first, second] = alices;
        drop(first);
        drop(taken("alice").expect("one is free"));
        drop(second);
        assert!(shares.table.lock().is_empty());
    }

    #[test]
    fn each_user_holds_a_bounded_number_of_bytes() {
        let shares = Shares::of_bytes(100 * KIB);
        let taken = |user, bytes| shares.acquire(user, bytes).now_or_never();
        let mut first = taken("alice", 60 * KIB).expect("it fits");
        assert!(taken("alice", 41 * KIB).is_none());
        let bobs = taken("bob", 90 * KIB).expect("it is another user");
        first.shrink(10 * KIB);
        first.shrink(20 * KIB);
        let second = taken("alice", 90 * KIB).expect("it fits now");
        drop((first, second, bobs));
        assert!(shares.table.lock().is_empty());
    }

    #[test]
    fn single_amount_above_the_limit_is_given_alone() {
        let shares = Shares::of_bytes(100 * KIB);
        let taken = |bytes| shares.acquire("alice", bytes).now_or_never();
        let small = taken(1).expect("it fits");
        assert!(taken(MIB).is_none());
        drop(small);
        let large = taken(MIB).expect("it is alone");
        assert!(taken(1).is_none());
        drop(large);
        assert!(taken(100 * KIB).is_some());
    }

    #[tokio::test]
    async fn waiter_gets_what_is_given_back() {
        let shares = Shares::of_bytes(100 * KIB);
        let mut first = shares.acquire("alice", 100 * KIB).await;
        let waiting = shares.acquire("alice", 50 * KIB);
        tokio::pin!(waiting);
        assert!(waiting.as_mut().now_or_never().is_none());
        first.shrink(50 * KIB);
        assert!(waiting.as_mut().now_or_never().is_some());
    }
}
