//! The functions of the C library that the simulation replaces.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{clockid_t, mode_t, off_t, pthread_attr_t, pthread_t, size_t, ssize_t, timespec};

/// The function with which a thread begins.
pub(super) type Start = extern "C" fn(*mut c_void) -> *mut c_void;

macro_rules! real {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $out:ty;)*) => {$(
        /// # Safety
        /// The same as for the function itself.
        pub(super) unsafe fn $name($($arg: $kind),*) -> $out {
            static ADDRESS: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            let address = find(&ADDRESS, concat!(stringify!($name), "\0"));
            // SAFETY: this is the next definition of the function, and the signature written here
            // is its signature. Some functions are variadic; x86-64 and arm64 Linux pass integers
            // to them as to any other function.
            unsafe {
                let function: unsafe extern "C" fn($($kind),*) -> $out = std::mem::transmute(address);
                function($($arg),*)
            }
        }
    )*};
}

real! {
    syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long;
    pthread_create(thread: *mut pthread_t, attr: *const pthread_attr_t, start: Start, arg: *mut c_void) -> c_int;
    pthread_join(thread: pthread_t, value: *mut *mut c_void) -> c_int;
    clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int;
    getrandom(buf: *mut c_void, len: size_t, flags: c_uint) -> ssize_t;
    open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    close(fd: c_int) -> c_int;
    write(fd: c_int, buf: *const c_void, len: size_t) -> ssize_t;
    pwrite64(fd: c_int, buf: *const c_void, len: size_t, offset: off_t) -> ssize_t;
    pwritev64(fd: c_int, pieces: *const libc::iovec, count: c_int, offset: off_t) -> ssize_t;
    ftruncate64(fd: c_int, len: off_t) -> c_int;
    fallocate64(fd: c_int, mode: c_int, offset: off_t, len: off_t) -> c_int;
    fsync(fd: c_int) -> c_int;
    fdatasync(fd: c_int) -> c_int;
    mkdir(path: *const c_char, mode: mode_t) -> c_int;
    unlink(path: *const c_char) -> c_int;
    statvfs64(path: *const c_char, stat: *mut libc::statvfs64) -> c_int;
}

fn find(cell: &AtomicPtr<c_void>, name: &str) -> *mut c_void {
    let known = cell.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    let name = CStr::from_bytes_with_nul(name.as_bytes()).expect("the macro ends it with a NUL");
    // SAFETY: the name is a string of C.
    let address = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    assert!(!address.is_null(), "the C library has no {name:?}");
    cell.store(address, Ordering::Relaxed);
    address
}

/// Leaves `errno` as a failed call does, and is its result: -1.
pub(super) fn fails<T: From<Failed>>(errno: c_int) -> T {
    // SAFETY: the address of the calling thread's own `errno`.
    unsafe { *libc::__errno_location() = errno };
    Failed.into()
}

/// The result of a failed call.
pub(super) struct Failed;

impl From<Failed> for c_int {
    fn from(_: Failed) -> Self {
        -1
    }
}

impl From<Failed> for c_long {
    fn from(_: Failed) -> Self {
        -1
    }
}

impl From<Failed> for ssize_t {
    fn from(_: Failed) -> Self {
        -1
    }
}

/// Writes to the standard error output without taking part in the simulation.
pub(super) fn complain(text: &str) {
    // SAFETY: the buffer is as long as the length says.
    unsafe { write(2, text.as_ptr().cast(), text.len()) };
}
