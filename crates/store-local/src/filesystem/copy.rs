//! Copies between files, by the kernel or through memory.

use std::fs::File;
use std::io;

use rustix::io::Errno;

use super::{is_out_of_space, read_at, write_all_at};

/// Which end of a copy has failed, and why.
#[derive(Debug)]
pub(crate) enum CopyFailed {
    /// The file that is copied could not be read.
    Source(io::Error),
    /// The file that is copied has ended.
    SourceEnded,
    /// The copy could not be written.
    Target(io::Error),
}

/// Number of bytes that a copy through memory holds.
const COPY_BUFFER: u64 = 256 * 1024;

/// Copies `len` bytes of one file into another. Nothing is durable yet.
///
/// The kernel copies them, and shares the blocks where the file system can (`copy_file_range`).
/// Where it refuses, they go through memory.
pub(crate) fn copy_range(
    from: &File,
    from_offset: u64,
    to: &File,
    to_offset: u64,
    len: u64,
) -> Result<(), CopyFailed> {
    let mut done = 0;
    while done < len {
        let (at, left) = (from_offset + done, len - done);
        match copy_in_kernel(from, at, to, to_offset + done, left) {
            // The file has ended, or the file system only says so: then a read finds bytes.
            Ok(0) => return copy_through_memory(from, at, to, to_offset + done, left),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_copy_refused(&error) => {
                return copy_through_memory(from, at, to, to_offset + done, left);
            }
            Err(error) if is_out_of_space(&error) => return Err(CopyFailed::Target(error)),
            // The kernel does not say which end has failed. A read may be repeated, a write must
            // not be.
            Err(error) => return Err(which_failed(from, at, left, error)),
        }
    }
    Ok(())
}

fn which_failed(from: &File, offset: u64, len: u64, error: io::Error) -> CopyFailed {
    match read_at(from, offset, buffer_len(len)) {
        Err(error) => CopyFailed::Source(error),
        Ok(_) => CopyFailed::Target(error),
    }
}

fn copy_through_memory(
    from: &File,
    from_offset: u64,
    to: &File,
    to_offset: u64,
    len: u64,
) -> Result<(), CopyFailed> {
    let mut done = 0;
    while done < len {
        let piece = read_at(from, from_offset + done, buffer_len(len - done));
        let piece = piece.map_err(CopyFailed::Source)?;
        if piece.is_empty() {
            return Err(CopyFailed::SourceEnded);
        }
        let count = piece.len() as u64;
        let written = write_all_at(to, &[piece], to_offset + done);
        written.map_err(|stopped| CopyFailed::Target(stopped.error))?;
        done += count;
    }
    Ok(())
}

fn buffer_len(len: u64) -> usize {
    usize::try_from(len.min(COPY_BUFFER)).expect("it is at most the length of a buffer")
}

#[cfg(target_os = "linux")]
fn copy_in_kernel(
    from: &File,
    mut from_offset: u64,
    to: &File,
    mut to_offset: u64,
    len: u64,
) -> io::Result<u64> {
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    let offsets = (Some(&mut from_offset), Some(&mut to_offset));
    let copied = rustix::fs::copy_file_range(from, offsets.0, to, offsets.1, len)?;
    Ok(copied as u64)
}

#[cfg(not(target_os = "linux"))]
fn copy_in_kernel(_: &File, _: u64, _: &File, _: u64, _: u64) -> io::Result<u64> {
    Err(Errno::NOSYS.into())
}

/// Returns whether an error means that the kernel does not copy between these files, and that it
/// has copied nothing.
fn is_copy_refused(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    // Filters of system calls return NOSYS and PERM, for example in containers.
    let refusals = [
        Errno::XDEV,
        Errno::OPNOTSUPP,
        Errno::INVAL,
        Errno::NOSYS,
        Errno::PERM,
    ];
    errno.is_some_and(|errno| refusals.contains(&errno))
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    /// Where the kernel refuses to copy, or says that there is nothing, the bytes go through
    /// memory.
    #[test]
    fn copy_is_complete_with_and_without_the_kernel() {
        let bytes: Vec<u8> = (0..=250).cycle().take(600_000).collect();
        let from = tempfile::tempfile().unwrap();
        write_all_at(&from, &[&bytes], 0).unwrap();
        for copy in [copy_range, copy_through_memory] {
            let to = tempfile::tempfile().unwrap();
            write_all_at(&to, &[b"cow"], 0).unwrap();
            copy(&from, 1, &to, 3, 599_999).unwrap();
            let copied = read_at(&to, 0, 700_000).unwrap();
            assert!(copied == [b"cow", &bytes[1..]].concat());
            let longer = copy(&from, 1, &to, 3, 600_000);
            assert!(matches!(longer, Err(CopyFailed::SourceEnded)), "{longer:?}");
        }
        // The kernel copies between files only.
        let null = OpenOptions::new().write(true).open("/dev/null").unwrap();
        copy_range(&from, 0, &null, 0, 600_000).unwrap();
    }
}
