//! The order in which uploads begin, and how many run at once.

use std::collections::VecDeque;

use windlass_client::MAX_SINGLE_REQUEST;

use super::{Job, Work};
use crate::args::TransferArgs;
use crate::display::ProgressHandle;

/// How many uploads run at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Concurrency {
    all: usize,
    /// The maximum for large media. One large upload fills the connection by itself, so further
    /// concurrent uploads would only end later.
    large: usize,
}

impl Concurrency {
    /// As chosen, or by default.
    pub(crate) fn of(args: TransferArgs) -> Self {
        match args.concurrency {
            Some(count) => Self {
                all: count.get(),
                large: count.get(),
            },
            None => Self { all: 8, large: 3 },
        }
    }
}

/// The class of an upload, by which its number is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SizeClass {
    Small,
    /// More than fits in one request, or of unknown size.
    Large,
}

impl SizeClass {
    fn of(handle: &ProgressHandle) -> Self {
        match handle.size() {
            Some(size) if size <= MAX_SINGLE_REQUEST => Self::Small,
            _ => Self::Large,
        }
    }
}

/// A job that has not begun.
pub(super) struct Queued {
    /// Its place on the command line.
    pub(super) index: usize,
    pub(super) class: SizeClass,
    pub(super) work: Work,
}

/// The jobs that have not begun, in the order of the command line.
pub(super) struct Queue {
    small: VecDeque<Queued>,
    large: VecDeque<Queued>,
    running_small: usize,
    running_large: usize,
    concurrency: Concurrency,
}

impl Queue {
    pub(super) fn new(jobs: Vec<Job>, concurrency: Concurrency) -> Self {
        let jobs = jobs.into_iter().enumerate().map(|(index, job)| Queued {
            index,
            class: SizeClass::of(&job.handle),
            work: job.work,
        });
        Self::of(jobs, concurrency)
    }

    fn of(jobs: impl Iterator<Item = Queued>, concurrency: Concurrency) -> Self {
        let (small, large) = jobs.partition(|queued| queued.class == SizeClass::Small);
        Self {
            small,
            large,
            running_small: 0,
            running_large: 0,
            concurrency,
        }
    }

    /// Returns the next job that may run now. A small job overtakes large jobs that have to wait.
    pub(super) fn next(&mut self) -> Option<Queued> {
        if self.running_small + self.running_large >= self.concurrency.all {
            return None;
        }
        let index = |queue: &VecDeque<Queued>| queue.front().map(|queued| queued.index);
        let large = index(&self.large).filter(|_| self.running_large < self.concurrency.large);
        match (index(&self.small), large) {
            (Some(small), Some(large)) if large < small => self.next_large(),
            (None, Some(_)) => self.next_large(),
            (Some(_), _) => {
                self.running_small += 1;
                self.small.pop_front()
            }
            (None, None) => None,
        }
    }

    fn next_large(&mut self) -> Option<Queued> {
        self.running_large += 1;
        self.large.pop_front()
    }

    /// Records that a job has ended.
    pub(super) fn ended(&mut self, class: SizeClass) {
        match class {
            SizeClass::Small => self.running_small -= 1,
            SizeClass::Large => self.running_large -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the indexes that run before any has ended. `L` is a large file, `s` a small one.
    fn begun(sizes: &str, concurrency: Concurrency) -> Vec<usize> {
        let mut queue = queue(sizes, concurrency);
        std::iter::from_fn(|| queue.next().map(|queued| queued.index)).collect()
    }

    fn queue(sizes: &str, concurrency: Concurrency) -> Queue {
        let queued = sizes.chars().enumerate().map(|(index, size)| Queued {
            index,
            class: if size == 'L' {
                SizeClass::Large
            } else {
                SizeClass::Small
            },
            work: Box::pin(std::future::pending()),
        });
        Queue::of(queued, concurrency)
    }

    #[test]
    fn small_files_overtake_large_ones_that_have_to_wait() {
        let limits = Concurrency { all: 4, large: 2 };
        for (sizes, expected) in [
            ("ssssss", &[0, 1, 2, 3][..]),
            ("LLLLL", &[0, 1]),
            ("LLLss", &[0, 1, 3, 4]),
            ("sLsLsL", &[0, 1, 2, 3]),
            ("", &[]),
        ] {
            assert_eq!(begun(sizes, limits), expected, "{sizes}");
        }
    }

    #[test]
    fn next_one_begins_when_one_of_its_class_has_ended() {
        let mut queue = queue("LLL", Concurrency { all: 4, large: 2 });
        while queue.next().is_some() {}
        queue.ended(SizeClass::Large);
        assert_eq!(queue.next().map(|queued| queued.index), Some(2));
    }
}
