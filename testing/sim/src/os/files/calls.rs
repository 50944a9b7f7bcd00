//! The functions of the C library by which files are changed.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use libc::{mode_t, off_t, size_t, ssize_t};

use super::super::{clock, entropy, real, threads};
use super::{Open, ROOM, with};

/// The open file behind a descriptor, if it is the machine's.
fn file(fd: c_int) -> Option<Open> {
    with(|machine| machine.open(fd)).flatten()
}

/// The path of an argument, if it is the machine's.
///
/// # Safety
/// It is a string of C.
unsafe fn path(path: *const c_char) -> Option<PathBuf> {
    // SAFETY: the caller's promise.
    let path = unsafe { CStr::from_ptr(path) };
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    with(|machine| machine.path(path)).flatten()
}

/// The time of a change is the simulation's.
fn stamp(fd: c_int) {
    let now = clock::moment(clock::calendar());
    // SAFETY: two times, as the call wants them.
    unsafe { libc::futimens(fd, [now, now].as_ptr()) };
}

/// Stands in for the function of the C library.
///
/// # Safety
/// The same as for the function itself.
#[unsafe(no_mangle)]
unsafe extern "C" fn open64(name: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the caller's argument.
    if threads::is_simulated() && unsafe { CStr::from_ptr(name) } == c"/dev/urandom" {
        return entropy::device();
    }
    // SAFETY: the caller's arguments.
    let (path, fd) = unsafe { (path(name), real::open64(name, flags, mode)) };
    if let (Some(path), 0..) = (path, fd) {
        with(|machine| machine.opened(fd, path, flags));
        if flags & libc::O_CREAT != 0 {
            stamp(fd);
        }
    }
    fd
}

/// Stands in for the function of the C library.
///
/// # Safety
/// The same as for the function itself.
#[unsafe(no_mangle)]
unsafe extern "C" fn open(name: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { open64(name, flags, mode) }
}

/// Stands in for the function of the C library.
///
/// # Safety
/// The same as for the function itself.
#[unsafe(no_mangle)]
unsafe extern "C" fn close(fd: c_int) -> c_int {
    with(|machine| machine.open.remove(&fd));
    // SAFETY: the caller's argument.
    unsafe { real::close(fd) }
}

/// Stands in for the function of the C library.
///
/// # Safety
/// The same as for the function itself.
#[unsafe(no_mangle)]
unsafe extern "C" fn write(fd: c_int, buf: *const c_void, len: size_t) -> ssize_t {
    let Some(file) = file(fd) else {
        // SAFETY: the caller's arguments.
        return unsafe { real::write(fd, buf, len) };
    };
    // SAFETY: an open descriptor.
    let offset = unsafe { libc::lseek64(fd, 0, libc::SEEK_CUR) };
    // SAFETY: the caller's arguments.
    unsafe {
        change(&file, fd, offset, bytes(buf, len), || {
            real::write(fd, buf, len)
        })
    }
}

/// Stands in for the function of the C library.
///
/// # Safety
/// The same as for the function itself.
#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite64(
    fd: c_int,
    buf: *const c_void,
    len: size_t,
    offset: off_t,
) -> ssize_t {
    // SAFETY: the caller's arguments.
    let call = || unsafe { real::pwrite64(fd, buf, len, offset) };
    match file(fd) {
        // SAFETY: the caller's arguments.
        Some(file) => change(&file, fd, offset, unsafe { bytes(buf, len) }, call),
        None => call(),
    }
}

/// Stands in for the function of the C library.
///
/// # Safety
/// The same as for the function itself.
#[unsafe(no_mangle)]
unsafe extern "C" fn pwritev64(
    fd: c_int,
    pieces: *const libc::iovec,
    count: c_int,
    offset: off_t,
) -> ssize_t {
    // SAFETY: the caller's arguments.
    let call = || unsafe { real::pwritev64(fd, pieces, count, offset) };
    let Some(file) = file(fd) else {
        return call();
    };
    threads::hesitate();
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the caller's arguments.
    let pieces = unsafe { std::slice::from_raw_parts(pieces, count) };
    let mut all = Vec::new();
    for piece in pieces {
        // SAFETY: the caller's arguments.
        all.extend(unsafe { bytes(piece.iov_base, piece.iov_len) });
    }
    change(&file, fd, offset, all, call)
}

