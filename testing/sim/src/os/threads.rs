//! One thread at a time.
//!
//! The threads of the simulation are real threads, and all but one wait for their turn. A turn ends
//! where a thread waits for another (Rust's locks, conditions and parking all use the futex;
//! joining), where it has woken another, now and then, and where it asks for it. The next thread
//! follows from the seed.
//!
//! Whole families of interleavings are tried in this way, and each can be repeated. Two threads
//! never touch the same memory at once, so data races are left to other tools.

use std::cell::Cell;
use std::ffi::{c_int, c_long, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::{pthread_attr_t, pthread_t};
use windlass_testkit::rng::Rng;

use super::real::{self, Start};

const PURPOSE: u64 = 2;

/// A thread that wakes another continues, except once in this number of times.
const YIELDS_ONCE_IN: u64 = 4;

/// Between two moments of simulated time all threads come to rest, except once in this number of
/// times.
const LAGS_ONCE_IN: u64 = 16;

static SCHEDULE: Mutex<Option<Schedule>> = Mutex::new(None);

thread_local! {
    static ME: Cell<Option<usize>> = const { Cell::new(None) };
}

struct Schedule {
    threads: Vec<Thread>,
    rng: Rng,
    /// Counts waits, so that the thread with the longest wait is woken first.
    waits: u64,
}

struct Thread {
    state: State,
    /// 1 when it is its turn.
    turn: &'static AtomicU32,
    handle: pthread_t,
    timed_out: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Ready,
    /// Runs only when no ready thread is left, or when the ready threads are meant to be late.
    Resting,
    Waiting {
        address: usize,
        number: u64,
        has_limit: bool,
    },
    Joining(usize),
    Done,
}

/// Begins with the calling thread.
pub(super) fn begin(seed: u64) {
    ME.set(Some(0));
    *lock() = Some(Schedule {
        threads: vec![Thread::new(State::Running)],
        rng: Rng::for_purpose(seed, PURPOSE),
        waits: 0,
    });
}

/// Whether the calling thread is one of the simulation's.
pub(super) fn is_simulated() -> bool {
    ME.get().is_some()
}

/// Lets all ready threads run until all wait, or now and then not quite so long.
pub(crate) fn rest() {
    give_way(State::Resting);
}

/// Now and then lets another thread go first.
pub(super) fn hesitate() {
    if with(|schedule| schedule.rng.once_in(YIELDS_ONCE_IN)) {
        give_way(State::Ready);
    }
}

/// Passes the turn on, and returns at this thread's next turn.
fn give_way(state: State) {
    let Some(me) = ME.get() else {
        return;
    };
    let (next, turn) = with(|schedule| {
        schedule.threads[me].state = state;
        let next = schedule.next();
        (next, schedule.threads[me].turn)
    });
    if next.0 != me {
        hand_over(next.1);
        wait_for(turn);
    }
}

fn hand_over(turn: &AtomicU32) {
    turn.store(1, Ordering::Release);
    futex(turn, libc::FUTEX_WAKE, 1);
}

fn wait_for(turn: &AtomicU32) {
    while turn.swap(0, Ordering::Acquire) == 0 {
        futex(turn, libc::FUTEX_WAIT, 0);
    }
}

fn futex(word: &AtomicU32, operation: c_int, value: c_long) {
    let operation = c_long::from(operation | libc::FUTEX_PRIVATE_FLAG);
    let address = word.as_ptr() as c_long;
    // SAFETY: the word lives for ever, and there is no limit to the wait.
    unsafe { real::syscall(libc::SYS_futex, address, operation, value, 0, 0, 0) };
}

impl Schedule {
    /// Chooses the next thread, when no thread runs.
    fn next(&mut self) -> (usize, &'static AtomicU32) {
        let resting = self.find(|state| state == State::Resting);
        let ready: Vec<usize> = self.all(|state| state == State::Ready);
        let lags = resting.is_some() && !ready.is_empty() && self.rng.once_in(LAGS_ONCE_IN);
        let next = match resting {
            Some(resting) if lags || ready.is_empty() => resting,
            _ if !ready.is_empty() => self.rng.pick(&ready),
            _ => self.first_to_time_out(),
        };
        let thread = &mut self.threads[next];
        thread.state = State::Running;
        (next, thread.turn)
    }

    /// When all wait, time passes until one has waited long enough.
    fn first_to_time_out(&mut self) -> usize {
        let next = self.find(|state| {
            matches!(
                state,
                State::Waiting {
                    has_limit: true,
                    ..
                }
            )
        });
        let Some(next) = next else {
            let states: Vec<State> = self.threads.iter().map(|thread| thread.state).collect();
            super::real::complain(&format!("every thread waits for another: {states:?}\n"));
            std::process::abort();
        };
        self.threads[next].timed_out = true;
        next
    }

    /// Makes up to `most` threads ready that wait at an address. Returns how many.
    fn wake(&mut self, address: usize, most: usize) -> usize {
        let waiting = |state| match state {
            State::Waiting {
                address: at,
                number,
                ..
            } if at == address => Some(number),
            _ => None,
        };
        let mut woken: Vec<(u64, usize)> = (self.threads.iter().enumerate())
            .filter_map(|(index, thread)| waiting(thread.state).map(|number| (number, index)))
            .collect();
        woken.sort_unstable();
        woken.truncate(most);
        for (_, index) in &woken {
            self.threads[*index].state = State::Ready;
        }
        woken.len()
    }

    fn find(&self, is: impl Fn(State) -> bool) -> Option<usize> {
        self.threads.iter().position(|thread| is(thread.state))
    }

    fn all(&self, is: impl Fn(State) -> bool) -> Vec<usize> {
        let threads = self.threads.iter().enumerate();
        threads
            .filter(|(_, thread)| is(thread.state))
            .map(|(index, _)| index)
            .collect()
    }
}

impl Thread {
    fn new(state: State) -> Self {
        Self {
            state,
            turn: Box::leak(Box::new(AtomicU32::new(0))),
            handle: 0,
            timed_out: false,
        }
    }
}

fn lock() -> MutexGuard<'static, Option<Schedule>> {
    SCHEDULE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with<T>(act: impl FnOnce(&mut Schedule) -> T) -> T {
    act(lock()
        .as_mut()
        .expect("threads of the simulation come after its beginning"))
}

/// Stands in for the function of the C library, by which Rust waits and wakes.
///
/// # Safety
/// The same as for the requested call.
#[expect(
    clippy::many_single_char_names,
    reason = "what they mean depends on the number"
)]
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    if number == libc::SYS_futex && is_simulated() {
        let operation = c_int::try_from(b).unwrap_or_default()
            & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
        match operation {
            libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => {
                // SAFETY: the caller's word, which is there as long as the call.
                let word = unsafe { &*ptr::with_exposed_provenance::<AtomicU32>(address(a)) };
                return wait(word, c, d != 0);
            }
            libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => {
                return wake(address(a), c);
            }
            _ => {}
        }
    }
    // SAFETY: the caller's arguments.
    unsafe { real::syscall(number, a, b, c, d, e, f) }
}

