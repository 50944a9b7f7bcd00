//! A bound on memory that many requests share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};

/// What is handed out at once.
const UNIT: u64 = 1024;

/// Less than this is not counted.
const SMALL: u64 = 64 * 1024;

/// Memory that is handed out in shares.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    pool: Arc<Pool>,
    /// How many units there are in all.
    total: u32,
    patience: Duration,
}

/// A share was not to be had in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoMemory;

impl Memory {
    /// So many bytes, for which a request waits at most `patience`.
    pub(crate) fn new(bytes: u64, patience: Duration) -> Self {
        let total = units(bytes).max(1);
        Self {
            pool: Arc::new(Pool::new(total)),
            total,
            patience,
        }
    }

    /// A share of `bytes`. What needs more than there is gets all there is, alone; what is small goes
    /// without.
    pub(crate) async fn reserve(&self, bytes: u64) -> Result<Option<Share>, NoMemory> {
        let mut share = self.growing();
        share.cover(bytes).await?;
        Ok(share.held)
    }

    /// A share that is nothing yet and grows with what is to be held.
    pub(crate) fn growing(&self) -> Growing {
        Growing {
            memory: self.clone(),
            held: None,
        }
    }
}

/// A share for something whose size shows only as it comes.
///
/// Whoever holds a part and waits for more keeps others from theirs. So only one at a time may: the next
/// that would have to wait is refused at once, and what it held is free. While one waits, nobody who
/// holds nothing yet is given anything. That one comes to its end then, when those have who held
/// something before, whatever the others do, and no two wait for each other.
#[derive(Debug)]
pub(crate) struct Growing {
    memory: Memory,
    held: Option<Share>,
}

impl Growing {
    /// Grows until it is as large as a share of `bytes`. It never shrinks.
    ///
    /// # Cancel safety
    /// Whoever no longer waits has kept nothing from others.
    pub(crate) async fn cover(&mut self, bytes: u64) -> Result<(), NoMemory> {
        let more = self.missing(bytes);
        if more == 0 {
            return Ok(());
        }
        let Memory { pool, patience, .. } = &self.memory;
        match &mut self.held {
            Some(held) => held.grow(more, *patience).await,
            held => {
                let share = tokio::time::timeout(*patience, pool.begin(more)).await;
                *held = Some(share.map_err(|_| NoMemory)?);
                Ok(())
            }
        }
    }

    fn missing(&self, bytes: u64) -> u32 {
        if bytes <= SMALL {
            return 0;
        }
        let held = self.held.as_ref().map_or(0, |share| share.units);
        let wanted = units(bytes).min(self.memory.total);
        wanted.saturating_sub(held)
    }
}

/// A share of the memory, until dropped.
#[derive(Debug)]
pub(crate) struct Share {
    pool: Arc<Pool>,
    units: u32,
}

impl Share {
    /// Takes more, in time.
    async fn grow(&mut self, more: u32, patience: Duration) -> Result<(), NoMemory> {
        if !self.pool.take(more, Has::Something) {
            let pool = Arc::clone(&self.pool);
            let _turn = pool.turn()?;
            let taken = pool.taken(more, Has::Something);
            let taken = tokio::time::timeout(patience, taken).await;
            taken.map_err(|_| NoMemory)?;
        }
        self.units += more;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.pool.give_back(self.units);
    }
}

/// What is left to be handed out.
#[derive(Debug)]
struct Pool {
    state: Mutex<State>,
    /// Those who hold nothing wait here, in the order in which they came; the first of them waits for memory.
    line: Semaphore,
    /// Told when something has become free, or the one who waits for more has ceased to.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    free: u32,
    /// Somebody who holds a share waits for more.
    is_awaited: bool,
}

/// Whether who asks holds a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Has {
    Something,
    Nothing,
}

impl Pool {
    fn new(units: u32) -> Self {
        let state = State {
            free: units,
            is_awaited: false,
        };
        Self {
            state: Mutex::new(state),
            line: Semaphore::new(1),
            changed: Notify::new(),
        }
    }

    /// A first share, as soon as it can be had. Nothing is put aside for it meanwhile.
    async fn begin(self: &Arc<Self>, units: u32) -> Share {
        let _first = self.line.acquire().await.expect("it is never closed");
        self.taken(units, Has::Nothing).await;
        Share {
            pool: Arc::clone(self),
            units,
        }
    }

    /// Ends when so many units are taken.
    async fn taken(&self, units: u32, has: Has) {
        loop {
            // It is told of what happens from here on.
            let changed = self.changed.notified();
            if self.take(units, has) {
                return;
            }
            changed.await;
        }
    }

    /// Takes so many units, or none.
    fn take(&self, units: u32, has: Has) -> bool {
        let mut state = self.state();
        let is_kept = has == Has::Nothing && state.is_awaited;
        let can_be_had = !is_kept && units <= state.free;
        if can_be_had {
            state.free -= units;
        }
        can_be_had
    }

    fn give_back(&self, units: u32) {
        self.state().free += units;
        self.changed.notify_waiters();
    }

    /// The right to wait for more while holding some.
    fn turn(&self) -> Result<Turn<'_>, NoMemory> {
        let mut state = self.state();
        if state.is_awaited {
            return Err(NoMemory);
        }
        state.is_awaited = true;
        Ok(Turn(self))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who holds a share waits for more.
#[derive(Debug)]
struct Turn<'a>(&'a Pool);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.state().is_awaited = false;
        self.0.changed.notify_waiters();
    }
}

fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn shares_beyond_the_whole_wait_and_are_refused_in_the_end() {
        let memory = Memory::new(1024 * 1024, PATIENCE);
        let first = memory.reserve(700 * 1024).await.unwrap();
        assert_eq!(memory.reserve(700 * 1024).await.unwrap_err(), NoMemory);
        drop(first);
        memory.reserve(700 * 1024).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_needs_more_than_there_is_gets_all_of_it() {
        let memory = Memory::new(1024 * 1024, PATIENCE);
        let all = memory.reserve(u64::MAX).await.unwrap();
        assert_eq!(memory.reserve(SMALL + 1).await.unwrap_err(), NoMemory);
        assert!(memory.reserve(SMALL).await.unwrap().is_none());
        drop(all);
        memory.reserve(SMALL + 1).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_share_that_grows_beyond_all_there_is_has_all_of_it() {
        let memory = Memory::new(1024 * 1024, PATIENCE);
        let mut growing = memory.growing();
        for bytes in [SMALL, 100 * 1024, 100 * 1024, 1000 * 1024, u64::MAX, 1] {
            growing.cover(bytes).await.unwrap();
        }
        assert_eq!(memory.pool.state().free, 0);
        drop(growing);
        memory.reserve(1024 * 1024).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_share_grows_by_what_it_lacks() {
        let memory = Memory::new(1024 * 1024, PATIENCE);
        let mut growing = memory.growing();
        growing.cover(SMALL).await.unwrap();
        assert_eq!(memory.pool.state().free, 1024);
        for kib in [100, 600, 300] {
            growing.cover(kib * 1024).await.unwrap();
        }
        assert_eq!(memory.pool.state().free, 1024 - 600);
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_that_grow_into_each_other_one_is_refused_at_once() {
        let memory = Memory::new(1024 * 1024, Duration::MAX);
        let (mut first, mut second) = (memory.growing(), memory.growing());
        first.cover(600 * 1024).await.unwrap();
        second.cover(400 * 1024).await.unwrap();
        let first = async {
            first.cover(u64::MAX).await.unwrap();
            first
        };
        let second = async move { second.cover(u64::MAX).await.unwrap_err() };
        // Nobody's patience ever ends here.
        let (first, refused) = tokio::join!(first, second);
        assert_eq!(refused, NoMemory);
        drop(first);
        memory.reserve(u64::MAX).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_gave_up_waiting_leaves_the_turn_to_others() {
        let memory = Memory::new(1024 * 1024, PATIENCE);
        let _rest = memory.reserve(800 * 1024).await.unwrap();
        let mut growing = memory.growing();
        growing.cover(100 * 1024).await.unwrap();
        for _ in 0..2 {
            let began = tokio::time::Instant::now();
            assert_eq!(growing.cover(u64::MAX).await, Err(NoMemory));
            assert_eq!(began.elapsed().as_secs(), PATIENCE.as_secs());
        }
    }
    /// Polls a wait once: it has come, and waits.
    async fn begun<F: Future>(wait: &mut std::pin::Pin<Box<F>>) {
        tokio::select! {
            biased;
            _ = wait => panic!("there is not enough"),
            () = std::future::ready(()) => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_with_nothing_keeps_nothing_from_those_who_are_at_it() {
        let memory = Memory::new(1024 * 1024, PATIENCE);
        let mut running = memory.growing();
        running.cover(600 * 1024).await.unwrap();
        let mut newcomer = Box::pin(memory.reserve(u64::MAX));
        begun(&mut newcomer).await;
        let began = tokio::time::Instant::now();
        running.cover(1000 * 1024).await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO);
        drop(running);
        newcomer.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_holds_something_comes_before_those_who_hold_nothing() {
        let memory = Memory::new(1024 * 1024, Duration::MAX);
        let (mut running, other) = (memory.growing(), memory.reserve(300 * 1024).await);
        running.cover(600 * 1024).await.unwrap();
        let mut newcomer = Box::pin(memory.reserve(100 * 1024));
        let mut another = Box::pin(memory.reserve(300 * 1024));
        begun(&mut another).await;
        let mut more = Box::pin(running.cover(900 * 1024));
        begun(&mut more).await;
        begun(&mut newcomer).await;
        drop(other);
        begun(&mut another).await;
        more.await.unwrap();
        begun(&mut another).await;
        drop(running);
        drop((another.await.unwrap(), newcomer.await.unwrap()));
        assert_eq!(memory.pool.state().free, 1024);
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_hold_nothing_are_served_in_the_order_in_which_they_came() {
        let memory = Memory::new(1024 * 1024, Duration::MAX);
        let held = memory.reserve(600 * 1024).await.unwrap();
        let mut first = Box::pin(memory.reserve(u64::MAX));
        begun(&mut first).await;
        let mut second = Box::pin(memory.reserve(100 * 1024));
        begun(&mut second).await;
        drop(held);
        begun(&mut second).await;
        let all = first.await.unwrap();
        begun(&mut second).await;
        drop(all);
        second.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn waits_that_are_given_up_leave_nothing_behind() {
        let memory = Memory::new(1024 * 1024, PATIENCE);
        let mut running = memory.growing();
        running.cover(600 * 1024).await.unwrap();
        let other = memory.reserve(300 * 1024).await.unwrap();
        let mut more = Box::pin(running.cover(u64::MAX));
        begun(&mut more).await;
        let mut newcomer = Box::pin(memory.reserve(100 * 1024));
        begun(&mut newcomer).await;
        let mut behind = Box::pin(memory.reserve(120 * 1024));
        begun(&mut behind).await;
        // With the wait for more it ends too that newcomers have to wait.
        drop(more);
        drop(newcomer);
        behind.await.unwrap();
        drop((running, other));
        assert_eq!(memory.pool.state().free, 1024);
    }
}