/// Notes a write and makes it.
fn change(
    file: &Open,
    fd: c_int,
    offset: off_t,
    bytes: Vec<u8>,
    call: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let len = bytes.len();
    if let Some(Err(errno)) = with(|machine| machine.writes(file, offset, bytes)) {
        return real::fails(errno);
    }
    let written = call();
    assert_eq!(written, len.cast_signed(), "the real disk takes it all");
    stamp(fd);
    written
}

/// # Safety
/// `buf` is valid for reads of `len` bytes.
unsafe fn bytes(buf: *const c_void, len: size_t) -> Vec<u8> {
    if len == 0 {
        return Vec::new();
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(buf.cast::<u8>(), len) }.to_vec()
}

/// Stands in for the function of the C library.
///
/// # Safety
/// The same as for the function itself.
#[unsafe(no_mangle)]
unsafe extern "C" fn ftruncate64(fd: c_int, len: off_t) -> c_int {
    if let Some(file) = file(fd) {
        with(|machine| machine.cuts(&file, len));
    }
    // SAFETY: the caller's arguments.
    unsafe { real::ftruncate64(fd, len) }
}

/// Stands in for the function of the C library.
///
/// # Safety
/// The same as for the function itself.
#[unsafe(no_mangle)]
unsafe extern "C" fn fallocate64(fd: c_int, mode: c_int, offset: off_t, len: off_t) -> c_int {
    if let Some(file) = file(fd) {
        assert_eq!(mode, 0, "room is set aside, not given back or moved");
        if let Some(Err(errno)) = with(|machine| machine.allocates(&file, offset + len)) {
            return real::fails(errno);
        }
    }
    // SAFETY: the caller's arguments.
    unsafe { real::fallocate64(fd, mode, offset, len) }
}

/// Stands in for the function of the C library.
///
/// # Safety
/// The same as for the function itself.
#[unsafe(no_mangle)]
unsafe extern "C" fn fsync(fd: c_int) -> c_int {
    sync(fd).unwrap_or_else(|| {
        // SAFETY: the caller's argument.
        unsafe { real::fsync(fd) }
    })
}

/// Stands in for the function of the C library.
///
/// # Safety
/// The same as for the function itself.
#[unsafe(no_mangle)]
unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
    sync(fd).unwrap_or_else(|| {
        // SAFETY: the caller's argument.
        unsafe { real::fdatasync(fd) }
    })
}

/// The result of a sync, if the file is the machine's. The real disk has nothing to do with it.
fn sync(fd: c_int) -> Option<c_int> {
    let file = file(fd)?;
    if file.path.starts_with("vault") {
        threads::hesitate();
    }
    let synced = with(|machine| machine.syncs(&file))?;
    Some(synced.map_or_else(real::fails, |()| 0))
}

/// Stands in for the function of the C library.
///
/// # Safety
/// The same as for the function itself.
#[unsafe(no_mangle)]
unsafe extern "C" fn mkdir(name: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: the caller's arguments.
    let (path, result) = unsafe { (path(name), real::mkdir(name, mode)) };
    if let (Some(path), 0) = (path, result) {
        with(|machine| machine.makes_directory(&path));
    }
    result
}

/// Stands in for the function of the C library.
///
/// # Safety
/// The same as for the function itself.
#[unsafe(no_mangle)]
unsafe extern "C" fn unlink(name: *const c_char) -> c_int {
    // SAFETY: the caller's arguments.
    let (path, result) = unsafe { (path(name), real::unlink(name)) };
    if let (Some(path), 0) = (path, result) {
        with(|machine| machine.unlinks(&path));
    }
    result
}

/// Stands in for the function of the C library: how full a real disk is must not matter.
///
/// # Safety
/// The same as for the function itself.
#[unsafe(no_mangle)]
unsafe extern "C" fn statvfs64(name: *const c_char, stat: *mut libc::statvfs64) -> c_int {
    // SAFETY: the caller's arguments.
    let result = unsafe { real::statvfs64(name, stat) };
    if let (Some(is_full), 0) = (with(|machine| machine.is_full), result) {
        // SAFETY: the successful call has written it.
        let stat = unsafe { &mut *stat };
        stat.f_frsize = 4096;
        stat.f_blocks = ROOM / 4096;
        stat.f_bavail = if is_full { 0 } else { ROOM / 4096 };
    }
    result
}