fn address(argument: c_long) -> usize {
    usize::try_from(argument.cast_unsigned()).expect("an address")
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the kernel looks at 32 bits"
)]
fn wait(word: &AtomicU32, expected: c_long, has_limit: bool) -> c_long {
    if word.load(Ordering::Relaxed) != expected as u32 {
        return real::fails(libc::EAGAIN);
    }
    let number = with(|schedule| {
        schedule.waits += 1;
        schedule.waits
    });
    give_way(State::Waiting {
        address: word.as_ptr().expose_provenance(),
        number,
        has_limit,
    });
    let me = ME.get().expect("it waited in the simulation");
    if with(|schedule| std::mem::take(&mut schedule.threads[me].timed_out)) {
        return real::fails(libc::ETIMEDOUT);
    }
    0
}

fn wake(address: usize, most: c_long) -> c_long {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let woken = with(|schedule| schedule.wake(address, most));
    if woken > 0 {
        hesitate();
    }
    c_long::try_from(woken).expect("there are few threads")
}

/// A thread's own beginning, and its place in the simulation.
struct Beginning {
    start: Start,
    arg: *mut c_void,
    index: usize,
    turn: &'static AtomicU32,
}

/// Stands in for the function of the C library.
///
/// # Safety
/// The same as for the function itself.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attr: *const pthread_attr_t,
    start: Start,
    arg: *mut c_void,
) -> c_int {
    if !is_simulated() {
        // SAFETY: the caller's arguments.
        return unsafe { real::pthread_create(thread, attr, start, arg) };
    }
    let newcomer = Thread::new(State::Ready);
    let turn = newcomer.turn;
    let index = with(|schedule| {
        schedule.threads.push(newcomer);
        schedule.threads.len() - 1
    });
    let beginning = Beginning {
        start,
        arg,
        index,
        turn,
    };
    let beginning = Box::into_raw(Box::new(beginning));
    // SAFETY: the caller's arguments; the box belongs to the new thread.
    let result = unsafe { real::pthread_create(thread, attr, run, beginning.cast()) };
    assert_eq!(result, 0, "the system has no thread left");
    // SAFETY: it was written by the successful call.
    let handle = unsafe { *thread };
    with(|schedule| schedule.threads[index].handle = handle);
    result
}

extern "C" fn run(beginning: *mut c_void) -> *mut c_void {
    // SAFETY: it comes from `pthread_create`, and to this thread only.
    let Beginning {
        start,
        arg,
        index,
        turn,
    } = *unsafe { Box::from_raw(beginning.cast::<Beginning>()) };
    wait_for(turn);
    ME.set(Some(index));
    let value = start(arg);
    let next = with(|schedule| {
        for other in schedule.all(|state| state == State::Joining(index)) {
            schedule.threads[other].state = State::Ready;
        }
        schedule.threads[index].state = State::Done;
        schedule.next()
    });
    ME.set(None);
    hand_over(next.1);
    value
}

/// Stands in for the function of the C library.
///
/// # Safety
/// The same as for the function itself.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_join(thread: pthread_t, value: *mut *mut c_void) -> c_int {
    if is_simulated() {
        let running = with(|schedule| {
            let found = |other: &Thread| other.handle == thread && other.state != State::Done;
            schedule.threads.iter().position(found)
        });
        if let Some(running) = running {
            give_way(State::Joining(running));
        }
    }
    // SAFETY: the caller's arguments.
    unsafe { real::pthread_join(thread, value) }
}
