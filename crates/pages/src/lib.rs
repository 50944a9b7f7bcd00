//! Memory in huge pages, given out in runs.
//!
//! A direct write hands the pages of its memory to the disk. Small pages lie scattered, so that each of them is a
//! piece of its own to the kernel, and to a virtual disk often a request of its own. In a huge page as many bytes are
//! one piece: on a virtual machine direct writes from there took half the time.
//!
//! Writers of several uploads share a huge page, each with a [`Run`] of its own. That needs the product's only
//! unsafe code.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memmap2::{MmapMut, MmapRaw};

/// What a huge page is divided into, in bytes.
pub const PIECE_LEN: usize = 256 * 1024;

/// How many pieces a huge page has.
const PIECES: usize = HugePage::LEN / PIECE_LEN;
const _: () = assert!(PIECES == u8::BITS as usize, "each has a bit");

/// Memory that the kernel is asked to keep in one huge page. A kernel that has none to give, or does not know them,
/// keeps it in small ones.
///
/// It is unmapped when this and all its runs are dropped. Before it is used it costs addresses, and no memory; from the
/// first byte on it may cost all of it. Where the system promises no more memory than it has (`vm.overcommit_memory=2`),
/// twice its length is counted.
#[derive(Debug)]
pub struct HugePage(Arc<Memory>);

/// Some pieces of a [`HugePage`], side by side, for one owner; they are given back when it is dropped. What the last
/// owner wrote is still in it.
#[derive(Debug)]
pub struct Run {
    memory: Arc<Memory>,
    first: usize,
    pieces: usize,
}

#[derive(Debug)]
struct Memory {
    map: MmapRaw,
    /// Where the huge page begins in the map.
    start: usize,
    /// The pieces that are in a run, a bit each.
    taken: Mutex<u8>,
}

impl HugePage {
    /// How long it is, in bytes: as the kernel has it on `x86_64`, and on `aarch64` with pages of 4 KiB.
    pub const LEN: usize = 2 * 1024 * 1024;

    /// Maps memory for it.
    ///
    /// # Errors
    /// Those of the system: there are no addresses left, or no memory.
    pub fn map() -> io::Result<Self> {
        // As much again, so that a part of it lies right. The rest is never touched.
        let map = MmapMut::map_anon(2 * Self::LEN)?;
        let start = map.as_ptr().align_offset(Self::LEN);
        assert!(start <= Self::LEN, "the page lies in the map");
        #[cfg(target_os = "linux")]
        {
            use memmap2::Advice;
            // Without huge pages the memory is as good as any. The rest must not become one with its neighbours.
            map.advise(Advice::NoHugePage).ok();
            map.advise_range(Advice::HugePage, start, Self::LEN).ok();
        }
        Ok(Self(Arc::new(Memory {
            map: map.into(),
            start,
            taken: Mutex::default(),
        })))
    }

    /// The first run of so many pieces that is free, if there is one.
    pub fn take(&self, pieces: usize) -> Option<Run> {
        if !(1..=PIECES).contains(&pieces) {
            return None;
        }
        let mut taken = self.0.taken();
        let first = (0..=PIECES - pieces).find(|first| *taken & bits(*first, pieces) == 0)?;
        *taken |= bits(first, pieces);
        Some(Run {
            memory: Arc::clone(&self.0),
            first,
            pieces,
        })
    }

    /// How many bytes are in runs.
    pub fn taken(&self) -> usize {
        self.0.taken().count_ones() as usize * PIECE_LEN
    }
}

impl Memory {
    fn taken(&self) -> MutexGuard<'_, u8> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bits of pieces side by side.
fn bits(first: usize, pieces: usize) -> u8 {
    (u8::MAX >> (PIECES - pieces)) << first
}

impl Run {
    /// How long it is, in bytes.
    fn len(&self) -> usize {
        self.pieces * PIECE_LEN
    }

    /// Where it begins in the map.
    fn offset(&self) -> usize {
        self.memory.start + self.first * PIECE_LEN
    }
}

#[expect(unsafe_code, reason = "runs of a page have different owners")]
impl AsRef<[u8]> for Run {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the bytes lie in the map: `start` leaves room for a whole page, and the pieces are inside of that. The
        // map lives as long as `self.memory`, and the bytes are initialised: the kernel gives zeros. Only who has this
        // run writes to them, since their bits are set until it is dropped, and nobody does while it is borrowed.
        unsafe {
            let first = self.memory.map.as_ptr().add(self.offset());
            std::slice::from_raw_parts(first, self.len())
        }
    }
}

#[expect(unsafe_code, reason = "runs of a page have different owners")]
impl AsMut<[u8]> for Run {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; the run is borrowed by nobody else.
        unsafe {
            let first = self.memory.map.as_mut_ptr().add(self.offset());
            std::slice::from_raw_parts_mut(first, self.len())
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        *self.memory.taken() &= !bits(self.first, self.pieces);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_lies_as_the_kernel_wants_it() {
        let page = HugePage::map().unwrap();
        let all = page.take(PIECES).unwrap();
        assert!(all.as_ref().as_ptr().addr().is_multiple_of(HugePage::LEN));
        assert_eq!((all.len(), page.taken()), (HugePage::LEN, HugePage::LEN));
        assert!(page.take(1).is_none());
    }

    /// What the kernel knows of the map that begins at an address.
    #[cfg(target_os = "linux")]
    fn flags_of_map(begin: *const u8) -> Option<String> {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let begin = format!("{:x}-", begin.addr());
        let mut lines = maps.lines().skip_while(|line| !line.starts_with(&begin));
        lines
            .find(|line| line.starts_with("VmFlags:"))
            .map(str::to_owned)
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_kernel_is_asked_for_huge_pages_where_the_runs_are() {
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            eprintln!("SKIPPED: the kernel has no huge pages to give");
            return;
        }
        let page = HugePage::map().unwrap();
        let first = page.take(1).unwrap();
        let flags = flags_of_map(first.as_ref().as_ptr()).expect("a map begins with the page");
        assert!(flags.contains(" hg"), "{flags}");
    }

    #[test]
    fn runs_of_a_page_do_not_touch_each_other() {
        let page = HugePage::map().unwrap();
        let sizes = [1, 3, 2, 2];
        let mut runs: Vec<_> = sizes.map(|n| page.take(n).unwrap()).into();
        std::thread::scope(|scope| {
            for (n, run) in (1..).zip(&mut runs) {
                scope.spawn(move || run.as_mut().fill(n));
            }
        });
        drop(page);
        for (n, run) in (1..).zip(&runs) {
            assert_eq!(run.as_ref().len(), run.len());
            assert!(run.as_ref().iter().all(|byte| *byte == n));
        }
    }

    #[test]
    fn what_is_given_back_is_given_out_again() {
        let page = HugePage::map().unwrap();
        let (first, second) = (page.take(3).unwrap(), page.take(5).unwrap());
        let begin = first.as_ref().as_ptr();
        drop(first);
        assert_eq!(page.taken(), 5 * PIECE_LEN);
        assert!(page.take(4).is_none());
        assert_eq!(page.take(2).unwrap().as_ref().as_ptr(), begin);
        drop(second);
        assert_eq!(page.taken(), 0);
    }

    #[test]
    fn there_is_no_empty_run_and_none_longer_than_a_page() {
        let page = HugePage::map().unwrap();
        assert!(page.take(0).is_none());
        assert!(page.take(PIECES + 1).is_none());
    }
}
