//! Randomness that follows from the seed: names of sessions and media, keys of hash maps, SQLite's
//! salts.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::{Mutex, PoisonError};

use libc::{size_t, ssize_t};
use windlass_testkit::rng::Rng;

use super::{real, threads};

static SOURCE: Mutex<Option<Rng>> = Mutex::new(None);

const PURPOSE: u64 = 1;

pub(super) fn begin(seed: u64) {
    let mut source = SOURCE.lock().unwrap_or_else(PoisonError::into_inner);
    *source = Some(Rng::for_purpose(seed, PURPOSE));
}

/// Fills a buffer, if the simulation has begun.
fn fill(buf: &mut [u8]) -> bool {
    let mut source = SOURCE.lock().unwrap_or_else(PoisonError::into_inner);
    source.as_mut().map(|rng| rng.fill(buf)).is_some()
}

/// Stands in for the function of the C library.
///
/// # Safety
/// `buf` is valid for writes of `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buf: *mut c_void, len: size_t, flags: c_uint) -> ssize_t {
    if threads::is_simulated() {
        if len == 0 {
            return 0;
        }
        // SAFETY: the caller's promise.
        let buf = unsafe { std::slice::from_raw_parts_mut(buf.cast::<u8>(), len) };
        if fill(buf) {
            return len.cast_signed();
        }
    }
    // SAFETY: the caller's arguments.
    unsafe { real::getrandom(buf, len, flags) }
}

/// Returns a file with as many random bytes as any caller reads, in place of `/dev/urandom`.
pub(super) fn device() -> c_int {
    let mut bytes = [0; 4096];
    fill(&mut bytes);
    // SAFETY: a name that is a string of C, a buffer that is as long as is said, an open
    // descriptor.
    unsafe {
        let fd = libc::memfd_create(c"urandom".as_ptr(), libc::MFD_CLOEXEC);
        real::write(fd, bytes.as_ptr().cast(), bytes.len());
        libc::lseek(fd, 0, libc::SEEK_SET);
        fd
    }
}
